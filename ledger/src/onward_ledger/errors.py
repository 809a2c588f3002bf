"""What the ledger and its client can say no with, as one tree.

    LedgerError                  the root: catch this to catch them all
    ├── BadRequest         422   definite    terminal    the request is malformed; the message names the field
    ├── TooLarge           413   definite    terminal    the request is larger than the service takes
    ├── Unauthorized       401   definite    terminal    the service token is missing or wrong
    ├── Forbidden          403   definite    terminal    the token is good, but not for this
    ├── NotFound           404   definite    terminal    no such action, run or route
    ├── NotAllowed         405   definite    terminal    the route exists, the method does not
    ├── ParamsConflict     422   definite    terminal    this id is recorded with another request (carries `action`)
    ├── Conflict           409   definite    terminal    the record does not allow this; its children:
    │   ├── StaleEpoch                                   a newer driver has announced itself (carries `fence_epoch`)
    │   ├── FenceClosed                                  the run was cancelled; nothing more is performed
    │   ├── DecisionConflict                             another decision stands (carries `decision`)
    │   ├── VersionConflict                              the record has moved on (carries `action`)
    │   ├── OtherRevision                                another revision of it is live (carries `action`)
    │   ├── TooLate                                      the action was claimed or settled before (carries `action`)
    │   └── NotCompensable                               nothing says how this effect is taken back (carries `action`)
    ├── InProgress         409   indefinite  retryable   somebody performs it now; `retry_after_seconds`
    ├── NotApplied         503   definite    retryable   the provider was not reached: nothing happened, try later
    ├── Held               503   definite    retryable   the database was restored; an operator releases it
    ├── UnknownOutcome           indefinite  retryable   it may have happened; raised by a guard (carries `action`)
    ├── ServiceFault       500   indefinite  retryable   a defect or a lost database inside the service
    ├── LedgerUnreachable        indefinite  retryable   no answer: whether the request was handled is not known
    └── ObjectError              definite    terminal    what object storage can say no with; its children:
        ├── BadKey                                       the key is not a plain relative path
        ├── ObjectMissing                                there is no object under this key
        ├── ObjectConflict                               other bytes lie under this key already
        ├── DigestMismatch                               the stored bytes are not those that the reference names
        └── ObjectsUnreachable   indefinite  retryable   the object store does not answer

Definite: it is known that this call changed nothing. Indefinite: it may have; the same call, sent again, is safe.
Terminal: the same call is refused again. Retryable: it can succeed later. Messages are plain sentences for the user.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from onward_ledger.action import Action, Decision


class LedgerError(Exception):
    """Root of the tree. `code` is stable; `action`, `decision` and the rest are set where known."""

    code: ClassVar[str] = "ledger-error"
    status: ClassVar[int] = 500
    definite: ClassVar[bool] = True
    terminal: ClassVar[bool] = True

    def __init__(
        self,
        message: str,
        *,
        action: Action | None = None,
        decision: Decision | None = None,
        fence_epoch: int | None = None,
        closed_at: datetime | None = None,
        retry_after_seconds: float | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.action = action
        self.decision = decision
        self.fence_epoch = fence_epoch
        self.closed_at = closed_at
        self.retry_after_seconds = retry_after_seconds

    @property
    def retryable(self) -> bool:
        """Whether the same call can succeed later."""
        return not self.terminal


class BadRequest(LedgerError):
    """The request is malformed; the message names the field."""

    code = "bad-request"
    status = 422


class TooLarge(LedgerError):
    """The request is larger than the service takes: stage bytes as objects and send references."""

    code = "too-large"
    status = 413


class Unauthorized(LedgerError):
    """The service token is missing or wrong."""

    code = "unauthorized"
    status = 401


class Forbidden(LedgerError):
    """The token is good, but not for this: the message says what it lacks."""

    code = "forbidden"
    status = 403


class NotFound(LedgerError):
    """No such action, run or route."""

    code = "not-found"
    status = 404


class NotAllowed(LedgerError):
    """The route exists, the method does not."""

    code = "not-allowed"
    status = 405


class ParamsConflict(LedgerError):
    """This action id is recorded with another kind, resource or params. Nothing was sent. `action` is the record."""

    code = "params-conflict"
    status = 422


class Conflict(LedgerError):
    """The record does not allow this."""

    code = "conflict"
    status = 409


class StaleEpoch(Conflict):
    """A newer driver of the run has announced itself; `fence_epoch` is its epoch. Stop driving."""

    code = "stale-epoch"


class FenceClosed(Conflict):
    """The run was cancelled (`closed_at`); nothing more is proposed or performed for it."""

    code = "fence-closed"


class DecisionConflict(Conflict):
    """Another decision stands; `decision` is it."""

    code = "decision-conflict"


class VersionConflict(Conflict):
    """The record has moved on since it was read; `action` is what it is now."""

    code = "version-conflict"


class OtherRevision(Conflict):
    """Another revision of the same step and slot is live; `action` is it."""

    code = "other-revision"


class TooLate(Conflict):
    """The action was claimed or settled before; `action` is what it is now."""

    code = "too-late"


class NotCompensable(Conflict):
    """Nothing says how this effect is taken back: its kind names no other one, or it takes one back itself."""

    code = "not-compensable"


class InProgress(LedgerError):
    """Somebody performs this action now. Ask again after `retry_after_seconds`."""

    code = "in-progress"
    status = 409
    definite = False
    terminal = False


class NotApplied(LedgerError):
    """The provider was not reached or did not accept: nothing happened. Try again after `retry_after_seconds`."""

    code = "not-applied"
    status = 503
    terminal = False


class Held(LedgerError):
    """The ledger's database has forgotten something that was done: nothing is sent until an operator releases it."""

    code = "held"
    status = 503
    terminal = False


class UnknownOutcome(LedgerError):
    """Whether the effect happened is UNKNOWN (`action`), so it is not run again. The message says how to settle it."""

    code = "unknown-outcome"
    status = 409
    definite = False
    terminal = False


class ServiceFault(LedgerError):
    """A defect or a lost database inside the service. The same request, sent again, is safe."""

    code = "service-fault"
    definite = False
    terminal = False


class LedgerUnreachable(LedgerError):
    """No answer came. Whether the request was handled is not known; the same request, sent again, is safe."""

    code = "unreachable"
    status = 503
    definite = False
    terminal = False


class ObjectError(LedgerError):
    """Root of what object storage can say no with."""

    code = "object-error"


class BadKey(ObjectError):
    """The key is not a plain relative path."""

    code = "bad-key"


class ObjectMissing(ObjectError):
    """There is no object under this key."""

    code = "object-missing"


class ObjectConflict(ObjectError):
    """Other bytes lie under this key already; objects are never replaced."""

    code = "object-conflict"


class DigestMismatch(ObjectError):
    """The stored bytes are not those that the reference names."""

    code = "digest-mismatch"


class ObjectsUnreachable(ObjectError):
    """The object store does not answer. Whether a put took effect is not known; the same put, again, is safe."""

    code = "objects-unreachable"
    definite = False
    terminal = False
