"""Workbooks for tests, written by openpyxl, and what openpyxl itself finds in them."""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Callable
from typing import Any

import openpyxl

Rows = list[list[Any]]


def xlsx(sheets: dict[str, Rows] | Rows, **parts: Callable[[str], str]) -> bytes:
    """The bytes of a workbook. `parts` change the XML of a part, by the end of its name without extension."""
    book = openpyxl.Workbook()
    del book["Sheet"]
    for name, rows in (sheets if isinstance(sheets, dict) else {"Data": sheets}).items():
        sheet = book.create_sheet(name)
        for row in rows:
            sheet.append(row)
    written = io.BytesIO()
    book.save(written)
    return rewritten(written.getvalue(), **parts) if parts else written.getvalue()


def rewritten(content: bytes, **parts: Callable[[str], str]) -> bytes:
    """The same archive with the XML of some parts changed."""
    result = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as source, zipfile.ZipFile(result, "w", zipfile.ZIP_DEFLATED) as target:
        for part in source.namelist():
            data = source.read(part)
            change = parts.get(re.sub(r"^.*/|\.\w+$", "", part))
            target.writestr(part, change(data.decode()).encode() if change else data)
    return result.getvalue()


def filled_cells(content: bytes) -> int:
    """How many cells of all sheets hold a value, as openpyxl sees it: no errors, no white space alone."""
    book = openpyxl.load_workbook(io.BytesIO(content), data_only=True)
    return sum(
        1
        for sheet in book.worksheets
        for row in sheet.iter_rows()
        for cell in row
        if cell.value is not None and str(cell.value).strip() and cell.data_type != "e"
    )
