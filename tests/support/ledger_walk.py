"""The real ledger, made to take the steps of the model: one method for each of the model's rules.

A `Walk` holds one action. Its two services are two ledger instances over one database; a hand of the model is the claim
that one of them performs. The network, the provider and the clocks are the test's.
"""

import time
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from experiments.protocol_model.callers import ONLY
from experiments.protocol_model.rules import initial
from experiments.protocol_model.state import Hand, action_of
from onward_ledger import errors
from onward_ledger.action import FINAL, Action, Status
from onward_ledger.ledger import Ledger
from onward_ledger.providers.interface import (
    Absent,
    Applied,
    CannotTell,
    Deadline,
    DeadlinePassed,
    NotSent,
    ProviderClass,
    Refused,
    Several,
)
from onward_ledger.store import Opened, open_store
from onward_ledger.store.approvals import Revocation
from onward_ledger.store.claims import Call, Claimed, LookFirst, Unsettled
from tests.support.ledger import Bed, Sink, start
from tests.support.ledger_refusals import EPOCH, Refusals

START = datetime(2030, 1, 1, tzinfo=UTC)
KEY_LIFETIME = timedelta(days=10)
APPROVAL_LIFETIME = timedelta(days=100)
BACKOFF = timedelta(seconds=61)


class Counted(Sink):
    """A sink that does what the model's provider does: it can forget, and its look-ups say what they are told to."""

    def __init__(self, variant):
        provider_class = ProviderClass.IDEMPOTENT if variant.idempotent else ProviderClass.QUERYABLE
        super().__init__(provider_class, needs_approval=variant.approval)
        self.looks_up = variant.looks_up
        self.resend_after_absent = variant.absent == "when settled"
        self.key_lifetime_seconds = KEY_LIFETIME.total_seconds() if variant.forgets else None
        self.remembered = False
        self.says: list = []

    def _apply(self, action):
        if not (self.provider_class is ProviderClass.IDEMPOTENT and self.remembered):
            self.effects.append(action.action_id)
        self.remembered = self.provider_class is ProviderClass.IDEMPOTENT

    def lookup(self, action):
        self.lookups.append(action.action_id)
        return self.says.pop(0)


@dataclass
class RealHand:
    """A claim that a service performs, and what the model calls it."""

    hand: Hand
    service: int
    claimed: Action
    deadline: Deadline
    outcome: object = None


class Walk(Refusals):
    """One action of the real ledger. `state` is the model's; `follow` takes one of its edges in both."""

    def __init__(self, variant, bed: Bed):
        self.variant, self.bed = variant, bed
        self.sink = Counted(variant)
        bed.sink = bed.ledger._providers[self.sink.kind] = self.sink
        self.stores: list[Opened] = []
        self.services: list[Ledger] = [bed.ledger, bed.another()]
        self.living: list[Opened] = [bed.opened, bed._others[-1]]
        if bed.opened.kind == "postgres":  # a SQLite ledger has one service at a time
            self.living[1].liveness.hold()
        self.set_clock(START)
        self.new_run(initial(variant))

    def new_run(self, state):
        """Another run, with one action again. `state` is where the model begins."""
        self.state = state
        self.bed.run_id = str(uuid.uuid4())
        self.hands: list[RealHand] = []
        self.asked: tuple | None = None
        self.looked = False
        self.claims = 0
        self.seen = 0  # events of the history
        self.told: list[str] = []
        self.sink.remembered = False
        self.sink.effects = [self.action_id] * action_of(state, ONLY).effects
        self.store.announce(self.bed.run_id, EPOCH, "driver")

    @property
    def over(self) -> bool:
        """Whether nothing can happen any more that was not there before."""
        model = action_of(self.state, ONLY)
        settled = model.status in FINAL or (model.status is None and self.state.closed)
        return settled and not model.loose and not self.hands

    def end(self):
        for opened in self.stores:
            opened.database.close()

    # --- clocks and processes ---

    def set_clock(self, now: datetime):
        """What the database says the time is: a clock belongs to its connections, so there are new ones."""
        self.clock = now
        opened = open_store(self.bed.url, clock=now)
        for ledger in self.services:
            ledger.store = opened.store
        for old in self.stores:
            old.database.close()
        self.stores = [opened]

    def pass_time(self, seconds: timedelta):
        self.set_clock(self.clock + seconds)

    def kill(self, service: int):
        """The process of this service is gone, and another one starts."""
        self.living[service].liveness.release()
        opened = open_store(self.bed.url)
        self.bed._others.append(opened)
        if opened.kind == "postgres" or service == 0:
            opened.liveness.hold()
        self.living[service] = opened
        ledger = start(opened, {kind: self.bed.ledger.provider(kind) for kind in self.bed.ledger.kinds})
        ledger.store = self.services[service].store
        self.services[service] = ledger
        self.bed.ledger = self.services[0]

    @property
    def store(self):
        return self.services[0].store

    @property
    def action_id(self):
        return self.bed.key().action_id

    @property
    def action(self) -> Action:
        return self.store.action(self.action_id)

    def real(self, hand: Hand) -> RealHand:
        """The claim behind a hand of the model. Hands that are alike to the model are interchangeable."""
        return next(real for real in self.hands if real.hand == hand)

    def call(self, service: int, **changes) -> Call:
        intent = self.bed.intent(epoch=EPOCH)
        ledger = self.services[service]
        members = {"intent": intent, "provider": self.sink, "propose": False, "sender": ledger.sender}
        return Call(**members | {"looked": self.looked} | changes)

    # --- one edge ---

    def follow(self, edge, draw):
        """Take this edge with the real ledger, and see that it is where the model is. `draw(choices)` picks one."""
        self.told.append(edge.told)
        try:
            getattr(self, edge.rule.replace(" ", "_"))(edge, draw)
            self.state = edge.after
            self._rename_hands(edge)
            self.agree([event for _, event in edge.events])
        except Exception as error:
            error.add_note("\n".join(["The steps of the model:", *self.told]))
            raise

    def _rename_hands(self, edge):
        """What the model calls the hands now: a new claim makes earlier ones not current; time makes them late."""
        for real in self.hands:
            hand = real.hand
            if edge.rule == "claim" and real is not self.hands[-1]:
                real.hand = hand._replace(current=False)
            if edge.rule in ("settle window", "forget") and hand.phase == "claimed":
                real.hand, real.deadline = hand._replace(phase="over"), Deadline(30.0, time.monotonic() - 1000)
        mine, models = sorted(r.hand for r in self.hands), sorted(h for h in self.state.hands if h is not None)
        assert mine == models, (edge.told, mine, models)

    def agree(self, expected):
        """The record, its history and the world are what the model says."""
        model = action_of(self.state, ONLY)
        assert len(self.sink.effects) == model.effects, f"effects: {len(self.sink.effects)}, {model}"
        if model.status is None:
            assert self.store.actions(run_id=self.bed.run_id) == []
            return
        action = self.action
        seen = (action.status.value, action.in_doubt, action.alarm is not None)
        assert seen == (model.status, model.doubt, model.alarm), (seen, model)
        assert action.claims == self.claims
        assert (action.approval_id is not None) == (model.approval == "used")
        events = self.store.events(self.action_id)
        new = [(e.from_status and e.from_status.value, e.word, e.to_status.value) for e in events[self.seen :]]
        assert new == expected
        self.seen = len(events)

    # --- callers ---

    def propose(self, edge, draw):
        action = self.services[draw([0, 1])].put(self.bed.intent(epoch=EPOCH), propose=True)
        assert (action.status, action.replayed) == (Status.PREPARED, False)

    def claim(self, edge, draw):
        busy = {real.service for real in self.hands}
        service = next(n for n in (0, 1) if n not in busy)
        if (waits := self.action.not_before_at) is not None and waits > self.clock:
            self._refuses_before_its_backoff(service)
            self.set_clock(waits)
        call = self.call(service)
        self.services[service].performing.add(call.claim_token)
        began = time.monotonic()
        step = self.store_of(service).begin(call)
        assert isinstance(step, Claimed), step
        hand = next(h for h in edge.after.hands if h is not None and h.current and h.phase == "claimed")
        self.hands.append(RealHand(hand, service, step.action, Deadline(30.0, began)))
        self.claims += 1

    def _refuses_before_its_backoff(self, service):
        try:
            step = self.store_of(service).begin(self.call(service))
        except errors.NotApplied:
            return
        raise AssertionError(f"sent again before its back-off: {step}")

    def store_of(self, service):
        return self.services[service].store

    def doubt(self, edge, draw):
        self.backed_off()
        assert isinstance(self.store.begin(self.call(0)), Unsettled)

    def backed_off(self):
        if (waits := self.action.not_before_at) is not None and waits > self.clock:
            self.set_clock(waits)

    def lose(self, edge, draw):
        """Its sender gives up; or somebody else finds it gone, or its deadline over."""
        current = next((real for real in self.hands if real.hand.current), None)
        if current is None:
            service = self.knows_it_gone(draw)
            assert self.store_of(service).meet(self.action_id, self.services[service].sender).status is Status.UNKNOWN
        elif draw(["time-out", "time-out", "deadline"]) == "time-out":
            ledger = self.services[current.service]
            ledger.store.lose(current.claimed, ledger._because("No answer."))
        else:
            self._refuses_before_its_deadline(current)
            self.set_clock(max(self.clock, self.action.deadline_at))
            self.store.meet(self.action_id, self.services[current.service].sender)

    def knows_it_gone(self, draw) -> int:
        """A service that can know that nobody performs it: its own, which lives on without it; any, if that is dead."""
        instance = self.action.instance
        return next((n for n, ledger in enumerate(self.services) if ledger.instance == instance), draw([0, 1]))

    def _refuses_before_its_deadline(self, current):
        if self.clock >= self.action.deadline_at:
            return
        try:
            self.store.meet(self.action_id, self.services[current.service].sender)
        except errors.InProgress:
            return
        raise AssertionError("taken for gone, although it performs it")

    # --- services ---

    def crash(self, edge, draw):
        real = self.real(edge.hand)
        self.hands.remove(real)
        self.services[real.service].performing.discard(real.claimed.claim_token)
        if draw([True, False]):
            self.kill(real.service)

    def check(self, edge, draw):
        real = self.real(edge.hand)
        real.deadline.check()
        real.hand = real.hand._replace(phase="checked")

    def give_up(self, edge, draw):
        real = self.real(edge.hand)
        real.deadline = Deadline(30.0, time.monotonic() - 1000)
        try:
            real.deadline.check()
        except DeadlinePassed as error:
            real.outcome = NotSent(str(error))
        real.hand = real.hand._replace(phase="unsent")

    def write(self, edge, draw):
        real = self.real(edge.hand)
        real.hand = real.hand._replace(phase="sent")

    def not_sent(self, edge, draw):
        real = self.real(edge.hand)
        real.outcome, real.hand = NotSent("The connection was refused."), real.hand._replace(phase="unsent")

    def record(self, edge, draw):
        real = self.real(edge.hand)
        self.hands.remove(real)
        ledger = self.services[real.service]
        ledger._record(real.claimed, real.outcome, time.monotonic())
        ledger.performing.discard(real.claimed.claim_token)

    # --- the world ---

    def deliver(self, edge, draw):
        real = self.real(edge.hand)
        self.sink._apply(real.claimed)
        real.outcome, real.hand = self.sink.applied(real.claimed), real.hand._replace(phase="applied")

    deliver_copied = deliver

    def deliver_unheard(self, edge, draw):
        self.sink._apply(self.real(edge.hand).claimed)
        self.lose_request(edge, draw)

    def lose_request(self, edge, draw):
        real = self.real(edge.hand)
        self.hands.remove(real)
        self.services[real.service].performing.discard(real.claimed.claim_token)

    def refuse(self, edge, draw):
        real = self.real(edge.hand)
        real.outcome, real.hand = Refused("The provider refuses."), real.hand._replace(phase="refused")

    def deliver_late(self, edge, draw):
        self.sink._apply(self.action)

    deliver_late_copied = deliver_late

    def lose_late(self, edge, draw):
        pass

    def settle_window(self, edge, draw):
        if self.claims:
            self.set_clock(max(self.clock, self.sink.settled_at(self.action)))

    def grow_old(self, edge, draw):
        self.pass_time(KEY_LIFETIME)

    def forget(self, edge, draw):
        self.sink.remembered = False

    # --- look-ups and people ---

    def ask(self, edge, draw):
        answer = action_of(edge.after, ONLY).answer
        effects = tuple(Applied(provider_id=f"effect {n}", receipt={"n": n}) for n in (1, 2))
        found = {"one": self.sink.applied(self.action), "several": Several(effects)}.get(answer, Absent())
        if answer == "absent" and self.action.status is Status.UNKNOWN and draw([True, False]):
            found = CannotTell("The provider cannot be reached.")
        self.asked = (self.action, found, self.store.now())

    def find(self, edge, draw):
        action, found, asked_at = self.asked
        ledger = self.services[draw([0, 1])]
        ledger.store.settle(action, found, self.sink, ledger._because(None), asked_at=asked_at)

    unsend = find

    def look(self, edge, draw):
        assert isinstance(self.store.begin(self.call(0)), LookFirst)
        self.find(edge, draw)
        self.looked = True

    def resolve(self, edge, draw):
        status = Status(action_of(edge.after, ONLY).status)
        receipt = {"provider_id": "by hand"} if status is Status.SUCCEEDED else None
        self.store.resolve(self.word(status, receipt, self.action.version))

    def withdraw(self, edge, draw):
        self.store.withdraw(self.action_id, "anna", "not wanted")

    def close(self, edge, draw):
        self.store.close_fence(self.bed.run_id, "anna", "cancelled")

    def approve(self, edge, draw):
        self.decide("approve", expires_at=self.clock + APPROVAL_LIFETIME)

    def reject(self, edge, draw):
        self.decide("reject")

    def decide(self, decision, **more):
        return self.services[0].decide(self.bed.answer(self.action, decision, **more))

    def expire(self, edge, draw):
        self.pass_time(APPROVAL_LIFETIME)

    def revoke(self, edge, draw):
        self.store.revoke(Revocation(action_id=self.action_id, principal="anna", reason="changed my mind"))
