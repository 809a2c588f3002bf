"""The run's files as nodes use them: the input read once into Parquet, JSON documents, and local copies for queries."""

from __future__ import annotations

import io
import json
import time
from pathlib import Path
from typing import Any

from graph.context import Context
from graph.state import InputRef, State, TableRef
from tools.files import Ref
from tools.profile import profile as describe
from tools.query import TableFile
from tools.workbook import read_workbook

PROGRESS_SECONDS = 0.5  # every line of progress is a row in the run's history


def take_in(context: Context, source: InputRef) -> tuple[list[TableRef], dict[str, Any]]:
    """Read the input into one staged Parquet file per sheet; their references, and the workbook's profile."""

    shown_at = float("-inf")

    def show(text: str, done: int, total: int) -> None:
        nonlocal shown_at
        context.recorder.check()
        if time.monotonic() - shown_at >= PROGRESS_SECONDS:
            shown_at = time.monotonic()
            context.recorder.progress("plan", text, done=done, total=total)

    workbook = read_workbook(context.files.get(source), source["name"], progress=show)
    tables: list[TableRef] = []
    for sheet in workbook.sheets:
        buffer = io.BytesIO()
        sheet.table.write_parquet(buffer)
        tables.append({"sheet": sheet.name, **context.files.put(buffer.getvalue())})
        context.recorder.check()
    return tables, describe(workbook)


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
