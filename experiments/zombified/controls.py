"""The same zombies without the fence. They must do damage, or the cases of the product have shown nothing.

plain LangGraph    the same graph, the stock checkpointer, resumed by its thread id: nothing fences anything
no fence           the product, with the trigger on the checkpoint tables taken out
no epoch           the product, without the fence, and without the comparison of epochs in its rows
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from experiments.lane import Lane
from experiments.look import look_at_plain
from experiments.nemesis import Fault
from experiments.processes import Running
from experiments.workload import Plain, Role
from experiments.zombified.case import END_SECONDS, Zombie, forks_of
from experiments.zombified.places import Place
from experiments.zombified.rows import Rows, changes, read_postgres, read_sqlite

CONTROLS = ("plain LangGraph", "no fence", "no epoch")


@dataclass(frozen=True, kw_only=True)
class Damage:
    """What one zombie of a control has done. `stuck`: who took over could not go on until it was woken."""

    control: str
    place: str
    stopped: bool
    forks: int = 0
    late: tuple[str, ...] = ()
    duplicates: int = 0
    stuck: bool = False

    @property
    def harm(self) -> bool:
        """Whether it forked the chain or wrote late."""
        return self.stopped and bool(self.forks or self.late)


def damage_of(control: str, zombie: Zombie) -> Damage:
    """What a zombie of the product without a rule has done."""
    late = [str(change) for change in zombie.changed] or [f"{count} in {table}" for table, count in zombie.late]
    return Damage(
        control=control,
        place=zombie.place,
        stopped=zombie.stopped,
        forks=zombie.forks,
        late=tuple(late),
        duplicates=zombie.evidence.duplicates,
        stuck=zombie.stuck,
    )


# --- plain LangGraph --------------------------------------------------------------------------------------------------


def plain_places(places: Sequence[Place]) -> tuple[Place, ...]:
    """At each super-step, while nothing is open: what every framework would have to survive first."""
    return tuple(place for place in places if "super-step" in place.kinds and "open" not in place.kinds)


def run_plain(lane: Lane, place: Place) -> Damage:
    """A process of the control stops, another one resumes the thread to its end, and the first one wakes."""
    workload = Plain()
    thread_id = workload.begin(lane)
    told = lane.stories / f"plain {thread_id}"

    def start(number: int, role: Role) -> Running:
        file = told.with_name(f"{told.name} {number}.txt")
        return lane.forks.start(workload.work, file, *workload.arguments(lane, thread_id, role))

    silent = start(1, Role(fault=Fault(at=place.at, how="stop")))
    if not silent.wait_until_stopped():
        silent.wait()
        return Damage(control="plain LangGraph", place=str(place), stopped=False)
    other = start(2, Role())
    stuck = not other.ends_within(END_SECONDS)
    rows = _plain_rows(lane)
    silent.wake()
    silent.wait(END_SECONDS)
    end = other.wait().end
    world = look_at_plain(lane, thread_id, str(end))
    return Damage(
        control="plain LangGraph",
        place=str(place),
        stopped=True,
        forks=forks_of(world),
        late=() if stuck else tuple(str(change) for change in changes(rows, _plain_rows(lane))),
        duplicates=sum(max(world.effects_of(step) - 1, 0) for step in ("write_draft", "deliver")),
        stuck=stuck,
    )


def _plain_rows(lane: Lane) -> Rows:
    if lane.settings.store == "postgres":
        return read_postgres(lane.plain_dsn, ("plain",))
    return read_sqlite(Path(lane.plain_dsn))
