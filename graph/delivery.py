"""What the two actions of this graph say: the draft to save, the report to publish, and the question to a person."""

from __future__ import annotations

import re
import unicodedata
from typing import Any

from graph.context import Context
from graph.state import Draft, DraftObject, State
from onward_ledger.action import Action
from tools.report import report_digest

MEDIA_TYPES = {".md": "text/markdown", ".html": "text/html", ".json": "application/json"}


def draft_objects(context: Context, files: dict[str, bytes]) -> dict[str, Any]:
    """Params of `draft.save`: the bytes are staged first, the action holds references and digests."""
    objects: list[dict[str, Any]] = []
    for name, data in sorted(files.items()):
        staged = context.files.put(data)
        media_type = MEDIA_TYPES[name[name.rindex(".") :]]
        objects.append(
            {
                "name": name,
                "source": staged["key"],
                "digest": staged["digest"],
                "size": staged["size"],
                "media_type": media_type,
            }
        )
    return {"digest": report_digest(objects), "objects": objects}


def saved_objects(action: Action) -> list[DraftObject]:
    """The draft's files at their final keys, as the ledger recorded them."""
    return [
        DraftObject(
            name=o["name"],
            key=f"{action.resource}/{o['name']}",
            digest=o["digest"],
            size=o["size"],
            media_type=o["media_type"],
        )
        for o in action.params["objects"]
    ]


def draft_of(state: State) -> Draft:
    """The draft; the graph's order puts `write_draft` before every caller."""
    assert "draft" in state, "a step behind write_draft ran without a draft"
    return state["draft"]


def publication(state: State) -> tuple[str, dict[str, Any]]:
    """Resource and params of `report.publish`: a pure function of the state, so repeating the proposal is harmless."""
    draft = draft_of(state)
    params = {"title": state["plan"]["title"], "note": "", "digest": draft["digest"], "objects": draft["objects"]}
    return f"reports/{slug(state['input']['name'])}", params


def slug(name: str) -> str:
    """A file's name as one part of a resource: letters and digits of any script, the rest as single hyphens."""
    stem = unicodedata.normalize("NFKC", name).rsplit(".", 1)[0]
    return re.sub(r"[^\w]+", "-", stem.lower()).strip("-_")[:80] or "report"


def approval_request(action: Action, context: Context) -> dict[str, Any]:
    """The interrupt's payload, in the one form that all clients of LangGraph's inboxes read.

    `arguments` repeats `args` because the Agent Inbox reads that key.
    """
    arguments = {"resource": action.resource, **{k: v for k, v in action.params.items() if k != "objects"}}
    request = {"name": action.kind, "args": arguments, "arguments": arguments}
    return {
        "action_requests": [{**request, "description": f"Publish {action.params['title']!r} as {action.resource}?"}],
        "review_configs": [{"action_name": action.kind, "allowed_decisions": ["approve", "edit", "revise", "reject"]}],
        "approval": {
            "action_id": action.action_id,
            "request_hash": action.request_hash,
            "resource": action.resource,
            "scope": action.kind,
            "epoch": context.epoch,
        },
    }
