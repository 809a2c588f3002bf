"""A clean case of an experiment, to be bent by tests: killed behind an effect, resumed, resumed when finished."""

from __future__ import annotations

from dataclasses import replace

from experiments.boundaries import Point
from experiments.evidence import Checkpoint, Evidence, Record, World
from experiments.nemesis import EXIT_CODE, Fault
from experiments.oracle import Effect
from experiments.story import Process

DIGEST = "d" * 64
PLAN = ("EXECUTE plan", "EXECUTE analyze", "EXECUTE write_draft")
REST = ("EXECUTE test", "EXECUTE deliver", "TOOL committed receipt report-2", "END succeeded")


def effect(kind: str, digest: str = DIGEST, entry: int = 1) -> Effect:
    return Effect(entry=entry, run_id="r", kind=kind, resource="x", digest=digest, witness="ledger")


def checkpoint(number: int, parent: int | None) -> Checkpoint:
    return Checkpoint(checkpoint_id=f"c{number}", parent_id=None if parent is None else f"c{parent}")


WORLD = World(
    status="succeeded",
    effects=(effect("draft.save"), effect("report.publish", entry=2)),
    checkpoints=(checkpoint(1, None), checkpoint(2, 1), checkpoint(3, 2)),
    published=(DIGEST,),
    saved=DIGEST,
    records=(
        Record(step="write_draft", kind="draft.save", status="SUCCEEDED", receipt_digest=DIGEST),
        Record(step="deliver", kind="report.publish", status="SUCCEEDED", receipt_digest=DIGEST),
    ),
    epochs=(1, 2),
)
FAULT = Fault(point=Point(step="write_draft", when="after effect"))
FIRST = Process(
    exit_code=EXIT_CODE,
    lines=(*PLAN, "TOOL committed receipt draft-1", "CRASH after effect commit, before graph checkpoint"),
)
SECOND = Process(exit_code=0, lines=("EXECUTE write_draft", "TOOL reuse receipt draft-1", *REST))
THIRD = Process(exit_code=0, lines=("END RunFinished",))
CASE = Evidence(system="onward", fault=FAULT, processes=(FIRST, SECOND, THIRD), ended=WORLD, after=WORLD)
REFERENCE = replace(
    CASE,
    fault=None,
    processes=(Process(exit_code=0, lines=(*PLAN, "TOOL committed receipt draft-1", *REST)), THIRD),
    ended=replace(WORLD, epochs=(1,)),
    after=replace(WORLD, epochs=(1,)),
)


def plain(**changes: object) -> Evidence:
    """A case of the control with two drafts, as it should be."""
    shown = replace(WORLD, status="published", effects=(*WORLD.effects, effect("draft.save", entry=3)), records=())
    shown = replace(shown, **changes)
    return replace(CASE, system="plain", ended=shown, after=shown)
