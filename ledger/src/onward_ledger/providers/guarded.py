"""An effect that its caller performs, in the caller's own process, under a guard of the ledger.

What a provider would declare, the caller declares with each request: the ledger sends nothing, and asks nobody. Its
record works as for every other kind, so the promise is that of the declared class.
"""

from __future__ import annotations

from onward_ledger.action import Action, Json
from onward_ledger.guard_protocol import Declaration
from onward_ledger.providers.interface import Deadline, Outcome, ProviderClass, SendingProvider


class Guarded(SendingProvider):
    """The provider of one call of a caller that performs the effect itself."""

    def __init__(self, kind: str, declared: Declaration) -> None:
        self.kind = kind
        self.provider_class = _class(declared)
        self.deadline_seconds = declared.deadline_seconds
        self.key_lifetime_seconds = declared.key_lifetime_seconds
        self.request_lifetime_seconds = declared.request_lifetime_seconds
        self.settle_window_seconds = declared.settle_window_seconds
        self.resend_after_absent = declared.resend_after_absent
        self.looks_up = declared.looks_up

    def validate(self, run_id: str, resource: str, params: Json) -> None:
        """Whatever the caller means is its own affair."""

    def send(self, action: Action, deadline: Deadline) -> Outcome:
        """Never: the caller performs it."""
        raise AssertionError(f"The caller performs actions of kind {self.kind}, not the ledger.")


def _class(declared: Declaration) -> ProviderClass:
    if declared.idempotent:
        return ProviderClass.IDEMPOTENT
    return ProviderClass.QUERYABLE if declared.looks_up else ProviderClass.OPAQUE
