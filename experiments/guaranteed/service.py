"""The ledger service of a case: the product's own, which can be told to end at one moment.

    before send   when the claim has committed and the effect is about to be written
    after send    when the effect is there and its record is not

For a transactional kind the effect is a row: before its commit, and after it.
"""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from experiments.mutants import plant_in_ledger
from experiments.story import CRASH, Story

Moment = Literal["before send", "after send"]

EXIT_CODE = 137
GRACE_SECONDS = 0.3  # what a record may take beyond the deadline of its send


@dataclass(frozen=True, kw_only=True)
class Orders:
    """What one process of the service is told."""

    store: str
    objects: str
    config: Path
    token: str
    ready_file: Path
    kind: str
    end_at: Moment | None = None
    planted: str | None = None


def serve(story: Story, orders: Orders) -> str:
    """Be the service until stopped, killed, or at the moment that was ordered."""
    from onward_ledger import serve as service
    from onward_ledger.store import claims

    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s")
    claims.RECORD_GRACE_SECONDS = GRACE_SECONDS  # pyright: ignore[reportConstantRedefinition]
    plant_in_ledger(orders.planted)
    if orders.end_at is not None:
        _end_at(orders.end_at, orders.kind, service, story)
    service.serve(
        service.ServeOptions(
            store=orders.store,
            objects=orders.objects,
            config=orders.config,
            token=orders.token,
            ready_file=orders.ready_file,
        )
    )
    return "stopped"


def _end_at(moment: Moment, kind: str, service: Any, story: Story) -> None:
    """Wrap the one call behind which there is no way back."""
    providers_for = service.providers_for

    def wrapped(*arguments: Any) -> dict[str, Any]:
        providers = providers_for(*arguments)
        provider = providers[kind]
        if hasattr(provider, "apply"):
            _end_around_commit(moment, provider, story)
        else:
            provider.send = _ending(moment, provider.send, story)
        return providers

    service.providers_for = wrapped


def _ending(moment: Moment, call: Any, story: Story) -> Any:
    def ending(*arguments: Any) -> Any:
        if moment == "after send":
            call(*arguments)
        _end(moment, story)

    return ending


def _end_around_commit(moment: Moment, provider: Any, story: Story) -> None:
    """The effect is there with the commit: before it, or when the transaction of it has ended."""
    from onward_ledger.action import Status
    from onward_ledger.store.calls import Answered
    from onward_ledger.store.store import Store

    if moment == "before send":
        provider.apply = _ending(moment, provider.apply, story)
        return
    begin = Store.begin

    def begun(self: Any, call: Any) -> Any:
        step = begin(self, call)
        applied = isinstance(step, Answered) and step.action.status is Status.SUCCEEDED
        if applied and step.action.kind == provider.kind:
            _end(moment, story)
        return step

    Store.begin = begun


def _end(moment: Moment, story: Story) -> None:
    story.tell(f"{CRASH}{moment}")
    os._exit(EXIT_CODE)
