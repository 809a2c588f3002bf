"""A run as an object of a notebook: it holds the run's id only, and reads everything else when it is asked."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onward_ledger.database import Row
from onward_ledger.objects import Objects
from onward_ledger.store import open_store
from runs import events, local_ledger, registry
from runs.commands import answer, decide, driving, resume, services
from runs.commands.output import facts_text, visible
from runs.commands.services import Opened
from runs.commands.start import Request, made
from runs.errors import Conflict, Exit, HandedBack, RunError, RunNotFound, ServiceUnreachable, UsageError
from runs.notebook.driver import CellProgress, Driver
from runs.notebook.table import Table, facts_html, sections_html, sections_text
from runs.registry import Run, Status
from runs.settings import StoreKind

if TYPE_CHECKING:
    from runs.notebook.buttons import Buttons, Calls

_EVENT = ("seq", "created_at", "epoch", "kind", "step", "data")
_ACTION = ("kind", "status", "resource", "provider_id", "epoch", "action_id")
_RECEIPT = ("kind", "resource", "provider_id", "digest", "action_id")
_PUBLICATION = ("publication_id", "resource", "title", "note", "digest", "published_at")

# What a drive that neither ended the run nor left it waiting means, by the driver's exit code.
_ERRORS: Mapping[int, type[RunError]] = {
    Exit.HANDED_BACK: HandedBack,
    Exit.CONFLICT: Conflict,
    Exit.UNREACHABLE: ServiceUnreachable,
}


def start(
    file: str | PathLike[str],
    *asks: str,
    approve: bool = False,
    model: str | None = None,
    deadline: str | None = None,
    budget: float | None = None,
    store: StoreKind | None = None,
    drive: bool = True,
) -> RunView:
    """A new run over an .xlsx or .csv file; the arguments are those of `onward run`.

    With `drive` the cell lasts until the run has ended or waits for a person; without, nobody drives it yet (see
    `RunView.drive` and `RunView.resume`). Raises what the command would say.
    """
    request = Request(path=Path(file), asks=asks, approve=approve, model=model, deadline=deadline, budget=budget)
    progress = CellProgress()
    with made(request, store) as (opened, run):
        view = RunView(run.run_id, opened.settings.store)
        progress.note(f"Run {run.run_id}: {visible(run.input_name)}, {run.input_size:,} bytes.")
        if drive:
            _drive_here(opened, run, progress)
    return view


def find(run_id: str | None = None, *, store: StoreKind | None = None) -> RunView:
    """A run by its id or a unique beginning of it; without one the newest run. Raises RunNotFound."""
    if run_id is None:
        run_id, store = _newest(store)
    with services.found(run_id, store) as (opened, run):
        return RunView(run.run_id, store=opened.settings.store)


def _newest(store: StoreKind | None) -> tuple[str, StoreKind]:
    newest: list[tuple[Run, StoreKind]] = []
    for settings in services.places(store):
        with services.opened(settings) as place:
            for run in registry.list_runs(place.database, limit=1):
                newest.append((run, settings.store))
    if not newest:
        raise RunNotFound("There are no runs yet. Start one with: notebook.start(FILE)")
    run, kind = max(newest, key=lambda found: found[0].created_at)
    return run.run_id, kind


@dataclass(frozen=True, kw_only=True, repr=False)
class Proposal:
    """A publication that waits for a decision. Title, note and resource can be edited, the text cannot."""

    title: str
    note: str
    resource: str
    digest: str
    action_id: str

    def _facts(self) -> list[tuple[str, object]]:
        return [
            ("Title", self.title),
            ("Note", self.note or None),
            ("Resource", self.resource),
            ("Report digest", self.digest),
        ]

    def __repr__(self) -> str:
        return facts_text(self._facts())

    def _repr_html_(self) -> str:
        return facts_html(self._facts())


class Report:
    """The text of the last saved draft, in Markdown, its hash checked when it was read."""

    def __init__(self, markdown: str) -> None:
        self.markdown = markdown

    def __repr__(self) -> str:
        return self.markdown

    def _repr_markdown_(self) -> str:
        return self.markdown


class RunView:
    """One run. Get it from `start` or `find`."""

    def __init__(self, run_id: str, store: StoreKind) -> None:
        self.run_id = run_id
        self.store: StoreKind = store

    @contextmanager
    def _found(self) -> Generator[tuple[Opened, Run]]:
        with services.found(self.run_id, self.store) as found:
            yield found

    # --- looking, which changes nothing -------------------------------------------------------------------------------

    def show(self) -> dict[str, Any]:
        """Everything that stands about the run; the fields are those of `onward show -o json`."""
        with self._found() as (opened, run):
            return answer.view_of(opened, run.run_id)

    @property
    def status(self) -> str:
        """Where the run stands: queued, running, waiting_human, succeeded, failed, …"""
        with self._found() as (_, run):
            return str(run.status)

    @property
    def epochs(self) -> list[int]:
        """Who has driven the run, in order: each driver had an epoch of its own."""
        return [event["epoch"] for event in self.events() if event["kind"] == "claimed"]

    def proposal(self) -> Proposal | None:
        """What waits for a decision; None when nothing does."""
        waiting = self.show()["approval"]
        if waiting is None:
            return None
        return Proposal(
            title=waiting["title"],
            note=waiting["note"] or "",
            resource=waiting["resource"],
            digest=waiting["digest"],
            action_id=waiting["action_id"],
        )

    def report(self) -> Report | None:
        """The last saved draft; None before there is one."""
        with self._found() as (opened, run):
            saved = answer.view_of(opened, run.run_id)["report"]
            if saved is None:
                return None
            item = next(item for item in saved["objects"] if item["name"] == "report.md")
            data = Objects(run.objects).read_checked(item["key"], item["digest"])
        return Report(data.decode("utf-8"))

    def events(self) -> Table:
        """The whole history, one event a row."""
        with self._found() as (opened, run):
            history = events.read_all(opened.database, run.run_id)
        return Table([event.to_json() for event in history], _EVENT)

    def actions(self) -> Table:
        """Every intended effect, as the ledger records it."""
        return Table(self.show()["actions"] or [], _ACTION)

    def receipts(self, kind: str | None = None) -> Table:
        """The effects that happened, with what proves them; of one kind (`report.publish`, `draft.save`) or of all."""
        with self._found() as (opened, run), local_ledger.connect(opened.settings) as ledger:
            done = [
                a for a in answer.actions_of(ledger, run.run_id) if a.receipt is not None and kind in (None, a.kind)
            ]
        names = ("action_id", "kind", "resource", "provider_id", "receipt")
        rows = [{name: getattr(a, name) for name in names} | {"digest": a.params.get("digest")} for a in done]
        return Table(rows, _RECEIPT)

    def publications(self) -> Table:
        """The effect itself: the run's rows in the table of publications, read past the ledger's service.

        Raises UsageError for a ledger that somebody else runs: its tables are not ours to read.
        """
        with self._found() as (opened, run):
            if opened.settings.ledger_url is not None:
                raise UsageError("The publications are in the tables of a ledger that is not run here.")
            with local_ledger.connect(opened.settings) as ledger:
                actions = answer.actions_of(ledger, run.run_id)
            resources = {action.resource for action in actions if action.kind == "report.publish"}
            ledgers = open_store(local_ledger.store_url(opened.settings)).database
            with closing(ledgers), ledgers.reading() as tx:
                rows = [row for name in sorted(resources) for row in tx.all("publications_of_resource", resource=name)]
        return Table([_publication(row) for row in rows if str(row["run_id"]) == self.run_id], _PUBLICATION)

    # --- deciding -----------------------------------------------------------------------------------------------------

    def approve(self) -> RunView:
        """Publish what is proposed, and drive the run to its end. The same again changes nothing."""
        return self._decide("approve")

    def edit(self, *, title: str | None = None, note: str | None = None, resource: str | None = None) -> RunView:
        """Approve with another title, note or resource. Another text is a `revise`."""
        given = {"title": title, "note": note, "resource": resource}
        changes = {name: value for name, value in given.items() if value is not None}
        if not changes:
            raise UsageError("Say what to change: title=…, note=… or resource=….")
        return self._decide("edit", changes=changes)

    def revise(self, reason: str) -> RunView:
        """Send the draft back to be written again, and drive the run to its next proposal."""
        return self._decide("revise", reason=reason)

    def reject(self, reason: str) -> RunView:
        """End the run without a publication."""
        return self._decide("reject", reason=reason)

    def _decide(self, word: str, *, reason: str | None = None, changes: Mapping[str, str] | None = None) -> RunView:
        if reason is not None and not reason.strip():
            raise UsageError("Give the reason in words.")
        progress = CellProgress()
        with self._found() as (opened, run):
            said, now = decide.record(opened, run, word, reason, changes)
            progress.note(said)
            if now.driver == "alive":
                progress.note(f"Process {now.pid} on {now.host} drives the run and goes on with the decision.")
            elif not now.finished:
                _drive_here(opened, resume.ready(opened, now), progress)
        return self

    def buttons(self) -> Buttons | Calls:
        """What is proposed with buttons to decide; without ipywidgets or outside a kernel, the calls to make."""
        from runs.notebook.buttons import ask

        return ask(self)

    # --- driving ------------------------------------------------------------------------------------------------------

    def resume(self) -> RunView:
        """Go on with a run that nobody drives, until it has ended or waits for a person. A finished one is left alone.

        Interrupting the cell once finishes the current step and hands the run back; twice ends the driver at once.
        """
        progress = CellProgress()
        with self._found() as (opened, run):
            if run.finished:
                progress.note(resume.finished(run))
                return self
            ready = resume.ready(opened, run)
            if ready.status is Status.WAITING_HUMAN:
                progress.note("The run waits for a decision; nothing was executed.")
                return self
            progress.note(f"Run {ready.run_id}: going on from epoch {ready.epoch or 0}.")
            _drive_here(opened, ready, progress)
        return self

    def drive(self) -> Driver:
        """Start a driver and return at once. It ends with this kernel, and the run can be resumed."""
        with self._found() as (opened, run):
            ready = resume.ready(opened, run)
            if ready.finished or ready.status is Status.WAITING_HUMAN:
                raise Conflict(f"The run {ready.run_id} is {ready.status}: there is nothing to drive.")
            return Driver(opened.settings, ready)

    # --- as a cell shows it -------------------------------------------------------------------------------------------

    def __repr__(self) -> str:
        view = self.show()
        return sections_text(answer.facts(view), answer.tables(view))

    def _repr_html_(self) -> str:
        view = self.show()
        return sections_html(answer.facts(view), answer.tables(view))


def _publication(row: Row) -> dict[str, Any]:
    """A row of the table of publications as JSON values."""
    own = {name: row[name] for name in ("publication_id", "resource", "title", "note", "digest")}
    return own | {"action_id": str(row["action_id"]), "published_at": row["published_at"].isoformat()}


def _drive_here(opened: Opened, run: Run, progress: CellProgress) -> None:
    """Drive in the sight of a cell. Raises a RunError unless the run has ended or waits for a person then."""
    ended = driving.drive_here(opened, run, progress)
    now = registry.get(opened.database, run.run_id)
    if not now.finished and now.status is not Status.WAITING_HUMAN:
        here = f'In a notebook: notebook.find("{run.run_id[:8]}").resume()'
        raise _ERRORS.get(ended.exit_code, RunError)(f"{ended.message}\n{here}")
    progress.note(ended.message)
