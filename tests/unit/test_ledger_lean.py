"""The short way of the requests that come all the time: what goes it, and that it says what the routes say."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace

import httpx
import pytest

from onward_ledger.action import ActionKey
from onward_ledger.callers import Caller, Scope
from onward_ledger.database import Unreachable
from onward_ledger.errors import InProgress, NotFound
from onward_ledger.routes.common import Service
from onward_ledger.routes.lean import Lean
from onward_ledger.service import create_app
from onward_ledger.store.records import Cause, proposed
from onward_ledger.tokens import Tokens
from onward_ledger.values import Health

RUN = "7f0f3b8e-6a5d-4a53-9d7e-0c1a2b3c4d5e"
ID = ActionKey(RUN, "pay", "charge").action_id
PATH = f"/v1/actions/{ID}"
BODY = {"run_id": RUN, "step": "pay", "slot": "charge", "kind": "k", "resource": "r", "params": {"n": 1.5}, "epoch": 1}
JSON = {"Content-Type": "application/json"}
HEALTH = Health(instance="i", version="v", store="sqlite", objects="o", pid=1, api="1")
NOW = datetime(2030, 1, 1, tzinfo=UTC)


class FakeLedger:
    """Proposes what it is asked for; some resources are trouble."""

    def __init__(self) -> None:
        self.calls = []
        self.store = SimpleNamespace(outbox=self)
        self.recorded = {}

    def put(self, intent, *, propose, later, principal):
        self.calls.append((intent, propose, later, principal))
        if intent.resource == "gone":
            raise Unreachable("no connection")
        action, _ = proposed(intent, NOW, Cause())
        if intent.resource == "busy":
            raise InProgress("It is being performed.", action=action, retry_after_seconds=0.1)
        if intent.resource == "defect":
            raise ZeroDivisionError
        self.recorded[action.action_id] = action
        return replace(action, reason=principal)

    def look(self, action_id):
        if action_id not in self.recorded:
            raise NotFound(f"There is no action {action_id}.")
        return self.recorded[action_id]


class Asked:
    """The service over a fake ledger, without a socket."""

    def __init__(self, caller=None):
        self.ledger = FakeLedger()
        tokens = Tokens("t" * 20)
        if caller is not None:
            tokens.caller = lambda _: caller
        self.app = create_app(Service(ledger=self.ledger, health=HEALTH, tokens=tokens))

    def ask(self, method, path, **options):
        async def asked():
            transport = httpx.ASGITransport(self.app, raise_app_exceptions=False)
            headers = {"Authorization": "Bearer " + "t" * 20, **options.pop("headers", {})}
            async with httpx.AsyncClient(transport=transport, base_url="http://ledger") as client:
                return await client.request(method, path, headers=headers, **options)

        return asyncio.run(asked())


def handed_on(method, path, *, query=b"", headers=(), chunks=(b"",), kind="http.request"):
    """What comes to the routes behind the short way: None, or the body as they read it."""
    got = []

    async def routes(scope, receive, send):
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        got.append(body)

    async def asked():
        left = [{"type": kind, "body": chunk, "more_body": True} for chunk in chunks]
        left[-1]["more_body"] = False

        async def receive():
            return left.pop(0)

        async def send(message):
            pass

        scope = {"type": "http", "method": method, "path": path, "query_string": query, "headers": list(headers)}
        scope["state"] = {"caller": Caller(name="service")}
        await Lean(routes, Service(ledger=FakeLedger(), health=HEALTH, tokens=Tokens("t" * 20)))(scope, receive, send)

    asyncio.run(asked())
    return got[0] if got else None


TYPE = (b"content-type", b"application/json")
SENT = json.dumps(BODY).encode()


def test_what_goes_the_short_way():
    assert handed_on("PUT", PATH, headers=[TYPE], chunks=[SENT]) is None
    assert handed_on("PUT", PATH, headers=[TYPE], chunks=[SENT[:20], SENT[20:]]) is None
    assert handed_on("GET", PATH) is None


@pytest.mark.parametrize(
    ("method", "path", "options"),
    [
        ("PUT", PATH, {"headers": [TYPE], "query": b"propose=1"}),
        ("PUT", PATH, {"headers": [(b"content-type", b"application/json; charset=utf-8")]}),
        ("PUT", PATH, {"headers": []}),
        ("PUT", PATH, {"headers": [(b"content-type", b"text/plain"), TYPE]}),
        ("PUT", PATH, {"headers": [TYPE], "kind": "http.disconnect"}),
        ("PUT", PATH.upper().replace("/V1/ACTIONS", "/v1/actions"), {"headers": [TYPE]}),
        ("PUT", PATH + "/", {"headers": [TYPE]}),
        ("PUT", PATH + "\n", {"headers": [TYPE]}),
        ("POST", PATH, {"headers": [TYPE]}),
        ("HEAD", PATH, {}),
    ],
)
def test_what_is_unusual_is_left_to_the_routes_whole(method, path, options):
    assert handed_on(method, path, chunks=[SENT[:20], SENT[20:]], **options) == SENT


def test_what_is_wrong_is_left_to_the_routes_whole():
    for wrong in (
        b"",
        b"[]",
        b"{",
        b"\xff",
        b"[" * 100_000,
        b"{}",
        SENT[:-1] + b', "more": 1}',
        SENT.replace(b"1}", b'"1"}'),
    ):
        assert handed_on("PUT", PATH, headers=[TYPE], chunks=[wrong]) == wrong


CHANGES = [
    {},
    {"resource": "busy"},
    {"resource": "gone"},
    {"resource": "defect"},
    {"rev": 2},
    {"run_id": "x"},
    {"step": "a b"},
    {"epoch": "1"},
    {"epoch": 2**60},
    {"params": []},
    {"params": {"n": 2**60}},
    {"params": {"text": "x" * 70_000}},
    {"more": 1},
    {"resource": ""},
]


@pytest.fixture(scope="module")
def ways():
    return Asked(), Asked()


@pytest.mark.parametrize("change", CHANGES, ids=str)
@pytest.mark.parametrize("who", [None, "Zo%C3%AB", "", "%00"])
def test_both_ways_say_the_same(ways, change, who):
    short, long = ways
    short.ledger.calls, long.ledger.calls = [], []
    named = {} if who is None else {"X-Onward-Principal": who}
    content = json.dumps(BODY | change)
    got = short.ask("PUT", PATH, content=content, headers=JSON | named)
    same = long.ask("PUT", PATH, content=content, headers={"Content-Type": "application/json; charset=utf-8"} | named)
    assert (got.status_code, got.content, got.headers) == (same.status_code, same.content, same.headers)
    assert short.ledger.calls == long.ledger.calls
    assert (got.status_code == 202) == (change == {} and who in (None, "Zo%C3%AB"))


@pytest.mark.parametrize(
    "caller",
    [
        Caller(name="reader", scopes=frozenset({Scope.READ})),
        Caller(name="other", scopes=frozenset({Scope.PERFORM}), kinds=("other.*",)),
        Caller(name="ann", principal="Ann"),
    ],
)
def test_both_ways_ask_for_the_same_scopes(caller):
    answers = []
    for kind in ("application/json", "application/json; charset=utf-8"):
        service = Asked(caller)
        headers = {"Content-Type": kind, "X-Onward-Principal": "Bob"}
        answers.append(service.ask("PUT", PATH, json=BODY, headers=headers))
        assert not service.ledger.calls
    assert {answer.status_code for answer in answers} == {403}
    assert answers[0].content == answers[1].content


def test_both_ways_look_at_the_same():
    service = Asked()
    plain, unusual = PATH, PATH.replace(ID, ID.upper())
    for status in (404, 200):
        answers = [service.ask("GET", path) for path in (plain, unusual)]
        assert [answer.status_code for answer in answers] == [status, status]
        assert answers[0].content == answers[1].content
        service.ask("PUT", PATH, json=BODY)
    blind = Asked(Caller(name="sender", scopes=frozenset({Scope.PERFORM})))
    assert blind.ask("GET", plain).content == blind.ask("GET", unusual).content
    assert blind.ask("GET", plain).status_code == 403
