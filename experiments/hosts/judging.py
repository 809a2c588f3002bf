"""What must hold after a case: the invariants of all experiments, and what only several hosts can show.

Effects, receipts, results, checkpoints and epochs are judged by the rules of `experiments.checker`, on what the sink,
the ledger's tables, the objects and LangGraph's own tables say. Added here: the history of a run never goes back to an
older epoch, no live driver lost its run where its life could be known, and the worker that was hit works again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from experiments import checker
from experiments.evidence import Evidence, World
from experiments.hosts.load import Claim
from experiments.plan import Plan

# Those rules that need no story of the processes: here the processes are the product's own.
RULES = {number: checker.ONWARD[number] for number in ("I2", "I3", "I4", "I5", "I6", "I7", "I11")}
ENDED = ("succeeded", "failed", "cancelled")


@dataclass(frozen=True, kw_only=True)
class Seen:
    """One run as it stands in the end. `steps` are attempts at steps, `epochs` those of its history, in its order."""

    run_id: str
    world: World
    steps: int
    epochs: tuple[int, ...]

    @property
    def completed(self) -> bool:
        """Whether it came to its good end."""
        return self.world.status == "succeeded"

    @property
    def stuck(self) -> bool:
        """Whether it has not ended and waits for nobody."""
        return self.world.status not in (*ENDED, "waiting_human")

    def evidence(self, case: str) -> Evidence:
        """What the rules of all experiments take."""
        plan = Plan(group="hosts", name=case)
        return Evidence(system="onward", plan=plan, processes=(), ended=self.world, after=self.world)


def judge(case: str, run: Seen, reference: Seen) -> list[str]:
    """Every contradiction in one run; `reference` is a run without a fault."""
    mine, theirs = run.evidence(case), reference.evidence("no fault")
    found = [str(violation) for violation in checker.check(mine, theirs, RULES)]
    if mine.duplicates or mine.lost:
        found.append(f"I1 one effect per intended action: {mine.duplicates} too many, {mine.lost} missing")
    if any(after < before for before, after in pairwise(run.epochs)):
        found.append(f"I6 epochs rise: the history has {list(run.epochs)}")
    takeovers = len(run.world.claims) - 1
    if run.completed and run.steps - reference.steps > takeovers:
        found.append(f"I8 at most one step repeated per take-over: {run.steps - reference.steps} in {takeovers}")
    return [f"{run.run_id[:8]}: {what}" for what in found]


def thefts(claims: Sequence[Claim]) -> list[Claim]:
    """Claims by which a run was taken from a driver that lived, and had not given it back."""
    return [claim for claim in claims if claim.robbed]


def repeated(before: Mapping[str, World], after: Mapping[str, World]) -> list[str]:
    """I10: what changed when somebody tried to drive finished runs once more."""
    return [
        f"{run_id[:8]}: I10 a finished run executes nothing: it was driven again, and something changed"
        for run_id, world in before.items()
        if after[run_id] != world
    ]
