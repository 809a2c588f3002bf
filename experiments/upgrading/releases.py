"""Releases: copies of the source in folders of their own, each with the workflow versions that it serves.

What a team would do by hand to release a version is done to the copy: one more file in `graph/`, and a line in
`graph/versions.py`. Nothing in the source itself knows of a second version.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from runs.driver import ROOT

PACKAGES = ("graph", "tools", "runs", "experiments")

_SECOND = """

# --- The new version -------------------------------------------------------------------------------------------------


def _build_2() -> StateGraph[Any, Any, Any, Any]:
    from graph.second import build

    return build()


def _from_1(values: dict[str, Any], pending: tuple[str, ...]) -> Any:
    from graph.second import from_1

    return from_1(values, pending)


def _step_of_2(node: str, state: Mapping[str, Any]) -> str:
    return step_of("deliver" if node == "hand_over" else node, state)


VERSIONS["2"] = Version(
    name="2",
    build=_build_2,
    recursion_limit=VERSIONS["1"].recursion_limit,
    allowed_kinds=VERSIONS["1"].allowed_kinds,
    step_of=_step_of_2,
    migrations={"1": _from_1},
)
CURRENT = "2"
"""
_WITHOUT_FIRST = '\ndel VERSIONS["1"]\n'
_SERVED = "SERVED = tuple(VERSIONS)\n"


@dataclass(frozen=True)
class Release:
    """A copy of the source, and what it serves."""

    name: str
    folder: Path
    versions: tuple[str, ...]

    def environment(self, installation: dict[str, str]) -> dict[str, str]:
        """What a process of this release has to know; its own packages come first."""
        return {**os.environ, **installation, "PYTHONPATH": str(self.folder), "PYTHONUNBUFFERED": "1"}


def old(folder: Path) -> Release:
    """The source as it is: version "1"."""
    return Release("old", _copied(folder / "old"), ("1",))


def new(folder: Path) -> Release:
    """Both versions side by side."""
    return Release("new", _with_second(folder / "new", _SECOND), ("1", "2"))


def later(folder: Path) -> Release:
    """The old version has been taken out; the way over from it is still there."""
    return Release("later", _with_second(folder / "later", _SECOND + _WITHOUT_FIRST), ("2",))


def _copied(folder: Path) -> Path:
    for package in PACKAGES:
        shutil.copytree(ROOT / package, folder / package, ignore=shutil.ignore_patterns("__pycache__"))
    return folder


def _with_second(folder: Path, added: str) -> Path:
    _copied(folder)
    shutil.copy(Path(__file__).parent / "second.py", folder / "graph" / "second.py")
    versions = folder / "graph" / "versions.py"
    text = versions.read_text(encoding="utf-8")
    assert text.endswith(_SERVED), "what is served is told last, so that it can be told again"
    versions.write_text(text + added + _SERVED, encoding="utf-8")
    return folder
