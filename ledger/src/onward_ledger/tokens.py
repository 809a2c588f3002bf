"""The tokens that the service takes: which caller a presented one stands for."""

from __future__ import annotations

import hmac
import logging
import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from onward_ledger.callers import Caller
from onward_ledger.errors import LedgerError
from onward_ledger.token_file import Entry, digest, read_entries

log = logging.getLogger("onward_ledger")


def _now() -> datetime:
    return datetime.now(UTC)


class Tokens:
    """Every token that the service takes: the one service token, and those of a token file.

    The service token has every scope and proves nobody. The file is read again when it changes; a file that cannot be
    used then is told in the log, and what was read before stays in force. At the start it is an error.
    """

    def __init__(self, service: str | None, path: Path | None = None, *, now: Callable[[], datetime] = _now) -> None:
        own = [Entry(sha256=digest(service), caller=Caller(name="service"))] if service is not None else []
        self._own = tuple(own)
        self._path = path
        self._now = now
        self._stamp = _stamp(path)
        self._known = self._own + (tuple(read_entries(path)) if path is not None else ())

    def caller(self, token: bytes) -> Caller | None:
        """Whose token this is; None for a token that is unknown, has ended, or is empty.

        It is hashed once, and compared with every entry in constant time and without an early end, so that neither
        the entries nor their number of equal characters show in the time.
        """
        self._refresh()
        given, now = digest(token), self._now()
        found: Caller | None = None
        for entry in self._known:
            if hmac.compare_digest(entry.sha256, given) & entry.is_good(now):
                found = entry.caller
        return found if token else None

    def _refresh(self) -> None:
        """Read the file again if it is another one or has another content. One stat per request."""
        if self._path is None or (stamp := _stamp(self._path)) == self._stamp:
            return
        self._stamp = stamp  # a broken file is told once, not at every request
        try:
            self._known = self._own + tuple(read_entries(self._path))
        except LedgerError as error:
            log.error("The tokens that were read before stay in force. %s", error)
        else:
            log.info("Read %s again: it has %d tokens.", self._path, len(self._known) - len(self._own))


def _stamp(path: Path | None) -> tuple[int, ...] | None:
    """What changes when a file does: the change time also tells a chmod, the inode a replacement."""
    if path is None:
        return None
    try:
        found = os.stat(path)  # noqa: PTH116  # twice as fast, and made for every request
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ctime_ns, found.st_ino, found.st_size
