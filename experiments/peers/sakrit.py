"""Sakrit: leases and fencing over one shared SQLite file, its only store.

A take-over asks the provider first (`reconcile`). What it does not find there is surfaced (rung L1, `on_absent`
"surface", its default for what cannot be undone). Where the provider remembers keys, the tool is declared so (rung L2R,
"for money"), and what is not found is sent again.
"""

from __future__ import annotations

from functools import partial
from importlib import import_module
from typing import Any

from experiments.peers.order import LEASE_SECONDS, PATIENCE_SECONDS, Answer, Order, Place, Word, charge
from experiments.story import Story

PATIENCE = LEASE_SECONDS + PATIENCE_SECONDS  # its clock has seconds, so a lease may last one longer


def sakrit() -> Any:
    """The package, which may not be installed."""
    return import_module("sakrit")


def _ledger(place: Place) -> Any:
    return sakrit().SqliteLedger(str(place.folder / "sakrit.db"), multi_worker=True)


def make(place: Place) -> None:
    """Make the tables, so that no caller has to."""
    _ledger(place).close()


def call(story: Story, order: Order, place: Place) -> str:
    """One call, in a process of its own."""
    errors: Any = import_module("sakrit.core.errors")

    def create(amount: int) -> dict[str, Any]:
        return charge(order, story, sakrit().current_key())

    guarding = sakrit().Sakrit(_ledger(place), secret=b"experiment", lease_seconds=LEASE_SECONDS, wait_timeout=PATIENCE)
    try:
        made: Any = guarding.guard(_declared(order), create, kwargs={"amount": order.amount}, key=order.case)
    except errors.DivergentRetry as error:
        return Answer.of("refused", error).to_text()
    except errors.AmbiguousOutcome as error:
        return Answer.of("busy" if "timed out" in str(error) else "unsettled", error).to_text()
    except OSError as error:
        return Answer.of("failed", error).to_text()
    return Answer(word="done", says=made["charge"]).to_text()


def _declared(order: Order) -> Any:
    rung = {"provider_key_param": "idempotency_key", "on_absent": "retry", "provider_read": "strong"}
    return sakrit().EffectDecl(
        "charge.create",
        {"amount": sakrit().ArgClass.IDENTITY},
        reconcile=partial(_reconcile, order),
        **(rung if order.keyed else {}),
    )


def _reconcile(order: Order, key: str) -> Any:
    reconciliation: Any = import_module("sakrit.core.reconcile").Reconciliation
    found = order.provider.find(key)
    return reconciliation.settled(found) if found is not None else reconciliation.absent()


def look(order: Order, place: Place) -> Word:
    """What its ledger says in the end."""
    ledger = _ledger(place)
    try:
        rows = ledger.conn.execute("SELECT state FROM effects").fetchall()
    finally:
        ledger.close()
    states: dict[str, Word] = {"succeeded": "done", "ambiguous": "unsettled", "failed": "failed"}
    return states.get(rows[0][0].lower(), "busy") if rows else "failed"
