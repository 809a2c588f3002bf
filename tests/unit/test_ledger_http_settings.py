"""Settings of type `http`: what is wrong is said in a sentence that names the key, when the service starts."""

import copy

import pytest
from pydantic import ValidationError

from onward_ledger.errors import BadRequest
from onward_ledger.objects import Objects
from onward_ledger.providers.configured import Context, sentence
from onward_ledger.providers.http import HttpProvider, from_settings
from onward_ledger.providers.http_settings import NOT_ACCEPTED, REFUSED, HttpSettings
from onward_ledger.providers.interface import ProviderClass

LOOK_UP = {
    "path": "/things?marker={action_id}",
    "results": "/items",
    "id": "/id",
    "marker": "/marker",
    "complete": {"/has_more": False},
}
BASE = {"base_url": "https://api.example.com/v1", "path": "/things"}
IDEMPOTENT = BASE | {"class": "idempotent", "key": {"lifetime_seconds": 86400}}
QUERYABLE = BASE | {"class": "queryable", "marker": {"body": "/marker"}, "lookup": LOOK_UP}
OPAQUE = BASE | {"class": "opaque"}


def parsed(settings):
    return HttpSettings.model_validate(copy.deepcopy(settings))


@pytest.fixture
def context(tmp_path):
    return Context(objects=Objects(str(tmp_path / "objects")), folder=tmp_path)


def test_what_is_not_said_has_its_default():
    settings = parsed(OPAQUE)
    assert (settings.method, settings.encoding, settings.body) == ("POST", "json", "params")
    assert settings.refused == set(REFUSED) and settings.not_accepted == set(NOT_ACCEPTED) == {429}
    assert settings.allow_addresses == () and settings.plain_http is False
    assert (settings.origin.host, settings.origin.port, settings.base_path) == ("api.example.com", 443, "/v1")


def test_no_status_that_can_be_said_of_a_request_under_way_is_a_refusal():
    assert not {408, 409, 423, 425, 429, 500, 502, 503, 504} & set(REFUSED)


def test_a_connection_is_kept_only_where_a_lost_request_can_be_sent_again():
    assert [parsed(one).keep_alive for one in (IDEMPOTENT, QUERYABLE, OPAQUE)] == [15.0, 0.0, 0.0]
    assert parsed(OPAQUE | {"keep_alive_seconds": 3}).keep_alive == 3.0


@pytest.mark.parametrize(
    ("settings", "declared"),
    [
        (IDEMPOTENT, (ProviderClass.IDEMPOTENT, False, 86400.0)),
        (IDEMPOTENT | {"key": {"lifetime_seconds": "unlimited"}}, (ProviderClass.IDEMPOTENT, False, None)),
        (IDEMPOTENT | {"lookup": LOOK_UP}, (ProviderClass.IDEMPOTENT, True, 86400.0)),
        (QUERYABLE, (ProviderClass.QUERYABLE, True, None)),
        (OPAQUE, (ProviderClass.OPAQUE, False, None)),
    ],
)
def test_the_provider_declares_what_the_settings_say(settings, declared, context):
    provider = from_settings("thing.make", copy.deepcopy(settings), context)
    assert (provider.provider_class, provider.looks_up, provider.key_lifetime_seconds) == declared
    assert provider.kind == "thing.make" and provider.approval is None


def look_up(**changes):
    found = {name: value for name, value in (LOOK_UP | changes).items() if value is not None}
    return QUERYABLE | {"lookup": found}


WRONG = [
    ({}, "class: field required"),
    (OPAQUE | {"class": "sure"}, "class: "),
    (OPAQUE | {"class": "transactional"}, "cannot commit together"),
    (OPAQUE | {"colour": 1}, "colour: this is not known"),
    (OPAQUE | {"base_url": "ftp://x"}, "must be https://host"),
    (OPAQUE | {"base_url": "https://"}, "must be https://host"),
    (OPAQUE | {"base_url": "https://x:0"}, "must be https://host"),
    (OPAQUE | {"base_url": "https://x:99999"}, "base_url is not a URL"),
    (OPAQUE | {"base_url": "https://kö.example"}, "in ASCII"),
    (OPAQUE | {"base_url": "http://x"}, "plain_http = true"),
    (OPAQUE | {"base_url": "https://anna:secret@x"}, "secrets go to secret_headers"),
    (OPAQUE | {"base_url": "https://x/?a=b"}, "no user, password, query"),
    (OPAQUE | {"base_url": "https://x/a/../b"}, "no . or .."),
    (OPAQUE | {"base_url": "https://x/{params.a}"}, "percent-encoded"),
    (OPAQUE | {"method": "GET"}, "method: "),
    (OPAQUE | {"path": "things"}, "path: a path begins with one slash"),
    (OPAQUE | {"path": "/{thing}"}, "path: what begins with '{thing}' is no field"),
    (OPAQUE | {"path": 7}, "path: this must be text"),
    (OPAQUE | {"headers": {"Authorization": "Bearer x"}}, "it goes to secret_headers"),
    (OPAQUE | {"headers": {"Cookie": "x"}}, "it goes to secret_headers"),
    (OPAQUE | {"headers": {"Host": "x"}}, "set by this provider itself"),
    (OPAQUE | {"headers": {"Content-Length": "1"}}, "set by this provider itself"),
    (OPAQUE | {"headers": {"X Y": "x"}}, "not the name of a header"),
    (OPAQUE | {"headers": {"X:": "x"}}, "not the name of a header"),
    (OPAQUE | {"headers": {"X-A": "a\r\nX-B: b"}}, "printable ASCII"),
    (OPAQUE | {"headers": {"X-A": "1", "x-a": "2"}}, "the header x-a is set twice"),
    (IDEMPOTENT | {"headers": {"idempotency-key": "1"}}, "is set twice"),
    (OPAQUE | {"secret_headers": {"X-A": {}}}, "one of value_env and value_file"),
    (OPAQUE | {"secret_headers": {"X-A": {"value_env": "A", "value_file": "b"}}}, "one of value_env and value_file"),
    (OPAQUE | {"secret_headers": {"X-A": {"value": "s3cret"}}}, "value: this is not known"),
    (OPAQUE | {"body": {"a": "{x}"}}, "no field"),
    (OPAQUE | {"body": 7}, 'body: this must be "params", "none" or a table'),
    (OPAQUE | {"answer": {"success": {"/ok": [1]}}}, "answer.success: /ok: this must be text"),
    (OPAQUE | {"encoding": "xml"}, "encoding: "),
    (BASE | {"class": "idempotent"}, "needs [key]"),
    (BASE | {"class": "idempotent", "key": {}}, "key.lifetime_seconds: field required"),
    (BASE | {"class": "idempotent", "key": {"lifetime_seconds": 0}}, "key.lifetime_seconds: input should be greater"),
    (
        BASE | {"class": "idempotent", "key": {"lifetime_seconds": "long"}},
        "key.lifetime_seconds: input should be a valid",
    ),
    (BASE | {"class": "queryable"}, "needs [lookup]"),
    (QUERYABLE | {"key": {"lifetime_seconds": 1}}, "a kind with [key] is idempotent"),
    (OPAQUE | {"key": {"lifetime_seconds": 1}}, "not opaque"),
    (OPAQUE | {"lookup": LOOK_UP}, "not opaque"),
    ({**QUERYABLE, "marker": None}, "a look-up finds nothing unless"),
    (QUERYABLE | {"marker": {}}, "one of body, header and query"),
    (QUERYABLE | {"marker": {"body": "/a", "query": "b"}}, "one of body, header and query"),
    (QUERYABLE | {"marker": {"body": ""}}, "member of its own"),
    (QUERYABLE | {"body": "none"}, "marker.body: there is no body"),
    (look_up(path="/things"), "needs the field {action_id}"),
    (look_up(complete=None), "is it all of it?"),
    (look_up(single_page=True), "is it all of it?"),
    (look_up(results=None, complete=None), "absent_status"),
    (look_up(results=None), "absent_status"),
    (look_up(absent_status=[200]), "absent_status"),
    (look_up(marker=None), "lookup.marker: field required"),
    (look_up(marker="marker"), "lookup.marker: a JSON pointer begins with a slash"),
    (look_up(complete={"more": False}), "begins with a slash"),
    (OPAQUE | {"answer": {"provider_id": "id"}}, "answer.provider_id: a JSON pointer"),
    (OPAQUE | {"refused": [200]}, "refused"),
    (OPAQUE | {"refused": [429]}, "429 is in refused and in not_accepted"),
    (OPAQUE | {"allow_addresses": ["10.0.0.1/8"]}, "allow_addresses.0: 10.0.0.1/8 has host bits set"),
    (OPAQUE | {"base_url": "http://x", "plain_http": True, "tls": {"ca_file": "x"}}, "base_url is not https"),
    (OPAQUE | {"tls": {"verify": False}}, "tls.verify: this is not known"),
]


@pytest.mark.parametrize(("settings", "text"), WRONG, ids=range(len(WRONG)))
def test_settings_that_cannot_be_meant_are_refused_with_the_key(settings, text):
    with pytest.raises(ValidationError) as caught:
        parsed(settings)
    told = sentence(caught.value)
    assert text in told and "s3cret" not in str(caught.value) + told


@pytest.mark.parametrize(
    "changes",
    [
        {"body": {"title": "{params.title}", "text": "ref {action_id}"}, "marker": None},
        {"headers": {"X-Ref": "{action_id}"}, "marker": None},
        {"path": "/things/{action_id}", "method": "PUT", "marker": None},
        {"marker": {"header": "X-Marker"}},
        {"marker": {"query": "ref"}},
        {"lookup": {"path": "/t/{action_id}", "id": "/id", "marker": "/ref", "absent_status": [404]}},
        {"lookup": LOOK_UP | {"complete": {}, "next": "/next"}},
        {"lookup": LOOK_UP | {"complete": {}, "total": "/total"}},
        {"lookup": LOOK_UP | {"complete": {}, "single_page": True}},
    ],
)
def test_there_are_several_ways_to_be_found(changes):
    settings = {name: value for name, value in (QUERYABLE | changes).items() if value is not None}
    assert parsed(settings).lookup is not None


# --- secrets and files ------------------------------------------------------------------------------------------------


def secret(**source):
    return OPAQUE | {"secret_headers": {"Authorization": {"prefix": "Bearer ", **source}}}


def test_a_secret_comes_from_the_environment_or_a_file(context, monkeypatch):
    monkeypatch.setenv("THING_TOKEN", "tok-12345678")
    (context.folder / "token").write_text("tok-12345678\n")
    for settings in (secret(value_env="THING_TOKEN"), secret(value_file="token")):
        provider = from_settings("thing.make", settings, context)
        assert provider._secrets["Authorization"].get_secret_value() == "Bearer tok-12345678"
        assert "tok-1" not in repr(vars(provider)) + repr(provider._secrets)


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ({"value_env": "NO_SUCH_VARIABLE"}, "the environment variable NO_SUCH_VARIABLE is not set"),
        ({"value_file": "missing"}, "missing cannot be read: No such file"),
        ({"value_file": "empty"}, "the secret is empty"),
        ({"value_file": "lines"}, "the secret holds what no header can"),
        ({"value_file": "binary"}, "it is not text"),
    ],
)
def test_a_secret_that_is_not_there_or_fits_no_header_is_told_without_it(context, source, text):
    (context.folder / "empty").write_text("\n")
    (context.folder / "lines").write_text("tok-123\nX-Other: 1\n")
    (context.folder / "binary").write_bytes(b"\xff\xfe tok-123")
    with pytest.raises(BadRequest) as caught:
        from_settings("thing.make", secret(**source), context)
    assert text in caught.value.message and "tok-123" not in caught.value.message


@pytest.mark.parametrize("tls", [{"ca_file": "missing"}, {"ca_file": "junk"}, {"client_certificate_file": "junk"}])
def test_a_file_for_tls_that_cannot_be_used_is_told(context, tls):
    (context.folder / "junk").write_text("junk")
    with pytest.raises(BadRequest, match="tls: a file cannot be used"):
        from_settings("thing.make", OPAQUE | {"tls": tls}, context)


def test_a_provider_prints_as_nothing_in_particular(context):
    assert "object at" in repr(HttpProvider("thing.make", parsed(OPAQUE)))
