"""What a command about one run answers with: the run as one object on stdout, and its exit code."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from runs import events, registry
from runs.commands.output import Format, say, write, write_facts, write_json, write_table
from runs.commands.services import Opened
from runs.errors import Exit, RunError
from runs.registry import Run, Status
from runs.show import run_view

if TYPE_CHECKING:
    from collections.abc import Sequence

    from onward_ledger import Action, LedgerClient

# More actions than one run makes: two for each draft, and a person sends few back.
MOST_ACTIONS = 1000


def exit_code_of(run: Run) -> Exit:
    """What a run's state means as an exit code, for a command that drives or has driven it."""
    if run.status is Status.SUCCEEDED:
        return Exit.OK
    if run.status is Status.WAITING_HUMAN:
        return Exit.UNKNOWN_OUTCOME if run.reason == "unknown_outcome" else Exit.WAITING
    if not run.finished:
        return Exit.HANDED_BACK
    return Exit.LIMIT if run.reason in ("deadline", "budget", "attempts") else Exit.FAILED


def view_of(opened: Opened, run_id: str) -> dict[str, Any]:
    """The run as it stands, with the ledger's records; without them, said on stderr, where the ledger cannot be had."""
    run = registry.get(opened.database, run_id)
    history = events.read_all(opened.database, run_id)
    return run_view(run, history, recorded_actions(opened, run), _objects(run))


def recorded_actions(opened: Opened, run: Run) -> Sequence[Action] | None:
    """The run's actions; None, and a sentence on stderr, when its ledger cannot be asked."""
    from onward_ledger.errors import LedgerError
    from runs import local_ledger

    here = local_ledger.ledger_id(opened.settings)
    if run.ledger != here:
        say(f"onward: The actions of this run lie in the ledger {run.ledger}; this installation uses {here}.")
        return None
    try:
        with local_ledger.connect(opened.settings) as ledger:
            return actions_of(ledger, run.run_id)
    except (RunError, LedgerError) as error:
        say(f"onward: The ledger cannot be asked now, so no actions are shown: {error}")
        return None


def actions_of(ledger: LedgerClient, run_id: str) -> Sequence[Action]:
    """Every action of a run, in the order of their creation."""
    return ledger.actions(run_id, limit=MOST_ACTIONS)


def _objects(run: Run) -> Any:
    from onward_ledger.errors import LedgerError
    from onward_ledger.objects import Objects

    try:
        return Objects(run.objects)
    except (LedgerError, OSError):
        return None


def write_run(view: dict[str, Any], output: Format) -> None:
    """The run on stdout: the object, or what a person wants to know of it."""
    if output == "json":
        write_json(view)
        return
    write_facts(facts(view))
    for title, columns, rows in tables(view):
        write(f"\n{title}")
        write_table(columns, rows)


def tables(view: dict[str, Any]) -> list[tuple[str, Sequence[str], Sequence[Sequence[object]]]]:
    """What there is more than one of: (title, names of the columns, rows), empty ones left out."""
    steps = [(s["step"], s["status"], s["attempts"], ", ".join(map(str, s["epochs"]))) for s in view["steps"]]
    actions = [(a["kind"], a["status"], _proof(a), a["action_id"], a["resource"]) for a in view["actions"] or ()]
    failures = [(f["at"], f["step"], f["message"]) for f in view["failures"]]
    found = [
        ("Steps", ("step", "status", "attempts", "epochs"), steps),
        ("Actions", ("kind", "status", "receipt", "action", "resource"), actions),
        ("Sent before it was cancelled", ("kind", "status", "effect", "resource", "not taken back"), _sent(view)),
        ("Taken back", ("kind", "status", "effect", "resource"), _undone(view)),
        ("Not answered", ("question", "why"), [(u["ask"], u["reason"]) for u in view["unanswered"]]),
        ("Failures", ("at", "step", "what"), failures),
    ]
    return [(title, columns, rows) for title, columns, rows in found if rows]


def _sent(view: dict[str, Any]) -> Sequence[Sequence[object]]:
    sent = (view["cancel"] or {}).get("sent", [])
    return [(a["kind"], a["status"], a["provider_id"], a["resource"], a["not_taken_back"]) for a in sent]


def _undone(view: dict[str, Any]) -> Sequence[Sequence[object]]:
    undone = (view["cancel"] or {}).get("compensations", [])
    return [(a["kind"], a["status"], a["provider_id"], a["resource"]) for a in undone]


def _cancelling(view: dict[str, Any]) -> str | None:
    """Who wants it cancelled; while it stops, what it does."""
    cancel = view["cancel"]
    if cancel is None:
        return None
    text = f"asked for by {cancel['principal']} at {cancel['requested_at']}"
    text += f": {cancel['reason']}" if cancel["reason"] else ""
    doing = [step["step"] for step in view["steps"] if step["status"] == "running"]
    return text + (f" (stopping, in {', '.join(doing)})" if view["status"] == Status.CANCEL_REQUESTED and doing else "")


def _proof(action: dict[str, Any]) -> str | None:
    """The beginning of the digest that the receipt vouches for; `onward ledger show` has all of it."""
    receipt = action["receipt"]
    if receipt is None:
        return None
    digest = receipt.get("digest")
    return digest[:12] if isinstance(digest, str) else "yes"


def _of_graph(graph: dict[str, Any] | None) -> list[tuple[str, object]]:
    """What somebody's own graph asks, and what it came to."""
    if graph is None:
        return []
    questions = [
        (f"{each['node']} asks", _json(each["value"]) if each["kind"] != "breakpoint" else "whether it may go on")
        for each in graph["questions"]
        if each["answer"] is None
    ]
    return [*questions, ("Result", _json(graph["result"]["values"]) if graph["result"] else None)]


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def facts(view: dict[str, Any]) -> list[tuple[str, object]]:
    """What a person wants to know of a run: names and values, None where there is nothing to say."""
    report = view["report"] or {}
    approval = view["approval"] or {}
    driver = view["driver"]
    state = view["status"] + (f" ({view['reason']})" if view["reason"] else "")
    who = f"process {driver['pid']} on {driver['host']}: {driver['state']}" if driver is not None else None
    usage = view["model_calls"]
    calls = None
    if usage["input_tokens"] or usage["paid_amount_unknown"]:
        tokens = usage["input_tokens"] + usage["output_tokens"]
        calls = f"{usage['started']}, {tokens:,} tokens, {usage['cost_usd']:.4f} USD"
        calls += f", {usage['paid_amount_unknown']} of unknown cost" if usage["paid_amount_unknown"] else ""
    return [
        ("Run", view["run_id"]),
        ("Status", state),
        ("", view["message"]),
        ("Forked from", view["parent"]),
        ("Epoch", view["epoch"]),
        ("Driver", who),
        ("Cancelling", _cancelling(view)),
        ("Input", view["input"]["name"]),
        ("Asked", "\n".join(view["asks"]) or None),
        *_of_graph(view["graph"]),
        ("Checked", (view["verification"] or {}).get("summary")),
        ("Report", report.get("html")),
        ("", report.get("markdown")),
        ("Digest", report.get("digest")),
        ("Published", report.get("resource")),
        ("Proposed", approval.get("resource")),
        ("", approval.get("title")),
        ("Model calls", calls),
        ("Next", view["next_action"]["text"]),
        *(("", command) for command in view["next_action"]["commands"]),
    ]
