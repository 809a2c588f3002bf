"""Tools of a LangGraph agent whose effects happen once, though the agent is killed anywhere and resumed.

    from onward_ledger.langgraph import EffectGuard, LedgerClient, ToolEffect

    guard = EffectGuard(LedgerClient(url, token), {"create_ticket": ToolEffect(verify=find_tickets)})
    agent = create_agent(model, tools, middleware=[guard], checkpointer=checkpointer)
    agent.invoke(input, {"configurable": {"thread_id": thread_id}}, durability="sync")

For a graph of your own: `ToolNode(tools, wrap_tool_call=guard.wrap_tool_call, awrap_tool_call=guard.awrap_tool_call)`.

Tools that are not named pass through. Of the others each call is one action of the ledger; what the tool answered is
recorded and given again when the call is repeated. Needs the extra: pip install "onward-ledger[langgraph]".
"""

from importlib.util import find_spec

if find_spec("langgraph") is None:
    raise ImportError(
        'onward_ledger.langgraph needs LangGraph; install it with: pip install "onward-ledger[langgraph]"'
    )

from onward_ledger.client import AsyncLedgerClient, LedgerClient
from onward_ledger.guard import CannotTell, NotSent, Refused, Seen, current
from onward_ledger.langgraph.middleware import EffectGuard, ToolEffect
from onward_ledger.langgraph.stopped import Stopped

__all__ = [
    "AsyncLedgerClient",
    "CannotTell",
    "EffectGuard",
    "LedgerClient",
    "NotSent",
    "Refused",
    "Seen",
    "Stopped",
    "ToolEffect",
    "current",
]
