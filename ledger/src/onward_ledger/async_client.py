"""The client for asyncio: the same operations of the protocol as in `client.py`, sent by a loop."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import httpx

from onward_ledger import keeping, outbox_protocol, over_http, protocol
from onward_ledger.action import Action, ActionKey, Decision, Json, Status
from onward_ledger.keeping import LOOK_FIRST_DAYS, Identity
from onward_ledger.protocol import (
    PATIENCE_SECONDS,
    Answer,
    Build,
    Lost,
    Operation,
    Recorded,
    Request,
    Wait,
)
from onward_ledger.tls import Certificate, client_context
from onward_ledger.values import Event, Feed, Fence, Grant, Health, Me

T = TypeVar("T")


class AsyncLedgerClient:
    """The same for asyncio; see LedgerClient for each method."""

    def __init__(
        self,
        url: str,
        token: str,
        *,
        timeout_seconds: float = 30,
        principal: str | None = None,
        ca_file: Path | str | None = None,
        certificate: Certificate | None = None,
        patience_seconds: float = PATIENCE_SECONDS,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self.url = url
        self._http = httpx.AsyncClient(
            base_url=url,
            headers=over_http.headers(token, principal),
            timeout=timeout_seconds,
            trust_env=False,
            verify=client_context(url, ca_file, certificate),
            transport=transport,
        )
        self.patience_seconds = patience_seconds
        self._recorded = Recorded()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close every connection."""
        await self._http.aclose()

    async def run(self, operation: Operation[T]) -> T:
        """See LedgerClient.run."""
        reply: Answer | Lost | None = None
        while True:
            try:
                step = operation.send(reply)
            except StopIteration as end:
                return end.value
            reply = await self.step(step)

    async def step(self, step: Request | Wait) -> Answer | Lost | None:
        """See LedgerClient.step."""
        if isinstance(step, Wait):
            await asyncio.sleep(step.seconds)
            return None
        try:
            return over_http.answer(await self._http.request(**over_http.arguments(step)))
        except httpx.TransportError as error:
            return over_http.lost(error)

    async def health(self) -> Health:
        """See LedgerClient.health."""
        return await self.run(protocol.health())

    async def me(self) -> Me:
        """See LedgerClient.me."""
        return await self.run(protocol.me())

    async def standing(self) -> Identity:
        """See LedgerClient.standing."""
        return await self.run(keeping.standing())

    async def hold(self, *, reason: str) -> Identity:
        """See LedgerClient.hold."""
        return await self.run(keeping.hold(reason=reason))

    async def release(self, *, reason: str, look_first_days: float = LOOK_FIRST_DAYS) -> Identity:
        """See LedgerClient.release."""
        return await self.run(keeping.release(reason=reason, look_first_days=look_first_days))

    async def fence(self, run_id: str, epoch: int, *, holder: str) -> Fence:
        """See LedgerClient.fence."""
        return await self.run(protocol.fence(run_id, epoch, holder=holder, recorded=self._recorded))

    async def close_fence(self, run_id: str, *, principal: str | None = None, reason: str) -> Fence:
        """See LedgerClient.close_fence."""
        return await self.run(protocol.close_fence(run_id, principal=principal, reason=reason))

    async def perform(self, key: ActionKey, kind: str, build: Build, *, epoch: int, pinned: bool = True) -> Action:
        """See LedgerClient.perform."""
        return await self.run(self._put(key, kind, build, epoch=epoch, propose=False, pinned=pinned))

    async def propose(self, key: ActionKey, kind: str, build: Build, *, epoch: int) -> Action:
        """See LedgerClient.propose."""
        return await self.run(self._put(key, kind, build, epoch=epoch, propose=True))

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

    async def perform_later(
        self, key: ActionKey, kind: str, build: Build, *, epoch: int, in_order: bool = False
    ) -> Action:
        """See LedgerClient.perform_later."""
        operation = outbox_protocol.perform_later(
            key,
            kind,
            build,
            epoch=epoch,
            in_order=in_order,
            recorded=self._recorded,
            patience_seconds=self.patience_seconds,
        )
        return await self.run(operation)

    async def live(self, run_id: str, step: str, slot: str) -> Action | None:
        """See LedgerClient.live."""
        return await self.run(protocol.live(run_id, step, slot, recorded=self._recorded))

    async def action(self, action_id: str) -> Action:
        """See LedgerClient.action."""
        return await self.run(protocol.get_action(action_id))

    async def actions(
        self, run_id: str | None = None, status: Status | None = None, *, limit: int = 100, after: str | None = None
    ) -> tuple[Action, ...]:
        """See LedgerClient.actions."""
        return await self.run(protocol.get_actions(run_id=run_id, status=status, limit=limit, after=after))

    async def events(self, action_id: str) -> tuple[Event, ...]:
        """See LedgerClient.events."""
        return await self.run(protocol.get_events(action_id))

    async def reconcile(self, action_id: str) -> Action:
        """See LedgerClient.reconcile."""
        return await self.run(protocol.reconcile(action_id, patience_seconds=self.patience_seconds))

    async def reconcile_run(self, run_id: str) -> tuple[Action, ...]:
        """See LedgerClient.reconcile_run."""
        return await self.run(outbox_protocol.reconcile_run(run_id))

    async def outbox(
        self, *, dead: bool | None = None, run_id: str | None = None, limit: int = 100, after: str | None = None
    ) -> tuple[Action, ...]:
        """See LedgerClient.outbox."""
        return await self.run(outbox_protocol.outbox(dead=dead, run_id=run_id, limit=limit, after=after))

    async def retry(self, action_id: str, *, reason: str | None = None) -> Action:
        """See LedgerClient.retry."""
        return await self.run(outbox_protocol.retry(action_id, reason=reason))

    async def resolve(
        self,
        action_id: str,
        *,
        status: Status,
        reason: str,
        expected_version: int,
        receipt: Json | None = None,
        principal: str | None = None,
    ) -> Action:
        """See LedgerClient.resolve."""
        return await self.run(
            protocol.resolve(
                action_id,
                status=status,
                receipt=receipt,
                reason=reason,
                expected_version=expected_version,
                principal=principal,
            )
        )

    async def compensate(self, action_id: str, *, epoch: int | None = None) -> Action:
        """See LedgerClient.compensate."""
        return await self.run(protocol.compensate(action_id, epoch=epoch, patience_seconds=self.patience_seconds))

    async def withdraw(self, action_id: str, reason: str) -> Action:
        """See LedgerClient.withdraw."""
        return await self.run(protocol.withdraw(action_id, reason=reason))

    async def decide(
        self,
        action_id: str,
        decision: str,
        *,
        request_hash: str,
        reason: str | None = None,
        changes: Mapping[str, Any] | None = None,
        expires_at: datetime | None = None,
    ) -> Decision:
        """See LedgerClient.decide."""
        return await self.run(
            protocol.decide(
                action_id,
                decision,
                request_hash=request_hash,
                reason=reason,
                changes=changes,
                expires_at=expires_at,
            )
        )

    async def grant(
        self, run_id: str, *, kind: str, expires_at: datetime, resource: str | None = None, uses: int = 1
    ) -> Grant:
        """See LedgerClient.grant."""
        return await self.run(protocol.grant(run_id, kind=kind, resource=resource, expires_at=expires_at, uses=uses))

    async def revoke(self, action_id: str, *, reason: str) -> Decision:
        """See LedgerClient.revoke."""
        return await self.run(protocol.revoke(action_id, reason=reason))

    async def revoke_grant(self, run_id: str, *, kind: str, resource: str | None = None) -> Grant:
        """See LedgerClient.revoke_grant."""
        return await self.run(protocol.revoke_grant(run_id, kind=kind, resource=resource))

    async def decisions(self, after: int = 0, *, limit: int = 100) -> Feed:
        """See LedgerClient.decisions."""
        return await self.run(protocol.decisions(after=after, limit=limit))
