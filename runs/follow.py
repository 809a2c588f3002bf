"""Live progress: a run's events, told to whoever watches, as they are committed.

What is shown is what is durable: the events come from the database, so a line on the screen is a fact that the next
process will find too. On a terminal the current step moves in place; elsewhere every event is a plain line.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Protocol

from runs.commands.output import say, visible, visible_lines
from runs.events import Event

if TYPE_CHECKING:
    from rich.live import Live


class Told:
    """Turns events into words. Keeps what one event alone does not say: when a step began, where the run stands.

    `current` is what happens now, for a line that moves in place; "" when nothing does.
    """

    def __init__(self) -> None:
        self.current = ""
        self._began: dict[str, datetime] = {}

    def lines(self, event: Event) -> list[str]:
        """The lines that an event adds for good."""
        reader = _WORDS.get(event.kind)
        text = reader(self, event) if reader is not None else None
        if text is None:
            return []
        step = f"{visible(event.step)}: " if event.step else ""
        epoch = f"[epoch {event.epoch}] " if event.epoch is not None else ""
        return [f"{epoch}{step}{text}"]

    def started(self, event: Event) -> str:
        """A step begins."""
        step = str(event.step)
        self._began[step] = event.created_at
        attempt = event.data.get("attempt", 1)
        self.current = f"{step}" if attempt == 1 else f"{step}, attempt {attempt}"
        return "started" if attempt == 1 else f"started again, attempt {attempt}"

    def finished(self, event: Event) -> str:
        """A step is done."""
        began = self._began.pop(str(event.step), None)
        self.current = ""
        return "done" if began is None else f"done ({(event.created_at - began).total_seconds():.1f} s)"

    def progress(self, event: Event) -> str:
        """What happens inside a step."""
        done, total = event.data.get("done"), event.data.get("total")
        text = visible(event.data.get("text", ""))
        if done is not None and total:
            text += f" ({done} of {total})"
        self.current = f"{event.step}: {text}"
        return text


def _claimed(told: Told, event: Event) -> str:
    who = f"process {event.data.get('pid')} on {visible(event.data.get('host'))}"
    before = event.data.get("before")
    return f"{who} took the run over from epoch {before}" if before else f"{who} drives the run"


def _settled(told: Told, event: Event) -> str:
    data = event.data
    return f"{visible(data.get('kind'))} was left {data.get('before')} by an older epoch, and is {data.get('status')}"


def _model_started(told: Told, event: Event) -> None:
    told.current = f"{event.step}: asking {visible(event.data.get('model'))}"


def _model_finished(told: Told, event: Event) -> str | None:
    data = event.data
    tokens = (data.get("input_tokens") or 0) + (data.get("output_tokens") or 0)
    if not tokens and not data.get("cost_usd"):
        return None  # fixed rules, not a language model
    cost = data.get("cost_usd")
    return f"model answered, {tokens:,} tokens" + (f", {cost:.4f} USD" if cost else "")


def _receipt(told: Told, event: Event) -> str:
    data = event.data
    what = f"{visible(data.get('kind'))} {visible(data.get('resource'))}"
    return f"{what}: receipt reused, nothing was sent" if data.get("replayed") else f"{what}: new receipt"


def _action(told: Told, event: Event) -> str:
    status = event.data.get("status")
    return f"{visible(event.data.get('kind'))} {visible(event.data.get('resource'))}: " + (
        "proposed" if status == "PREPARED" else str(status)
    )


def _raised(told: Told, event: Event) -> str:
    return f"the ledger knows a newer epoch; this driver goes on as epoch {event.data.get('to')}"


def _cancel_requested(told: Told, event: Event) -> str:
    reason = event.data.get("reason")
    asked = f"{visible(event.data.get('principal'))} asked to cancel"
    told.current = "stopping" + (f"; {told.current}" if told.current else "")
    return asked + (f": {visible(reason)}" if reason else "")


def _cancel_report(told: Told, event: Event) -> str:
    data = event.data
    words = {"sent": "sent before", "compensations": "taken back", "unknown": "UNKNOWN", "withdrawn": "withdrawn"}
    counted = [f"{len(data[name])} {said}" for name, said in words.items() if data.get(name)]
    return "stopped; " + (", ".join(counted) if counted else "nothing had been sent")


def _asked(told: Told, event: Event) -> str:
    nodes = ", ".join(visible(question["node"]) for question in event.data["questions"])
    return f"{nodes} asks a person"


def _answered(told: Told, event: Event) -> str:
    return f"answered by {visible(event.data.get('principal'))}"


def _error(told: Told, event: Event) -> str:
    return f"{visible(event.data.get('message') or event.data.get('error'))}"


def _status(told: Told, event: Event) -> str | None:
    told.current = ""
    after, reason = event.data.get("to"), event.data.get("reason")
    if after == "running":
        return None  # said by the claim
    return f"the run is {after}" + (f" ({visible(reason)})" if reason else "")


_WORDS: dict[str, Callable[[Told, Event], str | None]] = {
    "claimed": _claimed,
    "settled": _settled,
    "step_started": Told.started,
    "step_finished": Told.finished,
    "progress": Told.progress,
    "model_call_started": _model_started,
    "model_call_finished": _model_finished,
    "receipt": _receipt,
    "action": _action,
    "epoch_raised": _raised,
    "asked": _asked,
    "answered": _answered,
    "cancel_requested": _cancel_requested,
    "cancel_report": _cancel_report,
    "error": _error,
    "status": _status,
}


class Progress(Protocol):
    """Somebody who watches."""

    def note(self, text: str) -> None:
        """Say something that is no event."""
        ...

    def event(self, event: Event) -> None:
        """Tell one event."""
        ...

    def close(self) -> None:
        """Leave the screen as a shell expects it."""
        ...


class PlainProgress:
    """Every event as a line on stderr: for logs, pipes and CI."""

    def __init__(self) -> None:
        self._told = Told()

    def note(self, text: str) -> None:
        """See Progress.note."""
        say(text)

    def event(self, event: Event) -> None:
        """See Progress.event."""
        for line in self._told.lines(event):
            say(line)

    def close(self) -> None:
        """See Progress.close."""


# On a terminal these move in place and leave no line behind.
_PASSING = frozenset({"step_started", "progress"})


def _terminal_may_be_gone() -> contextlib.suppress:
    """A closed terminal ends what is shown, not the run."""
    return contextlib.suppress(OSError)


class LiveProgress:
    """A line that moves in place below the facts that stay; for a terminal on stderr."""

    def __init__(self) -> None:
        from rich.console import Console

        self._told = Told()
        self._console = Console(file=sys.stderr, markup=False, highlight=False, emoji=False)
        self._live = self._start()
        self._show("")

    def _start(self) -> Live:
        from rich.live import Live

        live = Live(console=self._console, transient=True, refresh_per_second=8)
        live.start()
        return live

    def close(self) -> None:
        """See Progress.close."""
        with _terminal_may_be_gone():
            self._live.stop()

    def note(self, text: str) -> None:
        """See Progress.note."""
        from rich.text import Text

        with _terminal_may_be_gone():
            self._console.print(Text(visible_lines(text)))

    def event(self, event: Event) -> None:
        """See Progress.event."""
        for line in self._told.lines(event):
            if event.kind not in _PASSING or event.data.get("attempt", 1) > 1:
                self.note(line)
        self._show(self._told.current)

    def _show(self, text: str) -> None:
        from rich.spinner import Spinner
        from rich.text import Text

        with _terminal_may_be_gone():
            self._live.update(Spinner("dots", Text(visible(text or "working"))))


def progress_for_stderr() -> Progress:
    """What fits the place where messages go."""
    return LiveProgress() if sys.stderr.isatty() else PlainProgress()
