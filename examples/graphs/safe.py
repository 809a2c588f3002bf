"""The same refund made safe: one effect per node, none before a question, and a key that is the same after a crash."""

from __future__ import annotations

from typing import Any, TypedDict

import shop
from langchain_core.runnables import RunnableConfig
from langgraph.graph import END, START, StateGraph
from langgraph.types import interrupt


class Refund(TypedDict, total=False):
    """State of the graph."""

    order_id: str
    order: dict[str, Any]
    approved: bool
    refund_id: str


def key(config: RunnableConfig, step: str) -> str:
    """The same for the same step of the same thread, in whichever process, however often it is tried."""
    return f"{config['configurable']['thread_id']}/{step}"


def look_up(state: Refund) -> Refund:
    """Read the order."""
    return {"order": shop.order(state["order_id"])}


def tell_manager(state: Refund, config: RunnableConfig) -> Refund:
    """Tell the manager."""
    shop.mail(state["order_id"], "please approve", key=key(config, "tell_manager"))
    return {}


def ask_manager(state: Refund) -> Refund:
    """Wait for the answer. Nothing else: this node begins anew when the answer comes."""
    return {"approved": interrupt({"refund": state["order"]["amount"]})}


def settle(state: Refund, config: RunnableConfig) -> Refund:
    """Pay back."""
    return {"refund_id": shop.refund(state["order_id"], state["order"]["amount"], key=key(config, "settle"))}


def tell_customer(state: Refund, config: RunnableConfig) -> Refund:
    """Tell the customer."""
    shop.mail(state["order_id"], "your refund", key=key(config, "tell_customer"))
    return {}


def close(state: Refund) -> Refund:
    """Close the ticket."""
    shop.close_ticket(state["order_id"])
    return {}


def paid(state: Refund) -> str:
    """Only what was approved is paid back."""
    return "settle" if state["approved"] else "close"


graph = StateGraph(Refund)
for node in (look_up, tell_manager, ask_manager, settle, tell_customer, close):
    graph.add_node(node)
graph.add_edge(START, "look_up")
graph.add_edge("look_up", "tell_manager")
graph.add_edge("tell_manager", "ask_manager")
graph.add_conditional_edges("ask_manager", paid, ["settle", "close"])
graph.add_edge("settle", "tell_customer")
graph.add_edge("tell_customer", "close")
graph.add_edge("close", END)
