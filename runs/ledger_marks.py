"""Marks of starts of a local ledger that have not come to their end, and the ledgers that such starts left behind.

Whoever starts a ledger may be killed before the file with its address is written. The ledger then lives on, and nobody
knows where; so the mark is made before the process, and names it: its ready file stands on its command line.
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Generator
from pathlib import Path

import psutil

_STARTING = ".starting"


@contextlib.contextmanager
def start_under_way(address: Path) -> Generator[Path]:
    """Around a start: its ready file, with a name of its own, so that no other start's word is taken for this one's."""
    mark = address.with_suffix(f".{secrets.token_hex(4)}{_STARTING}")
    mark.touch(mode=0o600)
    try:
        yield _ready_file(mark)
    finally:
        _remove(mark)


def _ready_file(mark: Path) -> Path:
    return mark.with_suffix(".ready")


def _remove(mark: Path) -> None:
    _ready_file(mark).unlink(missing_ok=True)
    mark.unlink(missing_ok=True)


def marks(address: Path) -> list[Path]:
    """One for each start under way; under the lock, of those that nobody will end."""
    return list(address.parent.glob(f"{address.stem}.*{_STARTING}"))


def end_abandoned(address: Path, seconds: float) -> None:
    """Kill the ledgers of starts that nobody will end, and wait for each at most so long. The caller has the lock."""
    for mark in marks(address):
        for process in psutil.process_iter(["cmdline"]):
            if str(_ready_file(mark)) in (process.info["cmdline"] or ()):
                with contextlib.suppress(psutil.Error):
                    process.kill()
                    process.wait(seconds)
        _remove(mark)
