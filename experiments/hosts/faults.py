"""The cases: what happens to two workers under load, and when it heals.

Each function strikes and heals; it returns when the fault is over. What must hold then, `judging` says.
"""

from __future__ import annotations

import json
import random
import signal
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import psycopg

from experiments.hosts import postgres
from experiments.hosts.cuts import How
from experiments.hosts.errors import NotStruck
from experiments.hosts.gate import OPEN, Orders, Where
from experiments.hosts.network import Host
from experiments.hosts.size import FAULT_SECONDS, LEASE_SECONDS
from experiments.hosts.skew import HOUR

if TYPE_CHECKING:
    from experiments.hosts.scene import Scene

Target = Literal["Postgres", "the ledger"]

Lasting = Literal["within the lease", "past the lease", "for long"]
Cut = tuple[tuple[Target, ...], How, Lasting]

SHORT_SECONDS = 0.5  # beside what cutting and looking take; a lease is several seconds
LONG_SECONDS = 30.0  # TCP tries again after ever longer pauses: what was cut for long must still be back soon
DOWN_SECONDS = 1.0  # how long a killed server stays away
FULL_SECONDS = 3.0
MORE_RUNS = 3
TERMINATIONS = 8
COMMITS_CUT = 12
MOST_BETWEEN_CUTS = 9
DRIVERS = r"onward( .+ h\d+)?"  # the application names of a drive's connections, at their start


@dataclass(frozen=True, kw_only=True)
class Fault:
    """One case. `prepare` readies what its workers need: the way to the database, a clock.

    `thefts`: whether a live driver may lose its run to another worker here. It may where nobody can know that it
    lives: cut off past its lease, or with its session gone. After a restart of the server it must not.
    """

    name: str
    group: str
    strike: Callable[[Scene], None]
    through_gate: bool = False
    clock_seconds: int | None = None
    thefts: bool = True


def cut(scene: Scene, *, targets: tuple[Target, ...], how: How, lasting: Lasting) -> None:
    """The victim is cut off in the middle of its runs, and joined again before or after its lease ends."""
    scene.wait_until_busy([scene.victim.host])
    with scene.cut_off(scene.victim.host, [_place(scene, target) for target in targets], how):
        scene.struck([scene.victim.host])
        if lasting == "within the lease":
            scene.wait(SHORT_SECONDS)
        elif "Postgres" in targets:
            if not scene.load.wait(lambda: not scene.open_hits(), FAULT_SECONDS):
                scene.wrong.append("runs of the worker that was cut off were not taken over")
        else:
            scene.wait(LEASE_SECONDS * 1.5)
        if lasting == "for long":
            scene.wait(LONG_SECONDS)
    if lasting == "within the lease":
        scene.within_the_lease()
    scene.healed()


def _place(scene: Scene, target: Target) -> tuple[Host, int]:
    return (scene.database, postgres.PORT) if target == "Postgres" else (scene.ledger, scene.stand.ledger_port)


def begin_while_cut(scene: Scene, *, how: How) -> None:
    """Runs begin while one worker cannot reach the ledger: it must not draw them to itself and fail them."""
    with scene.cut_off(scene.victim.host, [_place(scene, "the ledger")], how):
        fresh = scene.load.begin(MORE_RUNS)
        scene.wait_until_busy([scene.other.host])
        scene.struck([scene.other.host])
        if not scene.load.wait(lambda: not scene.load.open(fresh), FAULT_SECONDS):
            scene.wrong.append("runs that began while one worker was cut off did not end on the other")
    scene.healed()


def cut_everybody(scene: Scene, *, how: How) -> None:
    """Both workers are cut off from Postgres past their leases: nobody can take over until it heals."""
    there = [(scene.database, postgres.PORT)]
    hosts = [scene.victim.host, scene.other.host]
    scene.wait_until_busy(hosts)
    with scene.cut_off(hosts[0], there, how), scene.cut_off(hosts[1], there, how):
        scene.struck(hosts)
        scene.wait(LEASE_SECONDS * 1.5)
    scene.healed()


def cut_ledger(scene: Scene, *, how: How) -> None:
    """The ledger is cut off from its database while workers reach both."""
    hosts = [scene.victim.host, scene.other.host]
    scene.wait_until_busy([scene.victim.host])
    with scene.cut_off(scene.ledger, [(scene.database, postgres.PORT)], how):
        scene.struck(hosts)
        scene.wait(LEASE_SECONDS * 1.5)
    scene.healed()


def kill_server(scene: Scene, *, number: signal.Signals, down_seconds: float) -> None:
    """The server goes in the middle of everything, and comes back, before any lease ends or later."""
    hosts = [scene.victim.host, scene.other.host]
    scene.wait_until_busy(hosts)
    scene.struck(hosts)
    scene.stand.server.kill(number)
    if scene.stand.server.answers:
        raise NotStruck("The server was killed, and answers.")
    scene.wait(down_seconds)
    scene.stand.server.start()
    if down_seconds < LEASE_SECONDS:
        scene.within_the_lease()
    scene.healed()


_TERMINATE = """
    select count(pg_terminate_backend(pid)) from pg_stat_activity
    where datname = current_database() and pid <> pg_backend_pid() and application_name <> 'onward experiment'
"""


def terminate_backends(scene: Scene, *, seed: int) -> None:
    """Every session of the product is ended, several times, at times drawn by the seed."""
    draw = random.Random(seed)  # noqa: S311 - a plan to be repeated, no secret
    hosts = [scene.victim.host, scene.other.host]
    scene.wait_until_busy([scene.victim.host])
    scene.struck(hosts)
    ended = 0
    with psycopg.connect(scene.stand.server.dsn, autocommit=True) as connection:
        for _ in range(TERMINATIONS):
            row = connection.execute(_TERMINATE).fetchone()
            ended += row[0] if row else 0
            scene.wait(draw.uniform(0.1, 0.6))
    scene.note(f"{ended} sessions were ended.")
    if not ended:
        raise NotStruck("There was no session to end.")
    scene.healed()


def cut_commits(scene: Scene, *, where: tuple[Where, ...], seed: int) -> None:
    """Connections end around COMMIT, one after the other, at distances drawn by the seed."""
    draw = random.Random(seed)  # noqa: S311 - a plan to be repeated, no secret
    orders, log = scene.gate
    scene.wait_until_busy([scene.victim.host])
    scene.struck([scene.victim.host, scene.other.host])
    Orders(every=draw.randint(2, MOST_BETWEEN_CUTS), where=where, most=COMMITS_CUT, names=DRIVERS).write(orders)
    scene.load.wait(lambda: len(_lines(log)) >= COMMITS_CUT or not scene.load.open(), FAULT_SECONDS)
    OPEN.write(orders)
    told = _lines(log)
    scene.note(f"{len(told)} connections of drivers ended {' or '.join(where)} COMMIT.")
    if not told:
        raise NotStruck("No connection of a driver was cut.")
    scene.healed()


def _lines(log: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()] if log.exists() else []


def fill_disk(scene: Scene) -> None:
    """No room on the database's disk for a while."""
    server = scene.stand.server
    hosts = [scene.victim.host, scene.other.host]
    scene.wait_until_busy(hosts)
    said = server.log_bytes
    scene.struck(hosts)
    with _full(scene):
        if not scene.load.wait(lambda: server.said("No space left on device", said), FAULT_SECONDS):
            raise NotStruck("The disk was full, and nothing needed room on it.")
        scene.wait(FULL_SECONDS)
    if not server.runs:
        scene.note("The server had ended by itself, and was started again.")
        server.start()
    scene.healed()


@contextmanager
def _full(scene: Scene) -> Generator[None]:
    try:
        scene.stand.server.fill_disk()
        yield
    finally:
        scene.stand.server.free_disk()


def wrong_clock(scene: Scene, *, seconds: int) -> None:
    """The victim's clock is wrong from the start: it must drive nothing, and the other drives all."""
    clock = scene.clock
    clock.check(scene.victim.host, seconds)
    scene.wait_until_busy([scene.other.host])
    scene.struck([scene.other.host])
    scene.load.wait(lambda: not scene.load.open(), FAULT_SECONDS)
    if not scene.victim.alive:
        scene.note("The worker whose clock is wrong has ended.")
    clock.shift(0)
    scene.healed()
    claimed = [claim for claim in scene.load.claims() if claim.host == scene.victim.host.name]
    if claimed:
        scene.wrong.append(f"the worker whose clock is wrong claimed {len(claimed)} runs")


def jumping_clock(scene: Scene, *, seconds: int) -> None:
    """The victim's clock jumps while it drives, stays wrong for a while, and is set right."""
    scene.wait_until_busy([scene.victim.host])
    scene.clock.shift(seconds)
    scene.clock.check(scene.victim.host, seconds)
    scene.struck([scene.victim.host])
    scene.wait(LEASE_SECONDS)
    scene.clock.shift(0)
    scene.healed()


def jump_and_die(scene: Scene, *, seconds: int) -> None:
    """The same, and the worker is killed before its clock is right: others go on behind what it wrote."""
    scene.wait_until_busy([scene.victim.host])
    scene.clock.shift(seconds)
    scene.clock.check(scene.victim.host, seconds)
    scene.struck([scene.victim.host])
    came = {run.run_id: run.checkpoints for run in scene.hit}

    def written() -> bool:
        return any(run.checkpoints > came[run.run_id] + 1 for run in scene.open_hits())

    if not scene.load.wait(written, FAULT_SECONDS):
        raise NotStruck("Nothing was written by the wrong clock.")
    scene.victim.kill()
    scene.clock.shift(0)
    scene.victim.start_again()
    scene.healed()


def _cuts() -> Iterator[Fault]:
    hows: tuple[How, ...] = ("silent", "refused")
    targets: tuple[tuple[Target, ...], ...] = (("Postgres",), ("the ledger",), ("Postgres", "the ledger"))
    lasting: tuple[Lasting, ...] = ("within the lease", "past the lease")
    special: tuple[Cut, ...] = (
        (("Postgres",), "silent", "for long"),
        (("Postgres", "the ledger"), "silent", "for long"),
        (("Postgres",), "answers lost", "past the lease"),
        (("the ledger",), "answers lost", "past the lease"),
    )
    usual: list[Cut] = [(between, how, time) for between in targets for how in hows for time in lasting]
    for between, how, time in (*usual, *special):
        name = f"worker cut from {' and '.join(between)}, {how}, {time}"
        strike = partial(cut, targets=between, how=how, lasting=time)
        yield Fault(name=name, group="cut", strike=strike, thefts=time != "within the lease" and "Postgres" in between)
    for how in hows:
        name = f"runs begin while a worker is cut from the ledger, {how}"
        yield Fault(name=name, group="cut", strike=partial(begin_while_cut, how=how), thefts=False)
    for how in hows:
        yield Fault(name=f"both workers cut from Postgres, {how}", group="cut", strike=partial(cut_everybody, how=how))
    for how in hows:
        name = f"ledger cut from Postgres, {how}"
        yield Fault(name=name, group="cut", strike=partial(cut_ledger, how=how), thefts=False)


def _servers() -> Iterator[Fault]:
    for name, number in (("stopped immediately", signal.SIGQUIT), ("postmaster killed", signal.SIGKILL)):
        strike = partial(kill_server, number=number, down_seconds=DOWN_SECONDS)
        yield Fault(name=f"Postgres {name}, started again", group="server", strike=strike, thefts=False)
    strike = partial(kill_server, number=signal.SIGQUIT, down_seconds=2 * LEASE_SECONDS)
    yield Fault(name="Postgres stopped immediately, away past the lease", group="server", strike=strike)
    yield Fault(name="sessions terminated", group="server", strike=partial(terminate_backends, seed=1))
    wheres: tuple[tuple[Where, ...], ...] = (("before",), ("after",))
    for where in wheres:
        strike = partial(cut_commits, where=where, seed=1)
        yield Fault(name=f"connection lost {where[0]} COMMIT", group="commit", strike=strike, through_gate=True)
    yield Fault(name="disk of Postgres full, freed", group="disk", strike=fill_disk)


def _clocks() -> Iterator[Fault]:
    for seconds, word in ((HOUR, "an hour ahead"), (-HOUR, "an hour behind")):
        strike = partial(wrong_clock, seconds=seconds)
        name = f"worker's clock {word}"
        yield Fault(name=name, group="clock", strike=strike, clock_seconds=seconds, thefts=False)
    for seconds, word in ((HOUR, "ahead"), (-HOUR, "back")):
        name = f"worker's clock jumps an hour {word} in mid-run"
        yield Fault(name=name, group="clock", strike=partial(jumping_clock, seconds=seconds), clock_seconds=0)
        strike = partial(jump_and_die, seconds=seconds)
        yield Fault(name=f"{name}, and it is killed", group="clock", strike=strike, clock_seconds=0)


FAULTS: tuple[Fault, ...] = (*_cuts(), *_servers(), *_clocks())
GROUPS = tuple(dict.fromkeys(fault.group for fault in FAULTS))
