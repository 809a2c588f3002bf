"""Taking back an effect that happened, by an action that the ledger derives from its own record.

Its id is that of the same step and revision and the slot with `/undo` behind it, so that asking again finds it. Kind,
resource and params come from the kind of the effect, and nothing from the caller: that is why a closed fence lets it
pass. It is claimed, sent and recorded like every other action, with the promise of its own provider class.
"""

from __future__ import annotations

from onward_ledger.action import Action, Intent, Status
from onward_ledger.errors import Conflict, NotCompensable, NotFound
from onward_ledger.ledger import Ledger
from onward_ledger.store.compensations import CompensatingCall
from onward_ledger.wire import check_resource, small


def call(ledger: Ledger, action_id: str, *, epoch: int | None, principal: str | None = None) -> CompensatingCall:
    """What takes back the effect of this action.

    NotCompensable where its kind does not say how, Conflict unless it SUCCEEDED, BadRequest where its record does not
    say enough.
    """
    done = ledger.store.action(action_id)
    if done.key.is_undo:
        raise NotCompensable(f"Action {action_id} takes an effect back itself; that is not compensated.", action=done)
    intent = _intent(ledger, done, epoch or max(ledger.store.epoch(done.run_id), done.epoch))
    return CompensatingCall(
        intent=intent,
        provider=ledger.provider(intent.kind),
        propose=False,
        sender=ledger.sender,
        principal=principal,
        compensates=action_id,
        any_epoch=epoch is None,
    )


def _intent(ledger: Ledger, done: Action, epoch: int) -> Intent:
    """As it is recorded, also if the settings have changed since; else as the kind says."""
    try:
        recorded = ledger.store.action(done.key.undo.action_id)
    except NotFound:
        kind, resource, params = _derived(ledger, done)
    else:
        kind, resource, params = recorded.kind, recorded.resource, recorded.params
    return Intent(key=done.key.undo, kind=kind, resource=resource, params=params, epoch=epoch)


def _derived(ledger: Ledger, done: Action) -> tuple[str, str, dict[str, object]]:
    compensation = ledger.provider(done.kind).compensation if ledger.serves(done.kind) else None
    if compensation is None:
        raise NotCompensable(f"The kind {done.kind} does not say how an effect of it is taken back.", action=done)
    if done.status is not Status.SUCCEEDED:
        raise Conflict(f"Only what SUCCEEDED can be compensated; this one is {done.status}.", action=done)
    resource, params = compensation.request(done)
    check_resource(resource)
    return compensation.kind, resource, small("params", params)
