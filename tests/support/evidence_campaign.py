"""A small campaign that passed, to be bent by tests: one case, one of the control, one mutant that was caught."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from experiments.checker import Violation
from experiments.mutants import MUTANTS
from experiments.results import Hunted, Outcome, Results
from tests.support.evidence import REFERENCE, an_outcome, plain

WRONG = Violation(
    number="I1", invariant="one effect per intended action", seen="the effect of write_draft happened 2 times"
)
CAUGHT = replace(an_outcome(), violations=(WRONG,))


def results(outcomes: tuple[Outcome, ...] = (an_outcome(),), **changes: Any) -> Results:
    """A campaign with these cases of Onward."""
    values: dict[str, Any] = {
        "store": "sqlite",
        "verdict": "pass",
        "reasons": (),
        "reference": REFERENCE,
        "outcomes": outcomes,
        "control": (an_outcome(plain()),),
        "hunted": (Hunted(mutant=MUTANTS["no-replay"], caught=CAUGHT, tried=1),),
        "boundaries": {"driver": 10, "ledger": 2},
        "seconds": 1.25,
        "versions": {"python": "3.11.7"},
    }
    return Results(**values | changes)
