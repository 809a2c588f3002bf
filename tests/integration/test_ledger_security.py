"""What the service lets pass, and to whom: scopes of every route, persons, kinds, sizes, and that no secret is kept."""

import json
import socket
import uuid
from base64 import b64encode
from contextlib import contextmanager
from datetime import UTC, datetime

import httpx
import pytest

from onward_ledger import LedgerClient, errors
from onward_ledger.action import ActionKey, Status
from onward_ledger.callers import EVERYTHING, Caller, Scope
from onward_ledger.gate import LARGEST_BODY_BYTES
from onward_ledger.objects import Objects
from onward_ledger.problems import MEDIA_TYPE
from onward_ledger.token_file import add, new_token, revoke
from onward_ledger.wire import DEEPEST_JSON
from tests.support.ledger import draft_request, publication_request
from tests.support.ledger_process import ledger_process
from tests.support.raw_server import raw_server

FAR = datetime(2100, 1, 1, tzinfo=UTC)
SECRET = "the-secret-of-the-kind-815"

# Which routes a token of one scope is good for. Every other one that changes something is an operator's.
PERFORM = {
    *("put_action", "reconcile", "reconcile_run", "withdraw", "put_fence", "compensate"),
    *("begin_guarded", "complete_guarded", "found_guarded"),
}
DECIDE = {"decide", "put_grant", "revoke", "revoke_grant"}

KINDS = """
[kinds."echo.send"]
type = "http"
class = "opaque"
base_url = "http://127.0.0.1:{port}"
plain_http = true
allow_addresses = ["127.0.0.1/32"]
path = "/echo"
deadline_seconds = 5
secret_headers = {{ Authorization = {{ value_env = "ECHO_SECRET", prefix = "Bearer " }} }}
answer = {{ provider_id = "/id", receipt = {{ note = "/note" }} }}
"""


def echo(peer, number):
    """An API that says back the secret it was sent, in every way that an answer can."""
    while (request := peer.request()) is not None:
        said = next(line for line in request.split(b"\r\n") if line.lower().startswith(b"authorization:"))
        secret = said.split()[-1].decode()
        mode = json.loads(request.partition(b"\r\n\r\n")[2])["mode"]
        if mode == "garbage":
            peer.say(f"HTTP/1.1 {secret} {said.decode()}\r\n\r\n".encode())
            return
        body = json.dumps({"id": f"id {secret}", "note": said.decode(), "error": secret}).encode()
        status = {"ok": b"201 Created", "refuse": b"422 Unprocessable", "fail": b"500 Oh"}[mode]
        peer.say(
            b"HTTP/1.1 ", status, b"\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body), body
        )


@pytest.fixture(scope="module")
def api():
    with raw_server(echo) as server:
        yield server


class Guarded:
    """A service with a token of each sort."""

    def __init__(self, process, path):
        self.process, self.path = process, path
        self.tokens = {"service": process.token}
        self.raw = httpx.Client(base_url=process.url, trust_env=False, verify=False, timeout=20)
        process._clients.append(self.raw)
        self.document = self.ask("GET", "/openapi.json").json()

    def make(self, name, *scopes, **more):
        caller = Caller(name=name, scopes=frozenset(scopes), **more)
        self.tokens[name] = add(self.path, caller, created_at=datetime.now(UTC))
        return self.tokens[name]

    def client(self, token="service", **options):
        client = LedgerClient(self.process.url, self.tokens[token], **{"principal": "anna"} | options)
        self.process._clients.append(client)
        return client

    def ask(self, method, path, token="service", **options):
        headers = {"Authorization": f"Bearer {self.tokens[token]}"} | options.pop("headers", {})
        return self.raw.request(method, path, headers=headers, **options)

    def requests(self):
        """One request for each operation of the document: its id, and what `ask` takes."""
        for path, operations in self.document["paths"].items():
            for method, operation in operations.items():
                options = {"headers": {"X-Onward-Principal": "anna"}}
                for content in operation.get("requestBody", {}).get("content", {}).values():
                    name = content["schema"]["$ref"].rsplit("/", 1)[1]
                    options["json"] = self.document["components"]["schemas"][name]["examples"][0]
                filled = path.format(action_id=uuid.uuid4(), run_id=uuid.uuid4())
                yield operation["operationId"], (method.upper(), filled), options

    def log(self):
        return (self.process.folder / "ledger.log").read_text()


def start(folder, api):
    folder.mkdir(exist_ok=True)
    (folder / "kinds.toml").write_text(KINDS.format(port=api.port))
    path = folder / "tokens.toml"
    add(path, Caller(name="spare", scopes=EVERYTHING), created_at=datetime.now(UTC))
    environment = {
        "ONWARD_LEDGER_TOKENS": str(path),
        "ONWARD_LEDGER_CONFIG": str(folder / "kinds.toml"),
        "ECHO_SECRET": SECRET,
    }
    return ledger_process(folder, f"sqlite:///{folder / 'ledger.db'}", environment=environment)


@pytest.fixture(scope="module")
def service(tmp_path_factory, api):
    folder = tmp_path_factory.mktemp("security")
    with start(folder, api) as process:
        yield Guarded(process.start(), folder / "tokens.toml")


@pytest.fixture
def run_id():
    return str(uuid.uuid4())


def saved_draft(service, client, run_id):
    build = lambda: draft_request(Objects(service.process.objects), run_id, b"# Report")  # noqa: E731
    return client.perform(ActionKey(run_id, "write", "draft"), "draft.save", build, epoch=1)


def proposed_report(service, run_id):
    client = service.client()
    saved = saved_draft(service, client, run_id)
    key = ActionKey(run_id, "deliver", "publish")
    return client.propose(key, "report.publish", lambda: publication_request(saved), epoch=1)


# --- who may --------------------------------------------------------------------------------------------------------


def test_every_route_asks_for_one_scope(tmp_path, api):
    with start(tmp_path, api) as process:
        service = Guarded(process.start(), tmp_path / "tokens.toml")
        for scope in Scope:
            service.make(scope, scope)
        found = {}
        for operation, request, options in service.requests():
            good = {scope for scope in Scope if service.ask(*request, token=scope, **options).status_code != 403}
            found[operation] = (request[0], good)
    assert found.pop("health")[1] == set(Scope), "anybody may ask who answers"
    assert found.pop("me")[1] == set(Scope), "and everybody who they are"
    assert found.pop("revoke")[1] == {Scope.DECIDE, Scope.OPERATE}, "one's own approval, or anybody's"
    assert len(found) > 15
    for operation, (method, good) in found.items():
        if operation in PERFORM:
            assert good == {Scope.PERFORM}, operation
        elif operation in DECIDE:
            assert good == {Scope.DECIDE}, operation
        elif method == "GET":
            assert good in ({Scope.READ}, {Scope.OPERATE}), operation
        else:
            assert good == {Scope.OPERATE}, operation


def test_closing_a_fence_is_an_operators(service, run_id):
    service.make("closer", Scope.OPERATE)
    service.make("driver", Scope.PERFORM)
    with pytest.raises(errors.Forbidden, match="'driver' lacks the scope 'operate'"):
        service.client("driver").close_fence(run_id, reason="enough")
    assert service.client("closer").close_fence(run_id, reason="enough").closed_at is not None
    with pytest.raises(errors.Forbidden, match="'closer' lacks the scope 'perform'"):
        service.client("closer").fence(run_id, 1, holder="me")


def test_a_fence_is_announced_or_closed_and_not_both(service, run_id):
    both = {"epoch": 1, "holder": "me", "closed": True, "reason": "enough"}
    for body in (both, {"epoch": 1, "holder": "me", "closed": True}, {"epoch": 1}, {}):
        assert service.ask("PUT", f"/v1/fences/{run_id}", json=body).status_code == 422


def test_a_wrong_token_and_none_get_the_same_answer(service):
    def answer(headers):
        response = service.raw.get("/v1/actions", headers=headers)
        return (
            response.status_code,
            response.content,
            sorted((k, v) for k, v in response.headers.items() if k != "date"),
        )

    wrong = ("Bearer " + new_token(), "Bearer", f"Basic {service.process.token}", service.process.token, "")
    answers = [answer({}), *(answer({"Authorization": header}) for header in wrong)]
    assert answers[0][0] == 401
    assert answers == [answers[0]] * len(answers)
    assert answer({"Authorization": f"bearer {service.process.token}"})[0] == 200, "the control; schemes have no case"


def test_strangers_do_not_fill_the_log(service):
    before = service.log().count("had no good token")
    guesses = [new_token() for _ in range(60)]
    began = datetime.now(UTC)
    for guess in guesses:
        service.raw.get("/v1/actions", headers={"Authorization": f"Bearer {guess}"})
    seconds = (datetime.now(UTC) - began).total_seconds()
    assert service.log().count("had no good token") - before <= seconds + 1
    assert not any(guess in service.log() for guess in guesses)


def test_tokens_come_and_go_while_the_service_runs(service):
    token = service.make("guest", Scope.READ)
    assert service.client("guest").actions() is not None
    revoke(service.path, "guest")
    with pytest.raises(errors.Unauthorized):
        service.client("guest").actions()
    service.make("stays", Scope.READ)
    assert service.client("stays").actions() is not None
    good = service.path.read_text()
    service.path.write_text(good + "[tokens.\n")
    assert service.client("stays").actions() is not None
    assert "The tokens that were read before stay in force." in service.log()
    service.path.write_text(good)
    assert token not in service.log()


# --- persons and kinds ----------------------------------------------------------------------------------------------


def test_a_person_is_asserted_or_proved(service, run_id):
    service.make("anybody", Scope.DECIDE)
    service.make("ben", Scope.DECIDE, principal="ben")
    first, second = proposed_report(service, run_id), proposed_report(service, str(uuid.uuid4()))
    asserted = service.client("anybody", principal="anna").decide(
        first.action_id, "approve", request_hash=first.request_hash, expires_at=FAR
    )
    assert (asserted.principal, asserted.principal_asserted) == ("anna", True)
    with pytest.raises(errors.Forbidden, match="is ben's; it cannot speak for anna"):
        service.client("ben", principal="anna").decide(
            second.action_id, "approve", request_hash=second.request_hash, expires_at=FAR
        )
    assert service.client().action(second.action_id).decision is None, "nothing was decided"
    proved = service.client("ben", principal=None).decide(
        second.action_id, "approve", request_hash=second.request_hash, expires_at=FAR
    )
    assert (proved.principal, proved.principal_asserted) == ("ben", False)


def test_a_token_for_some_kinds_is_good_for_these_only(service, run_id):
    service.make("reporter", Scope.PERFORM, Scope.DECIDE, Scope.READ, kinds=("report.*",))
    reporter = service.client("reporter")
    with pytest.raises(errors.Forbidden, match="'reporter' may perform actions of report"):
        saved_draft(service, reporter, run_id)
    assert reporter.actions(run_id) == (), "nothing was recorded"
    proposed = proposed_report(service, run_id)
    draft, _ = service.client().actions(run_id)
    with pytest.raises(errors.Forbidden, match=r"not of draft\.save"):
        reporter.reconcile(draft.action_id)
    with pytest.raises(errors.Forbidden, match=r"not of draft\.save"):
        reporter.decide(draft.action_id, "approve", request_hash=draft.request_hash)
    reporter.decide(proposed.action_id, "approve", request_hash=proposed.request_hash, expires_at=FAR)
    recorded = proposed.resource, proposed.params
    done = reporter.perform(proposed.key, "report.publish", lambda: recorded, epoch=1)
    assert done.status is Status.SUCCEEDED


def test_who_lacks_the_scope_does_not_learn_which_actions_there_are(service, run_id):
    service.make("blind", Scope.OPERATE)
    there, nowhere = proposed_report(service, run_id).action_id, uuid.uuid4()
    answers = [
        service.ask("POST", f"/v1/actions/{action_id}/{what}", token="blind", json={"reason": "x"})
        for action_id in (there, nowhere)
        for what in ("reconcile", "withdraw")
    ]
    assert [(answer.status_code, answer.json()["code"]) for answer in answers] == [(403, "forbidden")] * 4
    assert len({answer.json()["detail"] for answer in answers}) == 1


def test_a_query_that_the_route_does_not_know_is_refused(service, run_id):
    """Misspelt, `?propose=1` would perform."""
    resource, params = draft_request(Objects(service.process.objects), run_id, b"# Report")
    key = ActionKey(run_id, "write", "draft")
    body = {"run_id": run_id, "step": key.step, "slot": key.slot, "kind": "draft.save", "epoch": 1}
    body |= {"resource": resource, "params": params}
    path = f"/v1/actions/{key.action_id}"
    for query, says in (("propse=1", "'propse'; it takes"), ("propose=0&propose=1", "propose is given twice")):
        answer = service.ask("PUT", f"{path}?{query}", json=body)
        assert (answer.status_code, says in answer.json()["detail"]) == (422, True)
    assert service.ask("GET", f"{path}?x=1").json()["detail"].endswith("'x'; it takes none.")
    assert service.ask("GET", path).status_code == 404, "nothing was recorded"
    assert service.ask("PUT", f"{path}?propose=1", json=body).json()["status"] == "PREPARED"


# --- sizes ----------------------------------------------------------------------------------------------------------


def nested(depth):
    value = {"end": 1}
    for _ in range(depth - 2):
        value = {"in": value}
    return value


def body_of(run_id, params):
    body = {"run_id": run_id, "step": "a", "slot": "b", "kind": "draft.save", "resource": "r", "epoch": 1}
    return body | {"params": params}


@pytest.mark.parametrize(
    "content",
    [
        b"[" * 250_000,
        b'{"a":' * 50_000,
        b'{"params":' + b'{"a":' * 30_000 + b"1" + b"}" * 30_000 + b"}",
        b'{"epoch": 1' + b"0" * 10_000 + b"}",
        b'{"params": {"n": 1e999}}',
        b'{"params": {"s": "\\ud800"}}',
        b'{"params": "\xff\xfe"}',
        b"\x00" * 1000,
        b'"' + b"a" * 100_000 + b'"',
        b"",
    ],
    ids=["lists", "objects", "params", "digits", "infinity", "surrogate", "bytes", "zeros", "text", "nothing"],
)
def test_odd_bodies_are_refused_and_the_service_goes_on(service, content):
    for method, path in (("PUT", f"/v1/actions/{uuid.uuid4()}"), ("PUT", f"/v1/fences/{uuid.uuid4()}")):
        answer = service.ask(method, path, content=content, headers={"Content-Type": "application/json"})
        assert (answer.status_code, answer.headers["content-type"]) == (422, MEDIA_TYPE)
        assert len(answer.content) < 10_000
    assert service.ask("GET", "/health").status_code == 200


def test_params_are_not_deep_and_not_many(service, run_id):
    path = "/v1/actions/" + ActionKey(run_id, "a", "b").action_id
    for params, says in (
        (nested(DEEPEST_JSON + 1), "params is nested deeper than 32 levels."),
        ({"many": [0] * 20_000}, "params has more than 10000 values."),
    ):
        answer = service.ask("PUT", path, json=body_of(run_id, params))
        assert (answer.status_code, answer.json()["detail"]) == (422, says)
    answer = service.ask("PUT", path, json=body_of(run_id, {"text": "x" * 70_000}))
    assert (answer.status_code, answer.json()["code"]) == (413, "too-large")
    answer = service.ask("PUT", path, json=body_of(run_id, nested(DEEPEST_JSON)))
    assert "nested" not in answer.json()["detail"], "the control: this deep is no reason"


def test_large_bodies_and_heads_are_refused(service):
    answer = service.ask("PUT", f"/v1/actions/{uuid.uuid4()}", content=b"x" * (LARGEST_BODY_BYTES + 1))
    assert answer.status_code == 413
    with connected(service) as raw:
        raw.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\nX-Long: " + b"x" * 100_000 + b"\r\n\r\n")
        assert b" 200 " not in raw.makefile("rb").readline()
    assert service.ask("GET", "/health", headers={"X-Long": "x" * 8000}).status_code == 200


def flood(service, start, more):
    """Send `start`, then 16 MiB of `more`, which lead to nothing; the bytes until the server hung up."""
    sent, many = 0, more * (65536 // len(more))
    with connected(service) as raw:
        raw.sendall(start)
        try:
            while sent < 16 * 1024**2:
                raw.sendall(many)
                sent += len(many)
        except OSError:
            return sent
    return sent


@contextmanager
def connected(service):
    host, port = service.process.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=20) as raw:
        yield raw


CHUNKED = b"PUT /v1/actions/x HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    ("start", "more"),
    [
        (b"GET /", b"a"),
        (b"GET /health HTTP/1.1\r\nHost: x\r\n", b"X-More: more\r\n"),
        (b"GET /health HTTP/1.1\r\nHost: x\r\nX-Long: ", b"a"),
        (CHUNKED + b"2;", b"a"),
        (CHUNKED + b"2\r\n{}\r\n0\r\n", b"X-More: more\r\n"),
    ],
    ids=["address", "headers", "header", "chunk", "trailers"],
)
def test_a_request_that_never_ends_is_not_buffered(service, start, more):
    assert flood(service, start, more) < 12 * 1024**2
    assert service.ask("GET", "/health").status_code == 200


@pytest.mark.parametrize("wish", ["h2c", "websocket"])
def test_who_wishes_for_another_protocol_is_served_in_this_one(service, run_id, wish):
    headers = {"Connection": "Upgrade, HTTP2-Settings", "Upgrade": wish, "HTTP2-Settings": "AAMAAABkAAQAAP__"}
    body = {"epoch": 1, "holder": "host:1"}
    for _ in range(2):  # over a kept connection
        answer = service.ask("PUT", f"/v1/fences/{run_id}", json=body, headers=headers)
        assert (answer.status_code, answer.json()["holder"]) == (200, "host:1")
    with connected(service) as raw:
        raw.sendall(b"CONNECT x:1 HTTP/1.1\r\nHost: x\r\n\r\n")
        assert b" 400 " in raw.makefile("rb").readline()


# --- secrets --------------------------------------------------------------------------------------------------------


def use_every_route(service):
    """Good, broken and misplaced requests, with each sort of token."""
    for name in service.tokens:
        token = service.tokens[name]
        for _, (method, path), options in service.requests():
            service.ask(method, path, token=name, **options)
            service.ask(method, path, token=name, content=b'{"Authorization": "Bearer ' + token.encode())
            service.ask(method, path, token=name, json={"token": token}, params={"token": token})
            service.ask(
                method, path, token=name, headers={"Authorization": f"Basic {b64encode(token.encode()).decode()}"}
            )
        service.ask("GET", f"/v1/{token}", token=name)
        service.ask("DELETE", "/v1/actions", token=name, headers={"X-Onward-Principal": "%00" + token})


def test_no_secret_is_in_the_log_the_database_or_an_answer(tmp_path, api):
    run_id = str(uuid.uuid4())
    with start(tmp_path, api) as process:
        service = Guarded(process.start(), tmp_path / "tokens.toml")
        service.make("all", *EVERYTHING)
        actions = {}
        client = service.client(patience_seconds=0.1)
        for mode in ("ok", "refuse", "fail", "garbage"):
            key = ActionKey(run_id, mode, "echo")
            actions[mode] = client.perform(key, "echo.send", lambda mode=mode: ("there", {"mode": mode}), epoch=1)
        use_every_route(service)
        answers = json.dumps([[event.to_json() for event in client.events(a.action_id)] for a in actions.values()])
        answers += json.dumps([action.to_json() for action in actions.values()])
        tokens = list(service.tokens.values())
        assert process.stop() == 0
    kept = {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file() and path.name != "token"}
    assert {"ledger.log", "ledger.db", "tokens.toml"} <= set(kept)
    kept["answers"] = answers.encode()
    for secret in (SECRET, *tokens):
        for written in (secret.encode(), b64encode(secret.encode()).rstrip(b"=")):
            assert [name for name, data in kept.items() if written in data] == []
    # The controls: the secret went out and came back, was about to be kept, and what can be kept of it was.
    assert sum(SECRET.encode() in request for request in api.requests) >= 4
    assert [actions[mode].status for mode in ("ok", "refuse", "fail", "garbage")] == [
        Status.SUCCEEDED,
        Status.FAILED,
        Status.UNKNOWN,
        Status.UNKNOWN,
    ]
    assert "***" in json.dumps(actions["ok"].receipt)
    assert b"Traceback" in kept["ledger.log"]
    assert b"***" in kept["ledger.db"]
