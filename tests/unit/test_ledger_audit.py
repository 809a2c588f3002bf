"""Auditing a trail: an untouched one passes, and every change of every line and member is found and placed."""

import copy
import itertools
import json
import uuid
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from onward_ledger import signing
from onward_ledger.action import Action, ActionKey, Status, request_hash
from onward_ledger.audit import FIRST, event_hash, member_hash
from onward_ledger.canonical import canonical, digest, plain
from onward_ledger.errors import BadRequest
from onward_ledger.trail import audit, written
from onward_ledger.trail_since import since
from onward_ledger.values import Event

RUN = "7f0f3b8e-6a5d-4a53-9d7e-0c1a2b3c4d5e"
NOON = datetime(2026, 5, 4, 12, tzinfo=UTC)
PATHS = {
    "sent": [("propose", None, "PREPARED"), ("claim", "PREPARED", "IN_FLIGHT"), ("record", "IN_FLIGHT", "SUCCEEDED")],
    "waits": [("propose", None, "PREPARED")],
    "approved": [("propose", None, "PREPARED"), ("decide", "PREPARED", "PREPARED"), ("apply", "PREPARED", "SUCCEEDED")],
}

PARAMS, RECEIPT = {"amount": 5, "to": ["a", "b"]}, {"id": "tr_1"}
DETAILS = {
    "propose": {"request_hash": request_hash("pay", "account/1", PARAMS)},
    "decide": {"decision_id": 7, "decision": "approve"},
    "record": {"receipt_hash": digest(RECEIPT)},
    "apply": {"receipt_hash": digest(RECEIPT)},
}


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    """`(ours, theirs)`: two signers, each with its verifier."""
    folder = tmp_path_factory.mktemp("keys")
    return [signed_by(folder, name) for name in ("ours", "theirs")]


def signed_by(folder, name):
    signer = signing.signer(folder / f"{name}.key")
    public = folder / f"{name}.pub"
    public.write_text(signer.public_pem)
    return signer, signing.verifier(public)


def history(action_id, path):
    head = FIRST
    for seq, (word, before, after) in enumerate(path, start=1):
        event = Event(
            action_id=action_id,
            seq=seq,
            word=word,
            from_status=Status(before) if before else None,
            to_status=Status(after),
            epoch=1,
            principal="anna" if word == "decide" else None,
            instance=None,
            claim_token=None,
            reason=None,
            detail=DETAILS.get(word),
            recorded_at=NOON + timedelta(seconds=seq),
            previous_hash=head,
            hash="",
        )
        event = replace(event, hash=event_hash(event))
        head = event.hash
        yield event


def action_line(step):
    key = ActionKey(RUN, step, "slot")
    events = list(history(key.action_id, PATHS[step]))
    status = events[-1].to_status
    action = Action(
        action_id=key.action_id,
        run_id=RUN,
        step=step,
        slot="slot",
        rev=1,
        kind="pay",
        resource="account/1",
        params=PARAMS,
        request_hash=request_hash("pay", "account/1", PARAMS),
        status=status,
        receipt=RECEIPT if status is Status.SUCCEEDED else None,
        epoch=1,
        version=len(events),
        events=len(events),
        head=events[-1].hash,
        created_at=NOON,
        updated_at=events[-1].recorded_at,
    )
    record = action.to_json()
    del record["replayed"], record["decision"]
    decided = any(event.word == "decide" for event in events)
    decision = {"decision_id": 7, "decision": "approve", "principal": "anna", "consumed_at": None}
    return {
        "action_id": action.action_id,
        "events": action.events,
        "head": action.head,
        "record": record,
        "history": [event.to_json() for event in events],
        "decisions": [decision] if decided else [],
    }


def contents():
    header = {
        "trail": 1,
        "ledger": {"ledger_id": "2cf24dba-5fb0-4a30-a26e-83b2ac5b9e29"},
        "exported_at": NOON.isoformat(),
        "filter": {"run_id": None, "created_after": None},
        "public_key": "a hint",
    }
    runs = [{"pruned_run": str(uuid.UUID(int=n)), "pruned_at": NOON.isoformat()} for n in (1, 2)]
    return [header, *runs, *sorted(map(action_line, PATHS), key=lambda line: line["action_id"])]


@pytest.fixture(scope="module")
def lines(keys):
    return list(written(contents(), keys[0][0].sign))


def findings(keys, lines):
    return audit(lines, keys[0][1].verify).findings


def test_an_untouched_trail_is_whole(keys, lines):
    report = audit(lines, keys[0][1].verify)
    assert (report.whole, report.actions, report.root) == (True, 3, json.loads(lines[-2])["hash"])
    assert report.to_json()["ledger_id"] == "2cf24dba-5fb0-4a30-a26e-83b2ac5b9e29"


def test_every_removed_line_is_found(keys, lines):
    for number in range(len(lines)):
        cut = lines[:number] + lines[number + 1 :]
        found = findings(keys, cut)
        assert found, f"line {number + 1} can be removed"
        assert found[0].line == number + 1


def test_every_cut_is_found_wherever_it_is(keys, lines):
    whole = b"".join(lines)
    ends_of_lines = itertools.accumulate(map(len, lines[:-1]))
    for end in {*range(0, len(whole), 5), *ends_of_lines}:
        found = findings(keys, whole[:end].splitlines(keepends=True))
        assert found, f"the trail can be cut at byte {end}"
    assert not findings(keys, whole.splitlines(keepends=True))


def test_every_swap_and_every_copy_is_found(keys, lines):
    for first, second in itertools.combinations(range(len(lines)), 2):
        swapped = list(lines)
        swapped[first], swapped[second] = lines[second], lines[first]
        assert findings(keys, swapped)[0].line == first + 1
    for number, line in enumerate(lines):
        for place in range(len(lines) + 1):
            copied = [*lines[:place], line, *lines[place:]]
            assert findings(keys, copied), f"line {number + 1} can be copied to {place + 1}"


def test_every_change_of_a_byte_is_found(keys, lines):
    whole = b"".join(lines)
    for place in range(0, len(whole), 7):  # each line has several hundred bytes
        changed = bytearray(whole)
        changed[place] ^= 1
        number = whole[:place].count(b"\n") + 1
        found = findings(keys, bytes(changed).splitlines(keepends=True))
        assert found, f"byte {place} can be changed"
        assert found[0].line == number


def leaves(value, path=()):
    """Every place in a JSON value, containers too."""
    yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, member in inner:
        yield from leaves(member, (*path, name))


def mutants(lines):
    """`(number, path, lines)` for each member of each line: changed to another value, and removed."""
    for number, raw in enumerate(lines):
        whole = json.loads(raw)
        for path in leaves(whole):
            for change in ("other", "gone"):
                line = copy.deepcopy(whole)
                if not path or not changed_at(line, path, change):
                    continue
                yield number, path, [*map(json.loads, lines[:number]), line, *map(json.loads, lines[number + 1 :])]


def changed_at(line, path, change):
    *outer, last = path
    for name in outer:
        line = line[name]
    if change == "other":
        line[last] = "other" if line[last] != "other" else "another"
    else:
        del line[last]
    return True


def as_bytes(lines):
    return [canonical(line) + b"\n" for line in lines]


def rehashed(lines):
    """What somebody without the key can do: make every hash anew, of events and lines, and the root."""
    last = FIRST
    for line in lines[:-1]:
        head = FIRST
        for event in line.get("history") or []:
            if isinstance(event, dict):
                event["previous_hash"] = head
                event["hash"] = head = member_hash(event)
        if isinstance(line.get("record"), dict) and line.get("history"):
            line["head"] = line["record"]["head"] = head
        line["previous_hash"] = last
        line["hash"] = last = member_hash(line)
    lines[-1]["root"] = last
    return lines


def test_every_change_of_a_member_is_found_in_its_line(keys, lines):
    count = 0
    for number, path, changed in mutants(lines):
        count += 1
        found = findings(keys, as_bytes(changed))
        assert found, f"line {number + 1}: {path} can be changed"
        assert found[0].line == number + 1, (path, found)
        if path[0] == "history" and len(path) > 2:
            assert found[0].event == path[1] + 1, (path, found)
            assert found[0].action_id == changed[number].get("action_id")
    assert count > 400


def test_who_makes_all_hashes_anew_still_has_no_signature(keys, lines):
    for number, path, changed in mutants(lines):
        if number == len(lines) - 1 or path[-1] in ("hash", "previous_hash", "head"):
            continue  # made anew
        assert findings(keys, as_bytes(rehashed(changed))), f"line {number + 1}: {path} can be forged"
    assert not findings(keys, as_bytes(rehashed(list(map(json.loads, lines))))), "the forger's arithmetic is right"


def test_a_forgery_signed_with_another_key_is_found(keys):
    forged = contents()
    forged[-1]["record"]["receipt"] = {"id": "tr_2"}
    lines = list(written(forged, keys[1][0].sign))
    [finding] = findings(keys, lines)
    assert "another key has signed" in finding.what
    assert audit(lines, keys[1][1].verify).whole, "whose key it is decides"


def test_what_is_no_trail_is_said_to_be_none(keys):
    for text in (b"", b"\n", b"[]\n", b"{}\n", b"hello\n", b"\xff\xfe\n", b"[" * 100_000 + b"\n", b'{"a":NaN}\n'):
        assert findings(keys, text.splitlines(keepends=True))


def resigned(keys, change):
    """What somebody with the key does: write another trail, with hashes and signature as they have to be."""
    lines = contents()
    change(lines)
    return list(written(lines, keys[0][0].sign))


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda line: line["record"].update(receipt={"id": "tr_2"}), "another receipt than its history holds"),
        (lambda line: line["record"].update(params={"amount": 6}), "another request than its request hash"),
        (
            lambda line: line["record"].update(
                params={"amount": 6}, request_hash=request_hash("pay", "account/1", {"amount": 6})
            ),
            "another request than its history began with",
        ),
        (lambda line: line["record"].update(status="FAILED"), "is recorded as FAILED"),
        (lambda line: line["record"].update(step="other"), "an id that its run"),
        (lambda line: line["decisions"].clear(), "lacks the decision 7"),
        (lambda line: line["decisions"][0].update(principal="eve"), "lacks the decision 7"),
        (lambda line: line["decisions"][0].update(decision="reject"), "lacks the decision 7"),
    ],
)
def test_a_record_that_contradicts_its_history_is_found_although_it_is_signed(keys, change, what):
    """As when a database was changed before the export."""
    found = findings(keys, resigned(keys, lambda lines: change(by_step(lines, "approved"))))
    assert what in found[0].what
    assert len(found) == 1


def test_what_json_cannot_hold_exactly_becomes_text():
    odd = {"n": 2**60, "x": float("inf"), "s": "\ud800", "ok": [1, 1.5, True, None, "ä"], "t": (1,)}
    assert plain(odd) == {"n": str(2**60), "x": "inf", "s": "?", "ok": [1, 1.5, True, None, "ä"], "t": [1]}
    assert canonical(plain(odd))


# Two trails


def later(keys, change=lambda lines: None, **header):
    lines = contents()
    lines[0] |= {"exported_at": (NOON + timedelta(days=1)).isoformat()} | header
    change(lines)
    return list(written(lines, keys[0][0].sign))


def by_step(lines, step):
    return next(line for line in lines if line.get("record", {}).get("step") == step)


def grow(lines):
    """What may happen to records: a send, a consumed approval, a note."""
    waits, approved = by_step(lines, "waits"), by_step(lines, "approved")
    events = list(history(waits["action_id"], PATHS["sent"]))
    waits["history"] = [event.to_json() for event in events]
    waits["events"] = waits["record"]["events"] = 3
    waits["head"] = waits["record"]["head"] = events[-1].hash
    waits["record"] |= {"status": "SUCCEEDED", "receipt": {"id": "tr_3"}}
    approved["decisions"][0]["consumed_at"] = NOON.isoformat()


def test_a_later_trail_may_go_on(keys, lines):
    assert since(lines, later(keys)) == []
    assert since(lines, later(keys, grow)) == []


def remove(step, *, pruned=False):
    def change(lines):
        lines.remove(by_step(lines, step))
        if pruned:
            lines.insert(3, {"pruned_run": RUN, "pruned_at": NOON.isoformat()})

    return change


def test_only_what_was_removed_by_age_may_be_missing(keys, lines):
    for step in PATHS:
        [finding] = since(lines, later(keys, remove(step)))
        assert "is missing" in finding.what
        assert since(lines, later(keys, remove(step, pruned=True))) == []


def test_a_run_that_was_removed_by_age_stays_removed(keys, lines):
    [finding] = since(lines, later(keys, lambda lines: lines.pop(1)))
    assert "is not any more" in finding.what


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda lines: by_step(lines, "sent")["record"].update(reason="another"), "nothing has happened"),
        (lambda lines: by_step(lines, "approved")["decisions"].clear(), "lacks the decision 7"),
        (lambda lines: by_step(lines, "approved")["decisions"][0].update(principal="eve"), "lacks the decision 7"),
        (lambda lines: by_step(lines, "sent")["history"].pop() and by_step(lines, "sent").update(events=2), "2 events"),
        (lambda lines: by_step(lines, "sent")["history"][-1].update(hash="0" * 64), "another history"),
    ],
)
def test_what_was_changed_between_two_trails_is_found(keys, lines, change, what):
    [finding] = since(lines, later(keys, change))
    assert what in finding.what


def test_trails_that_cannot_be_compared_are_told_apart(keys, lines):
    assert "ledger" in since(lines, later(keys, ledger={"ledger_id": "other"}))[0].what
    assert "filter" in since(lines, later(keys, filter={"run_id": RUN, "created_after": None}))[0].what
    assert "before" in since(later(keys), lines)[0].what


# The key


def test_a_key_is_made_once_and_for_its_owner_only(tmp_path):
    path = tmp_path / "new" / "ledger.key"
    first, second = signing.signer(path), signing.signer(path)
    assert first.public_pem == second.public_pem
    assert path.stat().st_mode & 0o777 == 0o600
    assert [file.name for file in path.parent.iterdir()] == ["ledger.key"]


def test_a_key_that_others_can_read_is_refused(tmp_path):
    path = tmp_path / "ledger.key"
    signing.signer(path)
    path.chmod(0o644)
    with pytest.raises(BadRequest, match="chmod 600"):
        signing.signer(path)


def test_a_file_that_holds_no_key_is_refused(tmp_path):
    path = tmp_path / "ledger.key"
    path.write_text("hello")
    path.chmod(0o600)
    with pytest.raises(BadRequest, match="no Ed25519 private key"):
        signing.signer(path)
    with pytest.raises(BadRequest, match="no Ed25519 public key"):
        signing.verifier(path)
    with pytest.raises(BadRequest, match="cannot be read"):
        signing.verifier(tmp_path / "none")
