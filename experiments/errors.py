"""What keeps an experiment from being run. It says nothing about what the experiment is to show."""

from __future__ import annotations

from pathlib import Path


class NotRun(Exception):
    """A service or a process of the experiment does not start. The message is a plain sentence with its last words."""

    @classmethod
    def because(cls, name: str, log: Path) -> NotRun:
        """With the last line that the process wrote; the file itself is removed with everything else."""
        said = log.read_text(encoding="utf-8", errors="replace").strip().splitlines() if log.exists() else []
        return cls(f"The {name} of the experiment does not start. Its last words: {said[-1] if said else 'none'}")
