"""agent-once (imported as `once`): a claim on Postgres, the key handed to the provider.

Two settings. With a `verify` callback and `stale_after`, which settles what a dead process left. And its careful
default: without them such a record stays pending for a person. In both, callers wait, and every error of the network
means unknown.
"""

from __future__ import annotations

from functools import partial
from importlib import import_module
from typing import Any

from experiments.peers.order import LEASE_SECONDS, PATIENCE_SECONDS, Answer, Order, Place, Word, charge
from experiments.story import Story


def _once(place: Place, stale_after: float | None) -> Any:
    store: Any = import_module("once.postgres").PostgresStore(place.dsn)
    settings = {"wait": PATIENCE_SECONDS, "unknown_on": (TimeoutError, OSError), "stale_after": stale_after}
    return import_module("once").Once(store=store, **settings)


def make(place: Place) -> None:
    """Make the table, so that no caller has to."""
    _once(place, None).close()


def call(story: Story, order: Order, place: Place) -> str:
    """One call, in a process of its own."""
    return _call(story, order, _once(place, LEASE_SECONDS), verify=partial(_verify, order))


def call_carefully(story: Story, order: Order, place: Place) -> str:
    """One call with the careful setting."""
    return _call(story, order, _once(place, None))


def _call(story: Story, order: Order, once: Any, **settings: Any) -> str:
    errors: Any = import_module("once.exceptions")

    def create(amount: int, idempotency_key: str | None = None) -> dict[str, Any]:
        assert idempotency_key is not None, "it is always passed in"
        return charge(order, story, idempotency_key)

    try:
        made = once.execute(create, key=order.case, tool_name="charge.create", amount=order.amount, **settings)
    except errors.KeyConflict as error:
        return Answer.of("refused", error).to_text()
    except errors.EffectPending as error:
        return Answer.of("busy", error).to_text()
    except errors.EffectUnknown as error:
        return Answer.of("unsettled", error).to_text()
    except OSError as error:
        return Answer.of("failed", error).to_text()
    return Answer(word="done", says=made["charge"]).to_text()


def _verify(order: Order, key: str, args: dict[str, Any]) -> Any:
    found = order.provider.find(key)
    return import_module("once").NOT_HAPPENED if found is None else found


def look(order: Order, place: Place) -> Word:
    """What its store says in the end."""
    once = _once(place, None)
    try:
        record = once.get(order.case)
    finally:
        once.close()
    words: dict[str, Word] = {"done": "done", "pending": "busy", "unknown": "unsettled", "failed": "failed"}
    return words[record.status.value] if record is not None else "failed"
