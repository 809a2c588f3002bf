"""The ledger itself: the store decides, the provider performs, the store records.

Between the two transactions stands the send. Whatever happens there, a record says so: a receipt, a definite no, back
to PREPARED, or UNKNOWN.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Set
from dataclasses import replace
from datetime import datetime, timedelta

from onward_ledger.action import Action, Decision, Intent, Status
from onward_ledger.database import Unreachable
from onward_ledger.errors import BadRequest, InProgress, NotApplied
from onward_ledger.performing import Performing
from onward_ledger.providers.compensation import check_compensations
from onward_ledger.providers.interface import (
    CannotTell,
    Deadline,
    Found,
    NotSent,
    Outcome,
    Provider,
    SendingProvider,
    TransactionalProvider,
    Verdict,
)
from onward_ledger.receipts import LONGEST_TEXT, fit, text
from onward_ledger.sending import Raised, within
from onward_ledger.store.approvals import Answer, check_person
from onward_ledger.store.claims import Answered, Call, Claimed, LookFirst, Sender, Unsettled, Verify
from onward_ledger.store.outbox import Later
from onward_ledger.store.outcomes import FIRST_BACKOFF_SECONDS
from onward_ledger.store.records import Cause
from onward_ledger.store.store import Store
from onward_ledger.values import Grant

log = logging.getLogger("onward_ledger")

# A receipt in hand is worth a few tries: the database may be coming back.
RECORD_PAUSES_SECONDS = (0.1, 0.4, 1.0, 2.0)

# A request about a whole run asks providers for so long; its client gives up after 30 s.
RECONCILE_SECONDS = 20.0


class Ledger:
    """One instance of the ledger, over a store and its providers."""

    def __init__(self, store: Store, providers: dict[str, Provider], *, instance: str | None = None) -> None:
        self.store = store
        self.instance = instance or str(uuid.uuid4())
        check_compensations(providers)
        self.performing = Performing()
        self.stored = threading.Event()  # there is something new in the outbox
        self._providers = providers

    @property
    def sender(self) -> Sender:
        """This instance, as the store needs to know it."""
        return Sender(self.instance, self.performing)

    def provider(self, kind: str) -> Provider:
        """The provider of a kind."""
        try:
            return self._providers[kind]
        except KeyError:
            known = ", ".join(sorted(self._providers))
            raise BadRequest(f"There is no provider for the kind {kind!r}; there are {known}.") from None

    def serves(self, kind: str) -> bool:
        """Whether this ledger performs actions of this kind; those of others are performed by their callers."""
        return kind in self._providers

    @property
    def kinds(self) -> list[str]:
        """What this ledger performs."""
        return list(self._providers)

    @property
    def approved_kinds(self) -> list[str]:
        """Those of them that need an approval."""
        return [kind for kind, provider in self._providers.items() if provider.approval is not None]

    @property
    def asked_kinds(self) -> list[str]:
        """Those of them whose provider can be asked what became of an effect."""
        sending = ((k, p) for k, p in self._providers.items() if isinstance(p, SendingProvider))
        return [kind for kind, provider in sending if provider.looks_up]

    def put(self, intent: Intent, *, propose: bool, later: Later | None = None, principal: str | None = None) -> Action:
        """Create or replay one action: what the record says when this call is over.

        `later` stores it for this service to perform, and does not wait for that.
        """
        provider, stops = self.provider(intent.kind), propose or later is not None
        call = Call(
            intent=intent, provider=provider, propose=stops, sender=self.sender, principal=principal, later=later
        )
        action = self.perform(call)
        if later is not None:
            self.stored.set()
        return action

    def dispatch(self, stored: Action) -> Action:
        """Perform an action of the outbox, as `put` would, but under the epoch that it was stored under."""
        provider = self.provider(stored.kind)
        provider.validate(stored.run_id, stored.resource, stored.params)
        intent = Intent(
            key=stored.key, kind=stored.kind, resource=stored.resource, params=stored.params, epoch=stored.epoch
        )
        return self.perform(Call(intent=intent, provider=provider, propose=False, sender=self.sender, dispatched=True))

    def perform(self, call: Call) -> Action:
        """What the record says when this call is over. Each turn is one transaction that says what comes next.

        An UNKNOWN action is asked about once; if that makes it PREPARED, the same call goes on.
        """
        # Known before the claim commits: a claim of ours that no thread holds is an orphan to the next caller.
        self.performing.add(call.claim_token)
        try:
            return self._turns(call)
        finally:
            self.performing.discard(call.claim_token)

    def _turns(self, call: Call) -> Action:
        asked = False
        while True:
            # The clock of a send starts before its claim: a process that is suspended behind the commit finds its
            # time over, no later than others find the recorded deadline over.
            began = time.monotonic()
            match self.store.begin(call):
                case Answered(action):
                    return action
                case Claimed(action):
                    return self._send(action, call.provider, began)
                case Verify(action):
                    call = replace(call, verdict=self._verify(action, call.provider))
                case LookFirst(action):
                    action = self._look_first(action, call.provider)
                    if action.status is not Status.PREPARED:
                        return replace(action, replayed=True)
                    call = replace(call, looked=True)
                case Unsettled(action) if asked:
                    return replace(action, replayed=True)
                case Unsettled(action):
                    asked = True
                    action = self.look_up(action, call.provider)
                    if action.status is not Status.PREPARED:
                        return replace(action, replayed=True)

    def reconcile(self, action_id: str) -> Action:
        """Settle an action in flight or unknown as far as its provider can tell; others are answered as they are."""
        action = self.store.meet(action_id, self.sender)
        if action.status is Status.UNKNOWN and self.serves(action.kind):
            action = self.look_up(action, self.provider(action.kind))
        return replace(action, replayed=True)

    def reconcile_run(self, run_id: str) -> list[Action]:
        """Each action of a run that is in flight or UNKNOWN, reconciled.

        What somebody performs now is answered as it stands, and so is what is left after `RECONCILE_SECONDS`.
        """
        end = time.monotonic() + RECONCILE_SECONDS
        return [self._reconciled(action, end) for action in self.store.look_ups.unsettled(run_id)]

    def _reconciled(self, action: Action, end: float) -> Action:
        try:
            return self.reconcile(action.action_id) if time.monotonic() < end else replace(action, replayed=True)
        except InProgress:
            return replace(action, replayed=True)

    def decide(self, answer: Answer) -> Decision:
        """A person's decision on an action that waits for one."""
        action = self.store.action(answer.action_id)
        provider = self.provider(action.kind)
        if provider.approval is None:
            raise BadRequest(f"Actions of kind {action.kind} need no approval.")
        return self.store.decide(answer, provider, action.run_id)

    def grant(
        self,
        run_id: str,
        *,
        kind: str,
        resource: str | None,
        principal: str,
        principal_asserted: bool = True,
        roles: Set[str] = frozenset(),
        expires_at: datetime,
        uses: int,
    ) -> Grant:
        """A standing permission for a kind that needs approvals, by a person who may decide about it."""
        policy = self.provider(kind).approval
        if policy is None:
            raise BadRequest(f"Actions of kind {kind} need no approval.")
        check_person(policy, principal, roles, kind, asserted=principal_asserted)
        return self.store.grant(
            run_id,
            policy,
            kind=kind,
            resource=resource,
            principal=principal,
            principal_asserted=principal_asserted,
            expires_at=expires_at,
            uses=uses,
        )

    def _verify(self, action: Action, provider: Provider) -> Verdict:
        assert isinstance(provider, TransactionalProvider)
        verdict = fit(provider.verify(action))
        if isinstance(verdict, NotSent):
            raise NotApplied(verdict.reason, action=action, retry_after_seconds=FIRST_BACKOFF_SECONDS)
        return verdict

    def look_up(self, action: Action, provider: Provider) -> Action:
        """Ask the provider about an UNKNOWN action, and settle it as far as the answer allows."""
        return self.ask(action, provider)[0]

    def _look_first(self, action: Action, provider: Provider) -> Action:
        """Ask before a first send: what a restored database has forgotten may have been sent."""
        action, found = self.ask(action, provider)
        if isinstance(found, CannotTell):
            raise NotApplied(
                f"The ledger was restored, and its provider could not be asked before the first send: {found.reason}",
                action=action,
                retry_after_seconds=FIRST_BACKOFF_SECONDS,
            )
        return action

    def ask(self, action: Action, provider: Provider) -> tuple[Action, Found]:
        """As `look_up`, with what the provider said."""
        assert isinstance(provider, SendingProvider), "a transactional action is never unknown"
        asked_at = self.store.now()
        try:
            found = fit(provider.lookup(action))
        except Exception as error:
            log.exception("The look-up of action %s failed.", action.action_id)
            found = CannotTell(f"The look-up failed: {type(error).__name__}")
        settled = self.store.settle(action, found, provider, self._because(None), asked_at=asked_at)
        return self.alarmed(settled), found

    def _send(self, action: Action, provider: Provider, began: float) -> Action:
        assert isinstance(provider, SendingProvider)
        deadline = Deadline(provider.deadline_seconds, began)
        result = within(
            deadline,
            lambda: fit(provider.send(action, deadline)),
            lambda late: self._record_late(action, late, began),
        )
        match result:
            case None:
                action = self.store.lose(action, self._because(f"No answer within {provider.deadline_seconds:g} s."))
            case Raised(error):
                log.warning("The outcome of action %s is unknown.", action.action_id, exc_info=error)
                action = self.store.lose(action, self._because(text(f"The send failed: {error}", LONGEST_TEXT)))
            case outcome:
                action = self._record(action, outcome, began)
        # Also where nobody waits any more: the sender may find out that it is too late, and say so, before this.
        if action.status is Status.PREPARED:
            now = self.store.now()
            wait = (action.not_before_at - now).total_seconds() if action.not_before_at else 0.0
            raise NotApplied(action.reason or "It was not sent.", action=action, retry_after_seconds=max(wait, 0.0))
        return action

    def _because(self, reason: str | None) -> Cause:
        return Cause(instance=self.instance, reason=reason)

    def _record(self, action: Action, outcome: Outcome, began: float) -> Action:
        cause = self._because(None)
        # The claim was made with the database's time; what has passed since is added, so that nobody has to ask again.
        now = action.updated_at + timedelta(seconds=time.monotonic() - began)
        for pause in RECORD_PAUSES_SECONDS:
            try:
                return self.alarmed(self.store.record(action, outcome, cause, now=now))
            except Unreachable:
                time.sleep(pause)
        return self.alarmed(self.store.record(action, outcome, cause, now=now))

    def _record_late(self, action: Action, result: Outcome | Raised, began: float) -> None:
        """The answer that came behind its deadline: late truth."""
        if isinstance(result, Raised):
            log.warning("The late answer of action %s is an error.", action.action_id, exc_info=result.error)
            return
        try:
            self._record(action, result, began)
        except Unreachable as error:
            log.error("The late answer of action %s could not be recorded: %s", action.action_id, error)

    def alarmed(self, action: Action) -> Action:
        """The action itself, told to the log when truth arrived that its record cannot agree with."""
        if action.alarm is not None:
            log.error("ALARM for action %s: %s", action.action_id, action.alarm)
        return action
