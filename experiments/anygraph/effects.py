"""What is counted in the world: effects, by what their owner names.

    refunds=sql:sqlite:///shop.db|select id, amount from refunds where thread = '{thread_id}'    each row is one
    refunds=sql:postgresql://localhost/shop|select count(*) from refunds                         or a count
    mails=file:outbox.txt                                                                        each line is one
    tickets=http://localhost:8000/tickets?order={thread_id}                                      a JSON list, or a count
    orders=python:shop.py:orders                                                                 a list, or a count

An effect is a JSON value; where only a number is known, each is null. With `{thread_id}` (or a Python function that
takes it) an effect belongs to one thread, so threads can be tried side by side. Without, it is what came between before
and after, so they are tried one by one.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from experiments.anygraph.errors import GraphError
from experiments.anygraph.request import THREAD_ID

Kind = Literal["sql", "file", "http", "python"]
Seen = list[Any]

_SPEC = re.compile(r"(?:(?P<name>[A-Za-z][\w .-]*)=)?(?P<kind>sql|file|http|https|python):(?P<rest>.+)", re.DOTALL)
_COUNT = re.compile(r"\s*select\s+(count|sum|total)\s*\(", re.IGNORECASE)
_READS = re.compile(r"\s*(select|with|values)\b", re.IGNORECASE)
FORMS = (
    "sql:DSN|SELECT …, file:PATH, http://… or python:file.py:function, with a name in front as in mails=file:out.txt"
)
HTTP_SECONDS = 10.0


@dataclass(frozen=True, kw_only=True)
class Effect:
    """One kind of effect. `where` is its connection string, path, address or file; `what` the query or function."""

    name: str
    kind: Kind
    where: str
    what: str = ""

    @property
    def of_thread(self) -> bool:
        """Does what is counted belong to one thread?"""
        return THREAD_ID in self.where or THREAD_ID in self.what


def parse_effects(texts: Sequence[str]) -> tuple[Effect, ...]:
    """The values of `--effects`; GraphError with what is wrong."""
    if not texts:
        raise GraphError(f"Say what is to be counted with --effects: {FORMS}.")
    effects: list[Effect] = []
    for text in texts:
        effect = _parse(text, f"effects {len(effects) + 1}" if len(texts) > 1 else "effects")
        if any(effect.name == other.name for other in effects):
            raise GraphError(f"--effects: {effect.name} is there twice; give each a name of its own.")
        effects.append(effect)
    return tuple(effects)


def _parse(text: str, default: str) -> Effect:
    match = _SPEC.fullmatch(text.strip())
    if match is None:
        raise GraphError(f"--effects {text}: give it as {FORMS}.")
    name, kind, rest = match["name"] or default, match["kind"], match["rest"]
    if kind == "sql":
        dsn, bar, query = rest.partition("|")
        if not bar or not _READS.match(query):
            raise GraphError(f"--effects {text}: give it as sql:DSN|SELECT ….")
        if not re.match(r"sqlite:///.|postgres(ql)?://|\w+\s*=", dsn):
            raise GraphError(f"--effects {text}: the DSN begins with postgresql:// or sqlite:///.")
        return Effect(name=name, kind="sql", where=dsn, what=query)
    if kind == "python":
        file, _, function = rest.rpartition(":")
        if not file or not function.isidentifier():
            raise GraphError(f"--effects {text}: give it as python:file.py:function.")
        if not Path(file).expanduser().is_file():
            raise GraphError(f"--effects {text}: there is no file {file}.")
        return Effect(name=name, kind="python", where=str(Path(file).expanduser().resolve()), what=function)
    if kind == "file":
        return Effect(name=name, kind="file", where=str(Path(rest).expanduser().absolute()))
    return Effect(name=name, kind="http", where=f"{kind}:{rest}")


def look(effect: Effect, thread_id: str) -> Seen:
    """All effects of this kind that are there now, a Python function's apart; GraphError when that cannot be said."""
    where, what = (text.replace(THREAD_ID, thread_id) for text in (effect.where, effect.what))
    looks: dict[str, Callable[[], Seen]] = {
        "sql": lambda: _rows(where, what),
        "file": lambda: _lines(Path(where)),
        "http": lambda: _answer(where),
    }
    try:
        return looks[effect.kind]()
    except GraphError:
        raise
    except Exception as error:  # whatever a database or a server says of itself
        raise failed(effect, error) from error


def failed(effect: Effect, error: object) -> GraphError:
    """An effect that cannot be counted, with the first line of why."""
    said = f"{type(error).__name__}: {error}" if isinstance(error, BaseException) else str(error)
    return GraphError(f"The effects {effect.name!r} cannot be counted: {said.strip().splitlines()[0].rstrip('.')}.")


def normal(value: object) -> Seen:
    """A list as it is, a count as so many nulls."""
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return [None] * value
    if isinstance(value, list | tuple | set | frozenset):
        items: list[Any] = list(value)  # pyright: ignore[reportUnknownArgumentType] - anything that they return
        return json.loads(json.dumps(items, default=str, sort_keys=True))
    raise ValueError(f"neither a list nor a count, but {type(value).__name__}")


def _rows(dsn: str, query: str) -> Seen:
    names, rows = (_sqlite if dsn.startswith("sqlite:///") else _postgres)(dsn, query)
    if len(names) == 1 and len(rows) == 1 and _COUNT.match(query):
        return normal(int(rows[0][0] or 0))
    if len(names) == 1:
        return [_text(row[0]) for row in rows]
    return [{name: _text(cell) for name, cell in zip(names, row, strict=True)} for row in rows]


def _sqlite(dsn: str, query: str) -> tuple[list[str], list[Any]]:
    path = Path(dsn.removeprefix("sqlite:///")).expanduser().absolute()
    if not path.exists():
        return [], []  # whoever writes the first effect makes it
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, timeout=HTTP_SECONDS)) as connection:
        cursor = connection.execute(query)
        return [column[0] for column in cursor.description], cursor.fetchall()


def _postgres(dsn: str, query: str) -> tuple[list[str], list[Any]]:
    import psycopg

    with psycopg.connect(dsn) as connection:
        connection.read_only = True
        cursor = connection.execute(query.encode())
        return [column.name for column in cursor.description or ()], cursor.fetchall()


def _text(cell: object) -> str | None:
    return None if cell is None else str(cell)


def _lines(path: Path) -> Seen:
    """Lines that are JSON objects are taken as such, so that one of their fields can differ from run to run."""
    if not path.exists():
        return []
    lines = [line for line in path.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    return [_object_or_text(line) for line in lines]


def _object_or_text(line: str) -> Any:
    try:
        return json.loads(line) if line.lstrip().startswith("{") else line
    except ValueError:
        return line


def _answer(address: str) -> Seen:
    import httpx

    answer = httpx.get(address, timeout=HTTP_SECONDS, follow_redirects=True)
    if answer.status_code != 200:
        raise ValueError(f"{address} answers {answer.status_code}")
    return normal(answer.json())
