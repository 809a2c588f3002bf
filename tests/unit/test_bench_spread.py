"""Medians, intervals, targets: what a figure of the benchmark is computed from."""

from __future__ import annotations

import random

import pytest

from experiments.benchmarks.figures import Declared, amount, quotient
from experiments.benchmarks.spread import Spread, interval, quantile, ratio

RATIO = Declared(key="x_ratio", unit="ratio", says="x", target=1.5)


def noisy(middle: float, seed: int, count: int = 40) -> list[float]:
    chance = random.Random(seed)
    return [middle * chance.uniform(0.8, 1.2) for _ in range(count)]


def test_quantiles_lie_between_samples():
    assert [quantile([3, 1, 2, 5, 4], share) for share in (0, 0.1, 0.5, 0.9, 1)] == [1, 1.4, 3, 4.6, 5]
    assert quantile([7.0], 0.9) == 7.0


def test_a_ratio_is_one_of_medians_and_not_of_means():
    assert ratio([10, 20, 3000], [5, 10, 11]) == 2.0


def test_an_interval_holds_the_ratio_and_is_the_same_each_time():
    ours, floor = noisy(20, 1), noisy(10, 2)
    low, high = interval(ours, floor, seed=3)
    assert low < ratio(ours, floor) < high
    assert interval(ours, floor, seed=3) == (low, high)
    assert 1.7 < low < high < 2.3


def test_the_same_against_itself_is_one_and_twice_as_much_is_not():
    low, high = interval(noisy(10, 4), noisy(10, 5), seed=3)
    assert low < 1 < high
    low, _ = interval(noisy(20, 4), noisy(10, 5), seed=3)
    assert low > 1


def test_a_slow_minute_on_both_sides_does_not_widen_the_interval():
    slow = [1.0] * 20 + [30.0] * 20
    pairs = interval([2 * s for s in slow], slow, seed=3)
    apart = interval([2 * s for s in slow], slow[::-1], seed=3)
    assert pairs == (2.0, 2.0)
    assert apart[1] - apart[0] > 1


def test_pairs_have_to_be_pairs():
    with pytest.raises(AssertionError, match="same rounds"):
        interval([1.0, 2.0], [1.0], seed=3)


@pytest.mark.parametrize(
    ("ours", "met", "clear"),
    [([1.2, 1.2, 1.2], True, True), ([1.6, 1.6, 1.6], False, True), ([1.0, 1.4, 2.0], True, False)],
)
def test_a_target_is_met_by_the_value_and_clear_by_the_interval(ours, met, clear):
    figure = quotient(RATIO, ours, [1.0, 1.0, 1.0])
    assert (figure.met, figure.clear) == (met, clear)
    assert figure.value == ratio(ours, [1.0, 1.0, 1.0])


def test_noise_is_the_floor_against_itself():
    figure = quotient(RATIO, [9.0] * 5, [4.0] * 5, [5.0] * 5)
    assert figure.noise == (1.25, 1.25)
    assert quotient(RATIO, [9.0] * 5, [4.0] * 5).noise is None


def test_an_amount_is_a_median_with_its_spread():
    figure = amount(Declared(key="x_ms", unit="ms", says="x"), [1, 2, 3, 4, 100])
    assert figure.value == 3
    assert figure.ours == Spread(median=3, p10=1.4, p90=pytest.approx(61.6), samples=5)
    assert (figure.met, figure.clear, figure.low) == (None, True, None)
