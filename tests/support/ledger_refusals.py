"""What the model does not allow, tried with the real ledger at any moment of a walk.

It is refused, or answered as the record stands; nothing is sent and nothing changes.
"""

from experiments.protocol_model.callers import ONLY
from experiments.protocol_model.rules import successors
from experiments.protocol_model.state import action_of
from onward_ledger import errors
from onward_ledger.action import Status
from onward_ledger.store.claims import Answered, LookFirst, Unsettled
from onward_ledger.store.operators import Resolution

EPOCH = 2  # of the walk's driver: older ones are stale


class Refusals:
    """The part of a walk that tries what is no step."""

    def refuses(self, what):
        """Something that the model has no edge for, at this moment: the ledger refuses it, or answers as it stands."""
        model = action_of(self.state, ONLY)
        if model.status is not None:
            getattr(self, f"_refuses_{what}")(model)
            self.agree([])

    def _refuses_stale_epoch(self, model):
        self._raises(errors.StaleEpoch, lambda: self.bed.put(self.bed.intent(epoch=EPOCH - 1)))

    def _refuses_other_params(self, model):
        self._raises(errors.ParamsConflict, lambda: self.bed.put(self.bed.intent(epoch=EPOCH, amount=6)))

    def _refuses_a_claim(self, model):
        """Where the model has no claim, a call is told how it stands, or what has to come first."""
        performing = next((real for real in self.hands if real.hand.current), None)
        if model.status == "IN_FLIGHT" and performing and self.clock < self.action.deadline_at:
            self._raises(errors.InProgress, lambda: self.store.begin(self.call(performing.service)))
        elif model.status == "UNKNOWN":
            assert isinstance(self.store.begin(self.call(0)), Unsettled)
        elif model.status == "PREPARED" and model.look_first:
            assert isinstance(self.store.begin(self.call(0)), LookFirst)
        elif model.status in ("SUCCEEDED", "FAILED", "WITHDRAWN"):
            assert self.bed.put(self.bed.intent(epoch=EPOCH)).replayed
        elif model.status == "PREPARED" and self.variant.approval and model.approval == "":
            assert isinstance(self.store.begin(self.call(0)), Answered)

    def _refuses_withdrawal(self, model):
        if model.status == "WITHDRAWN":
            assert self.store.withdraw(self.action_id, "anna", "again").replayed
        elif model.status != "PREPARED":
            self._raises(errors.TooLate, lambda: self.store.withdraw(self.action_id, "anna", "not wanted"))

    def _refuses_a_word(self, model):
        version = self.action.version + (model.status == "UNKNOWN")
        self._raises(errors.Conflict, lambda: self.store.resolve(self.word(Status.FAILED, None, version)))

    def _refuses_a_decision(self, model):
        """The first decision stands, and none comes after a claim."""
        if not self.variant.approval or (model.status == "PREPARED" and model.approval == ""):
            return
        standing = self.action.decision
        other = "approve" if standing and standing.decision == "reject" else "reject"
        self._raises(errors.Conflict, lambda: self.decide(other))

    def _refuses_an_answer(self, model):
        """What was asked before the record moved counts no more, and some answers settle nothing."""
        if self.asked is None:
            return
        action, found, asked_at = self.asked
        rules = {edge.rule for edge in successors(self.variant, self.state)}
        if action.version != self.action.version or not rules & {"find", "unsend", "look"}:
            self.store.settle(action, found, self.sink, self.services[0]._because(None), asked_at=asked_at)

    def _raises(self, error, do):
        try:
            answer = do()
        except error:
            return
        raise AssertionError(f"not refused: {answer}")

    def word(self, status, receipt, version):
        return Resolution(
            action_id=self.action_id,
            status=status,
            reason="looked",
            expected_version=version,
            principal="anna",
            receipt=receipt,
        )


REFUSED = ("stale_epoch", "other_params", "a_claim", "withdrawal", "a_word", "a_decision", "an_answer")
