"""`onward show` and `onward list`: looking, which changes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from runs import events, registry
from runs.commands.answer import view_of, write_run
from runs.commands.output import Format, say, write_json, write_table
from runs.commands.services import found, opened, places
from runs.errors import UsageError
from runs.registry import Run, Status
from runs.served import advice, served
from runs.show import run_line

if TYPE_CHECKING:
    from runs.events import Event
    from runs.settings import StoreKind


def show(run_id: str, *, with_events: bool, store: StoreKind | None, output: Format) -> int:
    """See `onward show`. With `--events`, JSON holds them as `events`: seq, epoch, kind, step, data, created_at."""
    with found(run_id, store) as (place, run):
        view = view_of(place, run.run_id)
        if not served(place.database).serves(run):
            _tell_unserved(view, run)
        history = events.read_all(place.database, run.run_id) if with_events else []
    if with_events and output == "json":
        view["events"] = [event.to_json() for event in history]
    write_run(view, output)
    if with_events and output == "table":
        _write_events(history)
    return 0


def _tell_unserved(view: dict[str, Any], run: Run) -> None:
    """A decision can be recorded all the same; what it decides waits until somebody serves the version."""
    told, before = advice(run), view["next_action"]
    decisions = before["commands"] if run.status is Status.WAITING_HUMAN else []
    view["next_action"] = {"text": told["text"], "commands": [*decisions, *told["commands"]]}


def _write_events(history: Sequence[Event]) -> None:
    rows = [(e.seq, f"{e.created_at:%H:%M:%S.%f}"[:-3], e.epoch, e.kind, e.step, _short(e.data)) for e in history]
    write_table(("seq", "at", "epoch", "event", "step", "data"), rows)


def _short(data: dict[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in data.items() if value is not None)


def list_runs(*, status: str | None, limit: int, store: StoreKind | None, output: Format) -> int:
    """See `onward list`. JSON: `{"runs": [{run_id, status, reason, epoch, input, owner, store, driver, …}]}`."""
    wanted = _status(status)
    lines: list[dict[str, Any]] = []
    for settings in places(store):
        with opened(settings) as place:
            now = served(place.database)
            found = registry.list_runs(place.database, status=wanted, tenant=settings.tenant, limit=limit)
            lines += [run_line(run, served=now.serves(run)) for run in found]
    lines.sort(key=lambda line: line["created_at"], reverse=True)
    del lines[limit:]
    if output == "json":
        write_json({"runs": lines})
    elif lines:
        rows = [(r["run_id"], _state(r), _age(r["age_seconds"]), r["input"]) for r in lines]
        write_table(("run", "status", "age", "input"), rows)
    else:
        say("There are no runs yet. Start one with: onward run FILE")
    return 0


def _status(typed: str | None) -> Status | None:
    if typed is None:
        return None
    try:
        return Status(typed.strip().lower())
    except ValueError:
        raise UsageError(f"{typed!r} is no status. There are: {', '.join(Status)}.") from None


def _state(line: dict[str, Any]) -> str:
    if line["driver"] == "gone":
        return "driver gone, resumable"
    if not line["served"]:
        return f"{line['status']}, nobody serves version {line['workflow_version']}"
    return line["status"] + (f" ({line['reason']})" if line["reason"] and line["status"] != "queued" else "")


def _age(seconds: float) -> str:
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return f"{max(seconds, 0):.0f} s"
