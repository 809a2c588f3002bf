"""The protocol as a model, explored exhaustively: what must hold holds, every known mistake is seen, and the model's
transitions are those of the code."""

import json

import pytest

from experiments.protocol_model import __main__ as command
from experiments.protocol_model.explore import explore
from experiments.protocol_model.first_variants import FIRST
from experiments.protocol_model.invariants import INVARIANTS
from experiments.protocol_model.mistakes import MUTANTS, TRAPS
from experiments.protocol_model.paths import NOT_MODELLED
from experiments.protocol_model.variants import EVERY, OURS, VARIANTS
from onward_ledger.action import NOTES, TRANSITIONS

pytestmark = pytest.mark.campaign


@pytest.fixture(scope="module")
def found():
    """Every variant, explored once."""
    return {name: explore(variant) for name, variant in VARIANTS.items()}


@pytest.mark.parametrize("name", [variant.name for variant in (*OURS, *FIRST) if not variant.breaks])
def test_the_protocol_holds(found, name):
    assert found[name].violations == {}
    assert found[name].stuck is None
    assert found[name].states > 50, "a variant in which nothing happens proves nothing"


@pytest.mark.parametrize("name", [variant.name for variant in (*TRAPS, *MUTANTS, *FIRST) if variant.breaks])
def test_a_known_mistake_is_seen_with_a_trace(found, name):
    assert VARIANTS[name].breaks <= set(found[name].violations)
    assert all(len(trace) > 1 for trace in found[name].violations.values())


def test_each_class_of_provider_is_explored_to_its_end():
    assert {variant.name for variant in OURS} >= {"transactional", "idempotent", "queryable", "opaque"}
    assert all(variant.ends and not variant.breaks and not variant.tolerates for variant in OURS)


def test_every_invariant_is_broken_by_some_mistake(found):
    """An invariant that nothing breaks may not be looked at, too."""
    broken = {name for one in found.values() for name in one.violations}
    assert broken == set(INVARIANTS)


def test_the_models_transitions_are_those_of_the_code(found):
    taken = {move for variant in OURS for move in found[variant.name].moves}
    moves = {(before, word, after) for before, word, after in taken if word not in NOTES}
    assert moves == {(before and before.value, word, after.value) for before, word, after in TRANSITIONS}
    assert {word for before, word, after in taken if before == after} == NOTES - NOT_MODELLED


def test_the_shortest_trace_tells_what_happened(found):
    """The stated caveat of `resend_after_absent`, as a story: without it a second effect exists."""
    trace = found["suspended sender"].violations["duplicate effect"]
    assert trace == [
        "somebody proposes step 1",
        "somebody calls: a service claims step 1",
        "somebody calls: the sender of step 1 is taken for gone",
        "the sender of step 1 has time left",
        "the settle window of step 1 is over",
        "the sender of step 1 sends",
        "the provider says of step 1: absent, settled",
        "step 1 is absent and may be sent again",
        "somebody calls: a service claims step 1",
        "the sender of step 1 has time left",
        "the sender of step 1 sends",
        "an earlier sender of step 1 hears that the provider applies it",
        "the sender of step 1 hears that the provider applies it",
    ]


def test_the_command_prints_the_table_and_fails_when_a_verdict_is_wrong(capsys, monkeypatch):
    assert command.main(["--json", "--only", "opaque", "--only", "no-replay"]) == 0
    opaque, again = json.loads(capsys.readouterr().out)
    assert (opaque["verdict"], opaque["violations"], opaque["as_it_must"]) == ("holds", {}, True)
    assert (again["verdict"], list(again["violations"])) == ("violates", ["duplicate effect"])
    harmless = EVERY["no-replay"].__class__(name="no-replay", what="", breaks=EVERY["no-replay"].breaks, drivers=0)
    monkeypatch.setitem(command.EVERY, "no-replay", harmless)
    assert command.main(["--only", "no-replay"]) == 1
    assert "NOT AS IT MUST BE" in capsys.readouterr().out
