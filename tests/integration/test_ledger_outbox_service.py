"""The outbox and look-ups per run as a client and a person at a shell see them: one service as a process."""

import asyncio
import json
import time
import uuid

import pytest
from typer.testing import CliRunner

from onward_ledger import AsyncLedgerClient, errors
from onward_ledger.__main__ import app
from onward_ledger.action import Action, ActionKey, Status
from onward_ledger.objects import Objects
from tests.support.counted import KIND, counting, effects_in
from tests.support.ledger import draft_request
from tests.support.ledger_process import ledger_process

pytestmark = pytest.mark.campaign

S = Status


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ledger")
    with ledger_process(folder, f"sqlite:///{folder / 'ledger.db'}") as process:
        yield process.start(plant=counting(folder / "effects"))


@pytest.fixture
def client(service):
    return service.client()


@pytest.fixture
def file(service):
    return service.folder / "effects"


@pytest.fixture
def run_id():
    return str(uuid.uuid4())


@pytest.fixture
def mark(file):
    """Tells the provider that it is down, refuses or loses."""

    def put(*names, there=True):
        for name in names:
            path = file.with_suffix(f".{name}")
            path.touch() if there else path.unlink(missing_ok=True)

    yield put
    put("down", "refuses", "loses", there=False)


def later(client, run_id, n=0, **more):
    return client.perform_later(
        ActionKey(run_id, f"s{n}", "effect"), KIND, lambda: ("line/1", {"n": n}), epoch=1, **more
    )


def until(condition):
    end = time.monotonic() + 30
    while not (found := condition()):
        assert time.monotonic() < end, "the condition did not come true"
        time.sleep(0.01)
    return found


def command(service, *arguments):
    env = {
        "ONWARD_LEDGER_URL": service.url,
        "ONWARD_LEDGER_TOKEN_FILE": str(service.token_file),
        "ONWARD_PRINCIPAL": "anna",
    }
    return CliRunner().invoke(app, list(arguments), env=env)


def attempted(client, action):
    entry = client.action(action.action_id).outbox
    return entry if entry is not None and entry.attempts else None


def test_it_is_answered_before_it_is_performed_and_the_feed_tells_the_rest(client, file, run_id):
    start = client.decisions(limit=1000).cursor
    action = later(client, run_id)
    assert action.status is S.PREPARED
    [item] = until(lambda: [i for i in client.decisions(start).items if i.action_id == action.action_id])
    assert (item.what, item.status) == ("resolution", S.SUCCEEDED)
    done = client.action(action.action_id)
    assert (done.status, done.receipt, done.outbox) == (S.SUCCEEDED, {"n": 0}, None)
    assert effects_in(file).count(action.action_id) == 1
    assert later(client, run_id).status is S.SUCCEEDED, "asked again it is replayed"
    again = client.perform(action.key, KIND, lambda: ("line/1", {"n": 0}), epoch=1)
    assert (again.receipt, again.replayed) == (done.receipt, True), "in either mode"


def test_what_waits_shows_its_attempts_and_a_sync_call_does_not_overtake(client, file, run_id, mark):
    mark("down")
    action = later(client, run_id, in_order=True)
    behind = later(client, run_id, 1, in_order=True)
    entry = until(lambda: attempted(client, action))
    assert (entry.in_order, entry.dead_at) == (True, None)
    assert entry.dispatch_at > entry.stored_at
    assert [a.action_id for a in client.outbox(run_id=run_id)] == [action.action_id, behind.action_id]
    assert client.outbox(run_id=run_id)[1].outbox.attempts == 0, "nothing goes behind it"
    for each in (action, behind):
        asked = client.perform(each.key, KIND, lambda each=each: (each.resource, each.params), epoch=1)
        assert asked.status is S.PREPARED
    mark("down", there=False)
    until(lambda: not client.outbox(run_id=run_id))
    mine = [id for id in effects_in(file) if id in (action.action_id, behind.action_id)]
    assert mine == [action.action_id, behind.action_id]


def test_what_is_asked_for_must_go_together(service, client, run_id):
    with service.client() as raw:
        body = {"run_id": run_id, "step": "s", "slot": "effect", "kind": KIND, "resource": "r", "params": {"n": 1}}
        path = f"/v1/actions/{ActionKey(run_id, 's', 'effect').action_id}"
        for query in ("mode=async&propose=1", "in_order=1", "mode=sometimes"):
            answer = raw._http.put(f"{path}?{query}", json={**body, "epoch": 1})
            assert (answer.status_code, answer.json()["code"]) == (422, "bad-request")
        answer = raw._http.put(f"{path}?mode=async&in_order=1", json={**body, "epoch": 1})
        assert (answer.status_code, answer.json()["status"]) == (202, "PREPARED")


def test_the_async_client_has_the_same(service, run_id):
    async def work():
        client = AsyncLedgerClient(service.url, service.token, principal="anna")
        key = ActionKey(run_id, "s", "effect")
        action = await client.perform_later(key, KIND, lambda: ("line/2", {"n": 1}), epoch=1, in_order=True)
        while (await client.action(action.action_id)).status is not S.SUCCEEDED:
            await asyncio.sleep(0.01)
        assert await client.outbox(run_id=run_id) == ()
        assert await client.reconcile_run(run_id) == ()
        assert (await client.retry(action.action_id)).status is S.SUCCEEDED
        await client.close()

    asyncio.run(asyncio.wait_for(work(), 30))


def test_a_dead_letter_is_listed_and_a_person_lets_it_be_tried_again(service, client, run_id, mark):
    mark("down")
    action = later(client, run_id)
    until(lambda: attempted(client, action))
    mark("refuses")
    until(lambda: client.outbox(dead=True, run_id=run_id))
    assert client.outbox(dead=False, run_id=run_id) == ()
    reason = "Its provider does not take it: The counter takes no more of these."
    assert reason in command(service, "outbox", "--dead", "--run", run_id).stdout
    assert "dead: PREPARED → PREPARED" in command(service, "show", action.action_id).stdout
    mark("refuses", "down", there=False)
    retried = command(service, "retry", action.action_id, "--reason", "It takes them again.")
    assert (retried.exit_code, retried.stdout.split()[:2]) == (0, [action.action_id, "PREPARED"])
    until(lambda: client.action(action.action_id).status is S.SUCCEEDED)
    told = [(e.word, e.principal, e.reason) for e in client.events(action.action_id) if e.word in ("dead", "retry")]
    assert told == [("dead", None, reason), ("retry", "anna", "It takes them again.")]
    again = command(service, "retry", action.action_id)
    assert (again.exit_code, again.stdout.split()[1]) == (0, "SUCCEEDED")


def test_the_command_says_what_waits_and_when_it_is_tried_next(service, client, run_id, mark):
    mark("down")
    action = later(client, run_id, in_order=True)
    until(lambda: attempted(client, action))
    first, second = command(service, "outbox", "--run", run_id).stdout.splitlines()
    assert first.startswith(f"{action.action_id}  PREPARED   {KIND}  s0/effect  line/1")
    assert "in order, next not before" in second
    told = json.loads(command(service, "outbox", "--run", run_id, "--json").stdout)["actions"]
    assert Action.from_json(told[0]).outbox.attempts >= 1
    assert command(service, "outbox", "--dead", "--run", run_id).stdout == ""
    assert '"attempts"' in command(service, "show", action.action_id).stdout


def test_only_an_operator_retries(service, client, run_id):
    with pytest.raises(errors.NotFound):
        client.retry(run_id)
    proposed = client.propose(ActionKey(run_id, "s", "effect"), KIND, lambda: ("r", {"n": 1}), epoch=1)
    with pytest.raises(errors.Conflict):
        client.retry(proposed.action_id)
    assert command(service, "retry", proposed.action_id).exit_code == 4


def test_the_command_reconciles_an_action_or_a_run(service, client, run_id):
    objects = Objects(service.objects)
    key = ActionKey(run_id, "write_draft", "draft")
    saved = client.perform(key, "draft.save", lambda: draft_request(objects, run_id, b"#"), epoch=1)
    one = command(service, "reconcile", saved.action_id)
    assert (one.exit_code, one.stdout.split()[1]) == (0, "SUCCEEDED")
    whole = command(service, "reconcile", "--run", run_id, "--json")
    assert (whole.exit_code, json.loads(whole.stdout)) == (0, {"actions": []})
    assert command(service, "reconcile").exit_code == 2
    assert command(service, "reconcile", str(uuid.uuid4())).exit_code == 3


def test_what_is_still_unknown_has_an_exit_code_of_its_own_and_the_sweeper_goes_on_asking(
    service, client, run_id, mark
):
    mark("loses")
    key = ActionKey(run_id, "s", "effect")
    lost = client.perform(key, KIND, lambda: ("line/3", {"n": 1}), epoch=1)
    assert lost.status is S.UNKNOWN
    mark("down")
    assert command(service, "reconcile", "--run", run_id).exit_code == 8
    assert command(service, "reconcile", lost.action_id).exit_code == 8
    assert [a.status for a in client.reconcile_run(run_id)] == [S.UNKNOWN]
    seen = until(lambda: client.action(lost.action_id).look_ups)
    until(lambda: client.action(lost.action_id).look_ups.answer == "It could not be told: The counter is down.")
    assert (seen.again_at is not None, client.action(lost.action_id).version) == (True, lost.version)
    mark("loses", "down", there=False)
    until(lambda: client.action(lost.action_id).status is S.PREPARED)
    assert client.perform(key, KIND, lambda: ("line/3", {"n": 1}), epoch=1).status is S.SUCCEEDED
    assert command(service, "reconcile", lost.action_id).exit_code == 0
