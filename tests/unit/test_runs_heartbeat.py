"""The lease of a drive: renewed, lost, and what happens then. No database."""

from __future__ import annotations

import threading

import pytest

from graph.context import LeaseLost
from onward_ledger.database import Unreachable
from runs import heartbeat
from runs.heartbeat import Heartbeat
from tests.support.runs_world import until


class Holder:
    """Answers as told."""

    holder_id = 1

    def __init__(self, answer=True):
        self.answer = answer
        self.beats = 0
        self.hangs = threading.Event()
        self.hangs.set()

    def renew(self, run_id, epoch):
        self.beats += 1
        self.hangs.wait()
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def close(self):
        pass


@pytest.fixture
def kept(monkeypatch):
    """`kept(holder, seconds)`: a running heartbeat, and the list that its end of the process is noted in."""
    monkeypatch.setattr(heartbeat, "GRACE_SECONDS", 0.1)
    running = []

    def start(holder, seconds):
        ended = []
        beat = Heartbeat(holder, "run", 3, seconds, exit_process=lambda: ended.append(True))
        running.append((holder, beat))
        beat.start()
        return beat, ended

    yield start
    for holder, beat in running:
        holder.hangs.set()
        beat.stop()


def test_it_beats_four_times_in_a_lease_and_the_lease_stays(kept):
    holder = Holder()
    beat, ended = kept(holder, 0.2)
    until(lambda: holder.beats > 8)  # two lease times
    beat.check()
    assert not beat.lost and not ended


def test_a_moved_epoch_is_told_to_whoever_checks_and_the_process_ends_after_the_grace(kept):
    beat, ended = kept(Holder(answer=False), 60)
    until(lambda: beat.lost)
    with pytest.raises(LeaseLost, match="run is no longer driven under epoch 3: another driver has taken over"):
        beat.check()
    until(lambda: ended)


def test_work_that_ends_in_time_ends_no_process(kept):
    beat, ended = kept(Holder(answer=False), 60)
    until(lambda: beat.lost)
    beat.stop()
    assert not ended


def test_a_short_disturbance_is_retried(kept, monkeypatch):
    monkeypatch.setattr(heartbeat, "_RETRY_SECONDS", 0.01)
    holder = Holder(answer=Unreachable("gone for a while"))
    beat, _ = kept(holder, 30)
    until(lambda: holder.beats > 3)
    beat.check()
    holder.answer = True
    before = holder.beats
    until(lambda: holder.beats > before)
    beat.check()


def test_a_lease_that_cannot_be_renewed_is_lost_when_its_time_is_over(kept):
    beat, ended = kept(Holder(answer=Unreachable("cut off")), 0.3)
    until(lambda: beat.lost)
    with pytest.raises(LeaseLost, match="ran out before it could be renewed"):
        beat.check()
    until(lambda: ended)


def test_a_heartbeat_that_hangs_in_the_network_is_noticed(kept):
    holder = Holder()
    holder.hangs.clear()
    beat, ended = kept(holder, 0.3)
    until(lambda: beat.lost)
    until(lambda: ended)


def test_check_notices_by_itself_that_the_time_is_over():
    beat = Heartbeat(Holder(), "run", 1, 0.0)  # never started: a process that was stopped has just woken
    with pytest.raises(LeaseLost):
        beat.check()


def test_the_signal_passes_through_handlers_of_errors():
    assert not issubclass(LeaseLost, Exception)
