"""Hosts on one machine: names that fit, clocks that shift, what a killed experiment left, where it cannot be run."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
import pytest

from experiments import partitions
from experiments.errors import NotRun
from experiments.hosts import leftovers, skew
from experiments.hosts.faults import FAULTS, GROUPS
from experiments.hosts.network import TOOLS, Host, subnet_of
from experiments.hosts.skew import HOUR, Clock

ROOT = Path(__file__).resolve().parent.parent.parent
LONGEST_LINK_NAME = 15


@pytest.mark.parametrize("token", ["000000", "ffffff", "01a2b3"])
def test_names_and_addresses_fit(token: str) -> None:
    first, second, third = (int(part) for part in subnet_of(token).split("."))
    assert (first, second in (18, 19), third in range(256)) == (198, True, True)
    assert len(f"o{token}99h") <= LONGEST_LINK_NAME


def test_a_command_runs_under_the_host_s_name_and_in_its_network() -> None:
    host = Host(name="worker-1", namespace="onward-abc-worker-1", link="oabc2h", address="198.18.0.2")
    command = host.inside(["python", 1], user=7, group=8)
    assert command[:3] == ["unshare", "--uts", "sh"]
    assert "worker-1" in command
    assert "--net=/run/netns/onward-abc-worker-1" in command
    assert command[-7:] == ["--setuid", "7", "--setgid", "8", "--", "python", "1"]


# --- a wrong clock ----------------------------------------------------------------------------------------------------


def seconds_there(clock: Clock) -> tuple[float, float]:
    """How far a process of this clock is ahead of us: by its wall clock, and by its monotonic one."""
    code = "import time; print(time.time(), time.monotonic())"
    said = subprocess.run([sys.executable, "-S", "-c", code], env=clock.environment, capture_output=True, check=True)
    wall, monotonic = map(float, said.stdout.split())
    return wall - time.time(), monotonic - time.monotonic()


def test_the_wall_clock_of_a_process_is_shifted_and_no_other(tmp_path: Path) -> None:
    if shutil.which("cc") is None and shutil.which("gcc") is None and shutil.which("clang") is None:
        with pytest.raises(NotRun, match="no C compiler"):
            skew.compile_library(tmp_path)
        return
    clock = Clock(skew.compile_library(tmp_path), tmp_path / "clock")
    for shift in (0, HOUR, -HOUR):
        clock.shift(shift)
        wall, monotonic = seconds_there(clock)
        assert wall == pytest.approx(shift, abs=30)  # pyright: ignore[reportUnknownMemberType] - pytest's own
        assert monotonic == pytest.approx(0, abs=30)  # pyright: ignore[reportUnknownMemberType]


def test_without_a_compiler_it_is_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NotRun, match="no C compiler"):
        skew.compile_library(tmp_path)


# --- what a killed experiment left ------------------------------------------------------------------------------------


def left_behind(pid: int, started: float) -> Path:
    folder = Path(tempfile.mkdtemp(prefix=leftovers.PREFIX))
    (folder / "owner.json").write_text(json.dumps({"pid": pid, "started": started, "token": "zzzzzz"}))
    return folder


def test_only_what_dead_experiments_left_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    mine, now = os.getpid(), psutil.Process().create_time()
    living, dead = left_behind(mine, now), left_behind(mine, now - 100.0)
    assert leftovers.remove_abandoned() == [dead]
    assert living.exists()


def test_the_folder_of_an_experiment_is_gone_behind_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(KeyboardInterrupt), leftovers.folder_of("zzzzzz") as folder:
        assert json.loads((folder / "owner.json").read_text())["pid"] == os.getpid()
        raise KeyboardInterrupt
    assert list(tmp_path.iterdir()) == []


# --- where it cannot be run -------------------------------------------------------------------------------------------


def test_it_says_in_a_sentence_where_it_cannot_be_run(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "this is not Linux" in (partitions.cannot("darwin", 501) or "")
    assert "Run it as root" in (partitions.cannot("linux", 1000) or "")
    there = {tool: f"/bin/{tool}" for tool in TOOLS if tool != "ip"}
    monkeypatch.setattr(shutil, "which", there.get)
    assert partitions.cannot("linux", 0) == ("These programs are missing: ip. Install iproute2 and util-linux.")
    there["ip"] = "/bin/ip"
    assert partitions.cannot("linux", 0) is None


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    script = [sys.executable, "experiments/partitions.py", *arguments]
    return subprocess.run(script, cwd=ROOT, capture_output=True, text=True, check=False)


def test_the_command_names_its_cases() -> None:
    listed = command("--list", "--group", "clock")
    assert (listed.returncode, listed.stderr) == (0, "")
    assert len(listed.stdout.splitlines()) == sum(fault.group == "clock" for fault in FAULTS)
    unknown = command("--only", "no such case")
    assert (unknown.returncode, unknown.stdout) == (2, "")
    assert "no such case" in unknown.stderr


def test_every_case_has_a_name_of_its_own() -> None:
    assert len({fault.name for fault in FAULTS}) == len(FAULTS)
    assert set(GROUPS) == {"cut", "server", "commit", "disk", "clock"}
