"""The provider type `git` by itself: what it refuses to record, its settings, and the commit that follows from them."""

import base64
import os
from dataclasses import replace
from datetime import timedelta

import pytest

from onward_ledger import errors
from onward_ledger.objects import Objects
from onward_ledger.providers.configured import Context
from onward_ledger.providers.git import from_settings
from onward_ledger.providers.git_commit import commit_stream
from onward_ledger.providers.git_settings import GitSettings, remote_of
from onward_ledger.providers.git_work import PREFIX, Workspace, remove_leftovers
from onward_ledger.providers.interface import Deadline, ProviderClass, Refused
from tests.support.git_repos import SETTINGS, commit_action, commit_params, file
from tests.unit.test_ledger_action import RUN, action

BASE = "1" * 40


@pytest.fixture
def context(tmp_path):
    (tmp_path / "site.git").mkdir()
    return Context(objects=Objects(str(tmp_path / "objects")), folder=tmp_path)


@pytest.fixture
def provider(context):
    return from_settings(
        "site.commit", {**SETTINGS, "repository": "site.git", "branches": ["main", "agents/*"]}, context
    )


@pytest.mark.parametrize(
    "resource",
    [
        "site",
        "site/",
        "other/main",
        "site/release",
        "site/agents",
        "site/agents/../main",
        "site/agents/a b",
        "site/agents/a..b",
        "site/agents/a.lock",
        "site/agents/a:b",
        "site/agents/a~1",
        "site/agents/a\x00b",
        "site/agents/@{1}",
        "site/-main",
        "site/HEAD",
        "site//main",
        "refs/heads/main",
    ],
)
def test_a_branch_that_git_or_the_configuration_does_not_take_is_not_recorded(provider, resource):
    with pytest.raises(errors.BadRequest):
        provider.validate(RUN, resource, commit_params(BASE))


@pytest.mark.parametrize(
    "resource", ["site/main", "site/agents/one", "site/agents/a/b.c", "site/agents/ä", "site/agents/--force"]
)
def test_a_branch_that_matches_is_recorded(provider, resource):
    provider.validate(RUN, resource, commit_params(BASE))


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/etc/passwd",
        "../x",
        "a/../../x",
        "a//b",
        "a/",
        "./a",
        ".git/config",
        "a/.git/hooks/x",
        ".GIT/config",
        ".git./x",
        ".git /x",
        "git~1/config",
        ".g\u200cit/config",
        "\ufeff.git/config",
        "a\\b",
        "C:x",
        ".git::$INDEX_ALLOCATION/x",
        "a\nb",
        "a\x00b",
        "/".join("a" * 21),
        "a" * 901,
        None,
        7,
    ],
)
def test_a_path_that_leaves_the_tree_or_leads_into_git_s_own_folder_is_not_recorded(provider, path):
    for params in (commit_params(BASE, file(path)), commit_params(BASE, delete=[path])):
        with pytest.raises(errors.BadRequest, match=r"path|plain"):
            provider.validate(RUN, "site/main", params)


@pytest.mark.parametrize(
    "path", [".gitignore", ".github/x.yml", "a b/[id] #1 'x\".tsx", "ä/日本.txt", "-x", "--help", "..a"]
)
def test_an_unusual_path_is_recorded(provider, path):
    provider.validate(RUN, "site/main", commit_params(BASE, file(path)))
    provider.validate(RUN, "site/main", commit_params(BASE, files=[], delete=[path]))


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"base": "main"}, "full hex id"),
        ({"base": "1" * 39}, "full hex id"),
        ({"base": "--upload-pack=x"}, "full hex id"),
        ({"base": None, "create": False}, "nothing to build on"),
        ({"create": "yes"}, "true or false"),
        ({"message": " "}, "params.message"),
        ({"message": None}, "params.message"),
        ({"message": "x" * 10_001}, "params.message"),
        ({"message": "a\x00b"}, "NUL"),
        ({"message": "Good\n\nOnward-Action: 1"}, "that one is added"),
        ({"message": "Good\n\n onward-action : 1"}, "that one is added"),
        ({"author": "Anna"}, "params.author"),
        ({"author": {"name": "Anna"}}, "params.author"),
        ({"author": {"name": "Anna", "email": "a>b"}}, "params.author.email"),
        ({"author": {"name": "Anna\ncommitter X", "email": "a@b"}}, "params.author.name"),
        ({"author": {"name": " ", "email": "a@b"}}, "params.author.name"),
        ({"files": []}, "params.files"),
        ({"files": [file(), file()]}, "twice"),
        ({"files": [file("a"), file("a/b")]}, "below another"),
        ({"files": [file("a")], "delete": ["a"]}, "twice"),
        ({"files": [file() | {"source": "runs/other/x"}]}, "must lie below runs"),
        ({"files": [file() | {"mode": "100755"}]}, "exactly the members"),
        ({"files": "x"}, "params.files"),
        ({"delete": "x"}, "params.delete"),
        ({"force": True}, "exactly the members"),
    ],
)
def test_a_commit_that_cannot_be_meant_is_not_recorded(provider, changes, sentence):
    with pytest.raises(errors.BadRequest, match=sentence):
        provider.validate(RUN, "site/main", commit_params(BASE) | changes)


def test_what_is_staged_is_checked_before_git_is_asked(provider):
    assert provider.provider_class is ProviderClass.IDEMPOTENT and provider.key_lifetime_seconds is None
    assert isinstance(provider.send(commit_action(BASE), Deadline(30)), Refused), "nothing is staged here"


def test_the_stream_of_a_commit_is_made_of_the_record_alone():
    settings = GitSettings(**SETTINGS, repository="x")
    wanted = commit_action(BASE, file("a b"), file("run.sh"), delete=["c"], message="One\n\nTwo\n\n")
    stream = commit_stream(wanted, settings, [b"x\n", b"y"], {"run.sh": "100755"}, "refs/heads/x")
    message = f"One\n\nTwo\n\nOnward-Action: {wanted.action_id}\n"
    when = int(wanted.created_at.timestamp())
    assert stream.decode() == (
        "commit refs/heads/x\n"
        f"author Ledger <ledger@example.org> {when} +0000\n"
        f"committer Ledger <ledger@example.org> {when} +0000\n"
        f"data {len(message)}\n{message}\n"
        f"from {BASE}\n"
        'M 100644 inline "a b"\ndata 2\nx\n\n'
        'M 100755 inline "run.sh"\ndata 1\ny\n'
        'D "c"\n'
    )
    later = replace(wanted, updated_at=wanted.updated_at + timedelta(days=1), epoch=9, version=9, claims=4)
    assert commit_stream(later, settings, [b"x\n", b"y"], {"run.sh": "100755"}, "refs/heads/x") == stream


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"repository": "nowhere"}, "no folder"),
        ({"repository": "http://example.org/x.git"}, "file, ssh, https"),
        ({"repository": "ext::sh -c touch% /tmp/x"}, "no folder"),
        ({"repository": "git://example.org/x.git"}, "file, ssh, https"),
        ({"repository": "https://me:s3cr3t@example.org/x.git"}, "holds credentials"),
        ({"repository": "https://s3cr3t@example.org/x.git"}, "holds credentials"),
        ({"password_env": "NOT_SET_ANYWHERE"}, "NOT_SET_ANYWHERE is not set"),
        ({"password_env": "PATH"}, "only a repository with an https URL"),
    ],
)
def test_settings_that_cannot_be_meant_are_refused_in_words(context, settings, sentence):
    with pytest.raises(errors.BadRequest, match=sentence) as raised:
        from_settings("site.commit", {**SETTINGS, "repository": "site.git", **settings}, context)
    assert "s3cr3t" not in str(raised.value)


@pytest.mark.parametrize(
    "settings",
    [
        {"password": "s3cr3t"},
        {"name": "a/b"},
        {"committer_name": "a\nb"},
        {"committer_email": "<a@b>"},
        {"search_depth": 0},
        {"branches": []},
    ],
)
def test_settings_are_closed_and_take_no_secret_in_the_clear(context, settings):
    with pytest.raises(ValueError) as raised:
        from_settings("site.commit", {**SETTINGS, "repository": "site.git", **settings}, context)
    assert "s3cr3t" not in str(raised.value)


def test_a_machine_without_git_is_told_so_at_the_start(context, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(errors.BadRequest, match="executable git is not on the path"):
        from_settings("site.commit", {**SETTINGS, "repository": "site.git"}, context)


def test_a_password_goes_to_git_s_environment_and_nowhere_else(tmp_path, monkeypatch):
    monkeypatch.setenv("SITE_PASSWORD", "s3cr3t")
    settings = GitSettings(
        **SETTINGS, repository="https://example.org/x.git", username="bot", password_env="SITE_PASSWORD"
    )
    remote = remote_of(settings, tmp_path)
    encoded = base64.b64encode(b"bot:s3cr3t").decode()
    environment = Workspace(remote, Deadline(30))._environment()
    assert f"Authorization: Basic {encoded}" in environment.values()
    for text in (repr(remote), repr(settings), " ".join(k for k in environment)):
        assert "s3cr3t" not in text and encoded not in text
    assert "SITE_PASSWORD" not in environment, "what is not needed is not passed on"


def test_ssh_never_asks_and_takes_the_configured_key_only(tmp_path):
    settings = {"repository": "git@example.org:site.git", "ssh_key_file": "a key", "known_hosts_file": "hosts"}
    remote = remote_of(GitSettings(**SETTINGS, **settings), tmp_path)
    assert remote.url == "git@example.org:site.git"
    for part in ("BatchMode=yes", "StrictHostKeyChecking=yes", f"-i '{tmp_path}/a key'", f"File={tmp_path}/hosts"):
        assert part in remote.ssh_command


def test_only_old_leftovers_of_our_own_are_removed(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    old, young, other = tmp_path / f"{PREFIX}old", tmp_path / f"{PREFIX}young", tmp_path / "other"
    for folder in (old, young, other):
        folder.mkdir()
    for folder in (old, other):
        os.utime(folder, (1, 1))
    remove_leftovers()
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"{PREFIX}young", "other"]


def test_a_workspace_is_removed_also_when_the_work_fails(tmp_path, monkeypatch, context):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    remote = remote_of(GitSettings(**SETTINGS, repository="site.git"), tmp_path)
    with pytest.raises(ZeroDivisionError), Workspace(remote, Deadline(30)):
        assert list(tmp_path.glob(f"{PREFIX}*"))
        raise ZeroDivisionError
    assert not list(tmp_path.glob(f"{PREFIX}*"))


def test_two_actions_have_two_markers(provider):
    first, second = action(resource="site/main"), action(resource="site/main", action_id=RUN)
    params = commit_params(BASE)
    refs = [set(provider._expected(replace(one, params=params))) for one in (first, second)]
    assert refs[0] & refs[1] == {"refs/heads/main"}
