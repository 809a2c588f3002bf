"""What the upgrade drill calls right and wrong, and what its releases serve."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from experiments.upgrading import releases, second
from experiments.upgrading.control import Control
from experiments.upgrading.report import print_results
from experiments.upgrading.results import Check, Results, Seen
from graph.migrations import Migrated

WRONG = Control(waited=True, finished=True, outcome=None, error=None)
RUN = Seen(
    run_id="r",
    group="waited",
    versions=("1", "1"),
    said=("approve", "approve"),
    status="succeeded",
    reason=None,
    digest="d",
    effects={"draft.save": 1, "report.publish": 1},
    attempts={"plan": 1},
)
REJECTED = replace(RUN, said=("conflict: reject stands", "reject"), status="failed", reason="rejected")
REJECTED = replace(REJECTED, effects={"draft.save": 1})


def results(*runs: Seen, control: Control = WRONG, held: bool = True) -> Results:
    return Results(
        runs=runs, checks=[Check(name="all end", held=held, seen="1 of 2")], control=control, seconds={"a": 1.0}
    )


def test_runs_that_end_as_was_decided_pass() -> None:
    found = results(RUN, REJECTED)
    assert (found.verdict, found.wrong, found.digest) == ("pass", [], "d")


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"effects": {"draft.save": 1, "report.publish": 2}}, "report.publish happened 2 times"),
        ({"effects": {"draft.save": 1}}, "report.publish happened 0 times"),
        ({"effects": {**RUN.effects, "mail.send": 1}}, "mail.send happened 1 times"),
        ({"status": "waiting_human", "reason": "approval"}, "it is waiting_human (approval)"),
        ({"said": ("approve", "reject")}, "the decisions that stand are approve, reject"),
        ({"said": ()}, "the decisions that stand are none"),
        ({"digest": None}, "its report is another one"),
        ({"attempts": {"test": 2}}, "test was begun 2 times"),
    ],
)
def test_a_run_that_came_through_otherwise_disproves(changed: dict[str, Any], words: str) -> None:
    found = results(RUN, replace(RUN, **changed))
    assert found.verdict == "disproved"
    assert words in " ".join(found.wrong)


def test_a_rejected_run_that_published_disproves() -> None:
    assert results(RUN, replace(REJECTED, effects=RUN.effects)).verdict == "disproved"


def test_another_report_disproves() -> None:
    assert results(RUN, RUN, replace(RUN, digest="other")).verdict == "disproved"


def test_a_check_that_did_not_hold_disproves() -> None:
    assert results(RUN, held=False).wrong == ["all end: 1 of 2"]


@pytest.mark.parametrize(
    "control",
    [
        replace(WRONG, outcome="published"),
        replace(WRONG, finished=False),
        replace(WRONG, waited=False),
    ],
)
def test_without_a_control_that_goes_wrong_it_shows_nothing(control: Control) -> None:
    assert results(RUN, control=control).verdict == "invalid"


def test_without_runs_it_shows_nothing() -> None:
    assert results().verdict == "invalid"


def test_a_control_that_breaks_has_gone_wrong_too() -> None:
    assert replace(WRONG, finished=False, error="KeyError: 'readers'").went_wrong


def test_people_read_what_was_not_as_promised() -> None:
    out = StringIO()
    print_results(results(RUN, replace(RUN, effects={"draft.save": 2, "report.publish": 1})), out)
    shown = out.getvalue()
    assert "not as promised: r (waited): draft.save happened 2 times" in shown
    assert shown.splitlines()[1].split() == ["waited", "2", "2", "0", "1", "0", "0", "0"]
    assert "disproved: 1 of 1 checks held" in shown


@pytest.mark.parametrize(("make", "served"), [(releases.old, "1"), (releases.new, "1 2"), (releases.later, "2")])
def test_a_release_serves_what_it_says_from_its_own_folder(make: Any, served: str, tmp_path: Path) -> None:
    release = make(tmp_path)
    code = "import graph.versions as v; print(' '.join(v.SERVED), v.CURRENT, v.__file__)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=release.environment({}),
        capture_output=True,
        text=True,
        check=True,
    )
    current = "1" if served == "1" else "2"
    assert done.stdout.split() == [*served.split(), current, str(release.folder / "graph" / "versions.py")]
    assert " ".join(release.versions) == served


def test_the_new_graph_can_be_built() -> None:
    assert set(second.build().compile().nodes) >= {"plan", "analyze", "write_draft", "test", "hand_over"}


DRAFT = {"revision": 1}
PASSED, FAILED = {"revision": 1, "passed": True}, {"revision": 1, "passed": False}


@pytest.mark.parametrize(
    ("pending", "values", "behind"),
    [
        ("plan", {}, "__start__"),
        ("analyze", {"plan": {}}, "plan"),
        ("write_draft", {"plan": {}}, "analyze"),
        ("write_draft", {"draft": DRAFT, "verification": FAILED}, "test"),
        ("write_draft", {"draft": DRAFT, "verification": PASSED}, "hand_over"),
        ("test", {"draft": DRAFT}, "write_draft"),
        ("deliver", {"draft": DRAFT, "verification": PASSED}, "test"),
    ],
)
def test_the_migration_of_the_drill_knows_every_place(pending: str, values: dict[str, Any], behind: str) -> None:
    migrated = second.from_1(values, (pending,))
    readers = {} if behind == "__start__" else {"readers": "everybody"}
    assert migrated == Migrated(values={**values, **readers}, as_node=behind)
