"""A fresh bare repository for one piece of work with a remote one, through the `git` executable.

Nothing is kept between two pieces of work: what a killed process leaves behind is in nobody's way, and old leftovers
are removed. Only what is needed is fetched: one commit with its trees, or the commits of a bounded history.

Git is kept from everything that is not said here: no configuration of the system or the user, no hooks of ours, no
prompt, no other protocol than file, ssh and https, no inherited environment but the path, proxies and the ssh agent.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from onward_ledger.providers.interface import Deadline

PROTOCOLS = ("file", "ssh", "https")
PREFIX = "onward-git-"
NOT_IN = "the repository was not entered"  # why a push had no effect, in the words of `Workspace.push`
_INHERITED = ("PATH", "SSH_AUTH_SOCK", "HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy")
_OLD_SECONDS = 24 * 3600
# What git says when a push ended before anything of it was sent: in finding or entering the other repository.
_NOT_IN = (
    "fatal: unable to access",
    "fatal: Authentication failed",
    "fatal: could not read Username",
    "fatal: Could not read from remote repository",
    "fatal: the remote end hung up upon initial contact",
    "fatal: the receiving end does not support --atomic",
)

_ENVIRONMENT = {
    "LC_ALL": "C",
    "TZ": "UTC",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "true",
    "GIT_ALLOW_PROTOCOL": ":".join(PROTOCOLS),
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_LITERAL_PATHSPECS": "1",
}
_CONFIG = {
    "core.hooksPath": os.devnull,
    "credential.helper": "",
    "gc.auto": "0",
    "maintenance.auto": "false",
    "protocol.version": "2",
    # A base that is not the tip of any branch is still known to be there, so that nothing of it is sent again.
    "push.negotiate": "true",
    "http.followRedirects": "false",
    "http.lowSpeedLimit": "1",
    "http.lowSpeedTime": "30",
}


class GitFailed(Exception):
    """A git command ended with an error, or did not end in time; the message is its last words."""


@dataclass(frozen=True, kw_only=True)
class Remote:
    """Where the remote repository is, and what only its commands are told: configuration, and how ssh is called."""

    url: str
    config: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    ssh_command: str | None = field(default=None, repr=False)


@dataclass(frozen=True, kw_only=True)
class History:
    """The commits that a branch has behind a base. `cut`: the fetched history ends before all of them were seen."""

    commits: frozenset[str]
    cut: bool


class Workspace:
    """`with Workspace(remote, deadline) as work:` makes the repository, and removes it at the end."""

    def __init__(self, remote: Remote, deadline: Deadline, *, object_format: str = "sha1") -> None:
        self._remote = remote
        self._deadline = deadline
        self._object_format = object_format
        self._folder = Path()

    def __enter__(self) -> Self:
        self._folder = Path(tempfile.mkdtemp(prefix=PREFIX))
        try:
            self.run("init", "--quiet", "--bare", "--template=", f"--object-format={self._object_format}", ".")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)

    def refs(self, *names: str) -> dict[str, str]:
        """What these refs of the remote repository point at; those that it does not have are missing."""
        listed = self.run("ls-remote", "--quiet", "origin", *names).decode().splitlines()
        found = {name: commit for commit, _, name in (line.partition("\t") for line in listed)}
        return {name: found[name] for name in names if name in found}

    def fetch_snapshot(self, commit: str) -> None:
        """One commit and its trees."""
        self._fetch("--depth=1", "--filter=blob:none", "origin", commit)

    def fetch_history(self, tip: str, depth: int) -> None:
        """The commits behind a tip, without their trees, `depth` generations of them."""
        self._fetch(f"--depth={depth}", "--filter=tree:0", "origin", tip)

    def history(self, tip: str, base: str | None) -> History:
        """The fetched commits of `tip` that `base` does not have."""
        lines = self.run("rev-list", "--parents", tip).decode().splitlines()
        parents = {commit: rest for commit, *rest in (line.split() for line in lines)}
        commits = parents.keys() - _reachable(parents, base)
        shallow = self._folder / "shallow"
        ends = set(shallow.read_text().split()) if shallow.exists() else set[str]()
        return History(commits=frozenset(commits), cut=not ends.isdisjoint(commits))

    def saying(self, line: str, tip: str) -> set[str]:
        """Those fetched commits of `tip` whose message has this line: letters, digits, spaces, `-` and `:` only."""
        return set(self.run("rev-list", f"--grep=^{line}$", tip).decode().split())

    def is_commit(self, name: str) -> bool:
        """Whether this fetched object is a commit, and no tag or tree."""
        return self.run("cat-file", "-t", name).strip() == b"commit"

    def entries(self, commit: str, paths: Iterable[str]) -> dict[str, str]:
        """The modes of those paths that are in a fetched commit, and of the folders above them."""
        asked = {path.rsplit("/", up)[0] for path in paths for up in range(path.count("/") + 1)}
        listed = self.run("ls-tree", "-t", "-z", "--full-tree", commit, "--", *sorted(asked))
        lines = [line.partition("\t") for line in listed.decode().split("\0") if line]
        return {path: what.split()[0] for what, _, path in lines if path in asked}

    def import_commit(self, stream: bytes, ref: str) -> str:
        """Make what a fast-import stream describes; the id of the commit that it left under `ref`."""
        self.run("fast-import", "--quiet", "--date-format=raw", data=stream)
        return self.run("rev-parse", "--verify", ref).decode().strip()

    def push(self, commit: str, expected: Mapping[str, str | None]) -> str | None:
        """Set all these refs to a commit, or none: each only while it is what is expected (None: not there).

        None is success; text is why the remote repository, or a look at it, said no: then nothing was changed.
        GitFailed: what happened is not known.
        """
        leases = [f"--force-with-lease={ref}:{value or ''}" for ref, value in expected.items()]
        refspecs = [f"{commit}:{ref}" for ref in expected]
        atomic = ["--atomic"] if len(expected) > 1 else []
        # A thin pack would be made of differences to blobs that were not fetched.
        options = ["--porcelain", "--no-thin", *atomic, *leases]
        code, out, error = self._execute("push", *options, "origin", *refspecs)
        if code == 0:
            return None
        answers = [line.split("\t") for line in out.decode(errors="replace").splitlines() if line[1:2] == "\t"]
        if answers and all(flag == "!" and _says_no(why) for flag, _, why in answers):
            return "; ".join(dict.fromkeys(why for _, _, why in answers))
        # The look for common commits that a push begins with may fail by itself; what it says is not about the push.
        said = error.rpartition("push negotiation failed")[2].splitlines()
        if not answers and any(line.startswith(_NOT_IN) for line in said):
            return f"{NOT_IN}: {_last_words(error)}"
        raise GitFailed(_last_words(error))

    def run(self, *arguments: str, data: bytes | None = None) -> bytes:
        """The output of a git command; GitFailed where it ends with an error or not in time."""
        code, out, error = self._execute(*arguments, data=data)
        if code != 0:
            raise GitFailed(_last_words(error))
        return out

    def _fetch(self, *arguments: str) -> None:
        self.run("fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance", *arguments)

    def _execute(self, *arguments: str, data: bytes | None = None) -> tuple[int, bytes, str]:
        """Exit code, output and errors. Behind the deadline the command is killed, with all that it started."""
        with subprocess.Popen(
            ["git", *arguments],  # noqa: S607  git is looked up on the path, and checked when the kind is configured
            cwd=self._folder,
            env=self._environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        ) as process:
            try:
                out, error = process.communicate(data, timeout=max(self._deadline.remaining, 0))
            except BaseException as error:
                os.killpg(process.pid, signal.SIGKILL)
                if isinstance(error, subprocess.TimeoutExpired):
                    raise GitFailed(f"git {arguments[0]} did not end in time.") from None
                raise
        return process.returncode, out, error.decode(errors="replace")

    def _environment(self) -> dict[str, str]:
        config = {**_CONFIG, "remote.origin.url": self._remote.url, **self._remote.config}
        numbered = {"GIT_CONFIG_COUNT": str(len(config))}
        for number, (key, value) in enumerate(config.items()):
            numbered |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
        inherited = {name: os.environ[name] for name in _INHERITED if name in os.environ}
        ssh = {"GIT_SSH_COMMAND": self._remote.ssh_command} if self._remote.ssh_command else {}
        own = {"HOME": str(self._folder), "GIT_DIR": str(self._folder)}
        return {**inherited, **_ENVIRONMENT, **own, **ssh, **numbered}


def remove_leftovers() -> None:
    """Delete the repositories that killed processes of ours left, once they are a day old."""
    for path in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        try:
            status = path.lstat()
        except FileNotFoundError:
            continue
        if status.st_uid == os.getuid() and time.time() - status.st_mtime > _OLD_SECONDS:
            shutil.rmtree(path, ignore_errors=True)


def _reachable(parents: Mapping[str, list[str]], start: str | None) -> set[str]:
    found: set[str] = set()
    waiting = [start] if start in parents else []
    while waiting:
        commit = waiting.pop()
        if commit is not None and commit not in found:
            found.add(commit)
            waiting.extend(parents.get(commit, ()))
    return found


def _says_no(why: str) -> bool:
    """`[remote failure]` is the one answer that says nothing: the report of the other side is missing."""
    return why.startswith(("[rejected]", "[remote rejected]"))


def _last_words(error: str) -> str:
    """The lines that say what is wrong, short enough for a record."""
    lines = [line.strip() for line in error.splitlines() if line.strip()]
    telling = [line for line in lines if line.startswith(("fatal:", "error:", "remote:"))] or lines[-1:]
    return " ".join(telling)[:500] or "git failed without a word."
