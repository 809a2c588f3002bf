"""A Hypothesis state machine walks the model, and takes every step of it with the real ledger.

What the model allows must work and lead where the model says; what it does not allow must be refused and change
nothing. After every step record, history and world are compared.
"""

from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import ClassVar

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from experiments.mutants import plant_in_ledger
from experiments.protocol_model.callers import ONLY
from experiments.protocol_model.invariants import broken
from experiments.protocol_model.paths import NOT_MODELLED, is_path
from experiments.protocol_model.rules import initial, successors
from experiments.protocol_model.state import Action, action_of
from experiments.protocol_model.variant import Variant
from experiments.protocol_model.variants import VARIANTS
from onward_ledger import errors
from onward_ledger.action import NOTES, TRANSITIONS, Status
from onward_ledger.audit import broken_at
from onward_ledger.ledger import Ledger
from onward_ledger.providers.draft import DraftSave
from onward_ledger.providers.interface import ProviderClass, SendingProvider
from onward_ledger.store import claims
from onward_ledger.store.store import Store
from tests.support.ledger import open_bed
from tests.support.ledger_refusals import REFUSED
from tests.support.ledger_walk import Walk

pytestmark = pytest.mark.campaign

# The real clock is one, so the two things that time decides for an idempotent provider are walked apart.
KEYS_AGE = replace(VARIANTS["idempotent"], name="idempotent, keys age", window="")
KEYS_STAY = replace(VARIANTS["idempotent"], name="idempotent, keys stay", forgets=False)
RESTORED = replace(VARIANTS["restored"], restores=False)


# How often a step is taken where it can be: those behind which a run is soon over, seldom.
WEIGHTS = {
    "check": 8,
    "write": 12,
    "deliver": 6,
    "deliver unheard": 6,
    "refuse": 6,
    "record": 6,
    "find": 6,
    "unsend": 6,
}
WEIGHTS |= {"crash": 1, "give up": 1, "settle window": 1, "resolve": 0.6, "withdraw": 0.5, "reject": 0.5, "close": 0.2}
WEIGHTS |= {"expire": 0.5, "revoke": 0.5, "grow old": 0.4, "lose request": 1, "lose late": 1, "lose": 2}


def weight(edge) -> float:
    return WEIGHTS.get(edge.rule, 3)


class ModelMachine(RuleBasedStateMachine):
    """Steps of the model, and between them what is no step of it."""

    request: ClassVar = None
    engine: ClassVar[str] = "sqlite"
    variant: ClassVar[Variant]
    reached: ClassVar[set]

    def __init__(self):
        super().__init__()
        self.stack = ExitStack()
        folder = Path(self.stack.enter_context(TemporaryDirectory()))
        bed = self.stack.enter_context(open_bed(self.engine, self.request, folder))
        self.walk = Walk(self.variant, bed)
        self.stack.callback(self.walk.end)
        if self.variant is RESTORED:
            self.walk.store.hold("It was restored.")
            self.walk.store.release("anna", "nothing else is lost", 3650)
        self.walk.new_run(self.start(Random(0)))

    def start(self, chance):
        """Where a run begins; in a ledger that was restored, there can be an effect that it has no record of."""
        state = initial(self.variant)
        if self.variant is not RESTORED:
            return state
        world = Action(effects=chance.choice([0, 1]), settled=True)
        return state._replace(restored=True, actions=((ONLY, world),))

    def teardown(self):
        with self.stack:
            self.history_is_whole_and_a_path()

    @rule(seed=st.integers(0, 2**32))
    def steps(self, seed):
        """A few steps at random: Hypothesis' own draws crowd at the first of many edges, which is no walk."""
        chance = Random(f"{seed} after {len(self.walk.told)}")
        for _ in range(8):
            self.step(chance)
            if chance.random() < 0.3:
                self.walk.refuses(chance.choice(REFUSED))

    def step(self, chance):
        if self.walk.over:
            self.walk.refuses("a_claim")  # asked for once more, nothing is sent
            self.history_is_whole_and_a_path()
            self.walk.new_run(self.start(chance))
        edges = list(successors(self.variant, self.walk.state))
        (edge,) = chance.choices(edges, [weight(edge) for edge in edges])
        self.walk.follow(edge, chance.choice)
        self.reached.add(edge.rule)
        self.reached.update(event for _, event in edge.events)

    def history_is_whole_and_a_path(self):
        if action_of(self.walk.state, ONLY).status is not None:
            events = self.walk.store.events(self.walk.action_id)
            assert broken_at(self.walk.action, events) is None
            if self.variant is not RESTORED:
                assert is_path(self.variant, events) is True


# (engine, variant, examples)
CAMPAIGNS = (
    ("sqlite", KEYS_AGE, 12),
    ("sqlite", KEYS_STAY, 9),
    ("sqlite", VARIANTS["queryable"], 6),
    ("sqlite", VARIANTS["queryable, resend_after_absent"], 12),
    ("sqlite", VARIANTS["opaque"], 4),
    ("sqlite", RESTORED, 2),
    ("postgres", KEYS_AGE, 1),
    ("postgres", VARIANTS["queryable, resend_after_absent"], 1),
)


def walk(request, engine, variant, examples, reached, phases=(Phase.generate,)):
    members = {"request": request, "engine": engine, "variant": variant, "reached": reached}
    run_state_machine_as_test(
        type("Machine", (ModelMachine,), members),
        settings=settings(
            max_examples=examples,
            stateful_step_count=5,
            deadline=None,
            derandomize=True,
            database=None,
            suppress_health_check=list(HealthCheck),
            phases=list(phases),  # to find the shortest failure, add Phase.shrink
        ),
    )


_REACHED: dict[int, set] = {}


def reached_by(request, number) -> set:
    """What a campaign reached; each is walked once."""
    if number not in _REACHED:
        engine, variant, examples = CAMPAIGNS[number]
        reached: set = set()
        walk(request, engine, variant, examples, reached)
        _REACHED[number] = reached
    return _REACHED[number]


@pytest.mark.parametrize("number", range(len(CAMPAIGNS)), ids=[f"{engine}, {v.name}" for engine, v, _ in CAMPAIGNS])
def test_the_ledger_takes_the_steps_of_the_model_and_no_others(request, number):
    assert {"propose", "claim"} <= reached_by(request, number)


def test_every_transition_was_taken(request):
    """A campaign in which something was never reached has tested nothing there."""
    reached = set().union(*(reached_by(request, number) for number in range(len(CAMPAIGNS))))
    events = {event for event in reached if isinstance(event, tuple)}
    of_one_commit = {("PREPARED", "apply", "SUCCEEDED"), ("PREPARED", "refuse", "FAILED")}
    wanted = {(before and before.value, word, after.value) for before, word, after in TRANSITIONS}
    assert {event for event in events if event[1] not in NOTES} == wanted - of_one_commit
    assert {word for _, word, _ in events if word in NOTES} == NOTES - NOT_MODELLED


def take(walk, *rules, current=True):
    """Take steps by name; those of a hand are those of the claim that is current, or not."""
    for name in rules:
        [edge, *_] = [
            edge
            for edge in successors(walk.variant, walk.state)
            if edge.rule == name and (edge.hand is None or edge.hand.current is current)
        ]
        walk.follow(edge, lambda choices: choices[0])


SENT = ("claim", "check", "write")
LOST = ("lose", "ask", "unsend")


@pytest.fixture
def keys_stay(request, tmp_path):
    with open_bed("sqlite", request, tmp_path) as bed:
        walk = Walk(KEYS_STAY, bed)
        yield walk
        walk.end()


def test_not_sent_by_the_second_claim_does_not_contradict_the_success_of_the_first(keys_stay):
    """The model says that there is nothing to be alarmed about: the effect is there, once, and so is its receipt."""
    take(keys_stay, "propose", *SENT, *LOST, "claim", "check")
    take(keys_stay, "deliver", "record", current=False)
    take(keys_stay, "not sent", "record")
    assert (keys_stay.action.status, keys_stay.action.alarm) == (Status.SUCCEEDED, None)


def test_a_refusal_of_the_second_claim_says_nothing_of_the_first(keys_stay):
    take(keys_stay, "propose", *SENT, *LOST, *SENT, "refuse", "record")
    assert (keys_stay.action.status, keys_stay.action.in_doubt) == (Status.UNKNOWN, True)
    take(keys_stay, "deliver", "record", current=False)
    assert keys_stay.action.status is Status.SUCCEEDED


def test_after_a_restore_what_was_claimed_before_is_looked_up_too(request, tmp_path):
    """The backup is of a time behind a send that was not accepted; the next one had its effect, and is forgotten."""
    with open_bed("sqlite", request, tmp_path, provider_class=ProviderClass.QUERYABLE) as bed:
        bed.sink.script = ["not_sent"]
        with pytest.raises(errors.NotApplied):
            bed.put(bed.intent())
        bed.sink.effects.append(bed.key().action_id)
        bed.ledger.store.hold("It was restored.")
        bed.ledger.store.release("anna", "nothing else is lost", 30)
        later = bed.another(clock=datetime.now(UTC) + timedelta(seconds=60))
        done = later.put(bed.intent(), propose=False)
        assert (done.status, done.claims, len(bed.sink.effects)) == (Status.SUCCEEDED, 1, 1)
        assert bed.words(done) == ["propose", "claim", "unsend", "find"]


@pytest.fixture
def plant():
    """Plant a mutant of the experiments in this process, until the test is over."""
    places = [(Ledger, "put"), (Ledger, "_send"), (Store, "settle"), (SendingProvider, "remembers")]
    places += [(claims, "_same_request"), (claims, "why_not_approved")]
    kept = [(owner, name, getattr(owner, name)) for owner, name in places]
    yield plant_in_ledger
    for owner, name, value in kept:
        setattr(owner, name, value)


@pytest.mark.parametrize(
    ("mutant", "variant", "seen"),
    [
        ("no-replay", "queryable, resend_after_absent", "effects"),
        ("silent-resend", "queryable, resend_after_absent", "PREPARED"),
        ("blind-replay", "queryable, resend_after_absent", "not refused"),
        ("resume-value", "opaque", "claim"),
    ],
)
def test_a_mutant_is_caught_within_a_few_examples(request, plant, mutant, variant, seen):
    """The same walks that the ledger passes; as variants of the model these mutants break an invariant."""
    assert VARIANTS[mutant].breaks
    plant(mutant)
    with pytest.raises(AssertionError) as caught:
        walk(request, "sqlite", VARIANTS[variant], 12, set())
    assert seen in str(caught.value)


def test_a_success_recorded_early_breaks_an_invariant_in_record_and_world(request, tmp_path, plant, monkeypatch):
    """The service dies in its send: the record and the world, read as a state of the model."""

    class Dies(Exception):
        pass

    def die(self, action, deadline):
        raise Dies

    monkeypatch.setattr(DraftSave, "send", die)
    with open_bed("sqlite", request, tmp_path) as bed:
        assert broken(KEYS_STAY, observed(bed, bed.put(bed.draft("before")))) is None
        plant("early-success")
        bed.put(bed.draft("after"))
        [_, after] = bed.ledger.store.actions(run_id=bed.run_id)
        assert broken(KEYS_STAY, observed(bed, after)) == "succeeded without effect"


def observed(bed, action):
    """What a real record and the world behind it are to the model."""
    effects = len(list(bed.objects.keys(action.resource)))
    seen = Action(status=action.status.value, doubt=action.in_doubt, alarm=action.alarm is not None, effects=effects)
    return initial(KEYS_STAY)._replace(actions=((ONLY, seen),))
