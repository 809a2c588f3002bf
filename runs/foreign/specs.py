"""Which graphs somebody means: `file.py:name`, or a langgraph.json with all of its graphs, or one of them by `:name`.

The workflow version of a run is `graph:<name>@<digest>`, the digest being of the file and of the files of theirs that
it imports: a thread is resumed by the code that it was begun with. Whoever writes `file.py:name@V` says which version
that code goes on with, whatever is in the file: `graph:<name>@V`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, cast

from runs.foreign.errors import GraphError
from runs.foreign.sources import digest_of

PREFIX = "graph:"
_NAME = re.compile(r"[A-Za-z_]\w*")
_VERSION = re.compile(r"[\w.+-]{1,60}")


@dataclass(frozen=True, kw_only=True)
class GraphSpec:
    """One graph: `attribute` in `file`, called `name` in the version of its runs.

    `text` names it for any process of this machine, its version included. `folder`: the working directory of its
    processes. `paths`: further folders that its modules come from. `env`: variables that are set where the environment
    has none. `given`: a version that somebody chose.
    """

    text: str
    file: Path
    attribute: str
    name: str
    folder: Path
    paths: tuple[Path, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    given: str | None = None

    @property
    def plain(self) -> str:
        """`text` without a version."""
        return self.text.removesuffix(f"@{self.given}") if self.given else self.text

    @cached_property
    def version(self) -> str:
        """The workflow version of its runs."""
        return f"{PREFIX}{self.name}@{self.given or digest_of(self.file)}"


def specs_of(typed: str, *, folder: Path | None = None, version: str | None = None) -> tuple[GraphSpec, ...]:
    """The graphs that are meant. `folder`: where a relative path begins; without it, the working directory.

    Raises GraphError for what is no graph, and for a version together with several graphs.
    """
    folder = folder or Path.cwd()
    text, version = _split(typed, version)
    path, name = (text, "") if text.endswith(".json") else text.rpartition(":")[::2]
    if path.endswith(".json"):
        found = list(_of_project(_existing(path, text, folder), name or None, version))
    else:
        found = [_of_file(text, path, name, folder, version)]
    if version is not None and len(found) > 1:
        names = ", ".join(spec.name for spec in found)
        raise GraphError(f"A version is for one graph; name which: {text}:NAME, where NAME is one of {names}.")
    return tuple(found)


def _split(typed: str, version: str | None) -> tuple[str, str | None]:
    """What names the graph, and the version behind an @, where there is one."""
    text, _, behind = typed.rpartition("@")
    if text and _VERSION.fullmatch(behind) and ":" in text:
        typed, version = text, version or behind
    if version is not None and not _VERSION.fullmatch(version):
        raise GraphError(f"{version!r} is no version of a graph: use letters, digits, and any of . + - _")
    return typed, version


def spec_of(typed: str, *, folder: Path | None = None, version: str | None = None) -> GraphSpec:
    """The one graph that is meant; GraphError when there are several."""
    found = specs_of(typed, folder=folder, version=version)
    if len(found) == 1:
        return found[0]
    raise GraphError(f"--graph {typed} has several graphs; name one: {', '.join(f'{typed}:{s.name}' for s in found)}.")


def _of_file(text: str, path: str, name: str, folder: Path, version: str | None) -> GraphSpec:
    if not path or not _NAME.fullmatch(name):
        raise GraphError(f"--graph {text}: give it as file.py:name, for example agent.py:graph, or a langgraph.json.")
    file = _existing(path, text, folder)
    if file.suffix != ".py":
        raise GraphError(f"--graph {text}: {path} is not a Python file.")
    text = _text(file, name, version)
    return GraphSpec(text=text, file=file, attribute=name, name=name, folder=folder, given=version)


def _text(file: Path, name: str, version: str | None) -> str:
    return f"{file}:{name}" + (f"@{version}" if version else "")


def _existing(path: str, text: str, folder: Path) -> Path:
    file = (folder / Path(path).expanduser()).resolve()
    if not file.is_file():
        raise GraphError(f"--graph {text}: there is no file {path}.")
    return file


# --- langgraph.json ---------------------------------------------------------------------------------------------------


def _of_project(file: Path, only: str | None, version: str | None) -> Iterator[GraphSpec]:
    project = _read(file)
    graphs = _member(file, project, "graphs", dict)
    if only is not None and only not in graphs:
        raise GraphError(f"{file} has no graph {only}; it has: {', '.join(map(str, graphs)) or 'none'}.")
    if not graphs:
        raise GraphError(f"{file} has no graphs.")
    paths = _dependencies(file, project)
    env = _environment(file, project)
    for name, where in graphs.items():
        if only is None or name == only:
            source, attribute = _source(file, name, where, paths)
            yield GraphSpec(
                text=_text(file, name, version),
                file=source,
                attribute=attribute,
                name=name,
                folder=file.parent,
                paths=paths,
                env=env,
                given=version,
            )


def _read(file: Path) -> dict[str, Any]:
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise GraphError(f"{file} cannot be read: {error}.") from None
    if not isinstance(found, dict):
        raise GraphError(f"{file} is no JSON object.")
    return cast(dict[str, Any], found)


def _member(file: Path, project: dict[str, Any], name: str, kind: type) -> Any:
    found = project.get(name, kind())
    if not isinstance(found, kind):
        raise GraphError(f'"{name}" in {file} is not {"an object" if kind is dict else "a list"}.')
    return found


def _source(file: Path, name: str, where: Any, paths: tuple[Path, ...]) -> tuple[Path, str]:
    """The file and attribute of "./agent.py:graph", of {"path": …}, or of "package.module:graph"."""
    text = where.get("path") if isinstance(where, dict) else where
    path, _, attribute = text.rpartition(":") if isinstance(text, str) else ("", "", "")
    if not path or not _NAME.fullmatch(attribute):
        raise GraphError(f'The graph "{name}" in {file} is not given as "./file.py:name".')
    if path.endswith(".py"):
        return _existing(path, f"{file}:{name}", file.parent), attribute
    for folder in paths:
        module = folder.joinpath(*path.split("."))
        for source in (module.with_suffix(".py"), module / "__init__.py"):
            if source.is_file():
                return source, attribute
    raise GraphError(f'The graph "{name}" in {file}: there is no module {path} in its dependencies.')


def _dependencies(file: Path, project: dict[str, Any]) -> tuple[Path, ...]:
    """Local folders among the dependencies, and `src` in them; packages are installed already, or are not there."""
    local = [str(text) for text in _member(file, project, "dependencies", list) if str(text).startswith(".")]
    folders = [(file.parent / text).resolve() for text in (*local, ".")]
    return tuple(dict.fromkeys(path for folder in folders for path in (folder, folder / "src") if path.is_dir()))


def _environment(file: Path, project: dict[str, Any]) -> dict[str, str]:
    """The variables of "env": an object, or the path of a file with lines NAME=VALUE."""
    given = project.get("env")
    if isinstance(given, dict):
        return {str(name): str(value) for name, value in cast(dict[str, Any], given).items()}
    if not isinstance(given, str) or not given:
        return {}
    from dotenv import dotenv_values

    path = file.parent / given
    if not path.is_file():
        raise GraphError(f'"env" in {file} names {given}, which is not there.')
    return {name: value for name, value in dotenv_values(path).items() if value is not None}
