"""The run's files as nodes use them: the input read once into Parquet, JSON documents, and local copies for queries."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from graph.context import Context
from graph.state import InputRef, State, TableRef
from tools.files import Ref
from tools.query import TableFile
from tools.reader import read_first, read_second

PROGRESS_SECONDS = 0.5  # every line of progress is a row in the run's history


def take_in(context: Context, source: InputRef) -> tuple[list[TableRef], dict[str, Any]]:
    """Read the input into one staged Parquet file per sheet; their references, and the workbook's profile."""
    read = read_first(input_file(context, source), source["name"], context.scratch, _progress(context, "plan"))
    assert read.profile is not None, "a first read describes the workbook"
    tables: list[TableRef] = []
    for table in read.tables:
        context.recorder.check()
        tables.append({"sheet": table.sheet, **context.files.put(table.path.read_bytes())})
    return tables, read.profile


def read_again(context: Context, state: State, step: str) -> dict[str, Path]:
    """Read the input a second time, by the other route; the Parquet file of each sheet by its name."""
    source = state["input"]
    profile = get_json(context, state["profile"])
    path = input_file(context, source)
    return read_second(path, source["name"], context.scratch, profile, _progress(context, step))


def input_file(context: Context, source: InputRef) -> Path:
    """A local copy of the input, made once per drive, its digest checked."""
    path = context.scratch / source["digest"]
    if not path.exists():
        _write_whole(path, context.files.get(source))
    return path


def _progress(context: Context, step: str) -> Callable[[str, int, int], None]:
    shown_at = float("-inf")

    def show(text: str, done: int, total: int) -> None:
        nonlocal shown_at
        context.recorder.check()
        if time.monotonic() - shown_at >= PROGRESS_SECONDS:
            shown_at = time.monotonic()
            context.recorder.progress(step, text, done=done, total=total)

    return show


def put_json(context: Context, value: Any) -> Ref:
    """Store a JSON value as an object of the run; the same value has the same reference."""
    text = json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return context.files.put(text.encode())


def get_json(context: Context, ref: Ref) -> Any:
    """The JSON value behind a reference, its digest checked."""
    return json.loads(context.files.get(ref))


def results(context: Context, state: State) -> dict[str, Any]:
    """Every stored answer, by question id."""
    return {r["question_id"]: get_json(context, r) for r in state["results"]}


def table_files(context: Context, state: State) -> list[TableFile]:
    """Local copies of the run's tables, made once per drive: a query child reads files, not an object store."""
    found: list[TableFile] = []
    for table in state["tables"]:
        path = context.scratch / f"{table['digest']}.parquet"
        if not path.exists():
            _write_whole(path, context.files.get(table))
        found.append(TableFile(sheet=table["sheet"], path=path))
    return found


def _write_whole(path: Path, data: bytes) -> None:
    """Appear under the final name only when complete: a drive that is killed here leaves no torn table."""
    part = path.with_suffix(".part")
    part.write_bytes(data)
    part.replace(path)
