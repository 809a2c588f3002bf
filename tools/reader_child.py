"""The child of `tools.reader`: reads one workbook and ends."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import polars as pl

from tools.errors import InputError, ReadsDiffer
from tools.process import die_with_parent
from tools.profile import profile
from tools.workbook import read_again, read_workbook


def main() -> None:
    """Read the request, answer it, and end with the parent at the latest."""
    request = json.loads(sys.stdin.readline())
    die_with_parent(int(sys.argv[1]), sys.stdin.fileno())
    try:
        _say({"done": _first(request) if request["task"] == "first" else _second(request)})
    except InputError as error:
        _say({"refused": error.message})
    except ReadsDiffer as error:
        _say({"differs": error.message})


def _first(request: dict[str, Any]) -> dict[str, Any]:
    workbook = read_workbook(Path(request["source"]), request["name"], progress=_progress)
    described = profile(workbook)
    tables = {sheet.name: sheet.table for sheet in workbook.sheets}
    return {"tables": _write(tables, Path(request["folder"]), "first"), "profile": described}


def _second(request: dict[str, Any]) -> dict[str, Any]:
    tables = read_again(Path(request["source"]), request["name"], request["profile"])
    return {"tables": _write(tables, Path(request["folder"]), "second"), "profile": None}


def _write(tables: dict[str, pl.DataFrame], folder: Path, prefix: str) -> list[dict[str, str]]:
    """One file for each sheet; its name is a number, since a sheet's name is the owner's text."""
    written: list[dict[str, str]] = []
    for number, (sheet, table) in enumerate(tables.items(), 1):
        path = folder / f"{prefix}-{number}.parquet"
        table.write_parquet(path)
        written.append({"sheet": sheet, "path": str(path)})
    return written


def _progress(text: str, done: int, total: int) -> None:
    _say({"progress": [text, done, total]})


def _say(value: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
