"""Templates and pointers: data never becomes a template, a path, a header or a query of its own."""

from urllib.parse import parse_qsl, unquote, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onward_ledger.errors import BadRequest
from onward_ledger.providers.http_template import MISSING, Pointer, Template, Tree, UrlTemplate, Values, header_value

ID = "3f1c8a52-0d6f-5f3e-9a55-2f6d6c9b7a10"


def values(resource="boards/7", **params):
    return Values(action_id=ID, run_id="run-1", resource=resource, params=params)


def test_fields_are_replaced_and_braces_can_be_written():
    template = Template("{{{action_id}}} of {run_id}: {params.a.b} {params.n} {params.yes}")
    assert template.text(values(a={"b": "x"}, n=1.5, yes=True)) == f"{{{ID}}} of run-1: x 1.5 true"
    assert template.names() == {"action_id", "run_id", "params.a.b", "params.n", "params.yes"}


@pytest.mark.parametrize(
    "text",
    ["{", "}", "{action}", "{params}", "{params.}", "{ action_id }", "{0}", "{params.a!r}", "{receipt.id}", "{step}"],
)
def test_what_is_no_field_is_an_error_when_it_is_read(text):
    with pytest.raises(ValueError, match="is no field"):
        Template(text)


def test_what_data_holds_is_never_a_template():
    trick = "{action_id} {params.secret} {{ }} %(x)s {0.__class__}"
    assert Template("{params.a}").text(values(a=trick)) == trick
    assert Tree({"t": "{params.a}!"}).render(values(a=trick)) == {"t": trick + "!"}


@pytest.mark.parametrize("params", [{}, {"a": "x"}, {"a": {}}, {"a": {"b": None}}, {"a": {"b": []}}, {"a": {"b": {}}}])
def test_what_is_missing_or_no_single_value_is_a_bad_request(params):
    with pytest.raises(BadRequest, match=r"params\.a\.b"):
        Template("{params.a.b}").text(values(**params))


def test_a_tree_keeps_the_type_of_what_stands_alone():
    tree = Tree(
        {"title": "{params.title}", "n": "{params.n}", "list": ["{params.list}", 1, None], "text": "n={params.n}"}
    )
    rendered = tree.render(values(title="x", n=3, list=[1, {"a": None}]))
    assert rendered == {"title": "x", "n": 3, "list": [[1, {"a": None}], 1, None], "text": "n=3"}
    assert tree.names() == {"params.title", "params.n", "params.list"}


# --- URLs -------------------------------------------------------------------------------------------------------------


def render(text, base="/v1", more=None, **params):
    return UrlTemplate(text).render(base, values(**params), more)


def test_a_url_is_the_path_below_the_base_with_its_query():
    assert render("/boards/{params.b}/cards", b="a b") == "/v1/boards/a%20b/cards"
    assert render("/{resource*}/cards") == "/v1/boards/7/cards"
    assert render("/{resource}/cards") == "/v1/boards%2F7/cards"
    assert render("/x?ref={action_id}&q={params.q}", q="a&b=c#d") == f"/v1/x?ref={ID}&q=a%26b%3Dc%23d"
    assert render("/x", more={"ref": ID}) == f"/v1/x?ref={ID}"
    assert render("/x?a=1", more={"a b": "c d"}, base="") == "/x?a=1&a%20b=c%20d"
    assert render("/{params.u}", u="köln") == "/v1/k%C3%B6ln"
    assert render("/x?q={params.q}", q="") == "/v1/x?q="


@pytest.mark.parametrize(
    "text", ["x", "", "http://x/", "//x/y", "/a b", "/a#b", "/../b", "/a/./b", "/%zz", "/é", "/%2e%2E/x", "/a\n"]
)
def test_a_path_that_is_none_is_an_error_when_it_is_read(text):
    with pytest.raises(ValueError, match="path"):
        UrlTemplate(text)


@pytest.mark.parametrize(
    "value", ["", ".", "..", "a/../b", "/a", "a/", "a//b", "..\\x", "a\r\nHost: x", "a\x00", "\ud800"]
)
@pytest.mark.parametrize("text", ["/{params.a}/x", "/{params.a*}/x", "/v-{params.a}"])
def test_no_value_leaves_its_place_in_a_path(text, value):
    with pytest.raises(BadRequest, match=r"params\.a"):
        render(text, a=value)


def test_a_url_has_an_end():
    with pytest.raises(BadRequest, match="longer than"):
        render("/{params.a}", a="x" * 8001)


@given(st.text(), st.text())
def test_whatever_the_values_are_a_url_reads_back_as_them_or_is_refused(part, query):
    try:
        url = render("/a/{params.part}/b?x={params.query}&y=1", part=part, query=query)
    except BadRequest:
        return
    parts = urlsplit(url)
    assert url.isascii() and url.isprintable() and " " not in url
    assert [unquote(one) for one in parts.path.split("/")] == ["", "v1", "a", part, "b"]
    assert parse_qsl(parts.query, keep_blank_values=True, strict_parsing=True) == [("x", query), ("y", "1")]


# --- headers ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", ["a", "a b", "Bearer abc.def", "~!@"])
def test_a_header_holds_printable_ascii(value):
    assert header_value(value) == value


@pytest.mark.parametrize("value", ["", " a", "a ", "a\r\nX: 1", "a\nb", "a\x00", "é", "a\tb", "\x7f"])
def test_nothing_else_gets_into_a_header(value):
    with pytest.raises(BadRequest, match="header"):
        Template("{params.a}").header(values(a=value))


# --- pointers ---------------------------------------------------------------------------------------------------------

DOCUMENT = {"items": [{"id": 1}, {"id": 2}], "a/b": {"m~n": 3}, "": 4, "0": 5, "none": None}


@pytest.mark.parametrize(
    ("pointer", "value"),
    [
        ("", DOCUMENT),
        ("/items/1/id", 2),
        ("/a~1b/m~0n", 3),
        ("/", 4),
        ("/0", 5),
        ("/none", None),
        ("/items/2/id", MISSING),
        ("/items/-1", MISSING),
        ("/items/x", MISSING),
        ("/items/²", MISSING),
        ("/no/no", MISSING),
        ("/none/x", MISSING),
    ],
)
def test_a_pointer_leads_to_a_value_or_to_nothing(pointer, value):
    assert Pointer(pointer).get(DOCUMENT) is value


def test_a_pointer_begins_with_a_slash():
    with pytest.raises(ValueError, match="begins with a slash"):
        Pointer("items")


def test_a_marker_is_put_into_a_copy():
    params = {"title": "x", "metadata": {"a": 1}}
    assert Pointer("/metadata/ref").put(params, ID) == {"title": "x", "metadata": {"a": 1, "ref": ID}}
    assert Pointer("/new/ref").put(params, ID) == {**params, "new": {"ref": ID}}
    assert params == {"title": "x", "metadata": {"a": 1}}


@pytest.mark.parametrize("pointer", ["/title", "/title/ref", "/metadata"])
def test_a_marker_replaces_nothing(pointer):
    with pytest.raises(BadRequest, match="already"):
        Pointer(pointer).put({"title": "x", "metadata": {"a": 1}}, ID)
