"""The stock checkpointers, which take the place of theirs: Postgres of the experiment, or one SQLite file a thread."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Any

from experiments.anygraph.request import Store


def opened(store: Store, dsn: str) -> AbstractContextManager[Any]:
    """For invoke."""
    if store == "sqlite":
        from langgraph.checkpoint.sqlite import SqliteSaver

        return SqliteSaver.from_conn_string(dsn)
    from langgraph.checkpoint.postgres import PostgresSaver

    return PostgresSaver.from_conn_string(dsn)


def opened_async(store: Store, dsn: str) -> AbstractAsyncContextManager[Any]:
    """For ainvoke; to be entered where the event loop runs."""
    if store == "sqlite":
        from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

        return AsyncSqliteSaver.from_conn_string(dsn)
    from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver

    return AsyncPostgresSaver.from_conn_string(dsn)


def set_up(store: Store, dsn: str) -> None:
    """Make the tables once: several processes that do it at the same moment get in each other's way."""
    if store == "postgres":
        with opened(store, dsn) as saver:
            saver.setup()
