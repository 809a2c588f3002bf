"""The local ledger's life: started once, attached to by instance only, replaced, stopped. Real processes."""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
import threading
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import psutil
import pytest
from pydantic import SecretStr

import onward_ledger
from runs import local_ledger
from runs.errors import OtherStore, ServiceUnreachable
from runs.settings import Settings, prepare_home
from tests.support.runs_processes import Child, pause_at
from tests.support.runs_world import until

pytestmark = pytest.mark.timeout(120)


@pytest.fixture
def settings(tmp_path, monkeypatch):
    """Settings of a home of this test's own, on SQLite; its ledger is stopped at the end."""
    for name in ("DATABASE_URL", "LEDGER_DATABASE_URL", "ONWARD_LEDGER_URL", "ONWARD_LEDGER_TOKEN", "ONWARD_OBJECTS"):
        monkeypatch.delenv(name, raising=False)
    made = Settings(home=tmp_path / "home", store="sqlite")
    prepare_home(made)
    yield made
    local_ledger.stop(made)


def is_running(pid):
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_the_life_of_a_local_ledger(settings):
    """One start is slow (it imports a web server), so one test follows one ledger through its life."""
    assert local_ledger.look(settings) is None
    assert local_ledger.stop(settings) is False

    # The first command starts it: in a session of its own, on a free port, known to its owner only.
    address = local_ledger.ensure(settings)
    assert os.getsid(address.pid) == address.pid != os.getsid(0)
    for name in ("ledger-sqlite.json", "ledger-sqlite.token"):
        assert stat.S_IMODE((settings.home / name).stat().st_mode) == 0o600
    written = json.loads((settings.home / "ledger-sqlite.json").read_text())
    assert written["instance"] == address.instance and written["pid"] == address.pid
    assert written["version"] == onward_ledger.__version__
    assert address.token not in " ".join(psutil.Process(address.pid).cmdline())

    # Others attach.
    assert local_ledger.ensure(settings) == address
    with local_ledger.connect(settings) as client:
        health = client.health()
    assert (health.instance, health.pid) == (address.instance, address.pid)
    assert local_ledger.look(settings).instance == address.instance

    # It is killed: the next command starts another one, at the same address.
    psutil.Process(address.pid).kill()
    until(lambda: not is_running(address.pid))
    second = local_ledger.ensure(settings)
    assert second.pid != address.pid and second.instance != address.instance
    assert (second.url, second.token) == (address.url, address.token)

    # It hangs: it is replaced, not waited for.
    os.kill(second.pid, signal.SIGSTOP)
    third = local_ledger.ensure(settings)
    assert third.instance != second.instance
    assert not is_running(second.pid)

    # Stopped: nothing is left but what it recorded.
    assert local_ledger.stop(settings) is True
    assert not is_running(third.pid)
    assert local_ledger.look(settings) is None
    assert not (settings.home / "ledger-sqlite.json").exists()
    assert local_ledger.stop(settings) is False


def ensuring(folder, home):
    """One of several commands that all find no ledger."""
    pause_at(folder, "start")
    return local_ledger.ensure(Settings(home=Path(home), store="sqlite")).instance


def test_several_first_commands_start_one(settings, tmp_path):
    children = [Child(ensuring, tmp_path / f"child-{n}", str(settings.home)) for n in range(3)]
    for child in children:
        child.reached("start")
    for child in children:
        child.let_go("start")
    for child in children:
        assert child.end(60) == 0, child.told()
    assert {child.told() for child in children} == {local_ledger.look(settings).instance}


def starting(folder, home, held_at):
    """Start a ledger, and be held before its address is written: when its process is there, or when it listens."""
    wait = local_ledger._wait_until_ready

    def held(process, ready, log, log_start):
        (folder / "pid").write_text(str(process.pid))
        answer = wait(process, ready, log, log_start) if held_at == "it listens" else None
        pause_at(folder, "here")
        return answer

    local_ledger._wait_until_ready = held
    local_ledger.ensure(Settings(home=home, store="sqlite"))


@pytest.mark.parametrize("held_at", ["it is started", "it listens"])
@pytest.mark.parametrize("next_command", ["ensure", "stop"])
def test_a_ledger_whose_starter_was_killed_is_ended(settings, tmp_path, held_at, next_command):
    starter = Child(starting, tmp_path / "starter", settings.home, held_at)
    starter.reached("here")
    left = int((tmp_path / "starter" / "pid").read_text())
    starter.kill()
    assert is_running(left)  # it would serve for ever, and nobody would know where
    if next_command == "ensure":
        address = local_ledger.ensure(settings)
        with local_ledger.connect(settings) as client:
            assert client.health().pid == address.pid != left
    else:
        local_ledger.stop(settings)
    assert not is_running(left)
    assert not list(settings.home.glob("*.starting")) and not list(settings.home.glob("*.ready"))


@pytest.fixture
def living(settings, monkeypatch):
    """An address whose ledger answers; nothing is started or ended, only noted."""
    noted = []
    address = local_ledger.Address(
        url="http://127.0.0.1:1",
        pid=1,
        process_started=0.0,
        instance="i",
        version=onward_ledger.__version__,
        token_file="t",
        serves=local_ledger.serves(settings),
    )
    monkeypatch.setattr(local_ledger, "_answers", lambda address: True)
    monkeypatch.setattr(local_ledger, "_end_process", lambda address: noted.append("ended"))
    monkeypatch.setattr(local_ledger, "_start", lambda *_: noted.append("started"))
    yield address, noted
    (settings.home / "ledger-sqlite.json").unlink(missing_ok=True)


def test_one_of_this_version_and_these_stores_is_attached_to(settings, living):
    address, noted = living
    (settings.home / "ledger-sqlite.json").write_text(json.dumps(vars(address)))
    assert local_ledger.ensure(settings) == address
    assert noted == []


@pytest.mark.parametrize("change", [{"version": "0.0.1"}, {"serves": ["sqlite", "local", "s3://elsewhere"]}])
def test_another_version_or_other_stores_are_drained_and_replaced(settings, living, change):
    address, noted = living
    (settings.home / "ledger-sqlite.json").write_text(json.dumps(vars(replace(address, **change))))
    local_ledger.ensure(settings)
    assert noted == ["ended", "started"]


@pytest.mark.parametrize("content", ["", "{", "[]", '{"url": "x"}', "\x00"])
def test_a_file_that_cannot_be_understood_counts_as_none(settings, content):
    (settings.home / "ledger-sqlite.json").write_text(content)
    assert local_ledger.look(settings) is None
    assert local_ledger.stop(settings) is False


class Impostor(BaseHTTPRequestHandler):
    """Whoever has the port now."""

    def do_GET(self):
        body = json.dumps(
            {"instance": "another", "version": "1", "store": "sqlite", "objects": "x", "pid": 1, "api": "v1"}
        ).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def test_whoever_has_the_port_by_now_is_not_attached_to_and_not_killed(settings):
    server = HTTPServer(("127.0.0.1", 0), Impostor)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    (settings.home / "ledger-sqlite.token").write_text("a token of some length")
    address = local_ledger.Address(
        url=f"http://127.0.0.1:{server.server_port}",
        pid=os.getpid(),  # a reused pid: this very process, which must live
        process_started=1.0,
        instance="the one that was",
        version=onward_ledger.__version__,
        token_file=str(settings.home / "ledger-sqlite.token"),
        serves=["sqlite", "local", (settings.home / "objects").as_uri()],
    )
    (settings.home / "ledger-sqlite.json").write_text(json.dumps(vars(address)))
    assert local_ledger.look(settings) is None
    assert local_ledger._port_for(address) == 0  # taken
    assert local_ledger._port_for(replace(address, url="http://127.0.0.1:1")) in (0, 1)
    assert local_ledger._end_process(address) is False
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_ledger_that_cannot_start_says_why(settings, monkeypatch):
    (settings.home / "ledger.sqlite").mkdir()  # where its file would be
    with pytest.raises(ServiceUnreachable, match=r"did not start: .*ledger-sqlite\.log"):
        local_ledger.ensure(settings)
    assert not (settings.home / "ledger-sqlite.json").exists()


def test_an_external_ledger_is_used_and_never_started(settings, monkeypatch):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        outside = settings.model_copy(update={"ledger_url": url})
        with pytest.raises(ServiceUnreachable, match="ONWARD_LEDGER_TOKEN"):
            local_ledger.connect(outside)
        outside = outside.model_copy(update={"ledger_token": SecretStr("sesame")})
        with pytest.raises(ServiceUnreachable, match=f"The ledger at {url} cannot be used"):
            local_ledger.connect(outside)
        assert local_ledger.look(outside) is None
    assert local_ledger.ledger_id(outside) == url
    assert not (settings.home / "ledger-sqlite.json").exists()


def test_a_ledger_with_other_objects_is_a_conflict(settings):
    server = HTTPServer(("127.0.0.1", 0), Impostor)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    update = {"ledger_url": f"http://127.0.0.1:{server.server_port}", "ledger_token": SecretStr("sesame")}
    with pytest.raises(OtherStore, match="keeps objects in x"):
        local_ledger.connect(settings.model_copy(update=update))
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_ledger_s_id_tells_stores_apart_and_no_password(settings):
    def of(**update):
        return local_ledger.ledger_id(settings.model_copy(update=update))

    assert of() == of(store="postgres") == "local"
    first = of(store="postgres", database_url="postgresql://u:secret@h:5/one")
    assert "secret" not in first and "dbname=one" in first
    assert first != of(store="postgres", database_url="postgresql://u:secret@h:5/two")
    assert first == of(store="postgres", database_url="postgresql://u:other@h:5/one")
    assert of(store="postgres", database_url="x", ledger_database_url="postgresql://h/l") == "host=h dbname=l"
