"""How a thread goes on, and which answer goes to which question."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from experiments.anygraph.answers import Answers, Question, asked
from experiments.anygraph.steps import Ending, Invoke, Look, go_on, once_more


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "answers"


def snapshot(checkpoint: str | None, *tasks: str, asks: dict[str, Any] | None = None, values: Any = None) -> Any:
    interrupts = [SimpleNamespace(id=key, value=value) for key, value in (asks or {}).items()]
    return SimpleNamespace(
        created_at=checkpoint,
        config={"configurable": {"checkpoint_id": checkpoint} if checkpoint else {}},
        tasks=[SimpleNamespace(name=name, interrupts=interrupts) for name in tasks],
        interrupts=interrupts,
        values=values,
    )


def driven(given: Any, answers: Answers, *snapshots: Any) -> tuple[list[Any], Ending]:
    """What was invoked with, over these snapshots, and how it ended."""
    steps, invoked, looks = go_on(given, answers), [], iter(snapshots)
    told: Any = None
    while True:
        try:
            step = steps.send(told)
        except StopIteration as end:
            return invoked, end.value
        if isinstance(step, Look):
            told = next(looks)
        else:
            invoked.append(step.given)
            told = None


def test_a_new_thread_gets_the_input_and_a_pending_one_none(file: Path) -> None:
    end = snapshot("2", values={"a": 1})
    assert driven("in", Answers([], file), snapshot(None), end) == (["in"], Ending(state="finished", values={"a": 1}))
    assert driven("in", Answers([], file), snapshot("1", "node"), end)[0] == [None]
    assert driven("in", Answers([], file), end)[0] == []


def test_a_question_gets_its_answer(file: Path) -> None:
    asking = snapshot("1", "ask", asks={"q1": "sure?"})
    invoked, ending = driven("in", Answers(["yes"], file), asking, snapshot("2"))
    assert [command.resume for command in invoked] == [{"q1": "yes"}]
    assert ending.state == "finished"


def test_without_an_answer_it_waits_and_says_for_what(file: Path) -> None:
    ending = driven("in", Answers([], file), snapshot("1", "ask", asks={"q1": {"amount": 7}}))[1]
    assert ending == Ending(state="waiting", question='{"amount": 7}', node="ask")


def test_a_thread_that_does_not_get_on_is_stuck(file: Path) -> None:
    ending = driven("in", Answers([], file), snapshot("1", "node"), snapshot("1", "node"))[1]
    assert ending == Ending(state="stuck", node="node")


def test_the_same_question_gets_the_same_answer_in_another_process(file: Path) -> None:
    assert Answers(["a", "b"], file).to(snapshot("1", "ask", asks={"q1": 1})) == {"q1": "a"}
    again = Answers(["a", "b"], file)
    assert again.to(snapshot("1", "ask", asks={"q1": 1})) == {"q1": "a"}
    assert again.to(snapshot("2", "ask", asks={"q2": 2})) == {"q2": "b"}
    assert again.to(snapshot("3", "ask", asks={"q3": 3})) is None
    assert asked(file) == (
        Question(node="ask", value="1", answer=0),
        Question(node="ask", value="2", answer=1),
    )


def test_questions_in_another_order_get_the_answers_that_they_got_before(file: Path, tmp_path: Path) -> None:
    first = Answers(["a", "b", "c"], file)
    first.to(snapshot("1", "left", asks={"l": 1}))
    first.to(snapshot("1", "right", asks={"r": 2}))
    later = Answers(["a", "b", "c"], tmp_path / "later", asked(file))
    assert later.to(snapshot("1", "right", asks={"r'": 2})) == {"r'": "b"}
    assert later.to(snapshot("1", "left", asks={"l'": "another text"})) == {"l'": "a"}
    assert later.to(snapshot("2", "more", asks={"m": 3})) == {"m": "c"}


def test_resuming_what_is_finished_invokes_with_nothing() -> None:
    steps = once_more()
    assert steps.send(None) == Invoke(None)
    assert isinstance(steps.send({}), Look)
    with pytest.raises(StopIteration) as end:
        steps.send(snapshot("2", values=3))
    assert end.value.value == Ending(state="finished", values=3)
