"""One more kind of effect in a service that is a process: a line in a file for each send, whoever sends it.

The file outlives the service, so it can be killed anywhere; its order is the order of the sends.
"""

import functools
import os
import time
from pathlib import Path

from onward_ledger.errors import BadRequest
from onward_ledger.providers.interface import (
    Absent,
    Applied,
    CannotTell,
    NotSent,
    ProviderClass,
    SendingProvider,
    Several,
)

KIND = "test.counted"


class Counted(SendingProvider):
    """Queryable, and sent again once it is sure that it did not happen: after a kill nothing of it is under way."""

    kind = KIND
    provider_class = ProviderClass.QUERYABLE
    deadline_seconds = 2.0
    request_lifetime_seconds = 0.1
    settle_window_seconds = 0.1
    resend_after_absent = True

    def __init__(self, file: Path, seconds: float) -> None:
        self._file = file
        self._seconds = seconds

    def _is(self, mark: str) -> bool:
        """A test sets marks beside the file: down, refuses, loses."""
        return self._file.with_suffix(f".{mark}").exists()

    def validate(self, run_id, resource, params):
        if self._is("refuses"):
            raise BadRequest("The counter takes no more of these.")

    def send(self, action, deadline):
        if self._is("down"):
            return NotSent("The counter is down.")
        if self._is("loses"):
            raise ConnectionError("The counter does not answer.")
        time.sleep(self._seconds / 2)
        deadline.check()
        descriptor = os.open(self._file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.write(descriptor, f"{action.action_id}\n".encode())
        os.close(descriptor)
        time.sleep(self._seconds / 2)
        return self._applied(action)

    def lookup(self, action):
        if self._is("down"):
            return CannotTell("The counter is down.")
        effects = tuple(self._applied(action) for line in effects_in(self._file) if line == action.action_id)
        return Several(effects) if len(effects) > 1 else effects[0] if effects else Absent()

    @staticmethod
    def _applied(action):
        return Applied(provider_id=f"counted-{action.action_id[:8]}", receipt={"n": action.params["n"]})


def effects_in(file: Path) -> list[str]:
    """The ids of the effects, in their order."""
    return file.read_text().splitlines() if file.exists() else []


def counting(file: Path, seconds: float = 0.0):
    """What plants this kind in a service; a send takes so many seconds, half of them behind its effect."""
    return functools.partial(_plant, file, seconds)


def _plant(file: Path, seconds: float) -> None:
    from onward_ledger import serve
    from onward_ledger.store import claims

    real = serve.providers_for
    serve.providers_for = lambda *arguments: {**real(*arguments), KIND: Counted(file, seconds)}
    claims.RECORD_GRACE_SECONDS = 0.3
