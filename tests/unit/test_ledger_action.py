"""Identity, request hash, the transition table, and values that survive JSON."""

import itertools
import json
import uuid
from dataclasses import fields
from datetime import UTC, datetime

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from onward_ledger.action import (
    FINAL,
    NOTES,
    TRANSITIONS,
    Action,
    ActionKey,
    Decision,
    Status,
    check_transition,
    request_hash,
)
from onward_ledger.canonical import canonical
from onward_ledger.errors import BadRequest

RUN = "7f0f3b8e-6a5d-4a53-9d7e-0c1a2b3c4d5e"
NOW = datetime(2026, 11, 29, 12, 0, 0, 5, tzinfo=UTC)


def test_the_id_follows_from_run_step_slot_and_revision_alone():
    assert ActionKey(RUN, "deliver", "publish").action_id == str(uuid.uuid5(uuid.UUID(RUN), "deliver/publish"))
    assert ActionKey(RUN, "deliver", "publish", 2).action_id == str(uuid.uuid5(uuid.UUID(RUN), "deliver/publish@2"))
    assert ActionKey(RUN.upper(), "deliver", "publish") == ActionKey(RUN, "deliver", "publish", 1)


def test_no_two_keys_share_an_id():
    keys = [
        ActionKey(run, step, slot, rev)
        for run in (RUN, str(uuid.UUID(int=1)))
        for step in ("a", "a#2", "ab")
        for slot in ("b", "bc", "c")
        for rev in (1, 2, 12)
    ]
    assert len({key.action_id for key in keys}) == len(keys)


@pytest.mark.parametrize(
    "key",
    [
        ("no-uuid", "step", "slot", 1),
        (RUN, "a/b", "slot", 1),
        (RUN, "step", "a@2", 1),
        (RUN, "", "slot", 1),
        (RUN, "step", "x" * 101, 1),
        (RUN, "step", "slot", 0),
        (RUN, "stép", "slot", 1),
        (None, "step", "slot", 1),
    ],
)
def test_a_key_that_could_be_read_two_ways_is_refused(key):
    with pytest.raises(BadRequest):
        ActionKey(*key)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.floats(-(2**53) + 1, 2**53 - 1)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner),
)


@given(JSON)
def test_the_canonical_form_is_that_of_rfc_8785(value):
    assert canonical(value) == rfc8785.dumps(value)


def test_the_canonical_form_of_what_is_written_the_fast_way_is_that_of_rfc_8785():
    every = "".join(map(chr, [*range(0xD800), *range(0xE000, 0x11000), 0x1F600, 0x10FFFF]))
    for value in (every, {"b": every, "a": [1, True, None, {}], "": ()}, [], {}, -0, Status.UNKNOWN):
        assert canonical(value) == rfc8785.dumps(value)
    for names in ("\ue000\U0001f600", "a\u00e9", "zA"):
        assert canonical(dict.fromkeys(names, 1)) == rfc8785.dumps(dict.fromkeys(names, 1))


def test_what_is_no_json_has_no_canonical_form():
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    for value in ("\ud800", {"\ud800": 1}, {1: 2}, {"a": NOW}, {"a": {1, 2}}, 10**4000, deep):
        with pytest.raises(BadRequest):
            canonical(value)


def test_the_request_hash_is_that_of_the_canonical_json():
    # printf '%s' '{"kind":"k","params":{"a":1,"b":[true,null,"é"]},"resource":"r"}' | sha256sum
    expected = "fb44cf2fdc5ef4a70f8a1d995f45f593393dd6512034e731de4143ce8edaa54f"
    assert request_hash("k", "r", {"b": [True, None, "é"], "a": 1}) == expected


def test_order_of_members_does_not_matter_and_everything_else_does():
    same = {request_hash("k", "r", {"a": 1, "b": 2}), request_hash("k", "r", {"b": 2, "a": 1.0})}
    others = [
        request_hash("K", "r", {"a": 1, "b": 2}),
        request_hash("k", "R", {"a": 1, "b": 2}),
        request_hash("k", "r", {"a": 1, "b": "2"}),
        request_hash("k", "r", {"a": 1, "b": [2]}),
        request_hash("k", "r", {"a": 1}),
        request_hash("k", "r", {"a": 1, "b": None}),
    ]
    assert len(same) == 1
    assert len({*same, *others}) == 7


@pytest.mark.parametrize(
    "value",
    [
        2**53,
        -(2**53),
        float(2**53),
        1e300,
        float("nan"),
        float("inf"),
        -float("inf"),
        "\ud800",
        b"x",
        {1: 2},
        {"a": 2**60},
        [[2**53]],
        (2**64,),
    ],
)
def test_what_two_readers_could_read_differently_is_refused(value):
    with pytest.raises(BadRequest):
        request_hash("k", "r", {"v": value})


def test_the_largest_integers_pass():
    assert canonical({"v": [2**53 - 1, -(2**53 - 1), 0.1, -0.0]}) == b'{"v":[9007199254740991,-9007199254740991,0.1,0]}'


def test_depth_is_refused_and_not_a_crash():
    value: list = []
    for _ in range(100_000):
        value = [value]
    with pytest.raises(BadRequest):
        canonical(value)


text = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.floats(-1e15, 1e15) | text,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(text, inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(st.sampled_from("abcd"), json_values))
def test_what_is_stored_reads_back_with_the_same_hash(params):
    """Pinned intent depends on it: recorded params, sent again, must be the recorded request."""
    stored = canonical(params).decode()
    assert request_hash("k", "r", json.loads(stored)) == request_hash("k", "r", params)


def test_only_the_transitions_of_the_table_exist():
    words = {word for _, word, _ in TRANSITIONS} | NOTES | {"nonsense"}
    allowed = set(TRANSITIONS)
    refused = 0
    for before, word, after in itertools.product([None, *Status], words, Status):
        if (before, word, after) in allowed:
            check_transition(before, word, after)
        else:
            refused += 1
            with pytest.raises(AssertionError, match="There is no transition"):
                check_transition(before, word, after)
    assert (len(allowed), refused) == (18, 7 * len(words) * 6 - 18)


def test_nothing_leaves_a_final_state_and_everything_else_can_reach_one():
    assert not [t for t in TRANSITIONS if t[0] in FINAL]
    reaches = set(FINAL)
    for _ in Status:
        reaches |= {before for before, _, after in TRANSITIONS if after in reaches and before is not None}
    assert reaches == set(Status)


def test_unknown_becomes_prepared_only_by_a_look_up_that_found_nothing():
    assert [t for t in TRANSITIONS if t[0] is Status.UNKNOWN and t[2] is Status.PREPARED] == [
        (Status.UNKNOWN, "unsend", Status.PREPARED)
    ]
    assert not [t for t in TRANSITIONS if t[0] is Status.UNKNOWN and t[2] is Status.IN_FLIGHT]


def action(**changes) -> Action:
    members = {
        "action_id": ActionKey(RUN, "deliver", "publish").action_id,
        "run_id": RUN,
        "step": "deliver",
        "slot": "publish",
        "rev": 1,
        "kind": "report.publish",
        "resource": "reports/x",
        "params": {"title": "T"},
        "request_hash": "a" * 64,
        "status": Status.PREPARED,
        "epoch": 3,
        "version": 2,
        "events": 2,
        "head": "b" * 64,
        "created_at": NOW,
        "updated_at": NOW,
    }
    return Action(**members | changes)


def test_an_action_survives_json():
    decision = Decision(
        decision_id=4,
        action_id=RUN,
        decision="approve",
        principal="张三",
        request_hash="a" * 64,
        resource="reports/x",
        scope="report.publish",
        decided_at=NOW,
        expires_at=NOW,
    )
    before = action(decision=decision, receipt={"n": [1, None]}, status=Status.SUCCEEDED, deadline_at=NOW)
    text = json.dumps(before.to_json())
    assert Action.from_json(json.loads(text)) == before
    assert set(json.loads(text)) == {field.name for field in fields(Action)}


def test_members_that_a_newer_service_adds_are_left_out():
    assert Action.from_json(action().to_json() | {"colour": "green"}) == action()


def test_an_unknown_status_is_a_bug_and_raises():
    with pytest.raises(ValueError, match="DONE"):
        Action.from_json(action().to_json() | {"status": "DONE"})
