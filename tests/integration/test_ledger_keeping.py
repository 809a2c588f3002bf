"""The commands that keep a ledger: hold and release, close and prune, export and audit; their words and exit codes."""

import json
import subprocess
import sys
import uuid

import pytest
from typer.testing import CliRunner

from onward_ledger import errors
from onward_ledger.__main__ import app
from onward_ledger.action import ActionKey
from onward_ledger.objects import Objects
from tests.support.ledger import draft_request
from tests.support.ledger_process import ledger_process


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    folder = tmp_path_factory.mktemp("keeping")
    with ledger_process(folder, f"sqlite:///{folder / 'ledger.db'}") as process:
        yield process.start()


@pytest.fixture
def command(service, monkeypatch, tmp_path):
    """`command("export", …)`: exit code, stdout, stderr."""
    settings = {
        "URL": service.url,
        "TOKEN_FILE": str(service.token_file),
        "STORE": service.store,
        "SIGN_KEY": str(tmp_path / "key"),
    }
    for name, value in settings.items():
        monkeypatch.setenv(f"ONWARD_LEDGER_{name}", value)
    monkeypatch.setenv("ONWARD_PRINCIPAL", "anna")

    def run(*arguments):
        done = CliRunner().invoke(app, [str(each) for each in arguments])
        assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
        return done.exit_code, done.stdout, done.stderr

    return run


def save(service, run_id=None, step="write_draft"):
    key = ActionKey(run_id or str(uuid.uuid4()), step, "draft")
    wanted = draft_request(Objects(service.objects), key.run_id, b"# R")
    return service.client().perform(key, "draft.save", lambda: wanted, epoch=1)


@pytest.fixture
def exported(command, tmp_path):
    """`exported(name, …)`: the path of a fresh export; the public key lies beside it."""

    def export(name, *arguments):
        code, out, err = command("export", *arguments)
        assert (code, err) == (0, "")
        (tmp_path / name).write_text(out)
        (tmp_path / "pub").write_text(command("export", "--public-key")[1])
        return tmp_path / name

    return export


def test_an_export_is_audited_as_whole(service, command, exported, tmp_path):
    action = save(service)
    trail = exported("trail.jsonl")
    code, out, err = command("audit", trail, "--public-key", tmp_path / "pub")
    assert (code, err) == (0, "")
    assert f"is whole: {len(trail.read_text().splitlines()) - 2} actions of ledger" in out
    code, out, _ = command("audit", exported("one", "--run", action.run_id), "--public-key", tmp_path / "pub", "--json")
    report = json.loads(out)
    assert (code, report["whole"], report["actions"], report["filter"]["run_id"]) == (0, True, 1, action.run_id)
    code, out, _ = command(
        "audit", exported("none", "--after", "2100-01-01"), "--public-key", tmp_path / "pub", "--json"
    )
    assert (code, json.loads(out)["actions"]) == (0, 0)


def test_a_changed_export_is_told_with_its_place(service, command, exported, tmp_path):
    action = save(service)
    trail = exported("trail.jsonl", "--run", action.run_id)
    trail.write_text(trail.read_text().replace('"word":"claim"', '"word":"guess"'))
    code, out, err = command("audit", trail, "--public-key", tmp_path / "pub")
    assert (code, out) == (1, "")
    assert f"line 2: Action {action.action_id}, event 2: it was changed.\n" in err
    assert err.endswith("is NOT what was written and signed.\n")
    code, out, _ = command("audit", trail, "--public-key", tmp_path / "pub", "--json")
    [finding] = json.loads(out)["findings"]
    assert (code, finding["line"], finding["action_id"], finding["event"]) == (1, 2, action.action_id, 2)


def test_an_audit_by_another_key_or_without_one_is_refused(service, command, exported, tmp_path):
    trail = exported("trail.jsonl")
    other = command("export", "--public-key", "--sign-key", tmp_path / "other")[1]
    (tmp_path / "other.pub").write_text(other)
    code, _, err = command("audit", trail, "--public-key", tmp_path / "other.pub")
    assert (code, "another key has signed" in err) == (1, True)
    assert command("audit", trail)[0] == 2
    assert command("audit", trail, "--public-key", trail)[0] == 2
    assert command("audit", tmp_path / "none", "--public-key", tmp_path / "pub")[0] == 2


def test_two_exports_are_compared(service, command, exported, tmp_path):
    save(service)
    old = exported("old.jsonl")
    save(service)
    new = exported("new.jsonl")
    code, out, _ = command("audit", new, "--since", old, "--public-key", tmp_path / "pub")
    assert (code, "is in it, unchanged." in out) == (0, True)
    code, _, err = command("audit", old, "--since", new, "--public-key", tmp_path / "pub")
    assert (code, "exported before" in err) == (1, True)
    old.write_text(old.read_text().replace('"word":"claim"', '"word":"guess"', 1))
    code, _, err = command("audit", new, "--since", old, "--public-key", tmp_path / "pub")
    assert (code, "NOT what was written" in err) == (1, True)


def test_a_closed_run_is_pruned_and_the_next_export_says_so(service, command, exported, tmp_path):
    action = save(service)
    before = exported("before.jsonl")
    code, out, _ = command("close", action.run_id, "--reason", "over")
    assert (code, "by anna: over" in out) == (0, True)
    code, out, _ = command("prune", "--older-than", "1h")
    assert (code, out) == (
        0,
        "Would remove 0 runs with 0 actions, 0 events and 0 decisions. Nothing was changed; --yes removes them.\n",
    )
    code, out, _ = command("prune", "--older-than", "0h", "--json")
    assert json.loads(out) | {"before": None} == {
        "removed": False,
        "before": None,
        "runs": 1,
        "actions": 1,
        "events": 3,
        "decisions": 0,
    }
    assert service.client().action(action.action_id).receipt == action.receipt, "a dry run removes nothing"
    code, out, _ = command("prune", "--older-than", "0h", "--yes")
    assert (code, out) == (0, "Removed 1 run with 1 action, 3 events and 0 decisions.\n")
    with pytest.raises(errors.FenceClosed, match="removed by age"):
        save(service, action.run_id)
    after = exported("after.jsonl")
    assert f'"pruned_run":"{action.run_id}"' in after.read_text()
    assert command("audit", after, "--since", before, "--public-key", tmp_path / "pub")[0] == 0


def test_an_age_that_is_none_is_a_usage_error(command):
    for age in ("90", "d", "90days", "-1d", ""):
        assert command("prune", "--older-than", age)[0] == 2


def test_a_store_that_is_not_there_is_not_made(command, tmp_path):
    missing = f"sqlite:///{tmp_path / 'missing.db'}"
    for arguments in (("export",), ("prune", "--older-than", "1d")):
        code, out, err = command(*arguments, "--store", missing)
        assert (code, out, err) == (3, "", f"There is no ledger at {missing}; name it with --store.\n")
    assert not (tmp_path / "missing.db").exists()


def test_hold_and_release(service, command):
    done = save(service)
    assert "It may send." in command("held")[1]
    code, out, _ = command("hold", "--reason", "the bank is down")
    assert (code, "HELD since" in out, "the bank is down (anna)" in out) == (0, True, True)
    with pytest.raises(errors.Held, match="the bank is down"):
        save(service)
    assert save(service, done.run_id).receipt == done.receipt
    code, out, _ = command("release", "--reason", "it is up", "--look-first-days", "0", "--json")
    released = json.loads(out)
    assert (code, released["held_at"], released["released_by"], released["released_reason"]) == (
        0,
        None,
        "anna",
        "it is up",
    )
    assert save(service).replayed is False
    assert command("release", "--reason", "again")[0] == 4


def test_what_audits_needs_no_ledger():
    """No HTTP, no database driver, no web framework is imported."""
    code = (
        "import sys, onward_ledger.trail, onward_ledger.trail_since, onward_ledger.signing\n"
        "heavy = {'httpx', 'psycopg', 'sqlite3', 'fastapi', 'pydantic', 'obstore', 'uvicorn'}\n"
        "sys.exit(str(sorted(heavy & set(sys.modules))) if heavy & set(sys.modules) else 0)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=30).returncode == 0
