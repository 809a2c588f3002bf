"""Postgres behind named statements: a pool of direct connections whose search_path is one schema.

Parameters are merged into the text here (libpq quotes them), since only the simple query protocol takes several
statements in one message. So a transaction costs few exchanges. The statements that are asked for most are prepared
once for each connection, by SQL.
"""

from __future__ import annotations

import json
import re
import select
from collections.abc import Collection, Generator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, LiteralString, cast
from weakref import WeakSet

import psycopg
from psycopg import ClientCursor, sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import TransactionStatus
from psycopg.rows import dict_row
from psycopg_pool import ConnectionPool, PoolTimeout

from onward_ledger.database.interface import (
    Answer,
    DatabaseError,
    MissingRight,
    Row,
    SchemaTooNew,
    Statement,
    Unreachable,
)
from onward_ledger.database.prepared import executing
from onward_ledger.database.statements import load_schema, load_statements

# Two processes that start at once must not both create the schema. One fixed key in the two-integer key space;
# the second half is the hash of the schema's name, so that two schemas of one server do not wait for each other.
_MIGRATION_LOCK_CLASS = 0x0A11

CONNECT_TIMEOUT_SECONDS = 10
# What was sent and is not acknowledged for so long ends a connection. Otherwise TCP would try for a quarter of an hour,
# in pauses that grow as long as the network was away: whoever waits would be back long after the network is.
NETWORK_TIMEOUT_SECONDS = 10

Connection = psycopg.Connection[dict[str, Any]]


class PostgresTransaction:
    """Named statements on one connection, in whatever transaction it is in."""

    def __init__(self, connection: Connection, statements: Mapping[str, LiteralString]) -> None:
        self.connection = connection
        self._statements = statements
        self._cursor = ClientCursor[dict[str, Any]](connection)
        self._waiting: list[str] = []

    def all(self, name: str, **params: object) -> list[Row]:
        """Every row of the named statement."""
        return self._ask(name, params).rows

    def one(self, name: str, **params: object) -> Row | None:
        """The only row of the named statement, or None."""
        return self._ask(name, params).row

    def run(self, name: str, **params: object) -> int:
        """The number of rows that the named statement changed."""
        return self._ask(name, params).count

    def at_once(self, *statements: Statement) -> list[Answer]:
        """The answer of each statement; all are one message."""
        for each in statements:
            self.send(each.name, **each.params)
        return self._flush()[-len(statements) :]

    def send(self, name: str, **params: object) -> None:
        """Put the statement into the next message."""
        bound = {k: json.dumps(v) if isinstance(v, dict | list) else v for k, v in params.items()}
        self._waiting.append(self._cursor.mogrify(self._statements[name], bound))

    def with_statements(self, statements: Mapping[str, LiteralString]) -> PostgresTransaction:
        """The same transaction with other named statements; what waits here waits there."""
        other = PostgresTransaction(self.connection, statements)
        other._waiting = self._waiting
        return other

    def begin(self) -> None:
        """Begin a transaction with the first statement: until then there is nothing that it could see or hold."""
        assert not self._waiting
        self._waiting.append("begin")

    def commit(self) -> None:
        """Send what waits, and commit."""
        if self._waiting == ["begin"]:
            return
        self._waiting.append("commit")
        self._flush()
        done = self._cursor.statusmessage
        assert done == "COMMIT", f"an error inside the transaction was ignored, so it ended with {done}"

    def roll_back(self) -> None:
        """End the transaction without a trace; what waits is dropped."""
        self._waiting.clear()
        if self.connection.info.transaction_status in (TransactionStatus.INTRANS, TransactionStatus.INERROR):
            self._cursor.execute("rollback")

    def _ask(self, name: str, params: Mapping[str, object]) -> Answer:
        self.send(name, **params)
        return self._flush()[-1]

    def _flush(self) -> list[Answer]:
        # A statement may end with a comment, so the line ends first.
        text = cast(LiteralString, "\n;\n".join(self._waiting))
        self._waiting.clear()
        cursor = self._cursor.execute(text)
        answers = [_answer(cursor)]
        while cursor.nextset():
            answers.append(_answer(cursor))
        return answers


def _answer(cursor: psycopg.Cursor[dict[str, Any]]) -> Answer:
    return Answer(cursor.fetchall() if cursor.description else [], cursor.rowcount)


class PostgresDatabase:
    """Named statements on Postgres.

    `conninfo` is any libpq connection string; `schema` is created where missing and is the whole search_path, so
    nothing of ours lands in `public`. `options` become start-up options of every connection (they survive a
    reconnection; `SET` would leak to the next user of a pooled connection). `clock` overrides `onward_now()` in tests.
    `prepared` names the statements that are to be prepared: those of calls that are made over and over.
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
        prepared: Collection[str] = (),
    ) -> None:
        self._schema = schema
        self._folder = folder
        self._statements = load_statements(folder)
        self._preparing: LiteralString
        self._preparing, calls = executing(self._statements, prepared)
        self._calls: dict[str, LiteralString] = {**self._statements, **calls}
        self._ready: WeakSet[Connection] = WeakSet()  # connections on which these are prepared
        settings = {"search_path": schema, "timezone": "UTC", **(options or {})}
        if clock is not None:
            settings["onward.now"] = clock.isoformat()
        self.conninfo = connection_string(conninfo, application_name, settings)
        self._new_name: str | None = None
        self._pool: ConnectionPool[Connection] = ConnectionPool(
            self.conninfo,
            connection_class=Connection,
            min_size=0,
            max_size=max_connections,
            open=False,
            timeout=CONNECT_TIMEOUT_SECONDS,
            kwargs={"autocommit": True, "row_factory": dict_row, "prepare_threshold": None},
            name=application_name,
        )

    @contextmanager
    def transaction(self) -> Generator[PostgresTransaction]:
        """One transaction on a connection that was seen alive just before."""
        with self._prepared() as connection:
            tx = PostgresTransaction(connection, self._calls)
            tx.begin()
            try:
                yield tx
                tx.commit()
            except BaseException:
                with suppress(psycopg.OperationalError):  # the session is over, and the transaction with it
                    tx.roll_back()
                raise

    @contextmanager
    def reading(self) -> Generator[PostgresTransaction]:
        """The same: readers of Postgres wait for no writer."""
        with self.transaction() as tx:
            yield tx

    def at_once(self, *statements: Statement) -> list[Answer]:
        """One message, which the server treats as one transaction; each statement has a snapshot of its own."""
        with self._prepared() as connection:
            return PostgresTransaction(connection, self._calls).at_once(*statements)

    def read(self, name: str, **params: object) -> list[Row]:
        """The rows of one statement; it needs no transaction around it."""
        with self._prepared() as connection:
            return PostgresTransaction(connection, self._calls).all(name, **params)

    @contextmanager
    def connection(self) -> Generator[Connection]:
        """A pooled connection in autocommit mode; errors of the driver become this package's."""
        self._pool.open()
        try:
            connection = self._seen_alive()
            try:
                self._name(connection)
                yield connection
            except psycopg.errors.InsufficientPrivilege as error:
                raise MissingRight(_grant_hint(self._schema, error, connection)) from error
            finally:
                self._pool.putconn(connection)
        except PoolTimeout as error:
            raise Unreachable(f"Postgres does not answer: {_why_unreachable(self.conninfo)}") from error
        except psycopg.OperationalError as error:
            raise Unreachable(f"The connection to Postgres was lost: {_first_line(error)}") from error

    @contextmanager
    def _prepared(self) -> Generator[Connection]:
        """A pooled connection on which the statements are prepared: one exchange when it is used first."""
        with self.connection() as connection:
            if self._preparing and connection not in self._ready:
                connection.execute(self._preparing)
                self._ready.add(connection)
            try:
                yield connection
            except psycopg.errors.InvalidSqlStatementName as error:
                raise DatabaseError(
                    "A prepared statement is gone: this connection goes through a pooler in transaction mode, which "
                    "takes the session's lock away too. Connect to Postgres directly."
                ) from error
            except psycopg.errors.FeatureNotSupported as error:  # "cached plan must not change result type"
                connection.close()
                raise Unreachable(f"Another version has changed the tables meanwhile: {_first_line(error)}") from error

    def _seen_alive(self) -> Connection:
        """A connection that stands; one that died idle is replaced at once (the pool's check waits 1 s)."""
        for _ in range(self._pool.max_size):
            connection = self._pool.getconn()
            try:
                check_alive(connection)
            except psycopg.OperationalError:
                self._pool.putconn(connection)
            else:
                return connection
        return self._pool.getconn()

    def _name(self, connection: Connection) -> None:
        name = self._new_name
        if name is not None and connection.info.parameter_status("application_name") != name:
            connection.execute("select set_config('application_name', %s, false)", (name,))

    def rename(self, application_name: str) -> None:
        """From now on its sessions go by this name: new ones from their start, old ones when they are used next."""
        self._new_name = application_name
        self.conninfo = make_conninfo(self.conninfo, application_name=application_name)
        self._pool.conninfo = self.conninfo

    @property
    def version(self) -> int:
        """The version of the schema that this software knows."""
        return load_schema(self._folder)[0]

    def migrate(self) -> None:
        """Create or upgrade the schema under an advisory lock."""
        version, schema_sql, migrations = load_schema(self._folder)
        if self._version_at_a_glance() == version:
            return
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

    def _version_at_a_glance(self) -> int | None:
        """The version that was committed, where there is one: nearly always ours, and then no lock is needed."""
        with self.connection() as connection, suppress(psycopg.errors.UndefinedTable):
            row = connection.execute("select version from schema_version").fetchone()
            return int(row["version"]) if row else None
        return None

    def now(self) -> datetime:
        """The database's clock."""
        with self.connection() as connection:
            row = connection.execute("select onward_now() as now_at").fetchone()
        assert row is not None
        return row["now_at"].astimezone(UTC)

    def close(self) -> None:
        """Close the pool."""
        self._pool.close()


def check_alive(connection: psycopg.Connection[Any]) -> None:
    """Raise OperationalError when an idle connection is over.

    Its end, and whatever else a server says without being asked, makes the socket readable; so does an error of the
    network. Only then is the server asked: a connection that is quiet costs no exchange.
    """
    socket = select.poll()
    socket.register(connection.fileno(), select.POLLIN)
    if socket.poll(0):
        connection.execute("")


def connection_string(conninfo: str, application_name: str, settings: Mapping[str, str]) -> str:
    """`conninfo` with start-up options, added to those that it already has, and TCP keepalives.

    Whitespace and backslashes inside a value are escaped as libpq's `options` asks for.
    """
    given = conninfo_to_dict(conninfo)
    added = " ".join(f"-c {key}={_escape(value)}" for key, value in settings.items())
    options = f"{given.get('options') or ''} {added}".strip()
    network = {"keepalives_idle": 5, "keepalives_interval": 2, "keepalives_count": 3}
    network |= {"tcp_user_timeout": NETWORK_TIMEOUT_SECONDS * 1000}
    return make_conninfo(
        conninfo,
        **(network | {"application_name": application_name, "options": options, "connect_timeout": 5}),
    )


def _escape(value: str) -> str:
    return re.sub(r"([\\\s])", r"\\\1", value)


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
