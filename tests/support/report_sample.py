"""A plan with every kind of question and its results, as the report's tests use them. Names and cells are hostile."""

from __future__ import annotations

import random
from typing import Any

HOSTILE = "<script>alert('x')</script>"
HOSTILE_SHEET = '2025 plan | "><img src=x onerror=alert(1)>'
HOSTILE_COLUMN = "product <b>name</b>"
TITLE = "Report on 销售 sales-2025.xlsx"
REGIONS = ["华东大区", "North", "South-West & Islands", "西南", "Overseas"]


def column(name: str, kind: str, nulls: int = 0, low: Any = None, high: Any = None) -> dict[str, Any]:
    counts = {"non_null": 1284 - nulls, "nulls": nulls, "distinct": 90}
    return {"name": name, "type": kind, "role": "text", **counts, "min": low, "max": high, "examples": []}


def profile() -> dict[str, Any]:
    orders = [
        column("order_id", "integer", 0, 10001, 11284),
        column("date", "date", 4, "2024-01-02", "2025-06-30"),
        column("region", "text", 13, "North", "西南"),
        column(HOSTILE_COLUMN, "text", 0, "Aeron", "Zip"),
        column("revenue", "number", 4, -450.25, 98123.5),
        column("discount", "mixed", 71),
    ]
    notes = [{"column": "discount", "kind": "mixed", "text": "The column “discount” holds 1,201 numbers and 12 texts."}]
    plan = [column("region", "text"), column("目标 2025", "number", 0, 100000, 900000)]
    return {
        "name": "销售 sales-2025.xlsx",
        "sheets": [
            {"name": "Orders", "rows": 1284, "notes": notes, "columns": orders},
            {"name": HOSTILE_SHEET, "rows": 6, "notes": [], "columns": plan},
        ],
    }


def question(identity: str, text: str, aggregate: str, measure: str | None, **other: Any) -> dict[str, Any]:
    """A typed question; `group` is a list of (column, by)."""
    group = [{"column": name, "by": by} for name, by in other.pop("group", [])]
    return {
        "id": identity,
        "text": text,
        "sheet": "Orders",
        "aggregate": aggregate,
        "measure": measure,
        "group": group,
        "filter": [],
        "order": {"by": "value", "direction": "desc"},
        "limit": None,
        "chart": "none",
        **other,
    }


def result(
    identity: str, columns: list[tuple[str, str]], rows: list[list[Any]], sql: str = "SELECT 1"
) -> dict[str, Any]:
    return {
        "question_id": identity,
        "columns": [{"name": name, "type": kind} for name, kind in columns],
        "rows": rows,
        "total_rows": len(rows),
        "truncated": False,
        "sql": sql,
    }


def plan() -> dict[str, Any]:
    by_group = {"by": "group", "direction": "asc"}
    product, quarter = [(HOSTILE_COLUMN, "value")], [("date", "quarter"), ("region", "value")]
    questions = [
        question("q1", "Total revenue", "sum", "revenue"),
        question("q2", "Revenue by month", "sum", "revenue", group=[("date", "month")], chart="line", order=by_group),
        question("q3", "Revenue by region", "sum", "revenue", group=[("region", "value")], chart="bar"),
        question("q4", "Top 3 products", "sum", "revenue", group=product, limit=3, chart="bar"),
        question("q5", "By quarter and region", "sum", "revenue", group=quarter, chart="line", order=by_group),
        question("q6", "Missing cells", "missing", None),
        question("q7", "Unusual values", "outliers", "revenue", group=[("order_id", "value")]),
    ]
    unanswered = [{"ask": "为什么 2025 年利润下降？", "reason": "It asks for a cause.", "columns": ["date", "revenue"]}]
    return {"title": TITLE, "questions": questions, "unanswered": unanswered, "language_model": None}


def results() -> dict[str, Any]:
    chance = random.Random(7)
    months = [f"{2024 + m // 12}-{m % 12 + 1:02d}" for m in range(18)]
    monthly: list[list[Any]] = [
        [m, round(210000 + 9000 * i + chance.uniform(-4e4, 5e4), 2)] for i, m in enumerate(months)
    ]
    regional: list[list[Any]] = [[r, round(1934567.1 / (i + 1), 2)] for i, r in enumerate(REGIONS)]
    quarterly = [[f"2025-Q{q}", r, chance.randrange(9000)] for q in (1, 2, 3) for r in REGIONS]
    extreme = [[17, 17 / 1280, -2310.5, 8955.25, row, 10000 + row, 98123.5 - row] for row in (4, 911, 33)]
    outliers = [("outliers", "integer"), ("share", "number"), ("lower bound", "number"), ("upper bound", "number")]
    missing = [("column", "text"), ("missing", "integer"), ("rows", "integer"), ("share", "number")]
    total = ("sum of revenue", "number")
    found = [
        result("q1", [total], [[4939020.7]], 'SELECT sum("revenue") AS "sum of revenue"\nFROM "Orders"'),
        result("q2", [("date (month)", "text"), total], [*monthly, [None, 8211.4]]),
        result("q3", [("region", "text"), total], [*regional, [None, 8211.4]]),
        result(
            "q4",
            [(HOSTILE_COLUMN, "text"), total],
            [["Aeron", 9.5], [HOSTILE, 8.25], ["**b** | `t` $x$", 7.0]],
            "LIMIT 3",
        ),
        result("q5", [("date (quarter)", "text"), ("region", "text"), ("sum of revenue", "integer")], quarterly),
        result(
            "q6", missing, [["discount", 71, 1284, 71 / 1284], ["date", 4, 1284, 4 / 1284], ["revenue", 0, 1284, 0.0]]
        ),
        result("q7", [*outliers, ("row", "integer"), ("order_id", "integer"), ("revenue", "number")], extreme),
    ]
    return {r["question_id"]: r for r in found}
