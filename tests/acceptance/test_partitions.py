"""Hosts apart, for real: a worker cut from Postgres, and the postmaster killed under load. Needs Linux and root."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
NAMESPACES = Path("/run/netns")

pytestmark = [pytest.mark.exhaustive, pytest.mark.timeout(500)]


def partitions(*arguments: str) -> subprocess.CompletedProcess[str]:
    script = [sys.executable, "experiments/partitions.py", *arguments]
    return subprocess.run(script, cwd=ROOT, capture_output=True, text=True, check=False)


def test_runs_survive_a_cut_and_a_killed_server_on_separate_hosts(tmp_path: Path) -> None:
    cases = ("worker cut from Postgres, silent, past the lease", "Postgres postmaster killed, started again")
    options = [word for case in cases for word in ("--only", case)]
    done = partitions(*options, "--json", "--keep", str(tmp_path))
    if not sys.platform.startswith("linux") or os.geteuid() != 0:
        assert (done.returncode, done.stdout) == (2, "")
        assert "namespaces" in done.stderr
        return
    told = json.loads(done.stdout)
    assert (told["verdict"], done.returncode) == ("pass", 0), done.stderr
    first, cut, killed = told["cases"]
    assert (first["takeovers"], first["robbed"], first["completed"]) == (0, 0, first["runs"])
    for case in (cut, killed):
        assert (case["hit"] > 0, case["completed"]) == (True, case["runs"]), case
        assert (case["duplicates"], case["lost"], case["stuck"]) == (0, 0, 0), case
    assert cut["takeovers"] >= cut["hit"], "what the cut worker drove was taken over while it was cut off"
    assert killed["robbed"] == 0, "a restart of the server frees all locks, and takes nobody's run"
    assert not list(NAMESPACES.glob("onward-*")), "every host is gone"
