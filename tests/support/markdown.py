"""Markdown as far as tests of the documents read it: tables, code, links, anchors."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

_FENCE = re.compile(r"^ *```(\w*)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"`([^`\n]+)`")


@dataclass(frozen=True)
class Document:
    """One Markdown file."""

    path: Path
    text: str

    @property
    def prose(self) -> str:
        """The text without fenced blocks."""
        return _FENCE.sub("", self.text)

    def blocks(self, language: str | None = None) -> list[str]:
        """The fenced blocks (of one language)."""
        return [body for tag, body in _FENCE.findall(self.text) if language in (None, tag)]

    def spans(self) -> list[str]:
        """What stands in backticks outside of fenced blocks."""
        return _CODE.findall(self.prose)

    def table(self, *header: str) -> list[list[str]]:
        """The rows of the one table with this header. Cells are as written."""
        found = [rows for names, rows in self.tables() if names == list(header)]
        assert len(found) == 1, f"{self.path.name} has {len(found)} tables {header}"
        assert found[0], f"{self.path.name}: the table {header} is empty"
        return found[0]

    def tables(self) -> Iterator[tuple[list[str], list[list[str]]]]:
        """Header and rows of every table."""
        for found in re.finditer(r"(?:^ *\|.*\|\n?)+", self.prose, re.MULTILINE):
            header, line, *rows = (_cells(row) for row in found.group().strip().splitlines())
            assert all(set(cell) <= set("-: ") for cell in line), f"{self.path.name}: {found.group()[:80]} is no table"
            assert all(len(row) == len(header) for row in rows), f"{self.path.name}: uneven rows under {header}"
            yield header, rows

    def links(self) -> list[str]:
        """The targets of every link."""
        return re.findall(r"\[[^\]]+\]\(([^)\s]+)\)", self.prose)

    def anchors(self) -> set[str]:
        """What `#…` can point to, by GitHub's rule."""
        headings = re.findall(r"^#+ (.*)$", self.prose, re.MULTILINE)
        return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def _cells(row: str) -> list[str]:
    return [cell.strip() for cell in row.strip().strip("|").split("|")]


def codes(cell: str) -> list[str]:
    """What stands in backticks in a cell."""
    return _CODE.findall(cell)


def document(name: str) -> Document:
    """A document of the repository, by its path from the root."""
    path = ROOT / name
    return Document(path, path.read_text(encoding="utf-8"))


def documents() -> list[Document]:
    """Every Markdown file that git knows or would add."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    return [document(name) for name in listed if (ROOT / name).is_file()]
