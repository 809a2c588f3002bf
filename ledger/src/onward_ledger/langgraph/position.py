"""Which call this is: the same after a resume, in whichever process, and never made from arguments or call ids.

A call is known by its thread, the namespace of its graph, the number of the model's message in the conversation, and
its own number in that message. Ids of calls repeat with some providers, so they are evidence only.

All of it lies in the checkpoint that a resume starts from. The namespace names the tasks that a subgraph runs in, whose
ids LangGraph derives from that checkpoint: the same on a resume, another one when the subgraph is entered again. An
agent that summarizes or trims its conversation counts from a new beginning: so the first message's id is part of it.
"""

from __future__ import annotations

import hashlib
import json
import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from langchain_core.messages import AIMessage, BaseMessage, convert_to_messages
from langgraph.prebuilt.tool_node import ToolCallRequest

from onward_ledger.action import ActionKey, Json
from onward_ledger.errors import BadRequest

# Threads whose id is no UUID get one derived from it.
THREADS = uuid.UUID("5d9c0a2e-3f0b-5c64-9a57-6b1c6f1d8e21")

# Optional members of `configurable`.
EPOCH = "onward_epoch"
BRANCH = "onward_branch"


@dataclass(frozen=True, kw_only=True)
class Position:
    """The key of a call's action, and what is recorded with its arguments to prove that it is this call.

    `epoch` is that of the driver, where the configuration names one.
    """

    key: ActionKey
    evidence: Json
    epoch: int | None


def position(request: ToolCallRequest, messages_key: str) -> Position:
    """BadRequest, with what to pass, where a call could not be told from another one after a crash."""
    known = _configurable(request)
    messages = _messages(request.state, messages_key)
    ordinal, message = _asking(messages)
    index = _index(request, message)
    inside, _, task = str(known.get("checkpoint_ns") or "").rpartition("|")
    node = task.partition(":")[0]
    begins = [inside, node, messages[0].id, known.get(BRANCH)]
    digest = hashlib.sha256(json.dumps(begins).encode()).hexdigest()[:16]
    name = re.sub(r"[^A-Za-z0-9_.-]", "_", node)[:40] or "tools"
    key = ActionKey(_run_id(str(known["thread_id"])), f"{name}:{digest}#{ordinal}", str(index))
    evidence = {"thread": str(known["thread_id"]), "message": message.id, "call": request.tool_call.get("id")}
    return Position(key=key, evidence=evidence, epoch=_epoch(known))


def _configurable(request: ToolCallRequest) -> Mapping[str, Any]:
    """What the run was started with. Without a checkpoint before each step nothing would be the same after a crash."""
    known = cast(Mapping[str, Any], request.runtime.config.get("configurable", {}))
    if not known.get("thread_id"):
        raise BadRequest('A guarded tool needs a thread: pass {"configurable": {"thread_id": …}} as config.')
    if not known.get("__pregel_checkpointer"):
        raise BadRequest("A guarded tool needs a checkpointer: compile the graph, or create the agent, with one.")
    if known.get("__pregel_durability") != "sync":
        raise BadRequest(
            'A guarded tool needs every step on disk before the next one begins: pass durability="sync" to invoke, '
            "ainvoke, stream or astream."
        )
    return known


def _run_id(thread_id: str) -> str:
    try:
        return str(uuid.UUID(thread_id))
    except ValueError:
        return str(uuid.uuid5(THREADS, thread_id))


def _epoch(known: Mapping[str, Any]) -> int | None:
    epoch = known.get(EPOCH)
    if epoch is None or (isinstance(epoch, int) and epoch >= 1):
        return epoch
    raise BadRequest(f"{EPOCH} is a number from 1 on, and higher for each driver of the thread; it is {epoch!r}.")


def _messages(state: Any, messages_key: str) -> list[BaseMessage]:
    if isinstance(state, list):
        found = cast(list[Any], state)
    elif isinstance(state, Mapping):
        found = cast(Mapping[str, Any], state).get(messages_key)
    else:
        found = getattr(state, messages_key, None)
    if not found:
        raise BadRequest(f"A guarded tool is called from a conversation; the state has no {messages_key}.")
    return convert_to_messages(found)


def _asking(messages: list[BaseMessage]) -> tuple[int, AIMessage]:
    """The model's last message, whose calls a ToolNode runs, and its number among the model's messages."""
    said = [message for message in messages if isinstance(message, AIMessage)]
    if not said:
        raise BadRequest("A guarded tool is called by a message of the model; the conversation has none.")
    return len(said), said[-1]


def _index(request: ToolCallRequest, message: AIMessage) -> int:
    """The number of the call in its message, from 0."""
    call = request.tool_call
    what = (call.get("id"), call["name"], call["args"])
    same = [n for n, o in enumerate(message.tool_calls) if (o.get("id"), o["name"], o["args"]) == what]
    if len(same) > 1 and not _is_sent(request):
        same = [number for number in same if message.tool_calls[number] is call]
    if len(same) == 1:
        return same[0]
    if same:
        raise BadRequest(
            f"The model called {call['name']} twice in one message, with the same id and the same arguments: the two "
            "cannot be told apart, so neither is run."
        )
    raise BadRequest(f"The call of {call['name']} is not in the model's last message, so its place is not known.")


def _is_sent(request: ToolCallRequest) -> bool:
    """Whether the call came alone, by a Send: behind a resume it is then a copy of the one in the message."""
    path = request.runtime.config.get("metadata", {}).get("langgraph_path", ())
    return bool(path) and path[0] == "__pregel_push"
