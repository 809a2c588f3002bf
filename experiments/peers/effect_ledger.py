"""effect-ledger: a claim on Postgres that nothing but a decision ever releases; no lease.

A caller that finds the operation in flight waits for it, as its documentation says. Where the caller knows that nobody
else can be performing it (`workers_stopped`), the recovery policy asks the provider and decides.
"""

from __future__ import annotations

import time
from functools import partial
from importlib import import_module
from typing import Any

from experiments.peers.order import PATIENCE_SECONDS, Answer, Order, Place, Word, charge
from experiments.story import Story

LOOK_EVERY_SECONDS = 0.1


def _executor(order: Order | None, place: Place) -> Any:
    store = import_module("effect_ledger.postgres").PostgresOperationStore(place.dsn)
    policy = partial(_decide, order) if order is not None else None
    scope = order.case if order is not None else "made"
    return import_module("effect_ledger").EffectExecutor(scope=scope, store=store, recovery=policy)


def _decide(order: Order, operation: Any) -> Any:
    """The provider's word: complete it, or allow one more attempt."""
    decision: Any = import_module("effect_ledger.recovery").RecoveryDecision
    found = order.provider.find(operation.provider_key)
    named = {"decision_id": f"{operation.operation_id}@{operation.version}", "reason": "The provider was asked."}
    if found is not None:
        return decision(action="complete", result=found, **named)
    return decision(action="retry", **named)


def make(place: Place) -> None:
    """Make the tables, so that no caller has to."""
    _executor(None, place)


def call(story: Story, order: Order, place: Place) -> str:
    """One call, in a process of its own."""
    conflict: Any = import_module("effect_ledger.models").OperationConflict
    executor = _executor(order, place)

    def perform() -> Any:
        def handler(operation: Any) -> Any:
            return charge(order, story, operation.provider_key)

        return executor.execute(order.case, "charge.create:v1", {"amount": order.amount}, handler)

    try:
        operation = perform()
        if operation.state == "in_flight":
            operation = _waited(executor, operation, 0 if order.alone else PATIENCE_SECONDS)
        if operation.state in ("in_flight", "indeterminate") and order.alone:
            operation = executor.recover(order.case, workers_stopped=True)
        if operation.state == "ready":
            operation = perform()
    except conflict as error:
        return Answer.of("refused", error).to_text()
    return _answer(operation).to_text()


def _waited(executor: Any, operation: Any, seconds: float) -> Any:
    deadline = time.monotonic() + seconds
    while operation.state == "in_flight" and time.monotonic() < deadline:
        time.sleep(LOOK_EVERY_SECONDS)
        operation = executor.get(operation.operation_id)
    return operation


def _answer(operation: Any) -> Answer:
    if operation.state == "completed":
        return Answer(word="done", says=operation.result["charge"])
    word: Word = "busy" if operation.state == "in_flight" else "unsettled"
    return Answer(word=word, says=f"{operation.state} {operation.error or ''}".strip())


def look(order: Order, place: Place) -> Word:
    """What its ledger says in the end."""
    operation = _executor(order, place).get(order.case)
    return _answer(operation).word if operation is not None else "failed"
