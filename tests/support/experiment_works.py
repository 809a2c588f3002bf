"""What processes of an experiment do in its tests: works for `experiments.processes.ForkServer`.

Also a program (`python -m tests.support.experiment_works`) that says how it was started.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from experiments import choke, warm_children, write_order
from experiments.boundaries import Boundary, Watch
from experiments.story import Story
from tools.process import die_with_parent

NAME = "tests.support.experiment_works"


def say(story: Story, word: str) -> str:
    story.tell(f"EXECUTE {word}")
    return word


def fail(story: Story) -> str:
    story.tell("EXECUTE plan")
    raise ValueError("as it was to")


def wait_for(story: Story, gate: Path) -> str:
    story.tell("EXECUTE plan")
    while not gate.exists():
        time.sleep(0.005)
    return "through the gate"


def strike_oneself(story: Story, number: int) -> str:
    story.tell("EXECUTE plan")
    os.kill(os.getpid(), number)
    return "still there"


# --- warm children ----------------------------------------------------------------------------------------------------


def start_child(story: Story, cwd: Path, *words: str) -> str:
    """Start this module's program warm, ask it something, and tell what it says and how it ends."""
    _warm()
    inherited = os.open(os.devnull, os.O_RDONLY)
    os.set_inheritable(inherited, True)
    child = _start(cwd, *words)
    assert child.stdin is not None and child.stdout is not None
    child.stdin.write("hello\n")
    child.stdin.close()
    said = child.stdout.read()
    story.tell(json.dumps({"parent": os.getpid(), "child": child.pid, "code": child.wait(30), "said": said}))
    return "done"


def leave_child(story: Story, cwd: Path) -> str:
    """Start the program, wait until it is set up, and die."""
    _warm()
    child = _start(cwd, "stay", str(os.getpid()))
    assert child.stdout is not None
    story.tell(child.stdout.readline().strip())
    os.kill(os.getpid(), signal.SIGKILL)
    return "not reached"


def _warm() -> None:
    warm_children.PROGRAMS = (NAME,)  # pyright: ignore[reportConstantRedefinition]
    warm_children.install()
    threading.Thread(target=time.sleep, args=(60,), daemon=True).start()  # a driver has threads


def _start(cwd: Path, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", NAME, *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=cwd,
        env={"ONLY": "this"},
    )


def main() -> None:
    """The program."""
    task = sys.argv[1]
    if task == "stay":
        die_with_parent(int(sys.argv[2]), sys.stdin.fileno())
        sys.stdout.write(f"{os.getpid()}\n")
        sys.stdout.flush()
        time.sleep(600)
    if task == "exit":
        sys.exit(3)
    if task == "fail":
        raise ValueError("as it was to")
    told: dict[str, Any] = {
        "pid": os.getpid(),
        "parent": os.getppid(),
        "group": os.getpgid(0),
        "arguments": sys.argv,
        "environment": dict(os.environ),
        "cwd": str(Path.cwd()),
        "open": [path.name for path in Path("/proc/self/fd").iterdir() if int(path.name) > 2],
        "threads": threading.active_count(),
        "heard": sys.stdin.readline(),
        "sigterm": signal.getsignal(signal.SIGTERM) is signal.SIG_DFL,
    }
    sys.stdout.write(json.dumps(told))


# --- write order ------------------------------------------------------------------------------------------------------


def run_a_graph(story: Story, file: Path, order: str) -> str:
    """Two nodes on SQLite; what becomes durable, in its order: `insert into checkpoints`, `insert into writes`."""
    import sqlite3

    from langgraph.checkpoint.sqlite import SqliteSaver
    from langgraph.graph import END, START, StateGraph

    def tell(boundary: Boundary) -> None:
        if boundary.side == "after" and boundary.label.startswith("insert into"):
            story.tell(boundary.label)

    def node(state: dict[str, int]) -> dict[str, int]:
        story.tell("EXECUTE node")
        return {"n": state["n"] + 1}

    choke.install_all(Watch(tell))
    if order == "checkpoint first":
        write_order.install()
    graph = StateGraph(dict)
    for name in ("first", "second"):
        graph.add_node(name, node)
    graph.add_edge(START, "first")
    graph.add_edge("first", "second")
    graph.add_edge("second", END)
    saver = SqliteSaver(sqlite3.connect(file, check_same_thread=False))
    config = {"configurable": {"thread_id": "t"}, "max_concurrency": 1}  # one thread stores, as in the product
    graph.compile(checkpointer=saver).invoke({"n": 1}, config, durability="sync")
    return "done"


if __name__ == "__main__":
    main()
