"""How a driver left a run, as its process reports it."""

from __future__ import annotations

from dataclasses import dataclass

from runs.errors import Exit
from runs.registry import Status


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How this driver left the run. `status` is null when the run belongs to another driver.

    `again_after_seconds`: the run is queued and the same process may drive it on after that time.
    """

    status: Status | None
    reason: str | None
    message: str
    exit_code: Exit
    again_after_seconds: float | None = None

    @classmethod
    def lost(cls, message: str) -> Outcome:
        """Another driver has the run."""
        return cls(status=None, reason="lease_lost", message=message, exit_code=Exit.CONFLICT)

    @classmethod
    def decided(cls) -> Outcome:
        """The decision came while the drive was ending."""
        return cls(
            status=Status.QUEUED,
            reason=None,
            message="The decision has arrived.",
            exit_code=Exit.HANDED_BACK,
            again_after_seconds=0.0,
        )

    @classmethod
    def stopped(cls) -> Outcome:
        """Somebody asked to stop while the run waited for its next try."""
        return cls(
            status=Status.QUEUED,
            reason="drained",
            message="Stopped while waiting for the next try; `onward resume` goes on.",
            exit_code=Exit.HANDED_BACK,
        )
