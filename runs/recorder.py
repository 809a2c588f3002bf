"""The recorder of one drive: what the nodes tell about themselves becomes events, and limits are watched.

Every write compares the epoch in SQL. One that is refused means that another driver has taken over.
"""

from __future__ import annotations

import time
import uuid
from typing import Any

from graph.context import LeaseLost
from onward_ledger.action import Action, Status
from onward_ledger.database import Database, Row, Statement, statement
from runs import events
from runs.errors import LimitReached
from runs.heartbeat import Heartbeat
from runs.registry import Run

MICROS = 1_000_000


class DriveRecorder:
    """See graph.context.Recorder. May be used by any thread of the drive."""

    def __init__(self, database: Database, run: Run, epoch: int, heartbeat: Heartbeat) -> None:
        self._database = database
        self._run_id = run.run_id
        self._epoch = epoch
        self._heartbeat = heartbeat
        self._budget_micros = run.budget_micros
        self._spent_micros = run.spent_micros
        self._budget_tokens = run.budget_tokens
        self._tokens = run.tokens
        self._deadline_at = run.deadline_at
        # The database's clock at the claim, carried on by this process's own: no question to it per check.
        self._deadline = None
        if run.deadline_at is not None:
            self._deadline = time.monotonic() + (run.deadline_at - run.now_at).total_seconds()

    def check(self) -> None:
        """Raise LeaseLost or LimitReached. No I/O."""
        self._heartbeat.check()
        if self._deadline is not None and time.monotonic() >= self._deadline:
            raise LimitReached(f"The deadline of this run has passed ({self._deadline_at:%c} UTC).", limit="deadline")
        if self._budget_micros is not None and self._spent_micros >= self._budget_micros:
            spent, budget = self._spent_micros / MICROS, self._budget_micros / MICROS
            raise LimitReached(f"The budget of this run is used up: {spent:.2f} of {budget:.2f} US$.", limit="budget")
        if self._budget_tokens is not None and self._tokens >= self._budget_tokens:
            used, tokens = f"{self._tokens:,}", f"{self._budget_tokens:,}"
            raise LimitReached(f"The budget of this run is used up: {used} of {tokens} tokens.", limit="budget")

    def record(self, kind: str, data: dict[str, Any], *, step: str | None = None) -> None:
        """Append one event under this epoch."""
        self._heartbeat.check()
        self._write(events.numbered(self._run_id, kind, data, step=step, epoch=self._epoch))

    def step_started(self, step: str) -> int:
        """See Recorder."""
        self.check()
        mine = {"run_id": self._run_id, "epoch": self._epoch}
        started = self._write((statement("next_seq", **mine), statement("insert_step_started", **mine, step=step)))
        assert started is not None, "the event was numbered, so it was written"
        return int(started["attempt"])

    def step_finished(self, step: str) -> None:
        """See Recorder. The failures before it no longer count."""
        self._heartbeat.check()
        finished = events.numbered(self._run_id, "step_finished", {}, step=step, epoch=self._epoch)
        self._write(finished, statement("note_progress", run_id=self._run_id, epoch=self._epoch))

    def progressed(self) -> None:
        """A new checkpoint stands: the failures and take-overs before it no longer count."""
        self._database.at_once(
            statement("lock_run", run_id=self._run_id),
            statement("note_progress", run_id=self._run_id, epoch=self._epoch),
        )

    def progress(self, step: str, text: str, *, done: int | None = None, total: int | None = None) -> None:
        """See Recorder."""
        self.record("progress", {"text": text, "done": done, "total": total}, step=step)

    def model_call_started(self, step: str, model: str) -> str:
        """See Recorder."""
        self.check()
        call_id = str(uuid.uuid4())
        self.record("model_call_started", {"call_id": call_id, "model": model}, step=step)
        return call_id

    def model_call_finished(
        self,
        call_id: str,
        *,
        finish_reason: str | None,
        input_tokens: int | None,
        output_tokens: int | None,
        cost_usd: float | None,
    ) -> None:
        """See Recorder. The event and the run's sums are one commit."""
        self._heartbeat.check()
        data = {
            "call_id": call_id,
            "finish_reason": finish_reason,
            "input_tokens": input_tokens,
            "output_tokens": output_tokens,
            "cost_usd": cost_usd,
        }
        spent = statement(
            "add_spending",
            run_id=self._run_id,
            epoch=self._epoch,
            micros=round((cost_usd or 0) * MICROS),
            input_tokens=input_tokens or 0,
            output_tokens=output_tokens or 0,
        )
        row = self._write(events.numbered(self._run_id, "model_call_finished", data, epoch=self._epoch), spent)
        assert row is not None
        self._spent_micros = row["spent_micros"]
        self._tokens = row["tokens"]

    def receipt(self, action: Action, *, replayed: bool) -> None:
        """See Recorder. An action without a receipt yet is recorded as what it is: prepared, failed, unknown."""
        data = {
            "action_id": action.action_id,
            "kind": action.kind,
            "resource": action.resource,
            "status": str(action.status),
            "replayed": replayed,
            "provider_id": action.provider_id,
            "digest": action.params.get("digest"),
        }
        self.record("receipt" if action.status is Status.SUCCEEDED else "action", data, step=action.step)

    def _write(self, event: tuple[Statement, Statement], *also: Statement) -> Row | None:
        """An event, and what goes with it, in one commit and one exchange; the row of the last statement.

        Each statement compares the epoch behind the lock, so all of them change something or none does.
        """
        _, number, *answers = self._database.at_once(statement("lock_run", run_id=self._run_id), *event, *also)
        if number.row is None:
            self._heartbeat.lose("another driver has taken over")
            raise LeaseLost(f"The run {self._run_id} is no longer driven under epoch {self._epoch}.")
        return answers[-1].row
