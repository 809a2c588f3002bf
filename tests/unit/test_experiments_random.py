"""Random cases: the same seed draws the same plans, and the bound on what was seen is the known one."""

from __future__ import annotations

import pytest

from experiments.randomly import MOST_STRIKES, WEIGHTS, at_most, draw


@pytest.mark.parametrize(
    ("wrong", "cases", "bound"),
    [  # one-sided 95 %: 1 - 0.05 ** (1 / n) for none, and the quantile of the beta distribution otherwise
        (0, 300, 0.009936),
        (0, 3000, 0.000998),
        (0, 30000, 0.0000999),
        (1, 100, 0.046560),
        (5, 50, 0.199138),
        (3, 3, 1.0),
        (0, 0, 1.0),
    ],
)
def test_the_bound_is_that_of_clopper_and_pearson(wrong: int, cases: int, bound: float) -> None:
    assert at_most(wrong, cases) == pytest.approx(bound, rel=2e-3)


def test_a_seed_draws_the_same_plans_again() -> None:
    first = [draw(1, number) for number in range(50)]
    assert first == [draw(1, number) for number in range(50)]
    assert first != [draw(2, number) for number in range(50)]
    assert len({drawn.plan.strikes for drawn in first}) == 50


def test_every_kind_of_strike_and_of_provider_is_drawn_within_the_run() -> None:
    drawn = [draw(7, number) for number in range(300)]
    strikes = [strike for one in drawn for strike in one.plan.strikes]
    assert {strike.what for strike in strikes} == set(WEIGHTS)
    assert all(0 <= strike.after_share < 1 for strike in strikes)
    assert {len(one.plan.strikes) for one in drawn} == set(range(1, MOST_STRIKES + 1))
    assert {one.plain_provider for one in drawn} == {True, False}
    assert {one.plan.restless for one in drawn} == {True, False}
