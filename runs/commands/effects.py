"""`onward ledger list`, `show` and `resolve`: the records of external effects, and a person's word on unknown ones."""

from __future__ import annotations

import json
import uuid
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, cast

from runs import local_ledger
from runs.commands.answer import MOST_ACTIONS
from runs.commands.output import Format, say, to_json, write_facts, write_json, write_table
from runs.commands.services import found, places, settings_for
from runs.errors import RunNotFound, UsageError
from runs.settings import prepare_home
from runs.show import action_view

if TYPE_CHECKING:
    from collections.abc import Iterator

    from onward_ledger import Action, LedgerClient
    from onward_ledger.action import Status
    from runs.settings import Settings, StoreKind


def list_actions(*, run_id: str | None, status: str | None, store: StoreKind | None, output: Format) -> int:
    """See `onward ledger list`. JSON: `{"actions": [action]}`, each as `runs.show.action_view` says."""
    wanted = _status(status)
    actions: list[Action] = []
    if run_id is not None:
        with found(run_id, store) as (opened, run), local_ledger.connect(opened.settings) as ledger:
            actions += _all(ledger, run.run_id, wanted)
    else:
        for settings in _ledgers(store):
            with local_ledger.connect(settings) as ledger:
                actions += _all(ledger, None, wanted)
    actions.sort(key=lambda action: action.created_at)
    if output == "json":
        write_json({"actions": [action_view(action) for action in actions]})
    elif actions:
        rows = [(a.action_id, a.kind, str(a.status), a.resource, a.run_id[:8], a.step, a.provider_id) for a in actions]
        write_table(("action", "kind", "status", "resource", "run", "step", "receipt"), rows)
    else:
        say("The ledger holds no actions.")
    return 0


def show_action(action_id: str, *, store: StoreKind | None, output: Format) -> int:
    """See `onward ledger show`. JSON: the fields of `action_view`, with `params` and `events`."""
    with ExitStack() as stack:
        ledger, action = _find(_id(action_id), store, stack)
        history = [event.to_json() for event in ledger.events(action.action_id)]
    _write_action(action_view(action) | {"params": action.params, "events": history}, output)
    return 0


def _write_action(view: dict[str, Any], output: Format) -> None:
    if output == "json":
        write_json(view)
        return
    shown = {name: value for name, value in view.items() if name not in ("params", "receipt", "decision", "events")}
    write_facts(list(shown.items()))
    for name in ("params", "receipt", "decision"):
        if view[name] is not None:
            write_facts([(name, to_json(view[name]))])
    rows = [(e["seq"], e["recorded_at"], e["word"], e["to_status"], e["epoch"], e["principal"]) for e in view["events"]]
    write_table(("seq", "at", "event", "status", "epoch", "who"), rows)


def resolve(
    action_id: str, *, receipt: str | None, failed: bool, reason: str, store: StoreKind | None, output: Format
) -> int:
    """See `onward ledger resolve`. Refused with a conflict unless the action is UNKNOWN."""
    from onward_ledger.action import Status

    if failed == (receipt is not None):
        raise UsageError("Say what happened: either --receipt JSON (it did) or --failed (it did not).")
    proof = _json_object(receipt) if receipt is not None else None
    with ExitStack() as stack:
        ledger, action = _find(_id(action_id), store, stack)
        settled = ledger.resolve(
            action.action_id,
            status=Status.FAILED if failed else Status.SUCCEEDED,
            receipt=proof,
            reason=reason,
            expected_version=action.version,
        )
        history = [event.to_json() for event in ledger.events(action.action_id)]
    say(f"Settled: {settled.status}. Go on with: onward resume {settled.run_id}")
    _write_action(action_view(settled) | {"params": settled.params, "events": history}, output)
    return 0


def release(*, reason: str, look_first_days: float, store: StoreKind | None) -> int:
    """See `onward ledger release`. Harmless where nothing is held."""
    settings = settings_for(store)
    if not reason.strip():
        raise UsageError("Give the reason in words: --reason TEXT.")
    prepare_home(settings)
    with local_ledger.connect(settings) as ledger:
        if ledger.standing().held_at is None:
            say("The ledger is not held; it may send.")
            return 0
        ledger.release(reason=reason, look_first_days=look_first_days)
    say(f"Released. For {look_first_days:g} days a first send is looked up before, where its kind can.")
    return 0


def _json_object(text: str) -> dict[str, Any]:
    try:
        found: object = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise UsageError('--receipt must be a JSON object that proves the effect, such as \'{"provider_id": "42"}\'.')
    return cast(dict[str, Any], found)


def _id(typed: str) -> str:
    try:
        return str(uuid.UUID(typed.strip()))
    except ValueError:
        raise UsageError(f"{typed!r} is not an action id. `onward ledger list` shows the ids there are.") from None


def _find(action_id: str, store: StoreKind | None, stack: ExitStack) -> tuple[LedgerClient, Action]:
    from onward_ledger.errors import NotFound

    for settings in _ledgers(store):
        ledger = stack.enter_context(local_ledger.connect(settings))
        try:
            return ledger, ledger.action(action_id)
        except NotFound:
            continue
    raise RunNotFound(f"There is no action {action_id}. `onward ledger list` shows the actions there are.")


def _ledgers(store: StoreKind | None) -> Iterator[Settings]:
    """One for each store that has runs; a ledger that somebody else runs is one, whatever the stores."""
    settings = settings_for(store)
    if settings.ledger_url is not None:
        yield settings
        return
    for place in places(store):
        prepare_home(place)
        yield place


def _all(ledger: LedgerClient, run_id: str | None, status: Status | None) -> Iterator[Action]:
    """Page by page, in the order of creation."""
    after: str | None = None
    while True:
        page = ledger.actions(run_id, status, limit=MOST_ACTIONS, after=after)
        yield from page
        if len(page) < MOST_ACTIONS:
            return
        after = page[-1].action_id


def _status(typed: str | None) -> Any:
    from onward_ledger.action import Status

    if typed is None:
        return None
    try:
        return Status(typed.strip().upper())
    except ValueError:
        raise UsageError(f"{typed!r} is no status of an action. There are: {', '.join(Status)}.") from None
