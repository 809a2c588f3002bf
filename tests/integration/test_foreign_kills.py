"""A run of examples/graphs is killed at every boundary, and ends as it would have: the campaign, and a few of them."""

from __future__ import annotations

import pytest

from runs.registry import Status
from tests.support.foreign_kills import Kills, boundaries

pytest_plugins = ("tests.support.runs_fixtures",)

SHARES_A_DATABASE = True
SOME = 4


@pytest.fixture
def store(request):
    return request.getfixturevalue("postgres_store")


@pytest.fixture
def kills(store, database, objects, tmp_path):
    return Kills(store, database, objects, tmp_path)


def check(kills, chosen):
    reference, second = kills.run(), kills.run()
    assert (reference.status, reference.forks, reference.fired) == (Status.SUCCEEDED, 0, False)
    assert reference.result["approved"] is True
    assert (reference.result, reference.effects) == (second.result, second.effects)
    found = boundaries(reference, second)
    assert len(found) > 50
    missed = []
    for number, boundary in chosen(found):
        case = kills.run(boundary, in_process=number)
        where = f"process {number}, {boundary}"
        assert (case.status, case.result, case.effects, case.forks) == (
            Status.SUCCEEDED,
            reference.result,
            reference.effects,
            0,
        ), where
        assert case.epochs == sorted(set(case.epochs)), where
        assert sum(case.executed.values()) - sum(reference.executed.values()) <= 1, where
        if not case.fired:
            missed.append(where)
    return found, missed


@pytest.mark.campaign
def test_a_few_boundaries(kills):
    _, missed = check(kills, lambda found: found[:: len(found) // SOME])
    assert len(missed) <= 1


@pytest.mark.exhaustive
@pytest.mark.timeout(1800)
def test_every_boundary(kills):
    found, missed = check(kills, lambda found: found)
    assert len(missed) <= len(found) // 20, f"faults that did not fire prove nothing: {missed} of {len(found)}"
