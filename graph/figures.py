"""Figures: computed by one route in `analyze`, and by another in `test`.

A typed question is compiled to SQL and run by DuckDB, then computed again in polars from a second read of the source.
Free SQL can only be executed again on that second read, and is called re-executed, not recomputed.
"""

from __future__ import annotations

from typing import Any, cast

import polars as pl

from graph import workspace
from graph.context import Context
from graph.state import State
from graph.workspace import get_json, table_files
from tools.compare import compare
from tools.errors import QueryError, ReadsDiffer
from tools.query import TableFile
from tools.questions import compile_sql
from tools.recompute import recompute, reexecute


def answer(context: Context, state: State, question: dict[str, Any]) -> dict[str, Any] | str:
    """The result of a question, or why it has none, in words.

    Raises QueryError only when the query child died by itself, which is worth another try.
    """
    profile = get_json(context, state["profile"])
    sql = question["sql"] if "sql" in question else compile_sql(cast(Any, question), profile)
    try:
        found = context.queries().run(table_files(context, state), sql)
    except QueryError as error:
        if not error.definite:
            raise
        return error.message
    return {"question_id": question["id"], "sql": sql, **found.to_json()}


def columns_looked_at(question: dict[str, Any]) -> list[str]:
    """The columns that a question names; none for free SQL, whose text is shown instead."""
    if "sql" in question:
        return []
    named = [question["measure"], *(g["column"] for g in question["group"]), *(f["column"] for f in question["filter"])]
    return list(dict.fromkeys(c for c in named if c is not None))


def check(context: Context, state: State, step: str, results: dict[str, Any]) -> tuple[int, int, list[str]]:
    """`(recomputed, re-executed, differences in words)` over every result that the draft may point at."""
    context.recorder.progress(step, "Reading the source a second time")
    try:
        again = workspace.read_again(context, state, step)
    except ReadsDiffer as error:
        return 0, 0, [error.message]
    files = [TableFile(sheet=sheet, path=path) for sheet, path in again.items()]
    tables: dict[str, pl.DataFrame] = {}  # those that a typed question asks, each read once
    questions = [q for q in state["plan"]["questions"] if q["id"] in results]
    recomputed, reexecuted, differences = 0, 0, []
    for number, question in enumerate(questions):
        context.recorder.check()
        context.recorder.progress(step, f"Checking: {question['text']}", done=number, total=len(questions))
        if "sql" in question:
            second = reexecute(context.queries(), question["sql"], files)
            reexecuted += 1
        else:
            if question["sheet"] not in tables:
                tables[question["sheet"]] = pl.read_parquet(again[question["sheet"]])
            second = dict(recompute(cast(Any, question), tables))
            recomputed += 1
        differences += [f"{question['text']}: {d}" for d in compare(results[question["id"]], second)]
    return recomputed, reexecuted, differences
