"""What the commands share that work on the store itself, beside a running service or without one."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from onward_ledger.errors import NotFound

if TYPE_CHECKING:
    from onward_ledger.database import Database

DEFAULT_STORE = "sqlite:///onward-ledger.db"
DEFAULT_SCHEMA = "onward_ledger"

StoreUrl = Annotated[
    str, typer.Option("--store", envvar="ONWARD_LEDGER_STORE", help="Where records are kept, as `serve` has it.")
]
Schema = Annotated[str, typer.Option("--schema", envvar="ONWARD_LEDGER_SCHEMA", help="The Postgres schema.")]


@contextmanager
def opened(store: str, schema: str) -> Generator[Database]:
    """The database of a store; NotFound when a SQLite file is not there, since opening it would make an empty one."""
    from onward_ledger.store import open_store  # with its drivers it is slow to import, and only needed here

    if store.startswith("sqlite:///") and not Path(store.removeprefix("sqlite:///")).expanduser().exists():
        raise NotFound(f"There is no ledger at {store}; name it with --store.")
    found = open_store(store, schema=schema)
    try:
        found.database.migrate()
        yield found.database
    finally:
        found.database.close()
