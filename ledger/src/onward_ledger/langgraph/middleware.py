"""EffectGuard: a middleware for `create_agent`, and wrappers for a `ToolNode`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from langchain_core.messages import ToolMessage
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.types import Command

from onward_ledger.client import AsyncLedgerClient, LedgerClient
from onward_ledger.errors import LedgerError
from onward_ledger.guard import Guard, Verify
from onward_ledger.langgraph.position import position
from onward_ledger.langgraph.running import Running
from onward_ledger.langgraph.stopped import Stopped

if TYPE_CHECKING:
    from langchain.agents.middleware import AgentMiddleware

    Base = AgentMiddleware[Any, Any, Any]
else:
    try:
        from langchain.agents.middleware import AgentMiddleware as Base
    except ImportError:  # a graph of one's own does without langchain
        Base = object

Answer = ToolMessage | Command[Any]


@dataclass(frozen=True, kw_only=True)
class ToolEffect:
    """What is declared about the effect of one tool; see `onward_ledger.guard.Guard`.

    `verify` gets the action: its id (what the tool finds as `current().action_id`) is the marker or key that the world
    knows it by, `action.params["args"]` are the arguments. It returns None or [] (there is no trace), what the tool
    would have returned, or a list with an item per effect that is there.

    `kind` is "tool.<name>", `resource` the tool's name, or made from the arguments.
    """

    verify: Verify | None = None
    idempotent: bool = False
    key_lifetime_seconds: float | None = None
    resend_after_absent: bool = False
    deadline_seconds: float = 30.0
    request_lifetime_seconds: float = 60.0
    settle_window_seconds: float = 60.0
    refuses: tuple[type[Exception], ...] = ()
    kind: str | None = None
    resource: str | Callable[[Mapping[str, Any]], str] | None = field(default=None)


class EffectGuard(Base):
    """Guards the tools that are named in `effects`, and lets the others pass.

    Each call of such a tool is one action. Its function runs once; what it answered is recorded, and given again when
    the call is repeated behind a crash. What may have happened is looked for by `verify`, and never run on a guess:
    `Stopped` ends the run instead, and the thread can be resumed when somebody has settled it.

    The client may be a LedgerClient (for invoke and ainvoke) or an AsyncLedgerClient (for ainvoke). A driver that knows
    to have replaced another one passes a higher `onward_epoch` in `configurable`: it need not wait for the deadline of
    what the other one left. Another `onward_branch` there makes calls of a forked thread new ones.
    """

    def __init__(
        self,
        client: LedgerClient | AsyncLedgerClient,
        effects: Mapping[str, ToolEffect],
        *,
        epoch: int | Callable[[], int] = 1,
        messages_key: str = "messages",
    ) -> None:
        super().__init__()
        self._effects = dict(effects)
        self._messages_key = messages_key
        self._guards = {name: _guard(client, name, effect, epoch) for name, effect in effects.items()}

    def wrap_tool_call(self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Answer]) -> Answer:
        """For a ToolNode, and for create_agent: run a guarded tool once, or give its recorded answer again."""
        if not self._is_guarded(request):
            return handler(request)
        with _stopping():
            running = self._running(request)
            try:
                with running.effect as effect:
                    if effect.to_run:
                        with running.judging():
                            answer = handler(running.request)
                        effect.done(running.receipt(answer))
            except Exception as error:
                return running.failed(error)
            return running.message()

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[Answer]]
    ) -> Answer:
        """See `wrap_tool_call`."""
        if not self._is_guarded(request):
            return await handler(request)
        with _stopping():
            running = self._running(request)
            try:
                async with running.effect as effect:
                    if effect.to_run:
                        with running.judging():
                            answer = await handler(running.request)
                        await effect.adone(running.receipt(answer))
            except Exception as error:
                return running.failed(error)
            return running.message()

    def _is_guarded(self, request: ToolCallRequest) -> bool:
        return request.tool is not None and request.tool_call["name"] in self._guards

    def _running(self, request: ToolCallRequest) -> Running:
        name, args = request.tool_call["name"], request.tool_call["args"]
        where = position(request, self._messages_key)
        resource = self._effects[name].resource or name
        effect = self._guards[name].action(
            where.key,
            resource=resource if isinstance(resource, str) else resource(args),
            params={"args": args, **where.evidence},
            epoch=where.epoch,
        )
        return Running(request, effect)


@contextmanager
def _stopping() -> Generator[None]:
    """No tool node, and no middleware outside of this one, may take the ledger's word for a failure of the tool."""
    try:
        yield
    except LedgerError as error:
        raise Stopped(error) from error


def _guard(
    client: LedgerClient | AsyncLedgerClient, name: str, effect: ToolEffect, epoch: int | Callable[[], int]
) -> Guard:
    return Guard(
        client,
        effect.kind or f"tool.{name}",
        verify=effect.verify,
        deadline_seconds=effect.deadline_seconds,
        idempotent=effect.idempotent,
        key_lifetime_seconds=effect.key_lifetime_seconds,
        resend_after_absent=effect.resend_after_absent,
        request_lifetime_seconds=effect.request_lifetime_seconds,
        settle_window_seconds=effect.settle_window_seconds,
        refuses=effect.refuses,
        epoch=epoch,
    )
