"""Effects that a Python function of theirs counts, in a process of its own: their module may do what it likes there."""

from __future__ import annotations

import inspect
import json
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from experiments.anygraph.effects import Effect, normal
from experiments.anygraph.ending import end
from experiments.anygraph.errors import GraphError
from experiments.story import Story
from runs.foreign import loading


def count(story: Story, effects: list[Effect], thread_id: str, answer: Path) -> str:
    """For `ForkServer.run`: write `{name: [effects]}`, or `{name: "why not"}`, and whether each takes a thread id."""
    told: dict[str, Any] = {}
    for effect in effects:
        try:
            function = loading.load(Path(effect.where), effect.what)
            told[effect.name] = {"seen": _seen(function, thread_id), "of_thread": _takes_thread(function)}
        except GraphError as error:
            told[effect.name] = {"failed": str(error)}
        except BaseException as error:  # whatever their function raises
            traceback.print_exc()
            told[effect.name] = {"failed": f"{type(error).__name__}: {error}"}
    answer.write_text(json.dumps(told), encoding="utf-8")
    end(story, "counted")


def _seen(function: Callable[..., Any], thread_id: str) -> list[Any]:
    if not callable(function):
        raise ValueError("it is not a function")
    return normal(function(thread_id) if _takes_thread(function) else function())


def _takes_thread(function: Callable[..., Any]) -> bool:
    return bool(inspect.signature(function).parameters)
