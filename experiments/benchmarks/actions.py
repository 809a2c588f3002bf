"""An action over loopback HTTP against its floor: what nobody who does it over HTTP and records it can do without.

The floor is made of the same parts on the same server, one after the other in this process:

    draft.save       one ping, two commits (the intent before the send, the receipt behind it), and the objects:
                     three read, hashed and put under their final keys, as the provider does it
    report.publish   one ping, one commit (the intent, the effect and the receipt are one transaction), and the
                     three objects read and hashed, since what was approved is their digest
    proposal         one ping, one commit
    replay           one ping, one read

A ping is `GET /health` of the same service over the same kind of connection. A commit is one statement of psycopg in
autocommit mode that writes a row with the action's own params, on a connection that is kept. What is measured is one
HTTP request each. Fences and grants are made before; a fresh publication turns its grant into a decision on the way,
one that was proposed before has its decision.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg

from experiments.benchmarks.figures import Declared, Measured, amount, quotient
from experiments.benchmarks.graphs import draft_files
from experiments.benchmarks.rounds import Subject, Teller, interleave, milliseconds
from experiments.benchmarks.services import Services
from experiments.errors import NotRun
from onward_ledger.action import Action, ActionKey, Json, Status
from onward_ledger.canonical import canonical
from onward_ledger.client import LedgerClient
from onward_ledger.objects import Objects
from onward_ledger.providers.listing import report_digest
from runs import local_ledger
from tools.files import Files

NAME = "actions"
KNOWN = "00000000-0000-0000-0000-000000000000"  # the row that the floor of a replay reads
ROUNDS_EACH = 3  # an action takes milliseconds: more rounds cost little
TARGET = 1.5

BOTH = Declared(
    key="action_ratio",
    unit="ratio",
    target=TARGET,
    says="a fresh `draft.save` and a fresh `report.publish`, both together, against both floors",
)
DRAFT = Declared(
    key="draft_save_ratio",
    unit="ratio",
    says="a fresh `draft.save` of three objects of 1 kB against one ping, two commits and the objects",
)
DRAFT_ALONE = Declared(
    key="draft_save_without_objects_ratio",
    unit="ratio",
    says="the same against one ping and two commits only: the objects are in what is measured, not in the floor",
)
PUBLISH = Declared(
    key="publish_ratio",
    unit="ratio",
    says="a fresh `report.publish` that a grant approves, against one ping, one commit and its objects read again",
)
PUBLISH_ALONE = Declared(
    key="publish_without_objects_ratio", unit="ratio", says="the same against one ping and one commit only"
)
PROPOSED = Declared(
    key="publish_proposed_ratio",
    unit="ratio",
    says="the same publication where it was proposed and approved before, as in every run, against the same floor",
)
PROPOSE = Declared(key="proposal_ratio", unit="ratio", says="a proposal against one ping and one commit")
REPLAY = Declared(key="replay_ratio", unit="ratio", says="a replay of what succeeded against one ping and one read")
DRAFT_MS = Declared(key="draft_save_ms", unit="ms", says="a fresh `draft.save`")
PUBLISH_MS = Declared(key="publish_ms", unit="ms", says="a fresh `report.publish`")
REPLAY_MS = Declared(key="replay_ms", unit="ms", says="a replay")
PING_MS = Declared(key="ping_ms", unit="ms", says="`GET /health` over a kept connection")
COMMIT_MS = Declared(key="commit_ms", unit="ms", says="one row written in autocommit mode, flushed to disk")
DECLARED = (
    *(BOTH, DRAFT, DRAFT_ALONE, PUBLISH, PUBLISH_ALONE, PROPOSED, PROPOSE, REPLAY),
    *(DRAFT_MS, PUBLISH_MS, REPLAY_MS, PING_MS, COMMIT_MS),
)


def measure(services: Services, rounds: int, teller: Teller) -> Measured:
    """See the module."""
    with bench_of(services) as bench:
        taken = interleave("actions", _subjects(bench), rounds=rounds * ROUNDS_EACH, teller=teller)
    both = [a + b for a, b in zip(taken["draft.save"], taken["report.publish"], strict=True)]
    floor = [a + b for a, b in zip(taken["draft floor"], taken["publish floor"], strict=True)]
    again = [a + b for a, b in zip(taken["draft floor again"], taken["publish floor again"], strict=True)]
    figures = (
        quotient(BOTH, both, floor, again),
        quotient(DRAFT, taken["draft.save"], taken["draft floor"], taken["draft floor again"]),
        quotient(DRAFT_ALONE, taken["draft.save"], taken["draft floor, no objects"]),
        quotient(PUBLISH, taken["report.publish"], taken["publish floor"], taken["publish floor again"]),
        quotient(PUBLISH_ALONE, taken["report.publish"], taken["one commit floor"]),
        quotient(PROPOSED, taken["publish proposed"], taken["publish floor"], taken["publish floor again"]),
        quotient(PROPOSE, taken["proposal"], taken["one commit floor"]),
        quotient(REPLAY, taken["replay"], taken["replay floor"], taken["replay floor again"]),
        amount(DRAFT_MS, taken["draft.save"]),
        amount(PUBLISH_MS, taken["report.publish"]),
        amount(REPLAY_MS, taken["replay"]),
        amount(PING_MS, taken["ping"]),
        amount(COMMIT_MS, taken["commit"]),
    )
    return Measured(figures=figures, samples=taken)


def _subjects(bench: Bench) -> dict[str, Subject]:
    """What is measured in each round, each on a run of its own."""
    succeeded = bench.draft()
    bench.perform(succeeded)

    def fresh(make: Callable[[], Wanted], work: Callable[[Wanted], object]) -> Subject:
        def subject() -> float:
            wanted = make()
            return milliseconds(lambda: work(wanted))

        return subject

    subjects: dict[str, Subject] = {
        "draft.save": fresh(bench.draft, bench.perform),
        "draft floor": fresh(bench.draft, bench.draft_floor),
        "draft floor again": fresh(bench.draft, bench.draft_floor),
        "draft floor, no objects": fresh(bench.draft, bench.two_commits),
        "report.publish": fresh(bench.publication, bench.perform),
        "publish proposed": fresh(bench.proposed, bench.perform),
        "publish floor": fresh(bench.publication, bench.publish_floor),
        "publish floor again": fresh(bench.publication, bench.publish_floor),
        "one commit floor": fresh(bench.publication, bench.one_commit),
        "proposal": fresh(bench.publication, bench.propose),
        "replay": lambda: milliseconds(lambda: bench.replay(succeeded)),
        "replay floor": lambda: milliseconds(bench.replay_floor),
        "replay floor again": lambda: milliseconds(bench.replay_floor),
        "ping": lambda: milliseconds(bench.ping),
        "commit": fresh(bench.draft, bench.commit),
    }
    return subjects


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """An action that nobody has asked for yet, with everything that it needs in place."""

    key: ActionKey
    kind: str
    resource: str
    params: Json


@dataclass(frozen=True, kw_only=True)
class Bench:
    """The service, and the parts that the floors are made of."""

    client: LedgerClient
    objects: Objects
    floor: psycopg.Connection[Any]

    def draft(self) -> Wanted:
        """A draft whose objects are staged, in a run whose epoch is announced."""
        run_id = self._run()
        staged = [(name, Files(self.objects, run_id).put(data)) for name, data in draft_files().items()]
        objects = [_listed(name, ref["digest"], ref["size"]) | {"source": ref["key"]} for name, ref in staged]
        params: Json = {"digest": report_digest(objects), "objects": objects}
        key = ActionKey(run_id, "write_draft", "draft")
        return Wanted(key=key, kind="draft.save", resource=f"drafts/{run_id}/1", params=params)

    def publication(self) -> Wanted:
        """A publication that is approved beforehand, of objects that are there."""
        run_id = self._run()
        stored = [
            (name, self.objects.put_once(f"drafts/{run_id}/1/{name}", data)) for name, data in draft_files().items()
        ]
        objects = [_listed(name, found.digest, found.size) | {"key": found.key} for name, found in stored]
        params: Json = {"title": "Benchmark", "note": "", "digest": report_digest(objects), "objects": objects}
        self.client.grant(run_id, kind="report.publish", expires_at=datetime.now(UTC) + timedelta(hours=1))
        key = ActionKey(run_id, "deliver", "publish")
        return Wanted(key=key, kind="report.publish", resource="reports/benchmark", params=params)

    def proposed(self) -> Wanted:
        """The same, proposed already."""
        wanted = self.publication()
        self.propose(wanted)
        return wanted

    def _run(self) -> str:
        run_id = str(uuid.uuid4())
        self.client.fence(run_id, 1, holder="benchmark")
        return run_id

    # --- what the ledger does ---

    def perform(self, wanted: Wanted) -> None:
        """The action itself."""
        self._right(self._asked(wanted), Status.SUCCEEDED, replayed=False)

    def propose(self, wanted: Wanted) -> None:
        """The action up to its record."""
        action = self.client.propose(wanted.key, wanted.kind, lambda: (wanted.resource, wanted.params), epoch=1)
        self._right(action, Status.PREPARED, replayed=False)

    def replay(self, wanted: Wanted) -> None:
        """The action once more."""
        self._right(self._asked(wanted), Status.SUCCEEDED, replayed=True)

    def _asked(self, wanted: Wanted) -> Action:
        return self.client.perform(wanted.key, wanted.kind, lambda: (wanted.resource, wanted.params), epoch=1)

    def _right(self, action: Action, status: Status, *, replayed: bool) -> None:
        if (action.status, action.replayed) != (status, replayed):
            raise NotRun(f"An action of the benchmark is {action.status} (replayed: {action.replayed}).")

    # --- the floors ---

    def ping(self) -> None:
        """One request to the same service, which touches no database."""
        self.client.health()

    def commit(self, wanted: Wanted) -> None:
        """One row with the action's params."""
        self.floor.execute(
            "insert into floor (id, params) values (%s, %s)", (wanted.key.action_id, canonical(wanted.params).decode())
        )

    def one_commit(self, wanted: Wanted) -> None:
        """A ping and a commit."""
        self.ping()
        self.commit(wanted)

    def two_commits(self, wanted: Wanted) -> None:
        """A ping, the intent, and the receipt (as large as the params)."""
        self.one_commit(wanted)
        self.floor.execute(
            "update floor set receipt = %s where id = %s", (canonical(wanted.params).decode(), wanted.key.action_id)
        )

    def draft_floor(self, wanted: Wanted) -> None:
        """With the objects between the commits, where the effect belongs."""
        self.one_commit(wanted)
        for item in wanted.params["objects"]:
            data = self.objects.read_checked(item["source"], item["digest"])
            self.objects.put_once(f"{wanted.resource}/{item['name']}", data)
        self.floor.execute(
            "update floor set receipt = %s where id = %s", (canonical(wanted.params).decode(), wanted.key.action_id)
        )

    def publish_floor(self, wanted: Wanted) -> None:
        """With the objects hashed before the commit."""
        self.ping()
        for item in wanted.params["objects"]:
            self.objects.read_checked(item["key"], item["digest"])
        self.commit(wanted)

    def replay_floor(self) -> None:
        """A ping and a read."""
        self.ping()
        self.floor.execute("select * from floor where id = %s", (KNOWN,)).fetchone()


def _listed(name: str, digest: str, size: int) -> Json:
    return {"name": name, "digest": digest, "size": size, "media_type": "text/plain"}


@contextmanager
def bench_of(services: Services) -> Generator[Bench]:
    """The service of this home, and the table of the floors."""
    with (
        local_ledger.connect(services.settings) as client,
        psycopg.connect(services.plain_dsn, autocommit=True) as floor,
    ):
        floor.execute("create table if not exists floor (id uuid primary key, params json not null, receipt json)")
        bench = Bench(client=client, objects=Objects(services.settings.objects_url), floor=floor)
        wanted = bench.draft()
        floor.execute(
            "insert into floor values (%(id)s, %(params)s, %(params)s) on conflict do nothing",
            {"id": KNOWN, "params": canonical(wanted.params).decode()},
        )
        yield bench
