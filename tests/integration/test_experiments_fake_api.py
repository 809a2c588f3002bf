"""The fake API: that it does what it is told to do wrong, and that its log is what happened."""

import http.client
import json
import time

import pytest

from experiments.fake_api import FakeApi
from experiments.fake_api_server import SEARCH_FAULTS, SEND_FAULTS


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    with FakeApi(tmp_path_factory.mktemp("api")) as api:
        yield api


@pytest.fixture
def api(shared):
    yield shared
    shared.control(heal=True)


def ask(api, method, target, body=None, seconds=10, **headers):
    connection = http.client.HTTPConnection("127.0.0.1", api.port, timeout=seconds)
    try:
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, target, None if body is None else json.dumps(body), names)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


def post(api, marker, flavour="searchable", **options):
    return ask(api, "POST", f"/{flavour}/things", {"marker": marker}, **options)


def found(api, marker):
    status, document = ask(api, "GET", f"/searchable/things?marker={marker}")
    assert status == 200
    return [item["id"] for item in document["items"]], document["has_more"], document["total"]


def test_a_thing_is_a_line_before_it_is_an_answer(api):
    status, thing = post(api, "m1")
    assert status == 201
    (effect,) = api.effects(marker="m1")
    assert (effect.id, effect.flavour, effect.key) == (thing["id"], "searchable", None)
    assert found(api, "m1") == ([thing["id"]], False, 1)
    assert ask(api, "GET", "/searchable/by-marker/m1") == (200, thing)
    assert ask(api, "GET", "/searchable/by-marker/m0")[0] == 404
    assert ask(api, "POST", "/nowhere", {})[0] == 404


def test_only_one_flavour_deduplicates(api):
    for flavour, effects in (("idempotent", 1), ("searchable", 2), ("opaque", 2)):
        first, second = (post(api, f"key-{flavour}", flavour, Idempotency_Key=flavour)[1] for _ in range(2))
        assert (first == second) == (flavour == "idempotent")
        assert len(api.effects(flavour=flavour, marker=f"key-{flavour}")) == effects
    assert post(api, "another body", "idempotent", Idempotency_Key="idempotent")[0] == 422


def test_keys_are_forgotten_at_once_or_with_time(api):
    post(api, "f1", "idempotent", Idempotency_Key="f1")
    api.control(forget_keys=True)
    post(api, "f1", "idempotent", Idempotency_Key="f1")
    assert len(api.effects(marker="f1")) == 2
    (*_, last) = api.effects(marker="f1")
    api.control(forget_keys_after=0.2)
    api.wait_until(lambda _: time.time() > last.at + 0.2)
    post(api, "f1", "idempotent", Idempotency_Key="f1")
    assert len(api.effects(marker="f1")) == 3
    api.control(forget_keys_after=3600)


@pytest.mark.parametrize(
    "fault", sorted(fault for fault in SEND_FAULTS if "delay" not in fault and "hold" not in fault)
)
def test_each_fault_of_a_send_happens_once_and_is_told(api, fault):
    before, marker = len(api.fired()), f"send {fault}"
    api.control(send=fault)
    try:
        post(api, marker)
    except (http.client.HTTPException, OSError, ValueError):
        assert fault in ("drop before", "drop after", "cut", "broken")
    assert api.fired()[before:] == (fault,)
    without = {"error before", "lie", "drop before", "busy", "unavailable", "refuse", "conflict", "redirect"}
    assert len(api.effects(marker=marker)) == (0 if fault in without else 2 if fault == "double" else 1)
    assert post(api, marker)[0] == 201


def test_what_a_search_can_get_wrong(api):
    post(api, "s1")
    (thing,) = [effect.id for effect in api.effects(marker="s1")]
    expected = {
        "duplicate": ([thing, f"{thing}-again"], False, 2),
        "twice": ([thing, thing], False, 2),
        "more": ([thing], True, 2),
        "lag": ([], False, 0),
    }
    for fault, seen in expected.items():
        api.control(search=fault)
        assert found(api, "s1") == seen, fault
        assert found(api, "s1") == ([thing], False, 1)
    api.control(search="lag", seconds=3600)
    assert found(api, "s1")[0] == []
    api.control(search="lag", seconds=0.001)
    assert found(api, "s1")[0] == [thing]
    api.control(search="everything")
    assert len(found(api, "s1")[0]) == len(api.effects(flavour="searchable"))
    for fault in SEARCH_FAULTS - expected.keys() - {"everything", "hold", "delay", "huge"}:
        api.control(search=fault)
        with pytest.raises((http.client.HTTPException, OSError, ValueError, AssertionError)):
            found(api, "s1")


def test_a_held_request_waits_for_its_release_on_either_side_of_the_effect(api):
    for when, effects in (("before", 0), ("after", 1)):
        marker = f"held {when}"
        api.control(send=f"hold {when}", marker=marker)
        assert post(api, "somebody else")[0] == 201
        with pytest.raises(TimeoutError):
            post(api, marker, seconds=0.1)
        assert (api.held(), api.under_way(), len(api.effects(marker=marker))) == (1, 1, effects)
        api.control(release=True)
        api.wait_until(lambda api: api.under_way() == 0)
        assert len(api.effects(marker=marker)) == 1, "the caller is gone, and it happens all the same"


def test_a_delay_takes_its_time(api):
    api.control(send="delay before", seconds=0.2)
    began = time.monotonic()
    assert post(api, "slow")[0] == 201
    assert time.monotonic() - began >= 0.2


def test_a_fault_that_does_not_exist_is_no_fault(api):
    with pytest.raises(ValueError, match="there is no fault 'eroor after'"):
        api.control(send="eroor after")


def test_a_torn_last_line_is_no_effect(tmp_path):
    with FakeApi(tmp_path) as api:
        post(api, "t1")
        api.kill()
        with api.log.open("ab") as log:
            log.write(b'{"id": "thing-2", "fla')
        assert len(api.effects()) == 1
        api.start()
        assert post(api, "t2")[1]["id"] == "thing-2"
        assert [effect.id for effect in api.effects()] == ["thing-1", "thing-2"]
