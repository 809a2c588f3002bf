"""`onward approve`, `revise` and `reject`: a person's decision, recorded in the ledger, and the run driven on.

The first decision stands. The same again changes nothing and is no error; another one is a conflict that names the one
that stands. The decision is committed before the run hears of it, so nothing that dies in between loses it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from runs import local_ledger, registry
from runs.commands.answer import actions_of, exit_code_of, view_of, write_run
from runs.commands.output import Format, say, visible
from runs.commands.resume import go_on
from runs.commands.services import Opened, check_may_act, found
from runs.errors import Conflict, UsageError

if TYPE_CHECKING:
    from onward_ledger import Action, Decision, LedgerClient
    from runs.registry import Run
    from runs.settings import StoreKind

# What an approval may change; another text is a revision. The ledger upholds it, this only says it earlier.
EDITABLE = ("title", "note", "resource")


def approve(run_id: str, *, settings: Sequence[str], resume: bool, store: StoreKind | None, output: Format) -> int:
    """See `onward approve`; `settings` are the values of `--set`."""
    changes = parse_changes(settings)
    word = "edit" if changes else "approve"
    return decide(run_id, word, changes=changes, resume=resume, store=store, output=output)


def parse_changes(settings: Sequence[str]) -> dict[str, str]:
    """`title=…` and the like as a mapping. UsageError names the allowed names."""
    changes: dict[str, str] = {}
    for setting in settings:
        name, separator, value = setting.partition("=")
        if not separator or name.strip() not in EDITABLE:
            raise UsageError(f"--set {setting!r} cannot be used: give NAME=VALUE, where NAME is {', '.join(EDITABLE)}.")
        changes[name.strip()] = value
    return changes


def decide(
    run_id: str,
    word: str,
    *,
    reason: str | None = None,
    changes: Mapping[str, str] | None = None,
    resume: bool,
    store: StoreKind | None,
    output: Format,
) -> int:
    """Record a decision (approve | edit | revise | reject), then drive the run on unless that was declined."""
    if reason is not None and not reason.strip():
        raise UsageError("Give the reason in words: --reason TEXT.")
    with found(run_id, store) as (opened, run):
        check_may_act(opened)
        said, decided = record(opened, run, word, reason, changes)
        say(said)
        return then(opened, decided, resume, output)


def record(
    opened: Opened, run: Run, word: str, reason: str | None = None, changes: Mapping[str, str] | None = None
) -> tuple[str, Run]:
    """Commit a decision to the ledger, then tell the run; what was recorded in words, and the run as it stands then.

    Raises Conflict when another decision stands or nothing is proposed, and OtherStore for a run of other stores.
    """
    if run.kind == registry.FOREIGN:
        from runs.commands import reply

        return reply.decide(opened, run, word, reason, has_changes=bool(changes))
    store, ledger_id, objects = local_ledger.serves(opened.settings)
    registry.refuse_elsewhere(run, store=store, objects=objects, ledger=ledger_id)
    with local_ledger.connect(opened.settings) as ledger:
        said = _record(ledger, run, word, reason, changes)
    return said, registry.queue_decided(opened.database, run.run_id)


def _record(ledger: LedgerClient, run: Run, word: str, reason: str | None, changes: Mapping[str, str] | None) -> str:
    from onward_ledger.errors import DecisionConflict

    action = _asked_about(actions_of(ledger, run.run_id), run, edits=bool(changes))
    before = action.decision
    try:
        decision = ledger.decide(
            action.action_id, word, request_hash=action.request_hash, reason=reason, changes=changes or None
        )
    except DecisionConflict as conflict:
        raise _other_decision(conflict.decision, conflict.message) from conflict
    again = before is not None and before.decided_at == decision.decided_at
    said = "Already decided, and nothing has changed" if again else "Recorded"
    return f"{said}: {_words(decision)}."


def _asked_about(actions: Sequence[Action], run: Run, *, edits: bool) -> Action:
    """The proposal that the decision is about: the run's last one. An edit is compared with what it was an edit of."""
    proposals = [action for action in actions if action.kind == "report.publish"]
    if not proposals:
        hint = "it was never proposed" if run.finished else "nothing is proposed yet"
        raise Conflict(f"The run {run.run_id} is {run.status}, and there is nothing to decide on: {hint}.")
    last = proposals[-1]
    for action in proposals:
        if edits and action.decision is not None and action.decision.successor_action_id == last.action_id:
            return action
    return last


def _words(decision: Decision) -> str:
    asserted = " (asserted)" if decision.principal_asserted else ""
    reason = f", reason: {visible(decision.reason)}" if decision.reason else ""
    at = f"{decision.decided_at:%Y-%m-%d %H:%M:%S} UTC"
    grant = ", by a standing grant" if decision.grant_id else ""
    return f"{decision.decision} by {visible(decision.principal)}{asserted} at {at}{grant}{reason}"


def _other_decision(standing: Decision | None, message: str) -> Conflict:
    if standing is None:
        return Conflict(message)
    return Conflict(f"Another decision stands: {_words(standing)}. The first one counts; nothing has changed.")


def then(opened: Opened, run: Run, resume: bool, output: Format) -> int:
    """Behind a decision: drive the run on, unless that was declined; the exit code."""
    if run.driver == "alive":
        say(f"Process {run.pid} on {run.host} drives the run and goes on with the decision.")
    elif resume and not run.finished:
        return go_on(opened, run, output)
    elif not run.finished:
        say(f"Go on with: onward resume {run.run_id}")
    write_run(view_of(opened, run.run_id), output)
    return exit_code_of(run) if run.finished else 0
