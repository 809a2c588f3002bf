"""What a case says, what comes of many, and when there is no verdict."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from experiments.benchmarks.machine import Machine
from experiments.recovering import report
from experiments.recovering.campaign import SYSTEMS, Options
from experiments.recovering.case import Case
from experiments.recovering.marks import Mark
from experiments.recovering.plan import Kill
from experiments.recovering.results import Column, Results, Times
from experiments.recovering.systems.system import WentOn

KILLED, OTHER = 100, 200


def mark(step: int, word: Any, at: float, pid: int) -> Mark:
    return Mark(run_id="a", step=step, word=word, pid=pid, at=at)


def case(**changed: Any) -> Case:
    """Killed at 10.0 in the middle of step 2; another process begins it again at 10.3."""
    found = Case(
        kill=Kill(number=1, target="driver", step=2, after_seconds=0.05),
        run_id="a",
        struck=True,
        killed_at=10.0,
        pid=KILLED,
        ended="succeeded",
        ended_seconds=1.0,
        went_on=None,
        marks=(
            mark(1, "begin", 9.85, KILLED),
            mark(1, "end", 9.94, KILLED),
            mark(2, "begin", 9.95, KILLED),
            mark(2, "begin", 10.3, OTHER),
            mark(2, "end", 10.4, OTHER),
        ),
        effects=1,
        unknown=0,
    )
    return replace(found, **changed)


def column(*cases: Case, ours: bool = False, **changed: Any) -> Column:
    named: dict[str, Any] = {"name": "Onward" if ours else "peer", "settings": "as is", "versions": {"x": "1"}}
    return Column(**{**named, "ours": ours, "patience_seconds": 1.0, "cases": cases, **changed})


def results(*columns: Column) -> Results:
    return Results(
        columns=columns,
        seed=7,
        kills=10,
        peer_kills=10,
        machine=Machine(cores=2, system="Linux", load=0.1, busy=False),
        server={"postgres": "18", "fsync": "on"},
        versions={"python": "3"},
        seconds=3.0,
    )


def test_without_records_the_marks_of_another_process_count():
    seen = case()
    assert seen.claim_seconds == pytest.approx(0.3)
    assert seen.recorded_seconds == pytest.approx(0.4)
    assert seen.work_seconds == pytest.approx(0.1)
    assert seen.executed == (1, 2, 2)
    assert seen.executed_again == 1


def test_records_count_before_marks():
    seen = case(went_on=WentOn(claimed_at=10.2, recorded_at=10.45))
    assert seen.claim_seconds == pytest.approx(0.2)
    assert seen.recorded_seconds == pytest.approx(0.45)
    assert seen.begins_seconds == pytest.approx(0.3)


def test_what_the_dying_process_still_said_is_not_going_on():
    late = (mark(2, "begin", 9.95, KILLED), mark(2, "end", 10.001, KILLED))
    seen = case(marks=late, ended=None)
    assert seen.begins_seconds is None
    assert seen.done_seconds is None
    assert seen.stuck


def test_a_worker_that_was_killed_has_its_driver_in_the_marks():
    seen = case(pid=1)  # the worker's own process runs no step
    assert seen.driver_pid == KILLED
    assert seen.done_seconds == pytest.approx(0.4)


def test_lost_unknown_and_stuck_are_three_things():
    assert case(effects=0).lost
    assert not case(effects=0, unknown=1).lost
    assert not case(effects=0, ended=None).lost
    assert case(effects=3).duplicates == 2
    assert case(ended="waiting_human").wrong_end
    assert not case(ended="waiting_human", effects=0, unknown=1).wrong_end
    assert not case(ended="SUCCESS").wrong_end


def test_times_are_of_what_happened():
    assert Times.of([None, None]) is None
    times = Times.of([0.1, None, 0.3])
    assert times is not None
    assert (times.samples, times.p50, times.max) == (2, pytest.approx(0.2), 0.3)


def test_a_kill_that_came_too_late_has_no_times_and_its_effects_count():
    seen = column(case(), case(struck=False, effects=2), ours=True)
    times = seen.times("claim")
    assert times is not None
    assert times.samples == 1
    assert seen.counts["kills"] == 1
    assert seen.counts["duplicates"] == 1
    assert seen.broken == ("kill 1: 2 effects of one action",)


def test_the_verdict_needs_a_control_that_shows_duplicates():
    ours = column(case(), ours=True)
    assert results(ours, column(case(effects=2))).verdict == "pass"
    assert results(ours, column(case())).verdict == "invalid"
    assert results(ours).verdict == "no control"


@pytest.mark.parametrize("wrong", [{"effects": 2}, {"effects": 0}, {"ended": None}, {"ended": "failed"}])
def test_anything_wrong_of_ours_disproves(wrong: dict[str, Any]):
    assert results(column(case(**wrong), ours=True), column(case(effects=2))).verdict == "disproved"


def test_an_unknown_effect_that_a_person_can_settle_is_listed_and_disproves_nothing():
    listed = column(case(effects=0, unknown=1, ended="waiting_human"), ours=True)
    assert listed.counts["unknown"] == 1
    assert results(listed, column(case(effects=2))).verdict == "pass"
    assert results(column(case(ended="waiting_human"), ours=True), column(case(effects=2))).verdict == "disproved"


def test_kills_that_hit_nothing_prove_nothing():
    assert results(column(case(struck=False), ours=True), column(case(effects=2))).verdict == "invalid"


def test_a_peer_that_is_not_installed_is_no_control():
    seen = results(column(case(), ours=True), column(not_run="not installed: x"))
    assert seen.verdict == "no control"
    assert "peer was not run to its end: not installed: x" in "\n".join(report.reading(seen))


def test_aims_are_told_and_are_no_verdict():
    slow = case(went_on=WentOn(claimed_at=10.2, recorded_at=10.9))
    seen = results(column(slow, ours=True), column(case(effects=2)))
    assert [(aim.aim_seconds, aim.met) for aim in seen.aims] == [(0.25, True), (0.5, False)]
    assert seen.verdict == "pass"
    told = "\n".join(report.reading(seen))
    assert "0.200 s, aimed at 0.25 s: met" in told
    assert "0.900 s, aimed at 0.5 s: missed" in told


def test_the_table_has_a_line_for_each_kind_of_kill_of_ours():
    workers = case(kill=Kill(number=2, target="worker", step=1, after_seconds=0.0))
    seen = results(column(case(), workers, ours=True), column(case(effects=2)), column(not_run="gone", name="other"))
    shown = report.rows(seen)
    assert [row[0] for row in shown] == ["Onward", "Onward: drivers killed", "Onward: workers killed", "peer", "other"]
    assert [row[1] for row in shown] == ["2", "1", "1", "1", "not run"]
    assert {len(row) for row in shown} == {len(report.HEAD)}
    assert report.page(seen).count("\n| ") == len(shown) + 1


def test_everything_is_json():
    seen = results(column(case(went_on=WentOn(claimed_at=10.2, recorded_at=None)), ours=True))
    told = json.loads(json.dumps(seen.to_json()))
    assert told["verdict"] == "no control"
    assert told["systems"][0]["seconds"]["claim"]["p95"] == 0.2
    assert told["systems"][0]["seconds"]["recorded"] is None
    assert told["systems"][0]["cases"][0]["executed"] == [1, 2, 2]


def test_systems_are_chosen_by_name():
    names = [system.name for system in SYSTEMS]
    assert len(set(names)) == len(names)
    chosen = Options(kills=1, peer_kills=1, seed=1, only=("Temporal", "Onward")).systems
    assert [system.name for system in chosen] == ["Onward", "Temporal"]


def test_the_page_has_a_place_for_the_table():
    text = report.DOCUMENT.read_text(encoding="utf-8")
    assert text.count(report.BEGIN) == text.count(report.END) == 1


def test_steps_that_take_long_show_a_busy_machine():
    seen = column(case(), ours=True)
    assert seen.step_times is not None
    assert (seen.step_times.samples, seen.step_times.max) == (2, pytest.approx(0.1))
    busy = column(case(marks=(mark(1, "begin", 9.0, KILLED), mark(1, "end", 9.3, KILLED))), ours=True)
    assert "other work had the machine too" in "\n".join(report.reading(results(busy)))
    assert "other work" not in "\n".join(report.reading(results(column(case(), ours=True))))
