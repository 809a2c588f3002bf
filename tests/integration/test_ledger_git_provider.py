"""The provider type `git` on a real bare repository: one commit, whatever is killed, late, lost or moved."""

import base64
import os
import subprocess
import time
from dataclasses import replace
from datetime import timedelta

import pytest

from onward_ledger.action import Status
from onward_ledger.providers import git_commit
from onward_ledger.providers.git import GitCommit, SeveralCommits
from onward_ledger.providers.git_work import GitFailed, Workspace
from onward_ledger.providers.interface import (
    Absent,
    Applied,
    CannotTell,
    Deadline,
    DeadlinePassed,
    NotSent,
    ProviderClass,
    Refused,
    Several,
)
from tests.support.cli_world import wait_until_gone
from tests.support.configured import killed_in_the_send, ledger_over, perform
from tests.support.git_repos import Repository, commit_action, file, provider_of
from tests.support.git_server import PASSWORD, USER, git_server
from tests.support.killed import die, run_killed, start

pytestmark = pytest.mark.campaign


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    return Repository(tmp_path_factory.mktemp("template"))


@pytest.fixture
def repository(template, tmp_path):
    return Repository(tmp_path, like=template)


@pytest.fixture
def provider(repository, tmp_path):
    return provider_of(tmp_path)


@pytest.fixture
def wanted(repository):
    return commit_action(repository.tip("main"))


def marker(wanted):
    return f"refs/onward/{wanted.action_id}"


def test_a_commit_is_pushed_and_found_and_a_second_send_changes_nothing(provider, repository, wanted):
    assert provider.lookup(wanted) == Absent()
    applied = provider.send(wanted, Deadline(30))
    tip = repository.tip("main")
    assert applied == Applied(
        provider_id=tip,
        receipt={
            "repository": "site",
            "branch": "main",
            "commit": tip,
            "base": wanted.params["base"],
            "files": [{"path": "pages/new.html", "digest": file()["digest"], "size": 6}],
            "delete": [],
        },
    )
    assert repository.refs() == {"refs/heads/main": tip, marker(wanted): tip}
    assert repository.show(tip, "pages/new.html") == "hello"
    assert repository.show(tip, "pages/index.html") == "<p>two</p>"
    assert repository.git("log", "-1", "--format=%P|%an|%ae|%cn|%at|%ct|%B", tip) == "|".join(
        [wanted.params["base"], "Ledger", "ledger@example.org", "Ledger"]
        + [str(int(wanted.created_at.timestamp()))] * 2
        + [f"Add a page\n\nOnward-Action: {wanted.action_id}"]
    )
    before = repository.refs()
    assert provider.lookup(wanted) == applied == provider.send(wanted, Deadline(30))
    assert repository.refs() == before and repository.of_action(wanted) == [tip]
    repository.git("fsck", "--strict", "--no-dangling")


@pytest.mark.parametrize("setting", ["uploadpack.allowFilter", "receive.advertiseAtomic", "receive.fsckObjects"])
def test_a_server_that_is_set_up_in_another_way(provider, repository, wanted, setting):
    """One that sends all of a commit where a part would do, one without atomic pushes, and one that looks closely."""
    repository.git("config", setting, "true" if setting == "receive.fsckObjects" else "false")
    outcome = provider.send(wanted, Deadline(30))
    if setting == "receive.advertiseAtomic":
        assert isinstance(outcome, NotSent) and "--atomic" in outcome.reason
        assert repository.refs() == {"refs/heads/main": wanted.params["base"]}
        return
    assert isinstance(outcome, Applied), outcome
    repository.commit("main", {"README.md": "# Mine\n"})
    assert provider.lookup(wanted) == outcome


def test_files_are_replaced_deleted_and_stay_executable(provider, repository):
    base = repository.tip("main")
    files = [file("run.sh"), file("pages/index.html", b"other\n"), file('odd/näme "x" #1.txt')]
    author = {"name": "Änne Ü.", "email": "anne@example.org"}
    wanted = commit_action(base, *files, delete=["README.md"], author=author)
    provider.validate(wanted.run_id, wanted.resource, wanted.params)
    applied = provider.send(wanted, Deadline(30))
    assert isinstance(applied, Applied), applied
    tip = applied.provider_id
    listed = repository.git("ls-tree", "-r", "-z", tip).rstrip("\0").split("\0")
    assert {line.partition("\t")[2]: line.split()[0] for line in listed} == {
        "run.sh": "100755",
        "pages/index.html": "100644",
        'odd/näme "x" #1.txt': "100644",
    }
    assert repository.git("log", "-1", "--format=%an <%ae>|%cn", tip) == "Änne Ü. <anne@example.org>|Ledger"


@pytest.mark.parametrize("behind", [0, 1])
def test_a_new_branch_is_made_from_any_commit_or_from_nothing(provider, repository, behind):
    base = repository.git("rev-parse", f"main~{behind}")
    wanted = commit_action(base, resource="site/agents/one", create=True)
    assert isinstance(provider.send(wanted, Deadline(30)), Applied)
    assert repository.git("rev-parse", "agents/one^") == base
    first = replace(commit_action(None, resource="site/pages"), action_id=wanted.action_id[::-1])
    assert isinstance(provider.send(first, Deadline(30)), Applied)
    assert repository.git("rev-list", "--count", "pages") == "1"
    assert isinstance(provider.send(replace(first, action_id=first.run_id), Deadline(30)), Refused), "it is there now"


def test_a_repository_of_the_newer_object_format_takes_a_commit_too(tmp_path):
    repository = Repository(tmp_path, object_format="sha256")
    wanted = commit_action(repository.tip("main"))
    assert len(wanted.params["base"]) == 64
    provider = provider_of(tmp_path)
    provider.validate(wanted.run_id, wanted.resource, wanted.params)
    applied = provider.send(wanted, Deadline(30))
    assert isinstance(applied, Applied), applied
    repository.commit("main", {"README.md": "# Mine\n"})
    assert provider.lookup(wanted) == applied


def test_the_commit_follows_from_the_record_alone(provider, repository, tmp_path, wanted):
    first = provider.send(wanted, Deadline(30)).provider_id
    for ref in repository.refs():
        repository.git("update-ref", "-d", ref)
    repository.git("update-ref", "refs/heads/main", wanted.params["base"])
    assert provider_of(tmp_path).send(wanted, Deadline(30)).provider_id == first
    # Control: with fresh dates the same request makes another commit, and this comparison notices.
    for ref in repository.refs():
        repository.git("update-ref", "-d", ref)
    repository.git("update-ref", "refs/heads/main", wanted.params["base"])
    fresh = replace(wanted, created_at=wanted.created_at + timedelta(seconds=1))
    assert provider.send(fresh, Deadline(30)).provider_id != first


def test_a_branch_that_somebody_moved_is_refused_and_left_alone(provider, repository, wanted):
    tip = repository.commit("main", {"README.md": "# Mine\n"})
    refused = provider.send(wanted, Deadline(30))
    assert isinstance(refused, Refused) and tip in refused.reason
    assert provider.lookup(wanted) == Absent()
    assert repository.refs() == {"refs/heads/main": tip}


def test_a_branch_that_moved_on_behind_our_commit_still_has_it(provider, repository, wanted):
    applied = provider.send(wanted, Deadline(30))
    for n in range(3):
        repository.commit("main", {"README.md": f"# {n}\n"})
    before = repository.refs()
    assert provider.lookup(wanted) == applied == provider.send(wanted, Deadline(30))
    assert repository.refs() == before


@pytest.mark.parametrize("what", ["deleted", "reset"])
def test_a_commit_is_remembered_when_its_branch_is_gone_or_taken_back(repository, tmp_path, wanted, what):
    """Somebody merges and deletes the branch, or does not want the commit: a late resend must not bring it back."""

    def take_back():
        change = ["-d"] if what == "deleted" else []
        value = [] if what == "deleted" else [wanted.params["base"]]
        repository.git("update-ref", *change, f"refs/heads/{branch}", *value)

    branch = "agents/one" if what == "deleted" else "main"
    wanted = replace(wanted, resource=f"site/{branch}", params=wanted.params | {"create": what == "deleted"})
    provider = provider_of(tmp_path)
    applied = provider.send(wanted, Deadline(30))
    take_back()
    assert provider.lookup(wanted) == applied == provider.send(wanted, Deadline(30))
    assert repository.tip(branch) == (None if what == "deleted" else wanted.params["base"])
    # Control: without marker refs the repository forgets, and it is pushed again: that one is not called idempotent.
    forgetful = provider_of(tmp_path, marker_refs=False)
    assert provider.provider_class is ProviderClass.IDEMPOTENT
    assert forgetful.provider_class is ProviderClass.QUERYABLE
    repository.git("update-ref", "-d", marker(wanted))
    assert forgetful.lookup(wanted) == Absent()
    assert forgetful.send(wanted, Deadline(30)) == applied
    assert repository.tip(branch) == applied.provider_id and marker(wanted) not in repository.refs()


def test_a_rebased_commit_is_found_under_its_new_name(provider, repository, wanted):
    old = provider.send(wanted, Deadline(30)).provider_id
    repository.git("update-ref", "refs/heads/main", wanted.params["base"])
    repository.commit("main", {"README.md": "# Mine\n"})
    message = repository.git("log", "-1", "--format=%B", old)
    new = repository.commit("main", {"pages/new.html": "hello\n"}, message)
    found = provider.lookup(wanted)
    assert isinstance(found, Applied) and found.provider_id == new != old


def test_two_commits_of_an_action_are_several_and_a_send_does_not_choose(provider, repository, wanted):
    first = provider.send(wanted, Deadline(30)).provider_id
    second = repository.commit("main", {"a": "b"}, f"Again\n\nOnward-Action: {wanted.action_id}\n")
    found = provider.lookup(wanted)
    assert isinstance(found, Several)
    assert {effect.provider_id for effect in found.effects} == {first, second}
    with pytest.raises(SeveralCommits):
        provider.send(wanted, Deadline(30))


def test_a_trailer_before_the_base_is_another_story_and_is_not_found(provider, repository):
    claims = commit_action(None)
    base = repository.commit("main", {"a": "b"}, f"Old\n\nOnward-Action: {claims.action_id}\n")
    wanted = commit_action(base)
    assert wanted.action_id == claims.action_id
    repository.commit("main", {"README.md": "# Mine\n"})
    assert provider.lookup(wanted) == Absent()


def test_a_search_that_does_not_reach_the_base_cannot_tell(repository, tmp_path, wanted):
    for n in range(5):
        repository.commit("main", {"README.md": f"# {n}\n"})
    assert isinstance(provider_of(tmp_path, search_depth=4).lookup(wanted), CannotTell)
    assert provider_of(tmp_path, search_depth=6).lookup(wanted) == Absent()


@pytest.mark.parametrize(
    ("files", "deleted", "sentence"),
    [
        ([file("link/x")], [], "link is no folder"),
        ([file("README.md/x")], [], "README.md is no folder"),
        ([file("link")], [], "no regular file"),
        ([file("pages")], [], "no regular file"),
        ([], ["pages"], "no file pages"),
        ([], ["nothing"], "no file nothing"),
        ([], ["link/x"], "link is no folder"),
    ],
)
def test_what_stands_in_the_way_in_the_base_is_refused(provider, repository, files, deleted, sentence):
    base = repository.commit("main", {"link": "/etc"}, modes={"link": "120000"})
    wanted = commit_action(base, files=files, delete=deleted)
    provider.validate(wanted.run_id, wanted.resource, wanted.params)
    refused = provider.send(wanted, Deadline(30))
    assert isinstance(refused, Refused) and sentence in refused.reason
    assert repository.refs() == {"refs/heads/main": base}


def test_a_base_that_is_not_there_or_no_commit_is_refused(provider, repository):
    missing = commit_action("1" * 40, resource="site/new", create=True)
    assert provider.send(missing, Deadline(30)) == Refused(f"The repository has no commit {'1' * 40}.")
    blob = repository.git("rev-parse", "main:README.md")
    refused = provider.send(commit_action(blob, resource="site/new", create=True), Deadline(30))
    assert refused == Refused(f"{blob} is not a commit.")


def test_a_repository_that_cannot_be_reached_is_not_sent_and_cannot_tell(repository, tmp_path, wanted):
    for gone in ("ssh://git@127.0.0.1:9/site.git", "https://127.0.0.1:9/site.git"):
        provider = provider_of(tmp_path, repository=gone)
        assert isinstance(provider.send(wanted, Deadline(30)), NotSent)
        assert isinstance(provider.lookup(wanted), CannotTell)


def test_nothing_is_pushed_behind_the_deadline(provider, repository, wanted, monkeypatch):
    real, deadline = GitCommit._prepare, Deadline(30)

    def slow(*arguments):
        commit = real(*arguments)
        object.__setattr__(deadline, "began", -1e9)
        return commit

    before = repository.refs()
    assert isinstance(provider.send(wanted, replace(deadline, began=-1e9)), NotSent)
    monkeypatch.setattr(GitCommit, "_prepare", slow)
    with pytest.raises(DeadlinePassed):
        provider.send(wanted, deadline)
    assert repository.refs() == before


@pytest.mark.parametrize("hook", ["pre-receive", "update"])
def test_a_push_that_the_server_declines_is_refused(provider, repository, wanted, hook):
    before = repository.refs()
    path = repository.hook(hook, "echo only reviewed work >&2; exit 1")
    refused = provider.send(wanted, Deadline(30))
    assert isinstance(refused, Refused) and "hook declined" in refused.reason
    assert repository.refs() == before
    path.unlink()
    assert isinstance(provider.send(wanted, Deadline(30)), Applied), "control: the hook was why"


@pytest.mark.parametrize("ref", ["refs/heads/main", "marker"])
def test_a_lock_that_a_dead_server_left_is_no_refusal(provider, repository, wanted, ref):
    lock = repository.path / f"{marker(wanted) if ref == 'marker' else ref}.lock"
    lock.parent.mkdir(parents=True, exist_ok=True)
    lock.touch()
    before = repository.refs()
    assert isinstance(provider.send(wanted, Deadline(30)), NotSent)
    assert repository.refs() == before, "all or nothing"
    lock.unlink()
    assert isinstance(provider.send(wanted, Deadline(30)), Applied)


def test_a_race_that_is_lost_to_ourselves_is_found_and_one_that_is_lost_to_others_is_refused(
    repository, tmp_path, wanted, monkeypatch
):
    """Another instance, or somebody else, pushes between our look and our push."""
    real = GitCommit._prepare

    def after(moves):
        def prepare(self, work, action, staged):
            commit = real(self, work, action, staged)
            monkeypatch.setattr(GitCommit, "_prepare", real)
            moves()
            return commit

        monkeypatch.setattr(GitCommit, "_prepare", prepare)

    provider = provider_of(tmp_path)
    after(lambda: provider_of(tmp_path).send(wanted, Deadline(30)))
    applied = provider.send(wanted, Deadline(30))
    assert isinstance(applied, Applied) and repository.of_action(wanted) == [applied.provider_id]
    other = replace(commit_action(repository.tip("main")), action_id=wanted.run_id)
    after(lambda: repository.commit("main", {"README.md": "# Mine\n"}))
    assert isinstance(provider.send(other, Deadline(30)), Refused)
    assert repository.of_action(other) == []


def test_a_timeout_kills_git_and_what_it_started_and_the_outcome_is_unknown(provider, repository, wanted, tmp_path):
    repository.hook("pre-receive", f"echo $$ > {tmp_path}/hook; sleep 600 & wait")
    deadline = Deadline(1.5)
    with pytest.raises(GitFailed, match="push did not end in time"):
        provider.send(wanted, deadline)
    assert deadline.remaining > -5
    wait_until_gone(int((tmp_path / "hook").read_text()))
    assert provider.lookup(wanted) == Absent()


# What a killed service leaves. The boundaries are those of the git commands, and those that a server's hooks show.

COMMANDS = ("init", "ls-remote", "fetch", "cat-file", "ls-tree", "fast-import", "rev-parse", "push")
HOOKS = ("pre-receive", "update", "reference-transaction prepared", "reference-transaction committed", "post-receive")


def killed_around(folder, wanted, command, window):
    """Send in this process, and be killed before or after one of its git commands."""
    real = Workspace._execute

    def dying(self, *arguments, **more):
        doomed = arguments[0] == command
        if doomed and window == "before":
            die()
        result = real(self, *arguments, **more)
        if doomed:
            die()
        return result

    Workspace._execute = dying
    provider_of(folder).send(wanted, Deadline(30))


def send(folder, wanted):
    provider_of(folder).send(wanted, Deadline(30))


def assert_one_commit(folder, repository, wanted, *, found):
    """The look-up tells the truth, the same send makes it one, and once more changes nothing."""
    provider = provider_of(folder)
    assert isinstance(provider.lookup(wanted), found)
    applied = provider.send(wanted, Deadline(30))
    assert isinstance(applied, Applied)
    assert provider.send(wanted, Deadline(30)) == provider.lookup(wanted) == applied
    assert repository.of_action(wanted) == [applied.provider_id]
    assert repository.refs() == {"refs/heads/main": applied.provider_id, marker(wanted): applied.provider_id}


@pytest.mark.parametrize(("command", "window"), [*((command, "before") for command in COMMANDS), ("push", "after")])
def test_killed_around_any_git_command_there_is_one_commit(repository, tmp_path, wanted, command, window):
    """Behind one command is before the next."""
    run_killed(killed_around, tmp_path, wanted, command, window)
    assert_one_commit(tmp_path, repository, wanted, found=Applied if window == "after" else Absent)


def test_the_commands_of_a_send_are_those_that_are_killed_above(provider, wanted, monkeypatch):
    seen, real = [], Workspace._execute
    monkeypatch.setattr(Workspace, "_execute", lambda self, *a, **more: (seen.append(a[0]), real(self, *a, **more))[1])
    provider.send(wanted, Deadline(30))
    assert tuple(dict.fromkeys(seen)) == COMMANDS


@pytest.mark.parametrize("hook", HOOKS)
def test_killed_while_the_push_is_under_way_there_is_one_commit(repository, tmp_path, wanted, hook):
    """The service is killed at a moment that the server chooses; the push that it started goes on by itself."""
    name, _, state = hook.partition(" ")
    victim, done = tmp_path / "victim", tmp_path / "done"
    wait = f"until [ -s {victim} ]; do sleep 0.01; done"
    kill = f'{wait}; kill -9 $(cat {victim}); touch {done}; mv "$0" "$0.fired"; exit 0'
    repository.hook(name, f'[ -z "{state}" ] || [ "$1" = "{state}" ] || exit 0\n{kill}')
    process = start(send, tmp_path, wanted)
    victim.write_text(str(process.pid))
    process.join(30)
    assert process.exitcode == -9
    until(done.exists)
    until(lambda: repository.tip("main") != wanted.params["base"])
    assert_one_commit(tmp_path, repository, wanted, found=Applied)


def until(true):
    end = time.monotonic() + 20
    while not true():
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.mark.parametrize(("state", "found"), [("prepared", Absent), ("committed", Applied)])
def test_a_server_that_dies_in_the_push_leaves_the_outcome_unknown_and_then_one_commit(
    provider, repository, tmp_path, wanted, state, found
):
    path = repository.hook("reference-transaction", f'[ "$1" = {state} ] || exit 0\nkill -9 $PPID; exit 0')
    with pytest.raises(GitFailed):
        provider.send(wanted, Deadline(30))
    path.unlink()
    if state == "prepared":
        assert isinstance(provider.send(wanted, Deadline(30)), NotSent), "the dead server's locks are still there"
    for lock in repository.path.rglob("*.lock"):
        lock.unlink()
    assert_one_commit(tmp_path, repository, wanted, found=found)


@pytest.mark.parametrize(("window", "claims"), [("before", 2), ("after", 1)])
def test_a_service_that_is_killed_around_its_send_ends_with_one_commit_and_its_receipt(
    repository, tmp_path, wanted, window, claims
):
    run_killed(killed_in_the_send, tmp_path, provider_of, (), wanted, window)
    with ledger_over(tmp_path, provider_of(tmp_path)) as ledger:
        done = perform(ledger, wanted)
        assert (done.status, done.claims, done.provider_id) == (Status.SUCCEEDED, claims, repository.tip("main"))
        assert perform(ledger, wanted).receipt == done.receipt
    assert repository.of_action(wanted) == [done.provider_id]


def test_four_services_that_send_at_once_make_one_commit(repository, tmp_path, wanted):
    processes = [start(send, tmp_path, wanted) for _ in range(4)]
    for process in processes:
        process.join(60)
        assert process.exitcode == 0
    assert_one_commit(tmp_path, repository, wanted, found=Applied)


def test_control_a_provider_that_builds_on_whatever_is_there_makes_two_commits_and_is_found_out(
    provider, repository, wanted, monkeypatch
):
    provider.send(wanted, Deadline(30))

    class Careless(GitCommit):
        """Takes the tip for the base, and keeps no marker."""

        def _find(self, work, action, there):
            return Absent()

        def _prepare(self, work, action, staged):
            tip = work.refs("refs/heads/main")["refs/heads/main"]
            work.fetch_snapshot(tip)
            onto = replace(action, params=action.params | {"base": tip})
            return work.import_commit(
                git_commit.commit_stream(onto, self._settings, staged, {}, "refs/heads/x"), "refs/heads/x"
            )

        def _expected(self, action):
            with Workspace(self._remote, Deadline(30)) as work:
                return work.refs("refs/heads/main")

    careless = Careless("x", settings=provider._settings, remote=provider._remote, staging=provider._staging)
    assert isinstance(careless.send(wanted, Deadline(30)), Applied)
    assert len(repository.of_action(wanted)) == 2
    assert isinstance(provider.lookup(wanted), Several)


def test_git_takes_nothing_from_the_configuration_of_the_user(repository, tmp_path, wanted, monkeypatch):
    """A hook, a credential helper, another URL and a signing key in the user's configuration have no effect."""
    trap, home = tmp_path / "trapped", tmp_path / "home"
    hooks = home / "hooks"
    hooks.mkdir(parents=True)
    for name in ("pre-push", "reference-transaction", "post-rewrite"):
        (hooks / name).write_text(f"#!/bin/sh\ntouch {trap}\n")
        (hooks / name).chmod(0o755)
    lines = [f"[core]\n hooksPath = {hooks}", '[url "/nowhere"]\n insteadOf = file://', "[commit]\n gpgSign = true"]
    (home / ".gitconfig").write_text("\n".join(lines))
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("GIT_DIR", "/nowhere")
    monkeypatch.setenv("GIT_AUTHOR_DATE", "2001-01-01T00:00:00")
    assert isinstance(provider_of(tmp_path).send(wanted, Deadline(30)), Applied)
    assert not trap.exists()
    monkeypatch.delenv("GIT_DIR")
    listed = subprocess.run(["git", "ls-remote", f"file://{repository.path}"], capture_output=True, text=True)
    assert "/nowhere" in listed.stderr, "control: this configuration has an effect on others"


def test_a_commit_goes_over_https_with_a_password_that_is_told_to_nobody_else(
    repository, tmp_path, wanted, monkeypatch
):
    (tmp_path / "password").write_text(PASSWORD + "\n")
    with git_server(repository) as url:
        login = {"repository": url, "ca_file": "ca.pem", "username": USER, "password_file": "password"}
        commands, real = [], subprocess.Popen
        monkeypatch.setattr(
            subprocess, "Popen", lambda command, **more: (commands.append(command), real(command, **more))[1]
        )
        provider = provider_of(tmp_path, **login)
        assert provider.lookup(wanted) == Absent()
        applied = provider.send(wanted, Deadline(30))
        assert isinstance(applied, Applied), applied
        assert repository.tip("main") == applied.provider_id and repository.refs()[marker(wanted)]
        assert provider.lookup(wanted) == applied
        encoded = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
        told = f"{commands} {applied} {vars(provider)}"
        assert len(commands) > 8 and PASSWORD not in told and encoded not in told
        # Controls: another password, and a certificate of somebody else.
        (tmp_path / "password").write_text("wrong-word")
        outcome = provider_of(tmp_path, **login).send(wanted, Deadline(30))
        assert isinstance(outcome, NotSent) and "wrong-word" not in outcome.reason
        (tmp_path / "password").write_text(PASSWORD)
        assert isinstance(provider_of(tmp_path, **login | {"ca_file": None}).send(wanted, Deadline(30)), NotSent)


def test_a_repository_that_may_be_read_only_is_definitely_not_pushed_to(repository, tmp_path, wanted):
    (tmp_path / "password").write_text(PASSWORD)
    with git_server(repository) as url:
        repository.git("config", "http.receivepack", "false")
        login = {"repository": url, "ca_file": "ca.pem", "username": USER, "password_file": "password"}
        outcome = provider_of(tmp_path, **login).send(wanted, Deadline(30))
        assert isinstance(outcome, NotSent) and "403" in outcome.reason, outcome
        repository.git("config", "http.receivepack", "true")
        assert isinstance(provider_of(tmp_path, **login).send(wanted, Deadline(30)), Applied)


@pytest.mark.parametrize(
    ("receive", "kind"),
    [
        ("echo ERROR: no write access >&2; exit 128", NotSent),
        ("exit 255", NotSent),
        ('sh -c "$command"', Applied),
    ],
)
def test_over_ssh_a_connection_that_does_not_get_in_is_definite(
    repository, tmp_path, wanted, monkeypatch, receive, kind
):
    """The program `ssh` is one of ours here: it runs the command on this machine, or fails as a network does."""
    fake = tmp_path / "bin" / "ssh"
    fake.parent.mkdir()
    fake.write_text(
        f"""#!/bin/sh
echo "$@" >> {tmp_path}/called
for command in "$@"; do :; done
case "$command" in
  git-receive-pack*) {receive} ;;
  *) exec sh -c "$command" ;;
esac
"""
    )
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{fake.parent}:{os.environ['PATH']}")
    provider = provider_of(tmp_path, repository=f"ssh://git@host.test{repository.path}", ssh_key_file="key")
    outcome = provider.send(wanted, Deadline(30))
    assert isinstance(outcome, kind), outcome
    called = (tmp_path / "called").read_text()
    assert "BatchMode=yes" in called and f"-i {tmp_path}/key git@host.test git-receive-pack" in called
    fake.unlink()
    assert_one_commit(tmp_path, repository, wanted, found=Applied if kind is Applied else Absent)
