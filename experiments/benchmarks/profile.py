"""`--profile`: where the time of a run and of an action goes, and so what could bring a missed target within reach.

A run of nodes that compute nothing, through Onward's driver and on plain LangGraph; then each action inside a ledger of
this process, without HTTP. First Python's own profiler, by function; then the clock at the choke points.
"""

from __future__ import annotations

import cProfile
import os
import pstats
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import IO, Any, TextIO, cast

from experiments.benchmarks.actions import Bench, Wanted, bench_of
from experiments.benchmarks.clock import Clock, Line, Profile, Timed
from experiments.benchmarks.graphs import chain, five_steps
from experiments.benchmarks.plain import Plain, plain
from experiments.benchmarks.product import Product, product
from experiments.benchmarks.rounds import Teller
from experiments.benchmarks.services import ROOT, Services, services
from experiments.boundaries import Watch
from experiments.choke import children, files, http, postgres
from onward_ledger.action import Intent
from onward_ledger.ledger import Ledger
from onward_ledger.objects import Objects
from onward_ledger.providers import providers_for
from onward_ledger.store import SCHEMA, open_store
from runs.parts import Workflow

TOP = 15
WARM_UP = 3
STEPS = 100
SMALLEST_MS = 0.01  # what is less is in the JSON only
EMPTY = Workflow(build=five_steps)


def profiles(times: int, teller: Teller) -> list[Profile]:
    """Every profile, of so many pieces of work each. Wraps libraries in this process, which then measures nothing."""
    found: list[Profile] = []
    with services() as where, product(where) as ours, plain(where) as theirs:
        teller.say("profile: Python's profiler over the driver")
        _warm(ours, theirs)
        found += _by_function(ours, times)
        clock = Clock()
        for kind, install in WATCHED.items():
            install(clock.watch(kind))
        teller.say("profile: the driver at its choke points")
        found.append(_driver(clock, ours, times))
        found.append(_plainly(clock, theirs, times))
        found.append(_step(clock, ours))
        teller.say("profile: actions in a ledger of this process")
        found += _actions(clock, where, times)
    return found


def _watch_fsync(watch: Watch) -> None:
    """A flush is no boundary, since a killed process leaves the same behind either way; but a put waits for it."""
    flush = os.fsync

    def fsync(file: int | IO[Any]) -> None:
        with watch.operation("fsync"):
            flush(file)

    os.fsync = cast(Any, fsync)


# Kinds of what is done to the world outside, and what watches each of them.
WATCHED: dict[str, Callable[[Watch], None]] = {
    "exchanges with Postgres": postgres.install,
    "HTTP, sent and answered": http.install,
    "files and objects": files.install,
    "children": children.install,
    "fsync": _watch_fsync,
}


def _warm(ours: Product, theirs: Plain) -> None:
    for _ in range(WARM_UP):
        with ours.set_up(EMPTY) as parts:
            ours.drive(ours.begin(), parts)
        with theirs.set_up() as saver:
            theirs.drive(theirs.begin(), saver, five_steps)


# --- by function ------------------------------------------------------------------------------------------------------


def _by_function(ours: Product, times: int) -> list[Profile]:
    """Of the driver's main thread: by own time over everything, and by whole time over our own functions."""
    profiler = cProfile.Profile()
    for _ in range(times):
        run_id = ours.begin()
        with ours.set_up(EMPTY) as parts:
            profiler.runcall(ours.drive, run_id, parts)
    stats: dict[tuple[str, int, str], Any] = pstats.Stats(profiler).stats  # pyright: ignore[reportAttributeAccessIssue] - not in its stub
    whole = sum(own for _, _, own, _, _ in stats.values())
    own = [(place, calls, spent) for place, (_, calls, spent, _, _) in stats.items()]
    product_code = [(place, calls, spent) for place, (_, calls, _, spent, _) in stats.items() if _is_ours(place[0])]
    return [
        _functions("driver, empty nodes: functions by their own time", own, whole, times),
        _functions("driver, empty nodes: our functions with all that they call", product_code, whole, times),
    ]


def _is_ours(file: str) -> bool:
    return any(file.startswith(f"{ROOT / room}/") for room in ("runs", "graph", "tools", "ledger"))


def _functions(title: str, found: list[tuple[tuple[str, int, str], int, float]], whole: float, times: int) -> Profile:
    lines = [
        Line(what=_named(place), count=calls / times, ms=spent / times * 1000, share=spent / whole)
        for place, calls, spent in sorted(found, key=lambda line: -line[2])[:TOP]
    ]
    return Profile(title=title, ms=whole / times * 1000, lines=tuple(lines))


def _named(place: tuple[str, int, str]) -> str:
    file, line, name = place
    if file == "~":
        return name
    path = Path(file)
    short = path.relative_to(ROOT) if path.is_relative_to(ROOT) else path
    parts = short.parts[short.parts.index("site-packages") + 1 :] if "site-packages" in short.parts else short.parts
    return f"{'/'.join(parts[-3:])}:{line} {name}"


# --- by what it does --------------------------------------------------------------------------------------------------


def _driver(clock: Clock, ours: Product, times: int) -> Profile:
    def work(timed: Timed) -> None:
        run_id = ours.begin()
        with ours.set_up(EMPTY) as parts, timed:
            ours.drive(run_id, parts)

    return clock.profile("driver, empty nodes: Onward", work, times)


def _plainly(clock: Clock, theirs: Plain, times: int) -> Profile:
    def work(timed: Timed) -> None:
        begun = theirs.begin()
        with theirs.set_up() as saver, timed:
            theirs.drive(begun, saver, five_steps)

    return clock.profile("driver, empty nodes: plain LangGraph", work, times)


def _step(clock: Clock, ours: Product) -> Profile:
    """Of one long run, so that claim and release hardly count."""
    workflow = Workflow(build=lambda: chain(STEPS, _nothing), recursion_limit=STEPS + 10)

    def work(timed: Timed) -> None:
        run_id = ours.begin()
        with ours.set_up(workflow) as parts, timed:
            ours.drive(run_id, parts, ends="unverified")

    return clock.profile("one step, empty: Onward", work, 1, each=STEPS)


def _nothing(number: int) -> None:
    return None


def _actions(clock: Clock, where: Services, times: int) -> list[Profile]:
    with bench_of(where) as bench, _ledger(where) as ledger:
        kinds: dict[str, tuple[Callable[[], Wanted], bool]] = {
            "draft.save": (bench.draft, False),
            "report.publish": (bench.publication, False),
            "report.publish, proposed before": (bench.proposed, False),
            "proposal of report.publish": (bench.publication, True),
        }
        found = [_action(clock, ledger, name, make, propose, times) for name, (make, propose) in kinds.items()]
        found.append(_replay(clock, ledger, bench, times))
    return found


def _action(clock: Clock, ledger: Ledger, name: str, make: Callable[[], Wanted], propose: bool, times: int) -> Profile:
    ledger.put(_intent(make()), propose=propose)  # connections are open from here on

    def work(timed: Timed) -> None:
        intent = _intent(make())
        with timed:
            ledger.put(intent, propose=propose)

    return clock.profile(f"{name} inside the ledger", work, times)


def _replay(clock: Clock, ledger: Ledger, bench: Bench, times: int) -> Profile:
    intent = _intent(bench.draft())
    ledger.put(intent, propose=False)

    def work(timed: Timed) -> None:
        with timed:
            ledger.put(intent, propose=False)

    return clock.profile("a replay inside the ledger", work, times)


def _intent(wanted: Wanted) -> Intent:
    return Intent(key=wanted.key, kind=wanted.kind, resource=wanted.resource, params=wanted.params, epoch=1)


@contextmanager
def _ledger(where: Services) -> Generator[Ledger]:
    """A ledger in this process, over the tables of the service."""
    opened = open_store(where.dsn, schema=SCHEMA)
    with closing(opened.database):
        opened.liveness.hold()
        try:
            ledger = Ledger(opened.store, providers_for(Objects(where.settings.objects_url)))
            opened.store.start_instance(
                ledger.instance, lock_key=opened.liveness.lock_key, version="profile", host="profile", pid=1
            )
            yield ledger
            opened.store.stop_instance(ledger.instance)
        finally:
            opened.liveness.release()


# --- for a reader -----------------------------------------------------------------------------------------------------


def print_profiles(found: list[Profile], stream: TextIO) -> None:
    """One table each: sums by kind where there are any, then line by line."""
    from rich.console import Console
    from rich.table import Table

    console = Console(file=stream, highlight=False, markup=False, width=None if stream.isatty() else 140)
    for profile in found:
        table = Table(title=f"\n{profile.title}: {profile.ms:.1f} ms", title_justify="left", box=None, pad_edge=False)
        for name in ("times", "ms", "share"):
            table.add_column(name, justify="right")
        table.add_column("what", overflow="fold")
        for line in profile.sums:
            table.add_row(*_cells(line), style="bold")
        if profile.sums:
            table.add_row()
        for line in profile.lines:
            if line.ms >= SMALLEST_MS:
                table.add_row(*_cells(line))
        console.print(table)


def _cells(line: Line) -> tuple[str, str, str, str]:
    share = "" if line.share is None else f"{line.share:.0%}"
    return f"{line.count:.1f}", f"{line.ms:.2f}", share, line.what
