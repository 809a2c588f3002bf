"""Choke points against the real libraries: what is told, in which order; and nothing is told of what does nothing."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import aiosqlite
import httpx
import obstore
import pytest
from obstore.store import LocalStore

from experiments.choke.children import program
from experiments.choke.http import request_label
from experiments.choke.postgres import statement_label
from tests.support.watched import Passed, watched_here


@pytest.fixture
def passed() -> Iterator[Passed]:
    with watched_here() as passed:
        yield passed


def both(*labels: str) -> list[str]:
    """Before and after each, one after the other."""
    return [f"{side} {label}" for label in labels for side in ("before", "after")]


# --- labels -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("statement", "label"),
    [
        ("insert into checkpoints (a) values (%s)", "insert into checkpoints"),
        ('INSERT  INTO "checkpoint_blobs"\n values (1) on conflict do nothing', "insert into checkpoint_blobs"),
        ("insert into a values (1) on conflict (a) do update set b = 2", "insert into a"),
        (b"delete from onward.leases where run_id = $1", "delete from onward.leases"),
        ("update runs set status = 'x' where version = 1", "update runs"),
        ("select 1 from runs where run_id = %s for update", "select from runs"),
        ("select 1 from runs for no key update of runs nowait", "select from runs"),
        ("select * from checkpoints where thread_id = %s", "select from checkpoints"),
        ("select pg_advisory_lock(1)", "select pg_advisory_lock"),
        ("with x as (insert into a values (1) returning *) update b set c = 1", "update b"),
        ("-- a comment: update nothing set\nselect now()", "select now"),
        ("/* insert into x */ begin", "begin"),
        ("", "empty query"),
        ("listen a_channel", "listen a_channel"),
    ],
)
def test_a_statement_in_a_few_words(statement: str | bytes, label: str) -> None:
    assert statement_label(statement) == label


@pytest.mark.parametrize(
    ("method", "path", "label"),
    [
        ("PUT", "/v1/actions/0b9f3c1e-aaaa-5bbb-8ccc-0123456789ab?propose=1", "PUT /v1/actions/*"),
        ("POST", "/v1/runs/0b9f3c1e-aaaa-5bbb-8ccc-0123456789ab/fence", "POST /v1/runs/*/fence"),
        ("GET", "/items/42/lines/7", "GET /items/*/lines/*"),
        ("GET", "/objects/0123456789abcdef0123456789abcdef", "GET /objects/*"),
        ("GET", "/health", "GET /health"),
    ],
)
def test_a_request_in_words_holds_no_id(method: str, path: str, label: str) -> None:
    assert request_label(method, path) == label


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ([sys.executable, "-m", "tools.reader_child", "42"], "tools.reader_child"),
        (["/usr/bin/pg_ctl", "start"], "pg_ctl"),
        ([Path("/bin/ls"), "-m"], "ls"),
        ("/bin/ls", "ls"),
    ],
)
def test_a_program_has_its_name(arguments, name: str) -> None:
    assert program(arguments) == name


# --- SQLite -----------------------------------------------------------------------------------------------------------


def test_sqlite_tells_of_writes_and_commits_and_not_of_reads(passed: Passed, tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "x.sqlite")
    connection.execute("pragma journal_mode=wal")
    connection.execute("create table t (a)")
    connection.commit()  # nothing is open
    connection.execute("insert into t values (?)", (1,))
    connection.executemany("update t set a = ?", [(2,), (3,)])
    connection.commit()
    assert connection.execute("-- how many\nselect count(*) from t").fetchone() == (1,)
    connection.cursor().execute("delete from t")
    connection.rollback()
    connection.rollback()
    connection.close()
    done = ("create table t (a)", "insert into t", "update t", "commit", "delete from t", "rollback")
    assert passed.words == both(*done)


def test_sqlite_statements_that_begin_and_commit_by_themselves(passed: Passed) -> None:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.executescript("create table t (a); create table u (a);")
    connection.execute("begin immediate")
    connection.execute("insert into t values (1)")
    connection.execute("commit")
    assert passed.labels == ["script", "begin immediate", "insert into t", "commit"]
    connection.close()


def test_sqlite_commits_at_the_end_of_a_with_block(passed: Passed) -> None:
    connection = sqlite3.connect(":memory:")
    with connection:
        connection.execute("create table t (a)")
        connection.execute("insert into t values (1)")
    with connection:
        connection.execute("select 1")
    with pytest.raises(ValueError), connection:
        connection.execute("delete from t")
        raise ValueError
    assert connection.execute("select count(*) from t").fetchone() == (1,)
    assert passed.labels == ["create table t (a)", "insert into t", "commit", "delete from t", "rollback"]
    connection.close()


def test_sqlite_tells_of_a_statement_that_fails(passed: Passed) -> None:
    connection = sqlite3.connect(":memory:")
    with pytest.raises(sqlite3.OperationalError):
        connection.execute("insert into nowhere values (1)")
    assert passed.words == both("insert into nowhere")
    connection.close()


def test_aiosqlite_is_watched_in_its_own_thread(passed: Passed, tmp_path: Path) -> None:
    async def work() -> tuple[int]:
        async with aiosqlite.connect(tmp_path / "x.sqlite") as connection:
            await connection.execute("create table t (a)")
            await connection.execute("insert into t values (1)")
            await connection.commit()
            async with connection.execute("select count(*) from t") as cursor:
                return await cursor.fetchone()

    assert asyncio.run(work()) == (1,)
    assert passed.labels == ["create table t (a)", "insert into t", "commit"]
    assert {boundary.role for boundary in passed} != {"main"}


# --- HTTP -------------------------------------------------------------------------------------------------------------


class Server:
    """Writes down in one list, with the boundaries, when a request has come and when its answer leaves."""

    def __init__(self, passed: Passed) -> None:
        self.seen: list[str] = []
        self.before_it_answers: list[str] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length", 0)))
                outer.seen.append(f"{self.path} {body.decode()}")
                outer.before_it_answers = passed.words
                self.send_response(204 if self.path != "/fails" else 500)
                self.end_headers()

            do_GET = do_POST

            def log_message(self, *args) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, name="server")
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture
def server(passed: Passed) -> Iterator[Server]:
    server = Server(passed)
    yield server
    server.close()


SENT, ANSWERED = "send POST /orders/*", "answer to POST /orders/*"
PHASES = both(SENT, ANSWERED)


def post_by_httpx(url: str) -> int:
    with httpx.Client(trust_env=False) as client:
        return client.post(url, content="x").status_code


def post_by_httpx_async(url: str) -> int:
    async def post() -> int:
        async with httpx.AsyncClient(trust_env=False) as client:
            return (await client.post(url, content="x")).status_code

    return asyncio.run(post())


def post_by_urllib(url: str) -> int:
    with urllib.request.urlopen(urllib.request.Request(url, data=b"x", method="POST")) as answer:
        return answer.status


@pytest.mark.parametrize("post", [post_by_httpx, post_by_httpx_async, post_by_urllib])
def test_a_request_is_sent_whole_before_its_answer_is_waited_for(post, passed: Passed, server: Server) -> None:
    assert post(f"{server.url}/orders/42?x=1") == 204
    assert server.seen == ["/orders/42?x=1 x"]
    assert passed.words == PHASES
    # Whoever dies after the sending has asked for the effect, and will never know: the server has all of it by then.
    assert server.before_it_answers[:1] == PHASES[:1] and PHASES[-1] not in server.before_it_answers


POSTS = {
    "httpx": "import httpx; httpx.Client(trust_env=False).post(url, content=b'x')",
    "urllib": "import urllib.request as u; u.urlopen(u.Request(url, data=b'x', method='POST'))",
}


@pytest.mark.parametrize("library", POSTS)
def test_a_process_can_die_with_its_request_sent_and_the_answer_unread(
    library: str, server: Server, tmp_path: Path
) -> None:
    told = tmp_path / "told"
    post = f"""
from pathlib import Path
from experiments import choke
from experiments.boundaries import Boundary, Watch
from experiments.nemesis import Fault, armed
from experiments.story import Story
fault = Fault(at=Boundary(role="main", label={SENT!r}, side="after"))
choke.install_all(Watch(armed(fault, Story(Path({str(told)!r})))))
url = {server.url + "/orders/42"!r}
{POSTS[library]}
print("the answer has come back")
"""
    done = subprocess.run([sys.executable, "-c", post], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (86, "", "")
    assert told.read_text() == f"CRASH after {SENT} (main)\n"
    deadline = time.monotonic() + 10
    while server.seen != ["/orders/42 x"]:  # what was sent arrives, whoever is dead
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_connection_that_is_refused_is_an_operation_that_ends(passed: Passed, server: Server) -> None:
    server.close()
    for post in (post_by_httpx, post_by_httpx_async):
        with pytest.raises(httpx.ConnectError):
            post(f"{server.url}/orders/42")
    with pytest.raises(OSError):
        post_by_urllib(f"{server.url}/orders/42")
    assert passed.words == both(SENT, SENT, SENT)


def test_the_trace_of_somebody_else_is_heard_too(passed: Passed, server: Server) -> None:
    heard: list[str] = []
    with httpx.Client(trust_env=False) as client:
        request = client.build_request("POST", f"{server.url}/orders/42", content="x")
        request.extensions["trace"] = lambda event, info: heard.append(event)
        client.send(request)
    assert passed.words == PHASES
    assert "http11.receive_response_headers.complete" in heard


# --- files, objects, children -----------------------------------------------------------------------------------------


def test_files_put_in_place(passed: Passed, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("1")
    os.replace(tmp_path / "a", tmp_path / "b")  # noqa: PTH105 - both ways are meant
    (tmp_path / "b").replace(tmp_path / "c")
    (tmp_path / "c").rename(tmp_path / "d")
    os.link(tmp_path / "d", tmp_path / "e")
    with pytest.raises(FileNotFoundError):
        (tmp_path / "never").replace(tmp_path / "f")
    done = ("replace a file", "replace a file", "rename a file", "link a file", "replace a file")
    assert passed.words == both(*done)
    assert (tmp_path / "e").read_text() == "1"


def test_objects(passed: Passed, tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    obstore.put(store, "a", b"1")
    assert bytes(obstore.get(store, "a").bytes()) == b"1"
    obstore.delete(store, "a")
    assert passed.words == both("put an object", "delete an object")


def test_children(passed: Passed) -> None:
    assert subprocess.run([sys.executable, "-c", "print(1)"], capture_output=True, text=True).stdout == "1\n"
    with pytest.raises(FileNotFoundError):
        subprocess.Popen(["/nowhere/x"])
    name = Path(sys.executable).name
    assert passed.words == both(f"start {name}", "start x")


def test_files_opened_for_writing_are_told_before_and_reading_is_not(tmp_path: Path) -> None:
    """In a process of its own: an audit hook stays for ever."""
    program = f"""
from pathlib import Path
from experiments.boundaries import Watch
from experiments.choke.files import install_opening
told = []
install_opening(Watch(lambda boundary: told.append((boundary.side, boundary.label, path.exists()))))
path = Path({str(tmp_path / "x")!r})
path.write_text("1")
path.read_text()
with path.open("a") as file:
    file.write("2")
print(told)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    opened = "open a file for writing"
    assert done.stdout == f"{[('at', opened, False), ('at', opened, True)]}\n"
