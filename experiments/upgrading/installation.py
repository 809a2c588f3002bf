"""The installation that every release works on: one database, one ledger with a witness, one object store."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from experiments.lane import Lane
from experiments.workload import workbook
from onward_ledger.action import Action
from onward_ledger.errors import DecisionConflict
from onward_ledger.objects import Objects
from runs import local_ledger, registry
from runs.registry import NewRun, Run

_POLL_SECONDS = 0.1


@dataclass(frozen=True)
class Installation:
    """A lane of the experiments, as releases of the product see it."""

    lane: Lane

    @property
    def environment(self) -> dict[str, str]:
        """What leads a process to it."""
        settings = self.lane.settings
        token = settings.ledger_token
        assert settings.database_url is not None
        assert settings.ledger_url is not None
        assert token is not None
        return {
            "ONWARD_HOME": str(settings.home),
            "ONWARD_STORE": settings.store,
            "ONWARD_PRINCIPAL": settings.principal,
            "DATABASE_URL": settings.database_url,
            "LEDGER_DATABASE_URL": settings.database_url,
            "ONWARD_OBJECTS": settings.objects_url,
            "ONWARD_LEDGER_URL": settings.ledger_url,
            "ONWARD_LEDGER_TOKEN": token.get_secret_value(),
            "COLUMNS": "200",
        }

    def queued(self, count: int, version: str) -> list[str]:
        """So many runs of a version on the same input, queued for workers; their ids."""
        settings = self.lane.settings
        source: Path = self.lane.folder / "sales.csv"
        source.write_bytes(workbook())
        new = NewRun(
            owner=settings.principal,
            workflow_version=version,
            store=settings.store,
            ledger=local_ledger.ledger_id(settings),
            allowed_kinds=("draft.save", "report.publish"),
        )
        objects = Objects(settings.objects_url)
        return [registry.create(self.lane.database, objects, source, new).run_id for _ in range(count)]

    def run(self, run_id: str) -> Run:
        """A run as it stands."""
        return registry.get(self.lane.database, run_id)

    def until(self, run_ids: Sequence[str], done: Callable[[Run], bool], seconds: float) -> list[Run]:
        """Wait until it holds for every run, at most so long; those for which it does not."""
        deadline, left = time.monotonic() + seconds, list(run_ids)
        while True:
            left = [run_id for run_id in left if not done(self.run(run_id))]
            if not left or time.monotonic() > deadline:
                return [self.run(run_id) for run_id in left]
            time.sleep(_POLL_SECONDS)

    def proposal(self, run_id: str) -> Action:
        """What a person is asked about."""
        [found] = [action for action in self.lane.client.actions(run_id) if action.kind == "report.publish"]
        return found

    def decide(self, run_id: str, decision: str) -> str:
        """Say it; what stands then: the decision, or "conflict" and what stands instead."""
        action = self.proposal(run_id)
        reason = None if decision == "approve" else "the drill"
        try:
            said = self.lane.client.decide(action.action_id, decision, request_hash=action.request_hash, reason=reason)
        except DecisionConflict as conflict:
            return f"conflict: {conflict.decision.decision if conflict.decision else 'another'} stands"
        return str(said.decision)

    def digest(self, run_id: str) -> str | None:
        """The digest of the run's last saved draft."""
        saved = [action for action in self.lane.client.actions(run_id) if action.kind == "draft.save"]
        return str(saved[-1].params["digest"]) if saved else None

    def effects(self, run_id: str) -> dict[str, int]:
        """How often each kind of effect happened, by the word of the witness."""
        found: dict[str, int] = {}
        for effect in self.lane.oracle.effects(run_id):
            found[effect.kind] = found.get(effect.kind, 0) + (not effect.again)
        return found
