"""Rounds: side by side, in changing order, with a warm-up that does not count; and the clock that profiles."""

from __future__ import annotations

import io
import threading

import pytest

from experiments.benchmarks.clock import PYTHON, Clock
from experiments.benchmarks.rounds import Teller, interleave, milliseconds

SILENT = Teller(None)


def test_every_subject_is_measured_once_in_each_round():
    order: list[str] = []

    def subject(name: str):
        def once() -> float:
            order.append(name)
            return float(order.count(name))

        return once

    taken = interleave("x", {name: subject(name) for name in "abc"}, rounds=20, teller=SILENT, warm_up=2)
    rounds = [order[place : place + 3] for place in range(0, len(order), 3)]
    assert len(rounds) == 22
    assert all(sorted(names) == ["a", "b", "c"] for names in rounds)
    assert len({tuple(names) for names in rounds}) == 6, "the order changes"
    assert taken == {name: [float(number) for number in range(3, 23)] for name in "abc"}, "the warm-up is left out"


def test_a_subject_may_say_several_things():
    taken = interleave("x", {"a": lambda: {"ms": 1.0, "bytes": 2.0}}, rounds=2, teller=SILENT, warm_up=0)
    assert taken == {"a, ms": [1.0, 1.0], "a, bytes": [2.0, 2.0]}


def test_an_error_of_a_subject_is_not_a_sample():
    def broken() -> float:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        interleave("x", {"a": broken}, rounds=2, teller=SILENT)


def test_progress_says_how_long_it_will_take(monkeypatch):
    now = iter(range(0, 1000, 10))
    monkeypatch.setattr("experiments.benchmarks.rounds.time.monotonic", lambda: next(now))
    said = io.StringIO()
    done = Teller(said).counter("steps", 4)
    for count in (1, 2, 3, 4):
        done(count)
    assert said.getvalue().splitlines() == [
        "bench: steps: 1 of 4 rounds, about 30 s left",
        "bench: steps: 2 of 4 rounds, about 20 s left",
        "bench: steps: 3 of 4 rounds, about 10 s left",
    ]


def test_milliseconds(monkeypatch):
    now = iter([1.0, 1.5])
    monkeypatch.setattr("experiments.benchmarks.rounds.time.perf_counter", lambda: next(now))
    assert milliseconds(lambda: None) == 500


def test_the_clock_adds_up_what_is_timed_and_only_that(monkeypatch):
    clock = Clock()
    database, files = clock.watch("database"), clock.watch("files")
    now = [0.0]
    monkeypatch.setattr("experiments.benchmarks.clock.time.perf_counter", lambda: now[0])

    def operation(watch, label: str, seconds: float) -> None:
        with watch.operation(label):
            now[0] += seconds

    def work(timed) -> None:
        operation(database, "commit", 5.0)  # prepared: not in it
        with timed:
            operation(database, "commit", 0.1)
            operation(database, "commit", 0.1)
            operation(database, "select", 0.1)
            operation(files, "commit", 0.1)
            other = threading.Thread(target=operation, args=(database, "connect", 0.6), name="heartbeat")
            other.start()
            other.join()

    profile = clock.profile("a title", work, times=2)
    assert profile.ms == pytest.approx(1000)
    found = {line.what: (line.count, round(line.ms), line.share and round(line.share, 3)) for line in profile.sums}
    assert found == {
        PYTHON: (1, 600, 0.6),
        "database (thread: heartbeat)": (1, 600, None),
        "database": (3, 300, 0.3),
        "files": (1, 100, 0.1),
    }
    assert [line.ms for line in profile.lines] == sorted((line.ms for line in profile.lines), reverse=True)
    assert {line.what: line.count for line in profile.lines}["connect (thread: heartbeat)"] == 1
    apart = clock.profile("a title", work, times=1, each=10)
    assert apart.ms == pytest.approx(100)
    assert {line.what: line.count for line in apart.sums}["database"] == pytest.approx(0.3)
