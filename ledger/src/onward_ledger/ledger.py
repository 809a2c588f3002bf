"""The ledger itself: the store decides, the provider performs, the store records.

Between the two transactions stands the send. Whatever happens there, a record says so: a receipt, a definite no, back
to PREPARED, or UNKNOWN.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime

from onward_ledger.action import Action, Decision, Intent, Status
from onward_ledger.database import Unreachable
from onward_ledger.errors import BadRequest, NotApplied
from onward_ledger.providers.interface import (
    Deadline,
    DeadlinePassed,
    NotSent,
    Outcome,
    Provider,
    SendingProvider,
    TransactionalProvider,
    Verdict,
)
from onward_ledger.store.approvals import Answer
from onward_ledger.store.claims import FIRST_BACKOFF_SECONDS, Answered, Call, Claimed, Sender, Unsettled, Verify
from onward_ledger.store.records import Cause
from onward_ledger.store.store import Store
from onward_ledger.values import Grant

log = logging.getLogger("onward_ledger")

# A receipt in hand is worth a few tries: the database may be coming back.
RECORD_PAUSES_SECONDS = (0.1, 0.4, 1.0, 2.0)


@dataclass(frozen=True)
class _Raised:
    """The send ended in an error: what it did is not known."""

    error: Exception


class Ledger:
    """One instance of the ledger, over a store and its providers."""

    def __init__(self, store: Store, providers: dict[str, Provider], *, instance: str | None = None) -> None:
        self.store = store
        self.instance = instance or str(uuid.uuid4())
        self.performing: set[str] = set()  # claim tokens
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

    def put(self, intent: Intent, *, propose: bool, principal: str | None = None) -> Action:
        """Create or replay one action: what the record says when this call is over.

        Each turn is one transaction that says what comes next. An UNKNOWN action is asked about once; if that makes it
        PREPARED, the same call goes on.
        """
        provider = self.provider(intent.kind)
        call = Call(intent=intent, provider=provider, propose=propose, sender=self.sender, principal=principal)
        # Known before the claim commits: a claim of ours that no thread holds is an orphan to the next caller.
        self.performing.add(call.claim_token)
        try:
            return self._put(call)
        finally:
            self.performing.discard(call.claim_token)

    def _put(self, call: Call) -> Action:
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
                case Unsettled(action) if asked:
                    return replace(action, replayed=True)
                case Unsettled(action):
                    asked = True
                    action = self._settle(action, call.provider)
                    if action.status is not Status.PREPARED:
                        return replace(action, replayed=True)

    def reconcile(self, action_id: str) -> Action:
        """Settle an action in flight or unknown as far as its provider can tell; others are answered as they are."""
        action = self.store.meet(action_id, self.sender)
        if action.status is Status.UNKNOWN:
            action = self._settle(action, self.provider(action.kind))
        return replace(action, replayed=True)

    def decide(self, answer: Answer) -> Decision:
        """A person's decision on an action that waits for one."""
        action = self.store.action(answer.action_id)
        provider = self.provider(action.kind)
        if not provider.needs_approval:
            raise BadRequest(f"Actions of kind {action.kind} need no approval.")
        return self.store.decide(answer, provider, action.run_id)

    def grant(
        self, run_id: str, *, kind: str, resource: str | None, principal: str, expires_at: datetime, uses: int
    ) -> Grant:
        """A standing permission for a kind that needs approvals."""
        if not self.provider(kind).needs_approval:
            raise BadRequest(f"Actions of kind {kind} need no approval.")
        return self.store.grant(
            run_id, kind=kind, resource=resource, principal=principal, expires_at=expires_at, uses=uses
        )

    def _verify(self, action: Action, provider: Provider) -> Verdict:
        assert isinstance(provider, TransactionalProvider)
        verdict = provider.verify(action)
        if isinstance(verdict, NotSent):
            raise NotApplied(verdict.reason, action=action, retry_after_seconds=FIRST_BACKOFF_SECONDS)
        return verdict

    def _settle(self, action: Action, provider: Provider) -> Action:
        assert isinstance(provider, SendingProvider), "a transactional action is never unknown"
        try:
            found = provider.lookup(action)
        except Exception:
            log.exception("The look-up of action %s failed; it stays UNKNOWN.", action.action_id)
            return action
        return self.store.settle(action, found, provider, Cause(instance=self.instance))

    def _send(self, action: Action, provider: Provider, began: float) -> Action:
        assert isinstance(provider, SendingProvider)
        deadline = Deadline(provider.deadline_seconds, began)
        result = _within(
            deadline, lambda: provider.send(action, deadline), lambda late: self._record_late(action, late)
        )
        match result:
            case None:
                return self.store.lose(action, self._because(f"No answer within {provider.deadline_seconds:g} s."))
            case _Raised(error):
                log.warning("The outcome of action %s is unknown.", action.action_id, exc_info=error)
                return self.store.lose(action, self._because(f"The send failed: {error}"))
            case outcome:
                action = self._record(action, outcome)
        if isinstance(outcome, NotSent) and action.status is Status.PREPARED:
            now = self.store.now()
            wait = (action.not_before_at - now).total_seconds() if action.not_before_at else 0.0
            raise NotApplied(outcome.reason, action=action, retry_after_seconds=max(wait, 0.0))
        return action

    def _because(self, reason: str | None) -> Cause:
        return Cause(instance=self.instance, reason=reason)

    def _record(self, action: Action, outcome: Outcome) -> Action:
        cause = self._because(None)
        for pause in RECORD_PAUSES_SECONDS:
            try:
                return self._alarmed(self.store.record(action, outcome, cause))
            except Unreachable:
                time.sleep(pause)
        return self._alarmed(self.store.record(action, outcome, cause))

    def _record_late(self, action: Action, result: Outcome | _Raised) -> None:
        """The answer that came behind its deadline: late truth."""
        if isinstance(result, _Raised):
            log.warning("The late answer of action %s is an error.", action.action_id, exc_info=result.error)
            return
        try:
            self._record(action, result)
        except Unreachable as error:
            log.error("The late answer of action %s could not be recorded: %s", action.action_id, error)

    def _alarmed(self, action: Action) -> Action:
        if action.alarm is not None:
            log.error("ALARM for action %s: %s", action.action_id, action.alarm)
        return action


def _within(
    deadline: Deadline, send: Callable[[], Outcome], late: Callable[[Outcome | _Raised], None]
) -> Outcome | _Raised | None:
    """Run the send under its hard deadline; None when it is over. A later answer goes to `late`.

    A thread of its own, since nothing can interrupt a send that hangs; a daemon, so that it cannot hold up the exit.
    """
    lock = threading.Lock()
    done = threading.Event()
    results: list[Outcome | _Raised] = []
    given_up: list[bool] = []

    def run() -> None:
        try:
            result: Outcome | _Raised = send()
        except DeadlinePassed as error:
            result = NotSent(str(error))
        except Exception as error:
            result = _Raised(error)
        with lock:
            results.append(result)
            done.set()
        if given_up:
            late(result)

    threading.Thread(target=run, name="ledger-send", daemon=True).start()
    done.wait(max(deadline.remaining, 0.0))
    with lock:
        if not results:
            given_up.append(True)
        return results[0] if results else None
