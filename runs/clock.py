"""Clocks: the head of a thread is the checkpoint with the greatest id, and the id comes from the writer's clock.

So a driver whose clock is behind would write checkpoints that nobody sees, and one whose clock is ahead would outlive
its successors. Before its first write a driver compares its clock with the database's; on resume the ids go on behind
the head's, whatever this machine's clock says.
"""

from __future__ import annotations

import uuid
from datetime import datetime

from runs.errors import ClockSkew

# More than this and a driver does not drive.
LARGEST_SKEW_SECONDS = 2.0


def check_clock(asked: datetime, there: datetime, answered: datetime) -> None:
    """Raise ClockSkew when this machine's clock and the database's differ by more than LARGEST_SKEW_SECONDS.

    `there` is what the database said to a question of this machine between `asked` and `answered`. It takes time to
    travel; only what cannot be explained by that counts.
    """
    ahead, behind = (asked - there).total_seconds(), (there - answered).total_seconds()
    skew = max(ahead, behind)
    if skew > LARGEST_SKEW_SECONDS:
        raise ClockSkew(
            f"This machine's clock is {skew:.1f} seconds {'ahead of' if ahead > behind else 'behind'} the database's. "
            "Set the clock (NTP), then try again: checkpoints are ordered by the clock of who writes them."
        )


def follow_head(checkpoint_id: str) -> None:
    """Make this process's checkpoint ids go on behind the head's, whatever any clock says.

    The head may lie in the future: its driver's clock jumped while it drove. The ids behind it lie there too, and that
    harms nothing, since only their order counts and every driver follows the head.
    """
    _seed_ids(_ticks(checkpoint_id))


def _ticks(checkpoint_id: str) -> int:
    """The 60-bit time of a UUID of version 6, in 100-nanosecond intervals since 1582."""
    value = uuid.UUID(checkpoint_id).int
    assert (value >> 76) & 0xF == 6, f"{checkpoint_id} is not a UUID of version 6"
    return ((value >> 80) << 12) | ((value >> 64) & 0x0FFF)


def _seed_ids(ticks: int) -> None:
    """Set LangGraph's private floor of its UUIDs. There is no public way; a test fails when the name moves."""
    from langgraph.checkpoint.base import id as ids

    floor = ids._last_v6_timestamp  # pyright: ignore[reportPrivateUsage] - see above
    ids._last_v6_timestamp = max(floor or 0, ticks)  # pyright: ignore[reportPrivateUsage]
