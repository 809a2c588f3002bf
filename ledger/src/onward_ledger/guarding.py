"""Effects that their caller performs: the ledger claims, the caller acts and asks the world, the ledger records.

begin      ─▶ run      claimed: perform it now, then complete
              verify   it may have happened: ask the world, then say what was found, and begin again
              replay   it is settled: the record says how
              unknown  nobody can tell but a person
complete   what became of it, by claim token
found      what the world said
"""

from __future__ import annotations

from datetime import datetime

from onward_ledger.action import Action, Intent, Status
from onward_ledger.errors import BadRequest, InProgress
from onward_ledger.guard_protocol import Begun, Declaration, Next
from onward_ledger.ledger import Ledger
from onward_ledger.providers.guarded import Guarded
from onward_ledger.providers.interface import CannotTell, Found, Outcome
from onward_ledger.receipts import fit
from onward_ledger.store.claims import RECORD_GRACE_SECONDS, Answered, Claimed, LookFirst, Unsettled
from onward_ledger.store.guards import GuardCall, Lost
from onward_ledger.store.records import Cause


def refuse_served(ledger: Ledger, kind: str) -> None:
    """Nobody may perform, or complete, what the ledger performs itself."""
    if ledger.serves(kind):
        raise BadRequest(f"The ledger itself performs actions of kind {kind}; a guard needs a kind of its own.")


def begin(
    ledger: Ledger,
    intent: Intent,
    declared: Declaration,
    *,
    claim_token: str,
    looked: bool = False,
    principal: str | None = None,
) -> Begun:
    """Claim the action for this caller, or say why not. With the same token again: the same claim.

    `looked`: the caller has asked the world before a first send, as `verify` of a PREPARED action wanted it.
    """
    refuse_served(ledger, intent.kind)
    call = GuardCall(
        intent=intent,
        provider=Guarded(intent.kind, declared),
        propose=False,
        sender=ledger.sender,
        claim_token=claim_token,
        principal=principal,
        looked=looked,
        declared=declared.to_json(),
    )
    # Known before the claim commits: a claim of ours that nobody holds is an orphan to the next caller.
    ledger.performing.keep(claim_token, declared.deadline_seconds + RECORD_GRACE_SECONDS)
    try:
        begun = _begin(ledger, call)
    except InProgress as error:
        if error.action is None or error.action.claim_token != claim_token:
            ledger.performing.discard(claim_token)
            raise
        return Begun(next=Next.RUN, action=error.action)  # its own claim: the answer to it was lost
    except BaseException:
        ledger.performing.discard(claim_token)
        raise
    if begun.next is not Next.RUN:
        ledger.performing.discard(claim_token)
    return begun


def _begin(ledger: Ledger, call: GuardCall) -> Begun:
    store, provider = ledger.store, call.provider
    assert isinstance(provider, Guarded)
    while True:
        asked_at = store.now()
        match store.begin(call):
            case Claimed(action):
                return Begun(next=Next.RUN, action=action)
            case Answered(action):
                return Begun(next=Next.REPLAY, action=action)
            case Unsettled(action) | LookFirst(action) if provider.looks_up:
                return Begun(next=Next.VERIFY, action=action, asked_at=asked_at)
            case Unsettled(action):
                nobody = CannotTell("Nobody can look it up.")
                settled = store.settle(action, nobody, provider, call.cause, asked_at=asked_at)
                if settled.status is not Status.PREPARED:
                    return Begun(next=Next.UNKNOWN, action=settled)
            case step:
                raise AssertionError(f"{step} is no step of a guarded action.")


def complete(ledger: Ledger, action_id: str, claim_token: str, outcome: Outcome | Lost) -> Action:
    """Record what became of a claim."""
    asked = ledger.store.action(action_id)
    refuse_served(ledger, asked.kind)
    said = outcome if isinstance(outcome, Lost) else fit(outcome)
    action = ledger.store.complete(asked, claim_token, said, Cause(instance=ledger.instance))
    ledger.performing.discard(claim_token)
    return ledger.alarmed(action)


def found(
    ledger: Ledger, action_id: str, answer: Found, declared: Declaration, *, version: int, asked_at: datetime
) -> Action:
    """Settle an action by what its caller was told by the world. Nothing, when the record has moved on since."""
    asked = ledger.store.action(action_id)
    refuse_served(ledger, asked.kind)
    if asked_at > ledger.store.now():
        raise BadRequest("asked_at is in the future: send back the one that the guard was answered with.")
    if asked.version != version:
        return asked
    cause = Cause(instance=ledger.instance)
    provider = Guarded(asked.kind, declared)
    return ledger.alarmed(ledger.store.settle(asked, fit(answer), provider, cause, asked_at=asked_at))
