"""Which unit a repetition comes from, and what is advised."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from experiments.anygraph import advice
from experiments.anygraph.attribution import Attribution, Execution
from experiments.anygraph.campaign import conclude
from experiments.anygraph.case import Case, describe
from experiments.anygraph.lab import Ran
from experiments.anygraph.reference import Reference, Whole
from experiments.anygraph.report import headline
from experiments.anygraph.units import Outcome, Unit, UnitKind
from experiments.boundaries import Boundary
from experiments.story import Process

RAN = Ran(process=Process(exit_code=0, lines=()), told=None)
AT = Boundary(role="pay", label="node", side="after")


def made(
    path: str, *mails: str, kind: UnitKind = "node", outcome: Outcome = "returned", task: str = "", **unit: Any
) -> Execution:
    return Execution(
        unit=Unit(path=path, role=unit.pop("role", path), kind=kind, task=task or path, **unit),
        effects={"mails": list(mails)} if mails else {},
        outcome=outcome,
    )


def reference(*executions: Execution, effects: int = 1, **changes: Any) -> Reference:
    whole = Whole(ran=RAN, again=RAN, effects={"mails": ["x"] * effects}, values={}, questions=())
    values: dict[str, Any] = {
        "passed": 1,
        "boundaries": (AT,),
        "unsure": frozenset(),
        "effects": {"mails": Counter({'"x"': effects})},
        "effect_paths": {"mails": frozenset()},
        "values": {},
        "value_paths": frozenset(),
        "executed": Counter(),
        "questions": (),
        "attribution": Attribution(executions=executions, ran=RAN),
        "runs": (whole, whole),
    }
    return Reference(**{**values, **changes})


def twice(*again: str, items: tuple[str, ...] = ('"x"',), **changes: Any) -> Case:
    return Case(
        boundary=AT,
        fired=True,
        duplicates={"mails": len(items)},
        extra_items={"mails": list(items)},
        reexecuted=Counter(again),
        **changes,
    )


def test_the_unit_that_ran_again_is_blamed() -> None:
    two = reference(made("pay", "x"), made("tell", "x"))
    assert advice.blame(two, twice("tell"), "mails") == ["tell"]
    assert advice.blame(two, twice(), "mails") == ["pay", "tell"]


def test_what_is_there_twice_tells_units_apart_that_both_ran_again() -> None:
    two = reference(made("pay", "x"), made("tell", "y"))
    assert advice.blame(two, twice("pay", "tell", items=('"y"',)), "mails") == ["tell"]


def test_each_unit_is_told_its_own_repetitions() -> None:
    two = reference(made("pay", "x"), made("tell", "y"))
    both = twice("pay", "tell", items=('"x"', '"y"', '"y"'))
    found = advice.find(two, [both], "sync", False)
    assert [(finding.node, finding.most) for finding in found] == [("pay", 1), ("tell", 2)]
    assert headline(found[1], 3).startswith("node tell: mails happened up to 3 times when the process died")


def test_without_attribution_nobody_is_blamed() -> None:
    assert advice.blame(reference(), twice("pay"), "mails") == [advice.UNKNOWN]


def advised(*executions: Execution, durability: Any = "sync", functional: bool = False, path: str = "pay") -> str:
    (finding,) = advice.find(reference(*executions), [twice(path)], durability, functional)
    return " ".join(finding.advice)


def test_advice_says_what_was_seen_and_no_more() -> None:
    plain = advised(made("pay", "x"))
    assert plain.startswith("Give the request an idempotency key made of the thread id and the step")
    for word in ("interrupt()", "several effects", "@entrypoint", "beside", "durability", "()"):
        assert word not in plain


@pytest.mark.parametrize(
    ("executions", "more", "words"),
    [
        ([made("pay", "x", "x")], {}, "One node has several effects (mails, mails)"),
        ([made("pay", "x")], {"durability": "async"}, 'use durability="sync"'),
        ([made("pay", "x")], {"functional": True}, "The body of an @entrypoint begins anew"),
        ([made("pay", "x", fresh=("uuid4", "now"))], {}, "pay calls uuid4(), now(), which is something new"),
        ([made("pay", "x"), made("other")], {}, "It runs beside others in one super-step"),
        ([made("pay", "x", task="1"), made("pay", "x", task="2", step=2)], {}, "a number from the state or the Send"),
    ],
)
def test_advice_for_each_thing_that_can_be_seen(executions: list[Execution], more: Any, words: str) -> None:
    assert words in advised(*executions, **more)


def test_an_effect_before_a_question_is_found_without_any_kill() -> None:
    asked = reference(made("pay", "x", outcome="interrupted", task="1"), made("pay", "x", task="1"), effects=2)
    (finding,) = advice.find(asked, [], "sync", False)
    assert (finding.without_fault, finding.repeated_at) == (True, ())
    assert finding.advice[0].startswith("interrupt() comes after mails in the same node")
    assert headline(finding, 9) == "node pay: mails happened twice without any kill, when the question was answered"
    assert conclude(asked, [Case(boundary=AT, fired=True)])[0] == "disproved"


def test_a_unit_that_asks_before_its_effect_is_clean() -> None:
    asked = reference(made("pay", outcome="interrupted", task="1"), made("pay", "x", task="1"))
    assert advice.find(asked, [], "sync", False) == []


def test_verdicts() -> None:
    fired = Case(boundary=AT, fired=True)
    silent = Case(boundary=AT, fired=False)
    assert conclude(reference(), [fired]) == ("pass", [])
    assert conclude(reference(), [fired, silent]) == (
        "invalid",
        ["after pay, its result not stored: the fault did not fire"],
    )
    assert conclude(reference(unsure=frozenset({AT})), [fired, silent]) == ("pass", [])
    assert conclude(reference(), [])[0] == "invalid"
    assert conclude(reference(), [twice("pay"), silent])[0] == "disproved"
    assert conclude(reference(effects=0), [])[1] == ["mails: nothing was counted, also without a fault"]


def test_runs_without_a_fault_that_differ_prove_nothing() -> None:
    one, two = (Whole(ran=RAN, again=RAN, effects={"mails": ["x"] * n}, values={}, questions=()) for n in (1, 0))
    verdict, reasons = conclude(reference(runs=(one, two)), [])
    assert verdict == "invalid"
    assert reasons == [
        "mails: 1 and 0 effects in two runs without a fault; use {thread_id} in --input, so that each run has "
        "something of its own to do"
    ]


def test_boundaries_in_words() -> None:
    assert describe(Boundary(role="pay", label="node")) == "before pay"
    assert describe(AT) == "after pay, its result not stored"
    assert describe(Boundary(role="tools/pay", label="tool pay", occurrence=2)) == "before tools/pay (a tool) #2"
    assert describe(Boundary(role="pay", label="commit", occurrence=3, side="after")) == "in pay, after commit #3"
    assert describe(Boundary(role="pay", label="open", side="at")) == "in pay, open"


def test_cases_in_words() -> None:
    assert Case(boundary=AT, fired=True).words == "clean"
    assert Case(boundary=AT, fired=False).words == "did not fire"
    wrong = twice("pay", items=('"x"', '"x"'), lost={"rows": 1}, wrong=("total",), trouble="no", after_end=("pay",))
    assert wrong.words == (
        "mails happened 2 times more; 1 of rows lost; another result in total; does not end: no; "
        "after its end it executed pay"
    )
    assert not wrong.is_clean
