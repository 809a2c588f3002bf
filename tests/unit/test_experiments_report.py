"""Stories, table and JSON say what the evidence says; the README's check leaves out ids and seconds only."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path

import pytest

from experiments import campaign, capture_readme, report
from experiments.boundaries import receipt_name
from experiments.story import Process, Story
from tests.support.evidence import CASE, REFERENCE, WORLD, plain


def outcomes(**changes: object) -> list[report.Outcome]:
    """The case without a fault and one case with, judged."""
    control = replace(plain(effects=WORLD.effects), fault=None, processes=REFERENCE.processes)
    without = campaign.judge(REFERENCE, control, None)
    return [without, campaign.judge(replace(CASE, **changes), plain(), without)]


def results(**changes: object) -> report.Results:
    judged = outcomes(**changes)
    verdict, reasons = campaign.conclude(judged)
    return report.Results(
        store="sqlite", verdict=verdict, reasons=tuple(reasons), outcomes=tuple(judged), seconds=1.25, versions={}
    )


def printed(shown: report.Results) -> str:
    stream = io.StringIO()
    report.print_results(shown, stream)
    return stream.getvalue()


def test_a_clean_campaign_passes() -> None:
    told = report.to_json(results())
    assert json.loads(json.dumps(told)) == told
    assert (told["verdict"], told["reasons"]) == ("pass", [])
    assert (told["faults"], told["fired"], told["duplicates"], told["control_duplicates"]) == (1, 1, 0, 1)
    case = told["cases"][1]
    assert case["effects"] == {"write_draft": 1, "deliver": 1}
    assert case["receipts"] == {"new": 2, "reused": 1}
    assert case["epochs"] == [1, 2]
    assert case["reexecuted"] == 1
    assert case["control"]["effects"] == {"write_draft": 2, "deliver": 1}
    assert [process["exit_code"] for process in case["processes"]] == [86, 0, 0]


def test_the_story_reads_like_the_experiment_that_it_repeats() -> None:
    lines = list(report.story(CASE))
    assert lines == [
        "# first process",
        "EXECUTE plan",
        "EXECUTE analyze",
        "EXECUTE write_draft",
        "TOOL committed receipt draft-1",
        "CRASH after effect commit, before graph checkpoint",
        "# second process, resumes by the same thread_id",
        "EXECUTE write_draft",
        "TOOL reuse receipt draft-1",
        "EXECUTE test",
        "EXECUTE deliver",
        "TOOL committed receipt report-2",
        "# third process, resumes the finished run",
        "(executes nothing)",
    ]


def test_repeated_lines_are_one_line_with_a_count() -> None:
    process = Process(exit_code=0, lines=("EXECUTE plan", "EXECUTE analyze", "EXECUTE analyze", "END exit 0"))
    assert list(report.folded(process)) == ["EXECUTE plan", "EXECUTE analyze (2 times)"]


def test_a_process_that_failed_says_why() -> None:
    process = Process(exit_code=1, lines=("EXECUTE plan",), last_words="ValueError: no")
    assert list(report.folded(process)) == ["EXECUTE plan", "(ended with 1: ValueError: no)"]
    silent = Process(exit_code=None, lines=())
    assert list(report.folded(silent)) == ["(executes nothing)", "(ended with None: without a word)"]


def test_what_is_printed_holds_story_table_and_verdict() -> None:
    text = printed(results())
    assert "TOOL reuse receipt draft-1" in text
    assert "plan analyze write_draft | write_draft test deliver | -" in text
    assert "1 of 1 faults fired; duplicates: 0 with Onward, 1 in the control" in text
    assert "Verdict: pass." in text


def test_a_violation_disproves_and_says_where() -> None:
    wrong = replace(WORLD, status="failed")
    shown = results(ended=wrong, after=wrong)
    assert shown.verdict == "disproved"
    assert shown.reasons[0].startswith("write_draft: after effect: I7 the run ends: the run is failed, not succeeded")
    assert "WRONG" in printed(shown)


def test_a_fault_that_did_not_fire_proves_nothing() -> None:
    quiet = Process(exit_code=0, lines=REFERENCE.processes[0].lines)
    idle = Process(exit_code=0, lines=("END RunFinished",))
    shown = results(processes=(quiet, idle, idle))
    assert shown.verdict == "invalid"
    assert "I9 the fault fired" in shown.reasons[0]


def test_a_clean_control_proves_nothing() -> None:
    judged = outcomes()
    judged[1] = replace(judged[1], control=plain(effects=WORLD.effects))
    verdict, reasons = campaign.conclude(judged)
    assert (verdict, reasons) == ("invalid", ["write_draft: after effect: the control shows no duplicate"])


def test_a_story_is_on_disk_line_by_line(tmp_path: Path) -> None:
    story = Story(tmp_path / "told")
    story.tell("EXECUTE plan")
    assert Process.read(tmp_path / "told", None).executed == ("plan",)
    story.tell("TOOL committed receipt draft-1")
    story.tell("END exit 0")
    process = Process.read(tmp_path / "told", 0)
    assert (process.committed, process.reused, process.crash, process.end) == (("draft-1",), (), None, "exit 0")
    (tmp_path / "told.err").write_text("Traceback\nValueError: no\n")
    assert Process.read(tmp_path / "told", 1).last_words == "ValueError: no"
    assert Process.read(tmp_path / "never begun", 1) == Process(exit_code=1, lines=())


def test_a_receipt_has_one_name() -> None:
    name = receipt_name("draft.save", {"a": 1, "b": [2]})
    assert name == receipt_name("draft.save", {"b": [2], "a": 1})
    assert name.startswith("draft-") and len(name) == len("draft-") + 12
    assert name != receipt_name("draft.save", {"a": 2, "b": [2]})


README = f"# Onward\n\n{capture_readme.BEGIN}\nold\n{capture_readme.END}\n\nmore\n"


def test_the_readme_gets_the_output_between_its_markers() -> None:
    new = capture_readme.with_output(README, "receipt draft-0123456789ab\n12 seconds\n")
    assert new == (
        f"# Onward\n\n{capture_readme.BEGIN}\n```text\nreceipt draft-0123456789ab\n12 seconds\n```\n"
        f"{capture_readme.END}\n\nmore\n"
    )
    assert capture_readme.with_output(new, "receipt draft-0123456789ab\n12 seconds\n") == new


def test_the_check_leaves_out_ids_and_seconds_only() -> None:
    new = capture_readme.with_output(README, "receipt draft-0123456789ab\npublished once\n12 seconds\n")
    assert capture_readme.differences(new, "receipt draft-ffffffffffff\npublished once\n9 seconds\n") == []
    found = capture_readme.differences(new, "receipt draft-ffffffffffff\npublished 2 times\n9 seconds\n")
    assert "-published once" in found and "+published 2 times" in found


def test_a_readme_without_markers_is_an_error() -> None:
    with pytest.raises(capture_readme.NotCaptured, match="demo:begin"):
        capture_readme.with_output("# Onward\n", "x")
