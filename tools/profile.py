"""What a workbook holds, as JSON: every sheet, column, type, role, range and note. It depends on the cells alone.

Everything after the first read looks at this instead of the data: the plan, the checks of questions, the report's
notes, and `tools.second_read`, which finds there how the columns were read. Roles say what a column is good for:

    date         a date or datetime
    identifier   names one row or thing each: called id, no, code, 编号 … and (nearly) unique, or whole numbers that
                 count up without a gap. Numbers that are called so are never added up.
    measure      any other integer or number
    category     text, true/false or mixed values of which few are different, so that groups mean something; and
                 integers called year, month, 年份 …
    text         any other text
    empty        nothing in it
"""

from __future__ import annotations

import math
import re
from datetime import date, datetime
from typing import Any, Final, cast

import polars as pl

from tools.sheet import Column, Note, Sheet, Workbook
from tools.text_types import divided

MAX_DISTINCT: Final = 10_000  # counted no further, and the profile says so by giving this number
EXAMPLES: Final = 20  # the most frequent values of a category, so that a question can name one
FEW_EXAMPLES: Final = 5
LONGEST_EXAMPLE: Final = 200
MAX_DECIMALS: Final = 9
EXACT_SCALED: Final = 10**15  # up to here a double holds every decimal of 15 digits apart from its neighbours

_ID_WORDS: Final = frozenset(
    ("id", "ids", "uid", "uuid", "guid", "no", "nr", "num", "number", "code", "key", "sku", "ean", "isbn")
)
_ADDRESS_WORDS: Final = frozenset(("zip", "zipcode", "postcode", "plz", "phone", "tel", "ref", "reference"))
_PERIOD_WORDS: Final = frozenset(("year", "month", "quarter", "week", "weekday", "day", "hour", "jahr", "monat"))
_PERIOD_CJK: Final = re.compile("年份|年度|^年$|月份|^月$|季度|^周$|星期|^日$")
_ID_CJK: Final = re.compile("编号|代码|号码|单号|序号|编码|工号|学号|身份证|邮编|電話|电话|番号|コード|주문번호")
_COUNTING_WORDS: Final = re.compile(r"(?i)\b(number|no|num|count) of\b|数量|人数|次数|件数")


def profile(workbook: Workbook) -> dict[str, Any]:
    """Describe a workbook. Two reads of the same bytes give the same profile."""
    return {
        "name": workbook.name,
        "kind": workbook.kind,
        "sheets": [_sheet(sheet) for sheet in workbook.sheets],
        "notes": [_note(note) for note in workbook.notes],
    }


def _sheet(sheet: Sheet) -> dict[str, Any]:
    return {
        "name": sheet.name,
        "rows": sheet.table.height,
        "columns": [_column(column, sheet.table[column.name]) for column in sheet.columns],
        "notes": [_note(note) for note in sheet.notes],
        "source": {
            "index": sheet.source.index,
            "first_row": sheet.source.first_row,
            "encoding": sheet.source.encoding,
            "delimiter": sheet.source.delimiter,
        },
    }


def _note(note: Note) -> dict[str, Any]:
    return {"column": note.column, "kind": note.kind, "text": note.text, "count": note.count}


def _column(column: Column, values: pl.Series) -> dict[str, Any]:
    present = values.drop_nulls()
    distinct = present.n_unique()
    role = _role(column, present, distinct)
    ordered = column.type in ("integer", "number", "date", "datetime") and not present.is_empty()
    return {
        "name": column.name,
        "type": column.type,
        "role": role,
        "non_null": len(present),
        "nulls": values.null_count(),
        "distinct": min(distinct, MAX_DISTINCT),
        "min": as_json(present.min()) if ordered else None,
        "max": as_json(present.max()) if ordered else None,
        "examples": _examples(present, EXAMPLES if role == "category" else FEW_EXAMPLES),
        "decimals": _decimals(present) if column.type == "number" else None,
        "position": column.position,
        "format": column.format,
    }


def as_json(value: Any) -> Any:  # whatever a polars column gives
    """A cell as a JSON value: dates in ISO form, the rest as it is."""
    return value.isoformat() if isinstance(value, date | datetime) else value


def _examples(present: pl.Series, most: int) -> list[Any]:
    """The most frequent values, the more frequent first, then in their own order."""
    if present.is_empty():
        return []
    counted = present.rename("value").value_counts()
    top = counted.sort("count", "value", descending=[True, False]).head(most)["value"].to_list()
    return [as_json(value[:LONGEST_EXAMPLE] if isinstance(value, str) else value) for value in top]


def _decimals(present: pl.Series) -> int | None:
    """The fewest decimals that write every value exactly, or None when more than nine digits would be needed.

    A sum over such a column can be exact, since every value is a whole number of 10^-decimals.
    """
    if present.is_empty():
        return None
    largest = cast(float, present.abs().max())
    for decimals in range(MAX_DECIMALS + 1):
        scale = 10**decimals
        if largest * scale >= EXACT_SCALED:
            return None
        if bool((divided((present * scale).round(), scale) == present).all()):
            return decimals
    return None


def _role(column: Column, present: pl.Series, distinct: int) -> str:
    if present.is_empty():
        return "empty"
    if column.type in ("date", "datetime"):
        return "date"
    if _is_identifier(column, present, distinct):
        return "identifier"
    if column.type == "integer" and called_period(column.name):
        return "category"
    if column.type in ("integer", "number"):
        return "measure"
    return "category" if column.type == "boolean" or _is_low(present, distinct) else "text"


def _is_identifier(column: Column, present: pl.Series, distinct: int) -> bool:
    if column.type not in ("integer", "text", "mixed"):
        return False
    unique = distinct >= 0.9 * len(present)
    if called_identifier(column.name):
        return column.type == "integer" or unique
    if column.type != "integer" or distinct < len(present) or len(present) < 10:
        return False
    return cast(int, present.max()) - cast(int, present.min()) == len(present) - 1


def called_identifier(name: str) -> bool:
    """Whether a name says that its values are names of things: "Order ID", "customer_no", "orderId", "订单编号"."""
    if _COUNTING_WORDS.search(name):
        return False
    words = _words(name)
    return bool(words and words[-1] in _ID_WORDS | _ADDRESS_WORDS) or bool(_ID_CJK.search(name))


def called_period(name: str) -> bool:
    """Whether a name says that its numbers are years, months or the like, which nobody adds up."""
    words = _words(name)
    return bool(words and words[-1] in _PERIOD_WORDS) or bool(_PERIOD_CJK.search(name))


def _words(name: str) -> list[str]:
    return re.findall(r"[a-z]+", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower())


def _is_low(present: pl.Series, distinct: int) -> bool:
    """Few enough different short values to group by: at most 20; or 50 or a square root, when each comes twice."""
    if cast(float, present.str.len_chars().mean()) > 60:
        return False
    return distinct <= 20 or (distinct <= max(50, math.isqrt(len(present))) and distinct <= 0.5 * len(present))
