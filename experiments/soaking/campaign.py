"""A soak from its start to its verdict: runs are fed, things are killed, then nothing is, and everything must end."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.metadata import version

from experiments.soaking.faults import EVERY_SECONDS, Killer, Planned, plan
from experiments.soaking.feeding import Feeder
from experiments.soaking.judging import judge
from experiments.soaking.place import Place, place
from experiments.soaking.results import Results
from experiments.soaking.settling import settle_unknown
from experiments.soaking.watching import Watch
from experiments.soaking.workers import Workers
from experiments.soaking.world import look
from onward_ledger.errors import LedgerError
from runs import local_postgres
from runs.errors import RunError

Tell = Callable[[str], None]

LEASE_SECONDS = 5.0
STEP_SECONDS = 0.1
TICK_SECONDS = 0.05
PROGRESS_SECONDS = 5.0
SAMPLE_SECONDS = 2.0
# The last runs are begun a little before the last kills, so that they are hit as well.
FEED_SHARE = 0.95
LATE_SECONDS = 2.0
# How long the API takes for a thing, and how often it changes when it waits.
SLOW_SECONDS, API_SECONDS = 0.1, 5.0
# From the heal to the end of every run: the longest back-offs, what is queued, and a person's word.
HEAL_SECONDS = 300.0
PACKAGES = ("langgraph", "langgraph-checkpoint-postgres", "procrastinate", "psycopg", "onward-ledger")


@dataclass(frozen=True, kw_only=True)
class Options:
    """What the command line asks for. The first worker is spared, to be watched, unless it is the only one."""

    minutes: float
    runs: int
    workers: int
    seed: int
    every_seconds: float = EVERY_SECONDS


@dataclass(kw_only=True)
class _Soak:
    """What changes while it goes on."""

    options: Options
    place: Place
    workers: Workers
    killer: Killer
    watch: Watch
    tell: Tell
    began: float
    feeder: Feeder
    interrupted: bool = False
    settled: list[dict[str, str]] = field(default_factory=list[dict[str, str]])
    _before: bool = False
    _due: dict[str, float] = field(default_factory=dict[str, float])

    @property
    def now(self) -> float:
        """Seconds from the beginning."""
        return time.monotonic() - self.began

    def strike(self) -> None:
        """The phase of faults. Ctrl-C ends it early."""
        seconds = self.options.minutes * 60
        waiting = list(plan(self.options.seed, seconds, self.options.every_seconds))
        try:
            while self.now < seconds:
                self._slow_api()
                waiting = self._kill(waiting)
                self._every_tick("faults")
        except KeyboardInterrupt:
            self.interrupted = True
            self.feeder.stop_feeding()
            self.tell("stopping: nothing is killed any more; what has begun is brought to its end")

    def _slow_api(self) -> None:
        """Now the API waits before it does something, now before it answers: so that kills fall into both."""
        if self._is_due("api", API_SECONDS):
            self._before = not self._before
            when = "delay before" if self._before else "delay after"
            self.place.sink.control(heal=True)
            self.place.sink.control(send=when, seconds=SLOW_SECONDS, times=None)

    def _kill(self, waiting: list[Planned]) -> list[Planned]:
        while waiting and waiting[0].at <= self.now:
            planned = waiting.pop(0)
            if self.now - planned.at > LATE_SECONDS:
                self.killer.missed += 1  # this machine was busy; kills in a heap are another experiment
            else:
                self.killer.strike(planned)
        return waiting

    def _every_tick(self, phase: str) -> None:
        self.workers.keep()
        if self._is_due("sample", SAMPLE_SECONDS):
            self.watch.look(self.now)
        if self._is_due("progress", PROGRESS_SECONDS):
            self.tell(self._progress(phase))
        time.sleep(TICK_SECONDS)

    def _is_due(self, what: str, seconds: float) -> bool:
        if self.now < self._due.get(what, 0.0):
            return False
        self._due[what] = self.now + seconds
        return True

    def _progress(self, phase: str) -> str:
        counts = self.feeder.counts
        ended = f"{counts[1]} of {counts[0]} runs have ended" if counts is not None else "the database is away"
        return f"[{self.now:.0f} s] {phase}: {ended}; {len(self.killer.struck)} kills"

    def heal(self) -> None:
        """Nobody kills any more, and a person settles what nobody else can: until everything has ended."""
        local_postgres.ensure(self.place.settings.home)
        self.feeder.stop_feeding()
        self.place.sink.control(heal=True)
        deadline = time.monotonic() + HEAL_SECONDS
        self.feeder.counts = None  # from now on
        while time.monotonic() < deadline:
            counts = self.feeder.counts
            if counts is not None and counts[0] == counts[1]:
                return
            if counts is not None and counts[0] - counts[1] == counts[2]:
                with suppress(LedgerError, RunError):
                    self.settled += settle_unknown(self.place)
            self._every_tick("healed")


def run_campaign(options: Options, tell: Tell) -> Results:
    """Soak, and judge what stands. Raises NotRun where something cannot be started."""
    logging.getLogger("psycopg").addHandler(logging.NullHandler())  # a database that is away is told in our words
    tell(f"starting Postgres, the ledger, the API and {options.workers} workers")
    with place(LEASE_SECONDS, STEP_SECONDS) as here:
        workers = Workers(here, options.workers)
        try:
            workers.wait_until_ready()
            began = time.monotonic()
            spared = 1 if options.workers > 1 else 0
            soak = _Soak(
                options=options,
                place=here,
                workers=workers,
                killer=Killer(here, workers, spared, began),
                watch=Watch(here, workers),
                tell=tell,
                began=began,
                feeder=Feeder(here, options.runs, options.minutes * 60 * FEED_SHARE),
            )
            return _soaked(soak)
        finally:
            workers.stop()


def _soaked(soak: _Soak) -> Results:
    soak.feeder.start()
    try:
        soak.strike()
        faults = soak.now
        soak.heal()
        healed = soak.now
    finally:
        soak.feeder.stop()
    soak.tell("everything has ended; looking at what stands" if soak.now - faults < HEAL_SECONDS else "looking")
    soak.workers.stop()
    standing = look(soak.place)
    settled = {each["action_id"] for each in soak.settled}
    broken = judge(soak.place, standing, settled)
    return Results(
        seed=soak.options.seed,
        minutes=soak.options.minutes,
        workers=soak.options.workers,
        interrupted=soak.interrupted,
        seconds={"faults": faults, "heal": healed - faults, "all": soak.now},
        standing=standing,
        struck=soak.killer.struck,
        missed=soak.killer.missed,
        restarts=soak.workers.restarts,
        settled=soak.settled,
        broken=broken,
        watched=soak.watch.to_json(),
        versions={name: version(name) for name in PACKAGES},
    )
