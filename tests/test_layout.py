"""The tree is what the documents say: names resolve inside the repository, and the rooms exist."""

from __future__ import annotations

import ast
import importlib.util
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


def tracked(pattern: str) -> list[Path]:
    """Files of the repository that git knows or would add."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", pattern],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    return [ROOT / line for line in listed.splitlines() if (ROOT / line).is_file()]


@pytest.mark.parametrize("name", ["graph", "tools", "runs", "experiments"])
def test_application_packages_resolve_inside_the_repository(name: str) -> None:
    spec = importlib.util.find_spec(name)
    assert spec is not None
    assert spec.origin is not None
    assert Path(spec.origin).parent == ROOT / name


def test_the_ledger_is_its_own_distribution() -> None:
    spec = importlib.util.find_spec("onward_ledger")
    assert spec is not None
    assert spec.origin is not None
    assert Path(spec.origin).parent == ROOT / "ledger/src/onward_ledger"


def test_every_dependency_says_why_it_is_there() -> None:
    """A line of a dependency list carries a comment, or stands under one that speaks for its group."""
    for file in (ROOT / "pyproject.toml", ROOT / "ledger/pyproject.toml"):
        declared = tomllib.loads(file.read_text())["project"]["dependencies"]
        text = file.read_text()
        assert declared
        for name in declared:
            line = next(line for line in text.splitlines() if line.strip().startswith((f'"{name}"', f"'{name}'")))
            assert "#" in line, f"{file.name}: {name} has no reason"


def test_sql_stands_in_sql_files() -> None:
    """Statements are named and live in .sql; Python holds session commands at most."""
    statement = re.compile(r"\b(insert\s+into|update\s+\w+\s+set|delete\s+from|select\s+.+\s+from)\b", re.IGNORECASE)
    allowed = {"tools", "experiments", "tests"}  # DuckDB queries are the job itself; experiments look from outside
    found: list[str] = []
    for file in tracked("*.py"):
        if file.relative_to(ROOT).parts[0] in allowed or "database" in file.parts:
            continue
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                is_prose = "\n" in node.value or node.value.strip().endswith(".")
                if statement.search(node.value) and not is_prose:
                    found.append(f"{file.relative_to(ROOT)}:{node.lineno}")
    assert found == []


def test_no_function_is_longer_than_a_screen() -> None:
    long: list[str] = []
    for file in tracked("*.py"):
        if file.relative_to(ROOT).parts[0] == "tests":
            continue
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or node.lineno) - node.lineno + 1
                if lines > 70:
                    long.append(f"{file.relative_to(ROOT)}:{node.lineno} {node.name}: {lines} lines")
    assert long == []


def test_no_file_is_longer_than_one_idea() -> None:
    long = [
        f"{file.relative_to(ROOT)}: {count} lines"
        for file in tracked("*.py")
        if file.relative_to(ROOT).parts[0] != "tests" and (count := len(file.read_text().splitlines())) > 400
    ]
    assert long == []
