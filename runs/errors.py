"""What can go wrong with a run, as one tree, and the exit code that each error ends a command with.

    RunError                     1   the root: catch this to catch them all
    ├── UsageError               2   definite    the request itself makes no sense
    │   └── AmbiguousRun         2   definite    a shortened run id fits several runs
    ├── RunNotFound              3   definite    no run has this id
    ├── Conflict                 4   definite    the request does not fit what stands
    │   ├── DrivenElsewhere      4   indefinite  another living driver holds the run
    │   ├── StateChanged         4   indefinite  somebody moved the run meanwhile
    │   ├── RunFinished          4   definite    the run has ended; nothing is left to do
    │   ├── OtherStore           4   definite    the run belongs to another object store or ledger
    │   ├── OtherVersion         4   definite    this software does not serve the run's workflow version
    │   ├── MigrationRefused     4   definite    the run cannot be brought to that workflow version
    │   └── ClockSkew            4   indefinite  this machine's clock is too far off
    ├── WaitingForPerson         5   definite    a person has to decide first
    ├── HandedBack               6   indefinite  stopped at a safe place; `onward resume` goes on
    ├── LimitReached             7   definite    the run's deadline, budget or attempts are used up
    ├── NotPermitted             1   definite    whoever the run acts for may not do this (any more)
    ├── UnknownOutcome           8   definite    nobody but a person can say whether an effect happened
    └── ServiceUnreachable       9   indefinite  a database or the ledger does not answer

Definite: the same command fails again until something else changes. Indefinite: it may succeed when it is tried
again. The message is a plain sentence or two for the user: what is wrong, and what to do about it.

`LeaseLost` (`graph.context`) is not here: it is a signal and derives from BaseException, so that no tool or model
takes it for an error of its own.
"""

from __future__ import annotations

from enum import IntEnum
from typing import ClassVar


class Exit(IntEnum):
    """Exit codes of every command."""

    OK = 0
    FAILED = 1
    USAGE = 2
    NOT_FOUND = 3
    CONFLICT = 4
    WAITING = 5
    HANDED_BACK = 6
    LIMIT = 7
    UNKNOWN_OUTCOME = 8
    UNREACHABLE = 9
    DISPROVED = 10


class RunError(Exception):
    """Root of the tree."""

    exit_code: ClassVar[Exit] = Exit.FAILED
    definite: ClassVar[bool] = True

    @property
    def message(self) -> str:
        """The sentence for the user."""
        return str(self.args[0]) if self.args else ""


class UsageError(RunError):
    """The request itself makes no sense: a missing file, an unknown value, a malformed id."""

    exit_code = Exit.USAGE


class AmbiguousRun(UsageError):
    """A shortened run id fits several runs."""


class RunNotFound(RunError):
    """No run has this id."""

    exit_code = Exit.NOT_FOUND


class Conflict(RunError):
    """The request does not fit what stands."""

    exit_code = Exit.CONFLICT


class DrivenElsewhere(Conflict):
    """Another living driver holds the run. `pid` and `host` say which."""

    definite = False

    def __init__(self, message: str, *, pid: int | None, host: str | None, epoch: int) -> None:
        super().__init__(message)
        self.pid = pid
        self.host = host
        self.epoch = epoch


class StateChanged(Conflict):
    """Somebody moved the run between reading and writing it."""

    definite = False


class RunFinished(Conflict):
    """The run has ended; nothing is left to do."""


class OtherStore(Conflict):
    """The run belongs to another object store or another ledger than the ones configured here."""


class OtherVersion(Conflict):
    """This software does not serve the run's workflow version."""


class MigrationRefused(Conflict):
    """The run cannot be brought to that workflow version: no function leads there, or what it gives cannot go on."""


class ClockSkew(Conflict):
    """This machine's clock differs too much from the database's."""

    definite = False


class WaitingForPerson(RunError):
    """A person has to decide first."""

    exit_code = Exit.WAITING


class HandedBack(RunError):
    """The run was stopped at a safe place and can go on."""

    exit_code = Exit.HANDED_BACK
    definite = False


class LimitReached(RunError):
    """The run's deadline, budget or attempts are used up. `limit` is "deadline", "budget" or "attempts"."""

    exit_code = Exit.LIMIT

    def __init__(self, message: str, *, limit: str) -> None:
        super().__init__(message)
        self.limit = limit


class NotPermitted(RunError):
    """Whoever the run acts for may not do this, or may not act any more."""


class UnknownOutcome(RunError):
    """Nobody but a person can say whether an effect happened."""

    exit_code = Exit.UNKNOWN_OUTCOME


class ServiceUnreachable(RunError):
    """A database or the ledger does not answer."""

    exit_code = Exit.UNREACHABLE
    definite = False


class UnknownTransition(Exception):
    """A move that the table of run states does not have. A bug: never caught, never shown as a user's mistake."""
