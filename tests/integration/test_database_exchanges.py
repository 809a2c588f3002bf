"""Several statements in one exchange: they are one transaction, on both engines, and they are no more than that."""

from __future__ import annotations

import select
import sqlite3
import uuid
from contextlib import closing
from threading import Thread

import psycopg
import pytest

from onward_ledger.database import DatabaseError, PostgresDatabase, SqliteDatabase, Unreachable, statement
from onward_ledger.database.postgres import check_alive
from tests.support.exchanges import exchanges
from tests.support.ledger import open_bed, shared_database

STATEMENTS = """
-- name: keep
-- A comment; with a semicolon, a quote ' and a percent sign.
insert into kept (number, note) values ({0}) returning number -- and one at the end

-- name: change
update kept set note = {1}

-- name: kept
select number, note from kept order by number
"""


def opened(engine, request, folder):
    """An empty database with one table, whose column refuses the note `bad`."""
    sql = folder / "sql"
    sql.mkdir()
    sqlite = engine == "sqlite"
    marks = (":number, :note", ":note") if sqlite else ("%(number)s, %(note)s", "%(note)s")
    percent = "percent sign" if sqlite else "percent sign %%"
    (sql / "statements.sql").write_text(STATEMENTS.replace("percent sign", percent).format(*marks))
    table = "create table kept (number integer primary key, note text check (note <> 'bad'));\n"
    (sql / "schema.sql").write_text(table)
    if sqlite:
        return SqliteDatabase(folder / "x.db", folder=sql, json_columns=frozenset())
    schema = f"x_{uuid.uuid4().hex}"
    return PostgresDatabase(shared_database(request), schema=schema, folder=sql, application_name="exchanges")


@pytest.fixture(params=["sqlite", "postgres"])
def database(request, tmp_path):
    with closing(opened(request.param, request, tmp_path)) as made:
        made.migrate()
        yield made


@pytest.fixture
def postgres(request, tmp_path):
    with closing(opened("postgres", request, tmp_path)) as made:
        made.migrate()
        yield made


def numbers(database):
    return [row["number"] for row in database.read("kept")]


REFUSED = (psycopg.errors.CheckViolation, sqlite3.IntegrityError)


def keep(number, note="x"):
    return statement("keep", number=number, note=note)


def test_each_statement_has_its_answer(database):
    first, changed, rows = database.at_once(keep(1, "it's 5 % \\ ok"), statement("change", note="y"), statement("kept"))
    assert (first.row, changed.count, changed.rows) == ({"number": 1}, 1, [])
    assert rows.rows == [{"number": 1, "note": "y"}]
    with database.transaction() as tx:
        assert [answer.row for answer in tx.at_once(keep(2), keep(3))] == [{"number": 2}, {"number": 3}]
        assert tx.run("change", note="z") == 3


def test_all_or_nothing(database):
    with pytest.raises(REFUSED):
        database.at_once(keep(1), keep(2, "bad"), keep(3))
    assert numbers(database) == []
    database.at_once(keep(1), keep(3))
    assert numbers(database) == [1, 3]


def test_what_is_sent_goes_with_the_next_statement_or_with_the_commit(database):
    with database.transaction() as tx:
        tx.send("keep", number=1, note="x")
        assert [row["number"] for row in tx.all("kept")] == [1]
        tx.send("keep", number=2, note="x")
    assert numbers(database) == [1, 2]


def test_an_error_of_what_was_sent_ends_the_transaction_without_a_trace(database):
    with pytest.raises(REFUSED), database.transaction() as tx:
        tx.one("keep", number=1, note="x")
        tx.send("keep", number=2, note="bad")
    assert numbers(database) == []


def test_a_block_that_raises_leaves_nothing_of_what_was_sent(database):
    with pytest.raises(ZeroDivisionError), database.transaction() as tx:
        tx.one("keep", number=1, note="x")
        tx.send("keep", number=2, note="x")
        raise ZeroDivisionError
    assert numbers(database) == []


def test_an_error_that_was_swallowed_is_no_commit(postgres):
    """Postgres answers such a commit with a rollback, and without an error."""
    with pytest.raises(AssertionError, match="ROLLBACK"), postgres.transaction() as tx:
        tx.one("keep", number=1, note="x")
        with pytest.raises(psycopg.errors.CheckViolation):
            tx.one("keep", number=2, note="bad")
    assert numbers(postgres) == []


def test_a_transaction_is_as_many_exchanges_as_it_has_questions(postgres):
    with exchanges() as seen:
        postgres.at_once(keep(1), keep(2), statement("kept"))
        assert seen.count == 1
        postgres.read("kept")
        assert seen.count == 2
        with postgres.transaction() as tx:
            tx.send("keep", number=3, note="x")
            assert seen.count == 2
            tx.all("kept")  # with begin and insert
            assert seen.count == 3
            tx.send("keep", number=4, note="x")
        assert seen.count == 4  # insert and commit
        with postgres.transaction():
            pass
        assert (seen.count, seen.connections) == (4, 0)
    assert numbers(postgres) == [1, 2, 3, 4]


def test_each_statement_of_a_message_sees_what_was_committed_before_it(postgres):
    """A message that waits behind a lock sees what the holder of the lock has committed: no snapshot is older."""
    postgres.at_once(keep(1))
    answers = []
    late = Thread(target=lambda: answers.extend(postgres.at_once(statement("change", note="y"), statement("kept"))))
    with psycopg.connect(postgres.conninfo, application_name="first") as first:
        first.execute("select from kept for update")
        first.execute("insert into kept values (2, 'x')")
        late.start()
        with psycopg.connect(postgres.conninfo, autocommit=True, application_name="look") as look:
            waiting = "select from pg_stat_activity where application_name = 'exchanges' and wait_event_type = 'Lock'"
            while look.execute(waiting).rowcount == 0:
                pass
    late.join()
    changed, rows = answers
    assert changed.count == 1, "its own snapshot is older"
    assert rows.rows == [{"number": 1, "note": "y"}, {"number": 2, "note": "x"}]


def test_a_quiet_connection_is_not_asked_and_one_that_ended_is_noticed(postgres):
    with closing(psycopg.connect(postgres.conninfo, autocommit=True)) as connection:
        with exchanges() as seen:
            check_alive(connection)
        assert seen.count == 0
        with psycopg.connect(postgres.conninfo, autocommit=True) as admin:
            admin.execute("select pg_terminate_backend(%s, 5000)", (connection.info.backend_pid,))
        with pytest.raises(psycopg.OperationalError):
            check_alive(connection)


def test_a_notice_is_no_end(postgres):
    """Whatever the server says without being asked makes the socket readable; the connection stands all the same."""
    with closing(psycopg.connect(postgres.conninfo, autocommit=True)) as connection:
        connection.execute("listen words")
        with psycopg.connect(postgres.conninfo, autocommit=True) as speaker:
            speaker.execute("notify words")
        assert select.select([connection], [], [], 5)[0], "the notification has arrived"
        check_alive(connection)
        assert connection.execute("select 1").fetchone() == (1,)


def test_a_connection_that_is_lost_in_a_message_is_told_as_such(postgres):
    with pytest.raises(Unreachable, match="lost"), postgres.transaction() as tx:
        tx.one("keep", number=1, note="x")
        with psycopg.connect(postgres.conninfo, autocommit=True) as admin:
            admin.execute("select pg_terminate_backend(%s, 5000)", (tx.connection.info.backend_pid,))
    assert numbers(postgres) == []


def test_a_database_that_is_renamed_is_known_by_the_new_name(postgres):
    def names():
        with psycopg.connect(postgres.conninfo, autocommit=True, application_name="look") as look:
            rows = look.execute("select application_name from pg_stat_activity where application_name like 'exch%'")
            return sorted(name for (name,) in rows.fetchall())

    postgres.read("kept")
    assert names() == ["exchanges"]
    postgres.rename("exchanges of a driver")
    with postgres.connection(), postgres.connection():
        assert names() == ["exchanges of a driver", "exchanges of a driver"]


@pytest.fixture
def prepared(request, tmp_path):
    """As `postgres`, with two of the statements prepared."""
    with closing(opened("postgres", request, tmp_path)) as made:
        made.migrate()
        names, folder = ("keep", "kept"), tmp_path / "sql"
        more = {"schema": made._schema, "folder": folder, "application_name": "prepared", "prepared": names}
        with closing(PostgresDatabase(shared_database(request), **more)) as database:
            yield database


def test_prepared_statements_answer_as_the_others(prepared):
    first, changed, rows = prepared.at_once(keep(1, "it's 5 % \\ ok"), statement("change", note="y"), statement("kept"))
    assert (first.row, changed.count) == ({"number": 1}, 1)
    with exchanges() as seen:
        prepared.at_once(keep(2, None), statement("kept"))
    assert (seen.count, seen.connections) == (1, 0), "they are prepared once for each connection"
    assert rows.rows == [{"number": 1, "note": "y"}]
    with prepared.connection() as connection:
        found = connection.execute(
            "select name, calls from (select name, generic_plans + custom_plans as calls "
            "from pg_prepared_statements) as used order by name"
        ).fetchall()
    assert [(row["name"], row["calls"]) for row in found] == [("keep", 2), ("kept", 2)]
    with pytest.raises(psycopg.errors.CheckViolation):
        prepared.at_once(keep(3), keep(4, "bad"))
    assert numbers(prepared) == [1, 2]


def test_behind_a_pooler_that_forgets_them_the_reason_is_told(prepared):
    prepared.at_once(keep(1))
    with prepared.connection() as connection:
        connection.execute("deallocate all")
    with pytest.raises(DatabaseError, match="pooler in transaction mode"):
        prepared.at_once(keep(2))


def test_tables_that_another_version_has_changed_cost_one_connection(prepared):
    """A prepared `select` whose columns have changed is refused by the server; a new connection prepares it anew."""
    prepared.at_once(keep(1))
    prepared.read("kept")
    with prepared.connection() as connection:
        connection.execute("alter table kept alter column note type varchar(100)")
    with pytest.raises(Unreachable, match="Another version"):
        prepared.read("kept")
    assert numbers(prepared) == [1]


def test_what_the_ledger_needs(request, tmp_path):
    """The number of exchanges of each kind of call: a change that needs more says so here."""
    with open_bed("postgres", request, tmp_path) as bed, exchanges() as seen:
        bed.put(bed.intent("first"))

        def needed(do):
            before = seen.count
            answer = do()
            return seen.count - before, answer

        fresh, saved = needed(lambda: bed.put(bed.draft()))
        replay, _ = needed(lambda: bed.put(bed.draft()))
        proposed, action = needed(lambda: bed.put(bed.publication(saved), propose=True))
        decided, _ = needed(lambda: bed.decide(action, "approve"))
        published, _ = needed(lambda: bed.put(bed.publication(saved)))
    assert (fresh, replay, proposed, decided, published) == (3, 1, 2, 6, 5)
