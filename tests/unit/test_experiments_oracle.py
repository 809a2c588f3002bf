"""The oracle counts what it is told, as often as it is told, and forgets nothing when it is killed."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from experiments.oracle import Effect, Oracle


def start(folder: Path) -> tuple[subprocess.Popen[bytes], Oracle]:
    log, ready = folder / "oracle.log", folder / f"ready-{time.monotonic_ns()}"
    process = subprocess.Popen(
        [sys.executable, "-m", "experiments.oracle", "--log", log, "--ready-file", ready, "--parent", str(os.getpid())],
        stdin=subprocess.PIPE,
    )
    while not ready.exists():
        assert process.poll() is None
        time.sleep(0.01)
    return process, Oracle(int(ready.read_text()), log)


def end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.communicate()


@pytest.fixture
def running(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[bytes], Oracle]]:
    process, oracle = start(tmp_path)
    yield process, oracle
    end(process)


def tell(oracle: Oracle, run_id: str = "a") -> int:
    return oracle.record(run_id=run_id, kind="draft.save", resource="d/1", digest="e" * 64)


def test_the_same_effect_twice_is_two_effects(running) -> None:
    _, oracle = running
    assert [tell(oracle), tell(oracle), tell(oracle, "b")] == [1, 2, 3]
    assert [effect.entry for effect in oracle.effects("a")] == [1, 2]
    assert oracle.effects("b") == (
        Effect(entry=3, run_id="b", kind="draft.save", resource="d/1", digest="e" * 64, marker="", again=False),
    )
    assert oracle.effects("c") == ()


def test_a_line_that_was_confirmed_survives_sigkill_and_numbers_go_on(running, tmp_path: Path) -> None:
    process, oracle = running
    tell(oracle)
    process.send_signal(signal.SIGKILL)
    process.wait()
    with pytest.raises(OSError):
        tell(oracle)
    again, restarted = start(tmp_path)
    try:
        assert tell(restarted) == 2
        assert len(restarted.effects("a")) == 2
    finally:
        end(again)


def test_it_ends_with_whoever_started_it(running) -> None:
    process, _ = running
    process.stdin.close()
    assert process.wait(10) == -signal.SIGKILL


def test_what_a_provider_is_searched_by_and_what_changed_nothing_is_kept(running) -> None:
    _, oracle = running
    oracle.record(run_id="a", kind="draft.save", resource="d/1", digest="e" * 64, marker="action-1", again=True)
    assert [(effect.marker, effect.again) for effect in oracle.effects("a")] == [("action-1", True)]


def test_half_a_line_is_no_effect(running) -> None:
    _, oracle = running
    with socket.create_connection(("127.0.0.1", oracle.port)) as connection:
        connection.sendall(json.dumps({"run_id": "a"}).encode())
    assert tell(oracle) == 1
    assert len(oracle.effects("a")) == 1
