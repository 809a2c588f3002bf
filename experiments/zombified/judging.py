"""What must hold of every zombie, and what must have happened, or the case is evidence of nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from experiments import checker
from experiments.checker import Violation
from experiments.evidence import Evidence
from experiments.zombified.case import END_SECONDS, TAKE_OVER_SECONDS, Zombie
from runs.errors import Exit

# Of the invariants of killed drivers those that speak of the run and of the world.
SHARED = ("I1", "I2", "I3", "I4", "I5", "I6", "I7", "I8", "I11", "I12")


def nothing_changes_at_the_end(zombie: Zombie) -> list[str]:
    """When it wakes after the run has ended no row changes, of the runs, their checkpoints or the ledger."""
    return [str(change) for change in zombie.changed]


def nothing_is_written_late(zombie: Zombie) -> list[str]:
    """No session of it commits anything after it was woken, whoever is at work meanwhile."""
    return [f"{count} row changes in {table}" for table, count in zombie.late]


def it_ends(zombie: Zombie) -> list[str]:
    """It notices and leaves with the exit code of a conflict; or it was ended by whoever took over."""
    if zombie.killed:
        return []
    if zombie.exit_code is None:
        return [f"it had not ended {END_SECONDS:.0f} s after it was woken"]
    return [] if zombie.exit_code in _fair(zombie) else [f"it ended with {zombie.exit_code}, not {int(Exit.CONFLICT)}"]


def _fair(zombie: Zombie) -> tuple[Exit, ...]:
    """One that had ended the run says so; one that had not begun may find that its connection took too long."""
    if zombie.nothing_left:
        return (Exit.OK, Exit.CONFLICT)
    return (Exit.CONFLICT,) if zombie.lease else (Exit.CONFLICT, Exit.UNREACHABLE)


def somebody_takes_over(zombie: Zombie) -> list[str]:
    """The run does not stay with it."""
    if zombie.nothing_left or zombie.taken:
        return []
    return [f"nobody had taken the run {TAKE_OVER_SECONDS:.0f} s after its lease"]


def nobody_is_kept_waiting(zombie: Zombie) -> list[str]:
    """What it holds does not keep the run from its end."""
    return ["whoever took the run over could not go on until it was woken"] if zombie.stuck else []


OWN: dict[str, tuple[str, Callable[[Zombie], list[str]]]] = {
    "Z1": ("nothing changes when it wakes", nothing_changes_at_the_end),
    "Z2": ("no late write", nothing_is_written_late),
    "Z3": ("it ends by itself", it_ends),
    "Z4": ("somebody takes over", somebody_takes_over),
    "Z5": ("nobody is kept waiting", nobody_is_kept_waiting),
}


def violations(zombie: Zombie, reference: Evidence) -> tuple[Violation, ...]:
    """Every contradiction; none for a case that is no evidence."""
    if invalid(zombie):
        return ()
    own = [
        Violation(number=number, invariant=name, seen=seen)
        for number, (name, holds) in OWN.items()
        for seen in holds(zombie)
    ]
    # Another driver that lost its lease was a fault too, and repeats its step.
    numbers = [number for number in SHARED if number != "I8" or not zombie.further]
    shared = {number: checker.ONWARD[number] for number in numbers}
    return (*own, *checker.check(zombie.evidence, reference, shared))


def invalid(zombie: Zombie) -> str | None:
    """Why the case says nothing."""
    return None if zombie.stopped else "it was never stopped at its place"


def not_seen(zombies: Sequence[Zombie]) -> list[str]:
    """What a whole campaign must have come to: without it, it has tested nothing there."""
    missing: list[str] = []
    if not any(zombie.held for zombie in zombies):
        missing.append("no silent driver held anything open in the database")
    if not any(zombie.taken for zombie in zombies):
        missing.append("nobody took over")
    return missing
