"""Onward's ledger on Postgres: the service sends, so the process that is killed or stopped is the service.

Each worker of a plan is an instance of the service over the same database, with a caller of its own. The kind's class
follows the provider: idempotent where it remembers keys; else queryable, where what is not found is not sent again.
"""

from __future__ import annotations

import json
import logging
import time
import uuid
from pathlib import Path
from typing import Any

from experiments.peers.order import LEASE_SECONDS, PATIENCE_SECONDS, Answer, Order, Place, Word, charge
from experiments.story import Story

TOKEN = "the token of the experiment"  # noqa: S105 - everything it opens is on loopback and gone in a minute
GRACE_SECONDS = 0.5  # what a record may take beyond the deadline of its send
WAIT_SECONDS = 10.0  # for one answer
STEP, SLOT, KIND = "pay", "charge", "charge.create"
WORDS: dict[str, Word] = {"SUCCEEDED": "done", "UNKNOWN": "unsettled", "IN_FLIGHT": "busy", "PREPARED": "busy"}


def _run_id(order: Order) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_URL, order.case))


def make(place: Place) -> None:
    """Make the tables, so that no instance has to."""
    from contextlib import closing

    from onward_ledger.store import open_store

    opened = open_store(place.dsn)
    with closing(opened.database):
        opened.database.migrate()


def serve(story: Story, order: Order, place: Place, ready_file: Path) -> str:
    """Be an instance of the service, whose kind does what is ordered, until stopped or killed."""
    from onward_ledger import serve as service
    from onward_ledger.store import claims

    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s")
    claims.RECORD_GRACE_SECONDS = GRACE_SECONDS  # pyright: ignore[reportConstantRedefinition]
    provider = charging(order, story)

    def providers_for(*told: Any) -> dict[str, Any]:
        return {provider.kind: provider}

    service.providers_for = providers_for
    objects = place.folder / "objects"
    options = service.ServeOptions(store=place.dsn, objects=str(objects), token=TOKEN, ready_file=ready_file)
    service.serve(options)
    return Answer(word="done").to_text()


def charging(order: Order, story: Story) -> Any:
    """The provider: one charge per send."""
    from onward_ledger.providers.interface import Absent, Applied, ProviderClass, SendingProvider

    class Charging(SendingProvider):
        kind = KIND
        provider_class = ProviderClass.IDEMPOTENT if order.keyed else ProviderClass.QUERYABLE
        deadline_seconds = LEASE_SECONDS - GRACE_SECONDS

        def validate(self, run_id: str, resource: str, params: Any) -> None:
            """Any amount will do."""

        def send(self, action: Any, deadline: Any) -> Any:
            """What waits inside is bounded by the provider's own patience, which is shorter than the deadline."""
            deadline.check()
            made = charge(order, story, action.action_id)
            return Applied(provider_id=made["charge"], receipt={"charge": made["charge"]})

        def lookup(self, action: Any) -> Any:
            found = order.provider.find(action.action_id)
            if found is None:
                return Absent()
            return Applied(provider_id=found["charge"], receipt={"charge": found["charge"]})

    return Charging()


def call(story: Story, order: Order, place: Place, ready_file: Path) -> str:
    """One call to the instance that wrote this file, in a process of its own.

    Plain HTTP, as from any language: the Python client would answer other params with the recorded ones, by design.
    """
    import httpx

    from onward_ledger.action import ActionKey

    url = json.loads(ready_file.read_text(encoding="utf-8"))["url"]
    key = ActionKey(_run_id(order), STEP, SLOT)
    body = {"run_id": key.run_id, "step": STEP, "slot": SLOT, "rev": 1, "kind": KIND, "epoch": order.turn}
    body |= {"resource": f"customers/{order.case}", "params": {"amount": order.amount}}
    fence = {"epoch": order.turn, "holder": f"turn {order.turn}"}
    headers = {"Authorization": f"Bearer {TOKEN}"}
    with httpx.Client(base_url=url, headers=headers, timeout=WAIT_SECONDS, trust_env=False) as http:
        try:
            http.put(f"/v1/fences/{key.run_id}", json=fence).raise_for_status()
            return _told(_asked(http, f"/v1/actions/{key.action_id}", body)).to_text()
        except httpx.HTTPError as error:
            return Answer.of("failed", error).to_text()


def _asked(http: Any, path: str, body: dict[str, Any]) -> dict[str, Any]:
    """The answer; while the service says to come again, for as long as callers of the others wait."""
    deadline = time.monotonic() + LEASE_SECONDS + PATIENCE_SECONDS
    while True:
        answer = http.put(path, json=body).json()
        if not answer.get("retryable") or time.monotonic() > deadline:
            return answer
        time.sleep(answer.get("retry_after_seconds") or 0.1)


def _told(answer: dict[str, Any]) -> Answer:
    if "code" in answer:
        words: dict[str, Word] = {"params-conflict": "refused", "in-progress": "busy"}
        return Answer(word=words.get(answer["code"], "failed"), says=f"{answer['code']}: {answer['detail']}")
    says = answer["receipt"]["charge"] if answer["receipt"] else f"{answer['status']} {answer['reason'] or ''}"
    return Answer(word=WORDS.get(answer["status"], "failed"), says=says)


def look(order: Order, place: Place) -> Word:
    """What the record says in the end."""
    import psycopg

    from onward_ledger.action import ActionKey
    from onward_ledger.store import SCHEMA

    action_id = ActionKey(_run_id(order), STEP, SLOT).action_id
    with psycopg.connect(place.dsn, autocommit=True, options=f"-c search_path={SCHEMA}") as connection:
        row = connection.execute("select status::text from actions where action_id = %s", (action_id,)).fetchone()
    return WORDS.get(row[0], "failed") if row is not None else "failed"
