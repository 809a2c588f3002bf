"""`--help` answers at once: nothing heavy is imported before a command is called."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from runs.cli import main

ROOT = Path(__file__).resolve().parent.parent.parent
HEAVY = (
    "langgraph",
    "langchain_core",
    "polars",
    "duckdb",
    "matplotlib",
    "httpx",
    "fastapi",
    "psycopg",
    "pydantic",
    "rich",
)
COMMANDS = (
    "run",
    "resume",
    "migrate",
    "fork",
    "cancel",
    "show",
    "list",
    "approve",
    "revise",
    "reject",
    "answer",
    "down",
    "prune",
    "doctor",
    "ledger list",
    "ledger show",
)


def test_help_imports_nothing_heavy():
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "runs.cli", "--help"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONWARNINGS": "error"},
    )
    imported = {line.rpartition("|")[2].strip().partition(".")[0] for line in done.stderr.splitlines()}
    assert "typer" in imported  # or this looks at nothing
    assert imported.isdisjoint(HEAVY)
    assert "demo" in done.stdout


def test_help_takes_less_than_half_a_second_of_processor_time():
    before = os.times()
    subprocess.run([sys.executable, "-m", "runs.cli", "--help"], cwd=ROOT, capture_output=True, check=True)
    after = os.times()
    used = after.children_user + after.children_system - before.children_user - before.children_system
    assert used < 0.5


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(command, capsys):
    assert main([*command.split(), "--help"]) == 0
    shown = capsys.readouterr()
    assert f"Usage: onward {command}" in shown.out
    assert shown.err == ""


@pytest.mark.parametrize(
    "command", ["run", "resume", "show", "list", "approve", "ledger list", "ledger show", "doctor", "prune"]
)
def test_what_reads_can_answer_in_json(command, capsys):
    main([*command.split(), "--help"])
    assert "-o, --output <table|json>" in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [[], ["ledger"]])
def test_a_command_without_a_word_shows_the_help(arguments, capsys):
    assert main(arguments) == 0
    assert "Usage: onward" in capsys.readouterr().out
