"""The ledger's clients: thin senders over the protocol, sync here and async in `async_client.py`.

    client = LedgerClient(url, token)
    client.fence(run_id, epoch, holder="me")
    action = client.perform(ActionKey(run_id, "deliver", "publish"), "report.publish", build, epoch=epoch)

Every method raises a LedgerError (see `onward_ledger.errors`). Clients may be shared by threads.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import httpx

from onward_ledger import keeping, outbox_protocol, over_http, protocol
from onward_ledger.action import Action, ActionKey, Decision, Json, Status
from onward_ledger.async_client import AsyncLedgerClient
from onward_ledger.keeping import LOOK_FIRST_DAYS, Identity
from onward_ledger.protocol import PATIENCE_SECONDS, Answer, Build, Lost, Operation, Recorded, Request, Wait
from onward_ledger.tls import Certificate, client_context
from onward_ledger.values import Event, Feed, Fence, Grant, Health, Me

__all__ = ["PATIENCE_SECONDS", "AsyncLedgerClient", "LedgerClient"]

T = TypeVar("T")
TIMEOUT_SECONDS = 30.0

Check = Callable[[], None]


def _nothing() -> None:
    return None


class LedgerClient:
    """A client for threads and processes.

    `token` is a token of the service. `principal` is who speaks, recorded as asserted; deciding, granting, closing and
    resolving need one, unless the token proves a person. `check` is called before every request and may raise, for
    example when a lease is lost. For https: `ca_file` (PEM) is whom to trust instead of everybody's authorities,
    `certificate` what the client itself shows.
    """

    def __init__(
        self,
        url: str,
        token: str,
        *,
        timeout_seconds: float = TIMEOUT_SECONDS,
        principal: str | None = None,
        ca_file: Path | str | None = None,
        certificate: Certificate | None = None,
        patience_seconds: float = PATIENCE_SECONDS,
        check: Check = _nothing,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self.url = url
        self._http = httpx.Client(
            base_url=url,
            headers=over_http.headers(token, principal),
            timeout=timeout_seconds,
            trust_env=False,
            verify=client_context(url, ca_file, certificate),
            transport=transport,
        )
        self.patience_seconds = patience_seconds
        self._check = check
        self._recorded = Recorded()

    def checked(self, check: Check) -> LedgerClient:
        """The same connections and the same knowledge of recorded intents, with `check` before every request."""
        other = object.__new__(LedgerClient)
        other.__dict__.update(self.__dict__)
        other._check = check
        return other

    def set_timeout(self, seconds: float) -> None:
        """How long a request may take from now on: a first look at a server is worth less patience than an effect."""
        self._http.timeout = httpx.Timeout(seconds)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close every connection."""
        self._http.close()

    def run(self, operation: Operation[T]) -> T:
        """Drive an operation of the protocol to its result."""
        reply: Answer | Lost | None = None
        while True:
            try:
                step = operation.send(reply)
            except StopIteration as end:
                return end.value
            reply = self.step(step)

    def step(self, step: Request | Wait) -> Answer | Lost | None:
        """Send one request, or wait: for operations that are driven elsewhere, such as a guard's."""
        if isinstance(step, Wait):
            time.sleep(step.seconds)
            return None
        self._check()
        try:
            return over_http.answer(self._http.request(**over_http.arguments(step)))
        except httpx.TransportError as error:
            return over_http.lost(error)

    def health(self) -> Health:
        """Which ledger answers."""
        return self.run(protocol.health())

    def me(self) -> Me:
        """What this client's token stands for."""
        return self.run(protocol.me())

    def standing(self) -> Identity:
        """Which ledger it is, and whether it is held: nothing is sent then."""
        return self.run(keeping.standing())

    def hold(self, *, reason: str) -> Identity:
        """Nothing is sent from now on, by any service of this ledger. The first reason stands."""
        return self.run(keeping.hold(reason=reason))

    def release(self, *, reason: str, look_first_days: float = LOOK_FIRST_DAYS) -> Identity:
        """A held ledger sends again; so long a first send is looked up before, where its kind can."""
        return self.run(keeping.release(reason=reason, look_first_days=look_first_days))

    def fence(self, run_id: str, epoch: int, *, holder: str) -> Fence:
        """Announce an epoch before driving; every recorded action comes back. StaleEpoch carries the ledger's own."""
        return self.run(protocol.fence(run_id, epoch, holder=holder, recorded=self._recorded))

    def close_fence(self, run_id: str, *, principal: str | None = None, reason: str) -> Fence:
        """Cancel: refuse every later claim and withdraw what is PREPARED, at once. `claimed` came before."""
        return self.run(protocol.close_fence(run_id, principal=principal, reason=reason))

    def perform(self, key: ActionKey, kind: str, build: Build, *, epoch: int, pinned: bool = True) -> Action:
        """Perform the action, or replay what stands: SUCCEEDED, FAILED, UNKNOWN, WITHDRAWN.

        PREPARED comes back when it needs an approval that it does not have; `reason` says why.
        `build` returns (resource, params) and is called only when no record is known for the key.
        """
        return self.run(self._put(key, kind, build, epoch=epoch, propose=False, pinned=pinned))

    def propose(self, key: ActionKey, kind: str, build: Build, *, epoch: int) -> Action:
        """Record the intent and stop at PREPARED; repeating it is harmless."""
        return self.run(self._put(key, kind, build, epoch=epoch, propose=True))

    def _put(
        self, key: ActionKey, kind: str, build: Build, *, epoch: int, propose: bool, pinned: bool = True
    ) -> Operation[Action]:
        return protocol.put_action(
            key,
            kind,
            build,
            epoch=epoch,
            recorded=self._recorded,
            propose=propose,
            pinned=pinned,
            patience_seconds=self.patience_seconds,
        )

    def perform_later(self, key: ActionKey, kind: str, build: Build, *, epoch: int, in_order: bool = False) -> Action:
        """Store the action for the service to perform, and do not wait: PREPARED, or what stands already.

        In order: behind everything of the same kind and resource that was stored in order before and is not settled.
        Follow `decisions` for its resolution.
        """
        operation = outbox_protocol.perform_later(
            key,
            kind,
            build,
            epoch=epoch,
            in_order=in_order,
            recorded=self._recorded,
            patience_seconds=self.patience_seconds,
        )
        return self.run(operation)

    def live(self, run_id: str, step: str, slot: str) -> Action | None:
        """The one revision that is not WITHDRAWN, with its decision; None where there is none."""
        return self.run(protocol.live(run_id, step, slot, recorded=self._recorded))

    def action(self, action_id: str) -> Action:
        """One action, with its decision."""
        return self.run(protocol.get_action(action_id))

    def actions(
        self, run_id: str | None = None, status: Status | None = None, *, limit: int = 100, after: str | None = None
    ) -> tuple[Action, ...]:
        """Actions in the order of their creation, behind the action id `after`."""
        return self.run(protocol.get_actions(run_id=run_id, status=status, limit=limit, after=after))

    def events(self, action_id: str) -> tuple[Event, ...]:
        """The history of one action, oldest first."""
        return self.run(protocol.get_events(action_id))

    def reconcile(self, action_id: str) -> Action:
        """Settle an action in flight or unknown, as far as its provider can tell; others are returned as they are."""
        return self.run(protocol.reconcile(action_id, patience_seconds=self.patience_seconds))

    def reconcile_run(self, run_id: str) -> tuple[Action, ...]:
        """The same for every action of a run that is in flight or UNKNOWN; what is in flight is not waited for."""
        return self.run(outbox_protocol.reconcile_run(run_id))

    def outbox(
        self, *, dead: bool | None = None, run_id: str | None = None, limit: int = 100, after: str | None = None
    ) -> tuple[Action, ...]:
        """What the service has still to perform, in the order of its storing. `dead` ones wait for a person."""
        return self.run(outbox_protocol.outbox(dead=dead, run_id=run_id, limit=limit, after=after))

    def retry(self, action_id: str, *, reason: str | None = None) -> Action:
        """Let a dead letter be tried again. What is not dead is answered as it stands."""
        return self.run(outbox_protocol.retry(action_id, reason=reason))

    def resolve(
        self,
        action_id: str,
        *,
        status: Status,
        reason: str,
        expected_version: int,
        receipt: Json | None = None,
        principal: str | None = None,
    ) -> Action:
        """An operator's word on an UNKNOWN action: SUCCEEDED (with a receipt) or FAILED. Repeating it is harmless."""
        return self.run(
            protocol.resolve(
                action_id,
                status=status,
                receipt=receipt,
                reason=reason,
                expected_version=expected_version,
                principal=principal,
            )
        )

    def withdraw(self, action_id: str, reason: str) -> Action:
        """Take back a PREPARED action; TooLate once it was claimed."""
        return self.run(protocol.withdraw(action_id, reason=reason))

    def compensate(self, action_id: str, *, epoch: int | None = None) -> Action:
        """Take back an effect that happened, where its kind says how: the action that does it, also for a closed run.

        `epoch`: the caller's own, so that a newer driver stops it. Repeating it is harmless.
        """
        return self.run(protocol.compensate(action_id, epoch=epoch, patience_seconds=self.patience_seconds))

    def decide(
        self,
        action_id: str,
        decision: str,
        *,
        request_hash: str,
        reason: str | None = None,
        changes: Mapping[str, Any] | None = None,
        expires_at: datetime | None = None,
    ) -> Decision:
        """Approve | edit (with `changes`) | revise | reject. The same again answers the standing one.

        Another one raises DecisionConflict with the one that stands.
        """
        return self.run(
            protocol.decide(
                action_id,
                decision,
                request_hash=request_hash,
                reason=reason,
                changes=changes,
                expires_at=expires_at,
            )
        )

    def grant(
        self, run_id: str, *, kind: str, expires_at: datetime, resource: str | None = None, uses: int = 1
    ) -> Grant:
        """A standing permission: the next `uses` actions of this kind (and resource) are approved when proposed."""
        return self.run(protocol.grant(run_id, kind=kind, resource=resource, expires_at=expires_at, uses=uses))

    def revoke(self, action_id: str, *, reason: str) -> Decision:
        """Take an approval back before it was used; TooLate behind that. Another decision can follow."""
        return self.run(protocol.revoke(action_id, reason=reason))

    def revoke_grant(self, run_id: str, *, kind: str, resource: str | None = None) -> Grant:
        """One's own grant gives nothing any more; what it has approved stands."""
        return self.run(protocol.revoke_grant(run_id, kind=kind, resource=resource))

    def decisions(self, after: int = 0, *, limit: int = 100) -> Feed:
        """Decisions and resolutions behind a cursor."""
        return self.run(protocol.decisions(after=after, limit=limit))
