"""What one process of a case is told to do; the effect itself; and the fault that hits it.

The effect is the same code for every system: one charge at the provider. So is the moment of the fault: before the
request is written, when every check of the system lies behind it, or when the provider's answer is in hand and nothing
of it has been recorded.
"""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from experiments.peers.provider import Charge, Provider
from experiments.story import CRASH, STOP, WAKE, Story

# After so long every system may take over what nobody is heard of: the lease of those that have one.
LEASE_SECONDS = 2.0

# How long a caller waits for somebody else's work before it gives up, in those systems where it can wait.
PATIENCE_SECONDS = 3.0

SENT = "SENT "
LOST = "LOST "  # no answer came

Moment = Literal["before send", "after commit"]
Word = Literal["done", "busy", "refused", "unsettled", "failed"]


@dataclass(frozen=True, kw_only=True)
class Fault:
    """What happens to the process that sends, and when."""

    how: Literal["kill", "stop"]
    moment: Moment


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where a system keeps its records: a database of its own on the experiment's server, and a folder of the case."""

    dsn: str
    folder: Path


@dataclass(frozen=True, kw_only=True)
class Order:
    """One call for the action of a case.

    `case` is the action's identity, for every system. `keyed`: the provider remembers idempotency keys. `alone`: the
    caller knows that nobody else can be performing it, since the one before has been seen to end. `gate`: a file whose
    appearance lets all callers begin at once. `turn` numbers the take-overs, from 1.
    """

    case: str
    provider: Provider
    keyed: bool
    amount: int = 4999
    fault: Fault | None = None
    alone: bool = False
    turn: int = 1
    think_seconds: float = 0.0
    hold_seconds: float = 0.0
    gate: Path | None = None


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What a system told its caller.

    done: the result is there. busy: somebody performs it, ask later. refused: not this request under this key.
    unsettled: a person has to look. failed: the call itself failed, and says nothing of the effect.
    """

    word: Word
    says: str = ""

    def to_text(self) -> str:
        """For the story of the process."""
        return json.dumps(asdict(self), ensure_ascii=False)

    @classmethod
    def from_text(cls, text: str) -> Answer:
        """From the story of the process."""
        return cls(**json.loads(text))

    @classmethod
    def of(cls, word: Word, error: BaseException) -> Answer:
        """What an error says, shortened to a line."""
        return cls(word=word, says=f"{type(error).__name__}: {error}".splitlines()[0][:300])


def charge(order: Order, story: Story, key: str) -> Charge:
    """The effect: one charge under this idempotency key."""
    _strike(order.fault, "before send", story)
    body = {"case": order.case, "amount": order.amount, "keyed": order.keyed}
    body |= {"think_seconds": order.think_seconds, "hold_seconds": order.hold_seconds}
    try:
        made = order.provider.charge(key, body)
    except OSError as error:
        story.tell(f"{LOST}{type(error).__name__}")
        raise
    _strike(order.fault, "after commit", story)
    story.tell(f"{SENT}{made['charge']}{' again' if made['again'] else ''}")
    return made


def at_the_gate(story: Story, call: Callable[..., str], order: Order, *more: Any) -> str:
    """`call`, as soon as the gate is open."""
    while order.gate is not None and not order.gate.exists():
        time.sleep(0.001)
    return call(story, order, *more)


def _strike(fault: Fault | None, moment: Moment, story: Story) -> None:
    if fault is None or fault.moment != moment:
        return
    if fault.how == "kill":
        story.tell(f"{CRASH}{moment}")
        os.kill(os.getpid(), signal.SIGKILL)
        signal.pause()  # it is on its way; nothing of ours runs any more
    story.tell(f"{STOP}{moment}")
    # Every thread of it stops. To this thread, or another one takes the signal and this one gets a step further.
    signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)
    story.tell(f"{WAKE}{moment}")
