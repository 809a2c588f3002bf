"""The invariants: what must hold after every case, one function each. A function returns what contradicts it, in words.

None of them asks the ledger whether things went well: what the ledger says is one of the things that are compared.
`reference` is the case without a fault, under the same system and on the same input.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from experiments.boundaries import STEPS, WORDS
from experiments.evidence import KINDS, Evidence

ENDS = {"onward": "succeeded", "plain": "published"}  # of the run's row; of the graph's state, where there is no row

Invariant = Callable[[Evidence, Evidence], list[str]]


@dataclass(frozen=True, kw_only=True)
class Violation:
    """One contradiction: the invariant's number, its name, and what was seen instead."""

    number: str
    invariant: str
    seen: str

    def __str__(self) -> str:
        return f"{self.number} {self.invariant}: {self.seen}"


def one_effect_per_action(case: Evidence, reference: Evidence) -> list[str]:
    """The effect of each step happened once: not twice, and not never."""
    counts = {step: case.after.effects_of(step) for step in STEPS}
    found = [f"the effect of {step} happened {count} times" for step, count in counts.items() if count != 1]
    if case.system == "onward" and len(case.after.published) != 1:
        found.append(f"there are {len(case.after.published)} publications in the database")
    return found


def no_effect_without_record(case: Evidence, reference: Evidence) -> list[str]:
    """Whatever happened in the world stands in the ledger as SUCCEEDED."""
    recorded = {record.kind for record in case.after.records if record.status == "SUCCEEDED"}
    happened = {effect.kind for effect in case.after.effects}
    return [f"{kind} happened, and no record says so" for kind in sorted(happened - recorded)]


def receipts_are_true(case: Evidence, reference: Evidence) -> list[str]:
    """Each receipt names what the oracle saw, and every process that speaks of a receipt speaks of the same one."""
    seen = {effect.kind: effect.digest for effect in case.after.effects}
    found = [
        f"the receipt of {record.step} names {str(record.receipt_digest)[:12]}, the oracle saw {seen.get(record.kind)}"
        for record in case.after.records
        if record.status == "SUCCEEDED" and record.receipt_digest != seen.get(record.kind)
    ]
    recorded = Counter(record.kind for record in case.after.records if record.status == "SUCCEEDED")
    found += [f"{kind} is recorded {count} times" for kind, count in recorded.items() if count > 1]
    named = {receipt for process in case.processes for receipt in (*process.committed, *process.reused)}
    for prefix, kind in {kind.partition(".")[0]: kind for kind in KINDS}.items():
        receipts = sorted(name for name in named if name.startswith(f"{prefix}-"))
        if len(receipts) > 1:
            found.append(f"{kind} has several receipts: {', '.join(receipts)}")
    return found


def same_result(case: Evidence, reference: Evidence) -> list[str]:
    """The report's digest, computed from its bytes, is that of the run without a fault, and this one was published."""
    found: list[str] = []
    if case.after.saved is None or case.after.saved != reference.after.saved:
        found.append(f"the report is {case.after.saved}, without a fault it is {reference.after.saved}")
    others = [digest for digest in case.after.published if digest != case.after.saved]
    return found + [f"another report was published: {digest}" for digest in others]


def linear_checkpoints(case: Evidence, reference: Evidence) -> list[str]:
    """The checkpoints of the thread are one chain in the order of their ids: no fork, no gap, no second root."""
    rows = sorted(case.after.checkpoints, key=lambda row: row.checkpoint_id)
    if not rows:
        return ["there is no checkpoint"]
    found: list[str] = []
    for row, before in zip(rows, [None, *rows], strict=False):
        expected = before.checkpoint_id if before else None
        if row.parent_id != expected:
            found.append(f"checkpoint {row.checkpoint_id} has the parent {row.parent_id}, not {expected}")
    return found


def rising_epochs(case: Evidence, reference: Evidence) -> list[str]:
    """Every driver had a higher epoch than the one before, and there are as many epochs as drivers."""
    epochs = case.after.epochs
    found: list[str] = []
    if any(later <= earlier for earlier, later in pairwise(epochs)):
        found.append(f"the epochs are {list(epochs)}")
    if len(epochs) != len(case.driving):
        found.append(f"{len(case.driving)} processes drove the run under {len(epochs)} epochs")
    return found


def the_run_ends(case: Evidence, reference: Evidence) -> list[str]:
    """The run reaches its good end, which is known before, so that a run without a fault is held to it too."""
    expected = ENDS[case.system]
    if case.ended.status == expected:
        return []
    why = [*case.ended.errors, *(process.last_words for process in case.driving if process.end is None)]
    return [f"the run is {case.ended.status}, not {expected}; {'; '.join(filter(None, why)) or 'nobody says why'}"]


def few_repeats(case: Evidence, reference: Evidence) -> list[str]:
    """At most one node ran again for each kill."""
    repeated = reexecuted(case, reference)
    return [f"{repeated} nodes ran again after {case.kills} kills"] if repeated > case.kills else []


def the_fault_fired(case: Evidence, reference: Evidence) -> list[str]:
    """The first process ended as the fault ends processes, and at its point; every other one ended by itself.

    Where this does not hold the case is no evidence, for or against.
    """
    found = [
        f"process {n} had to be stopped" for n, process in enumerate(case.processes, 1) if process.exit_code is None
    ]
    first = case.processes[0]
    if case.fault is None:
        return found + ([f"there was a crash: {first.crash}"] if case.kills else [])
    if first.crash != WORDS[case.fault.point.when] or first.exit_code != case.fault.exit_code:
        found.append(f"the first process ended with {first.exit_code} and crash {first.crash!r}")
    if case.kills > 1:
        found.append(f"{case.kills} processes crashed")
    return found


def finished_means_finished(case: Evidence, reference: Evidence) -> list[str]:
    """A process that resumes the finished run executes nothing and changes nothing."""
    last = case.resumed_finished
    found = [f"it executed {', '.join(last.executed)}"] if last.executed else []
    if last.committed or last.reused:
        found.append("it asked for effects")
    for part in ("effects", "checkpoints", "published", "records", "epochs", "saved", "status"):
        if getattr(case.ended, part) != getattr(case.after, part):
            found.append(f"it changed the {part}")
    return found


ONWARD: dict[str, tuple[str, Invariant]] = {
    "I1": ("one effect per intended action", one_effect_per_action),
    "I2": ("no effect without a record", no_effect_without_record),
    "I3": ("receipts agree with the oracle", receipts_are_true),
    "I4": ("same result as without a fault", same_result),
    "I5": ("checkpoints are one chain", linear_checkpoints),
    "I6": ("epochs rise", rising_epochs),
    "I7": ("the run ends", the_run_ends),
    "I8": ("at most one node repeated per kill", few_repeats),
    "I10": ("a finished run executes nothing", finished_means_finished),
}

# A case is evidence only where these hold, with Onward and in the control: it must have been hit, and have come to an
# end without losing an effect, or it would be clean for the wrong reason.
VALIDITY: dict[str, tuple[str, Invariant]] = {"I9": ("the fault fired", the_fault_fired)}
CONTROL: dict[str, tuple[str, Invariant]] = {
    "I9": ("the fault fired in the control", the_fault_fired),
    "I7": ("the control ends", the_run_ends),
}


def check(case: Evidence, reference: Evidence, invariants: dict[str, tuple[str, Invariant]]) -> list[Violation]:
    """Every contradiction to the invariants."""
    return [
        Violation(number=number, invariant=name, seen=seen)
        for number, (name, invariant) in invariants.items()
        for seen in invariant(case, reference)
    ]


def reexecuted(case: Evidence, reference: Evidence) -> int:
    """Executions beyond those of the run without a fault."""
    return (case.executed() - reference.executed()).total()


def silent_controls(controls: Sequence[Evidence]) -> list[str]:
    """Cases in which the control must show a duplicate and shows none: then the faults hit nothing that matters."""
    return [
        f"{case.name}: the control shows no duplicate"
        for case in controls
        if case.fault is not None and case.fault.point.when == "after effect" and case.duplicates == 0
    ]


def counts(case: Evidence) -> Counter[str]:
    """Effects by step."""
    return Counter({step: case.after.effects_of(step) for step in STEPS})
