"""One guarded call of a tool: what its function did, and what that means for the record and for the model."""

from __future__ import annotations

import functools
import json
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool
from langgraph.errors import GraphBubbleUp
from langgraph.prebuilt.tool_node import ToolCallRequest

from onward_ledger.action import Json, Status
from onward_ledger.errors import BadRequest, LedgerError
from onward_ledger.guard_effect import UNSTORABLE, Effect, NotSent, Refused
from onward_ledger.guard_protocol import unknown
from onward_ledger.langgraph.stopped import Stopped


class RanAgain(Exception):
    """The tool's function was about to run a second time under one claim."""


class _NotBegun(NotSent):
    """The tool node raised (its cause) before the function began."""


class Running:
    """A call on its way. `request` is what to hand on: its tool tells when its function begins, and how it ends."""

    def __init__(self, request: ToolCallRequest, effect: Effect) -> None:
        assert request.tool is not None
        self.effect = effect
        self.name = request.tool.name
        self._call_id = request.tool_call["id"] or ""
        self.request = request.override(tool=self._watched(request.tool))
        self._began = not _is_plain(request.tool)  # what runs in its own way does not tell when
        self._ran = False
        self._raised: BaseException | None = None
        self._answer: Any = None

    # What the function does.

    def _watched(self, tool: BaseTool) -> BaseTool:
        watched = tool.model_copy()
        run, arun = watched._run, watched._arun  # pyright: ignore[reportPrivateUsage]  # where its function runs

        @functools.wraps(run)
        def watched_run(*args: Any, **kwargs: Any) -> Any:
            with self._inside():
                return run(*args, **kwargs)

        @functools.wraps(arun)
        async def watched_arun(*args: Any, **kwargs: Any) -> Any:
            with self._inside():
                return await arun(*args, **kwargs)

        # An instance's own attribute comes before the class's method; pydantic would refuse to set it.
        vars(watched).update(_run=watched_run, _arun=watched_arun)
        return watched

    @contextmanager
    def _inside(self) -> Generator[None]:
        if self.effect.is_running():  # an async tool that falls back to its sync form
            yield
            return
        if self._ran:
            raise RanAgain(f"{self.name} was about to run a second time under one claim.")
        try:
            with self.effect.running():
                self._ran = self._began = True
                yield
        except BaseException as error:
            self._raised = error
            raise

    # What it means.

    @contextmanager
    def judging(self) -> Generator[None]:
        """Around the tool node's own execution: what it raises before the function began had no effect."""
        try:
            yield
        except Exception as error:
            if self._began or isinstance(error, NotSent):
                raise
            raise _NotBegun(str(error)) from error

    def receipt(self, answer: Any) -> Json:
        """What to record for what the tool node answered; raises what the function raised, also where it was caught."""
        self._answer = answer
        if self._raised is not None:
            raise self._raised
        if not isinstance(answer, ToolMessage):
            return {UNSTORABLE: f"It is a {type(answer).__name__}."}
        if not self._began and answer.status == "error":
            raise Refused(_text(answer.content))
        receipt: Json = {"content": answer.content, "status": answer.status}
        return receipt if answer.artifact is None else receipt | {"artifact": answer.artifact}

    def message(self) -> ToolMessage:
        """The recorded answer, for the call as it is asked now."""
        action = self.effect.action
        if action.status is Status.FAILED:
            return self._said(action.reason or "It failed.", "error")
        receipt = self.effect.receipt
        content = receipt.get("content", receipt.get("result", receipt))
        if not isinstance(content, str | list):
            content = json.dumps(content, ensure_ascii=False)
        return self._said(content, receipt.get("status", "success"), receipt.get("artifact"))

    def _said(self, content: Any, status: Any, artifact: Any = None) -> ToolMessage:
        return ToolMessage(
            content=content, status=status, artifact=artifact, name=self.name, tool_call_id=self._call_id
        )

    def failed(self, error: BaseException) -> ToolMessage:
        """What the model gets when the function raised, or what the run ends with: as the record says."""
        caught = isinstance(self._answer, ToolMessage)
        if isinstance(error, LedgerError):
            raise error
        if isinstance(error, NotSent):
            if caught:
                return self._answer
            raise (error.__cause__ or error) if isinstance(error, _NotBegun) else error
        if self.effect.action.status is Status.FAILED:
            return self.message()
        if isinstance(error, GraphBubbleUp) and not isinstance(error, Stopped):
            raise Stopped(self._interrupted()) from error
        if caught or isinstance(error, Refused):
            # The model must not hear of it: it would call the tool once more.
            raise Stopped(unknown(self.effect.action)) from error
        raise error

    def _interrupted(self) -> LedgerError:
        return BadRequest(
            f"{self.name} interrupted the run inside of its effect: whether it happened is UNKNOWN. Ask before the "
            "tool is called, for example by a middleware, or in a tool without an effect.",
            action=self.effect.action,
        )


def _is_plain(tool: BaseTool) -> bool:
    """Whether the tool runs as LangChain runs one: by way of `_run` or `_arun`."""
    kind = type(tool)
    return (kind.run, kind.arun, kind.invoke) == (BaseTool.run, BaseTool.arun, BaseTool.invoke)


def _text(content: Any) -> str:
    return content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
