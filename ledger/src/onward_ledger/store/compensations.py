"""Compensations: the call by which the ledger itself asks for what takes an effect back."""

from __future__ import annotations

from dataclasses import dataclass

from onward_ledger.store.calls import Call
from onward_ledger.store.records import Cause


@dataclass(frozen=True, kw_only=True)
class CompensatingCall(Call):
    """`compensates` is the action whose effect is taken back; its id goes into the history of this one.

    `any_epoch`: whoever asks is no driver, so that no announcement makes it stale.
    """

    compensates: str
    any_epoch: bool

    @property
    def cause(self) -> Cause:
        """For the events of this call."""
        detail = {"compensates": self.compensates}
        return Cause(principal=self.principal, instance=self.sender.instance, detail=detail)

    @property
    def derived(self) -> bool:
        """A closed fence keeps a run from doing more, not from taking back what it did."""
        return True

    def is_stale(self, epoch: int) -> bool:
        """See `any_epoch`."""
        return not self.any_epoch and super().is_stale(epoch)
