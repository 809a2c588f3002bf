"""What must hold of the world in the end: the invariants of all experiments, for many runs at once."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import Any

import psycopg
from langgraph.checkpoint.postgres import PostgresSaver
from psycopg.rows import dict_row

from experiments import checker
from experiments.evidence import Evidence, World
from experiments.plan import Plan
from experiments.soaking.place import Place
from experiments.soaking.steps import EFFECTS, STEPS
from experiments.soaking.world import RunSeen, Standing
from runs.checkpoints import serializer
from runs.errors import RunFinished

# Those rules of all experiments that look at checkpoints and epochs alone.
RULES = {number: checker.ONWARD[number] for number in ("I5", "I6")}
# Finished runs that somebody tries to drive once more.
DRIVEN_AGAIN = 50


def judge(place: Place, standing: Standing, settled: set[str]) -> list[str]:
    """Every contradiction. `settled`: actions of which a person has said what happened."""
    found = [f"I2 no effect without a record: {effect.marker} is in the API's log" for effect in standing.strangers]
    for run in standing.runs:
        found += [f"{run.run_id[:8]}: {what}" for what in _judge_run(run, settled)]
    return found + _results(place, standing) + _driven_again(place, standing)


def duplicates(run: RunSeen) -> int:
    """Effects beyond the one that each action intends."""
    return sum(max(0, len(effects) - 1) for effects in run.effects.values())


def lost(run: RunSeen) -> int:
    """Effects that did not happen although the run says that it has succeeded."""
    happened = sum(1 for effects in run.effects.values() if effects)
    return max(0, len(EFFECTS) - happened) if run.status == "succeeded" else 0


def _judge_run(run: RunSeen, settled: set[str]) -> list[str]:
    found: list[str] = []
    if run.finished_at is None:
        found.append(f"I7 the run ends: it is {run.status} ({run.reason}: {run.message})")
    elif run.status != "succeeded" and not _failed_by_word(run, settled):
        found.append(f"I7 the run ends well: it is {run.status} ({run.reason}: {run.message})")
    if duplicates(run) or lost(run):
        found.append(f"I1 one effect per intended action: {duplicates(run)} too many, {lost(run)} missing")
    for action in run.actions:
        effects = run.effects[action.action_id]
        if action.status == "SUCCEEDED" and [effect.id for effect in effects] != [action.provider_id]:
            found.append(f"I3 receipts are true: {action.step} has {action.provider_id}, the API {effects}")
        if action.status == "FAILED" and effects and action.action_id not in settled:
            found.append(f"I3 a refusal is true: {action.step} failed and happened")
        if action.alarm is not None:
            found.append(f"an alarm at {action.step}: {action.alarm}")
    if run.went_back:
        found.append("I6 epochs rise: the run's history goes back to an older epoch")
    repeated = run.steps - len(STEPS)
    if run.status == "succeeded" and repeated > len(run.claims) - 1:
        found.append(f"I8 at most one step repeated per claim: {repeated} in {len(run.claims) - 1}")
    if run.checkpoints:
        evidence = _evidence(run)
        found += [str(violation) for violation in checker.check(evidence, evidence, RULES)]
    return found


def _failed_by_word(run: RunSeen, settled: set[str]) -> bool:
    """A person said that its effect did not happen: then it cannot end well, and says so."""
    return any(action.action_id in settled and action.status == "FAILED" for action in run.actions)


def _evidence(run: RunSeen) -> Evidence:
    world = World(
        status=run.status, effects=(), checkpoints=tuple(run.checkpoints), claims=tuple((e, at) for e, at in run.claims)
    )
    return Evidence(system="onward", plan=Plan(group="random", name="soak"), processes=(), ended=world, after=world)


def _results(place: Place, standing: Standing) -> list[str]:
    """I4: every run that succeeded did every step once, in order, by its last checkpoint."""
    found: list[str] = []
    with psycopg.Connection[dict[str, Any]].connect(
        place.dsn, autocommit=True, row_factory=dict_row, options="-c search_path=onward"
    ) as connection:
        saver = PostgresSaver(connection, serde=serializer())
        for run in standing.runs:
            if run.status == "succeeded":
                saved = saver.get_tuple({"configurable": {"thread_id": run.run_id}})
                done = saved.checkpoint["channel_values"].get("done") if saved is not None else None
                if done != list(STEPS):
                    found.append(f"{run.run_id[:8]}: I4 the same result: its steps are {done}")
    return found


def _driven_again(place: Place, standing: Standing) -> list[str]:
    """I10: somebody drives finished runs once more; nothing is executed."""
    from experiments.soaking.registered import VERSION
    from graph.versions import SERVED
    from runs.assembly import parts_for
    from runs.drain import Drain
    from runs.drive import drive

    assert VERSION in SERVED, "the runs' workflow is served in this process too"

    finished = [run.run_id for run in standing.runs if run.finished_at is not None][-DRIVEN_AGAIN:]
    before, found = _lines(place), list[str]()
    with parts_for(place.settings, Drain()) as shared:
        parts = replace(shared, open_database=place.store.database)
        found += [
            f"{run_id[:8]}: I10 a finished run executes nothing: it could be driven again"
            for run_id in finished
            if not _refused(partial(drive, run_id, parts))
        ]
    if _lines(place) != before:
        found.append("I10 a finished run executes nothing: something was written when finished runs were driven")
    return found


def _refused(again: Callable[[], object]) -> bool:
    try:
        again()
    except RunFinished:
        return True
    return False


def _lines(place: Place) -> tuple[int, int]:
    with closing(psycopg.connect(place.dsn)) as connection:
        row = connection.execute("select count(*) from onward.events").fetchone()
    assert row is not None
    return len(place.sink.effects()), row[0]
