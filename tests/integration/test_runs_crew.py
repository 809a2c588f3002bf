"""The fork server behind a worker's drivers: what it holds, and that a member's end is noticed."""

from __future__ import annotations

import ast
import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from runs import crew
from runs.crew import Crew, Drive, Stand
from runs.settings import Settings


def look(answer):
    """What a fork is born with: its threads, its sockets, and what is imported."""
    tasks, sockets = threading.active_count(), []
    if sys.platform == "linux":
        tasks = len(list(Path("/proc/self/task").iterdir()))
        links = [str(path.readlink()) for path in Path("/proc/self/fd").iterdir() if path.is_symlink()]
        sockets = [link for link in links if link.startswith("socket:")]
    modules = [name for name in ("langgraph", "graph.nodes", "runs.drive", "matplotlib.figure") if name in sys.modules]
    answer.send((tasks, sockets, modules, "runs.crew_member" in sys.modules))


# In a process of its own: the fork server is one for each process, and other tests have theirs in this one.
SCENE = """
from runs.forking import fork_context
from tests.integration.test_runs_crew import look

if __name__ == "__main__":
    context = fork_context()
    answer, asked = context.Pipe(duplex=False)
    process = context.Process(target=look, args=(asked,))
    process.start()
    print(repr(answer.recv()))
    process.join()
"""


@pytest.mark.timeout(120)
def test_the_fork_server_has_imported_everything_and_holds_nothing(tmp_path):
    scene = tmp_path / "scene.py"
    scene.write_text(SCENE)
    root = Path(crew.__file__).parents[1]
    environment = {**os.environ, "PYTHONPATH": str(root)}
    done = subprocess.run(
        [sys.executable, str(scene)], cwd=root, env=environment, capture_output=True, text=True, check=True
    )
    tasks, sockets, modules, preloaded = ast.literal_eval(done.stdout)
    assert preloaded, "a module that cannot be imported is left out in silence"
    assert tasks == 1
    assert sockets == []
    assert modules == ["langgraph", "graph.nodes", "runs.drive", "matplotlib.figure"]


def hang(run_id, settings, life, log, graph):
    """Stands for a driver: it says that it is there, and waits."""
    from tools.process import die_with_parent

    os.setsid()
    die_with_parent(os.getppid(), life.fileno())
    (settings.home / run_id).write_text(json.dumps(os.getpid()))
    signal.pause()


@pytest.fixture
def settings(tmp_path):
    return Settings(home=tmp_path)


def a_crew(settings, monkeypatch, ended, *, size=1, stand=lambda run_id, pid: Stand.HELD):
    monkeypatch.setattr(crew, "be_driver", hang)
    return Crew(settings, size, ended.append, stand)


async def started(settings, run_id):
    path = settings.home / run_id
    while not (path.exists() and path.read_text()):
        await asyncio.sleep(0.01)
    return json.loads(path.read_text())


@pytest.mark.timeout(60)
def test_a_drive_outlives_whoever_waits_for_it_and_its_end_is_told(settings, monkeypatch):
    ended: list[Drive] = []

    async def scene():
        made = a_crew(settings, monkeypatch, ended)
        waiter = asyncio.create_task(made.drive("a"))
        pid = await started(settings, "a")
        waiter.cancel()
        await asyncio.gather(waiter, return_exceptions=True)
        assert made.busy == ["a"]
        await made.drive("a")  # driven already: nothing happens
        assert not (settings.home / "b").exists()
        second = asyncio.create_task(made.drive("b"))  # there is one place
        await asyncio.sleep(0)
        os.kill(pid, signal.SIGKILL)
        other = await started(settings, "b")
        os.kill(other, signal.SIGTERM)
        await second
        assert await made.ended(5)
        made.close()
        return pid, other

    pid, other = asyncio.run(scene())
    assert [(d.run_id, d.pid, d.exit_code) for d in ended] == [
        ("a", pid, -signal.SIGKILL),
        ("b", other, -signal.SIGTERM),
    ]


@pytest.mark.timeout(60)
@pytest.mark.parametrize("stand", [Stand.HUNG, Stand.HELD, Stand.LOST, None])
def test_a_driver_that_hangs_is_ended_when_its_run_is_to_be_driven_again(settings, monkeypatch, stand):
    ended: list[Drive] = []
    lost = stand is Stand.HUNG

    async def scene():
        made = a_crew(settings, monkeypatch, ended, stand=lambda run_id, pid: stand)
        first = asyncio.create_task(made.drive("a"))
        pid = await started(settings, "a")
        os.kill(pid, signal.SIGSTOP)
        (settings.home / "a").unlink()
        again = asyncio.create_task(made.drive("a"))
        if lost:
            assert await started(settings, "a") != pid
            assert [d.pid for d in ended] == [pid]
        else:
            await again
            assert ended == []
        os.kill(pid, signal.SIGKILL) if not lost else made.signal(signal.SIGKILL)
        await asyncio.gather(first, again)
        made.close()

    asyncio.run(scene())


@pytest.mark.timeout(60)
def test_a_hint_for_a_run_whose_driver_is_just_leaving_is_not_lost(settings, monkeypatch):
    """It waits until that driver has gone, and is then served by a new one."""
    ended: list[Drive] = []
    asked = threading.Event()

    def stand(run_id, pid):
        asked.set()
        return Stand.FREE

    async def scene():
        made = a_crew(settings, monkeypatch, ended, stand=stand)
        first = asyncio.create_task(made.drive("a"))
        pid = await started(settings, "a")
        (settings.home / "a").unlink()
        again = asyncio.create_task(made.drive("a"))
        assert await asyncio.to_thread(asked.wait, 10)
        assert (made.busy, ended) == (["a"], [])  # it is waited for, and not ended
        os.kill(pid, signal.SIGTERM)
        second = await started(settings, "a")
        assert second != pid
        made.signal(signal.SIGTERM)
        await asyncio.gather(first, again)
        made.close()
        return pid, second

    both = asyncio.run(scene())
    assert [(drive.pid, drive.exit_code) for drive in ended] == [(pid, -signal.SIGTERM) for pid in both]


@pytest.mark.timeout(60)
@pytest.mark.parametrize(("lease", "is_ended"), [(0.5, True), (600.0, False)])
def test_one_that_never_claims_its_run_is_ended_behind_the_length_of_a_lease(tmp_path, monkeypatch, lease, is_ended):
    """As one that was stopped before it claimed: until then it may be about to."""
    ended: list[Drive] = []
    looks, many = [], threading.Event()
    monkeypatch.setattr(crew, "_LEAVE_SECONDS", 0.05)

    def stand(run_id, pid):
        looks.append(run_id)
        if len(looks) == 20:
            many.set()
        return Stand.FREE

    async def scene():
        settings = Settings(home=tmp_path, lease_seconds=lease)
        made = a_crew(settings, monkeypatch, ended, stand=stand)
        first = asyncio.create_task(made.drive("a"))
        pid = await started(settings, "a")
        (tmp_path / "a").unlink()
        again = asyncio.create_task(made.drive("a"))
        if is_ended:
            assert await started(settings, "a") != pid
            assert [drive.pid for drive in ended] == [pid]
        else:
            assert await asyncio.to_thread(many.wait, 30)
            assert (made.busy, ended) == (["a"], [])
            again.cancel()
        made.signal(signal.SIGKILL)
        await asyncio.gather(first, again, return_exceptions=True)
        made.close()

    asyncio.run(scene())
