"""Stories, table and summary say what the evidence says; the README's check leaves out ids and seconds only."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import pytest

from experiments import capture_readme, report
from experiments.checker import Violation
from experiments.narrator import receipt_name
from experiments.results import Outcome, Results
from experiments.story import Process, Story
from tests.support.evidence import (
    CASE,
    DRAFT_UNKNOWN,
    LEDGER_CASE,
    POINTS,
    WORLD,
    an_outcome,
    changed,
    effect,
    plain,
)
from tests.support.evidence_campaign import WRONG, results


def printed(shown: Results) -> str:
    stream = io.StringIO()
    report.print_results(shown, stream)
    return stream.getvalue()


# --- stories ----------------------------------------------------------------------------------------------------------


def test_the_story_reads_like_the_experiment_that_it_repeats() -> None:
    assert list(report.story(CASE)) == [
        "# first process",
        "EXECUTE plan",
        "EXECUTE analyze",
        "EXECUTE write_draft",
        "TOOL committed receipt draft-1",
        "CRASH write_draft: after effect",
        "# second process, resumes by the same thread_id",
        "EXECUTE write_draft",
        "TOOL reuse receipt draft-1",
        "EXECUTE test",
        "EXECUTE deliver",
        "TOOL committed receipt report-2",
        "# third process, resumes the finished run",
        "(executes nothing)",
    ]


def test_the_story_of_a_ledger_that_died_and_of_others_that_asked() -> None:
    client = Process(exit_code=0, lines=("REFUSED params-conflict", "END 1 actions"))
    told = list(report.story(replace(LEDGER_CASE, clients=(client,))))
    assert told[-4:] == [
        "# the ledger",  # the one that died; the one behind it has nothing to tell
        "CRASH after put an object (send)",
        "# somebody else",
        "REFUSED params-conflict",
    ]


def test_repeated_lines_are_one_line_with_a_count() -> None:
    process = Process(exit_code=0, lines=("EXECUTE plan", "EXECUTE analyze", "EXECUTE analyze", "END exit 0"))
    assert list(report.folded(process)) == ["EXECUTE plan", "EXECUTE analyze (2 times)"]
    assert report.nodes(process) == "plan analyze×2"
    assert report.nodes(Process(exit_code=0, lines=())) == "-"


def test_a_process_that_failed_says_why() -> None:
    process = Process(exit_code=1, lines=("EXECUTE plan",), last_words="ValueError: no")
    assert list(report.folded(process)) == ["EXECUTE plan", "(ended with 1: ValueError: no)"]
    silent = Process(exit_code=None, lines=())
    assert list(report.folded(silent)) == ["(executes nothing)", "(ended with None: without a word)"]


def test_a_story_is_on_disk_line_by_line(tmp_path: Path) -> None:
    story = Story(tmp_path / "told")
    story.tell("EXECUTE plan")
    assert Process.read(tmp_path / "told", None).executed == ("plan",)
    for line in ("TOOL committed receipt draft-1", "STOP here", "WAKE here", "TOOL reuse receipt draft-1"):
        story.tell(line)
    for line in ("REFUSED stale-epoch", "ACCEPTED draft.save", "END exit 0"):
        story.tell(line)
    process = Process.read(tmp_path / "told", 0)
    assert (process.committed, process.reused) == (("draft-1",), ("draft-1",))
    assert (process.stop, process.crash, process.end) == ("here", None, "exit 0")
    assert (process.refused, process.accepted) == (("stale-epoch",), ("draft.save",))
    assert process.effects_awake == ("TOOL reuse receipt draft-1",)
    (tmp_path / "told.err").write_text("Traceback\nValueError: no\n")
    assert Process.read(tmp_path / "told", 1).last_words == "ValueError: no"
    assert Process.read(tmp_path / "never begun", 1) == Process(exit_code=1, lines=())


def test_a_receipt_has_one_name() -> None:
    name = receipt_name("draft.save", {"a": 1, "b": [2]})
    assert name == receipt_name("draft.save", {"b": [2], "a": 1})
    assert name.startswith("draft-") and len(name) == len("draft-") + 12
    assert name != receipt_name("draft.save", {"a": 2, "b": [2]})


# --- table and summary ------------------------------------------------------------------------------------------------


def test_a_row_counts_its_group() -> None:
    unknown = changed(LEDGER_CASE, effects=(), published=(), saved=None, records=(DRAFT_UNKNOWN,))
    lost = an_outcome(changed(effects=(), published=(), saved=None), violations=(WRONG,))
    never = an_outcome(invalid=(Violation(number="I9", invariant="the fault fired", seen="no"),))
    group = (an_outcome(), an_outcome(), an_outcome(unknown), lost, never)
    assert report.row("x", group) == ("x", "5", "2", "1", "1", "1", "0", "2", "4")
    doubled = an_outcome(changed(effects=(*WORLD.effects, effect("draft.save", entry=3))))
    assert report.row("x", (doubled,))[6] == "1"


def test_the_row_of_the_control_says_where_it_repeats_and_where_not() -> None:
    clean = plain(effects=WORLD.effects)
    group = (an_outcome(plain()), an_outcome(clean), an_outcome(clean))
    assert report.row("x", group, control=True) == ("x", "3", "2", "1", "0", "0", "1", "0", "3")


def test_the_rows_stand_in_the_order_of_the_groups() -> None:
    outcomes = (an_outcome(LEDGER_CASE), an_outcome(), an_outcome())
    shown = list(report.rows(results(outcomes)))
    assert [(row[0], row[1]) for row in shown] == [
        ("the driver killed at the named crash points", "2"),
        ("the ledger killed at every boundary, and started again", "1"),
        ("the control: plain LangGraph killed at every boundary", "1"),
    ]


def test_what_is_printed_holds_table_mutants_figures_and_verdict() -> None:
    text = printed(results())
    lines = [line.rstrip() for line in text.splitlines()]
    assert "Onward on sqlite" in lines
    assert any(line.split()[-8:] == ["1", "1", "0", "0", "0", "0", "0", "1"] for line in lines)
    caught = "caught at 'write_draft: after effect': the effect of write_draft happened 2 times"
    assert [line.strip() for line in lines if "no-replay" in line or "caught at" in line] == [
        "no-replay        a recorded effect is performed again when it is asked for again",
        caught,
    ]
    assert lines[-5:] == [
        "1 faulted runs, 12 recorded boundaries.",
        "Duplicates 0, lost 0, wrong 0, UNKNOWN 0, not fired 0.",
        "The control repeats effects in 1 of 1 cases. 1 of 1 mutants are caught.",
        "From a death to the next claim 250 ms (median); 1 s in all.",
        "Verdict: pass.",
    ]


def told(*outcomes: Outcome) -> list[str]:
    """The headings of the stories that are printed."""
    return [line for line in printed(results(outcomes)).splitlines() if line.startswith("== ")]


def test_where_all_is_well_the_hardest_point_shows_how_it_goes() -> None:
    hardest = an_outcome(replace(CASE, plan=replace(POINTS, name="deliver: after effect")))
    others = tuple(an_outcome(replace(CASE, plan=replace(POINTS, name=f"other {n}"))) for n in range(report.FEW))
    heading = "== OK: the driver killed at the named crash points: "
    assert told(*others, hardest) == [f"{heading}deliver: after effect"]
    assert told(*others, an_outcome()) == []
    assert told(*others[:2]) == [f"{heading}other 0", f"{heading}other 1"]  # of a few, every one
    wrong = "== WRONG: the driver killed at the named crash points: write_draft: after effect"
    assert told(*others, hardest, wrong_case()) == [wrong]
    assert told(others[0], wrong_case()) == [wrong]


def test_what_cannot_be_tried_is_said() -> None:
    assert "Not run: a ledger that falls silent." in printed(results(not_run=("a ledger that falls silent",)))


def test_a_mutant_that_lives_is_shown() -> None:
    shown = results()
    alive = replace(shown, hunted=(replace(shown.hunted[0], caught=None),))
    assert "NOT CAUGHT" in printed(alive) and "0 of 1 mutants are caught." in printed(alive)


def wrong_case() -> Outcome:
    case = changed(effects=(*WORLD.effects, effect("draft.save", entry=3)))
    seen = "the effect of write_draft happened 2 times"
    return an_outcome(case, violations=(replace(WRONG, seen=seen),))


def test_what_is_wrong_is_told_as_a_story_with_the_invariant_and_what_stands() -> None:
    text = printed(results((wrong_case(),), verdict="disproved", reasons=("why",), planted="no-replay"))
    for line in (
        "== WRONG: the driver killed at the named crash points: write_draft: after effect",
        "   I1 one effect per intended action: the effect of write_draft happened 2 times",
        "CRASH write_draft: after effect",
        "# second process, resumes by the same thread_id",
        "run succeeded; epochs 1 2",
        "oracle line 3: draft.save dddddddddddd",
        "ledger: write_draft draft.save SUCCEEDED dddddddddddd",
        "- why",
        "A defect was planted on purpose: no-replay.",
        "Duplicates 1, lost 0, wrong 1, UNKNOWN 0, not fired 0.",
        "Verdict: disproved.",
    ):
        assert line in text.splitlines(), line


def test_only_the_first_stories_are_told() -> None:
    text = printed(results((wrong_case(),) * 5, verdict="disproved"))
    assert text.count("== WRONG") == 3
    assert "2 more are in results.json and on the page, with --out DIR." in text


# --- the README -------------------------------------------------------------------------------------------------------

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
