"""The page with outputs is that of the source, and holds nothing of the machine where it was made."""

from __future__ import annotations

import copy
import json
import re

from notebooks import render


def page():
    return json.loads(render.PAGE.read_text(encoding="utf-8"))


def test_the_page_has_the_cells_of_the_source():
    assert render.inputs(page()) == render.inputs(render.read())


def test_a_changed_cell_is_noticed():
    changed = copy.deepcopy(page())
    changed["cells"][-1]["source"] += "."
    assert render.inputs(changed) != render.inputs(render.read())


def test_every_cell_of_the_page_was_executed_without_an_error():
    code = [cell for cell in page()["cells"] if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in code] == list(range(1, len(code) + 1))
    kinds = {output["output_type"] for cell in code for output in cell["outputs"]}
    assert kinds == {"stream", "execute_result"}


def test_the_page_shows_what_the_notebook_is_about():
    text = "".join(
        output["text"]
        for cell in page()["cells"]
        for output in cell.get("outputs", ())
        if output["output_type"] == "stream"
    )
    for words in (
        "Killed in between.",
        "receipt reused, nothing was sent",
        "1 publication\n1 receipt\n2 epochs: [1, 2]",
    ):
        assert words in text


def test_the_page_has_no_words_of_the_machine():
    text = render.PAGE.read_text(encoding="utf-8")
    assert re.findall(r"/(?:tmp|home|root|var|work)/", text) == []
    assert set(re.findall(r"process \d+ on (\S+)", text)) == {"here"}
    assert render.WIDGET not in text
    assert len(text) < 100_000
