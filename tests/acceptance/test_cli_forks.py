"""`onward fork` and `onward migrate` as a user types them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from graph.versions import CURRENT
from runs import local_ledger
from runs.settings import Settings
from tests.migration.golden_files import load
from tests.support.cli_world import Cli


@pytest.fixture(scope="module")
def cli(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cli]:
    """`onward` in a home where a run has published its report, so that none has to be driven here."""
    home: Path = tmp_path_factory.mktemp("forks") / "home"
    home.mkdir(mode=0o700)
    settings = Settings(home=home, store="sqlite", principal="alice")
    cli = Cli(home, "sqlite")
    cli.parent = load(CURRENT, settings).runs["finished"]  # type: ignore[attr-defined]
    yield cli
    local_ledger.stop(settings)


@pytest.fixture
def parent(inside: Any, cli: Any) -> dict[str, Any]:
    """The run that has published its report."""
    return inside(cli, "show", cli.parent, "-o", "json").json


def test_a_fork_is_recorded_with_its_parent(inside: Any, cli: Cli, parent: dict[str, Any]) -> None:
    done = inside(cli, "fork", parent["run_id"], "--from", "deliver", "--queue", "-o", "json")
    assert done.code == 0, done.err
    made = done.json
    assert (made["status"], made["parent"], made["approval"]) == ("queued", parent["run_id"], None)
    assert made["report"]["digest"] == parent["report"]["digest"]
    assert made["report"]["published"] is False
    shown = inside(cli, "show", made["run_id"]).out
    assert f"Forked from  {parent['run_id']}" in shown


def test_what_is_set_is_the_forks_own(inside: Any, cli: Cli, parent: dict[str, Any]) -> None:
    settings = ["--set", "ask=What is the total revenue?", "--set", "budget=1.5", "--set", "deadline=2h"]
    done = inside(cli, "fork", parent["run_id"], "--from", "plan", *settings, "--queue", "-o", "json")
    assert done.code == 0, done.err
    assert (done.json["asks"], done.json["budget_usd"]) == (["What is the total revenue?"], 1.5)
    assert done.json["deadline_at"] is not None


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--from", "nowhere"], "It can be forked from: plan, analyze#1"),
        (["--from", "deliver", "--set", "ask=Why?"], "To change them, fork --from plan"),
        (["--from", "deliver", "--set", "colour=red"], "give model, ask, budget, deadline"),
        (["--from", "deliver", "--set", "budget=much"], "give US dollars"),
        (["--from", "deliver", "--set", "budget"], "give NAME=VALUE"),
        (["--from", "deliver", "--set", "budget=1", "--set", "budget=2"], "was given 2 times"),
        (["--from", "deliver", "--set", "deadline=2001-01-01"], "has passed already"),
    ],
)
def test_what_makes_no_sense_is_refused_and_makes_nothing(
    inside: Any, cli: Cli, parent: dict[str, Any], arguments: list[str], words: str
) -> None:
    before = len(inside(cli, "list", "-o", "json").json["runs"])
    done = inside(cli, "fork", parent["run_id"], *arguments, "--queue", "-o", "json")
    assert (done.code, done.out) == (2, "")
    assert words in done.err
    assert len(inside(cli, "list", "-o", "json").json["runs"]) == before


def test_a_run_that_has_ended_is_not_migrated(inside: Any, cli: Cli, parent: dict[str, Any]) -> None:
    done = inside(cli, "migrate", parent["run_id"], "--to", "1")
    assert (done.code, done.out) == (4, "")
    assert "has ended: succeeded" in done.err


def test_a_version_that_is_not_here_is_refused(inside: Any, cli: Cli, parent: dict[str, Any]) -> None:
    made = inside(cli, "fork", parent["run_id"], "--from", "deliver", "--queue", "-o", "json").json
    done = inside(cli, "migrate", made["run_id"], "--to", "17", "--apply")
    assert (done.code, done.out) == (4, "")
    assert "Workflow version 17 is not served by this software, which has: 1" in done.err
