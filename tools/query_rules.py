"""Which SQL may run at all, decided on its syntax tree before anything runs.

Exactly one SELECT. Inside it no table function but a few that only make rows (a list of the allowed, because DuckDB has
more than a hundred: some read files, some change settings, some take raw pointers), no data-modifying common table
expression, and nothing that answers otherwise the second time: a report's bytes depend on its input and its plan alone.

This is the first of two fences. The second is the locked configuration in `tools.query_run`, which knows nothing of it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

import duckdb

from tools.errors import QueryError

TABLE_FUNCTIONS: Final = frozenset({"range", "generate_series", "unnest", "repeat", "json_each", "json_tree"})
QUERY_NODES: Final = frozenset({"SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE"})

# Functions that give something else the next time. Every scalar function that DuckDB calls volatile is here (a test
# compares), but for error(), which only fails the query. "ago" and the one-argument "age" count from today.
_CLOCK: Final = {"now", "today", "ago", "transaction_timestamp", "pg_postmaster_start_time", "pg_conf_load_time"}
_CURRENT: Final = {"get_current_time", "get_current_timestamp", "current_localtime", "current_localtimestamp"}
_CHANCE: Final = {"random", "setseed", "uuid", "uuidv4", "uuidv7", "gen_random_uuid", "reservoir_quantile"}
_SESSION: Final = {"current_connection_id", "current_query", "current_query_id", "current_setting", "getvariable"}
_TRANSACTION: Final = {"current_transaction_id", "txid_current", "nextval", "currval", "setval"}
_ENGINE: Final = {"sleep_ms", "pg_sleep", "stats", "vector_type", "write_log"}
CLOCK_WORDS: Final = frozenset(  # SQL's own names for the clock; they stand in the tree like columns
    {"current_date", "current_time", "current_timestamp", "localtime", "localtimestamp"}
)
UNREPEATABLE: Final = CLOCK_WORDS.union(_CLOCK, _CURRENT, _CHANCE, _SESSION, _TRANSACTION, _ENGINE)


def check_select(connection: duckdb.DuckDBPyConnection, sql: str) -> frozenset[str]:
    """Lower-case names of the tables that a permitted query reads.

    Raises QueryError: "failed" when it is not SQL, "refused" when it may not run.
    """
    try:
        statements = connection.extract_statements(sql)
    except duckdb.ParserException as error:
        raise QueryError("failed", str(error)) from error
    if len(statements) != 1:
        raise QueryError(
            "refused", f"A query is exactly one SELECT statement; this text holds {len(statements)} statements."
        )
    if statements[0].type != duckdb.StatementType.SELECT:
        kind = statements[0].type.name.replace("_", " ")
        raise QueryError("refused", f"A query is exactly one SELECT statement; this is a {kind} statement.")
    return _check_tree(_tree(connection, sql))


def _tree(connection: duckdb.DuckDBPyConnection, sql: str) -> dict[str, Any]:
    row = connection.execute("SELECT json_serialize_sql(?)", [sql]).fetchone()
    tree = json.loads(row[0]) if row else {"error": True, "error_message": "no syntax tree"}
    if tree.get("error"):
        raise QueryError("refused", f"Only a plain SELECT can be checked before it runs: {tree.get('error_message')}")
    return tree


def _check_tree(tree: dict[str, Any]) -> frozenset[str]:
    tables: set[str] = set()
    for node in _nodes(tree):
        kind = str(node.get("type", ""))
        if kind == "BASE_TABLE":
            tables.add(str(node["table_name"]).lower())
        elif kind == "TABLE_FUNCTION":
            _check_table_function(str(node["function"]["function_name"]).lower())
        elif kind.endswith("_NODE") and kind not in QUERY_NODES:
            words = kind.removesuffix("_NODE").removesuffix("_QUERY").replace("_", " ")
            raise QueryError("refused", f"A query only reads; this one holds {_article(words)} {words}.")
        elif node.get("class") in ("FUNCTION", "COLUMN_REF"):
            _check_repeatable(node)
        if node.get("sample") is not None:
            raise QueryError(
                "refused", "A query must give the same answer each time it runs; a sample of rows does not."
            )
    return frozenset(tables)


def _check_table_function(name: str) -> None:
    if name not in TABLE_FUNCTIONS:
        allowed = ", ".join(sorted(TABLE_FUNCTIONS))
        raise QueryError(
            "refused", f'A query reads the sheets only; the table function "{name}" is not one of {allowed}.'
        )


def _check_repeatable(node: dict[str, Any]) -> None:
    """Refuse what reads clock, chance or session. A qualified x.current_date is a column; age(x, y) needs no clock."""
    names: list[str] = node.get("column_names") or []
    if names:
        name = names[0].lower() if len(names) == 1 else ""
        refused = name in CLOCK_WORDS
    else:
        name = str(node.get("function_name", "")).lower()
        refused = name in UNREPEATABLE or (name == "age" and len(node.get("arguments", ())) == 1)
    if refused:
        raise QueryError("refused", f'A query must give the same answer each time it runs; "{name}" does not.')


def _nodes(tree: object) -> Iterator[dict[str, Any]]:
    """Every object of the tree; a stack of its own, since SQL can nest deeper than Python calls may."""
    waiting = [tree]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            yield value
            waiting.extend(value.values())
        elif isinstance(value, list):
            waiting.extend(value)


def _article(word: str) -> str:
    return "an" if word[:1] in "AEIOU" else "a"
