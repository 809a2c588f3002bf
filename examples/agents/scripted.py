"""The model of the example: it opens a ticket, tells the customer and the workshop, and says so. It costs nothing.

With a real one: `model = init_chat_model("anthropic:claude-…")`.
"""

from __future__ import annotations

from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolCall
from langchain_core.outputs import ChatGeneration, ChatResult


class Scripted(BaseChatModel):
    """Says its lines by the number of messages that it has said. Ids of calls repeat, as with some providers."""

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **options: Any) -> Any:
        """Whatever the tools are, it calls these."""
        return self

    def _generate(self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **options: Any) -> Any:
        wish = next(str(message.content) for message in messages if isinstance(message, HumanMessage))
        number = sum(isinstance(message, AIMessage) for message in messages)
        message = AIMessage("Done.", tool_calls=_calls(wish, number))
        return ChatResult(generations=[ChatGeneration(message=message)])


def _calls(wish: str, number: int) -> list[ToolCall]:
    if number == 0:
        return [ToolCall(name="create_ticket", args={"title": wish}, id="call_0")]
    if number == 1:
        both = ("ada@example.com", "workshop@example.com")
        return [
            ToolCall(name="send_mail", args={"to": to, "text": f"About: {wish}"}, id=f"call_{n}")
            for n, to in enumerate(both)
        ]
    return []


model = Scripted()
