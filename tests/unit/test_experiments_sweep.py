"""From a recording to its cases: every moment once, stops where stopping is worth it, and the mutants that exist."""

from __future__ import annotations

import pytest

from experiments import mutants, sweep
from experiments.boundaries import Boundary
from experiments.crash_points import NAMES
from experiments.mutants import MUTANTS
from experiments.recordings import Recording


def done(role: str, *labels: str) -> list[Boundary]:
    """Operations one after the other; the same label again is the next occurrence."""
    found: list[Boundary] = []
    for label in labels:
        occurrence = sum(boundary.label == label for boundary in found) // 2 + 1
        found += [Boundary(role=role, label=label, occurrence=occurrence, side=side) for side in ("before", "after")]
    return found


PUT = "send PUT /v1/actions/*"
STORED = ("insert into checkpoint_blobs", "insert into checkpoints", "exit pipeline", "insert into checkpoint_writes")
DRIVER = Recording.of(
    [
        *done("main", "connect to Postgres", "update runs", PUT, "answer to PUT /v1/actions/*", "commit"),
        *done("background", *STORED, "exit pipeline"),
        *done("heartbeat", "update leases", "update leases"),
    ]
)
LEDGER = Recording.of(
    [*done("main", "connect to Postgres"), *done("send", "put an object"), *done("request", "commit")]
)


def places(plans) -> list[str]:
    return [str(fault.at) for plan in plans for fault in plan.driver or (plan.ledger,)]


def test_the_driver_is_killed_at_every_moment_once_each() -> None:
    plans = sweep.driver_plans(DRIVER)
    assert [fault.at for plan in plans for fault in plan.driver] == [moment.boundary for moment in DRIVER.moments]
    assert len(plans) == (5 + 1) + (5 + 1) + 2  # one more than operations; of the heartbeat only the first counts
    assert len({plan.name for plan in plans}) == len(plans)
    assert {(plan.group, plan.order, plan.faults) for plan in plans} == {("driver", "natural", 1)}
    assert {fault.how for plan in plans for fault in plan.driver} == {"exit"}


def test_the_forced_order_is_tried_where_checkpoints_are_stored() -> None:
    plans = sweep.order_plans(DRIVER)
    assert {(plan.group, plan.order) for plan in plans} == {("order", "checkpoint first")}
    around = [str(moment.boundary) for moment in DRIVER.role("background") if "exit pipeline" in str(moment)]
    assert places(plans) == around
    assert "before exit pipeline (background)" in around
    assert 1 < len(around) < len(DRIVER.role("background"))


def test_the_ledger_is_killed_at_every_moment_and_the_provider_where_it_sends() -> None:
    plans = sweep.ledger_plans(LEDGER)
    assert places(plans) == [str(moment.boundary) for moment in LEDGER.moments]
    assert {plan.driver for plan in plans} == {()}
    assert places(sweep.plain_provider_plans(LEDGER)) == ["before put an object (send)", "after put an object (send)"]


def test_the_control_is_killed_at_every_moment_of_its_own() -> None:
    assert places(sweep.control_plans(DRIVER)) == [str(moment.boundary) for moment in DRIVER.moments]
    assert {plan.group for plan in sweep.control_plans(DRIVER)} == {"control"}


def test_a_driver_is_stopped_at_super_steps_in_open_pipelines_and_before_it_asks_for_an_effect() -> None:
    plans = sweep.stopped_driver_plans(DRIVER)
    assert sorted(places(plans)) == sorted(
        [
            f"before {PUT} (main)",
            "before insert into checkpoint_blobs (background)",
            "before insert into checkpoints (background)",
            "before exit pipeline (background)",
            "before exit pipeline #2 (background)",
        ]
    )
    assert {fault.how for plan in plans for fault in plan.driver} == {"stop"}


def test_the_ledger_is_stopped_between_its_gate_and_the_send() -> None:
    (ordinary,), (told_once,) = sweep.stopped_ledger_plans(), sweep.stopped_plain_provider_plans()
    assert (str(ordinary.ledger.at), ordinary.ledger.how) == ("before put an object (send)", "stop")
    assert (str(told_once.ledger.at), told_once.ledger.how) == ("before the effect (send)", "stop")


def test_the_named_points_are_all_killed_and_the_hardest_with_a_model_that_changes_its_mind() -> None:
    plans = sweep.point_plans()
    assert places(plans) == [*NAMES, "write_draft: after effect"]
    assert [plan.restless for plan in plans] == [False] * len(NAMES) + [True]
    assert len({plan.name for plan in plans}) == len(plans)


def test_a_second_kill_follows_the_first_one() -> None:
    first = sweep.driver_plans(DRIVER)[0]
    pairs = sweep.pair_plans(first, LEDGER)
    assert {plan.driver[0] for plan in pairs} == set(first.driver)
    assert [plan.driver[1].at for plan in pairs] == [moment.boundary for moment in LEDGER.moments]
    assert {(plan.group, plan.faults) for plan in pairs} == {("pairs", 2)}


# --- mutants ----------------------------------------------------------------------------------------------------------

RULES = {
    "fresh-action-id": ("driver",),
    "no-replay": ("ledger",),
    "silent-resend": ("ledger",),
    "early-success": ("ledger",),
    "blind-replay": ("ledger",),
    "no-fence": ("database", "driver"),
    "arguments-in-id": ("driver",),
    "resume-value": ("driver", "ledger"),
    "next-is-empty": ("driver",),
}


def test_each_rule_of_the_protocol_has_its_mutant() -> None:
    assert {name: mutant.where for name, mutant in MUTANTS.items()} == RULES
    assert len({mutant.what for mutant in MUTANTS.values()}) == len(RULES)


@pytest.mark.parametrize("name", RULES)
def test_each_mutant_has_cases_that_must_catch_it(name: str) -> None:
    mutant = MUTANTS[name]
    plans = sweep.hunt_plans(mutant.hunt, DRIVER, restless=mutant.restless)
    assert plans
    assert {plan.restless for plan in plans} == {mutant.restless}


@pytest.mark.parametrize("name", [None, *RULES])
def test_a_defect_is_planted_where_it_belongs_and_nowhere_else(name: str | None, monkeypatch) -> None:
    planted: list[str] = []
    for known in RULES:
        changed = vars(MUTANTS[known]) | {"plant": lambda known=known: planted.append(known)}
        monkeypatch.setitem(mutants.MUTANTS, known, type(MUTANTS[known])(**changed))
    monkeypatch.setattr(mutants, "_approve_everything", lambda: planted.append("resume-value"))
    where = RULES.get(name or "", ())
    mutants.plant_in_driver(name, "sqlite")
    assert planted == [name] * ("driver" in where)
    planted.clear()
    mutants.plant_in_driver(name, "postgres")
    assert planted == [name] * ("driver" in where and "database" not in where)  # there it is in the database
    planted.clear()
    mutants.plant_in_ledger(name)
    assert planted == [name] * ("ledger" in where)
    mutants.plant_in_database(name if name != "no-fence" else None, "postgresql://nowhere")  # connects to nothing
    mutants.plant_in_database(name, None)
