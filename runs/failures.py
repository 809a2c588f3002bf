"""What an error means for the run: try again by itself, end, ask a person, or stop because somebody else drives.

    fenced      an older epoch was refused (trigger OW001, ledger stale-epoch)   this driver stops
    cancelled   the ledger's fence is closed                                     the run is cancelled
    person      only a person can say whether an effect happened                 waiting_human, unknown_outcome
    limit       deadline, budget or attempts                                     failed
    parameters  what was asked for cannot be right: correct it, then fork        failed
    forbidden   a right is missing: nothing is tried again                       failed
    transient   unreachable, busy, timed out: nothing says that it cannot work   queued with back-off
    definite    everything else: the same step fails again                       failed

An error may say itself whether it is definite (`definite` on our own ones). What no class says, its kind does: lost
connections and time-outs, and HTTP status 408, 409, 425, 429 and 5xx of model providers, are transient.
"""

from __future__ import annotations

import sqlite3
from typing import Literal

import psycopg

from graph.errors import OutcomeUnknown
from onward_ledger.database import MissingRight, SchemaTooNew, Unreachable
from onward_ledger.errors import (
    BadRequest,
    FenceClosed,
    Forbidden,
    LedgerError,
    ParamsConflict,
    StaleEpoch,
    TooLarge,
    Unauthorized,
)
from runs.errors import LimitReached, NotPermitted
from tools.errors import InputError, QuestionError
from tools.errors import NotPermitted as KindNotPermitted

Meaning = Literal["fenced", "cancelled", "person", "limit", "parameters", "forbidden", "transient", "definite"]

FENCE_SQLSTATE = "OW001"
FENCE_MESSAGE = "stale epoch"

_TRANSIENT_STATUS = frozenset({408, 409, 425, 429})
_FORBIDDEN_STATUS = frozenset({401, 403})
_PARAMETERS_STATUS = frozenset({400, 404, 413, 422})
_TRANSIENT_NAMES = frozenset({"APIConnectionError", "APITimeoutError", "RateLimitError", "InternalServerError"})

# Consecutive transient failures without a finished step: the pauses before the next try. A command then hands the run
# back; workers go on with the last pause.
BACK_OFF_SECONDS = (0.5, 2.0, 8.0, 30.0)
# So many in a row, and it is the step that does not work. Services that do not answer are waited for without end: it is
# no fault of the run's, and its deadline bounds it.
ATTEMPTS = 8


def meaning(error: BaseException) -> Meaning:
    """What an error that ended a drive means. A cause speaks where the error itself says nothing."""
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        found = _own_meaning(current)
        if found is not None:
            return found
        seen.add(id(current))
        current = current.__cause__
    return "definite"


def _own_meaning(error: BaseException) -> Meaning | None:
    if _is_fence(error):
        return "fenced"
    if isinstance(error, FenceClosed):
        return "cancelled"
    if isinstance(error, OutcomeUnknown):
        return "person"
    if isinstance(error, LimitReached):
        return "limit"
    if isinstance(error, MissingRight | Unauthorized | Forbidden | NotPermitted | KindNotPermitted | PermissionError):
        return "forbidden"
    if isinstance(error, BadRequest | TooLarge | ParamsConflict | InputError | QuestionError):
        return "parameters"
    if isinstance(error, SchemaTooNew):
        return "definite"
    return _by_word(error) or _by_kind(error)


def _is_fence(error: BaseException) -> bool:
    if isinstance(error, psycopg.Error):
        return error.sqlstate == FENCE_SQLSTATE
    if isinstance(error, sqlite3.IntegrityError):
        return str(error) == FENCE_MESSAGE
    return isinstance(error, StaleEpoch)


def _by_word(error: BaseException) -> Meaning | None:
    """What the error says of itself."""
    if isinstance(error, LedgerError):
        return "transient" if error.retryable else "definite"
    definite = getattr(error, "definite", None)
    if isinstance(definite, bool):
        return "definite" if definite else "transient"
    return None


def _by_status(status: int) -> Meaning:
    if status in _TRANSIENT_STATUS or status >= 500:
        return "transient"
    if status in _FORBIDDEN_STATUS:
        return "forbidden"
    return "parameters" if status in _PARAMETERS_STATUS else "definite"


def _by_kind(error: BaseException) -> Meaning | None:
    if isinstance(error, Unreachable | psycopg.OperationalError | sqlite3.OperationalError):
        return "transient"
    if isinstance(error, ConnectionError | TimeoutError):
        return "transient"
    status = getattr(error, "status_code", None)
    if isinstance(status, int):
        return _by_status(status)
    return "transient" if type(error).__name__ in _TRANSIENT_NAMES else None
