"""How the end of a driver is told, and how the demonstration is started."""

import signal
import subprocess
import sys
from types import SimpleNamespace

import pytest

from runs.cli import main
from runs.commands import demo
from runs.commands.driving import _Asked, _ended, _last_line
from runs.commands.intake import valid_name

RUN = "11111111-2222-4333-8444-555555555555"
HOW = f"Go on with: onward resume {RUN}"


def end(tmp_path, returncode, outcome=None, asked_times=0, log="one\nlast word\n"):
    path = tmp_path / "drivers.log"
    path.write_text(log)
    asked = _Asked()
    for _ in range(asked_times):
        asked(signal.SIGINT, None)
    found = _ended(RUN, SimpleNamespace(pid=42, returncode=returncode), outcome, asked, path)
    return found.exit_code, found.message


@pytest.mark.parametrize(
    ("returncode", "outcome", "asked_times", "code", "words"),
    [
        (0, {"exit_code": 0, "message": "The report is published."}, 0, 0, "The report is published."),
        (5, {"exit_code": 5, "message": "A person has to decide."}, 0, 5, "A person has to decide."),
        (6, {"exit_code": 6, "message": "Stopped at a safe place."}, 1, 6, f"Stopped at a safe place. {HOW}"),
        (-9, None, 0, 6, f"The driver (process 42) was ended by SIGKILL; nothing is lost. {HOW}"),
        (-9, None, 2, 6, f"Stopped at once; nothing is lost. {HOW}"),
        (6, None, 2, 6, f"Stopped at once; nothing is lost. {HOW}"),
        (-15, None, 1, 6, f"Stopped at once; nothing is lost. {HOW}"),
        (4, None, 0, 4, "This driver has lost the run to another one"),
        (1, None, 0, 6, "ended with exit code 1: last word (see"),
    ],
)
def test_how_a_driver_ended(tmp_path, returncode, outcome, asked_times, code, words):
    found, message = end(tmp_path, returncode, outcome, asked_times)
    assert found == code
    assert words in message


def test_a_driver_that_said_nothing(tmp_path):
    assert _last_line(tmp_path / "missing.log") == "it said nothing"
    assert "it said nothing" in end(tmp_path, 3, log="")[1]


@pytest.mark.parametrize("code", [0, 1, 10])
def test_the_demonstration_gets_its_arguments_and_gives_its_exit_code(monkeypatch, code):
    started = []

    class Process:
        def __init__(self, command, cwd):
            started.append((command, cwd))

        def wait(self):
            return code

    monkeypatch.setattr(subprocess, "Popen", Process)
    assert main(["demo", "--store", "sqlite", "-o", "json"]) == code
    assert started == [([sys.executable, "-m", "experiments.demo", "--store", "sqlite", "-o", "json"], demo.ROOT)]


def test_a_demonstration_that_a_signal_ended(monkeypatch):
    monkeypatch.setattr(subprocess, "Popen", lambda *_, **__: SimpleNamespace(wait=lambda: -9))
    assert main(["demo"]) == 137


def test_a_file_name_that_is_no_text_becomes_text(tmp_path):
    name = b"caf\xe9.csv".decode("utf-8", "surrogateescape")
    assert valid_name(tmp_path / name) == "caf\ufffd.csv"
