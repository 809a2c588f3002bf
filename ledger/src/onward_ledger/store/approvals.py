"""Decisions and grants: who allows an action, bound to exactly what was asked.

    approve   allows the action as recorded; consumed in the transaction that claims
    edit      withdraws revision n and inserts n + 1 with other publication parameters, approved by the same person
    revise    withdraws the action: the work goes back, with a reason
    reject    withdraws the action: the run ends as rejected

The first decision stands. The same again is answered with it, another one is refused with it. What can be followed by
another decision: an approval that expired unused, one that was revoked, and one that still lacks its second approver.

Who may decide is the kind's ApprovalPolicy: a role, named people, one approver or two different ones. A standing grant
counts as one approver.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Set
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from onward_ledger.action import Action, ActionKey, Decision, Intent, Json, Status
from onward_ledger.database import Row, statement
from onward_ledger.errors import BadRequest, DecisionConflict, Forbidden, NotFound, ParamsConflict, TooLate
from onward_ledger.providers.interface import ApprovalPolicy, Provider
from onward_ledger.store.outbox import hand_over
from onward_ledger.store.outcomes import take_back
from onward_ledger.store.records import Cause, Records
from onward_ledger.values import Grant

DECISIONS = ("approve", "edit", "revise", "reject")


@dataclass(frozen=True, kw_only=True)
class Answer:
    """A person's answer to an action that waits."""

    action_id: str
    decision: str
    principal: str
    principal_asserted: bool = True
    request_hash: str
    roles: Set[str] = frozenset()
    reason: str | None = None
    changes: Mapping[str, Any] | None = None
    expires_at: datetime | None = None

    def check(self) -> None:
        """BadRequest when the answer cannot be meant."""
        if self.decision not in DECISIONS:
            raise BadRequest(f"decision must be one of {', '.join(DECISIONS)}.")
        if (self.decision == "edit") != bool(self.changes):
            raise BadRequest("changes belong to an edit, and an edit needs some.")
        if self.decision == "revise" and not (self.reason or "").strip():
            raise BadRequest("revise needs a reason: it is what the next draft is written from.")


def check_person(policy: ApprovalPolicy, principal: str, roles: Set[str], kind: str, *, asserted: bool) -> None:
    """Forbidden, with the reason, unless this person may decide about actions of this kind.

    Where two people are asked for, each must be proved: one caller can assert two names.
    """
    if policy.approvers > 1 and asserted:
        raise Forbidden(f"{kind} asks for two people, and {principal} is only asserted: use a token that proves them.")
    if policy.principals and principal not in policy.principals:
        raise Forbidden(f"{principal} is not among those who decide about {kind}.")
    if policy.role is not None and policy.role not in roles:
        raise Forbidden(f"A decision about {kind} needs the role {policy.role}, which this token does not prove.")


def why_not_approved(action: Action, policy: ApprovalPolicy, now: datetime) -> str | None:
    """Why the action may not be claimed, as a sentence; None when the decision that stands allows it."""
    decision = action.decision
    if decision is None or decision.decision != "approve":
        return "It waits for an approval."
    bound = (decision.request_hash, decision.resource, decision.scope)
    if bound != (action.request_hash, action.resource, action.kind):
        return "The approval is for another request, resource or scope."
    if decision.expires_at is not None and decision.expires_at <= now:
        return f"The approval by {decision.principal} expired at {decision.expires_at.isoformat()}."
    if max(decision.approvers, policy.approvers) > 1 and decision.seconded_by is None:
        return f"{decision.principal} has approved; it waits for a second approver."
    return None


def approve_by_grant(records: Records, action: Action, policy: ApprovalPolicy, now: datetime) -> Action:
    """The action with the decision that a standing grant gives it, bound to its hash; as it was when none covers it."""
    row = records.tx.one("usable_grant", run_id=action.run_id, kind=action.kind, resource=action.resource, now_at=now)
    if row is None:
        return action
    grant = Grant.from_row(row)
    used, number = records.tx.at_once(statement("use_grant", grant_id=grant.grant_id), statement("next_seq"))
    assert used.count == 1, f"grant {grant.grant_id} was locked and had uses left"
    decision = _insert(
        records,
        action,
        now,
        decision="approve",
        principal=grant.principal,
        asserted=grant.principal_asserted,
        expires_at=grant.expires_at,
        grant_id=grant.grant_id,
        approvers=policy.approvers,
        seq=number.rows[0]["last_seq"],
    )
    return _noted(records, action, decision, now)


def decide(records: Records, answer: Answer, provider: Provider, run_id: str) -> Decision:
    """The decision that stands after this answer: this one, the same from before, or that one seconded by this."""
    assert provider.approval is not None
    check_person(provider.approval, answer.principal, answer.roles, provider.kind, asserted=answer.principal_asserted)
    # Shared before the action row: an edit inserts an action, which a closing fence must not miss.
    action, now = records.lock(answer.action_id, fence_of=run_id)
    if action is None:
        raise NotFound(f"There is no action {answer.action_id}.")
    if answer.request_hash != action.request_hash:
        raise ParamsConflict("The decision is for another request than the recorded one.", action=action)
    standing = records.standing(action.action_id)
    if standing is not None and not _expired_unused(standing, now):
        if standing.is_half and action.status is Status.PREPARED and action.claims == 0:
            if answer.decision == "approve":
                return _second(records, answer, standing, action, now)
        else:
            return _standing_or_conflict(records, answer, standing, action)
    if action.status is not Status.PREPARED or action.claims > 0:
        raise TooLate(f"The action is {action.status}; a decision comes too late.", action=action)
    if standing is not None:
        assert records.tx.run("supersede_decision", decision_id=standing.decision_id, now_at=now) == 1
    if answer.changes:
        return _edit(records, answer, action, provider, now)
    return _plain(records, answer, action, provider.approval, now)


def _expired_unused(decision: Decision, now: datetime) -> bool:
    over = decision.expires_at is not None and decision.expires_at <= now
    return over and decision.decision == "approve" and decision.consumed_at is None


def _second(records: Records, answer: Answer, standing: Decision, action: Action, now: datetime) -> Decision:
    """The second approver; the first one again changes nothing."""
    if answer.principal == standing.principal:
        return standing
    ends = [at for at in (standing.expires_at, answer.expires_at) if at is not None]
    row = records.tx.one(
        "second_decision",
        decision_id=standing.decision_id,
        principal=answer.principal,
        expires_at=min(ends, default=None),
        now_at=now,
    )
    assert row is not None, f"decision {standing.decision_id} was locked with its action"
    decision = Decision.from_row(row)
    records.feed("decision", action, now, seq=records.next_seq(), decision_id=decision.decision_id)
    detail: Json = {"decision": "approve", "decision_id": decision.decision_id, "second": True}
    cause = Cause(principal=answer.principal, reason=answer.reason, detail=detail)
    records.note(replace(action, decision=decision), "decide", now, cause)
    return decision


def _standing_or_conflict(records: Records, answer: Answer, standing: Decision, action: Action) -> Decision:
    same = answer.decision == standing.decision
    if same and answer.changes is not None:
        assert standing.successor_action_id is not None
        row = records.tx.one("look_at_action", action_id=standing.successor_action_id)
        assert row is not None
        wanted = _changed(action, answer.changes)
        same = (row["resource"], row["params"]) == wanted
    if not same:
        raise DecisionConflict(
            f"{standing.principal} has already decided: {standing.decision}.", decision=standing, action=action
        )
    return standing


@dataclass(frozen=True, kw_only=True)
class Revocation:
    """A person takes an approval back. `operator`: may take back anybody's, not only their own."""

    action_id: str
    principal: str
    reason: str
    operator: bool = False


def revoke(records: Records, word: Revocation) -> Decision:
    """The approval as it is after being taken back; it allows nothing any more, and another decision can follow.

    Too late once it was used. The same again is answered as it is.
    """
    action, now = records.lock(word.action_id)
    if action is None:
        raise NotFound(f"There is no action {word.action_id}.")
    standing = records.standing(action.action_id)
    if standing is None:
        before = records.tx.one("last_decision", action_id=action.action_id)
        if before is not None and before["revoked_by"] is not None:
            return Decision.from_row(before)
        raise NotFound("There is no approval to revoke.")
    if standing.decision != "approve":
        raise TooLate(f"{standing.principal} has decided: {standing.decision}; only an approval can be revoked.")
    if standing.consumed_at is not None or action.approval_id is not None:
        raise TooLate(f"The approval was used: the action is {action.status}.", action=action, decision=standing)
    if not word.operator and word.principal not in (standing.principal, standing.seconded_by):
        raise Forbidden(f"The approval is {standing.principal}'s; {word.principal} cannot revoke it.")
    row = records.tx.one(
        "revoke_decision",
        decision_id=standing.decision_id,
        principal=word.principal,
        reason=word.reason,
        now_at=now,
    )
    assert row is not None, f"decision {standing.decision_id} was locked with its action"
    detail: Json = {"decision_id": standing.decision_id}
    records.note(action, "revoke", now, Cause(principal=word.principal, reason=word.reason, detail=detail))
    return Decision.from_row(row)


def _plain(records: Records, answer: Answer, action: Action, policy: ApprovalPolicy, now: datetime) -> Decision:
    decision = _insert(
        records,
        action,
        now,
        approvers=policy.approvers,
        decision=answer.decision,
        principal=answer.principal,
        asserted=answer.principal_asserted,
        reason=answer.reason,
        expires_at=answer.expires_at,
    )
    action = _noted(records, action, decision, now)
    if answer.decision in ("revise", "reject"):
        reason = answer.reason or f"Rejected by {answer.principal}."
        _withdraw(records, action, now, answer.principal, reason)
    return decision


def _edit(records: Records, answer: Answer, action: Action, provider: Provider, now: datetime) -> Decision:
    """One transaction: revision n is withdrawn, n + 1 takes its place and is approved by the same person."""
    assert answer.changes is not None
    refused = sorted(set(answer.changes) - provider.editable)
    if refused:
        allowed = ", ".join(sorted(provider.editable)) or "nothing"
        raise BadRequest(f"An edit of {action.kind} can change {allowed}; not {', '.join(refused)}.")
    resource, params = _changed(action, answer.changes)
    provider.validate(action.run_id, resource, params)
    key = ActionKey(action.run_id, action.step, action.slot, action.rev + 1)
    intent = Intent(key=key, kind=action.kind, resource=resource, params=params, epoch=action.epoch)
    if intent.request_hash == action.request_hash:
        raise BadRequest("The edit changes nothing; approve instead.")
    entry = records.tx.one("outbox_entry", action_id=action.action_id)
    noted = records.note(action, "decide", now, _cause(answer, {"decision": "edit", "changes": dict(answer.changes)}))
    _withdraw(records, noted, now, answer.principal, answer.reason or f"Edited by {answer.principal}.")
    successor = records.insert(intent, now, Cause(principal=answer.principal, reason=f"Edit of revision {action.rev}"))
    assert successor is not None, f"revision {key.rev} of {action.action_id} exists although {action.rev} was live"
    hand_over(records, entry, successor)
    edit = _insert(
        records,
        action,
        now,
        decision="edit",
        principal=answer.principal,
        asserted=answer.principal_asserted,
        reason=answer.reason,
        successor_action_id=successor.action_id,
    )
    assert provider.approval is not None
    approval = _insert(
        records,
        successor,
        now,
        approvers=provider.approval.approvers,
        decision="approve",
        principal=answer.principal,
        asserted=answer.principal_asserted,
        reason=answer.reason,
        expires_at=answer.expires_at,
    )
    _noted(records, successor, approval, now)
    return edit


def _changed(action: Action, changes: Mapping[str, Any]) -> tuple[Any, Json]:
    resource = changes.get("resource", action.resource)
    return resource, action.params | {name: value for name, value in changes.items() if name != "resource"}


def _withdraw(records: Records, action: Action, now: datetime, principal: str, reason: str) -> Action:
    assert action.claims == 0, "what was sent is decided no more"
    return take_back(records, action, now, Cause(principal=principal, reason=reason))


def _cause(answer: Answer, detail: Json) -> Cause:
    return Cause(principal=answer.principal, reason=answer.reason, detail=detail)


def _noted(records: Records, action: Action, decision: Decision, now: datetime) -> Action:
    detail: Json = {"decision": decision.decision, "decision_id": decision.decision_id, "grant_id": decision.grant_id}
    cause = Cause(principal=decision.principal, reason=decision.reason, detail=detail)
    return records.note(replace(action, decision=decision), "decide", now, cause)


def _insert(
    records: Records,
    action: Action,
    now: datetime,
    *,
    decision: str,
    principal: str,
    asserted: bool = True,
    reason: str | None = None,
    expires_at: datetime | None = None,
    grant_id: str | None = None,
    successor_action_id: str | None = None,
    approvers: int = 1,
    seq: int | None = None,
) -> Decision:
    seq = seq if seq is not None else records.next_seq()
    row: Row | None = records.tx.one(
        "insert_decision",
        decision_id=seq,
        action_id=action.action_id,
        decision=decision,
        principal=principal,
        principal_asserted=asserted,
        request_hash=action.request_hash,
        resource=action.resource,
        scope=action.kind,
        reason=reason,
        expires_at=expires_at,
        now_at=now,
        grant_id=grant_id,
        successor_action_id=successor_action_id,
        approvers=approvers if decision == "approve" else 1,
    )
    assert row is not None
    records.feed("decision", action, now, seq=seq, decision_id=seq)
    return Decision.from_row(row)


def put_grant(
    records: Records,
    run_id: str,
    *,
    kind: str,
    resource: str | None,
    principal: str,
    principal_asserted: bool = True,
    expires_at: datetime,
    uses: int,
) -> Grant:
    """The grant; asked for again it is the same one, with this expiry and this total of uses."""
    row = records.tx.one(
        "put_grant",
        grant_id=_grant_id(run_id, kind, resource, principal),
        run_id=run_id,
        kind=kind,
        resource=resource,
        principal=principal,
        principal_asserted=principal_asserted,
        uses=uses,
        expires_at=expires_at,
    )
    assert row is not None
    return Grant.from_row(row)


def revoke_grant(records: Records, run_id: str, *, kind: str, resource: str | None, principal: str) -> Grant:
    """The person's own grant gives nothing any more; what it has approved before stands, and can be revoked itself."""
    row = records.tx.one("revoke_grant", grant_id=_grant_id(run_id, kind, resource, principal))
    if row is None:
        raise NotFound(f"{principal} has given no such grant for run {run_id}.")
    return Grant.from_row(row)


def _grant_id(run_id: str, kind: str, resource: str | None, principal: str) -> str:
    return str(uuid.uuid5(uuid.UUID(run_id), f"grant/{kind}/{resource or ''}/{principal}"))
