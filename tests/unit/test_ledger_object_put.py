"""The provider type `object` over folders: what it refuses to record, what is definite, what it looks up."""

from dataclasses import replace

import pytest

from onward_ledger import errors
from onward_ledger.objects import Objects, digest_of
from onward_ledger.providers.configured import Context
from onward_ledger.providers.interface import (
    Absent,
    Applied,
    CannotTell,
    Deadline,
    DeadlinePassed,
    NotSent,
    ProviderClass,
    Refused,
)
from onward_ledger.providers.object_put import ObjectPut, from_settings
from tests.unit.test_ledger_action import RUN, action

HASH = digest_of(b"hello")


@pytest.fixture
def staging(tmp_path):
    objects = Objects(str(tmp_path / "objects"))
    objects.put_once(f"runs/{RUN}/{HASH}", b"hello")
    return objects


@pytest.fixture
def context(staging, tmp_path):
    return Context(objects=staging, folder=tmp_path)


@pytest.fixture
def provider(context):
    return from_settings("site.put", {"store": "site"}, context)


@pytest.fixture
def site(provider, tmp_path):
    return Objects(str(tmp_path / "site"))


def item(**changes):
    members = {"key": "index.html", "source": f"runs/{RUN}/{HASH}", "digest": HASH, "size": 5}
    return members | {"media_type": "text/html"} | changes


def put(*items, resource="pages"):
    return action(kind="site.put", resource=resource, params={"objects": list(items) or [item()]})


@pytest.mark.parametrize(
    ("bad", "sentence"),
    [
        ({"source": "runs/other/x"}, r"objects\[0\].source must lie below runs/"),
        ({"source": f"runs/{RUN}/../x"}, "plain relative path"),
        ({"key": "/etc/passwd"}, "plain relative path"),
        ({"key": "a/../../b"}, "plain relative path"),
        ({"key": None}, "plain relative path"),
        ({"digest": "abc"}, "hex sha256"),
        ({"size": True}, "number of bytes"),
        ({"media_type": "text/html\r\nX: y"}, "media type"),
        ({"media_type": "text/html\n"}, "media type"),
        ({"colour": "red"}, "exactly the members"),
    ],
)
def test_an_object_that_cannot_be_meant_is_not_recorded(provider, bad, sentence):
    with pytest.raises(errors.BadRequest, match=sentence):
        provider.validate(RUN, "pages", {"objects": [item() | bad]})


@pytest.mark.parametrize(
    ("resource", "params"),
    [
        ("../pages", {"objects": [item()]}),
        ("/pages", {"objects": [item()]}),
        ("pages/", {"objects": [item()]}),
        ("pages", {"objects": []}),
        ("pages", {"objects": "x"}),
        ("pages", {}),
        ("pages", {"objects": [item()], "more": 1}),
        ("pages", {"objects": [item(), item()]}),
        ("p" * 895, {"objects": [item()]}),
    ],
)
def test_a_list_that_cannot_be_meant_is_not_recorded(provider, resource, params):
    with pytest.raises(errors.BadRequest):
        provider.validate(RUN, resource, params)


def test_what_is_put_is_found_and_put_again_without_a_trace(provider, site):
    wanted = put(item(), item(key="a/b.txt", media_type="text/plain"))
    provider.validate(RUN, wanted.resource, wanted.params)
    assert provider.provider_class is ProviderClass.IDEMPOTENT and provider.key_lifetime_seconds is None
    assert provider.lookup(wanted) == Absent()
    applied = provider.send(wanted, Deadline(30))
    assert applied == Applied(
        provider_id="pages",
        receipt={
            "store": site.url,
            "resource": "pages",
            "objects": [
                {"key": "pages/index.html", "digest": HASH, "size": 5, "media_type": "text/html"},
                {"key": "pages/a/b.txt", "digest": HASH, "size": 5, "media_type": "text/plain"},
            ],
        },
    )
    assert site.keys() == ["pages/a/b.txt", "pages/index.html"]
    assert provider.lookup(wanted) == applied == provider.send(wanted, Deadline(30))


def test_other_bytes_under_one_key_refuse_the_whole_before_anything_is_put(provider, site):
    site.put_once("pages/second.html", b"other")
    wanted = put(item(), item(key="second.html"))
    assert provider.lookup(wanted) == Absent()
    assert isinstance(provider.send(wanted, Deadline(30)), Refused)
    assert site.keys() == ["pages/second.html"] and site.read("pages/second.html") == b"other"


def test_other_bytes_that_appear_between_look_and_put_leave_the_outcome_unknown(provider, site, monkeypatch):
    real = ObjectPut._look_first

    def look_and_lose_the_race(self, wanted):
        found = real(self, wanted)
        site.put_once("pages/second.html", b"other")
        return found

    monkeypatch.setattr(ObjectPut, "_look_first", look_and_lose_the_race)
    wanted = put(item(), item(key="second.html"))
    with pytest.raises(errors.ObjectConflict):
        provider.send(wanted, Deadline(30))
    assert site.read("pages/index.html") == b"hello", "the first was put, so a refusal would have been a lie"
    assert isinstance(provider.send(wanted, Deadline(30)), Refused), "the next one sees it before the first put"


@pytest.mark.parametrize("wrong", [item(source=f"runs/{RUN}/none"), item(digest="0" * 64), item(size=6)])
def test_a_staged_object_that_is_missing_or_different_is_a_definite_refusal(provider, site, wrong):
    assert isinstance(provider.send(put(item(key="good"), wrong), Deadline(30)), Refused)
    assert site.keys() == []


def unreachable(*_, **__):
    raise errors.ObjectsUnreachable("the bucket does not answer")


def test_a_staging_store_that_is_down_is_definitely_not_sent(provider, staging, monkeypatch):
    monkeypatch.setattr(staging, "read_checked", unreachable)
    assert provider.send(put(), Deadline(30)) == NotSent("the bucket does not answer")


def test_a_store_that_is_down_is_definite_before_the_first_put_and_unknown_behind_it(provider, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(Objects, "look", unreachable)
        assert provider.send(put(), Deadline(30)) == NotSent("the bucket does not answer")
        assert provider.lookup(put()) == CannotTell("the bucket does not answer")
    monkeypatch.setattr(Objects, "put_once", unreachable)
    with pytest.raises(errors.ObjectsUnreachable):
        provider.send(put(), Deadline(30))


def test_nothing_is_put_behind_the_deadline(provider, site):
    with pytest.raises(DeadlinePassed):
        provider.send(put(), replace(Deadline(30), began=-1e9))
    assert site.keys() == []


def test_a_list_that_takes_too_long_stops_half_way_and_the_rest_is_put_later(provider, site, monkeypatch):
    real, deadline = Objects.put_once, Deadline(30)

    def slow(self, key, data, **more):
        object.__setattr__(deadline, "began", -1e9)
        return real(self, key, data, **more)

    monkeypatch.setattr(Objects, "put_once", slow)
    wanted = put(item(), item(key="second.html"))
    with pytest.raises(TimeoutError, match="1 of 2"):
        provider.send(wanted, deadline)
    assert provider.lookup(wanted) == Absent()
    monkeypatch.undo()
    assert isinstance(provider.send(wanted, Deadline(30)), Applied)
    assert len(site.keys()) == 2


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"store": "s3://user:secret@bucket/x"}, "holds a user"),
        ({"store": "objects"}, "objects are staged"),
        ({"store": "memory://"}, "in memory"),
        ({"store": "s3://b", "secret_access_key_env": "NOT_SET_ANYWHERE"}, "NOT_SET_ANYWHERE is not set"),
    ],
)
def test_settings_that_cannot_be_meant_are_refused_in_words(context, settings, sentence):
    with pytest.raises(errors.BadRequest, match=sentence):
        from_settings("site.put", settings, context)


@pytest.mark.parametrize("settings", [{}, {"store": ""}, {"store": "x", "secret_access_key": "s3cr3t"}])
def test_settings_are_closed_and_take_no_secret_in_the_clear(context, settings):
    with pytest.raises(ValueError) as raised:
        from_settings("site.put", settings, context)
    assert "s3cr3t" not in str(raised.value)
