"""Deciding with buttons where ipywidgets can show them; elsewhere the calls to make, as text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from onward_ledger.database import DatabaseError
from onward_ledger.errors import LedgerError
from runs.commands.output import visible
from runs.errors import RunError
from runs.notebook.table import facts_html

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from runs.notebook.view import Proposal, RunView

_CALLS = """\
Decide in a cell (`run` is the run):
  run.approve()
  run.edit(title="…")            also note="…", resource="reports/…"
  run.revise("what to change")   the draft is written again
  run.reject("why")              nothing is published"""


def ask(run: RunView) -> Buttons | Calls:
    """Buttons, if ipywidgets is there and a kernel that can show it; else the calls."""
    proposal = run.proposal()
    widgets = _widgets()
    if proposal is None or widgets is None:
        return Calls(proposal, run.status)
    return Buttons(run, proposal, widgets)


def _widgets() -> ModuleType | None:
    try:
        import ipywidgets
        from IPython.core.getipython import get_ipython
    except ImportError:
        return None
    shell = get_ipython()
    return ipywidgets if shell is not None and getattr(shell, "kernel", None) is not None else None


class Calls:
    """What to call to decide."""

    def __init__(self, proposal: Proposal | None, status: str) -> None:
        self._proposal = proposal
        self._status = status

    def __repr__(self) -> str:
        if self._proposal is None:
            return f"Nothing waits for a decision: the run is {self._status}."
        return f"Proposed: {visible(self._proposal.title)} at {visible(self._proposal.resource)}\n{_CALLS}"


class Buttons:
    """Title, note and resource to edit, and the decisions. A click does what the call of the same name does."""

    def __init__(self, run: RunView, proposal: Proposal, widgets: ModuleType) -> None:
        self._run = run
        self._proposal = proposal
        wide = widgets.Layout(width="36em")
        self.title = widgets.Text(value=proposal.title, description="Title", layout=wide)
        self.note = widgets.Text(value=proposal.note, description="Note", layout=wide)
        self.resource = widgets.Text(value=proposal.resource, description="Resource", layout=wide)
        self.reason = widgets.Text(description="Reason", placeholder="to send back or reject", layout=wide)
        self.approve = widgets.Button(description="Approve", button_style="success")
        self.revise = widgets.Button(description="Send back")
        self.reject = widgets.Button(description="Reject", button_style="danger")
        self.output = widgets.Output()
        self._all = (self.approve, self.revise, self.reject)
        self._on(self.approve, self._approve)
        self._on(self.revise, lambda: run.revise(self.reason.value))
        self._on(self.reject, lambda: run.reject(self.reason.value))
        facts = facts_html([("Report digest", proposal.digest)])
        rows = (self.title, self.note, self.resource, self.reason, widgets.HBox(self._all), self.output)
        self.box = widgets.VBox([widgets.HTML(facts), *rows])

    def _on(self, button: Any, decide: Callable[[], RunView]) -> None:
        def clicked(_: object) -> None:
            self._do(decide)

        button.on_click(clicked)

    def _approve(self) -> RunView:
        """Approve as proposed, or with what was changed in the fields."""
        fields = {"title": self.title.value, "note": self.note.value, "resource": self.resource.value}
        changes = {name: value for name, value in fields.items() if value != getattr(self._proposal, name)}
        return self._run.edit(**changes) if changes else self._run.approve()

    def _do(self, decide: Callable[[], RunView]) -> None:
        self._enable(False)
        with self.output:
            try:
                decide()
            except (RunError, LedgerError, DatabaseError) as error:
                print(visible(error))  # noqa: T201 - into the output below the buttons
            self._show_what_follows()

    def _show_what_follows(self) -> None:
        """The same proposal still waits (a reason was missing, say): once more. Another one: its own buttons."""
        from IPython.display import display

        now = self._run.proposal()
        if now is not None and now.action_id == self._proposal.action_id:
            self._enable(True)
        elif now is not None:
            display(ask(self._run))
        else:
            display(self._run)

    def _enable(self, on: bool) -> None:
        for button in self._all:
            button.disabled = not on

    def __repr__(self) -> str:
        return repr(Calls(self._proposal, "waiting_human"))

    def _repr_mimebundle_(self, **given: Any) -> dict[str, Any]:
        """The widgets; the calls as text for a front end that shows none, such as a page on the web."""
        bundle: Any = self.box._repr_mimebundle_(**given)
        data: dict[str, Any] = bundle[0] if isinstance(bundle, tuple) else bundle
        return {**data, "text/plain": repr(self)}
