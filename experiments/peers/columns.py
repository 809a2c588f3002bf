"""The plans, one per column: who is started, killed, stopped and woken, in which order. The same for every system."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from experiments.peers.lab import Stage
from experiments.peers.order import LEASE_SECONDS, Fault
from experiments.peers.provider import ANSWER_SECONDS

KILLED_AFTER = Fault(how="kill", moment="after commit")
KILLED_BEFORE = Fault(how="kill", moment="before send")
STOPPED_BEFORE = Fault(how="stop", moment="before send")

AT_ONCE = 4
OTHER_AMOUNT = 9998

# A lease is over after this, also on a clock that counts whole seconds.
OVER_SECONDS = LEASE_SECONDS + 1.5


@dataclass(frozen=True, kw_only=True)
class Column:
    """One plan. `says` explains it to a reader; `refuses`: the second request is to be refused."""

    name: str
    says: str
    plan: Callable[[Stage], None]
    refuses: bool = False


def _killed_after_commit(stage: Stage) -> None:
    stage.start(fault=KILLED_AFTER).until_killed()
    stage.start(alone=True).until_answered()


def _killed_lease_over(stage: Stage) -> None:
    stage.start(fault=KILLED_AFTER).until_killed()
    stage.pass_time(OVER_SECONDS)
    stage.start(alone=True).until_answered()


def _four_at_once(stage: Stage) -> None:
    stage.start_together(AT_ONCE, think_seconds=0.3)


def _other_params(stage: Stage) -> None:
    stage.start().until_answered()
    stage.start(amount=OTHER_AMOUNT, alone=True).until_answered()


def _timeout_after_commit(stage: Stage) -> None:
    stage.start(hold_seconds=ANSWER_SECONDS * 1.3).until_answered()
    stage.start(alone=True).until_answered()
    stage.pass_time(OVER_SECONDS)
    stage.start(alone=True).until_answered()


def _stopped_wakes(stage: Stage) -> None:
    first = stage.start(fault=STOPPED_BEFORE)
    first.until_stopped()
    stage.pass_time(OVER_SECONDS)
    stage.start().until_answered()
    first.wake()
    first.until_sent()
    first.until_answered()


def _killed_before_send(stage: Stage) -> None:
    stage.start(fault=KILLED_BEFORE).until_killed()
    stage.start(alone=True).until_answered()
    stage.pass_time(OVER_SECONDS)
    stage.start(alone=True).until_answered()


COLUMNS = (
    Column(name="A", says="killed when the provider had committed; another process at once", plan=_killed_after_commit),
    Column(name="B", says=f"{AT_ONCE} processes at once, same key", plan=_four_at_once),
    Column(name="C", says="same key, other params: to be refused", plan=_other_params, refuses=True),
    Column(name="D", says="no answer in time, though the provider committed; then again", plan=_timeout_after_commit),
    Column(name="L", says="as A, when the lease is over", plan=_killed_lease_over),
    Column(name="S", says="stopped before it sends, and woken after the take-over", plan=_stopped_wakes),
    Column(name="K", says="killed before it sends: nothing has happened yet; then again", plan=_killed_before_send),
)
