"""`onward temporal`: it explains itself without the optional package, and says how to get it."""

from __future__ import annotations

import ast
import sys
from datetime import timedelta

import pytest

from runs.cli import main
from runs.registry import Status
from runs.temporal.tending import doing, left
from tests.support.markdown import ROOT
from tests.support.runs_values import NOW, RUN_ID, a_driven_run, a_run

LIGHT = ("__init__.py", "__main__.py", "cli.py", "values.py")


@pytest.mark.parametrize(
    "arguments", [["temporal"], *(["temporal", c, "--help"] for c in ("worker", "start", "signal"))]
)
def test_it_explains_itself(arguments, capsys):
    assert main(arguments) == 0
    assert f"Usage: onward {' '.join(arguments[:2])}" in capsys.readouterr().out


def imported_by(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


def test_nothing_else_imports_the_package():
    folders = [ROOT / name for name in ("graph", "tools", "runs", "ledger/src")]
    paths = [path for folder in folders for path in folder.rglob("*.py")]
    found = {str(path.relative_to(ROOT)): set(imported_by(path)) for path in paths}
    needing = {path for path, names in found.items() if any(n.partition(".")[0] == "temporalio" for n in names)}
    assert "runs/temporal/workflow.py" in needing  # or this looks at nothing
    assert {path.rpartition("/")[0] for path in needing} == {"runs/temporal"}
    assert not needing & {f"runs/temporal/{name}" for name in LIGHT}
    outside = {path: {n for n in names if n.startswith("runs.temporal")} for path, names in found.items()}
    assert {path: names for path, names in outside.items() if names and not path.startswith("runs/temporal/")} == {
        "runs/cli.py": {"runs.temporal.cli"}
    }


@pytest.mark.parametrize("arguments", [["worker"], ["start", RUN_ID], ["signal", RUN_ID, "decided"]])
def test_without_the_package_it_says_how_to_get_it(arguments, monkeypatch, capsys, onward_home):
    for name in [name for name in sys.modules if name.partition(".")[0] == "temporalio"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delitem(sys.modules, "runs.temporal.client", raising=False)
    monkeypatch.setitem(sys.modules, "temporalio", None)
    assert main(["temporal", *arguments]) == 2
    assert "uv sync --group temporal" in capsys.readouterr().err
    assert not list(onward_home.iterdir())  # nothing was started for it


@pytest.mark.parametrize(
    ("run", "wake", "ended"),
    [
        (a_run(), 0.0, False),
        (a_run(wake_at=NOW + timedelta(seconds=8)), 8.0, False),
        (a_run(wake_at=NOW - timedelta(seconds=8)), 0.0, False),
        (a_driven_run(alive=False), 0.0, False),
        (a_run(status=Status.CANCEL_REQUESTED, wake_at=NOW + timedelta(seconds=8)), 0.0, False),
        (a_run(status=Status.WAITING_HUMAN, reason="approval"), None, False),
        (a_run(status=Status.SUCCEEDED), None, True),
        (a_run(status=Status.FAILED, reason="rejected"), None, True),
        (a_run(status=Status.CANCELLED), None, True),
    ],
)
def test_how_a_run_is_left(run, wake, ended):
    told = left(run)
    assert (told.run_id, told.status, told.reason) == (RUN_ID, run.status, run.reason)
    assert (told.wake_seconds, told.ended) == (wake, ended)


def test_what_a_heartbeat_says():
    assert doing(a_driven_run(), "test") == {
        "run_id": RUN_ID,
        "status": "running",
        "step": "test",
        "epoch": 1,
        "driver": "process 4242 on box: alive",
    }
    assert doing(a_run(), None)["driver"] is None
