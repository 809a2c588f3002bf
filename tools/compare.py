"""Compare an answer with the same answer from another way, cell by cell.

Integers, text, dates and booleans must be equal, numbers equal to one part in 10^9: two orders of adding the same
doubles differ by far less, and a wrong figure by far more. Where large numbers cancelled out, what is left has no such
relative precision; there the second answer gives an absolute floor (`tools.recompute.Recomputed`).

The order of the rows counts. Only rows with inexact values that are equal within that tolerance may stand in each
other's place, since the last digit of such a sum decides which of them comes first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from tools.query_values import JsonScalar

RELATIVE: Final = 1e-9
NUMERIC: Final = frozenset({"number", "decimal"})
WHOLE: Final = frozenset({"integer", "bigint"})

Row: TypeAlias = Sequence[JsonScalar]


@dataclass(frozen=True, kw_only=True)
class Difference:
    """Where two answers differ: `row` counts from 0; row and column are None when it is about the whole answer."""

    row: int | None
    column: str | None
    first: JsonScalar
    second: JsonScalar

    def __str__(self) -> str:
        """A sentence for the report of the test."""
        if self.column is None:
            return f"The answer has {self.first}, computed again it has {self.second}."
        where = f'"{self.column}"' if self.row is None else f'"{self.column}" in row {self.row + 1}'
        return f"{where} is {_shown(self.first)}, computed again it is {_shown(self.second)}."


def compare(result: Mapping[str, Any], again: Mapping[str, Any], rel_tol: float = RELATIVE) -> list[Difference]:
    """All differences between an answer and its second computation; none means that they agree.

    `result` is a stored result ({"columns", "rows", "total_rows", "truncated"}), `again` a `Recomputed` or the result
    of a re-execution. Of an answer that was truncated, the kept rows and the number of all rows are compared.
    """
    columns = _column_differences(result["columns"], again["columns"])
    if columns:
        return columns
    differences: list[Difference] = []
    expected_rows = _row_count(again)
    if result["total_rows"] != expected_rows:
        differences.append(_whole(f"{result['total_rows']} rows", f"{expected_rows} rows"))
    if not result["truncated"] and len(result["rows"]) != result["total_rows"]:
        differences.append(_whole(f"{len(result['rows'])} rows", f"a count of {result['total_rows']}"))
    kinds = [str(column["type"]) for column in again["columns"]]
    if again.get("by_value") and len({_keys(row, kinds) for row in result["rows"]}) < len(result["rows"]):
        differences.append(_whole("a group in two rows", "each group in one"))
    names = [str(column["name"]) for column in again["columns"]]
    for position, row, expected, floor in _pairs(result["rows"], again, kinds, rel_tol):
        for at, (first, second) in enumerate(zip(row, expected, strict=True)):
            if not _equal(kinds[at], first, second, rel_tol, floor if at == len(kinds) - 1 else 0.0):
                differences.append(Difference(row=position, column=names[at], first=first, second=second))
    return differences


def _column_differences(first: Sequence[Mapping[str, str]], second: Sequence[Mapping[str, str]]) -> list[Difference]:
    if len(first) != len(second):
        return [_whole(f"{len(first)} columns", f"{len(second)} columns")]
    return [
        Difference(row=None, column=one["name"], first=_described(one), second=_described(other))
        for one, other in zip(first, second, strict=True)
        if one["name"] != other["name"] or _family(one["type"]) != _family(other["type"])
    ]


def _pairs(
    rows: Sequence[Row], again: Mapping[str, Any], kinds: Sequence[str], rel_tol: float
) -> Iterator[tuple[int, Row, Row, float]]:
    """Each row of the answer with the one it should equal, and the floor for its value."""
    expected: Sequence[Row] = again["rows"]
    floors: Sequence[float] = again.get("floors") or [0.0] * len(expected)
    by_keys = {_keys(row, kinds): at for at, row in enumerate(expected)} if again.get("by_value") else {}
    for position, row in enumerate(rows[: len(expected)]):
        at = by_keys.get(_keys(row, kinds), position)
        floor = min(floors[at], floors[position])
        if not (floor and _equal(kinds[-1], expected[at][-1], expected[position][-1], rel_tol, 2 * floor)):
            at = position  # exact values: their order is settled, and ties are by the keys
        yield position, row, expected[at], floors[at]


def _keys(row: Row, kinds: Sequence[str]) -> tuple[object, ...]:
    return tuple(_plain(kind, cell) for kind, cell in zip(kinds[:-1], row, strict=False))


def _equal(kind: str, first: JsonScalar, second: JsonScalar, rel_tol: float, floor: float) -> bool:
    one, other = _plain(kind, first), _plain(kind, second)
    if isinstance(one, float) and isinstance(other, float):
        return abs(one - other) <= max(rel_tol * abs(other), floor)
    return type(one) is type(other) and one == other  # in Python True is 1


def _plain(kind: str, cell: JsonScalar) -> JsonScalar:
    """A cell without the forms that JSON forces on it: large integers and long decimals stand as text."""
    if cell is None or isinstance(cell, bool):
        return cell
    try:
        if kind in NUMERIC:
            return float(cell)
        if kind in WHOLE and isinstance(cell, str):
            return int(cell)
    except ValueError:  # no number at all, and so no equal of one
        return cell
    return cell


def _family(kind: str) -> str:
    """Types that hold the same values: which one is named depends on the largest value among the kept rows."""
    if kind in WHOLE:
        return "integer"
    return "number" if kind in NUMERIC else kind


def _row_count(again: Mapping[str, Any]) -> int:
    if "total_rows" in again:
        return int(again["total_rows"])
    limit: int | None = again["limit"]
    return len(again["rows"]) if limit is None else min(limit, len(again["rows"]))


def _whole(first: str, second: str) -> Difference:
    return Difference(row=None, column=None, first=first, second=second)


def _described(column: Mapping[str, str]) -> str:
    return f"{column['name']} ({column['type']})"


def _shown(cell: JsonScalar) -> str:
    return "empty" if cell is None else f'"{cell}"' if isinstance(cell, str) else str(cell)
