"""Homes of the whole acceptance session: starting servers for every test would cost more than the tests."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from runs.cli import main
from tests.conftest import forget_home
from tests.support.cli_world import Cli, Done

ROWS = (
    "month,region,revenue\n2024-01-05,North,10\n2024-01-20,South,20.5\n2024-02-03,North,5.5\n2024-02-11,East,\n"
    "2024-03-02,South,7\n2024-03-30,East,3.25\n"
)


@pytest.fixture(scope="session")
def postgres_cli(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cli]:
    """`onward` on a Postgres that it has started itself."""
    yield from _cli(tmp_path_factory.mktemp("postgres") / "home", "postgres")


@pytest.fixture(scope="session")
def sqlite_cli(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cli]:
    """`onward` on SQLite files."""
    yield from _cli(tmp_path_factory.mktemp("sqlite") / "home", "sqlite")


def _cli(home: Path, store: str) -> Iterator[Cli]:
    cli = Cli(home, store)
    try:
        yield cli
    finally:
        cli("down", "--force")
        forget_home(home)


@pytest.fixture
def inside(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Done]:
    """`inside(cli, "show", …)`: a command that drives nothing, in this very process, which saves its start."""

    def run(cli: Cli, *arguments: str | Path, **environment: str) -> Done:
        with monkeypatch.context() as patch:
            for name in os.environ.keys() - cli.environment().keys():
                patch.delenv(name)
            for name, value in cli.environment(**environment).items():
                patch.setenv(name, value)
            code = main([str(argument) for argument in arguments])
        shown = capsys.readouterr()
        return Done(code=code, out=shown.out, err=shown.err)

    return run


@pytest.fixture(scope="session")
def sales(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small table with a gap in it."""
    path = tmp_path_factory.mktemp("input") / "sales.csv"
    path.write_text(ROWS)
    return path


@pytest.fixture(scope="session")
def undisturbed(sqlite_cli: Cli, sales: Path) -> Done:
    """A run on `sales` that nobody disturbs, its approval given in advance."""
    running = sqlite_cli.start("run", sales, "--approve", "-o", "json")
    running.says("Starting…")
    return running.end()


@pytest.fixture(scope="session")
def report_digest(undisturbed: Done) -> str:
    """The digest that every run on `sales` ends with."""
    return undisturbed.json["report"]["digest"]
