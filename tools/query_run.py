"""One query, from tables in parquet files to JSON rows. It runs in the child of `tools.query_child`, which may die.

The order is the protection: check the text, load the tables, then take away files, extensions and settings, and only
then let the query run. After `confine` not even this module could read a file through the connection.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

import duckdb

from tools import frames
from tools.errors import QueryError
from tools.query_rules import check_select
from tools.query_values import JsonScalar, column_type, expression, json_column

# One thread, and none for reading ahead: sums of doubles differ between runs otherwise. No temporary directory: a query
# that does not fit into its memory fails. Without replacements a query cannot name Python's variables as tables.
CONFIGURATION: Final[Mapping[str, str | bool | int]] = {
    "threads": 1,
    "async_threads": 0,
    "temp_directory": "",
    "preserve_insertion_order": True,
    "enable_external_file_cache": False,
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "allow_community_extensions": False,
    "allow_persistent_secrets": False,
    "python_enable_replacements": False,
}
FETCHED_AT_ONCE: Final = 64  # rows; a row can be large, and the reply's byte limit is checked between fetches
OVER_MEMORY: Final = "The query needs more memory than it may use."
LONGEST_MESSAGE: Final = 2_000  # characters of DuckDB's own error text


def answer(request: Mapping[str, Any]) -> bytes:
    """The reply to one request, as a message: the answer, or {"error": {"kind", "message"}}.

    An answer is {"columns": [{"name", "type"}], "rows", "total_rows", "truncated", "notes"}.
    """
    try:
        return frames.pack(_run(request))
    except QueryError as error:
        return _failure(error.kind, error.message)
    except (MemoryError, duckdb.OutOfMemoryException):
        return _failure("memory", OVER_MEMORY)
    except duckdb.PermissionException as error:
        return _failure("refused", str(error))
    except Exception as error:  # the child has no other way to tell, not even of a defect of its own
        if "bad_alloc" in str(error):  # memory that DuckDB does not count, refused by the system
            return _failure("memory", OVER_MEMORY)
        known = isinstance(error, duckdb.Error)
        return _failure("failed", str(error) if known else f"{type(error).__name__}: {error}")


def connect(memory_bytes: int) -> duckdb.DuckDBPyConnection:
    """An empty database in memory that may still read the files of the tables."""
    config: dict[str, str | bool | int | float | list[str]] = {**CONFIGURATION, "memory_limit": f"{memory_bytes}B"}
    return duckdb.connect(":memory:", config=config)


def load(connection: duckdb.DuckDBPyConnection, sheet: str, path: str) -> None:
    """Load a parquet file as the table named like its sheet. Rows keep their order."""
    source = [_no_wildcards(path)]
    table = f"CREATE TABLE {quoted(sheet)} AS SELECT * FROM read_parquet(?, hive_partitioning=false)"  # noqa: S608 - quoted
    connection.execute(table, source)
    described = connection.execute("SELECT name FROM parquet_schema(?)", source).fetchall()
    loaded = connection.table(quoted(sheet)).columns
    if [name for (name,) in described[1:]] != loaded:  # the first is the root of the schema
        raise QueryError("failed", f'The columns of the sheet "{sheet}" cannot keep their names in a query.')


def confine(connection: duckdb.DuckDBPyConnection) -> None:
    """Take files, extensions and settings away from the connection, for good."""
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute("SET disabled_filesystems = 'LocalFileSystem'")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")


def quoted(name: str) -> str:
    """A name as SQL writes it, whatever is in it."""
    return '"' + name.replace('"', '""') + '"'


def _run(request: Mapping[str, Any]) -> dict[str, Any]:
    sql, limits = str(request["sql"]), request["limits"]
    connection = connect(limits["memory_bytes"])
    wanted = check_select(connection, sql)
    sheets = {str(table["sheet"]): str(table["path"]) for table in request["tables"]}
    for sheet, path in sheets.items():
        if sheet.lower() in wanted:  # a workbook can be larger than what one query may use
            load(connection, sheet, path)
    confine(connection)
    try:
        return collect(connection, sql, _free_name(sheets), limits)
    except duckdb.CatalogException as error:
        raise QueryError(
            "failed", f"{_shortened(str(error))}\nThe tables are: {', '.join(map(quoted, sheets))}."
        ) from error


def collect(connection: duckdb.DuckDBPyConnection, sql: str, name: str, limits: Mapping[str, int]) -> dict[str, Any]:
    """Run the query into a table of its own, so that its rows can be counted without bringing all of them to Python."""
    relation = connection.sql(sql)
    names, ids = _unique(relation.columns), [str(kind.id) for kind in relation.types]
    types = [column_type(kind, column) for kind, column in zip(ids, names, strict=True)]
    relation.create(name)
    total = len(connection.table(name))
    select = ", ".join(expression(position, kind) for position, kind in enumerate(ids, start=1))
    kept = f"SELECT {select} FROM {name} LIMIT ?"  # noqa: S608 - made of positions and a name of our own
    rows = _fetch(connection.execute(kept, [limits["rows"]]), limits["reply_bytes"])
    return _reply(names, types, rows, total)


def _fetch(cursor: duckdb.DuckDBPyConnection, most_bytes: int) -> list[tuple[object, ...]]:
    """Rows until the end, or until their text is longer than the reply may be."""
    rows: list[tuple[object, ...]] = []
    size = 0
    while some := cursor.fetchmany(FETCHED_AT_ONCE):
        for row in some:
            size += len(json.dumps(row, default=str, ensure_ascii=False).encode()) + 1
            if size > most_bytes:
                return rows
            rows.append(row)
    return rows


def _reply(names: list[str], types: list[str], rows: list[tuple[object, ...]], total: int) -> dict[str, Any]:
    columns: list[dict[str, str]] = []
    cells: list[list[JsonScalar]] = []
    notes: list[str] = []
    for position, (name, kind) in enumerate(zip(names, types, strict=True)):
        shown, values, note = json_column(kind, [row[position] for row in rows], name)
        columns.append({"name": name, "type": shown})
        cells.append(values)
        notes += [note] if note else []
    return {
        "columns": columns,
        "rows": [list(row) for row in zip(*cells, strict=True)],
        "total_rows": total,
        "truncated": total > len(rows),
        "notes": notes,
    }


def _unique(names: Sequence[str]) -> list[str]:
    """Column names of an answer, each one once (case aside): a second "x" becomes "x (2)"."""
    taken: set[str] = set()
    unique: list[str] = []
    for name in names:
        candidate, number = name, 2
        while candidate.lower() in taken:
            candidate, number = f"{name} ({number})", number + 1
        taken.add(candidate.lower())
        unique.append(candidate)
    return unique


def _free_name(sheets: Mapping[str, str]) -> str:
    name = "answer"
    while name in {sheet.lower() for sheet in sheets}:
        name += "_"
    return name


def _no_wildcards(path: str) -> str:
    """A path that means itself, where DuckDB expects a pattern."""
    return "".join(f"[{character}]" if character in "*?[" else character for character in path)


def _failure(kind: str, message: str) -> bytes:
    return frames.pack({"error": {"kind": kind, "message": _shortened(message)}})


def _shortened(message: str) -> str:
    return message if len(message) <= LONGEST_MESSAGE else message[:LONGEST_MESSAGE] + " …"
