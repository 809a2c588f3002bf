"""Postgres behind named statements: a pool of direct connections whose search_path is one schema."""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, LiteralString

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.rows import dict_row
from psycopg_pool import ConnectionPool, PoolTimeout

from onward_ledger.database.interface import DatabaseError, MissingRight, Row, SchemaTooNew, Unreachable
from onward_ledger.database.statements import load_schema, load_statements

# Two processes that start at once must not both create the schema. One fixed key in the two-integer key space;
# the second half is the hash of the schema's name, so that two schemas of one server do not wait for each other.
_MIGRATION_LOCK_CLASS = 0x0A11

CONNECT_TIMEOUT_SECONDS = 10

Connection = psycopg.Connection[dict[str, Any]]


class PostgresTransaction:
    """A transaction on one pooled connection."""

    def __init__(self, connection: Connection, statements: Mapping[str, LiteralString]) -> None:
        self._connection = connection
        self._statements = statements

    def _execute(self, name: str, params: Mapping[str, object]) -> psycopg.Cursor[dict[str, Any]]:
        bound = {k: json.dumps(v) if isinstance(v, dict | list) else v for k, v in params.items()}
        return self._connection.execute(self._statements[name], bound)

    def all(self, name: str, **params: object) -> list[Row]:
        """Every row of the named statement."""
        return self._execute(name, params).fetchall()

    def one(self, name: str, **params: object) -> Row | None:
        """The only row of the named statement, or None."""
        rows = self.all(name, **params)
        assert len(rows) <= 1, f"{name} returned {len(rows)} rows where one is expected"
        return rows[0] if rows else None

    def run(self, name: str, **params: object) -> int:
        """The number of rows that the named statement changed."""
        return self._execute(name, params).rowcount


class PostgresDatabase:
    """Named statements on Postgres.

    `conninfo` is any libpq connection string; `schema` is created where missing and is the whole search_path, so
    nothing of ours lands in `public`. `options` become start-up options of every connection (they survive a
    reconnection; `SET` would leak to the next user of a pooled connection). `clock` overrides `onward_now()` in tests.
    """

    def __init__(
        self,
        conninfo: str,
        *,
        schema: str,
        folder: Path,
        application_name: str,
        options: Mapping[str, str] | None = None,
        clock: datetime | None = None,
        max_connections: int = 8,
    ) -> None:
        self._schema = schema
        self._folder = folder
        self._statements = load_statements(folder)
        settings = {"search_path": schema, **(options or {})}
        if clock is not None:
            settings["onward.now"] = clock.isoformat()
        self.conninfo = connection_string(conninfo, application_name, settings)
        self._pool: ConnectionPool[Connection] = ConnectionPool(
            self.conninfo,
            connection_class=Connection,
            min_size=0,
            max_size=max_connections,
            open=False,
            timeout=CONNECT_TIMEOUT_SECONDS,
            kwargs={"autocommit": True, "row_factory": dict_row, "prepare_threshold": None},
            configure=_in_utc,
            name=application_name,
        )

    @contextmanager
    def transaction(self) -> Generator[PostgresTransaction]:
        """One transaction on a connection that was seen alive just before."""
        with self.connection() as connection, connection.transaction():
            yield PostgresTransaction(connection, self._statements)

    @contextmanager
    def reading(self) -> Generator[PostgresTransaction]:
        """The same: readers of Postgres wait for no writer."""
        with self.transaction() as tx:
            yield tx

    @contextmanager
    def connection(self) -> Generator[Connection]:
        """A pooled connection in autocommit mode; errors of the driver become this package's."""
        self._pool.open()
        try:
            connection = self._seen_alive()
            try:
                yield connection
            except psycopg.errors.InsufficientPrivilege as error:
                raise MissingRight(_grant_hint(self._schema, error, connection)) from error
            finally:
                self._pool.putconn(connection)
        except PoolTimeout as error:
            raise Unreachable(f"Postgres does not answer: {_why_unreachable(self.conninfo)}") from error
        except psycopg.OperationalError as error:
            raise Unreachable(f"The connection to Postgres was lost: {_first_line(error)}") from error

    def _seen_alive(self) -> Connection:
        """A connection that answered just now; one that died idle is replaced at once (the pool's check waits 1 s)."""
        for _ in range(self._pool.max_size):
            connection = self._pool.getconn()
            try:
                connection.execute("")
            except psycopg.OperationalError:
                self._pool.putconn(connection)
            else:
                return connection
        return self._pool.getconn()

    def migrate(self) -> None:
        """Create or upgrade the schema under an advisory lock."""
        version, schema_sql, migrations = load_schema(self._folder)
        with self.connection() as connection, connection.transaction():
            connection.execute("select pg_advisory_xact_lock(%s, hashtext(%s))", (_MIGRATION_LOCK_CLASS, self._schema))
            found = _schema_version(connection, self._schema)
            if found is not None and found > version:
                raise SchemaTooNew(
                    f"The schema {self._schema} is at version {found}; this software knows {version}. "
                    "Use the newer version of the software, or another database."
                )
            if found is None:
                if not _schema_exists(connection, self._schema):
                    # Not "if not exists": that asks for the right to create schemas even where the schema is there.
                    connection.execute(sql.SQL("create schema {}").format(sql.Identifier(self._schema)))
                connection.execute(schema_sql)
            for number in range((found or version) + 1, version + 1):
                connection.execute(migrations[number])
            if found != version:
                connection.execute("create table if not exists schema_version (version integer not null)")
                connection.execute("delete from schema_version")
                connection.execute("insert into schema_version values (%s)", (version,))

    def now(self) -> datetime:
        """The database's clock."""
        with self.connection() as connection:
            row = connection.execute("select onward_now() as now_at").fetchone()
        assert row is not None
        return row["now_at"].astimezone(UTC)

    def close(self) -> None:
        """Close the pool."""
        self._pool.close()


def connection_string(conninfo: str, application_name: str, settings: Mapping[str, str]) -> str:
    """`conninfo` with start-up options, added to those that it already has, and TCP keepalives.

    A space or backslash inside a value is escaped as libpq's `options` asks for.
    """
    given = conninfo_to_dict(conninfo)
    added = " ".join(f"-c {key}={_escape(value)}" for key, value in settings.items())
    options = f"{given.get('options') or ''} {added}".strip()
    keepalives = {"keepalives_idle": 5, "keepalives_interval": 2, "keepalives_count": 3}
    return make_conninfo(
        conninfo,
        **(keepalives | {"application_name": application_name, "options": options, "connect_timeout": 5}),
    )


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace(" ", "\\ ")


def _in_utc(connection: Connection) -> None:
    connection.execute("set time zone 'UTC'")


def _schema_exists(connection: Connection, schema: str) -> bool:
    found = connection.execute("select to_regnamespace(%s) is not null as found", (f'"{schema}"',)).fetchone()
    return found is not None and bool(found["found"])


def _schema_version(connection: Connection, schema: str) -> int | None:
    found = connection.execute("select to_regclass(%s) as table_name", (f"{schema}.schema_version",)).fetchone()
    if found is None or found["table_name"] is None:
        return None
    row = connection.execute("select version from schema_version").fetchone()
    if row is None:
        raise DatabaseError(f"The table {schema}.schema_version is empty; restore it before going on.")
    return int(row["version"])


def _why_unreachable(conninfo: str) -> str:
    try:
        with psycopg.connect(conninfo):
            return "the pool had no free connection in time"
    except psycopg.Error as error:
        return _first_line(error)


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def _grant_hint(schema: str, error: psycopg.Error, connection: Connection) -> str:
    database, role = connection.info.dbname, connection.info.user
    return (
        f"Postgres refused: {_first_line(error)}. Ask the database's owner to run: "
        f'GRANT CREATE ON DATABASE "{database}" TO "{role}"; or, where the schema is made by the owner: '
        f'CREATE SCHEMA IF NOT EXISTS "{schema}"; GRANT ALL ON SCHEMA "{schema}" TO "{role}"; '
        f'GRANT ALL ON ALL TABLES IN SCHEMA "{schema}" TO "{role}"; '
        f'GRANT ALL ON ALL SEQUENCES IN SCHEMA "{schema}" TO "{role}";'
    )
