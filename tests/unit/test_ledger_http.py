"""The HTTP provider by itself: which request it makes of an action, and what it makes of which answer."""

import copy
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onward_ledger.canonical import canonical
from onward_ledger.errors import BadRequest
from onward_ledger.masking import keep_secret
from onward_ledger.providers.http import Doubtful, HttpProvider
from onward_ledger.providers.http_exchange import Answer, Lost, NotWritten
from onward_ledger.providers.http_settings import REFUSED, HttpSettings
from onward_ledger.providers.interface import (
    Absent,
    Applied,
    CannotTell,
    Deadline,
    DeadlinePassed,
    NotSent,
    Refused,
    Several,
)
from tests.unit.test_ledger_action import RUN, action
from tests.unit.test_ledger_http_settings import IDEMPOTENT, LOOK_UP, OPAQUE, QUERYABLE

ACTION = action(kind="thing.make", resource="boards/7", params={"title": "x", "n": 3, "deep": {"a": [1]}})
ID = ACTION.action_id
READ_ID = {"answer": {"provider_id": "/id"}}


class Scripted:
    """Instead of the network: says what it was told to say, and keeps what it was asked."""

    def __init__(self, said):
        self.said = said
        self.asked = []

    def ask(self, request, deadline):
        self.asked.append(request)
        if isinstance(self.said, Exception):
            raise self.said
        return self.said


def answer(status=201, document=None, *, body=None, truncated=False, **headers):
    body = json.dumps(document).encode() if body is None else body
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    return Answer(status=status, headers=names, body=body, truncated=truncated)


def provider(settings, said=None, **secrets):
    made = HttpProvider("thing.make", HttpSettings.model_validate(copy.deepcopy(settings)), secrets=secrets)
    made._exchange.close()
    made._exchange = Scripted(said if said is not None else answer(document={"id": "t1"}))
    return made


def asked(settings, of=ACTION):
    made = provider(settings)
    made.send(of, Deadline(5))
    return made._exchange.asked[0]


def send(settings, said):
    return provider(settings, said).send(ACTION, Deadline(5))


def lookup(said, **changes):
    settings = {name: value for name, value in (LOOK_UP | changes).items() if value is not None}
    return provider(QUERYABLE | {"lookup": settings}, said).lookup(ACTION)


# --- the request ------------------------------------------------------------------------------------------------------


def test_params_are_the_body_in_canonical_json():
    request = asked(OPAQUE)
    assert (request.method, request.target) == ("POST", "/v1/things")
    assert request.headers == [("Content-Type", "application/json")]
    assert request.body == b'{"deep":{"a":[1]},"n":3,"title":"x"}'


def test_the_key_is_the_action_id_and_a_second_request_is_the_same_to_the_byte():
    settings = IDEMPOTENT | {"headers": {"X-Team": "blue", "X-Run": "{run_id}"}}
    request = asked(settings)
    assert request.headers == [
        ("X-Team", "blue"),
        ("X-Run", RUN),
        ("Idempotency-Key", ID),
        ("Content-Type", "application/json"),
    ]
    assert asked(settings) == request
    assert asked(IDEMPOTENT | {"key": {"header": "X-Once", "lifetime_seconds": 9}}).headers[0] == ("X-Once", ID)


def test_the_marker_goes_where_it_is_said():
    assert json.loads(asked(QUERYABLE | {"marker": {"body": "/deep/ref"}}).body)["deep"] == {"a": [1], "ref": ID}
    assert ("X-Ref", ID) in asked(QUERYABLE | {"marker": {"header": "X-Ref"}}).headers
    assert asked(QUERYABLE | {"marker": {"query": "ref"}, "path": "/things?a=1"}).target == f"/v1/things?a=1&ref={ID}"


def test_a_body_can_be_made_from_parts():
    body = {"name": "{params.title}", "count": "{params.n}", "note": "by {action_id}", "fixed": [True]}
    assert json.loads(asked(OPAQUE | {"body": body}).body) == {
        "name": "x",
        "count": 3,
        "note": f"by {ID}",
        "fixed": [True],
    }


def test_a_form_and_no_body():
    form = asked(OPAQUE | {"encoding": "form", "body": {"a b": "{params.title}&", "n": "{params.n}", "yes": True}})
    assert form.headers == [("Content-Type", "application/x-www-form-urlencoded")]
    assert form.body == b"a+b=x%26&n=3&yes=true"
    empty = asked(OPAQUE | {"body": "none", "method": "DELETE", "path": "/things/{params.title}"})
    assert (empty.method, empty.target, empty.headers, empty.body) == ("DELETE", "/v1/things/x", [], b"")


@pytest.mark.parametrize(
    ("settings", "params", "text"),
    [
        (OPAQUE | {"path": "/{params.id}"}, {}, "params.id is missing"),
        (OPAQUE | {"path": "/{params.id}"}, {"id": "../admin"}, "not usable as a part of a path"),
        (OPAQUE | {"path": "/{params.id}"}, {"id": {"a": 1}}, "must be text, a number"),
        (OPAQUE | {"headers": {"X-A": "{params.id}"}}, {"id": "a\r\nX-Admin: 1"}, "printable ASCII"),
        (OPAQUE | {"body": {"a": "{params.id}"}}, {}, "params.id is missing"),
        (OPAQUE | {"encoding": "form"}, {"a": []}, "a form has no more"),
        (OPAQUE | {"encoding": "form"}, {"a": "\ud800"}, "not valid text"),
        (QUERYABLE, {"marker": "mine"}, "already, where the marker goes"),
        (QUERYABLE | {"lookup": LOOK_UP | {"path": "/{params.id}?m={action_id}"}}, {}, "params.id is missing"),
    ],
)
def test_what_no_request_can_be_made_of_is_not_recorded(settings, params, text):
    with pytest.raises(BadRequest) as caught:
        provider(settings).validate(RUN, "boards/7", params)
    assert text in caught.value.message


def test_what_a_request_can_be_made_of_is_recorded():
    provider(QUERYABLE).validate(RUN, "boards/7", ACTION.params)
    provider(OPAQUE).validate(RUN, "anything at all", {})


def test_an_action_that_new_settings_do_not_fit_is_not_sent_and_may_be_later():
    made = provider(OPAQUE | {"path": "/{params.other}"})
    assert made.send(ACTION, Deadline(5)) == NotSent("The settings do not fit the action: params.other is missing.")
    assert made._exchange.asked == []


# --- answers to a send ------------------------------------------------------------------------------------------------


def test_a_success_is_a_receipt_with_what_was_chosen():
    settings = OPAQUE | {"answer": {"provider_id": "/id", "receipt": {"number": "/n", "big": "/big", "gone": "/gone"}}}
    said = answer(document={"id": 17, "n": 4, "big": 2**60}, date="Sun, 29 Nov 2026 12:00:00 GMT", set_cookie="s=1")
    applied = send(settings, said)
    assert applied == Applied(
        provider_id="17",
        receipt={
            "api": "api.example.com",
            "status": 201,
            "digest": said.digest,
            "size": len(said.body),
            "date": "Sun, 29 Nov 2026 12:00:00 GMT",
            "members": {"number": 4, "big": str(2**60)},
        },
    )


def test_where_no_id_is_promised_the_actions_own_is_what_it_can_be_asked_for_by():
    assert send(IDEMPOTENT, answer(status=204, body=b"")).provider_id == ID
    assert send(IDEMPOTENT, answer(status=200, body=b"done")).provider_id == ID


@pytest.mark.parametrize(
    "said",
    [
        answer(document={"ok": 1}),
        answer(document={"id": None}),
        answer(document={"id": " "}),
        answer(document={"id": True}),
        answer(document={"id": {}}),
        answer(document=[]),
        answer(body=b"{"),
        answer(status=204, body=b""),
    ],
)
def test_a_success_without_the_id_that_it_promises_is_doubtful(said):
    with pytest.raises(Doubtful):
        send(OPAQUE | READ_ID, said)


def test_a_success_that_is_too_large_to_be_read_is_one_without_its_id():
    applied = send(OPAQUE | READ_ID, answer(body=b'{"id": "t1"', truncated=True))
    assert applied.provider_id == ID and applied.receipt["truncated"] is True


SAYS = {"success": {"/ok": True}, "refusal": {"/ok": False}}


def test_an_api_that_always_answers_200_tells_in_its_body():
    said = OPAQUE | {"answer": SAYS}
    assert isinstance(send(said, answer(200, {"ok": True})), Applied)
    refused = send(said, answer(200, {"ok": False, "error": "no such channel"}))
    assert isinstance(refused, Refused) and "no such channel" in refused.reason
    for doubtful in (answer(200, {}), answer(200, {"ok": 1}), answer(body=b"x"), answer(body=b"", truncated=True)):
        with pytest.raises(Doubtful):
            send(said, doubtful)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 405, 406, 410, 411, 413, 414, 415, 422])
def test_a_definite_refusal(status):
    assert send(OPAQUE, answer(status, {"error": "no"})) == Refused(
        f'api.example.com answered {status}: {{"error": "no"}}'
    )


@pytest.mark.parametrize("status", [300, 301, 302, 303, 307, 308, 402, 408, 409, 423, 425, 500, 502, 503, 504, 599])
def test_any_other_status_does_not_tell(status):
    with pytest.raises(Doubtful, match=f"answered {status}.*does not tell whether it happened"):
        send(OPAQUE, answer(status, {"error": "no"}))


def test_only_what_the_settings_say_is_not_accepted():
    assert isinstance(send(OPAQUE, answer(429, body=b"")), NotSent)
    assert isinstance(send(OPAQUE | {"not_accepted": [429, 503]}, answer(503, body=b"")), NotSent)
    assert isinstance(send(OPAQUE | {"refused": [302]}, answer(302, body=b"")), Refused)
    for settings, status in ((OPAQUE | {"not_accepted": []}, 429), (OPAQUE | {"refused": [302]}, 404)):
        with pytest.raises(Doubtful):
            send(settings, answer(status, body=b""))


def test_what_was_not_written_was_not_sent_and_what_was_lost_is_unknown():
    assert send(OPAQUE, NotWritten("it is down")) == NotSent("api.example.com was not reached: it is down.")
    with pytest.raises(Lost, match=r"api\.example\.com: cut"):
        send(OPAQUE, Lost("cut"))
    with pytest.raises(DeadlinePassed):
        send(OPAQUE, DeadlinePassed("too late"))


def test_a_long_answer_is_quoted_shortly():
    reason = send(OPAQUE, answer(400, body=b"a\n" * 5000)).reason
    assert len(reason) < 400 and "\n" not in reason


# --- answers to a look-up ---------------------------------------------------------------------------------------------


def item(id="t1", marker=ID, **more):
    return {"id": id, "marker": marker, **more}


def page(*items, more=False, **members):
    return answer(200, {"items": list(items), "has_more": more, **members})


def test_the_question_is_a_get_without_key_or_body():
    made = provider(IDEMPOTENT | {"lookup": LOOK_UP, "headers": {"X-Team": "blue"}}, page())
    made.lookup(ACTION)
    (request,) = made._exchange.asked
    assert (request.method, request.target) == ("GET", f"/v1/things?marker={ID}")
    assert (request.headers, request.body) == ([("X-Team", "blue")], b"")


def test_one_several_or_none():
    found = lookup(page(item(), item("t9", "another's")))
    assert isinstance(found, Applied) and found.provider_id == "t1"
    assert found.receipt["found_by"] == "look-up" and found.receipt["status"] == 200
    several = lookup(page(item(), item("t2")))
    assert isinstance(several, Several) and [effect.provider_id for effect in several.effects] == ["t1", "t2"]
    assert lookup(page()) == Absent()
    assert lookup(page(item("t9", "another's"))) == Absent()


def test_the_same_thing_listed_twice_is_one():
    assert isinstance(lookup(page(item(), item())), Applied)


def test_more_than_one_is_known_before_all_is():
    assert isinstance(lookup(page(item(), item("t2"), more=True)), Several)


@pytest.mark.parametrize(
    "said",
    [
        page(more=True),
        page(item(), more=True),
        page(more=0),
        answer(200, {"items": []}),
        answer(200, {"items": {}, "has_more": False}),
        answer(200, []),
        answer(200, {"has_more": False}),
        answer(200, body=b'{"items": [], "has_more": false'),
        answer(200, {"items": [], "has_more": False}, truncated=True),
        answer(200, {"items": [], "has_more": False}, link='<https://x/?page=2>; rel="next"'),
        answer(204, body=b""),
        page({"marker": ID}),
        page({"id": "t1"}),
        page({"id": "t1", "marker": None}),
        page("t1"),
        *(answer(status, {"items": [], "has_more": False}) for status in (301, 400, 401, 403, 404, 410, 429, 500, 503)),
        NotWritten("it is down"),
        Lost("cut"),
        DeadlinePassed("too late"),
    ],
)
def test_whatever_is_no_whole_plain_answer_cannot_tell(said):
    """Above all it is never "absent", which could be followed by a second effect."""
    assert isinstance(lookup(said), CannotTell)


@pytest.mark.parametrize(
    ("settings", "said", "found"),
    [
        ({"next": "/next"}, page(next=None), Absent),
        ({"next": "/next"}, page(next=""), Absent),
        ({"next": "/next"}, page(next=False), Absent),
        ({"next": "/next"}, page(), Absent),
        ({"next": "/next"}, page(next="abc"), CannotTell),
        ({"next": "/next"}, page(next=2), CannotTell),
        ({"total": "/total"}, page(total=0), Absent),
        ({"total": "/total"}, page(total=1), CannotTell),
        ({"total": "/total"}, page(item(), total=1), Applied),
        ({"total": "/total"}, page(), CannotTell),
        ({"total": "/total"}, page(total=False), CannotTell),
        ({"single_page": True}, page(), Absent),
    ],
)
def test_how_an_api_tells_that_this_is_all(settings, said, found):
    assert type(lookup(said, complete=None, **settings)) is found


def test_a_top_level_list():
    said = answer(200, [item()])
    assert isinstance(lookup(said, results="", complete=None, single_page=True), Applied)


def test_a_marker_inside_of_a_text():
    said = page(item(marker=f"Hello <!-- {ID} -->"), item("t2", None))
    assert isinstance(lookup(said, marker_match="contains"), Applied)
    assert lookup(page(item(marker="Hello")), marker_match="contains") == Absent()
    assert isinstance(lookup(page(item("t2", None)), marker_match="contains"), CannotTell)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.sampled_from([ID, False]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["items", "has_more", "id", "marker", "ok", "x"]), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(st.integers(200, 599), JSON | st.fixed_dictionaries({"items": st.lists(JSON, max_size=3), "has_more": JSON}))
def test_whatever_an_api_says_it_is_absent_only_if_it_says_so(status, document):
    found = lookup(answer(status, document))
    assert isinstance(found, Applied | Several | Absent | CannotTell)
    if isinstance(found, Absent):
        assert 200 <= status <= 299 and document["has_more"] is False
        assert all(isinstance(one, dict) and one["marker"] != ID for one in document["items"])


@given(st.integers(200, 599), JSON, st.booleans())
def test_whatever_an_api_says_it_is_a_success_only_if_it_says_so(status, document, truncated):
    settings = OPAQUE | {"answer": {"provider_id": "/id", "receipt": {"all": "", "x": "/x"}}}
    try:
        outcome = send(settings, answer(status, document, truncated=truncated))
    except Doubtful:
        assert status not in REFUSED and status != 429
        return
    if isinstance(outcome, Applied):
        assert 200 <= status <= 299 and (truncated or document["id"] not in (None, ""))
        assert canonical(outcome.receipt) and outcome.provider_id
    else:
        assert isinstance(outcome, Refused if status in REFUSED else NotSent)


ONE = {"results": None, "complete": None, "absent_status": [404]}


def test_an_answer_that_is_the_effect_itself():
    assert isinstance(lookup(answer(200, item()), **ONE), Applied)
    assert lookup(answer(404, {"error": "none"}), **ONE) == Absent()
    assert isinstance(lookup(answer(410, {}), **ONE), CannotTell)
    assert isinstance(lookup(answer(200, item(marker="another's")), **ONE), CannotTell)
    assert isinstance(lookup(answer(200, {}), **ONE), CannotTell)


def test_a_kind_without_a_look_up_cannot_tell():
    assert isinstance(provider(OPAQUE).lookup(ACTION), CannotTell)


# --- reading back -----------------------------------------------------------------------------------------------------


class Dialogue(Scripted):
    """Says one thing to a send and another to a look-up."""

    def __init__(self, said, found):
        super().__init__(said)
        self.found = found

    def ask(self, request, deadline):
        assert deadline.remaining <= 5
        if request.method != "GET":
            return super().ask(request, deadline)
        self.asked.append(request)
        if isinstance(self.found, Exception):
            raise self.found
        return self.found


def read_back(said, found):
    made = provider(QUERYABLE | READ_ID | {"lookup": LOOK_UP | {"read_back": True}})
    made._exchange = Dialogue(said, found)
    return made, made.send


def test_a_success_that_is_read_back_has_both_answers_in_its_receipt():
    made, send_it = read_back(answer(document={"id": "t1"}), page(item()))
    applied = send_it(ACTION, Deadline(5))
    assert applied.provider_id == "t1" and applied.receipt["status"] == 201
    assert applied.receipt["read_back"]["status"] == 200
    assert [request.method for request in made._exchange.asked] == ["POST", "GET"]


@pytest.mark.parametrize(
    "found", [page(), page(item(), item("t2")), page(more=True), answer(500), DeadlinePassed("late")]
)
def test_a_success_that_cannot_be_read_back_is_doubtful(found):
    _, send_it = read_back(answer(document={"id": "t1"}), found)
    with pytest.raises(Doubtful, match="success"):
        send_it(ACTION, Deadline(5))


def test_a_refusal_is_not_read_back():
    made, send_it = read_back(answer(422, {}), AssertionError("it was asked"))
    assert isinstance(send_it(ACTION, Deadline(5)), Refused)
    assert len(made._exchange.asked) == 1


# --- what may be in it ------------------------------------------------------------------------------------------------


def test_a_secret_that_the_api_says_back_is_not_kept():
    keep_secret("tok-9f8e7d6c5b")
    echo = {"id": "t1", "error": "bad token tok-9f8e7d6c5b", "marker": ID}
    settings = {"answer": {"provider_id": "/id", "receipt": {"error": "/error", "all": ""}}}
    padded = answer(403, body=b" " * 290 + b"x" * 290 + b" tok-9f8e7d6c5b")
    told = [
        send(OPAQUE | settings, answer(document=echo)),
        send(OPAQUE, answer(400, echo)),
        send(OPAQUE, padded),
        send(OPAQUE, answer(429, echo)),
        send(OPAQUE, NotWritten("tok-9f8e7d6c5b")),
        lookup(page(echo), receipt={"error": "/error"}),
    ]
    for error in (answer(500, echo), Lost("tok-9f8e7d6c5b")):
        with pytest.raises((Doubtful, Lost)) as caught:
            send(OPAQUE, error)
        told.append(str(caught.value))
    assert "bad token ***" in repr(told)
    assert "tok-9f" not in repr(told)


@pytest.mark.parametrize("odd", ["a\x00b", "\ud800", 1e300, float("nan"), 2**70, ["x" * 3000], "x" * 3000])
def test_an_odd_answer_does_not_keep_an_effect_from_being_recorded(odd):
    body = json.dumps({"id": "t1", "odd": odd, "fine": 1}).encode()
    applied = send(
        OPAQUE | {"answer": {"provider_id": "/id", "receipt": {"odd": "/odd", "fine": "/fine"}}}, answer(body=body)
    )
    assert applied.receipt["members"]["fine"] == 1
    text = canonical(applied.receipt).decode()
    assert "\\u0000" not in text and len(text) < 3000


def test_a_member_that_is_nested_without_end_is_left_out():
    body = b'{"id": "t1", "deep": ' + b"[" * 400 + b"]" * 400 + b"}"
    applied = send(OPAQUE | {"answer": {"provider_id": "/id", "receipt": {"deep": "/deep"}}}, answer(body=body))
    assert applied.provider_id == "t1"
