"""A server that speaks OpenAI's chat completions, in a process of its own, and can misbehave.

    python -m tests.support.model_server PORT_FILE LOG_FILE

The model's name chooses the behaviour: `good` answers well; `cutoff` stops in mid-answer at its first call of each
task; `digits` writes a figure by hand in its first draft and corrects it when told; `wrong` writes it in every draft;
`garbage` never answers in JSON; `down` answers 500. Every request is one JSON line in LOG_FILE.
"""

from __future__ import annotations

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

PLAN = {
    "title": "Sales by region",
    "questions": [
        {
            "id": "q1",
            "text": "Which region brought in most?",
            "sheet": "{sheet}",
            "aggregate": "sum",
            "measure": "{measure}",
            "group": [{"column": "{category}", "by": "value"}],
            "filter": [],
            "order": {"by": "value", "direction": "desc"},
            "limit": None,
            "chart": "bar",
        },
        {
            "id": "q2",
            "text": "How many rows are there?",
            "sql": 'SELECT count(*) AS "rows" FROM "{sheet}"',
            "chart": "none",
        },
    ],
    "unanswered": [],
}


def plan(profile: dict[str, Any]) -> dict[str, Any]:
    """A plan with one typed question and one of free SQL, for the first sheet that has the columns for it."""
    sheet = profile["sheets"][0]
    by_role: dict[str, str] = {}
    for column in sheet["columns"]:
        by_role.setdefault(column["role"], column["name"])
    text = json.dumps(PLAN)
    for name, value in {"sheet": sheet["name"], "measure": by_role["measure"], "category": by_role["category"]}.items():
        text = text.replace("{" + name + "}", value)
    return json.loads(text)


def draft(request: dict[str, Any], by_hand: bool) -> dict[str, Any]:
    """A draft whose figures are references, or with one figure written by hand."""
    results = request["results"]
    key, value = (c["name"] for c in results["q1"]["columns"])
    lead = f"The leader is [[q1:0:{key}]] with [[q1:0:{value}]]."
    return {
        "title": "Sales by region",
        "summary": [lead + (" It grew by 42 percent." if by_hand else "")],
        "sections": [
            {"question_id": "q1", "heading": "The leading region", "prose": [lead]},
            {"question_id": "q2", "heading": "Size of the data", "prose": ["There are [[q2:0:rows]] rows."]},
        ],
    }


class Handler(BaseHTTPRequestHandler):
    """One chat completion per request."""

    seen: ClassVar[dict[tuple[str, str], int]] = {}
    log: Path

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        behaviour = body["model"]
        request = json.loads(next(m["content"] for m in body["messages"] if m["role"] == "user"))
        with self.log.open("a") as log:
            log.write(json.dumps({"model": behaviour, "task": request["task"], "messages": body["messages"]}) + "\n")
        if behaviour == "down":
            self.answer(500, {"error": {"message": "the model is down", "type": "server_error"}})
            return
        calls = self.seen[behaviour, request["task"]] = self.seen.get((behaviour, request["task"]), 0) + 1
        if request["task"] == "plan":
            text = json.dumps(plan(request["profile"]))
        else:
            by_hand = behaviour == "wrong" or (behaviour == "digits" and not request["problems"])
            text = json.dumps(draft(request, by_hand))
        finish = "stop"
        if behaviour == "garbage":
            text = "I would rather tell you a story."
        if behaviour == "cutoff" and calls == 1:
            text, finish = text[: len(text) // 2], "length"
        self.answer(200, completion(behaviour, text, finish))

    def answer(self, status: int, value: dict[str, Any]) -> None:
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        """Requests are logged as JSON lines already."""


def completion(model: str, text: str, finish: str) -> dict[str, Any]:
    """A chat completion as the API documents it."""
    message = {"role": "assistant", "content": text}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 0,
        "model": model,
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
        "usage": {"prompt_tokens": 100, "completion_tokens": 50, "total_tokens": 150},
    }


if __name__ == "__main__":
    Handler.log = Path(sys.argv[2])
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    part = Path(sys.argv[1] + ".part")
    part.write_text(str(server.server_port))
    part.replace(sys.argv[1])
    server.serve_forever()
