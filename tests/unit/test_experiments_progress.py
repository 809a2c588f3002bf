"""Live progress: the rate and what is left are of the cases done; what is wrong is told at once."""

from __future__ import annotations

from experiments.progress import EVERY_SECONDS, FIRST_CASES, Progress
from tests.support.evidence import POINTS, WORLD, an_outcome, plain
from tests.support.evidence_campaign import WRONG


class Run:
    """A progress with a clock that a test sets."""

    def __init__(self, total: int) -> None:
        self.now = 100.0
        self.told: list[str] = []
        self.progress = Progress(total, self.told.append, clock=lambda: self.now)

    def done(self, seconds: float, outcome=None) -> list[str]:
        """One more case, so long after the last one; what was said."""
        self.now += seconds
        before = len(self.told)
        outcome = outcome or an_outcome()
        self.progress.done(POINTS, outcome)
        return self.told[before:]


def test_it_says_how_many_there_are_and_then_a_line_now_and_then() -> None:
    run = Run(100)
    assert run.told == ["100 cases: each a run under faults, resumed in another process, and counted"]
    assert run.done(EVERY_SECONDS - 1) == []
    assert run.done(1.0) == ["[2/100] points: 0.5 cases a second; 2 ok"]  # too early to say how long it takes
    assert run.done(EVERY_SECONDS - 0.5) == []


def test_the_estimate_is_what_is_left_at_the_rate_so_far() -> None:
    run = Run(100)
    for _ in range(FIRST_CASES - 1):
        run.done(0.0)
    assert run.done(4.0) == ["[8/100] points: 2.0 cases a second, about 46 s left; 8 ok"]
    assert run.done(14.0) == ["[9/100] points: 0.5 cases a second, about 182 s left; 9 ok"]


def test_the_last_case_is_always_told() -> None:
    run = Run(2)
    assert run.done(0.1) == []
    assert run.done(0.1) == ["[2/2] points: 10.0 cases a second; 2 ok"]


def test_what_is_wrong_is_told_at_once_with_its_place() -> None:
    run = Run(100)
    assert run.done(0.5, an_outcome(violations=(WRONG,))) == [
        "WRONG the driver killed at the named crash points, write_draft: after effect: "
        "I1 one effect per intended action: the effect of write_draft happened 2 times"
    ]
    assert run.done(9.5)[-1] == "[2/100] points: 0.2 cases a second; 1 ok, 1 wrong"


def test_the_control_and_the_mutants_are_counted_by_what_they_show() -> None:
    run = Run(4)
    run.done(0.0, an_outcome(plain()))
    run.done(0.0, an_outcome(plain(effects=WORLD.effects)))
    run.progress.hunted("no-replay", caught=True)
    run.now += 2.0
    run.progress.hunted("no-fence", caught=False)
    assert run.told[-2:] == [
        "the mutant no-fence was not caught",
        "[4/4] mutants: 2.0 cases a second; 1 control clean, 1 control wrong, 1 mutants alive, 1 mutants caught",
    ]
