"""Two trails of one ledger: whether the newer one holds all that the older one held, unchanged.

Records go on: histories grow, decisions are consumed. But nothing that was written is ever changed, and nothing is
removed except by age, which the newer trail tells (`pruned_run`). Both trails must have been found whole before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from onward_ledger.action import Json
from onward_ledger.trail import Finding, ledger_of, read_lines

_ALL = {"run_id": None, "created_after": None}

Line = tuple[int, Json]


def since(old: Iterable[bytes], new: Iterable[bytes]) -> list[Finding]:
    """What the newer trail lacks or tells otherwise. Both are in the order of their ids and are read side by side."""
    old_lines, new_lines = read_lines(old), read_lines(new)
    findings = _headers(next(old_lines)[1], next(new_lines)[1])
    if findings:
        return findings
    new_line, pruned = _pruned(new_lines)
    old_line, earlier = _pruned(old_lines)
    findings += [
        Finding(line=1, what=f"Run {run} was removed by age once, and is not any more.")
        for run in sorted(earlier - pruned)
    ]
    while "action_id" in old_line[1]:
        identity = old_line[1]["action_id"]
        while new_line[1].get("action_id", "~") < identity:
            new_line = next(new_lines)
        if new_line[1].get("action_id") == identity:
            what = _changed(old_line[1], new_line[1])
            findings += (
                [Finding(line=new_line[0], what=f"Action {identity} {what}.", action_id=identity)] if what else []
            )
        elif old_line[1]["record"]["run_id"] not in pruned:
            what = f"Action {identity} is missing, and its run was not removed by age."
            findings.append(Finding(line=new_line[0], what=what, action_id=identity))
        old_line = next(old_lines)
    return findings


def _headers(old: Json, new: Json) -> list[Finding]:
    if ledger_of(old) != ledger_of(new):
        return [
            Finding(line=1, what=f"It is a trail of ledger {ledger_of(new)}; the older one is of {ledger_of(old)}.")
        ]
    if new["filter"] not in (_ALL, old["filter"]):
        return [Finding(line=1, what="It was exported with another filter than the older one; export all.")]
    if new["exported_at"] < old["exported_at"]:
        return [Finding(line=1, what="It was exported before the trail that it is compared with.")]
    return []


def _pruned(lines: Iterator[Line]) -> tuple[Line, set[str]]:
    """The first line behind the runs that were removed by age, and those runs."""
    runs: set[str] = set()
    for number, line in lines:
        if "pruned_run" not in line:
            return (number, line), runs
        runs.add(line["pruned_run"])
    raise AssertionError("a whole trail has an end")


def _changed(old: Json, new: Json) -> str | None:
    """How a record is not what it was, as a sentence's end."""
    count = old["events"]
    if new["events"] < count:
        return f"has {new['events']} events; it had {count}"
    if new["history"][count - 1]["hash"] != old["head"]:
        return "has another history than it had"
    before, after = old["record"], new["record"]
    if before["request_hash"] != after["request_hash"] or (new["events"] == count and before != after):
        return "has another record, though nothing has happened to it since"
    settled = before["status"] in ("SUCCEEDED", "FAILED", "WITHDRAWN")
    if settled and any(before[name] != after[name] for name in ("status", "receipt", "provider_id")):
        return f"was {before['status']}, which is final, and its outcome was changed"
    decisions = {decision["decision_id"]: decision for decision in new["decisions"]}
    for decision in old["decisions"]:
        if not _goes_on(decision, decisions.get(decision["decision_id"], {})):
            return f"lacks the decision {decision['decision_id']} as it was made"
    return None


def _goes_on(before: Json, after: dict[str, Any]) -> bool:
    """A decision keeps what it says; what was empty may be filled: consumed, seconded, superseded, revoked.

    A second approver may also make it end earlier.
    """
    seconded = before.get("seconded_by") is None and after.get("seconded_by") is not None
    free = {"expires_at"} if seconded else set[str]()
    return all(value is None or after.get(name) == value for name, value in before.items() if name not in free)
