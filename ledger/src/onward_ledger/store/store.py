"""The store: each method is one transaction over the records."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager, suppress
from datetime import datetime
from typing import TYPE_CHECKING

from onward_ledger.action import Action, Decision, Status
from onward_ledger.database import Database, Row, statement
from onward_ledger.errors import InProgress, NotFound
from onward_ledger.keeping import Identity
from onward_ledger.providers.interface import ApprovalPolicy, Found, Outcome, Provider, SendingProvider
from onward_ledger.store import approvals, claims, fences, guards, identity, operators, outcomes
from onward_ledger.store.approvals import Answer, Revocation
from onward_ledger.store.claims import Answered, Call, Claimed, Sender, Step
from onward_ledger.store.guards import Lost
from onward_ledger.store.look_ups import LookUps
from onward_ledger.store.operators import Resolution
from onward_ledger.store.outbox import Outbox
from onward_ledger.store.records import Cause, Records, seen
from onward_ledger.values import Event, Feed, FeedItem, Fence, Grant
from onward_ledger.witness import seen_params

if TYPE_CHECKING:
    from onward_ledger.watch import Watch


class Store:
    """Records in a database of either engine. May be shared by threads.

    With a `watch` every claim is noted outside the database, and a database that has forgotten one gets no other.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self.outbox = Outbox(database)
        self.look_ups = LookUps(database)
        self.watch: Watch | None = None

    @contextmanager
    def _records(self) -> Generator[Records]:
        with self._database.transaction() as tx:
            yield Records(tx)

    def now(self) -> datetime:
        """The database's clock."""
        return self._database.now()

    def start_instance(self, instance: str, *, lock_key: int, version: str, host: str, pid: int) -> None:
        """Make a new service process known; it holds its liveness already."""
        started = statement("start_instance", instance=instance, lock_key=lock_key, version=version, host=host, pid=pid)
        self._database.at_once(started)

    def stop_instance(self, instance: str) -> None:
        """Note a clean stop."""
        self._database.at_once(statement("stop_instance", instance=instance))

    def begin(self, call: Call) -> Step:
        """The transaction before an effect, where one is needed; see `claims`."""
        step = self._begin(call)
        if self.watch is not None and isinstance(step, Claimed):
            self.watch.note(step.action)
        return step

    def _begin(self, call: Call) -> Step:
        recorded = call.verdict is not None or call.looked
        if not recorded:
            glance = self._glance(call)
            recorded = glance["action_id"] is not None
            step = claims.at_a_glance(glance, call)
            if self.watch is not None and not glance["remembered"] and not isinstance(step, Answered):
                self.watch.refuse()
            step = step or claims.begin_at_once(self._database, glance, call)
            if step is not None:
                return step
        try:
            with self._records() as records:
                return claims.begin(records, call, known=recorded)
        except claims.EpochAhead:
            self._database.at_once(statement("raise_fence", run_id=call.intent.key.run_id, epoch=call.intent.epoch))
            return self._begin(call)

    def _glance(self, call: Call) -> Row:
        mine = {"run_id": call.intent.key.run_id, "action_id": call.intent.key.action_id, "kind": call.intent.kind}
        last = self.watch.last if self.watch is not None else None
        (row,) = self._database.read("glance", **mine, **seen_params(last))
        return row

    def record(self, claimed: Action, outcome: Outcome, cause: Cause, *, now: datetime | None = None) -> Action:
        """The transaction behind an effect, by claim token, at any time.

        `now`: about the database's time; who knows it needs one message where the record stands as it was claimed.
        """
        if now is not None:
            action = outcomes.record_at_once(self._database, claimed, outcome, cause, now)
            if action is not None:
                return action
        with self._records() as records:
            return outcomes.record(records, claimed, outcome, cause)

    def complete(self, asked: Action, token: str, outcome: Outcome | Lost, cause: Cause) -> Action:
        """What the caller of a guard knows about its claim; see `guards.complete`."""
        if asked.claim_token == token:
            action = guards.complete_at_once(self._database, asked, outcome, cause, self.now())
            if action is not None:
                return action
        with self._records() as records:
            return guards.complete(records, asked, token, outcome, cause)

    def lose(self, claimed: Action, cause: Cause) -> Action:
        """IN_FLIGHT becomes UNKNOWN: the sender has no answer."""
        with self._records() as records:
            return outcomes.lose(records, claimed, cause)

    def meet(self, action_id: str, sender: Sender) -> Action:
        """The action as it stands; one in flight becomes UNKNOWN where due, else InProgress is raised."""
        with self._records() as records:
            action, now = records.lock(action_id)
            if action is None:
                raise NotFound(f"There is no action {action_id}.")
            if action.status is Status.IN_FLIGHT:
                return claims.lose_if_due(records, action, sender, now)
            return action

    def settle(
        self, asked: Action, found: Found, provider: SendingProvider, cause: Cause, *, asked_at: datetime
    ) -> Action:
        """What a provider's look-up says about an action; see `outcomes.settle`."""
        with self._records() as records:
            return outcomes.settle(records, asked, found, provider, cause, asked_at=asked_at)

    def lose_gone(self, sender: Sender) -> int:
        """Every action whose sender is gone becomes UNKNOWN; how many. A start does this first."""
        rows = self._database.read("gone_in_flight", me=sender.instance, action_id=None)
        gone = [str(row["action_id"]) for row in rows]
        for action_id in gone:
            with self._records() as records:
                action, now = records.lock(action_id)
                if action is not None and action.status is Status.IN_FLIGHT:
                    with suppress(InProgress):  # its sender has come back meanwhile
                        claims.lose_if_due(records, action, sender, now)
        return len(gone)

    def identity(self) -> Identity:
        """Which ledger this is, and whether it may send."""
        return identity.ensure(self._database)

    def hold(self, reason: str) -> Identity:
        """See `identity.hold`."""
        return self._seen(identity.hold(self._database, reason))

    def release(self, principal: str, reason: str, look_first_days: float) -> Identity:
        """See `identity.release`."""
        return self._seen(
            identity.release(self._database, principal=principal, reason=reason, look_first_days=look_first_days)
        )

    def _seen(self, known: Identity) -> Identity:
        """What this service has just changed it need not find out by its watch."""
        if self.watch is not None:
            self.watch.identity = known
        return known

    def announce(self, run_id: str, epoch: int, holder: str) -> Fence:
        """See `fences.announce`."""
        return fences.announce(self._database, run_id, epoch, holder)

    def close_fence(self, run_id: str, principal: str, reason: str) -> Fence:
        """See `fences.close`."""
        with self._records() as records:
            return fences.close(records, run_id, principal, reason)

    def epoch(self, run_id: str) -> int:
        """The newest announced epoch of a run that has records."""
        (row,) = self._database.read("read_fence", run_id=run_id)
        return int(row["epoch"])

    def decide(self, answer: Answer, provider: Provider, run_id: str) -> Decision:
        """See `approvals.decide`."""
        answer.check()
        with self._records() as records:
            return approvals.decide(records, answer, provider, run_id)

    def revoke(self, word: Revocation) -> Decision:
        """See `approvals.revoke`."""
        with self._records() as records:
            return approvals.revoke(records, word)

    def revoke_grant(self, run_id: str, *, kind: str, resource: str | None, principal: str) -> Grant:
        """See `approvals.revoke_grant`."""
        with self._records() as records:
            return approvals.revoke_grant(records, run_id, kind=kind, resource=resource, principal=principal)

    def grant(
        self,
        run_id: str,
        policy: ApprovalPolicy,
        *,
        kind: str,
        resource: str | None,
        principal: str,
        principal_asserted: bool = True,
        expires_at: datetime,
        uses: int,
    ) -> Grant:
        """A standing permission; what waits for it already is decided at once, each action in its own transaction."""
        with self._records() as records:
            grant = approvals.put_grant(
                records,
                run_id,
                kind=kind,
                resource=resource,
                principal=principal,
                principal_asserted=principal_asserted,
                expires_at=expires_at,
                uses=uses,
            )
            waiting = [str(r["action_id"]) for r in records.tx.all("undecided_of_run", run_id=run_id, kind=kind)]
        for action_id in waiting:
            self._approve_waiting(action_id, policy)
        return grant

    def _approve_waiting(self, action_id: str, policy: ApprovalPolicy) -> None:
        with self._records() as records:
            action, now = records.lock(action_id)
            if action and action.status is Status.PREPARED and records.standing(action_id) is None:
                approvals.approve_by_grant(records, action, policy, now)

    def resolve(self, word: Resolution) -> Action:
        """See `operators.resolve`."""
        word.check()
        with self._records() as records:
            return operators.resolve(records, word)

    def withdraw(self, action_id: str, principal: str | None, reason: str) -> Action:
        """See `operators.withdraw`."""
        with self._records() as records:
            return operators.withdraw(records, action_id, principal, reason)

    def action(self, action_id: str) -> Action:
        """One action with the decision that stands for it."""
        rows = self._database.read("look_at_action", action_id=action_id)
        if not rows:
            raise NotFound(f"There is no action {action_id}.")
        return seen(rows[0])

    def actions(
        self,
        *,
        run_id: str | None = None,
        step: str | None = None,
        slot: str | None = None,
        status: Status | None = None,
        after: str | None = None,
        limit: int = 100,
    ) -> list[Action]:
        """Actions in the order of their creation, behind the action `after`."""
        rows = self._database.read(
            "list_actions", run_id=run_id, step=step, slot=slot, status=status, after=after, limit=limit
        )
        return [seen(row) for row in rows]

    def events(self, action_id: str) -> list[Event]:
        """The history of one action, oldest first."""
        rows = self._database.read("events_of_action", action_id=action_id)
        if not rows:
            raise NotFound(f"There is no action {action_id}.")
        return [Event.from_row(row) for row in rows]

    def decisions(self, after: int, limit: int) -> Feed:
        """The feed behind a cursor."""
        rows = self._database.read("feed_after", after=after, limit=limit)
        items = tuple(FeedItem.from_row({**row, "decision": row["standing"]}) for row in rows)
        return Feed(cursor=items[-1].seq if items else after, items=items)
