"""Agents with a scripted model and one tool that has an effect. They use their sibling, as files of people do."""

from __future__ import annotations

import uuid
from typing import Any

from anygraph_kinds import effect
from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import tool
from langgraph.prebuilt import ToolRuntime


class Scripted(BaseChatModel):
    """Calls the tool once, then says so."""

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        return self

    def _generate(self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **kwargs: Any) -> Any:
        if isinstance(messages[-1], ToolMessage):
            message = AIMessage(f"The tool said: {messages[-1].content}")
        else:
            message = AIMessage("", tool_calls=[{"name": "refund", "args": {"order": "7"}, "id": uuid.uuid4().hex}])
        return ChatResult(generations=[ChatGeneration(message=message)])


@tool
def refund(order: str, config: RunnableConfig) -> str:
    """Pay an order back."""
    effect(config, f"refund {order}")
    return f"refunded {order}"


@tool("refund")
def refund_with_key(order: str, runtime: ToolRuntime) -> str:
    """Pay an order back, under the id of the call."""
    effect(runtime.config, f"refund {order} {runtime.tool_call_id}", once=True)
    return f"refunded {order}"


careful_agent = create_agent(Scripted(), [refund_with_key])
agent = create_agent(Scripted(), [refund])


@tool("refund")
async def refund_async(order: str, config: RunnableConfig) -> str:
    """Pay an order back, for agents that are run with ainvoke only."""
    effect(config, f"refund {order}")
    return f"refunded {order}"


async_agent = create_agent(Scripted(), [refund_async])
