"""Their file, imported as Python would import it, and their graph with our checkpointer in it.

The file is imported in every process of a case anew, as after a real crash: a connection, a thread or an id that it
makes while it is imported must not be shared by processes that stand for different ones. What makes an import slow,
packages of others, the fork server has imported already (see `runs.foreign.sources`).

Onward's own `graph`, `tools`, `runs` and the like are forgotten first: projects have modules of those names.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import os
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

from runs.foreign.errors import GraphError
from runs.foreign.sources import OURS, package_top

ROOT = Path(__file__).resolve().parents[2]


# --- the file ---------------------------------------------------------------------------------------------------------


def load(file: Path, name: str, also: Sequence[Path] = ()) -> Any:
    """What `name` is in their file; GraphError when it is not there, or the file cannot be imported.

    `also`: further folders of theirs that they import from.
    """
    try:
        module = _import(file, also)
    except BaseException as error:  # SystemExit too: whatever their module does while it is imported
        raise GraphError(f"{file} cannot be imported: {type(error).__name__}: {_first_line(error)}.") from error
    if not hasattr(module, name):
        raise GraphError(f"{file} has no {name}{_instead(module)}.")
    return getattr(module, name)


@contextmanager
def keeping_ours() -> Generator[None]:
    """Around what loads: afterwards Onward's own modules are found again, under the names that their project leaves."""
    before = {name: module for name, module in sys.modules.items() if name.partition(".")[0] in OURS}
    try:
        yield
    finally:
        free = {top for top in OURS if not _is_theirs(top)}
        sys.modules.update({name: module for name, module in before.items() if name.partition(".")[0] in free})


def _is_theirs(top: str) -> bool:
    """Whether an import of this name means a module of theirs."""
    spec = PathFinder.find_spec(top, sys.path)
    if spec is None:
        return False
    places = [spec.origin, *(spec.submodule_search_locations or ())]
    ours = (ROOT / top, ROOT / f"{top}.py")
    return not any(place and (Path(place) in ours or ours[0] in Path(place).parents) for place in places)


def _import(file: Path, also: Sequence[Path]) -> ModuleType:
    top = package_top(file)
    dotted = ".".join([*file.parent.relative_to(top).parts, file.stem])
    _make_room(top, file.parent, *also)
    if "." in dotted:
        return importlib.import_module(dotted)
    spec = importlib.util.spec_from_file_location(dotted, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[dotted] = module  # their siblings may import it by its name
    spec.loader.exec_module(module)
    return module


def _make_room(*theirs: Path) -> None:
    """Their folders come first in the path, then where the command was typed; Onward comes last."""
    for name in [name for name in sys.modules if name.partition(".")[0] in OURS]:
        del sys.modules[name]
    first = list(dict.fromkeys(map(str, (*theirs, Path.cwd()))))
    here = {"", str(ROOT), *first}
    sys.path[:] = [*first, *(path for path in sys.path if path not in here), str(ROOT)]
    importlib.invalidate_caches()


def _instead(module: ModuleType) -> str:
    found = [name for name, value in vars(module).items() if not name.startswith("_") and is_graph(value)]
    return f"; its graphs are: {', '.join(found)}" if found else ""


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or ["without a word"])[0].rstrip(".")


# --- the graph --------------------------------------------------------------------------------------------------------


def is_graph(value: object) -> bool:
    """A builder, or something compiled: a StateGraph, an agent, an @entrypoint."""
    from langgraph.graph import StateGraph
    from langgraph.pregel import Pregel

    return isinstance(value, StateGraph | Pregel)


async def with_checkpointer(found: Any, name: str, saver: Any) -> Any:
    """Their graph, compiled with this checkpointer; GraphError when it is none or cannot be.

    A builder is compiled; something compiled is copied with the other checkpointer; a function is called with it, or
    without it, and what it returns is taken.
    """
    if not is_graph(found):
        found = await _made(found, name, saver)
    try:
        if hasattr(found, "compile"):
            return found.compile(checkpointer=saver)
        return found if found.checkpointer is saver else found.copy(update={"checkpointer": saver})
    except Exception as error:
        raise GraphError(
            f"{name} cannot be compiled with another checkpointer ({type(error).__name__}: {_first_line(error)}); "
            f"give a function that takes a checkpointer and returns the graph."
        ) from error


async def _made(factory: Any, name: str, saver: Any) -> Any:
    if not callable(factory):
        raise GraphError(f"{name} is no graph, but {_kind(factory)}.")
    try:
        made = factory(*_arguments(factory, saver))
        made = await made if inspect.isawaitable(made) else made
    except Exception as error:
        raise GraphError(
            f"{name} is a function that does not make a graph: {type(error).__name__}: {_first_line(error)}."
        ) from error
    if not is_graph(made):
        raise GraphError(f"{name} is a function that returns no graph, but {_kind(made)}.")
    return made


def _arguments(factory: Callable[..., Any], saver: Any) -> list[Any]:
    needed = [
        parameter
        for parameter in inspect.signature(factory).parameters.values()
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
        and (parameter.default is parameter.empty or parameter.name == "checkpointer")
    ]
    if not needed:
        return []
    if needed[0].name == "config" or "RunnableConfig" in str(needed[0].annotation):
        return [{"configurable": {}}]
    return [saver]


def _kind(value: object) -> str:
    kind = type(value).__name__
    return f"{'an' if kind[:1].lower() in 'aeiou' else 'a'} {kind}"


def needs_async(graph: Any) -> bool:
    """Has it a node, a tool, or a node of a graph below, that only ainvoke can run?"""
    return any(_is_async(node) or any(map(needs_async, _graphs_of(node))) for node in graph.nodes.values())


def _is_async(node: Any) -> bool:
    bound = getattr(node, "bound", None)
    if getattr(bound, "func", 0) is None and getattr(bound, "afunc", None) is not None:
        return True
    tools = getattr(bound, "tools_by_name", None)  # a ToolNode
    found = tools.values() if isinstance(tools, dict) else ()
    return any(getattr(tool, "func", 0) is None and getattr(tool, "coroutine", None) is not None for tool in found)


def _graphs_of(node: Any) -> list[Any]:
    """Graphs that a node runs."""
    return [below for below in getattr(node, "subgraphs", None) or () if hasattr(below, "nodes")]


def is_functional(graph: Any) -> bool:
    """Is it an @entrypoint, and no graph of nodes?"""
    from langgraph.graph.state import CompiledStateGraph

    return not isinstance(graph, CompiledStateGraph)


def own_checkpointers(graph: Any) -> list[str]:
    """Nodes whose graph keeps a checkpointer of its own, which we do not replace."""
    from langgraph.checkpoint.base import BaseCheckpointSaver

    return _where(graph, lambda below: isinstance(getattr(below, "checkpointer", None), BaseCheckpointSaver))


def inner_breakpoints(graph: Any) -> list[str]:
    """Nodes whose graph has breakpoints."""
    return _where(graph, lambda below: bool(below.interrupt_before_nodes or below.interrupt_after_nodes))


def _where(graph: Any, holds: Callable[[Any], bool]) -> list[str]:
    return [name for name, node in graph.nodes.items() if any(holds(below) for below in _graphs_of(node))]


def classes_in(file: Path, *folders: Path) -> set[tuple[str, str]]:
    """Classes of theirs, as a checkpoint names them: only these, and LangGraph's own, are revived from one."""
    values = _values_in(file, *folders)
    return {(name, key) for name, key, value in values if isinstance(value, type) and value.__module__ == name}


def has_tasks(file: Path, *folders: Path) -> bool:
    """Have they functions under @task? Whoever calls one waits for it, so two of them have to run at once."""
    from langgraph.func import task

    kind = type(task(lambda: None))
    return any(isinstance(value, kind) for _, _, value in _values_in(file, *folders))


def _values_in(file: Path, *folders: Path) -> list[tuple[str, str, object]]:
    """Module, name and value of whatever stands at the top of their loaded modules."""
    # Thousands of modules are loaded, and a take-over waits for this: texts are compared, no paths are made.
    places = tuple(f"{place}{os.sep}" for place in {package_top(file), file.parent, *folders})
    found: list[tuple[str, str, object]] = []
    for name, module in list(sys.modules.items()):
        source = getattr(module, "__file__", None)
        if source and source.startswith(places) and "site-packages" not in source:
            found += [(name, key, value) for key, value in list(vars(module).items())]
    return found
