"""What the command line asks for, as one value that every process of a case is given."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from experiments.anygraph.answers import Question
from experiments.anygraph.errors import GraphError

Store = Literal["postgres", "sqlite"]
Durability = Literal["sync", "async", "exit"]
DURABILITIES: tuple[Durability, ...] = ("sync", "async", "exit")
PACKAGES = "ONWARD_PROOF_PACKAGES"  # tells the fork server what their file imports, separated by commas

# Stands for the thread id of a case, in effects and in every text of the input, the configuration and the context.
THREAD_ID = "{thread_id}"


@dataclass(frozen=True, kw_only=True)
class Target:
    """Somebody's graph and how it is run. `answers` are given to its interrupts; `questions` is which got which before.

    `asynchronous` is None until a first run has shown which of invoke and ainvoke it needs.
    """

    file: Path
    name: str
    input: Any = None
    config: Any = None
    context: Any = None
    answers: tuple[Any, ...] = ()
    questions: tuple[Question, ...] = ()
    durability: Durability = "sync"
    asynchronous: bool | None = None

    @property
    def graph(self) -> str:
        """As it was typed: `file.py:name`."""
        return f"{self.file}:{self.name}"


def parse_graph(text: str) -> tuple[Path, str]:
    """`file.py:name` as a file that exists and a name; GraphError otherwise."""
    path, _, name = text.rpartition(":")
    if not path or not re.fullmatch(r"[A-Za-z_]\w*", name):
        raise GraphError(f"--graph {text}: give it as file.py:name, for example agent.py:graph.")
    file = Path(path).expanduser()
    if not file.is_file():
        raise GraphError(f"--graph {text}: there is no file {path}.")
    if file.suffix != ".py":
        raise GraphError(f"--graph {text}: {path} is not a Python file.")
    return file.resolve(), name


def parse_json(option: str, text: str) -> Any:
    """JSON from the command line, or from a file as `@file.json`; GraphError says where it is wrong."""
    if text.startswith("@"):
        try:
            text = Path(text[1:]).expanduser().read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise GraphError(f"{option}: {text[1:]} cannot be read: {error}.") from None
    try:
        return json.loads(text)
    except ValueError as error:
        raise GraphError(f"{option} is not JSON: {error}.") from None


def parse_object(option: str, text: str) -> dict[str, Any]:
    """JSON that has to be an object."""
    value = parse_json(option, text)
    if not isinstance(value, dict):
        raise GraphError(f'{option} has to be a JSON object, such as {{"key": "value"}}.')
    return value  # pyright: ignore[reportUnknownVariableType] - any JSON object


def for_thread(value: Any, thread_id: str) -> Any:
    """A JSON value with the thread id in every text that asks for it, so that each case has an order of its own."""
    if isinstance(value, str):
        return value.replace(THREAD_ID, thread_id)
    if isinstance(value, list):
        return [for_thread(item, thread_id) for item in value]
    if isinstance(value, dict):
        return {key: for_thread(item, thread_id) for key, item in value.items()}
    return value


def without_thread(value: Any, thread_id: str) -> Any:
    """The way back: the same value for every thread."""
    if isinstance(value, str):
        return value.replace(thread_id, THREAD_ID)
    if isinstance(value, list):
        return [without_thread(item, thread_id) for item in value]
    if isinstance(value, dict):
        return {without_thread(key, thread_id): without_thread(item, thread_id) for key, item in value.items()}
    return value


def mentions_thread(value: Any) -> bool:
    """Is the thread id asked for anywhere in it?"""
    return for_thread(value, "") != value
