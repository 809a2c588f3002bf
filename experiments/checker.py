"""The invariants: what must hold after every case, one function each. A function returns what contradicts it, in words.

None of them asks the ledger whether things went well: what the ledger says is one of the things that are compared.
`reference` is the case without a fault, under the same system and on the same input.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

from experiments.crash_points import STEPS
from experiments.evidence import KINDS, Evidence
from experiments.story import Process

ENDS = {"onward": "succeeded", "plain": "published"}  # of the run's row; of the graph's state, where there is no row

# Of a random case: its plan came too late. It is no evidence, and no fault of the campaign either.
NOTHING_STRUCK = "the run was over before anything struck"

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
    """The effect of each step happened once: not twice, and not never.

    Never is right only where an UNKNOWN says so, or stands before it: a person has to settle that first. Nothing that
    was answered is sent again: a second sending that changed nothing is wrong too, unless a ledger died.
    """
    found: list[str] = []
    for step in STEPS:
        count, intended = case.after.effects_of(step), case.intended(step)
        if count > intended or (count < intended and not case.after.unknown):
            found.append(f"the effect of {step} happened {count} times")
        if (again := case.after.sent_again(step)) and not case.service_kills:
            times = "once more" if again == 1 else f"{again} more times"
            found.append(f"the effect of {step} was sent {times}, though no ledger had died")
    return found


def no_effect_without_record(case: Evidence, reference: Evidence) -> list[str]:
    """Whatever happened in the world stands in the ledger as SUCCEEDED, or as UNKNOWN until a person settles it."""
    recorded = {record.kind for record in case.after.records if record.status in ("SUCCEEDED", "UNKNOWN")}
    happened = {kind for kind, step in KINDS.items() if case.after.effects_of(step)}
    return [f"{kind} happened, and no record says so" for kind in sorted(happened - recorded)]


def receipts_are_true(case: Evidence, reference: Evidence) -> list[str]:
    """Each receipt names what the oracle saw, and every process that speaks of a receipt speaks of the same one.

    A witness that was killed between the effect and its line has told nothing; then what stands in the world counts.
    """
    seen = {"draft.save": {case.after.saved}, "report.publish": set(case.after.published)}
    for effect in case.after.effects:
        seen.setdefault(effect.kind, set()).add(effect.digest)
    found = [
        f"the receipt of {record.step} names {str(record.receipt_digest)[:12]}, which nobody saw"
        for record in case.after.records
        if record.status == "SUCCEEDED" and record.receipt_digest not in seen.get(record.kind, set())
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
    """The report's digest, computed from its bytes, is that of the run without a fault, and this one was published.

    A model that writes something else each time has no such reference: there, what was published is what was saved.
    """
    if case.after.unknown:
        return []
    found: list[str] = []
    if case.after.saved is None or (not case.plan.restless and case.after.saved != reference.after.saved):
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
    """Every claim had a higher epoch than the one before."""
    epochs = case.after.epochs
    return [f"the epochs are {list(epochs)}"] if any(b <= a for a, b in pairwise(epochs)) else []


def the_run_ends(case: Evidence, reference: Evidence) -> list[str]:
    """The run reaches its good end, which is known before, so that a run without a fault is held to it too.

    Or it waits for a person, openly, because the outcome of an effect is UNKNOWN.
    """
    expected = "failed" if case.plan.rejected else ENDS[case.system]
    if case.ended.status == expected and (not case.plan.rejected or case.ended.reason == "rejected"):
        return []
    if case.ended.status == "waiting_human" and case.ended.reason == "unknown_outcome" and case.ended.unknown:
        return []
    why = [*case.ended.errors, *(process.last_words for process in case.driving if process.end is None)]
    said = "; ".join(filter(None, why)) or "nobody says why"
    status = " ".join(filter(None, (case.ended.status, case.ended.reason and f"({case.ended.reason})")))
    return [f"the run is {status}, not {expected}{' (rejected)' if case.plan.rejected else ''}; {said}"]


def few_repeats(case: Evidence, reference: Evidence) -> list[str]:
    """At most one node ran again for each fault. A node that waits for a person begins again each time it is woken."""
    if case.plan.rejected:
        return []
    silences = sum(strike.what == "silence driver" for strike in case.plan.strikes)
    repeated, faults = reexecuted(case, reference), case.kills + case.service_kills + silences
    return [f"{repeated} nodes ran again after {faults} faults"] if repeated > faults else []


def decided_by_the_ledger(case: Evidence, reference: Evidence) -> list[str]:
    """Nothing is published unless the ledger holds an approval of it."""
    if case.system == "onward" and case.after.published and "approve" not in case.after.decisions:
        return [f"it was published, and the decisions are {list(case.after.decisions)}"]
    return []


def other_parameters_are_refused(case: Evidence, reference: Evidence) -> list[str]:
    """A known id with other parameters is refused; nothing is sent, and nothing is passed off as the answer."""
    taken = [kind for client in case.clients for kind in client.accepted]
    return [f"{kind} was answered under a known id with other parameters" for kind in taken]


def woken_does_nothing(case: Evidence, reference: Evidence) -> list[str]:
    """A driver that was replaced while it was stopped asks for no effect when it is woken.

    The thread beside the stopped one may begin a node before the refusal reaches it; the node then gets nothing done.
    """
    woken = [process for process in case.processes if process.stop is not None]
    return [f"after it was woken it had {', '.join(p.effects_awake)}" for p in woken if p.effects_awake]


def finished_means_finished(case: Evidence, reference: Evidence) -> list[str]:
    """A process that resumes the finished run executes nothing and changes nothing."""
    last = case.resumed_finished
    found = [f"it executed {', '.join(last.executed)}"] if last.executed else []
    if last.committed or last.reused:
        found.append("it asked for effects")
    for part in ("effects", "checkpoints", "published", "records", "claims", "saved", "status"):
        if getattr(case.ended, part) != getattr(case.after, part):
            found.append(f"it changed the {part}")
    return found


def the_faults_fired(case: Evidence, reference: Evidence) -> list[str]:
    """Each process ended (or was stopped) as its fault does that, at its boundary; the others ended by themselves.

    Where this does not hold the case is no evidence, for or against.
    """
    found = [
        f"process {n} had to be stopped" for n, process in enumerate(case.processes, 1) if process.exit_code is None
    ]
    for number, fault in enumerate(case.plan.driver):
        found += _fired(fault.how, str(fault.at), fault.exit_code, case.processes[number], f"process {number + 1}")
    if case.plan.ledger is not None:
        fault, hit = case.plan.ledger, [p for p in case.services if p.crash or p.stop]
        if len(hit) != 1:
            found.append(f"the fault hit {len(hit)} ledger processes at {fault.at}")
    if case.plan.strikes and not (case.kills + case.service_kills + len(case.clients)):
        found.append(NOTHING_STRUCK)
    crashes = sum(process.crash is not None for process in case.processes)
    meant = sum(fault.how != "stop" for fault in case.plan.driver)
    if crashes > meant:
        found.append(f"{crashes} processes crashed, {meant} were to")
    return found


def _fired(how: str, where: str, exit_code: int | None, process: Process, name: str) -> list[str]:
    if how == "stop":
        return [] if process.stop == where else [f"{name} was not stopped: exit {process.exit_code}, {process.end!r}"]
    if process.crash == where and process.exit_code == exit_code:
        return []
    return [f"{name} ended with {process.exit_code} and crash {process.crash!r}"]


ONWARD: dict[str, tuple[str, Invariant]] = {
    "I1": ("one effect per intended action", one_effect_per_action),
    "I2": ("no effect without a record", no_effect_without_record),
    "I3": ("receipts agree with the oracle", receipts_are_true),
    "I4": ("same result as without a fault", same_result),
    "I5": ("checkpoints are one chain", linear_checkpoints),
    "I6": ("epochs rise", rising_epochs),
    "I7": ("the run ends", the_run_ends),
    "I8": ("at most one node repeated per fault", few_repeats),
    "I10": ("a finished run executes nothing", finished_means_finished),
    "I11": ("the ledger decides", decided_by_the_ledger),
    "I13": ("other parameters are refused", other_parameters_are_refused),
    "I12": ("a driver that was replaced does nothing", woken_does_nothing),
}

# A case is evidence only where these hold, with Onward and in the control: it must have been hit, and have come to an
# end without losing an effect, or it would be clean for the wrong reason.
VALIDITY: dict[str, tuple[str, Invariant]] = {"I9": ("the fault fired", the_faults_fired)}
CONTROL: dict[str, tuple[str, Invariant]] = {
    "I9": ("the fault fired in the control", the_faults_fired),
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


def counts(case: Evidence) -> Counter[str]:
    """Effects by step."""
    return Counter({step: case.after.effects_of(step) for step in STEPS})
