"""Databases behind named SQL: one small interface, two engines.

A caller names a statement and gives its parameters; the statement stands in a `.sql` file of the engine's own folder
(`sql/postgres/`, `sql/sqlite/`, the same names in both). Python holds no SQL, and no code asks which engine it has.

Conventions that the engines rely on:

* a column whose name ends in `_at` is an instant; it is a timezone-aware UTC `datetime` in Python;
* the columns named in `json_columns` hold JSON; they are `dict`, `list` or scalars in Python;
* statements that need the time call `onward_now()`, which a test can override (`clock=`), never `now()`;
* what is asked for together is one exchange with the server (`at_once`, `send`), and a plain read is one (`read`).
"""

from onward_ledger.database.interface import (
    Answer,
    Database,
    DatabaseError,
    MissingRight,
    Row,
    SchemaTooNew,
    Statement,
    Transaction,
    Unreachable,
    statement,
)
from onward_ledger.database.postgres import PostgresDatabase
from onward_ledger.database.sqlite import SqliteDatabase

__all__ = [
    "Answer",
    "Database",
    "DatabaseError",
    "MissingRight",
    "PostgresDatabase",
    "Row",
    "SchemaTooNew",
    "SqliteDatabase",
    "Statement",
    "Transaction",
    "Unreachable",
    "statement",
]
