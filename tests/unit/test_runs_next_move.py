"""The continue rule, over every combination of what a snapshot and the ledger can say."""

from __future__ import annotations

import itertools

import pytest
from langgraph.types import Interrupt, PregelTask, StateSnapshot

from runs.next_move import (
    Broken,
    Continue,
    Finish,
    Position,
    Question,
    Resume,
    Start,
    Wait,
    next_move,
    read_position,
)

ASKED = Question(interrupt_id="i1", action_id="a1")
OTHER = Question(interrupt_id="i2", action_id="a2")
FREE = Question(interrupt_id="i3", action_id=None)
YES = {"decision": "approve"}

STARTED = (False, True)
PENDING = ((), ("deliver",))
QUESTIONS = ((), (ASKED,), (ASKED, OTHER), (FREE,))
OUTCOMES = (None, "published", "rejected", "unverified", "something else")
DELIVERED = (None, "d1")
DECISIONS = ({}, {"a1": YES}, {"a1": YES, "a2": YES})
RECEIPTS = ({}, {"d1": {"ok": True}})
COMBINATIONS = list(itertools.product(STARTED, PENDING, QUESTIONS, OUTCOMES, DELIVERED, DECISIONS, RECEIPTS))


def expected(started, pending, questions, outcome, delivered, decisions, receipts):
    """The table of the module, written down a second time."""
    if not started:
        return Start
    if pending:
        if not questions:
            return Continue
        return Resume if all(q.action_id in decisions for q in questions) else Wait
    if questions:
        return Broken
    if outcome == "published":
        return Finish if delivered in receipts else Broken
    return Finish if outcome in ("rejected", "unverified") else Broken


def test_every_combination_has_one_move():
    seen = set()
    for started, pending, questions, outcome, delivered, decisions, receipts in COMBINATIONS:
        position = Position(
            started=started, pending=pending, questions=questions, outcome=outcome, delivered_by=delivered
        )
        move = next_move(position, decisions, receipts)
        assert type(move) is expected(started, pending, questions, outcome, delivered, decisions, receipts), position
        seen.add(type(move))
    assert len(COMBINATIONS) == 960
    assert seen == {Start, Continue, Resume, Wait, Finish, Broken}


def test_a_finish_names_its_outcome():
    for outcome in ("published", "rejected", "unverified"):
        position = Position(started=True, outcome=outcome, delivered_by="d1")
        assert next_move(position, {}, {"d1": {}}) == Finish(outcome)


def test_resume_answers_each_interrupt_by_its_id():
    position = Position(started=True, pending=("deliver",), questions=(ASKED, OTHER))
    decisions = {"a1": YES, "a2": {"decision": "reject"}, "a9": YES}
    assert next_move(position, decisions, {}) == Resume({"i1": YES, "i2": {"decision": "reject"}})


def test_wait_names_what_is_undecided():
    position = Position(started=True, pending=("deliver",), questions=(ASKED, OTHER))
    assert next_move(position, {"a1": YES}, {}) == Wait(("a2",), "approval")
    assert next_move(Position(started=True, pending=("x",), questions=(FREE,)), {}, {}) == Wait((), "question")


def test_the_state_s_own_receipt_proves_nothing():
    position = Position(started=True, outcome="published", delivered_by="d1", evidence={"checkpoint_id": "c"})
    move = next_move(position, {}, {})
    assert isinstance(move, Broken) and move.evidence == {"checkpoint_id": "c"}


def snapshot(**given):
    values = {
        "values": {},
        "next": (),
        "config": {"configurable": {"thread_id": "t", "checkpoint_id": "c1"}},
        "metadata": None,
        "created_at": "2026-01-01T00:00:00+00:00",
        "parent_config": None,
        "tasks": (),
        "interrupts": (),
    }
    return StateSnapshot(**{**values, **given})


def test_a_step_whose_writes_are_durable_and_whose_checkpoint_is_not_is_pending():
    task = PregelTask(id="t1", name="deliver", path=(), result={"outcome": "published"})
    position = read_position(snapshot(tasks=(task,), next=(), values={"outcome": "published"}))
    assert position.pending == ("deliver",)
    assert next_move(position, {}, {}) == Continue()


def test_an_untouched_thread_is_not_started():
    assert read_position(snapshot(created_at=None)).started is False


@pytest.mark.parametrize(
    ("value", "action_id"),
    [
        ({"approval": {"action_id": "a1"}}, "a1"),
        ({"approval": {"action_id": 5}}, None),
        ({"approval": None}, None),
        ({}, None),
        ("approve?", None),
        (None, None),
    ],
)
def test_a_question_s_action_is_read_and_never_trusted_to_be_there(value, action_id):
    task = PregelTask(id="t1", name="deliver", path=(), interrupts=(Interrupt(value=value, id="i1"),))
    position = read_position(snapshot(tasks=(task,), interrupts=(Interrupt(value=value, id="i1"),)))
    assert position.questions == (Question(interrupt_id="i1", action_id=action_id),)


@pytest.mark.parametrize("delivery", [None, [], "x", {}, {"action_id": None}])
def test_broken_values_do_not_raise(delivery):
    position = read_position(snapshot(values={"delivery": delivery, "outcome": 7}))
    assert isinstance(next_move(position, {}, {}), Broken)
