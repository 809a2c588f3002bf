"""Nodes and model calls of somebody's graph as events of its run, so that `onward show` and budgets know of them.

A step is called after its node and the super-step it runs in, as `agent#3`: the same when it is tried again. Below a
node that is a graph itself: `team/agent#2`. Several of one node side by side: `worker#2.1`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, LLMResult

from graph.context import Recorder

_PUSHED = "__pregel_push"


class StepRecorder(BaseCallbackHandler):
    """Handed to LangGraph with each invocation. Stops the run, by raising, when the recorder says that it has to."""

    run_inline = True  # in the order of what happens, also under ainvoke
    raise_error = True  # LimitReached

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._steps: dict[UUID, str] = {}
        self._calls: dict[UUID, str] = {}

    def on_chain_start(
        self,
        serialized: dict[str, Any] | None,
        inputs: Any,
        *,
        run_id: UUID,
        tags: list[str] | None = None,
        metadata: dict[str, Any] | None = None,
        **more: Any,
    ) -> None:
        """A node begins; everything else that LangChain calls a chain is passed over."""
        known = metadata or {}
        is_node = any(tag.startswith("graph:step:") for tag in tags or ())
        if is_node and more.get("name") == known.get("langgraph_node"):
            self._steps[run_id] = step = step_name(known)
            self._recorder.step_started(step)

    def on_chain_end(self, outputs: Any, *, run_id: UUID, **more: Any) -> None:
        """A node has ended."""
        if (step := self._steps.pop(run_id, None)) is not None:
            self._recorder.step_finished(step)

    def on_chain_error(self, error: BaseException, *, run_id: UUID, **more: Any) -> None:
        """It raised, or waits for a person: it is not done."""
        self._steps.pop(run_id, None)

    def on_chat_model_start(
        self,
        serialized: dict[str, Any] | None,
        messages: Any,
        *,
        run_id: UUID,
        metadata: dict[str, Any] | None = None,
        **more: Any,
    ) -> None:
        """A model is asked."""
        known = metadata or {}
        model = str(known.get("ls_model_name") or (serialized or {}).get("name") or "model")
        step = step_name(known) if "langgraph_node" in known else "model"
        self._calls[run_id] = self._recorder.model_call_started(step, model)

    def on_llm_end(self, response: LLMResult, *, run_id: UUID, **more: Any) -> None:
        """It has answered."""
        if (call_id := self._calls.pop(run_id, None)) is None:
            return
        message = _message(response)
        usage = (message.usage_metadata if message is not None else None) or {}
        told = message.response_metadata if message is not None else {}
        self._recorder.model_call_finished(
            call_id,
            finish_reason=told.get("finish_reason") or told.get("stop_reason"),
            input_tokens=usage.get("input_tokens"),
            output_tokens=usage.get("output_tokens"),
            cost_usd=None,
        )


def step_name(known: Mapping[str, Any]) -> str:
    """The name of a step, from what LangGraph tells about a node."""
    namespace = str(known.get("langgraph_checkpoint_ns") or known.get("checkpoint_ns") or "")
    above = [part.partition(":")[0] for part in namespace.split("|")[:-1]]
    name = "/".join([*above, str(known["langgraph_node"])])
    path: Any = known.get("langgraph_path") or ()
    number = f".{path[-1]}" if path and path[0] == _PUSHED and isinstance(path[-1], int) else ""
    return f"{name}#{known.get('langgraph_step', 0)}{number}"


def _message(response: LLMResult) -> AIMessage | None:
    for generations in response.generations:
        for generation in generations:
            if isinstance(generation, ChatGeneration) and isinstance(generation.message, AIMessage):
                return generation.message
    return None
