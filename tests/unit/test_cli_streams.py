"""A stdout that is closed, full or not read ends a command with one code, and never with Python's own words."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
# Both paths: what Typer writes itself, and what a command writes.
WRITES = (["--help"], ["ledger", "list", "-o", "json"])
CLOSES_STDOUT = (
    "import os, sys; os.close(1); os.execv(sys.executable, [sys.executable, '-m', 'runs.cli', *sys.argv[1:]])"
)


def onward(arguments, home, stdout):
    return subprocess.run(
        [sys.executable, "-m", "runs.cli", *arguments],
        cwd=ROOT,
        env=environment(home),
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )


def environment(home):
    ours = ("ONWARD_", "DATABASE_URL", "LEDGER_DATABASE_URL")
    return {k: v for k, v in os.environ.items() if not k.startswith(ours)} | {"ONWARD_HOME": str(home)}


@pytest.mark.parametrize("arguments", WRITES)
def test_a_reader_that_went_away_ends_a_command_with_141_and_no_word(arguments, tmp_path):
    reader, writer = os.pipe()
    os.close(reader)
    done = onward(arguments, tmp_path / "home", writer)
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, "")


@pytest.mark.parametrize("arguments", WRITES)
def test_a_full_disk_is_one_sentence_and_exit_1(arguments, tmp_path):
    with Path("/dev/full").open("w") as full:
        done = onward(arguments, tmp_path / "home", full)
    assert done.returncode == 1
    assert "No space left on device" in done.stderr
    assert "--help" in arguments or "The output cannot be written to stdout" in done.stderr
    assert done.stderr.startswith("onward: ") and done.stderr.count("\n") == 1


@pytest.mark.parametrize("arguments", WRITES)
def test_a_closed_stdout_leads_nowhere(arguments, tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", CLOSES_STDOUT, *arguments],
        cwd=ROOT,
        env=environment(tmp_path / "home"),
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("arguments", WRITES)
def test_a_reader_gets_what_was_written(arguments, tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "runs.cli", *arguments],
        cwd=ROOT,
        env=environment(tmp_path / "home"),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "Usage: onward" in done.stdout or '"actions": []' in done.stdout
