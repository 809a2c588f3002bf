"""`onward demo`: what the README shows is what it prints, and it fails when its claim does."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from experiments import capture_readme, demo
from experiments.story import Process
from tests.support.evidence import CASE, WORLD, effect, plain

pytestmark = pytest.mark.timeout(240)  # seconds on an idle machine, half a minute on a busy one

ROOT = Path(__file__).resolve().parents[2]
FIRST = Process(exit_code=-9, lines=("EXECUTE deliver", "TOOL committed receipt report-1", "CRASH after effect commit"))


def test_the_story_is_told_for_real_and_the_readme_shows_it() -> None:
    output = capture_readme.demo_output()
    lines = [line.strip() for line in output.splitlines()]
    assert lines.count("SIGKILL") == 2
    assert "=> published 2 times; no error, no warning" in lines
    assert "=> published once; 1 receipt, 2 epochs, the run has succeeded" in lines
    assert "\x1b" not in output
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert capture_readme.differences(readme, output) == []


def shown(**changes: object) -> demo.Showing:
    """A showing of the sample, whose second process killed the publication instead of the draft."""
    onward = replace(CASE, processes=(FIRST, *CASE.processes[1:]), **changes)
    return demo.Showing(store="sqlite", plain=plain(), onward=onward, problems=(), seconds=1.0)


def test_the_figures_are_those_of_the_evidence() -> None:
    told = demo.to_json(shown())
    assert (told["ok"], told["onward"]["effects"], told["onward"]["receipts"]) == (True, 1, 1)
    assert told["onward"]["epochs"] == [1, 2]
    assert [process["exit_code"] for process in told["onward"]["processes"]] == [-9, 0, 0]


def test_a_claim_that_does_not_hold_is_said() -> None:
    double = replace(WORLD, effects=(*WORLD.effects, effect("report.publish", entry=3)))
    problem = "I1 one effect per intended action: the effect of deliver happened 2 times"
    showing = replace(shown(ended=double, after=double), problems=(problem,))
    text = "\n".join(line.text for line in demo.screen(showing))
    assert "=> published 2 times; 1 receipt, 2 epochs" in text
    assert "Not as claimed: I1 one effect per intended action" in text
    assert demo.to_json(showing)["ok"] is False
