"""A clean case of an experiment, to be bent by tests: killed behind an effect, resumed, resumed when finished."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from experiments.boundaries import Boundary
from experiments.crash_points import crash_point
from experiments.evidence import Checkpoint, Evidence, Record, World
from experiments.nemesis import EXIT_CODE, Fault
from experiments.oracle import Effect
from experiments.plan import NO_FAULT, Plan
from experiments.results import Outcome
from experiments.story import Process

DIGEST, OTHER = "d" * 64, "e" * 64
BEGAN = datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC)
PLAN = ("EXECUTE plan", "EXECUTE analyze", "EXECUTE write_draft")
REST = ("EXECUTE test", "EXECUTE deliver", "TOOL committed receipt report-2", "END exit 0")

AFTER_EFFECT = crash_point("write_draft: after effect")
POINTS = Plan(group="points", name=str(AFTER_EFFECT), driver=(Fault(at=AFTER_EFFECT),))
SENT = Boundary(role="send", label="put an object", side="after")


def effect(kind: str, digest: str = DIGEST, entry: int = 1, *, again: bool = False) -> Effect:
    return Effect(entry=entry, run_id="r", kind=kind, resource="x", digest=digest, again=again)


def checkpoint(number: int, parent: int | None) -> Checkpoint:
    return Checkpoint(checkpoint_id=f"c{number}", parent_id=None if parent is None else f"c{parent}")


def claims(*epochs: int) -> tuple[tuple[int, datetime | None], ...]:
    """One claim a second."""
    return tuple((epoch, BEGAN + timedelta(seconds=n)) for n, epoch in enumerate(epochs))


DRAFT_SAVED = Record(step="write_draft", kind="draft.save", status="SUCCEEDED", receipt_digest=DIGEST)
PUBLISHED = Record(step="deliver", kind="report.publish", status="SUCCEEDED", receipt_digest=DIGEST)
DRAFT_UNKNOWN = replace(DRAFT_SAVED, status="UNKNOWN", receipt_digest=None, was_unknown=True)
WORLD = World(
    status="succeeded",
    effects=(effect("draft.save"), effect("report.publish", entry=2)),
    checkpoints=(checkpoint(1, None), checkpoint(2, 1), checkpoint(3, 2)),
    published=(DIGEST,),
    saved=DIGEST,
    records=(DRAFT_SAVED, PUBLISHED),
    decisions=("approve",),
    claims=claims(1, 2),
)
FIRST = Process(exit_code=EXIT_CODE, lines=(*PLAN, "TOOL committed receipt draft-1", "CRASH write_draft: after effect"))
SECOND = Process(exit_code=0, lines=("EXECUTE write_draft", "TOOL reuse receipt draft-1", *REST))
THIRD = Process(exit_code=0, lines=("END RunFinished",))
CASE = Evidence(
    system="onward",
    plan=POINTS,
    processes=(FIRST, SECOND, THIRD),
    ended=WORLD,
    after=WORLD,
    died_at=BEGAN + timedelta(milliseconds=750),
    seconds=1.5,
)
REFERENCE = replace(
    CASE,
    plan=NO_FAULT,
    processes=(Process(exit_code=0, lines=(*PLAN, "TOOL committed receipt draft-1", *REST)), THIRD),
    ended=replace(WORLD, claims=claims(1)),
    after=replace(WORLD, claims=claims(1)),
    died_at=None,
)
# The service died behind a send; the driver waited that out.
LEDGER_CASE = replace(
    REFERENCE,
    plan=Plan(group="ledger", name=str(SENT), ledger=Fault(at=SENT)),
    services=(
        Process(exit_code=EXIT_CODE, lines=(f"CRASH {SENT}",)),
        Process(exit_code=0, lines=("END stopped",)),
    ),
)


def changed(case: Evidence = CASE, **changes: Any) -> Evidence:
    """A case with another world, before and after the last process alike."""
    world = replace(case.after, **changes)
    return replace(case, ended=world, after=world)


# The control keeps no rows of its own: an effect of it is a line at the oracle, and nothing else.
_PLAIN = replace(WORLD, status="published", published=(), records=(), decisions=(), claims=(), oracle_alone=True)


def plain(**changes: Any) -> Evidence:
    """A case of the control with two drafts, as it should be."""
    shown = replace(_PLAIN, effects=(*WORLD.effects, effect("draft.save", entry=3)))
    case = replace(CASE, system="plain", plan=replace(POINTS, group="control"), ended=shown, after=shown, died_at=None)
    return changed(case, **changes)


PLAIN_REFERENCE = replace(
    plain(effects=WORLD.effects), plan=NO_FAULT, processes=(Process(exit_code=0, lines=(*PLAN, *REST)), THIRD)
)


def an_outcome(case: Evidence = CASE, **changes: Any) -> Outcome:
    """A case that was judged to be as it should be."""
    return Outcome(case=case, reference=PLAIN_REFERENCE if case.system == "plain" else REFERENCE, **changes)
