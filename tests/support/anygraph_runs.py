"""`verify.py --graph` as a command, several of them in one process, so that one fork server serves them all."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
KINDS = ROOT / "tests/support/anygraph_kinds.py"
AGENTS = KINDS.with_name("anygraph_agents.py")
LATE = "its result not stored"

_SCRIPT = """
import contextlib, io, json, sys
from experiments.anygraph import command
from verify import _parser

if __name__ == "__main__":
    for words in json.load(sys.stdin):
        out, said = io.StringIO(), []
        with contextlib.redirect_stdout(out):
            code = command.run(_parser().parse_args(words), said.append)
        print(json.dumps([code, said, out.getvalue()]), flush=True)
"""


@dataclass(frozen=True)
class Done:
    """How one command ended: its exit code, the lines of its progress, and its stdout."""

    code: int
    said: list[str]
    out: str

    @property
    def json(self) -> dict[str, Any]:
        """Its stdout with `--json`."""
        return json.loads(self.out)

    @property
    def nodes(self) -> dict[tuple[str, str], dict[str, Any]]:
        """What was found, by node and effect."""
        return {(node["node"], node["effect"]): node for node in self.json["nodes"]}

    def words(self, boundary: str) -> dict[str, Any]:
        """The case of one boundary."""
        (case,) = (case for case in self.json["cases"] if case["boundary"] == boundary)
        return case


def run_all(commands: dict[str, list[str]], world: Path, **environment: str) -> dict[str, Done]:
    """Run the commands one after the other; `world` is where the graphs of `anygraph_kinds` have their effects."""
    script = world / "commands.py"
    script.write_text(_SCRIPT)
    done = subprocess.run(
        [sys.executable, str(script)],
        cwd=world,
        env={**os.environ, "PYTHONPATH": str(ROOT), "ANYGRAPH_WORLD": str(world), **environment},
        input=json.dumps(list(commands.values())),
        capture_output=True,
        text=True,
        timeout=380,
    )
    assert done.returncode == 0, done.stderr
    answers = [Done(*json.loads(line)) for line in done.stdout.splitlines()]
    return dict(zip(commands, answers, strict=True))


def kind(name: str, world: Path, *more: str, effects: str | None = None, file: Path = KINDS) -> list[str]:
    """The command for one graph of `anygraph_kinds`, or of another file."""
    counted = effects or f"lines=file:{world}/{{thread_id}}.txt"
    given = [] if "--input" in more else ["--input", '{"done": []}']
    return ["--json", "--store", "sqlite", "--graph", f"{file}:{name}", "--effects", counted, *given, *more]
