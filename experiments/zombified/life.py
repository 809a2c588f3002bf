"""The life of a driver's process in this experiment: the product's own drive, stopped by itself at its place.

Besides what every story tells (`experiments.story`) it says

    BACKEND 4711                    a session of its own with Postgres: what is written there, it has written
    CLAIM 12.5                      the claim itself took so many milliseconds, waiting and terminating included
"""

from __future__ import annotations

import functools
import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from experiments import choke, narrator, warm_children
from experiments.boundaries import Watch
from experiments.mutants import plant_in_driver
from experiments.nemesis import armed
from experiments.story import Process, Story
from experiments.workload import Onward, Role
from experiments.zombified.forgetting import forget_epochs
from experiments.zombified.places import Middle, noting_recorder
from onward_ledger.database import Unreachable
from onward_ledger.errors import LedgerUnreachable
from runs.driver import drive_until_done
from runs.errors import Exit, RunError
from runs.settings import Settings

BACKEND, CLAIM, SLOW = "BACKEND ", "CLAIM ", "SLOW "

Hold = Literal["sleeping", "mute", "greedy"]


@dataclass(frozen=True, kw_only=True)
class Orders(Role):
    """How one driver's process is treated, beyond its role. `forgetful`: see `experiments.zombified.forgetting`.

    `slow_seconds`: its first `analyze` takes so long, and `hold` says how: "sleeping" (other threads go on), "mute"
    (they go on, but heartbeats are not sent), "greedy" (no other thread of it runs at all).
    """

    forgetful: bool = False
    slow_seconds: float = 0.0
    hold: Hold = "sleeping"


class Watched(Onward):
    """The product's run, driven by processes that live like this."""

    def __init__(self) -> None:
        super().__init__()
        self.work = live


def live(story: Story, run_id: str, settings: Settings, orders: Orders) -> str:
    """Be a driver; the exit code that `python -m runs.driver` has then."""
    warm_children.install()
    _tell_backends(story)
    if orders.recording is not None:
        middle = Middle()
        choke.install_all(Watch(noting_recorder(orders.recording, middle)))
        middle.follow()
    else:
        choke.install_all(Watch(armed(orders.fault, story)))
    narrator.narrate_nodes(story)
    narrator.narrate_actions(story)
    _tell_claims(story)
    plant_in_driver(orders.planted, settings.store)
    if orders.forgetful:
        forget_epochs()
    if orders.slow_seconds:
        _slow_down(orders, story)
    try:
        return f"exit {int(drive_until_done(run_id, settings))}"
    except RunError as error:
        return f"exit {int(error.exit_code)}"
    except (Unreachable, LedgerUnreachable):
        return f"exit {int(Exit.UNREACHABLE)}"


def exit_code(process: Process) -> int | None:
    """With which code a driver's process ended; negative for a signal, None if it had to be stopped."""
    said = re.fullmatch(r"exit (\d+)", process.end or "")
    return int(said[1]) if said else process.exit_code


def backends(process: Process) -> tuple[int, ...]:
    """The sessions with Postgres that a process has had."""
    return tuple(int(line.removeprefix(BACKEND)) for line in process.lines if line.startswith(BACKEND))


def claim_ms(process: Process) -> float | None:
    """How long its (last) claim took."""
    said = [line.removeprefix(CLAIM) for line in process.lines if line.startswith(CLAIM)]
    return float(said[-1]) if said else None


def _tell_backends(story: Story) -> None:
    import psycopg

    connect = psycopg.Connection.connect.__func__

    def connected(cls: type[Any], *args: Any, **kwargs: Any) -> Any:
        connection = connect(cls, *args, **kwargs)
        story.tell(f"{BACKEND}{connection.info.backend_pid}")
        return connection

    psycopg.Connection.connect = classmethod(connected)  # pyright: ignore[reportAttributeAccessIssue]


def _tell_claims(story: Story) -> None:
    from runs import lease

    take: Callable[..., Any] = lease._take  # pyright: ignore[reportPrivateUsage] - the claim without the looks before it

    @functools.wraps(take)
    def telling(*args: Any, **kwargs: Any) -> Any:
        began = time.monotonic()
        taken = take(*args, **kwargs)
        story.tell(f"{CLAIM}{(time.monotonic() - began) * 1000:.1f}")
        return taken

    lease._take = telling  # pyright: ignore[reportPrivateUsage]


# --- a step that takes longer than the lease --------------------------------------------------------------------------


def _slow_down(orders: Orders, story: Story) -> None:
    from graph import nodes

    analyze, done = nodes.analyze, threading.Event()

    @functools.wraps(analyze)
    def slow(*args: Any, **kwargs: Any) -> Any:
        if not done.is_set():
            done.set()
            story.tell(f"{SLOW}{orders.hold}")
            (_keep_all_threads if orders.hold == "greedy" else time.sleep)(orders.slow_seconds)
        return analyze(*args, **kwargs)

    nodes.analyze = slow
    if orders.hold == "mute":
        _mute(done)


def _mute(begun: threading.Event) -> None:
    """Once the step has begun, a heartbeat that is sent never comes back, as in a network that swallows it."""
    from runs.holder import PostgresHolder, SqliteHolder

    def swallowing(renew: Callable[..., bool]) -> Callable[..., bool]:
        def renewing(self: Any, run_id: str, epoch: int) -> bool:
            if begun.is_set():
                threading.Event().wait()
            return renew(self, run_id, epoch)

        return renewing

    for holder in (PostgresHolder, SqliteHolder):
        holder.renew = swallowing(holder.renew)


def _keep_all_threads(seconds: float) -> None:
    """One call into C that does not let go of the interpreter, for at least so long: a pattern that tracks back."""
    pattern, length, took = re.compile(r"(a|aa)+$"), 20, 0.0
    while took < seconds:
        began = time.monotonic()
        pattern.match("a" * length + "b")
        took = time.monotonic() - began
        length += 1 if took > seconds / 4 else 2
