"""A Hypothesis state machine: the store and its ledger against a small model, with crashes in both windows.

The model knows, for each action, its status, its request, and how often its effect was made. After every step the
records must agree with it, every history must be whole and walk along known transitions, and no action of an idempotent
provider may have more than one effect, whatever was lost, killed, repeated, fenced or decided before.
"""

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import ClassVar

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from onward_ledger import errors
from onward_ledger.action import NOTES, TRANSITIONS, Status
from onward_ledger.audit import broken_at
from onward_ledger.providers.interface import ProviderClass
from onward_ledger.store.claims import Call, Claimed
from onward_ledger.store.operators import Resolution
from onward_ledger.store.records import Cause
from tests.support.ledger import Bed, open_bed

S = Status
STEPS = st.sampled_from(["a", "b", "c"])
AMOUNTS = st.sampled_from([5, 5, 5, 6])
NEWER = st.sampled_from([0, 0, 0, 0, -1, 1])  # an epoch, as seen from the announced one
SENDS = st.sampled_from(["apply", "apply", "refuse", "raise", "lost"])


@dataclass
class Model:
    """What must be true of one action."""

    status: Status
    amount: int
    approved: bool = False
    claimed: bool = False


class LedgerMachine(RuleBasedStateMachine):
    """Rules are what drivers, people and accidents do."""

    request: ClassVar = None
    engine: ClassVar[str] = "sqlite"
    provider_class: ClassVar = ProviderClass.IDEMPOTENT
    needs_approval: ClassVar[bool] = False
    reached: ClassVar[set[str]] = set()

    def __init__(self):
        super().__init__()
        self.stack = ExitStack()
        folder = Path(self.stack.enter_context(TemporaryDirectory()))
        self.bed: Bed = self.stack.enter_context(
            open_bed(
                self.engine,
                self.request,
                folder,
                provider_class=self.provider_class,
                needs_approval=self.needs_approval,
            )
        )
        self.model: dict[str, Model] = {}
        self.epoch = 0
        self.closed = False
        self.claims: list = []

    def teardown(self):
        self.stack.close()

    @initialize()
    def first_driver(self):
        self.bed.ledger.store.announce(self.bed.run_id, 2, "driver")
        self.epoch = 2

    @rule(newer=NEWER)
    def announce(self, newer):
        epoch = self.epoch + newer
        stale = epoch < self.epoch
        try:
            self.bed.ledger.store.announce(self.bed.run_id, epoch, "driver")
            assert not stale
        except errors.StaleEpoch:
            assert stale
        self.epoch = max(self.epoch, epoch)

    @rule(step=STEPS, amount=AMOUNTS, newer=NEWER, send=SENDS, can_tell=st.booleans())
    def perform(self, step, amount, newer, send, can_tell):
        self.bed.sink.script, self.bed.sink.can_tell = [send], can_tell
        found = self._effects(step) if can_tell else None
        self._put(step, amount, newer, lambda known: self._performed(known, step, amount, send, found))

    @rule(step=STEPS, amount=AMOUNTS, newer=NEWER)
    def propose(self, step, amount, newer):
        def proposed(known):
            if known is None:
                self.model[step] = Model(S.PREPARED, amount)
            return self.model[step].status

        self._put(step, amount, newer, proposed, propose=True)

    def _put(self, step, amount, newer, expect, *, propose=False):
        """One PUT, and the one answer that the protocol's order allows."""
        epoch = self.epoch + newer
        intent = self.bed.intent(step, amount=amount, epoch=epoch)
        known, stale = self.model.get(step), newer < 0
        if known is None or known.status not in S_FINAL:
            self.epoch = max(self.epoch, epoch)  # a newer driver has spoken, whatever it is told
        try:
            answer = self.bed.put(intent, propose=propose)
        except errors.StaleEpoch:
            return self._reach("stale", stale)
        except errors.ParamsConflict:
            return self._reach("conflict", not stale and known is not None and known.amount != amount)
        except errors.FenceClosed:
            return self._reach("closed", self.closed and (known is None or known.status is S.PREPARED))
        assert not stale and (known is None or known.amount == amount)
        assert answer.status is expect(known)
        return None

    def _reach(self, what, allowed):
        assert allowed, what
        self.reached.add(what)

    def _performed(self, known, step, amount, send, found):
        """Where a PUT that was let through ends."""
        if known is None:
            known = self.model[step] = Model(S.PREPARED, amount)
        if known.status is S.UNKNOWN:
            self._looked_up(known, found)
        if known.status is S.PREPARED and (known.approved or not self.needs_approval):
            known.claimed = True
            known.status = {"apply": S.SUCCEEDED, "refuse": S.FAILED}.get(send, S.UNKNOWN)
        self.reached.add(known.status.value)
        return known.status

    def _looked_up(self, known, found):
        """`found` is how often the effect was there when the provider was asked, None when it could not tell."""
        if found:
            known.status = S.SUCCEEDED
        elif found == 0 and self.provider_class is ProviderClass.IDEMPOTENT:
            known.status = S.WITHDRAWN if self.closed else S.PREPARED

    def _effects(self, step):
        return self.bed.sink.effects.count(self.bed.key(step).action_id)

    @rule(step=STEPS, newer=NEWER, window=st.sampled_from(["before the send", "before the record"]))
    def crash(self, step, newer, window):
        """The service dies in one of the two windows, and another instance takes its place."""
        known, epoch = self.model.get(step), self.epoch + newer
        intent = self.bed.intent(step, amount=known.amount if known else 5, epoch=epoch)
        dead = self.bed.ledger
        call = Call(intent=intent, provider=self.bed.sink, propose=False, sender=dead.sender)
        try:
            begun = dead.store.begin(call)
        except errors.LedgerError:
            return
        if known is None or known.status not in S_FINAL:
            self.epoch = max(self.epoch, epoch)
        if known is None:
            known = self.model[step] = Model(S.PREPARED, 5)
        if not isinstance(begun, Claimed):
            return
        known.status, known.claimed = S.IN_FLIGHT, True
        if window == "before the record":
            self.bed.sink._apply(begun.action)
        self.claims.append((step, begun.action, window == "before the send"))
        self.bed.ledger = self.bed.another()
        self.bed.opened, self.bed._others[-1] = self.bed._others[-1], self.bed.opened
        self.bed._others[-1].liveness.release()
        self.bed.opened.liveness.hold()
        self.bed.ledger.store.lose_gone(self.bed.ledger.sender)
        known.status = S.UNKNOWN
        self.reached.add(f"crash {window}")

    @precondition(lambda self: self.claims)
    @rule(data=st.data())
    def late_truth(self, data):
        """The dead sender's request was in the air and arrives after all; its answer is recorded by claim token."""
        step, claimed, in_the_air = self.claims.pop(data.draw(st.integers(0, len(self.claims) - 1)))
        known = self.model[step]
        if in_the_air:
            self.bed.sink._apply(claimed)
        found = self.bed.ledger.store.record(claimed, self.bed.sink.applied(claimed), Cause())
        if known.status in (S.FAILED, S.WITHDRAWN):
            assert found.alarm is not None
            self.reached.add("alarm")
        elif known.status is S.SUCCEEDED:
            assert found.alarm is None or found.provider_id != self.bed.sink.applied(claimed).provider_id
        else:
            known.status = S.SUCCEEDED
        assert found.status is known.status

    @rule(step=STEPS, can_tell=st.booleans())
    def reconcile(self, step, can_tell):
        known = self.model.get(step)
        if known is None:
            return
        self.bed.sink.can_tell = can_tell
        if known.status is S.UNKNOWN:
            self._looked_up(known, self._effects(step) if can_tell else None)
        assert self.bed.ledger.reconcile(self.bed.key(step).action_id).status is known.status

    @rule(step=STEPS, status=st.sampled_from([S.FAILED, S.FAILED, S.SUCCEEDED]), stale=st.booleans())
    def resolve(self, step, status, stale):
        known = self.model.get(step)
        if known is None:
            return
        action = self.bed.ledger.store.action(self.bed.key(step).action_id)
        word = Resolution(
            action_id=action.action_id,
            status=status,
            reason="looked",
            expected_version=action.version + stale,
            principal="anna",
            receipt={"seen": True} if status is S.SUCCEEDED else None,
        )
        try:
            self.bed.ledger.store.resolve(word)
            assert known.status is S.UNKNOWN and not stale
            known.status = status
            self.reached.add("resolved")
        except errors.Conflict:
            assert known.status is not S.UNKNOWN or stale

    @precondition(lambda self: any(self.model[step].status is S.UNKNOWN for step, _, _ in self.claims))
    @rule()
    def lose_patience(self):
        """An operator says that it failed while the request may still be in the air."""
        step = next(step for step, _, _ in self.claims if self.model[step].status is S.UNKNOWN)
        self.resolve(step, S.FAILED, False)

    @rule(step=STEPS, really=st.integers(0, 2).map(lambda n: n == 1))
    def withdraw(self, step, really):
        known = self.model.get(step)
        if known is None or not really:
            return
        try:
            self.bed.ledger.store.withdraw(self.bed.key(step).action_id, "anna", "not wanted")
            assert known.status in (S.PREPARED, S.WITHDRAWN)
            known.status = S.WITHDRAWN
        except errors.TooLate:
            assert known.status not in (S.PREPARED, S.WITHDRAWN)

    @precondition(lambda self: self.needs_approval)
    @rule(step=STEPS, decision=st.sampled_from(["approve", "approve", "reject"]))
    def decide(self, step, decision):
        known = self.model.get(step)
        if known is None:
            return
        action = self.bed.ledger.store.action(self.bed.key(step).action_id)
        try:
            self.bed.decide(action, decision)
        except errors.DecisionConflict as error:
            assert error.decision == action.decision != decision
        except errors.TooLate:
            assert action.decision is None and known.status is not S.PREPARED
        else:
            if action.decision is None:
                known.approved = decision == "approve"
                known.status = S.PREPARED if known.approved else S.WITHDRAWN
                self.reached.add(decision)

    @precondition(lambda self: self.needs_approval and any(m.status is S.PREPARED for m in self.model.values()))
    @rule(send=SENDS)
    def approve_and_perform(self, send):
        step = next(step for step, known in self.model.items() if known.status is S.PREPARED)
        self.decide(step, "approve")
        self.perform(step, self.model[step].amount, 0, send, True)

    @precondition(lambda self: len(self.model) > 1)
    @rule()
    def close(self):
        self.bed.ledger.store.close_fence(self.bed.run_id, "anna", "cancelled")
        self.closed = True
        for known in self.model.values():
            if known.status is S.PREPARED:
                known.status = S.WITHDRAWN

    @invariant()
    def records_agree_with_the_model(self):
        found = {a.step: a for a in self.bed.ledger.store.actions(run_id=self.bed.run_id)}
        assert {step: a.status for step, a in found.items()} == {s: m.status for s, m in self.model.items()}
        for step, action in found.items():
            assert action.params["amount"] == self.model[step].amount
            if self.needs_approval:
                assert action.approval_id is not None or not self.model[step].claimed
            events = self.bed.ledger.store.events(action.action_id)
            assert broken_at(action, events) is None
            assert all(e.word in NOTES or (e.from_status, e.word, e.to_status) in TRANSITIONS for e in events)
            self._effects_are_right(step, action, events)

    def _effects_are_right(self, step, action, events):
        effects = self._effects(step)
        by_hand = any(e.word == "resolve" for e in events)
        assert effects <= min(1, action.claims), "a second effect, or one without a claim"
        if action.status is S.SUCCEEDED and not by_hand:
            assert effects >= 1
        if action.status is S.FAILED and not by_hand and action.alarm is None:
            assert effects == 0


S_FINAL = (S.SUCCEEDED, S.FAILED, S.WITHDRAWN)


VARIANTS = (
    ("sqlite", ProviderClass.IDEMPOTENT, False, 30),
    ("sqlite", ProviderClass.QUERYABLE, False, 10),
    ("sqlite", ProviderClass.IDEMPOTENT, True, 16),
    ("postgres", ProviderClass.IDEMPOTENT, False, 4),
)


def test_the_ledger_agrees_with_the_model(request):
    reached: set[str] = set()
    for engine, provider_class, needs_approval, examples in VARIANTS:
        members = {"request": request, "engine": engine, "provider_class": provider_class, "reached": reached}
        machine = type("Machine", (LedgerMachine,), members | {"needs_approval": needs_approval})
        run_state_machine_as_test(
            machine,
            settings=settings(
                max_examples=examples,
                stateful_step_count=25,
                deadline=None,
                derandomize=True,
                database=None,
                suppress_health_check=list(HealthCheck),
                phases=[Phase.generate],  # to find the shortest failure, add Phase.shrink
            ),
        )
    # A campaign in which something was never reached has tested nothing there.
    needed = {"stale", "conflict", "closed", "SUCCEEDED", "FAILED", "UNKNOWN", "resolved", "alarm"}
    needed |= {"approve", "reject", "crash before the send", "crash before the record"}
    assert needed <= reached, needed - reached
