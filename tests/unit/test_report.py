"""The report's files: the same bytes everywhere, nothing in them but text and our own markup, nothing left out."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
from base64 import b64encode
from functools import cache
from html.parser import HTMLParser
from pathlib import Path

import pytest
import rfc8785
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from tests.support.report_sample import HOSTILE, HOSTILE_COLUMN, HOSTILE_SHEET, plan, profile, result, results
from tools import markdown
from tools.compose import compose_offline
from tools.draft import parse_prose
from tools.report import render, report_digest

ROOT = Path(__file__).resolve().parents[2]

RENDER = """
import hashlib, json, sys
from tests.support.report_sample import plan, profile, results
from tools.compose import compose_offline
from tools.report import render
assert "matplotlib" not in sys.modules, "it is slow, and only drawing needs it"
files = render(compose_offline(plan(), profile(), results()), profile(), results())
print(json.dumps({name: hashlib.sha256(data).hexdigest() for name, data in files.items()}))
"""


def document(**changes):
    return {**compose_offline(plan(), profile(), results()), **changes}


def files(**changes):
    return {name: data.decode() for name, data in render(document(**changes), profile(), results()).items()}


@cache
def plain_files():
    return files()


class Page(HTMLParser):
    """Collects elements, attributes and text of a page, as a browser would see them."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]

    def handle_data(self, data):
        self.text += data


@pytest.fixture(scope="module")
def page():
    return Page(plain_files()["report.html"])


# ---- The same bytes --------------------------------------------------------------------------------------------


def run_elsewhere(tmp_path, name, seed, home):
    folder = tmp_path / name
    folder.mkdir()
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": seed, "HOME": str(home)}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", RENDER],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    assert list(folder.iterdir()) == []
    return json.loads(done.stdout)


def test_two_processes_make_the_same_bytes_and_leave_nothing_behind(tmp_path):
    home = tmp_path / "home"
    settings_of_a_user = home / ".config/matplotlib/matplotlibrc"
    settings_of_a_user.parent.mkdir(parents=True)
    settings_of_a_user.write_text("font.size: 40\nfont.family: serif\n")
    one = run_elsewhere(tmp_path, "one", "1", home)
    two = run_elsewhere(tmp_path, "two", "2", "/proc/no/such/home")
    assert one == two == {name: hashlib.sha256(data.encode()).hexdigest() for name, data in plain_files().items()}
    assert not (home / ".cache").exists()
    assert [p.relative_to(home).as_posix() for p in home.rglob("*") if p.is_file()] == [
        ".config/matplotlib/matplotlibrc"
    ]


def test_another_figure_makes_other_bytes():
    other = results()
    other["q1"]["rows"][0][0] += 0.01
    assert (
        render(document(), profile(), other)["report.html"] != render(document(), profile(), results())["report.html"]
    )


def test_the_draft_is_in_the_report():
    assert json.loads(plain_files()["draft.json"]) == document()


def test_the_report_digest_is_that_of_the_canonical_list():
    objects = [
        {"name": name, "digest": digest * 64, "size": 5, "media_type": "text/plain", "key": f"k/{name}", "source": "s"}
        for name, digest in (("report.md", "a"), ("draft.json", "b"))
    ]
    canonical = (
        f'[{{"digest":"{"b" * 64}","media_type":"text/plain","name":"draft.json","size":5}},'
        f'{{"digest":"{"a" * 64}","media_type":"text/plain","name":"report.md","size":5}}]'
    )
    assert report_digest(objects) == hashlib.sha256(canonical.encode()).hexdigest()
    assert report_digest(objects) == report_digest(objects[::-1])
    assert rfc8785.dumps(json.loads(canonical)) == canonical.encode()
    assert report_digest([{**objects[0], "digest": "c" * 64}, objects[1]]) != report_digest(objects)


# ---- Safe to open ----------------------------------------------------------------------------------------------


def test_the_page_asks_for_nothing_and_runs_nothing(page):
    assert not {"script", "img", "link", "iframe", "object", "base", "form", "image", "use"} & set(page.tags)
    assert not [a for a in page.attributes if a[1].startswith("on") or a[1] in {"src", "srcset", "style", "action"}]
    links = [value for _, name, value in page.attributes if name.endswith("href")]
    assert links
    assert all(re.fullmatch(r"#s\d+(-r\d+)?", link) for link in links)


def test_the_page_allows_only_its_own_style(page):
    text = plain_files()["report.html"]
    style = re.search(r"<style>(.*?)</style>", text, re.DOTALL)[1]
    digest = b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = next(value for _, name, value in page.attributes if name == "content" and "default-src" in value)
    assert policy == f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    assert not re.search(r"url\(|@import|@font-face", style)


def test_every_link_has_a_place_to_go_and_no_id_is_twice(page):
    ids = [value for _, name, value in page.attributes if name == "id"]
    assert len(ids) == len(set(ids))
    assert {value[1:] for _, name, value in page.attributes if name == "href"} <= set(ids)


def test_hostile_names_and_cells_are_shown_as_text(page):
    for hostile in (HOSTILE, HOSTILE_SHEET, HOSTILE_COLUMN):
        assert hostile in page.text
    doc = document(title="</title><script>alert(1)</script>", language_model='"><svg onload=alert(1)>')
    doc["unanswered"] = [{"ask": "<img src=x>", "reason": "</dl><script>", "columns": ["<b>"]}]
    hostile = Page(render(doc, profile(), results())["report.html"].decode())
    assert not {"script", "img"} & set(hostile.tags)
    assert hostile.tags.count("svg") == page.tags.count("svg") == 4
    assert "<img src=x>" in hostile.text


def rendered(text):
    """What a reader of Markdown sees: elements and text."""
    parser = MarkdownIt("gfm-like", {"html": True, "linkify": False}).enable("table")
    return Page(parser.render(text))


def test_hostile_names_and_cells_stay_text_in_markdown():
    seen = rendered(plain_files()["report.md"])
    assert not {"script", "img", "a", "b", "em", "s"} & set(seen.tags)
    for hostile in (HOSTILE, HOSTILE_SHEET, HOSTILE_COLUMN, "**b** | `t` $x$"):
        assert hostile in seen.text
    assert seen.tags.count("table") == 6


TRICKY = st.text(alphabet="ab \n\t*_`~[](){}<>|&#!+-=.:/@\\$^\"'0123中wW", max_size=24)


@settings(max_examples=300)
@given(TRICKY)
def test_any_text_is_that_text_in_markdown(text):
    line = " ".join(text.split())
    escaped = markdown.at_line_start(markdown.escape(text))
    seen = rendered(escaped)
    assert seen.text.removesuffix("\n") == line
    assert seen.tags == (["p"] if line else [])


@settings(max_examples=200)
@given(TRICKY, TRICKY)
def test_any_text_is_that_text_in_a_table_of_markdown(name, cell):
    seen = rendered(markdown.table([(name, "left"), ("n", "right")], [[cell, "1"]]))
    assert [seen.tags.count(tag) for tag in ("th", "td")] == [2, 2]
    assert set(seen.tags) == {"table", "thead", "tbody", "tr", "th", "td"}
    assert " ".join(cell.split()) in seen.text


@given(TRICKY)
def test_any_text_is_that_text_as_code(text):
    line = " ".join(text.split()) or " "
    seen = rendered(f"x {markdown.code_span(text)} x")
    assert seen.tags == ["p", "code"]
    assert seen.text.strip() == f"x {line.strip() or ' '} x"
    block = rendered(markdown.code_block(text, "sql"))
    assert block.tags == ["pre", "code"]
    assert block.text.rstrip() == text.rstrip()


def test_an_address_in_a_cell_is_no_link():
    """Readers that turn bare addresses into links look for these characters."""
    assert markdown.escape("https://evil.example www.x.y a@b.c") == r"https\://evil.example www\.x.y a\@b.c"


# ---- Nothing left out ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["report.html", "report.md"])
def test_what_a_manager_looks_for_is_there(name):
    read = plain_files()[name]
    text = Page(read).text if name.endswith("html") else rendered(read).text
    for expected in (
        "Report on 销售 sales-2025.xlsx",
        "2 sheets, 1,290 rows",
        "4,939,020.70",
        "The column “discount” holds 1,201 numbers and 12 texts.",
        "Empty cells, by column: date (4), region (13), revenue (4), discount (71).",
        "was read, but no question was asked of it.",
        "为什么 2025 年利润下降？",
        "Columns looked at: date, revenue.",
        "No language model was used. The questions and the text were made by fixed rules.",
        'SELECT sum("revenue") AS "sum of revenue"\nFROM "Orders"',
        "In every row: outliers 17, share 1.3%, lower bound -2,310.50, upper bound 8,955.25.",
    ):
        assert expected in text, expected


def test_a_language_model_and_a_reviewer_are_named():
    text = files(language_model="openai:gpt-x", remarks=["Shorter, <please>"])["report.html"]
    assert "The language model openai:gpt-x chose the questions and wrote the text." in text
    assert "No language model was used" not in text
    assert "A reviewer asked for changes: “Shorter, &lt;please&gt;”" in text


def test_figures_link_to_their_row_as_far_as_it_is_shown():
    doc = document(
        summary=parse_prose("[[q2:1:sum of revenue]] and [[q2:18:sum of revenue]] [[q2:18:date (month)]]", profile())
    )
    doc["sections"][1]["table"]["max_rows"] = 5
    text = render(doc, profile(), results())["report.html"].decode()
    assert 'href="#s2-r1" title="Result q2, row 2, sum of revenue"' in text
    assert 'href="#s2" title="Result q2, row 19, sum of revenue"' in text
    assert "<bdi>no value</bdi>" in text
    assert "The first 5 of 19 rows are shown." in text


def test_numbers_stand_right_and_a_cut_answer_is_called_so():
    found = results()
    found["q3"] |= {"truncated": True, "notes": ["2 values are not finite numbers."]}
    text = render(document(), profile(), found)["report.html"].decode()
    assert '<td class="right" dir="auto">1,934,567.10</td>' in text
    assert "The first 6 rows are shown; the answer was cut off at 6." in text
    assert "2 values are not finite numbers." in text


def test_a_draft_with_mistakes_can_be_looked_at():
    """`write_draft` renders before `test` checks."""
    doc = document(summary=[[{"ref": ["q9", 0, "x"]}], [{"what": 1}], 5, {"text": "alone"}])
    doc["sections"][0]["question_id"] = "q0"
    seen = Page(render(doc, profile(), results())["report.html"].decode())
    assert "[no figure: there is no result" in seen.text
    assert "[not readable: {'what': 1}]" in seen.text
    assert "alone" in seen.text


def test_prose_of_a_language_model_keeps_its_shape():
    doc = document(summary=parse_prose("Of **note**: `revenue`\n\n- one\n- two **[[q1:0:sum of revenue]]**", profile()))
    made = {name: data.decode() for name, data in render(doc, profile(), results()).items()}
    assert "Of **note**: `revenue`\n\n- one\n- two **4,939,020.70**" in made["report.md"]
    assert "<li>one</li>" in made["report.html"]
    assert 'Of <strong>note</strong>: <bdi class="name">revenue</bdi>' in made["report.html"]


def test_lone_surrogates_of_a_models_json_do_no_harm():
    made = render(document(title="a\ud800b", summary=[[{"text": "x\udfffy"}]]), profile(), results())
    assert "a\ufffdb" in made["report.html"].decode()
    assert "x\ufffdy" in made["report.md"].decode()
    assert json.loads(made["draft.json"])["title"] == "a?b"


def test_an_empty_report():
    nothing = {"title": "t", "questions": [], "unanswered": [], "language_model": None}
    made = render(compose_offline(nothing, profile(), {}), profile(), {})
    assert "No question could be answered from this file." in made["report.html"].decode()


def test_a_result_without_rows():
    found = {**results(), "q3": result("q3", [("region", "text"), ("sum of revenue", "number")], [])}
    made = render(compose_offline(plan(), profile(), found), profile(), found)
    assert "No row of the sheet" in made["report.md"].decode()
