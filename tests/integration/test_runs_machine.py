"""Any order of claims, deaths, late heartbeats, late writes and endings: what holds after every one of them.

Hypothesis chooses the order. The store is SQLite with a clock that the test moves; the rules are the same SQL as those
of Postgres (`test_runs_lease` and `test_runs_fence` run on both).
"""

from __future__ import annotations

import tempfile
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from langgraph.checkpoint.base import empty_checkpoint

from onward_ledger.objects import Objects
from runs import events, lease, registry
from runs.checkpoints import open_saver, set_up
from runs.errors import DrivenElsewhere, RunFinished, WaitingForPerson
from runs.failures import meaning
from runs.registry import Status
from runs.store import SqliteStore
from tests.support.runs_world import new_run

LEASE = 60
DRIVERS = st.sampled_from(["a", "b", "c"])


class Driver:
    """A holder, and the epoch that it believes to have."""

    def __init__(self, holder):
        self.holder, self.epoch = holder, 0


class Runs(RuleBasedStateMachine):
    """One run, three drivers."""

    def __init__(self):
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        path = Path(self.folder.name)
        self.clock = datetime(2026, 1, 1, tzinfo=UTC)
        self.store = SqliteStore(path / "runs.sqlite", path / "locks", clock=self.clock)
        set_up(self.store)
        self.database = self.store.database()
        self.run_id = new_run(self.database, Objects((path / "objects").as_uri()), path).run_id
        self.drivers = {}
        self.top = 0
        self.head = None
        self.ended = False

    def teardown(self):
        for driver in self.drivers.values():
            driver.holder.close()
        self.database.close()
        self.folder.cleanup()

    @property
    def run(self):
        return registry.get(self.database, self.run_id)

    @rule(seconds=st.sampled_from([1, 20, LEASE + 1]))
    def time_passes(self, seconds):
        self.clock += timedelta(seconds=seconds)
        self.store._clock = self.database._clock = self.clock
        for driver in self.drivers.values():
            driver.holder._database._clock = self.clock

    @rule(name=DRIVERS)
    def claim(self, name):
        driver = self.drivers.get(name) or self.drivers.setdefault(name, Driver(self.store.open_holder(name)))
        before = self.run
        may = before.status is Status.QUEUED or (before.driven and before.driver != "alive")
        try:
            got = lease.claim(
                self.store, self.database, self.run_id, driver.holder, lease_seconds=LEASE, patience_seconds=0
            )
        except (DrivenElsewhere, RunFinished, WaitingForPerson):
            assert not may
            return
        assert may and got.epoch == self.top + 1
        self.top = driver.epoch = got.epoch

    @rule(name=DRIVERS)
    def die(self, name):
        if name in self.drivers:
            self.drivers.pop(name).holder.close()

    @rule(name=DRIVERS)
    def heartbeat(self, name):
        driver = self.drivers.get(name)
        if driver and driver.epoch:
            renewed = driver.holder.renew(self.run_id, driver.epoch)
            assert renewed == (driver.epoch == self.top and self.run.holder_id == driver.holder.holder_id)

    @rule(name=DRIVERS)
    def write_checkpoint(self, name):
        driver = self.drivers.get(name)
        if not driver or not driver.epoch:
            return
        config = {"configurable": {"thread_id": self.run_id, "checkpoint_ns": "", "checkpoint_id": self.head}}
        metadata = {"source": "loop", "step": driver.epoch, "parents": {}}
        with open_saver(self.store, self.run_id, driver.epoch, 1, lambda: None) as saver:
            try:
                written = saver.put(config, empty_checkpoint(), metadata, {})
            except Exception as error:
                assert meaning(error) == "fenced" and driver.epoch < self.top
                return
        assert driver.epoch == self.top
        self.head = written["configurable"]["checkpoint_id"]

    @rule(name=DRIVERS)
    def write_event(self, name):
        driver = self.drivers.get(name)
        if driver and driver.epoch:
            with self.database.transaction() as tx:
                tx.one("lock_run", run_id=self.run_id)
                seq = events.append(tx, self.run_id, "note", {}, epoch=driver.epoch)
            assert (seq is not None) == (driver.epoch == self.top)

    @rule(name=DRIVERS, word=st.sampled_from(["requeue", "wait", "succeed", "fail"]))
    def end_drive(self, name, word):
        driver, run = self.drivers.get(name), self.run
        if not driver or not driver.epoch or run.status is not Status.RUNNING:
            return
        with self.database.transaction() as tx:
            tx.one("lock_run", run_id=self.run_id)
            moved = registry.move(tx, run, word, epoch=driver.epoch, reason="test")
            if moved:
                tx.run("release_lease", run_id=self.run_id, epoch=driver.epoch)
        assert moved == (driver.epoch == self.top)
        self.ended = self.ended or (moved and word in ("succeed", "fail"))

    @precondition(lambda self: not self.ended)
    @rule()
    def somebody_decides(self):
        with suppress(RunFinished):
            registry.queue_decided(self.database, self.run_id)

    @invariant()
    def the_row_the_lease_and_the_history_agree(self):
        run = self.run
        assert (run.epoch or 0) == self.top
        assert run.finished == self.ended
        assert run.driven == (run.holder_id is not None)
        history = events.read_all(self.database, self.run_id)
        assert [event.seq for event in history] == list(range(1, run.last_seq + 1))
        epochs = [event.epoch for event in history if event.epoch is not None]
        assert epochs == sorted(epochs)
        assert [e.data["before"] + 1 for e in history if e.kind == "claimed"] == list(range(1, self.top + 1))

    @invariant()
    def the_chain_of_checkpoints_is_linear(self):
        with open_saver(self.store, "none", 0, 0, lambda: None) as saver:
            chain = list(saver.list({"configurable": {"thread_id": self.run_id}}))
        parents = [c.parent_config["configurable"]["checkpoint_id"] if c.parent_config else None for c in chain]
        assert parents == [c.checkpoint["id"] for c in chain[1:]] + [None] * bool(chain)
        assert (chain[0].checkpoint["id"] if chain else None) == self.head


TestRuns = Runs.TestCase
TestRuns.settings = settings(
    max_examples=12, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
)
