"""A refund, as most people write it first: it works, until its process dies at the wrong moment."""

from __future__ import annotations

import uuid
from typing import Any, TypedDict

import shop
from langgraph.graph import END, START, StateGraph
from langgraph.types import interrupt


class Refund(TypedDict, total=False):
    """State of the graph."""

    order_id: str
    order: dict[str, Any]
    approved: bool
    refund_id: str


def look_up(state: Refund) -> Refund:
    """Read the order."""
    return {"order": shop.order(state["order_id"])}


def ask_manager(state: Refund) -> Refund:
    """Tell the manager, and wait for the answer."""
    shop.mail(state["order_id"], "please approve")
    return {"approved": interrupt({"refund": state["order"]["amount"]})}


def settle(state: Refund) -> Refund:
    """Pay back, and tell the customer."""
    refund_id = shop.refund(state["order_id"], state["order"]["amount"], key=str(uuid.uuid4()))
    shop.mail(state["order_id"], "your refund")
    return {"refund_id": refund_id}


def close(state: Refund) -> Refund:
    """Close the ticket."""
    shop.close_ticket(state["order_id"])
    return {}


def paid(state: Refund) -> str:
    """Only what was approved is paid back."""
    return "settle" if state["approved"] else "close"


graph = StateGraph(Refund)
for node in (look_up, ask_manager, settle, close):
    graph.add_node(node)
graph.add_edge(START, "look_up")
graph.add_edge("look_up", "ask_manager")
graph.add_conditional_edges("ask_manager", paid, ["settle", "close"])
graph.add_edge("settle", "close")
graph.add_edge("close", END)
