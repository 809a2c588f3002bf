"""An agent of somebody else's with a guarded tool and one that a person reviews, as its own file says it.

Its text is copied into a project of a test.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, ToolCall
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool

from onward_ledger.langgraph import EffectGuard, LedgerClient, ToolEffect

WORLD = Path("world")


class Model(BaseChatModel):
    """Calls one tool, then says what came of it."""

    calls: str

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **options: Any) -> Any:
        return self

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **options: Any) -> Any:
        if messages[-1].type == "human":
            wish = messages[-1].content
            message = AIMessage("", tool_calls=[ToolCall(name=self.calls, args={"what": wish}, id="call_0")])
        else:
            message = AIMessage(f"It says: {messages[-1].content}")
        message.usage_metadata = {"input_tokens": 7, "output_tokens": 3, "total_tokens": 10}
        return ChatResult(generations=[ChatGeneration(message=message)])


@tool
def send(what: str) -> str:
    """Send something; it is not known whether it arrived."""
    with WORLD.open("a") as file:
        file.write(f"{what}\n")
    raise TimeoutError("no answer")


@tool
def buy(what: str) -> str:
    """Buy something."""
    with WORLD.open("a") as file:
        file.write(f"bought {what}\n")
    return f"bought {what}"


reviewed = create_agent(Model(calls="buy"), [buy], middleware=[HumanInTheLoopMiddleware(interrupt_on={"buy": True})])


def guarded() -> Any:
    """With the ledger that whoever runs it provides."""
    guard = EffectGuard(LedgerClient(os.environ["LEDGER_URL"], os.environ["LEDGER_TOKEN"]), {"send": ToolEffect()})
    return create_agent(Model(calls="send"), [send], middleware=[guard])
