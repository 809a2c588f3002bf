"""`onward run`: from a file to a driven run.

The order is what makes a kill harmless. Nothing is written before the input was looked at. The input is staged before
the row exists, and the row exists before it is driven; from then on `onward resume` goes on, whatever ended.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from runs.commands.output import Format, say, visible
from runs.errors import UsageError

if TYPE_CHECKING:
    from onward_ledger import LedgerClient
    from runs.commands.services import Opened
    from runs.registry import Run
    from runs.settings import StoreKind

# How long a standing grant lasts that no deadline bounds.
GRANT_DAYS = 7

# A run that this command drives itself is left to it for so long; if it is killed before, a worker takes the run then.
OURS_SECONDS = 15.0

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


@dataclass(frozen=True, kw_only=True)
class Request:
    """What the command line asks for. `deadline` as typed; `budget` in US dollars."""

    path: Path
    asks: tuple[str, ...] = ()
    model: str | None = None
    approve: bool = False
    deadline: str | None = None
    budget: float | None = None
    budget_tokens: int | None = None
    queue: bool = False


def run(request: Request, *, store: StoreKind | None, output: Format) -> int:
    """See `onward run`."""
    say("Starting…")  # before the imports below, which take a moment
    with made(request, store) as (place, new):
        from runs.commands.driving import answer, drive_and_answer

        say(f"Run {new.run_id}: {visible(new.input_name)}, {new.input_size:,} bytes.")
        return answer(place, new, output) if request.queue else drive_and_answer(place, new, output)


def only_ours(path: Path | None, for_graphs: Mapping[str, str | None]) -> Path:
    """The input, where nothing is asked for that is for somebody's own graph. Raises UsageError."""
    for option, value in for_graphs.items():
        if value is not None:
            raise UsageError(f"{option} is for a graph of your own; name it with --graph FILE.py:NAME.")
    if path is None:
        raise UsageError("Give an .xlsx workbook or a .csv file, or a graph of your own with --graph FILE.py:NAME.")
    return path


@contextmanager
def made(request: Request, store: StoreKind | None) -> Generator[tuple[Opened, Run]]:
    """A new run that nobody drives yet, in its open store. What is wrong with the request is raised before that."""
    from runs.commands.intake import check_input

    check_input(request.path)
    deadline = parse_deadline(request.deadline)
    _check_asks(request)
    check_model(request.model)
    from runs.commands.services import check_may_act, opened, settings_for

    with opened(settings_for(store)) as place:
        check_may_act(place)
        yield place, _create(place, request, deadline)


def _check_asks(request: Request) -> None:
    if any(not ask.strip() for ask in request.asks):
        raise UsageError("A question given with --ask is empty.")


def check_model(spec: str | None) -> None:
    """A model that cannot be had is said before there is a run."""
    if spec is not None:
        from graph.models import load_model

        load_model(spec)


def _create(opened: Opened, request: Request, deadline: timedelta | datetime | None) -> Run:
    """The row, with what it needs to be driven to its end without a person where `--approve` says so."""
    from graph.versions import CURRENT, VERSIONS
    from runs import local_ledger, registry
    from runs.commands.services import objects_of

    settings = opened.settings
    now = opened.database.now()
    deadline_at = None if deadline is None else _instant(deadline, now)
    with local_ledger.connect(settings) as ledger:
        new = registry.NewRun(
            owner=settings.principal,
            tenant=settings.tenant,
            workflow_version=CURRENT,
            allowed_kinds=sorted(VERSIONS[CURRENT].allowed_kinds),
            store=settings.store,
            ledger=local_ledger.ledger_id(settings),
            asks=request.asks,
            model=request.model,
            deadline_at=deadline_at,
            budget_micros=round(request.budget * 1_000_000) if request.budget is not None else None,
            budget_tokens=request.budget_tokens,
            wake_seconds=None if request.queue else OURS_SECONDS,
        )
        made = registry.create(opened.database, objects_of(settings), request.path, new)
        if request.approve:
            # Behind the row: killed in between, the run waits for a person, who can approve it as any other.
            _grant(ledger, made.run_id, deadline_at or now + timedelta(days=GRANT_DAYS))
    return made


def _grant(ledger: LedgerClient, run_id: str, expires_at: datetime) -> None:
    ledger.grant(run_id, kind="report.publish", expires_at=expires_at)


def deadline_from(text: str, now: datetime) -> datetime:
    """The instant that a deadline as typed means. Raises UsageError also for one that has passed."""
    parsed = parse_deadline(text)
    assert parsed is not None
    return _instant(parsed, now)


def _instant(deadline: timedelta | datetime, now: datetime) -> datetime:
    instant = now + deadline if isinstance(deadline, timedelta) else deadline
    if instant <= now:
        raise UsageError(f"The deadline {instant.isoformat()} has passed already.")
    return instant


def parse_deadline(text: str | None) -> timedelta | datetime | None:
    """A time from now ("90s", "30m", "2h", "1d") or an instant in ISO 8601 (without an offset: UTC)."""
    if text is None:
        return None
    if found := re.fullmatch(r"(\d{1,6})([smhd])", text.strip()):
        span = timedelta(**{_UNITS[found[2]]: int(found[1])})
        if span:
            return span
    try:
        instant = datetime.fromisoformat(text.strip())
    except ValueError:
        raise UsageError(f"{text!r} is no deadline. Give 90s, 30m, 2h, 1d, or an ISO 8601 time.") from None
    return instant if instant.tzinfo is not None else instant.replace(tzinfo=UTC)
