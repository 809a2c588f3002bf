"""The audit trail as a file: JSON lines in canonical form (RFC 8785), chained by hashes and signed at the end.

    {"trail": 1, "ledger": …, "exported_at": …, "filter": …, "public_key": …, "previous_hash": "000…", "hash": …}
    {"pruned_run": …, "pruned_at": …, "closed_reason": …, "previous_hash": …, "hash": …}
    {"action_id": …, "events": 3, "head": …, "record": …, "history": […], "decisions": […], "previous_hash": …, …}
    {"actions": 1, "pruned_runs": 1, "root": "the hash of the line before", "signature": …}

A pruned run is one whose records were removed by age. An action's history is its events; `head` is the last one's hash.
`hash` is the sha256 over the canonical line without it, so the root covers every byte of the file, and the signature
covers the root and both counts. Runs are in the order of their ids, and then actions are. `public_key` is only a hint:
whoever changes a trail could write theirs.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, cast

from onward_ledger.action import Json
from onward_ledger.audit import FIRST, history_break, member_hash, record_break
from onward_ledger.canonical import canonical
from onward_ledger.errors import BadRequest

VERSION = 1

# More findings than this say no more.
MOST_FINDINGS = 100


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One place where a trail is not what was written: its line (from 1), and the action and event where known."""

    line: int
    what: str
    action_id: str | None = None
    event: int | None = None

    def to_json(self) -> Json:
        """The JSON object."""
        return {"line": self.line, "action_id": self.action_id, "event": self.event, "what": self.what}


@dataclass(frozen=True, kw_only=True)
class Report:
    """What an audit found. The trail is whole where there are no findings."""

    header: Json
    actions: int
    root: str | None
    findings: tuple[Finding, ...]

    @property
    def whole(self) -> bool:
        """Whether every line is what was written and signed."""
        return not self.findings

    def to_json(self) -> Json:
        """The JSON object."""
        return {
            "whole": self.whole,
            "ledger_id": ledger_of(self.header),
            "exported_at": self.header.get("exported_at"),
            "filter": self.header.get("filter"),
            "actions": self.actions,
            "root": self.root,
            "findings": [finding.to_json() for finding in self.findings],
        }


def ledger_of(header: Json) -> object:
    """The id of the ledger that a header names."""
    ledger = header.get("ledger")
    return cast(Json, ledger).get("ledger_id") if isinstance(ledger, dict) else None


def written(lines: Iterable[Json], sign: Callable[[bytes], str]) -> Iterator[bytes]:
    """The bytes of a trail: the header and the other lines, each chained to the one before, and the signed end."""
    last, actions, runs = FIRST, 0, 0
    for content in lines:
        line = {**content, "previous_hash": last}
        last = member_hash(line)
        actions += "action_id" in line
        runs += "pruned_run" in line
        yield canonical({**line, "hash": last}) + b"\n"
    end: Json = {"actions": actions, "pruned_runs": runs, "root": last}
    yield canonical({**end, "signature": sign(canonical(end))}) + b"\n"


def read_lines(file: Iterable[bytes]) -> Iterator[tuple[int, Json]]:
    """The JSON objects of a trail that was found whole, with their numbers."""
    for number, raw in enumerate(file, start=1):
        yield number, cast(Json, json.loads(raw))


def audit(file: Iterable[bytes], verify: Callable[[bytes, str], bool]) -> Report:
    """Read a trail to its end and tell whatever is not as it was written. `verify(signed, signature)` knows the key."""
    auditor = _Auditor(verify)
    for raw in file:
        auditor.take(raw)
    return auditor.report()


class _Auditor:
    """Goes through the lines once, and keeps nothing of them but the last hash and the counts."""

    def __init__(self, verify: Callable[[bytes, str], bool]) -> None:
        self._verify = verify
        self._number = 0
        self._last: str | None = FIRST  # None behind a line that could not be read
        self._runs = 0
        self._actions = 0
        self._place = ("", "")  # the part of the trail and the id that were read last
        self._header: Json = {}
        self._end: Json | None = None
        self._findings: list[Finding] = []

    def take(self, raw: bytes) -> None:
        """The next line."""
        self._number += 1
        if self._end is not None:
            self._find("It stands behind the end of the trail.")
            return
        line = _parsed(raw)
        if line is None:
            self._find("It is not a line of a trail: it was cut or changed.")
            self._last = None
            return
        if raw != canonical(line) + b"\n":
            self._find("It is not written in canonical form: it was cut or changed.")
        if "signature" in line:
            self._ended(line)
            return
        found = len(self._findings)
        self._content(line)
        self._chained(line, silent=len(self._findings) > found)

    def report(self) -> Report:
        """What was found, once all lines were read."""
        if self._end is None:
            self._number += 1
            self._find("The end is missing: the trail was cut.")
        root = self._end.get("root") if self._end else None
        shown = tuple(self._findings[:MOST_FINDINGS])
        return Report(header=self._header, actions=self._actions, root=root, findings=shown)

    def _find(self, what: str, action_id: str | None = None, event: int | None = None) -> None:
        self._findings.append(Finding(line=self._number, what=what, action_id=action_id, event=event))

    def _content(self, line: Json) -> None:
        if (self._number == 1) != ("trail" in line):
            self._find("A trail begins with its header, and has only one.")
        elif "trail" in line:
            self._header = line
            if line["trail"] != VERSION:
                self._find(f"It is a trail of version {line['trail']}; this software knows {VERSION}.")
        elif "pruned_run" in line:
            self._runs += 1
            self._ordered("1 run", line["pruned_run"])
        elif "action_id" in line:
            self._actions += 1
            self._ordered("2 action", line["action_id"])
            self._action(line)
        else:
            self._find("It is no line of a trail that this software knows.")

    def _ordered(self, part: str, identity: object) -> None:
        place = (part, str(identity))
        if place <= self._place:
            what = "is there twice" if place == self._place else "stands in the wrong place"
            self._find(f"The {part[2:]} {identity} {what}.", place[1] if part == "2 action" else None)
        self._place = max(place, self._place)

    def _action(self, line: Json) -> None:
        action_id = str(line["action_id"])
        record, history = line.get("record"), line.get("history")
        if (
            not _is_object(record)
            or not isinstance(history, list)
            or not all(map(_is_object, cast(list[Any], history)))
        ):
            self._find(f"Action {action_id} has no record or no history.", action_id)
            return
        record, history = cast(Json, record), cast(list[Json], history)
        own = (action_id, line.get("events"), line.get("head"))
        if own != (record.get("action_id"), record.get("events"), record.get("head")):
            self._find(f"Action {action_id}: its line and its record name another id, count or head.", action_id)
            return
        if not isinstance(own[1], int):
            self._find(f"Action {action_id} has no count of events.", action_id)
            return
        broken = history_break(action_id, own[1], str(own[2]), history)
        if broken is not None:
            self._find(f"Action {action_id}, event {broken[0]}: {broken[1]}.", action_id, broken[0])
            return
        wrong = record_break(record, history, line.get("decisions") or [])
        if wrong is not None:
            self._find(f"Action {action_id} {wrong}.", action_id)

    def _chained(self, line: Json, *, silent: bool) -> None:
        """`silent`: something more exact was said about this line already."""
        action_id = str(line["action_id"]) if "action_id" in line else None
        who = f"Action {action_id}: its" if action_id else "Its"
        if line.get("hash") != member_hash(line):
            if not silent:
                self._find(f"{who} line was changed.", action_id)
        elif self._last is not None and line.get("previous_hash") != self._last and not silent:
            self._find(f"{who} line does not follow the one before it: lines were removed, added or moved.", action_id)
        self._last = str(line.get("hash"))

    def _ended(self, end: Json) -> None:
        self._end = end
        counted = (self._actions, self._runs)
        if (end.get("actions"), end.get("pruned_runs")) != counted:
            self._find(
                f"The trail ends with {end.get('actions')} actions and {end.get('pruned_runs')} removed runs; "
                f"there are {counted[0]} and {counted[1]}."
            )
        if self._last is not None and end.get("root") != self._last:
            self._find(
                "The root is not the hash of the last line: lines were removed from the end, or the root changed."
            )
        signed = canonical({name: value for name, value in end.items() if name != "signature"})
        if not self._verify(signed, str(end["signature"])):
            self._find("The signature is not one of this public key: another key has signed, or the root was changed.")


def _parsed(raw: bytes) -> Json | None:
    try:
        found: object = json.loads(raw)
        canonical(found)
    except (ValueError, RecursionError, BadRequest):
        return None
    return cast(Json, found) if isinstance(found, dict) else None


def _is_object(value: object) -> bool:
    return isinstance(value, dict)
