"""The service as a real process: routes, problems, token, limits, clients, lost answers, start and stop."""

import asyncio
import json
import re
import stat
import time
import uuid
from datetime import UTC, datetime
from pathlib import Path
from threading import Thread

import httpx
import pytest
from typer.testing import CliRunner

from onward_ledger import AsyncLedgerClient, LedgerClient, errors, protocol
from onward_ledger.__main__ import app
from onward_ledger.action import Action, ActionKey, Status
from onward_ledger.audit import broken_at
from onward_ledger.objects import Objects
from onward_ledger.problems import MEDIA_TYPE
from onward_ledger.store import open_store
from tests.support.ledger import draft_request, publication_request
from tests.support.ledger_process import ROOT, ledger_process
from tools.action import Actions

FAR = datetime(2100, 1, 1, tzinfo=UTC)


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    folder = tmp_path_factory.mktemp("service")
    with ledger_process(folder, f"sqlite:///{folder / 'ledger.db'}") as process:
        yield process.start(exec=True)


@pytest.fixture
def client(service):
    return service.client()


@pytest.fixture
def objects(service):
    return Objects(service.objects)


@pytest.fixture
def run_id():
    return str(uuid.uuid4())


@pytest.fixture
def raw(service):
    headers = {"Authorization": f"Bearer {service.token}"}
    with httpx.Client(base_url=service.url, headers=headers, timeout=20) as raw:
        yield raw


@pytest.fixture
def soon(monkeypatch):
    """Do not wait for a service that is gone on purpose."""
    monkeypatch.setattr(protocol, "RETRY_PAUSES_SECONDS", (0.01, 0.01, 0.01))


def action_body(objects, run_id, **changes):
    resource, params = draft_request(objects, run_id, b"# Report")
    body = {"run_id": run_id, "step": "write_draft", "slot": "draft", "kind": "draft.save"}
    return body | {"resource": resource, "params": params, "epoch": 1} | changes


def path_of(body):
    return "/v1/actions/" + ActionKey(body["run_id"], body["step"], body["slot"], body.get("rev", 1)).action_id


def put_text(raw, body, text):
    """A request whose body no JSON encoder would write."""
    return raw.put(path_of(body), content=text, headers={"Content-Type": "application/json"})


def test_health_needs_no_token_and_says_who_answers(service):
    with LedgerClient(service.url, "not the token at all") as stranger:
        health = stranger.health()
        with pytest.raises(errors.Unauthorized):
            stranger.actions()
    assert (health.instance, health.pid) == (service.ready["instance"], service.process.pid)
    assert (health.store, health.objects, health.api) == ("sqlite", Path(service.objects).as_uri(), "v1")
    assert health.version == service.ready["version"]


def test_the_ready_file_and_the_token_are_their_owners_only(service):
    assert set(service.ready) == {"url", "pid", "instance", "version", "started_at"}
    assert service.ready["url"].startswith("http://127.0.0.1:")
    for path in (service.ready_file, service.token_file):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_whole_run(client, objects, run_id):
    """Save, propose, edit, perform, replay, list, feed: what the graph does, over the wire."""
    cursor = client.decisions(limit=1000).cursor
    assert client.fence(run_id, 1, holder="me").actions == ()
    saved = client.perform(
        ActionKey(run_id, "write_draft", "draft"), "draft.save", lambda: draft_request(objects, run_id, b"# R"), epoch=1
    )
    assert (saved.status, saved.replayed) == (Status.SUCCEEDED, False)
    key = ActionKey(run_id, "deliver", "publish")
    proposed = client.propose(key, "report.publish", lambda: publication_request(saved), epoch=1)
    assert (proposed.status, client.live(run_id, "deliver", "publish")) == (
        Status.PREPARED,
        client.action(key.action_id),
    )
    edit = client.decide(
        key.action_id, "edit", request_hash=proposed.request_hash, changes={"title": "销售"}, expires_at=FAR
    )
    live = client.live(run_id, "deliver", "publish")
    assert (live.rev, live.decision.principal, live.action_id) == (2, "anna", edit.successor_action_id)
    done = client.perform(live.key, "report.publish", lambda: pytest.fail("built"), epoch=1)
    assert (done.status, done.receipt["title"]) == (Status.SUCCEEDED, "销售")
    assert client.perform(live.key, "report.publish", lambda: pytest.fail("built"), epoch=1).replayed
    assert [i.decision.decision for i in client.decisions(cursor).items] == ["edit", "approve"]
    assert [a.rev for a in client.actions(run_id)] == [1, 1, 2]
    assert [a.action_id for a in client.actions(run_id, Status.WITHDRAWN)] == [key.action_id]
    for action in client.actions(run_id):
        assert broken_at(action, client.events(action.action_id)) is None


def test_pinned_intent_over_the_wire(service, client, objects, run_id):
    key = ActionKey(run_id, "write_draft", "draft")
    first = client.perform(key, "draft.save", lambda: draft_request(objects, run_id, b"first words"), epoch=1)
    taken_over = service.client()
    taken_over.fence(run_id, 2, holder="another driver")
    pinned = taken_over.perform(key, "draft.save", lambda: pytest.fail("a model was asked again"), epoch=2)
    assert (pinned.replayed, pinned.params) == (True, first.params)
    unknowing = service.client()
    revealed = unknowing.perform(key, "draft.save", lambda: draft_request(objects, run_id, b"other words"), epoch=2)
    assert (revealed.replayed, revealed.params) == (True, first.params)


def test_the_async_client_does_the_same(service, objects, run_id):
    async def run():
        async with AsyncLedgerClient(service.url, service.token, principal="anna") as client:
            await client.fence(run_id, 1, holder="me")
            key = ActionKey(run_id, "write_draft", "draft")
            saved = await client.perform(key, "draft.save", lambda: draft_request(objects, run_id, b"#"), epoch=1)
            await client.grant(run_id, kind="report.publish", expires_at=FAR)
            key = ActionKey(run_id, "deliver", "publish")
            done = await client.perform(key, "report.publish", lambda: publication_request(saved), epoch=1)
            with pytest.raises(errors.StaleEpoch):
                await client.fence(run_id, 1, holder="another")
            return saved, done, await client.actions(run_id), await client.live(run_id, "deliver", "publish")

    saved, done, listed, live = asyncio.run(run())
    assert (saved.status, done.status, len(listed), live.action_id) == (
        Status.SUCCEEDED,
        Status.SUCCEEDED,
        2,
        done.action_id,
    )


def test_the_door_to_the_world_is_bound_to_its_run_and_epoch(client, objects, run_id):
    told, held = [], [True]

    class LeaseLost(BaseException):
        pass

    def check():
        if not held[0]:
            raise LeaseLost

    fence = client.fence(run_id, 4, holder="me")
    actions = Actions(client, run_id, 4, told.append, check)
    assert actions.settle(fence) == []
    saved = actions.perform("write_draft", "draft", "draft.save", lambda: draft_request(objects, run_id, b"#"))
    proposed = actions.propose("deliver", "publish", "report.publish", lambda: publication_request(saved))
    assert (saved.epoch, told, actions.live("deliver", "publish").action_id) == (
        4,
        [saved, proposed],
        proposed.action_id,
    )
    held[0] = False
    for call in (
        lambda: actions.perform("write_draft", "draft", "draft.save", lambda: draft_request(objects, run_id, b"#")),
        lambda: actions.live("deliver", "publish"),
    ):
        with pytest.raises(LeaseLost):
            call()
    assert client.action(saved.action_id) == saved, "the client itself is not bound to this drive"


class Dropping(httpx.HTTPTransport):
    """The network between client and service: the first answers are lost on their way back."""

    def __init__(self, lost: int):
        super().__init__()
        self.lost, self.sent = lost, 0

    def handle_request(self, request):
        response = super().handle_request(request)
        response.read()
        self.sent += 1
        if self.sent <= self.lost:
            raise httpx.ReadError("the answer was lost", request=request)
        return response


def test_a_lost_answer_is_asked_for_again_and_nothing_happens_twice(service, objects, run_id):
    """The service has committed, its reply is gone; the retry returns the same receipt."""
    transport = Dropping(2)
    client = service.client(transport=transport)
    key = ActionKey(run_id, "write_draft", "draft")
    saved = client.perform(key, "draft.save", lambda: draft_request(objects, run_id, b"#"), epoch=1)
    assert (saved.status, saved.replayed, saved.claims, transport.sent) == (Status.SUCCEEDED, True, 1, 3)
    assert [e.word for e in client.events(saved.action_id)] == ["propose", "claim", "record"]


def test_when_every_answer_is_lost_the_ledger_is_unreachable_and_the_record_tells(
    soon, service, client, objects, run_id
):
    key = ActionKey(run_id, "write_draft", "draft")
    deaf = service.client(transport=Dropping(99))
    with pytest.raises(errors.LedgerUnreachable, match="the answer was lost"):
        deaf.perform(key, "draft.save", lambda: draft_request(objects, run_id, b"#"), epoch=1)
    assert client.action(key.action_id).status is Status.SUCCEEDED


def test_a_closed_port_is_unreachable(soon):
    with LedgerClient("http://127.0.0.1:9", "token") as client, pytest.raises(errors.LedgerUnreachable):
        client.actions()


PROBLEMS = {
    "no route": (404, "not-found", lambda r, b: r.get("/v1/nothing")),
    "no action": (404, "not-found", lambda r, b: r.get(f"/v1/actions/{uuid.uuid4()}")),
    "wrong method": (405, "not-allowed", lambda r, b: r.delete("/v1/actions")),
    "id is no uuid": (422, "bad-request", lambda r, b: r.get("/v1/actions/7")),
    "no json": (422, "bad-request", lambda r, b: r.put(path_of(b), content=b"{")),
    "no body": (422, "bad-request", lambda r, b: r.put(path_of(b))),
    "id of another key": (422, "bad-request", lambda r, b: r.put(f"/v1/actions/{uuid.uuid4()}", json=b)),
    "missing member": (422, "bad-request", lambda r, b: r.put(path_of(b), json={"run_id": b["run_id"]})),
    "unknown member": (422, "bad-request", lambda r, b: r.put(path_of(b), json=b | {"colour": "red"})),
    "epoch as text": (422, "bad-request", lambda r, b: r.put(path_of(b), json=b | {"epoch": "1"})),
    "epoch zero": (422, "bad-request", lambda r, b: r.put(path_of(b), json=b | {"epoch": 0})),
    "unknown kind": (422, "bad-request", lambda r, b: r.put(path_of(b), json=b | {"kind": "nobody.knows"})),
    "too large a number": (422, "bad-request", lambda r, b: r.put(path_of(b), json=b | {"params": {"n": 2**53}})),
    "not a number": (
        422,
        "bad-request",
        lambda r, b: put_text(r, b, json.dumps(b | {"params": {"n": float("nan")}})),
    ),
    "an infinite number": (
        422,
        "bad-request",
        lambda r, b: put_text(r, b, json.dumps(b).replace('"epoch": 1', '"epoch": 1e999')),
    ),
    "a deep hole": (
        422,
        "bad-request",
        lambda r, b: put_text(
            r, b, json.dumps(b | {"params": {"n": "deep"}}).replace('"deep"', "[" * 20000 + "]" * 20000)
        ),
    ),
    "params of 65 KiB": (413, "too-large", lambda r, b: r.put(path_of(b), json=b | {"params": {"x": "x" * 66560}})),
    "a body of 300 KiB": (413, "too-large", lambda r, b: r.put(path_of(b), content=b"x" * 307200)),
    "a body without a length": (413, "too-large", lambda r, b: r.put(path_of(b), content=iter([b"x" * 102400] * 3))),
    "wrong token": (401, "unauthorized", lambda r, b: r.get("/v1/actions", headers={"Authorization": "Bearer x"})),
    "no principal": (
        422,
        "bad-request",
        lambda r, b: r.put(
            f"/v1/grants/{b['run_id']}", json={"kind": "report.publish", "expires_at": "2100-01-01T00:00:00Z"}
        ),
    ),
    "a principal with a line break": (
        422,
        "bad-request",
        lambda r, b: r.put(
            f"/v1/fences/{b['run_id']}",
            json={"closed": True, "reason": "r"},
            headers={"X-Onward-Principal": "a%0Ab"},
        ),
    ),
    "half a fence": (422, "bad-request", lambda r, b: r.put(f"/v1/fences/{b['run_id']}", json={"epoch": 1})),
    "both halves": (
        422,
        "bad-request",
        lambda r, b: r.put(
            f"/v1/fences/{b['run_id']}", json={"epoch": 1, "holder": "h", "closed": True, "reason": "r"}
        ),
    ),
    "a time without a zone": (
        422,
        "bad-request",
        lambda r, b: r.put(
            f"/v1/grants/{b['run_id']}", json={"kind": "report.publish", "expires_at": "2100-01-01T00:00:00"}
        ),
    ),
    "a page too long": (422, "bad-request", lambda r, b: r.get("/v1/actions?limit=1001")),
    "an unknown status": (422, "bad-request", lambda r, b: r.get("/v1/actions?status=DONE")),
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_every_error_is_a_problem(raw, objects, run_id, name):
    status, code, call = PROBLEMS[name]
    response = call(raw, action_body(objects, run_id))
    problem = response.json()
    assert (response.status_code, problem["status"], problem["code"]) == (status, status, code), problem
    assert response.headers["content-type"] == MEDIA_TYPE
    assert problem["type"] == f"urn:onward-ledger:{code}"
    assert (problem["definite"], problem["terminal"], problem["retryable"]) == (True, True, False)
    assert problem["title"] and problem["detail"].strip()
    assert raw.get(f"/v1/actions?run_id={run_id}").json() == {"actions": []}, "a bad request leaves nothing"


def test_conflicts_carry_what_stands(raw, objects, run_id):
    body = action_body(objects, run_id)
    assert raw.put(path_of(body), json=body).status_code == 200
    _, params = draft_request(objects, run_id, b"other")
    conflict = raw.put(path_of(body), json=body | {"params": params}).json()
    assert (conflict["code"], conflict["action"]["params"]) == ("params-conflict", body["params"])
    raw.put(f"/v1/fences/{run_id}", json={"epoch": 5, "holder": "h"})
    stale = raw.put(path_of(body), json=body)
    assert (stale.status_code, stale.json()["code"], stale.json()["fence_epoch"]) == (409, "stale-epoch", 5)
    person = {"X-Onward-Principal": "%E5%BC%A0%E4%B8%89"}
    closed = raw.put(f"/v1/fences/{run_id}", json={"closed": True, "reason": "enough"}, headers=person).json()
    assert (closed["closed_by"], closed["closed_reason"]) == ("张三", "enough")
    refused = raw.put(path_of(body | {"step": "x"}), json=body | {"step": "x", "epoch": 5})
    assert (refused.status_code, refused.json()["code"]) == (409, "fence-closed")
    assert refused.json()["closed_at"] == closed["closed_at"]


class Outage:
    """A staged object that the store cannot read for a while: a loop of links, which is an error and no absence.

    It begins and ends at one moment. A time without the object would be another fault, and a definite one.
    """

    def __init__(self, objects, params):
        self.path = Path(httpx.URL(objects.url).path) / params["objects"][0]["source"]
        self.kept = self.path.rename(self.path.with_name(f"{self.path.name}.kept"))
        self.path.symlink_to(self.path.name)

    def end(self):
        self.kept.replace(self.path)


def test_a_provider_that_is_down_says_when_to_come_back(raw, objects, run_id):
    body = action_body(objects, run_id)
    outage = Outage(objects, body["params"])
    down = raw.put(path_of(body), json=body)
    assert (down.status_code, down.json()["code"], down.headers["Retry-After"]) == (503, "not-applied", "1")
    assert (down.json()["definite"], down.json()["retryable"]) == (True, True)
    assert down.json()["action"]["status"] == "PREPARED"
    again = raw.put(path_of(body), json=body).json()
    assert (again["code"], again["retry_after_seconds"] <= 0.5) == ("not-applied", True)
    outage.end()


def test_the_client_waits_out_a_provider_that_is_down(client, objects, run_id):
    key = ActionKey(run_id, "write_draft", "draft")
    resource, params = draft_request(objects, run_id, b"#")
    outage = Outage(objects, params)

    def heal():
        while not any(action.not_before_at for action in client.actions(run_id)):  # until a first send has met it
            time.sleep(0.01)
        outage.end()

    healing = Thread(target=heal)
    healing.start()
    saved = client.perform(key, "draft.save", lambda: (resource, params), epoch=1)
    healing.join()
    assert (saved.status, client.events(saved.action_id)[2].word) == (Status.SUCCEEDED, "unsend")


def test_openapi_describes_every_route_with_examples(raw):
    document = raw.get("/openapi.json").json()
    assert json.loads(command("openapi").stdout) == document
    routes = {f"{method.upper()} {path}" for path, methods in document["paths"].items() for method in methods}
    assert routes == {
        "GET /health",
        "PUT /v1/actions/{action_id}",
        "GET /v1/actions/{action_id}",
        "GET /v1/actions",
        "GET /v1/actions/{action_id}/events",
        "POST /v1/actions/{action_id}/reconcile",
        "POST /v1/actions/{action_id}/compensate",
        "POST /v1/actions/{action_id}/resolve",
        "POST /v1/actions/{action_id}/withdraw",
        "PUT /v1/fences/{run_id}",
        "PUT /v1/approvals/{action_id}",
        "POST /v1/approvals/{action_id}/revoke",
        "PUT /v1/grants/{run_id}",
        "POST /v1/grants/{run_id}/revoke",
        "GET /v1/me",
        "GET /v1/decisions",
        "PUT /v1/guards/{action_id}",
        "POST /v1/actions/{action_id}/complete",
        "POST /v1/actions/{action_id}/found",
        "GET /v1/outbox",
        "POST /v1/outbox/{action_id}/retry",
        "POST /v1/runs/{run_id}/reconcile",
        "GET /v1/ledger",
        "POST /v1/ledger/hold",
        "POST /v1/ledger/release",
    }
    schemas = document["components"]["schemas"]
    bodies = {name for name in schemas if name.endswith("Body")}
    assert bodies >= {"ActionBody", "FenceBody", "ResolveBody", "WithdrawBody", "DecisionBody", "GrantBody"}
    assert all(schemas[name]["examples"] for name in bodies)
    assert {"definite", "terminal", "retryable", "code"} <= set(schemas["Problem"]["required"])


def test_the_examples_are_requests_that_the_service_takes(raw, objects):
    schemas = raw.get("/openapi.json").json()["components"]["schemas"]
    [body] = schemas["ActionBody"]["examples"]
    draft_request(objects, body["run_id"], b"hello")
    assert raw.put(path_of(body), json=body).json()["status"] == "SUCCEEDED"


def command(*arguments, env=None):
    """`onward-ledger …`, in this process."""
    return CliRunner().invoke(app, list(arguments), env=env)


def test_the_command_lists_and_shows(soon, service, client, objects, run_id):
    key = ActionKey(run_id, "write_draft", "draft")
    client.perform(key, "draft.save", lambda: draft_request(objects, run_id, b"#"), epoch=1)
    env = {"ONWARD_LEDGER_URL": service.url, "ONWARD_LEDGER_TOKEN_FILE": str(service.token_file)}
    listed = json.loads(command("list", "--run", run_id, "--json", env=env).stdout)
    assert [Action.from_json(a).action_id for a in listed["actions"]] == [key.action_id]
    line = f"{key.action_id}  SUCCEEDED  draft.save  write_draft/draft"
    assert command("list", "--run", run_id, env=env).stdout.startswith(line)
    shown = command("show", key.action_id, env=env).stdout
    assert shown.startswith(line)
    assert "record: IN_FLIGHT → SUCCEEDED" in shown
    missing = command("show", str(uuid.uuid4()), env=env)
    assert (missing.exit_code, missing.stdout) == (3, "")
    assert missing.stderr.startswith("There is no action")
    refused = command("resolve", key.action_id, "--failed", "--reason", "x", "--version", "3", env=env)
    assert (refused.exit_code, refused.stderr) == (
        4,
        "Only an UNKNOWN action can be resolved; this one is SUCCEEDED.\n",
    )
    assert command("list", env=env | {"ONWARD_LEDGER_URL": "http://127.0.0.1:9"}).exit_code == 9
    assert command("list", env=env | {"ONWARD_LEDGER_TOKEN_FILE": "/nowhere"}).exit_code == 1


def test_a_stop_finishes_requests_in_flight(soon, tmp_path):
    store = f"sqlite:///{tmp_path / 'ledger.db'}"
    with ledger_process(tmp_path, store) as process:
        client = process.start().client()
        objects, run_id = Objects(process.objects), str(uuid.uuid4())
        results = []

        def work():
            for n in range(2000):
                key, wanted = ActionKey(run_id, f"s{n}", "draft"), draft_request(objects, run_id, b"#", n)
                try:
                    results.append(client.perform(key, "draft.save", lambda wanted=wanted: wanted, epoch=1))
                except errors.LedgerError as error:
                    results.append(error)
                    return

        working = Thread(target=work)
        working.start()
        while len(results) < 5:
            time.sleep(0.01)
        assert process.stop() == 0
        working.join(30)
    assert isinstance(results[-1], errors.LedgerUnreachable)
    opened = open_store(store)
    found = opened.store.actions(run_id=run_id, limit=1000)
    opened.database.close()
    assert {a.status for a in found} == {Status.SUCCEEDED}, "nothing was left in flight"
    assert len(found) == len(results) - 1, "every action that was performed was also answered"


def serve_options(folder, **changes):
    options = {"store": f"sqlite:///{folder / 'ledger.db'}", "objects": str(folder / "objects"), "port": "0"}
    options |= {"token_file": str(folder / "token"), "ready_file": str(folder / "ready.json")} | changes
    return [part for name, value in options.items() for part in (f"--{name.replace('_', '-')}", value)]


def test_a_sqlite_ledger_has_one_service_at_a_time(service):
    ready_file = service.folder / "second.json"
    second = command("serve", *serve_options(service.folder, ready_file=str(ready_file)))
    assert second.exit_code == 4
    assert f"Another ledger service has the SQLite file {service.folder / 'ledger.db'} open." in second.stderr
    assert not ready_file.exists()


@pytest.mark.parametrize(
    ("change", "code", "sentence"),
    [
        ({"store": "postgresql://127.0.0.1:9/x"}, 9, "Postgres does not answer"),
        ({"store": "sqlite:"}, 2, "names no file"),
        ({"objects": "memory:///"}, 2, "do not survive"),
        ({"port": "99999"}, 2, "--port"),
        ({"host": "203.0.113.1"}, 2, "cannot be used"),
    ],
)
def test_a_start_that_cannot_work_says_why_in_one_sentence(tmp_path, change, code, sentence):
    result = command("serve", *serve_options(tmp_path, **change))
    assert (result.exit_code, sentence in result.stderr) == (code, True), result.stderr
    assert isinstance(result.exception, SystemExit)
    assert not (tmp_path / "ready.json").exists()


def test_a_short_token_is_refused(tmp_path):
    (tmp_path / "token").write_text("short\n")
    result = command("serve", *serve_options(tmp_path))
    assert (result.exit_code, "shorter than 16 characters" in result.stderr) == (2, True)


def test_the_readme_example_runs(service, tmp_path, monkeypatch, capsys):
    readme = (ROOT / "ledger" / "README.md").read_text()
    [example] = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)
    example = example.replace("http://127.0.0.1:7420", service.url).replace('"onward-objects"', repr(service.objects))
    (tmp_path / "onward-ledger.token").write_text(service.token)
    monkeypatch.chdir(tmp_path)
    exec(compile(example, "README.md", "exec"), {})
    receipt, replayed = capsys.readouterr().out.splitlines()
    assert "'noted_at': '" in receipt
    assert replayed == "True"


def test_help_teaches():
    text = command("--help").stdout
    for word in ("serve", "list", "show", "resolve", "openapi", "UNKNOWN", "ONWARD_LEDGER_", "onward-ledger.token"):
        assert word in text
