"""A ledger for tests: a store of either engine, objects in a folder, and a provider whose behaviour is scripted."""

import hashlib
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from threading import Event, Lock

import psycopg

from onward_ledger.action import Action, ActionKey, Intent
from onward_ledger.ledger import Ledger
from onward_ledger.objects import Objects
from onward_ledger.providers import providers_for
from onward_ledger.providers.interface import (
    Absent,
    Applied,
    ApprovalPolicy,
    CannotTell,
    Deadline,
    Found,
    NotSent,
    Outcome,
    Provider,
    ProviderClass,
    Refused,
    SendingProvider,
)
from onward_ledger.providers.listing import report_digest
from onward_ledger.store import Opened, open_store
from onward_ledger.store.approvals import Answer

ENGINES = ("sqlite", "postgres")


class Sink(SendingProvider):
    """An effect that can be counted. `script` holds what the next sends do; an empty one applies.

    apply | refuse | not_sent | raise (before the effect) | lost (after it) | hang (after it, until `release`)
    """

    kind = "test.sink"
    deadline_seconds = 30.0

    def __init__(self, provider_class: ProviderClass = ProviderClass.IDEMPOTENT, *, needs_approval: bool = False):
        self.provider_class = provider_class
        self.approval = ApprovalPolicy() if needs_approval else None
        self.editable = frozenset({"amount"})
        self.script: list[str] = []
        self.sends: list[str] = []
        self.effects: list[str] = []
        self.lookups: list[str] = []
        self.can_tell = True
        self.release = Event()
        self.sending = Event()
        self._lock = Lock()

    def validate(self, run_id, resource, params):
        pass

    def send(self, action: Action, deadline: Deadline) -> Outcome:
        deadline.check()
        with self._lock:
            word = self.script.pop(0) if self.script else "apply"
            self.sends.append(action.action_id)
        self.sending.set()
        if word == "refuse":
            return Refused("the sink refuses")
        if word == "not_sent":
            return NotSent("the sink is down")
        if word == "raise":
            raise ConnectionError("no answer")
        self._apply(action)
        if word == "lost":
            raise ConnectionError("no answer")
        if word == "hang":
            self.release.wait(20)
        return self.applied(action)

    def _apply(self, action: Action) -> None:
        with self._lock:
            if self.provider_class is ProviderClass.IDEMPOTENT and action.action_id in self.effects:
                return
            self.effects.append(action.action_id)

    def lookup(self, action: Action) -> Found:
        self.lookups.append(action.action_id)
        if not self.can_tell:
            return CannotTell("the sink is down")
        return self.applied(action) if action.action_id in self.effects else Absent()

    @staticmethod
    def applied(action: Action) -> Applied:
        return Applied(provider_id=f"sink-{action.action_id[:8]}", receipt={"params": action.params})


@dataclass
class Bed:
    """A ledger with its parts, one run, and intents for it."""

    url: str
    folder: Path
    opened: Opened
    objects: Objects
    sink: Sink
    ledger: Ledger
    run_id: str = field(default_factory=lambda: str(uuid.uuid4()))
    _others: list[Opened] = field(default_factory=list)

    def key(self, step="pay", slot="sink", rev=1) -> ActionKey:
        return ActionKey(self.run_id, step, slot, rev)

    def intent(self, step="pay", *, epoch=1, rev=1, resource="account/1", **params) -> Intent:
        key = self.key(step, rev=rev)
        return Intent(key=key, kind=self.sink.kind, resource=resource, params={"amount": 5, **params}, epoch=epoch)

    def draft(self, step="write_draft", *, data=b"# Report", epoch=1, revision=1) -> Intent:
        resource, params = draft_request(self.objects, self.run_id, data, revision)
        key = self.key(step, "draft")
        return Intent(key=key, kind="draft.save", resource=resource, params=params, epoch=epoch)

    def publication(self, saved: Action, *, epoch=1, rev=1, step="deliver", **changes) -> Intent:
        resource, params = publication_request(saved)
        resource = changes.pop("resource", resource)
        key = self.key(step, "publish", rev)
        return Intent(key=key, kind="report.publish", resource=resource, params=params | changes, epoch=epoch)

    def put(self, intent: Intent, *, propose=False) -> Action:
        return self.ledger.put(intent, propose=propose)

    def answer(self, action: Action, decision: str, *, principal="anna", **more) -> Answer:
        return Answer(
            action_id=action.action_id,
            decision=decision,
            principal=principal,
            request_hash=action.request_hash,
            **more,
        )

    def decide(self, action: Action, decision: str, **more):
        return self.ledger.decide(self.answer(action, decision, **more))

    def another(self, *, clock: datetime | None = None) -> Ledger:
        """A second instance over the same records, objects and sink; `clock` is what its database says the time is."""
        opened = open_store(self.url, clock=clock)
        self._others.append(opened)
        return start(opened, {kind: self.ledger.provider(kind) for kind in self.ledger.kinds})

    def words(self, action: Action) -> list[str]:
        return [event.word for event in self.ledger.store.events(action.action_id)]

    def close(self) -> None:
        for opened in (*self._others, self.opened):
            opened.liveness.release()
            opened.database.close()


def start(opened: Opened, providers: dict[str, Provider]) -> Ledger:
    """An instance that is known to the store, as `serve` makes it known."""
    ledger = Ledger(opened.store, providers)
    opened.store.start_instance(
        ledger.instance, lock_key=opened.liveness.lock_key or 1, version="test", host="here", pid=1
    )
    return ledger


@contextmanager
def open_bed(engine: str, request, tmp_path: Path, **sink) -> Iterator[Bed]:
    """A bed over an empty store: a new file, or the emptied schema of this session's database."""
    url = f"sqlite:///{tmp_path / 'ledger.db'}" if engine == "sqlite" else shared_database(request)
    opened = open_store(url)
    opened.database.migrate()
    if engine == "postgres":
        _empty(opened)
    objects = Objects(str(tmp_path / "objects"))
    provider = Sink(**sink)
    providers = {**providers_for(objects), provider.kind: provider}
    opened.liveness.hold()
    bed = Bed(url, tmp_path, opened, objects, provider, start(opened, providers))
    try:
        yield bed
    finally:
        provider.release.set()
        bed.close()


def _empty(opened: Opened) -> None:
    """Delete every row. Triggers and foreign keys are off for this session; a schema for each test costs far more."""
    tables = (
        "ledger",
        "outbox",
        "look_ups",
        "publications",
        "feed",
        "decisions",
        "grants",
        "action_events",
        "actions",
        "fences",
        "instances",
    )
    with psycopg.connect(opened.database.conninfo) as connection:
        connection.execute("set session_replication_role = replica")
        for table in tables:
            connection.execute(f"delete from {table}")
        connection.execute("update feed_head set last_seq = 0")


def shared_database(request) -> str:
    """The URL of a database that all ledger tests of this session share."""
    name = request.getfixturevalue("database_template")("ledger_tests", lambda _: None)
    return request.getfixturevalue("postgres_server").replace("/postgres?", f"/{name}?", 1)


def execute(bed, statement):
    """What somebody with the database's password might do."""
    if bed.opened.kind == "sqlite":
        with bed.opened.database.transaction():
            bed.opened.database._connection.execute(statement)
    else:
        with psycopg.connect(bed.opened.database.conninfo) as connection:
            connection.execute(statement)


def draft_request(objects: Objects, run_id: str, data: bytes, revision: int = 1):
    """Stage one object and name it: `(resource, params)` of a draft.save."""
    digest = hashlib.sha256(data).hexdigest()
    source = f"runs/{run_id}/{digest}"
    objects.put_once(source, data)
    item = {"name": "report.md", "source": source, "digest": digest, "size": len(data), "media_type": "text/markdown"}
    return f"drafts/{run_id}/{revision}", {"digest": report_digest([item]), "objects": [item]}


def publication_request(saved: Action):
    """`(resource, params)` of a report.publish of a saved draft."""
    assert saved.receipt is not None
    params = {"title": "Sales", "digest": saved.receipt["digest"], "objects": saved.receipt["objects"], "note": ""}
    return "reports/sales", params
