"""What a process says about itself, one line at a time.

Each line is in the file before the process goes on, so a process that is killed has told everything up to its end:

    EXECUTE write_draft                               a node begins
    TOOL committed receipt draft-7854be0b31d5         an effect was performed, and this is its receipt
    TOOL reuse receipt draft-7854be0b31d5             the stored receipt came back; nothing was sent
    CRASH after commit #3 (background)                the fault ended it here
    STOP before commit #3 (background)                the fault stopped it here; WAKE when it was woken
    REFUSED stale-epoch                               the ledger refused something, and why
    ACCEPTED draft.save                               the ledger took what it should have refused
    END succeeded                                     the process ended by itself, and what it says of the run
"""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from pathlib import Path

EXECUTE, COMMITTED, REUSE = "EXECUTE ", "TOOL committed receipt ", "TOOL reuse receipt "
CRASH, STOP, WAKE, END = "CRASH ", "STOP ", "WAKE ", "END "
REFUSED, ACCEPTED = "REFUSED ", "ACCEPTED "


class Story:
    """Writes the lines of this process."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)

    def tell(self, line: str) -> None:
        """Add one line. A write survives the death of its process; only a lost machine would need fsync."""
        os.write(self._file, f"{line}\n".encode())


def errors_of(story: Path) -> Path:
    """Where a process that tells this story writes what else it says."""
    return story.with_name(f"{story.name}.err")


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8", errors="replace").splitlines() if path.exists() else []


@dataclass(frozen=True, kw_only=True)
class Process:
    """What one process did. `exit_code` is negative for a signal, None for a process that had to be stopped.

    `last_words` is the last line that it wrote to stderr, for a reader who wants to know why it ended like that.
    """

    exit_code: int | None
    lines: tuple[str, ...]
    last_words: str = ""

    @classmethod
    def read(cls, path: Path, exit_code: int | None) -> Process:
        """The story of an ended process."""
        words = _lines(errors_of(path))
        return cls(exit_code=exit_code, lines=tuple(_lines(path)), last_words=words[-1] if words else "")

    def _after(self, word: str) -> tuple[str, ...]:
        return tuple(line[len(word) :] for line in self.lines if line.startswith(word))

    @property
    def executed(self) -> tuple[str, ...]:
        """Nodes that began, in order."""
        return self._after(EXECUTE)

    @property
    def committed(self) -> tuple[str, ...]:
        """Receipts of effects that this process had performed."""
        return self._after(COMMITTED)

    @property
    def reused(self) -> tuple[str, ...]:
        """Receipts that were there before."""
        return self._after(REUSE)

    @property
    def crash(self) -> str | None:
        """Where the fault hit, if it did."""
        return next(iter(self._after(CRASH)), None)

    @property
    def killed(self) -> bool:
        """Whether a fault ended it: at its boundary, or from outside."""
        return self.crash is not None or self.exit_code == -signal.SIGKILL

    @property
    def stop(self) -> str | None:
        """Where the fault stopped it, if it did."""
        return next(iter(self._after(STOP)), None)

    @property
    def refused(self) -> tuple[str, ...]:
        """What it was refused, by the codes of the ledger's problems."""
        return self._after(REFUSED)

    @property
    def accepted(self) -> tuple[str, ...]:
        """What it was not refused although it should have been."""
        return self._after(ACCEPTED)

    @property
    def effects_awake(self) -> tuple[str, ...]:
        """Receipts that came into its hands after it was woken."""
        woken = next((n for n, line in enumerate(self.lines) if line.startswith(WAKE)), len(self.lines))
        return tuple(line for line in self.lines[woken:] if line.startswith((COMMITTED, REUSE)))

    @property
    def end(self) -> str | None:
        """What the process said of the run when it ended by itself."""
        return next(iter(self._after(END)), None)
