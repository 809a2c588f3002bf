"""exactly-once: a claim on Postgres, SERIALIZABLE; the payload's fingerprint is compared, which it leaves to choice.

Two settings. Its recipe for money and concurrent workers: a prober that asks the provider (`check_then_decide`), and a
lease. And its careful one: losers wait for the winner (`wait`), and what was left in flight stays there for a person.
"""

from __future__ import annotations

from functools import partial
from importlib import import_module
from typing import Any

from experiments.peers.order import LEASE_SECONDS, PATIENCE_SECONDS, Answer, Order, Place, Word, charge
from experiments.story import Story


def exactly_once() -> Any:
    """The package, which may not be installed."""
    return import_module("exactly_once")


def _store(place: Place) -> Any:
    return exactly_once().Store.postgres(place.dsn)


def make(place: Place) -> None:
    """Make the tables, so that no caller has to."""
    _store(place).close()


def call(story: Story, order: Order, place: Place) -> str:
    """One call, in a process of its own."""
    policy = exactly_once().check_then_decide(partial(_probe, order))
    return _call(story, order, place, policy=policy, lease_ttl=LEASE_SECONDS)


def call_carefully(story: Story, order: Order, place: Place) -> str:
    """One call with the careful setting."""
    return _call(story, order, place, policy=exactly_once().wait(timeout=PATIENCE_SECONDS))


def _call(story: Story, order: Order, place: Place, **settings: Any) -> str:
    errors: Any = import_module("exactly_once.errors")
    settings |= {"key": f"charge:{order.case}", "fingerprint": _payload}

    @exactly_once().once(_store(place), **settings)
    def create(amount: int) -> dict[str, Any]:
        return charge(order, story, exactly_once().current_key())

    try:
        made = create(order.amount)
    except errors.KeyReuseError as error:
        return Answer.of("refused", error).to_text()
    except errors.QuarantinedError as error:
        return Answer.of("busy", error).to_text()
    except OSError as error:
        return Answer.of("failed", error).to_text()
    return Answer(word="done", says=made["charge"]).to_text()


def _payload(amount: int) -> dict[str, Any]:
    """What must not differ under one key."""
    return {"amount": amount}


def _probe(order: Order, key: str) -> Any:
    found = order.provider.find(key)
    verdict, result = exactly_once().Verdict, exactly_once().ProbeResult
    return result(verdict.COMMITTED, found) if found is not None else result(verdict.NOT_COMMITTED)


def look(order: Order, place: Place) -> Word:
    """What its store says in the end. It has no word for what a person has to look at: that stays in flight."""
    store = _store(place)
    try:
        record = store.get(f"charge:{order.case}")
    finally:
        store.close()
    if record is None:
        return "failed"
    return "done" if record.state.value == "committed" else "busy"
