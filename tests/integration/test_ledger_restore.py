"""A database that has forgotten what was sent is noticed, and nothing is sent until a person says so."""

import os
import shutil
import signal
import sqlite3
import threading
import uuid
from contextlib import closing

import psycopg
import pytest
from psycopg import sql

from onward_ledger import errors, protocol, watch
from onward_ledger.action import ActionKey, Intent, Status
from onward_ledger.objects import Objects
from onward_ledger.providers import providers_for
from onward_ledger.providers.interface import ProviderClass
from onward_ledger.store import identity, open_store
from onward_ledger.watch import Watch
from onward_ledger.witness import Witness
from runs import local_postgres
from tests.conftest import forget_home
from tests.support.ledger import ENGINES, Sink, draft_request, shared_database, start
from tests.support.ledger_process import ledger_process
from tests.support.local_servers import wait_for

pytestmark = pytest.mark.campaign

ROUNDS = int(os.environ.get("ONWARD_TEST_ROUNDS", "3"))


class World:
    """A ledger whose database can be backed up and restored, and a provider outside of it."""

    def __init__(self, url, folder, server):
        self.url, self.folder, self.server = url, folder, server
        self.sink = Sink(ProviderClass.OPAQUE)
        self.witness = folder / "witness"
        self.run_id = str(uuid.uuid4())
        self._served = []
        self.ledger = self.serve()

    def serve(self, witness=None):
        """What `serve` does: another instance over the same records."""
        opened = open_store(self.url)
        opened.database.migrate()
        known = identity.ensure(opened.database)
        opened.store.watch = Watch(opened.database, Witness(witness or self.witness, known.ledger_id), known)
        self._served.append(opened)
        opened.store.watch.start()
        providers = {**providers_for(Objects(str(self.folder / "objects"))), self.sink.kind: self.sink}
        self.ledger = start(opened, providers)
        return self.ledger

    @property
    def watch(self):
        return self.ledger.store.watch

    @property
    def held(self):
        return self.watch.identity.held_reason

    def stop(self):
        """Every instance ends."""
        while self._served:
            opened = self._served.pop()
            opened.store.watch.stop()
            opened.database.close()

    def intent(self, step):
        key = ActionKey(self.run_id, step, "sink")
        return Intent(key=key, kind=self.sink.kind, resource="account/1", params={"amount": 5}, epoch=1)

    def put(self, step, *, propose=False):
        return self.ledger.put(self.intent(step), propose=propose)

    def effects(self, step):
        return self.sink.effects.count(self.intent(step).key.action_id)

    def backup(self):
        """A copy of the database as it is now, which `restore` puts in its place."""
        if self.server is None:
            with closing(sqlite3.connect(self._path)) as live, closing(sqlite3.connect(self.folder / "backup")) as copy:
                live.backup(copy)
            return
        self._alone("create database {backup} template {live}")

    def restore(self):
        if self.server is None:
            for name in ("ledger.db", "ledger.db-wal", "ledger.db-shm"):
                (self.folder / name).unlink(missing_ok=True)
            shutil.copy(self.folder / "backup", self._path)
            return
        self._alone("alter database {live} rename to {lost}", "alter database {backup} rename to {live}")
        self._alone("drop database {lost}")

    @property
    def _path(self):
        return self.folder / "ledger.db"

    def _alone(self, *statements):
        live = psycopg.conninfo.conninfo_to_dict(self.url)["dbname"]
        names = {name: sql.Identifier(f"{live}{end}") for name, end in (("live", ""), ("backup", "_b"), ("lost", "_l"))}
        with psycopg.connect(self.server, autocommit=True) as admin:
            admin.execute("select pg_terminate_backend(pid, 5000) from pg_stat_activity where datname = %s", (live,))
            for statement in statements:
                admin.execute(sql.SQL(statement).format(**names))


@pytest.fixture(autouse=True)
def quiet(monkeypatch):
    """The watch looks when a test says so, and clients do not wait for what does not come back by itself."""
    monkeypatch.setattr(watch, "LOOK_SECONDS", 3600)
    monkeypatch.setattr(protocol, "RETRY_PAUSES_SECONDS", (0.01, 0.01, 0.01))


@pytest.fixture(params=ENGINES)
def world(request, tmp_path):
    yield from new_world(request, tmp_path, request.param)


@pytest.fixture
def postgres(request, tmp_path):
    yield from new_world(request, tmp_path, "postgres")


def new_world(request, tmp_path, engine):
    if engine == "sqlite":
        url, server = f"sqlite:///{tmp_path / 'ledger.db'}", None
    else:
        url, server = request.getfixturevalue("database_url"), request.getfixturevalue("postgres_server")
    made = World(url, tmp_path, server)
    yield made
    made.stop()


@pytest.mark.parametrize("lost", [1, 3])
def test_a_backup_that_was_restored_while_the_service_was_stopped_is_noticed_at_its_start(world, lost):
    kept = world.put("kept")
    world.stop()
    world.backup()
    world.serve()
    for n in range(lost):
        world.put(f"lost{n}")
    world.stop()
    world.restore()
    world.serve()

    assert world.held.startswith(f"The database has forgotten {lost} of the last claims")
    for n in range(lost):
        with pytest.raises(errors.Held, match="onward-ledger release") as refused:
            world.put(f"lost{n}")
        assert (refused.value.definite, refused.value.terminal) == (True, False)
        assert world.effects(f"lost{n}") == 1, "it is not sent again"
    with pytest.raises(errors.Held):
        world.put("new")
    assert world.put("kept").receipt == kept.receipt, "what is recorded is replayed"
    assert world.ledger.store.action(kept.action_id).status is Status.SUCCEEDED


def test_negative_control_without_a_witness_it_is_sent_again(world):
    world.stop()
    world.backup()
    world.serve()
    world.put("lost")
    world.stop()
    world.restore()
    world.serve(world.folder / "another machine")
    assert world.held is None
    world.put("lost")
    assert world.effects("lost") == 2


def test_negative_control_a_backup_that_has_everything_is_no_loss(world):
    world.put("one")
    world.put("two")
    world.stop()
    world.backup()
    world.restore()
    world.serve()
    assert world.held is None
    assert world.put("three").status is Status.SUCCEEDED


def test_a_restore_under_a_running_service_is_noticed_by_the_next_claim(postgres):
    world = postgres
    kept = world.put("kept")
    world.backup()
    world.put("lost")
    world.restore()
    assert world.put("kept").receipt == kept.receipt
    with pytest.raises(errors.Held, match="has forgotten 1 of"):
        world.put("lost")
    with pytest.raises(errors.Held):
        world.put("new")
    assert (world.effects("lost"), world.effects("new")) == (1, 0)


def test_a_restore_under_a_running_service_is_noticed_without_a_claim_too(postgres):
    world = postgres
    world.backup()
    world.put("lost")
    world.watch.look()
    assert world.held is None
    world.restore()
    world.watch.look()
    assert world.held.startswith("The database has forgotten 1 of")


def test_the_last_commit_alone_is_enough_to_be_missed_and_its_sender_is_heard(postgres, caplog):
    """As a replica leaves it that took over without the last commit: everything before is there."""
    world = postgres
    for n in range(5):
        world.put(f"kept{n}")
    world.backup()
    world.sink.script, answers = ["hang"], []
    world.sink.sending.clear()
    sending = threading.Thread(target=lambda: answers.append(error_of(world.put, "lost")))
    sending.start()
    assert world.sink.sending.wait(10), "its claim is committed, and it is being sent"
    world.restore()
    with pytest.raises(errors.Held):
        world.put("new")
    world.sink.release.set()
    sending.join()
    assert world.effects("lost") == 1
    assert isinstance(answers[0], errors.ServiceFault)
    assert f"forgotten the claim of action {world.intent('lost').key.action_id}" in caplog.text
    assert f"sink-{world.intent('lost').key.action_id[:8]}" in caplog.text, "the receipt is in the log"


def error_of(function, *arguments):
    try:
        return function(*arguments)
    except errors.LedgerError as error:
        return error


def test_what_one_machine_notices_holds_the_ledger_for_all(postgres):
    world = postgres
    first = world.ledger
    second = world.serve(world.folder / "second machine")
    second.put(world.intent("kept"), propose=False)
    world.backup()
    first.put(world.intent("lost"), propose=False)
    world.restore()
    first.store.watch.look()
    with pytest.raises(errors.Held):
        second.put(world.intent("lost"), propose=False)
    assert world.effects("lost") == 1


def test_the_database_of_another_ledger_is_told_as_such(world):
    world.put("sent")
    first = world.ledger.store.identity().ledger_id
    world.stop()
    another = "sqlite:///" + str(world.folder / "other.db") if world.server is None else other_schema(world.url)
    world.url = another
    world.serve()
    second = world.ledger.store.identity().ledger_id
    assert world.held == f"This machine has worked with the ledger {first}, and the database is the ledger {second}."
    with pytest.raises(errors.Held):
        world.put("sent")


def other_schema(url):
    """An empty database on the same server."""
    name = psycopg.conninfo.conninfo_to_dict(url)["dbname"]
    with psycopg.connect(url, autocommit=True) as admin:
        admin.execute(sql.SQL("create database {}").format(sql.Identifier(f"{name}_o")))
    return url.replace(f"/{name}", f"/{name}_o", 1)


def test_a_release_sends_again_and_looks_first_where_it_can(world):
    world.put("kept")
    world.stop()
    world.backup()
    world.serve()
    world.put("lost")
    world.stop()
    world.restore()
    world.serve()
    released = world.ledger.store.release("anna", "looked at the account", 30)
    assert (released.held_at, released.released_by) == (None, "anna")
    assert (released.look_first_until_at - released.released_at).total_seconds() == pytest.approx(30 * 86400, abs=1)

    world.sink.provider_class = ProviderClass.QUERYABLE
    world.sink.lookups.clear()
    found = world.put("lost")
    assert (found.status, found.claims, world.effects("lost")) == (Status.SUCCEEDED, 0, 1), "found, and not sent again"
    assert world.put("new").status is Status.SUCCEEDED
    assert world.sink.lookups == [found.action_id, world.intent("new").key.action_id]

    world.stop()
    world.serve()
    assert world.held is None, "what was lost is known to be lost"


def test_a_release_under_a_running_service_lets_it_go_on(postgres):
    world = postgres
    world.backup()
    world.put("lost")
    world.restore()
    with pytest.raises(errors.Held):
        world.put("lost")
    world.ledger.store.release("anna", "it was only a test", 0)
    assert world.put("new").status is Status.SUCCEEDED
    world.watch.look()
    assert world.held is None
    world.put("lost")
    assert world.effects("lost") == 2, "an opaque kind that is asked for again: the person has said so"


def test_a_second_restore_is_noticed_like_the_first(world):
    world.stop()
    world.backup()
    world.serve()
    world.put("first")
    world.stop()
    world.restore()
    world.serve()
    world.ledger.store.release("anna", "known", 0)
    world.stop()
    world.backup()
    world.serve()
    assert world.held is None
    world.put("second")
    world.stop()
    world.restore()
    world.serve()
    assert world.held.startswith("The database has forgotten 1 of")


def test_a_person_can_hold_it_and_the_first_reason_stands(world):
    waiting = world.put("proposed", propose=True)
    assert world.ledger.store.hold("a backup is restored").held_reason == "a backup is restored"
    assert world.ledger.store.hold("something else").held_reason == "a backup is restored"
    for step in ("proposed", "new"):
        with pytest.raises(errors.Held, match="a backup is restored"):
            world.put(step)
    assert world.sink.sends == []
    world.ledger.store.release("anna", "done", 0)
    assert world.ledger.store.release("anna", "done", 0).held_at is None, "the same word again"
    with pytest.raises(errors.Conflict):
        world.ledger.store.release("bert", "done", 0)
    assert world.put("proposed").action_id == waiting.action_id
    assert world.put("new").status is Status.SUCCEEDED


# The service as a process


def test_the_service_tells_that_it_is_held_and_how_it_goes_on(request, tmp_path, monkeypatch):
    """SQLite, one file: the copy of an hour ago is put back, with the runs or without them."""
    store = f"sqlite:///{tmp_path / 'ledger.db'}"
    with ledger_process(tmp_path, store) as process:
        run_id, objects = str(uuid.uuid4()), Objects(process.objects)
        key = ActionKey(run_id, "write_draft", "draft")

        def save():
            build = lambda: draft_request(objects, run_id, b"# R")  # noqa: E731
            return process.client().perform(key, "draft.save", build, epoch=1)

        process.start()
        process.stop()
        shutil.copy(tmp_path / "ledger.db", tmp_path / "backup")
        client = process.start().client()
        first = client.health()
        assert (first.held, first.ledger_id) == (False, client.standing().ledger_id)
        sent = save()
        assert process.stop() == 0
        for name in ("ledger.db-wal", "ledger.db-shm"):
            (tmp_path / name).unlink(missing_ok=True)
        shutil.copy(tmp_path / "backup", tmp_path / "ledger.db")

        client = process.start().client()
        assert client.health().held
        assert client.standing().held_reason.startswith("The database has forgotten 1 of")
        assert client.health().ledger_id == first.ledger_id
        with pytest.raises(errors.Held, match="onward-ledger release"):
            save()
        client.release(reason="the draft is there", look_first_days=1)
        found = save()
        assert (found.receipt["digest"], found.claims) == (sent.receipt["digest"], 0)
        assert client.standing().released_by == "anna"
        wait_for(lambda: not client.health().held)


# Crashes are no restores


def test_killed_services_are_never_taken_for_a_restore(request, tmp_path):
    store, schema = shared_database(request), f"ledger_{uuid.uuid4().hex[:12]}"
    with ledger_process(tmp_path, store, schema=schema) as process:
        sent = 0
        for _ in range(6):
            process.start()
            client = process.client()
            assert not client.health().held
            sent += work_until_killed(process, client, process.kill)
        assert not process.start().client().health().held
        assert sent > 60


def test_a_database_that_is_killed_in_the_midst_of_claims_is_never_taken_for_a_restored_one(tmp_path):
    """What it acknowledged survives, so nothing is forgotten; the service keeps running beside it."""
    home = tmp_path / "home"
    home.mkdir(mode=0o700)

    def kill():
        os.kill(local_postgres.status(home).pid, signal.SIGKILL)
        local_postgres.ensure(home)

    try:
        with ledger_process(tmp_path, local_postgres.ensure(home)) as process:
            client, sent = process.start().client(), 0
            for _ in range(ROUNDS):
                sent += work_until_killed(process, client, kill)
                with psycopg.connect(process.store) as admin:
                    assert admin.execute("select held_reason from onward_ledger.ledger").fetchall() == [(None,)]
            process.kill()
            assert not process.start().client().health().held
            assert sent >= 15 * ROUNDS
    finally:
        forget_home(home)


def work_until_killed(process, client, kill):
    """Perform actions with some threads, and kill in the midst of them; how many succeeded."""
    run_id, objects, done, over = str(uuid.uuid4()), Objects(process.objects), [], threading.Event()

    def work(worker):
        for n in range(1000):
            wanted = draft_request(objects, run_id, b"#", worker * 1000 + n)
            key = ActionKey(run_id, f"s{worker}.{n}", "draft")
            try:
                done.append(client.perform(key, "draft.save", lambda wanted=wanted: wanted, epoch=1))
            except errors.LedgerError as error:
                assert not isinstance(error, errors.Held)
                return
            if over.is_set():
                return

    workers = [threading.Thread(target=work, args=(n,)) for n in range(3)]
    for worker in workers:
        worker.start()
    wait_for(lambda: len(done) >= 15)
    kill()
    over.set()
    for worker in workers:
        worker.join()
    return len(done)
