"""A run whose workflow version nobody serves is shown as that: in one run, in the list, and by the doctor."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import replace

import pytest

from graph import versions
from graph.migrations import Migrated
from onward_ledger.objects import Objects
from runs import registry
from runs.cli import main
from runs.errors import OtherVersion
from runs.registry import NewRun
from runs.settings import Settings
from runs.store import open_store


@pytest.fixture
def database(tmp_path, monkeypatch):
    for name in ("DATABASE_URL", "LEDGER_DATABASE_URL", "ONWARD_LEDGER_URL", "ONWARD_OBJECTS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ONWARD_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("ONWARD_STORE", "sqlite")
    (tmp_path / "home").mkdir(mode=0o700)
    (tmp_path / "sales.csv").write_bytes(b"month,revenue\n1,2\n")
    with closing(open_store(Settings()).database()) as opened:
        opened.migrate()
        yield opened


def a_run(database, folder, version):
    """A queued run. Its ledger is another one, so that looking starts none."""
    new = NewRun(owner="alice", workflow_version=version, store="sqlite", ledger="elsewhere")
    return registry.create(database, Objects((folder / "objects").as_uri()), folder / "sales.csv", new)


def told(capsys, *arguments):
    assert main([*arguments, "-o", "json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_what_nobody_serves_is_said_with_what_to_do(database, tmp_path, capsys):
    run = a_run(database, tmp_path, "0")
    view = told(capsys, "show", run.run_id)
    assert view["next_action"]["text"] == (
        "No living worker serves workflow version 0, nor does this software (it has 1), so nobody drives the run and "
        "nothing tries to. Start a worker of a release that serves it. There is no migration from it to version 1."
    )
    assert view["next_action"]["commands"] == []


def test_the_way_over_is_named_where_there_is_one(database, tmp_path, capsys, monkeypatch):
    way = {"0": lambda values, _: Migrated(values=values, as_node="plan")}
    monkeypatch.setitem(versions.VERSIONS, "1", replace(versions.VERSIONS["1"], migrations=way))
    run = a_run(database, tmp_path, "0")
    view = told(capsys, "show", run.run_id)
    assert view["next_action"]["commands"] == [f"onward migrate {run.run_id[:8]} --to 1"]


def test_the_list_says_it_too(database, tmp_path, capsys):
    old, new = a_run(database, tmp_path, "0"), a_run(database, tmp_path, "1")
    lines = {line["run_id"]: line for line in told(capsys, "list")["runs"]}
    assert (lines[old.run_id]["served"], lines[new.run_id]["served"]) == (False, True)
    main(["list"])
    shown = capsys.readouterr().out
    assert shown.count("queued, nobody serves version 0") == 1


def test_a_living_worker_that_has_it_serves_it(database, tmp_path, capsys):
    run = a_run(database, tmp_path, "0")
    store = open_store(Settings())
    holder = store.open_holder("worker")
    with database.transaction() as tx:
        tx.run("insert_worker", holder_id=holder.holder_id, versions=["0"], concurrency=1)
    assert told(capsys, "list")["runs"][0]["served"] is True
    holder.close()
    assert told(capsys, "list")["runs"][0]["served"] is False
    assert told(capsys, "show", run.run_id)["next_action"]["commands"] == []


def test_the_doctor_counts_them(database, tmp_path, capsys):
    for _ in range(2):
        a_run(database, tmp_path, "0")
    checks = {check["name"]: check for check in told(capsys, "doctor")["checks"]}
    assert checks["workflow versions"]["verdict"] == "warn"
    assert checks["workflow versions"]["text"].startswith("2 runs are of version 0, which nobody serves")


def test_the_doctor_has_nothing_to_say_where_all_are_served(database, tmp_path, capsys):
    a_run(database, tmp_path, "1")
    checks = {check["name"]: check for check in told(capsys, "doctor")["checks"]}
    assert checks["workflow versions"]["verdict"] == "ok"


def test_looking_at_it_to_drive_it_raises_no_epoch(database, tmp_path):
    from runs.drain import Drain
    from runs.drive import drive
    from tests.support.runs_world import MemoryLedger, parts

    run = a_run(database, tmp_path, "0")
    objects = Objects((tmp_path / "objects").as_uri())
    store = open_store(Settings())
    with pytest.raises(OtherVersion, match="which this software does not serve"):
        drive(run.run_id, parts(store, MemoryLedger(), objects, tmp_path, drain=Drain(), ledger_id="elsewhere"))
    after = registry.get(database, run.run_id)
    assert (after.epoch, after.version, after.last_seq) == (None, run.version, run.last_seq)
