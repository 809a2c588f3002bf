"""The drill, in order.

1  the old release serves "1"; its workers bring the runs to the question; they are asked to stop (SIGTERM)
2  the new release serves "1" and "2"; each run is decided twice at once, some differently; all end. Beside them
   new runs are made under "2"
3  other runs of "1" come to the question; the release behind it serves "2" only. They are shown as unserved and
   stay, also the one that is approved; then each is migrated, dry run first, and ends
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

from experiments.cluster import cluster
from experiments.errors import NotRun
from experiments.upgrading import releases
from experiments.upgrading.control import Control, resumed_plainly
from experiments.upgrading.installation import Installation
from experiments.upgrading.releases import Release
from experiments.upgrading.results import Check, Results, Seen
from experiments.upgrading.workers import command, start_workers
from runs import events
from runs.registry import Run, Status

WORKERS = 2
MIGRATED = 3  # runs of the third act; the first of them is approved before its migration
BESIDE = 2  # new runs under "2", beside the old ones
DIFFERENT_EVERY = 5  # of so many runs one is decided differently by the second person
SECONDS_PER_RUN, SECONDS_AT_LEAST = 30.0, 180.0
LEFT_ALONE_SECONDS = 4.0  # many looks of a sweeper, and every hint there is
PACKAGES = ("langgraph", "langgraph-checkpoint-postgres", "procrastinate", "psycopg")


def run_drill(runs: int, tell: Callable[[str], None]) -> Results:
    """The whole drill with so many waiting runs."""
    with (
        tempfile.TemporaryDirectory(prefix="onward-releases-") as folder,
        cluster("postgres") as place,
        place.lane() as lane,
    ):
        return _Drill(Installation(lane), Path(folder), tell).go(runs)


class _Drill:
    def __init__(self, place: Installation, folder: Path, tell: Callable[[str], None]) -> None:
        self._place = place
        self._folder = folder
        self._tell = tell
        self._checks: list[Check] = []
        self._said: dict[str, list[str]] = {}
        self._seconds: dict[str, float] = {}

    def go(self, count: int) -> Results:
        """All three acts."""
        place = self._place
        with self._act("old release"), self._served_by(releases.old(self._folder)):
            waiting = self._at_the_question(count, "1")
        control = resumed_plainly(place.lane.database, waiting[0])
        self._tell(f"the control: plain LangGraph with the new graph {_told(control)}")
        new = releases.new(self._folder)
        with self._act("new release"), self._served_by(new):
            beside = place.queued(BESIDE, "2")
            self._decide_twice(waiting)
            self._end(waiting)
            self._wait_for_questions(beside)
            self._decide(beside)
            self._end(beside)
            moved = self._at_the_question(MIGRATED, "1")
        with self._act("release without the old version"):
            self._without_the_old(moved)
        groups = {"waited through the upgrade": waiting, "made under the new version": beside, "migrated": moved}
        seen = [self._seen(run_id, group) for group, run_ids in groups.items() for run_id in run_ids]
        packages = {name: version(name) for name in PACKAGES}
        return Results(runs=seen, checks=self._checks, control=control, seconds=self._seconds, packages=packages)

    # --- Acts ---------------------------------------------------------------------------------------------------------

    def _without_the_old(self, moved: Sequence[str]) -> None:
        later = releases.later(self._folder)
        with self._served_by(later):
            self._decide(moved[:1])
            before = {run_id: self._place.run(run_id) for run_id in moved}
            self._shown_as_unserved(later, moved)
            self._left_alone(before)
            for run_id in moved:
                self._migrate(later, run_id)
            self._decide(moved[1:])
            self._end(moved)

    def _at_the_question(self, count: int, name: str) -> list[str]:
        run_ids = self._place.queued(count, name)
        self._wait_for_questions(run_ids)
        return run_ids

    def _wait_for_questions(self, run_ids: Sequence[str]) -> None:
        left = self._place.until(run_ids, lambda run: run.status is Status.WAITING_HUMAN, _patience(run_ids))
        if left:
            raise NotRun(f"{len(left)} runs did not come to the question; one is {left[0].status}: {left[0].message}")
        self._tell(f"{len(run_ids)} runs wait for a person")

    def _decide_twice(self, run_ids: Sequence[str]) -> None:
        """Two people at once. Of some runs the second one says something else; the first one counts."""
        with ThreadPoolExecutor(2) as people:
            for number, run_id in enumerate(run_ids):
                second = "reject" if number % DIFFERENT_EVERY == 0 else "approve"
                said = [people.submit(self._place.decide, run_id, word) for word in ("approve", second)]
                self._said[run_id] = [each.result() for each in said]

    def _decide(self, run_ids: Sequence[str]) -> None:
        for run_id in run_ids:
            self._said[run_id] = [self._place.decide(run_id, "approve")]

    def _end(self, run_ids: Sequence[str]) -> None:
        left = self._place.until(run_ids, lambda run: run.finished, _patience(run_ids))
        self._check("all end", not left, f"{len(run_ids) - len(left)} of {len(run_ids)} ended")
        self._tell(f"{len(run_ids) - len(left)} of {len(run_ids)} runs have ended")

    # --- What the last release says and does --------------------------------------------------------------------------

    def _shown_as_unserved(self, release: Release, run_ids: Sequence[str]) -> None:
        said = [self._onward(release, "show", run_id)[1]["next_action"]["text"] for run_id in run_ids]
        unserved = [text.startswith("No living worker serves workflow version 1") for text in said]
        self._check("`show` says that nobody serves them", all(unserved), f"{sum(unserved)} of {len(said)}")
        lines = {line["run_id"]: line for line in self._onward(release, "list")[1]["runs"]}
        served = [lines[run_id]["served"] for run_id in run_ids]
        self._check("`list` says so", not any(served), f"served: {served}")
        checks = {check["name"]: check for check in self._onward(release, "doctor")[1]["checks"]}
        found = checks["workflow versions"]
        right = found["verdict"] == "warn" and found["text"].startswith(f"{len(run_ids)} runs are of version 1")
        self._check("`doctor` counts them", right, found["text"])

    def _left_alone(self, before: dict[str, Run]) -> None:
        """Nobody claims them, however long; the one that was approved is queued and stays so."""
        time.sleep(LEFT_ALONE_SECONDS)
        after = {run_id: self._place.run(run_id) for run_id in before}
        epochs = [(run.epoch, after[run_id].epoch) for run_id, run in before.items()]
        self._check("none of them is claimed", all(was == now for was, now in epochs), f"epochs {epochs}")
        states = [str(run.status) for run in after.values()]
        wanted = [str(Status.QUEUED), *[str(Status.WAITING_HUMAN)] * (len(states) - 1)]
        self._check("they stay where they are", states == wanted, ", ".join(states))

    def _migrate(self, release: Release, run_id: str) -> None:
        before = self._place.run(run_id)
        code, told, said = self._onward(release, "migrate", run_id, "--to", "2")
        dry = self._place.run(run_id)
        self._check(
            "a dry run tells and changes nothing",
            (code, told.get("changes", {}).get("added"), told.get("next_steps")) == (0, ["readers"], ["deliver"])
            and (dry.version, dry.epoch) == (before.version, before.epoch),
            f"exit {code}, {told.get('changes')}, {told.get('next_steps')} {said if code else ''}".strip(),
        )
        code, _, said = self._onward(release, "migrate", run_id, "--to", "2", "--apply")
        after = self._place.run(run_id)
        self._check(
            "--apply migrates",
            (code, after.workflow_version) == (0, "2"),
            f"exit {code}, version {after.workflow_version} {said if code else ''}".strip(),
        )

    def _onward(self, release: Release, *arguments: str) -> tuple[int, dict[str, Any], str]:
        return command(release, self._place.environment, *arguments)

    # --- Workers ------------------------------------------------------------------------------------------------------

    @contextmanager
    def _served_by(self, release: Release) -> Generator[None]:
        """Workers of a release; in the end they are asked to stop, and have to."""
        workers = start_workers(release, self._place.environment, self._folder / f"{release.name}.log", WORKERS)
        self._tell(f"{len(workers)} workers of the {release.name} release serve {', '.join(release.versions)}")
        codes: list[int] = []
        try:
            yield
        finally:
            for worker in workers:
                worker.ask_to_stop()
            codes += [worker.ended() for worker in workers]
        self._check(f"workers of the {release.name} release end when asked", not any(codes), f"exit codes {codes}")

    @contextmanager
    def _act(self, name: str) -> Generator[None]:
        began = time.monotonic()
        yield
        self._seconds[name] = time.monotonic() - began

    def _check(self, name: str, held: bool, seen: str) -> None:
        self._checks.append(Check(name=name, held=held, seen=seen))
        if not held:
            self._tell(f"not so: {name}: {seen}")

    def _seen(self, run_id: str, group: str) -> Seen:
        run = self._place.run(run_id)
        told = events.read_all(self._place.lane.database, run_id)
        begun = [event.step or "" for event in told if event.kind == "step_started"]
        made = next((event.data["from"] for event in told if event.kind == "migrated"), run.workflow_version)
        return Seen(
            run_id=run_id,
            group=group,
            versions=(made, run.workflow_version),
            said=tuple(self._said.get(run_id, ())),
            status=str(run.status),
            reason=run.reason,
            digest=self._place.digest(run_id),
            effects=self._place.effects(run_id),
            attempts={step: begun.count(step) for step in dict.fromkeys(begun) if not step.startswith("deliver")},
        )


def _patience(run_ids: Sequence[str]) -> float:
    return max(SECONDS_AT_LEAST, SECONDS_PER_RUN * len(run_ids))


def _told(control: Control) -> str:
    if not control.went_wrong:
        return f"went on to {control.outcome}"
    if control.error:
        return f"broke: {control.error}"
    return "passes for finished, and nothing was published"
