"""The service is killed for real, in both windows around the send, and its records are right afterwards."""

import threading
import time
import uuid

import psycopg
import pytest

from onward_ledger import errors, protocol
from onward_ledger.action import ActionKey, Status
from onward_ledger.audit import broken_at
from onward_ledger.objects import Objects
from tests.support.ledger import ENGINES, draft_request, shared_database
from tests.support.ledger_process import ledger_process

KEY_STEP = ("write_draft", "draft")


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    """A killed service does not come back by itself: do not wait for it."""
    monkeypatch.setattr(protocol, "RETRY_PAUSES_SECONDS", (0.01, 0.01, 0.01))


@pytest.fixture(params=ENGINES)
def process(request, tmp_path):
    store = f"sqlite:///{tmp_path / 'ledger.db'}" if request.param == "sqlite" else shared_database(request)
    with ledger_process(tmp_path, store, schema=f"ledger_{uuid.uuid4().hex[:12]}") as process:
        yield process


def save(process, run_id, objects, *, epoch=1):
    key = ActionKey(run_id, *KEY_STEP)
    return process.client().perform(key, "draft.save", lambda: draft_request(objects, run_id, b"# R"), epoch=epoch)


@pytest.mark.parametrize("window", ["before", "after"])
def test_killed_around_the_send_it_is_unknown_and_then_settled_with_one_effect(process, window):
    """Killed between the IN_FLIGHT commit and the send, and between the send and the record."""
    run_id, objects = str(uuid.uuid4()), Objects(process.objects)
    process.start(die=window)
    with pytest.raises(errors.LedgerUnreachable):
        save(process, run_id, objects)
    assert process.wait() == -9
    assert len(objects.keys(f"drafts/{run_id}")) == (1 if window == "after" else 0), "the fault fired where it should"

    client = process.start().client()
    [left] = client.fence(run_id, 2, holder="the next driver").unsettled
    assert (left.status, left.reason) == (Status.UNKNOWN, "The service that sent it is gone.")

    done = save(process, run_id, objects, epoch=2)
    words = {
        "before": ["propose", "claim", "lose", "unsend", "claim", "record"],
        "after": ["propose", "claim", "lose", "find"],
    }
    events = client.events(done.action_id)
    assert ([e.word for e in events], broken_at(done, events)) == (words[window], None)
    assert (done.status, done.replayed) == (Status.SUCCEEDED, window == "after")
    assert objects.keys(f"drafts/{run_id}") == [done.receipt["objects"][0]["key"]]
    assert save(process, run_id, objects, epoch=2).receipt == done.receipt


def test_killed_at_random_moments_every_action_ends_with_one_effect_and_its_record(request, tmp_path):
    store = shared_database(request)
    with ledger_process(tmp_path, store, schema=f"ledger_{uuid.uuid4().hex[:12]}") as process:
        run_id, objects = str(uuid.uuid4()), Objects(process.objects)
        process.start()
        acknowledged, stopped = {}, threading.Event()

        def work(client):
            n = 0
            while not stopped.is_set():
                key, wanted = ActionKey(run_id, f"s{n}", "draft"), draft_request(objects, run_id, b"#", n)
                try:
                    acknowledged[key] = client.perform(key, "draft.save", lambda wanted=wanted: wanted, epoch=1).receipt
                except errors.LedgerError:
                    return
                n += 1

        working = threading.Thread(target=work, args=(process.client(),))
        working.start()
        while len(acknowledged) < 20:
            time.sleep(0.005)
        process.kill()
        stopped.set()
        working.join(30)

        client = process.start().client()
        fence = client.fence(run_id, 2, holder="the next driver")
        for action in fence.unsettled:
            client.reconcile(action.action_id)
        found = {a.key: a for a in client.actions(run_id, limit=1000)}
        for key, receipt in acknowledged.items():
            assert (found[key].status, found[key].receipt) == (Status.SUCCEEDED, receipt), "what was told is so"
        effects = set(objects.keys(f"drafts/{run_id}"))
        recorded = {f"{a.resource}/report.md" for a in found.values() if a.status is Status.SUCCEEDED}
        assert effects == recorded


def test_a_database_that_goes_away_is_told_as_such_and_comes_back(request, tmp_path):
    """Every backend of the service is terminated while it works."""
    url = shared_database(request)
    schema = f"ledger_{uuid.uuid4().hex[:12]}"
    with ledger_process(tmp_path, url, schema=schema) as process:
        client = process.start().client()
        run_id, objects = str(uuid.uuid4()), Objects(process.objects)
        for n in range(6):
            with psycopg.connect(url, autocommit=True) as admin:
                admin.execute(
                    "select pg_terminate_backend(pid) from pg_stat_activity"
                    " where application_name = 'onward-ledger' and datname = current_database()"
                )
            key, wanted = ActionKey(run_id, f"s{n}", "draft"), draft_request(objects, run_id, b"#", n)
            assert client.perform(key, "draft.save", lambda wanted=wanted: wanted, epoch=1).status is Status.SUCCEEDED
        assert {a.claims for a in client.actions(run_id)} == {1}
        assert has_lock_again(url, schema)


def has_lock_again(url, schema) -> bool:
    """The instance takes its lock again on a new connection, so it is not taken for gone."""
    end = time.monotonic() + 20
    while time.monotonic() < end:
        with psycopg.connect(url) as admin:
            row = admin.execute(
                f"select count(*) from {schema}.instances i join pg_locks l on l.locktype = 'advisory'"
                " and ((l.classid::bigint << 32) | l.objid::bigint) = i.lock_key and l.granted"
            ).fetchone()
        if row[0] == 1:
            return True
        time.sleep(0.05)
    return False


def test_two_services_on_one_postgres_and_one_of_them_is_killed(request, tmp_path):
    url, schema = shared_database(request), f"ledger_{uuid.uuid4().hex[:12]}"
    folders = [tmp_path / name for name in ("one", "two")]
    for folder in folders:
        folder.mkdir()
    with (
        ledger_process(folders[0], url, schema=schema, objects=str(tmp_path / "objects")) as doomed,
        ledger_process(folders[1], url, schema=schema, objects=str(tmp_path / "objects")) as other,
    ):
        run_id, objects = str(uuid.uuid4()), Objects(str(tmp_path / "objects"))
        doomed.start(die="after")
        other.start()
        with pytest.raises(errors.LedgerUnreachable):
            save(doomed, run_id, objects)
        doomed.wait()
        done = save(other, run_id, objects)
        assert (done.status, done.claims, done.replayed) == (Status.SUCCEEDED, 1, True)
        assert [e.word for e in other.client().events(done.action_id)] == ["propose", "claim", "lose", "find"]
