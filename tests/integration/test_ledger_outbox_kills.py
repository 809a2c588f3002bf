"""Services are killed while they dispatch: in the end every effect is there once, and each line is in its order."""

import time
import uuid

import psycopg
import pytest

from onward_ledger import dispatcher, protocol
from onward_ledger.action import ActionKey, Status
from onward_ledger.audit import broken_at
from tests.support.counted import KIND, counting, effects_in
from tests.support.ledger import ENGINES, shared_database
from tests.support.ledger_process import ledger_process

pytestmark = [pytest.mark.campaign, pytest.mark.timeout(180)]

LINES = 6


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    monkeypatch.setattr(protocol, "RETRY_PAUSES_SECONDS", (0.01, 0.01, 0.01))


def store_of(request, tmp_path, engine):
    return f"sqlite:///{tmp_path / 'ledger.db'}" if engine == "sqlite" else shared_database(request)


@pytest.fixture(params=ENGINES)
def process(request, tmp_path):
    store = store_of(request, tmp_path, request.param)
    with ledger_process(tmp_path, store, schema=f"ledger_{uuid.uuid4().hex[:12]}") as process:
        yield process


def stored(client, run_id, count, *, in_order=True, lines=LINES):
    """So many actions in several lines; their ids in the order of storing."""
    ids = []
    for n in range(count):
        key = ActionKey(run_id, f"s{n}", "effect")
        wanted = (f"line/{n % lines}", {"n": n})
        action = client.perform_later(key, KIND, lambda wanted=wanted: wanted, epoch=1, in_order=in_order)
        assert action.status is not Status.UNKNOWN
        ids.append(action.action_id)
    return ids


def all_at_once(client, run_id, count, *, in_order=True, lines=LINES):
    """The same, and nothing is sent before all of it is stored."""
    client.hold(reason="So that all of it waits.")
    ids = stored(client, run_id, count, in_order=in_order, lines=lines)
    client.release(reason="Now.", look_first_days=0)
    return ids


def until(condition, what):
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.01)


def in_order(ids, effects, lines=LINES):
    """Whether the effects of each line came in the order in which they were stored."""
    place = {action_id: n for n, action_id in enumerate(effects)}
    came = [[place[action_id] for action_id in ids[line::lines]] for line in range(lines)]
    return all(line == sorted(line) for line in came)


def check(client, ids, file, *, run_id, lines=LINES):
    until(lambda: not client.outbox(limit=1), "the outbox was not emptied")
    effects = effects_in(file)
    assert sorted(effects) == sorted(ids), "each effect once"
    assert in_order(ids, effects, lines)
    for action in client.actions(run_id, limit=1000):
        assert (action.status, action.alarm) == (Status.SUCCEEDED, None)
        assert broken_at(action, client.events(action.action_id)) is None


def test_killed_again_and_again_it_sends_each_effect_once_and_each_line_in_order(process, tmp_path):
    file, run_id = tmp_path / "effects", str(uuid.uuid4())
    client = process.start(plant=counting(file, 0.06)).client()
    ids = all_at_once(client, run_id, 36)
    for share in (0.25, 0.6):
        until(lambda share=share: len(effects_in(file)) >= share * len(ids), "nothing is sent")
        process.kill()
        client = process.start(plant=counting(file, 0.06)).client()
    check(client, ids, file, run_id=run_id)
    words = [event.word for id in ids for event in client.events(id)]
    assert words.count("lose") >= 1, "the kills met sends under way"
    assert words.count("claim") == len(ids) + words.count("unsend"), "nothing was sent again but what was not found"


def test_control_what_is_not_asked_to_be_in_order_is_not(process, tmp_path):
    """The same lines, no kill: parallel sends overtake each other."""
    file, run_id = tmp_path / "effects", str(uuid.uuid4())
    client = process.start(plant=counting(file, 0.02)).client()
    ids = all_at_once(client, run_id, 36, in_order=False)
    until(lambda: not client.outbox(limit=1), "the outbox was not emptied")
    effects = effects_in(file)
    assert sorted(effects) == sorted(ids)
    assert not in_order(ids, effects)


def test_a_clean_stop_finishes_what_is_in_hand_and_the_next_start_goes_on(process, tmp_path):
    file, run_id = tmp_path / "effects", str(uuid.uuid4())
    client = process.start(plant=counting(file, 0.2)).client()
    ids = all_at_once(client, run_id, 24)
    until(lambda: effects_in(file), "nothing is sent")
    assert process.stop() == 0
    sent = effects_in(file)
    assert 0 < len(sent) < len(ids)
    client = process.start(plant=counting(file)).client()
    statuses = {action.action_id: action.status for action in client.actions(run_id, limit=100)}
    assert {statuses[id] for id in sent} == {Status.SUCCEEDED}, "no stop leaves anything UNKNOWN"
    check(client, ids, file, run_id=run_id)


def test_two_services_and_one_of_them_is_killed(request, tmp_path):
    url, schema = store_of(request, tmp_path, "postgres"), f"ledger_{uuid.uuid4().hex[:12]}"
    file, run_id = tmp_path / "effects", str(uuid.uuid4())
    folders = [tmp_path / name for name in ("one", "two")]
    for folder in folders:
        folder.mkdir()
    with (
        ledger_process(folders[0], url, schema=schema) as doomed,
        ledger_process(folders[1], url, schema=schema) as other,
    ):
        client = doomed.start(plant=counting(file, 0.2)).client()
        survivor = other.start(plant=counting(file, 0.2)).client()
        # More lines than one service has threads: some always wait for the other, which looks once a second.
        lines = 3 * dispatcher.THREADS
        ids = all_at_once(client, run_id, 3 * lines, lines=lines)

        def senders():
            return {action.instance for action in survivor.actions(run_id, limit=100)} - {None}

        until(lambda: len(senders()) == 2, "both have a part in it")
        doomed.kill()
        assert len(effects_in(file)) < len(ids)
        check(survivor, ids, file, run_id=run_id, lines=lines)


def test_a_database_that_is_cut_off_again_and_again(request, tmp_path):
    """Every session of the service is ended in the middle of the work."""
    url, schema = store_of(request, tmp_path, "postgres"), f"ledger_{uuid.uuid4().hex[:12]}"
    file, run_id = tmp_path / "effects", str(uuid.uuid4())
    with ledger_process(tmp_path, url, schema=schema) as process, psycopg.connect(url, autocommit=True) as admin:
        client = process.start(plant=counting(file, 0.05)).client()
        ids = all_at_once(client, run_id, 36)
        for share in (0.2, 0.5, 0.8):
            until(lambda share=share: len(effects_in(file)) >= share * len(ids), "nothing is sent")
            cut = admin.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity"
                " where application_name = 'onward-ledger' and datname = current_database()"
            ).fetchall()
            assert cut
        check(client, ids, file, run_id=run_id)
