"""The provider type `git`: a commit on a branch of a repository, pushed by compare-and-set.

Class idempotent, and why: the commit is a pure function of the action (its base, files, message, author and time are
all in the record), so every send makes the same commit with the same id. A branch takes it only while it is at the
expected commit, so of two sends one has its effect and the other finds it. In the same atomic push a marker ref
`refs/onward/<action_id>` is made, which must not be there before. It is the idempotency key, and the repository keeps
it: also when the branch is merged and deleted, or reset by a person, nothing is pushed a second time.

Without marker refs (`marker_refs = false`, for servers that take branches only) the commit is all that the repository
remembers, and whoever takes the branch back to its base makes room for it again. So the class is queryable then: the
look-up searches the branch.
"""

from __future__ import annotations

import subprocess
from contextlib import ExitStack
from fnmatch import fnmatchcase

from onward_ledger.action import Action, Json
from onward_ledger.errors import BadRequest
from onward_ledger.objects import Objects
from onward_ledger.providers.configured import Context
from onward_ledger.providers.git_commit import TRAILER, check_params, commit_stream, obstacle
from onward_ledger.providers.git_settings import GitSettings, remote_of
from onward_ledger.providers.git_work import NOT_IN, GitFailed, Remote, Workspace, remove_leftovers
from onward_ledger.providers.interface import (
    Absent,
    Applied,
    CannotTell,
    Deadline,
    Found,
    NotSent,
    Outcome,
    ProviderClass,
    Refused,
    SendingProvider,
    Several,
)
from onward_ledger.providers.staged import read_staged

_OURS = "refs/heads/onward"  # in a workspace
# What is said while others hold the refs, a disk is full, or a server is not set up for us: it may do later.
_FOR_NOW = ("lock", "failed to update ref", "transaction failed", "unpacker error", "stale info", NOT_IN)


class SeveralCommits(Exception):
    """The branch holds more than one commit of this action: for a look-up to record."""


def from_settings(kind: str, settings: Json, context: Context) -> GitCommit:
    """The provider of one kind; see GitSettings."""
    given = GitSettings.model_validate(settings)
    remove_leftovers()
    return GitCommit(kind, settings=given, remote=remote_of(given, context.folder), staging=context.objects)


class GitCommit(SendingProvider):
    """The resource is `<name>/<branch>`, with the configured name of the repository. Params:

    `base`      the commit to build on, by its full id; null for a first commit
    `create`    false: the branch must be at `base`; true: it must not exist
    `message`   the commit message; the trailer with the action's id is added
    `author`    `{"name", "email"}`, or null for the configured committer
    `files`     `[{"path", "source", "digest", "size"}]`; an executable file stays executable
    `delete`    paths of files
    """

    provider_class = ProviderClass.IDEMPOTENT
    deadline_seconds = 60.0

    def __init__(self, kind: str, *, settings: GitSettings, remote: Remote, staging: Objects) -> None:
        self.kind = kind
        if not settings.marker_refs:
            self.provider_class = ProviderClass.QUERYABLE
        self._settings = settings
        self._remote = remote
        self._staging = staging

    def validate(self, run_id: str, resource: str, params: Json) -> None:
        """The branch is one that the configuration allows; paths are plain; sources lie below `runs/<run_id>/`."""
        name, _, branch = resource.partition("/")
        if name != self._settings.name:
            raise BadRequest(f"The resource must be {self._settings.name}/<branch>.")
        if branch == "HEAD" or branch.startswith("-") or not _is_ref(f"refs/heads/{branch}"):
            raise BadRequest(f"{branch!r} is not the name of a branch.")
        if not any(fnmatchcase(branch, pattern) for pattern in self._settings.branches):
            raise BadRequest(f"The branch {branch} is none of {', '.join(self._settings.branches)}.")
        check_params(run_id, params)

    def send(self, action: Action, deadline: Deadline) -> Outcome:
        """Make the commit in a fresh repository, and push it.

        Until the push nothing can have happened, so whatever fails is definite. So is a push that is said no to; one
        that ends otherwise leaves the outcome unknown.
        """
        staged = read_staged(self._staging, action.params["files"])
        if not isinstance(staged, list):
            return staged
        with ExitStack() as stack:
            try:
                work = stack.enter_context(self._workspace(action, deadline))
                commit = self._prepare(work, action, staged)
            except (GitFailed, OSError) as error:
                return NotSent(f"The commit could not be prepared: {error}")
            if not isinstance(commit, str):
                return commit
            deadline.check()
            refusal = work.push(commit, self._expected(action))
            return self._applied(action, commit) if refusal is None else self._rejected(work, action, refusal)

    def lookup(self, action: Action) -> Found:
        """Read the marker ref, and search the branch for the trailer, behind the base and `search_depth` deep."""
        try:
            with self._workspace(action, Deadline(self.deadline_seconds)) as work:
                return self._find(work, action, work.refs(*self._expected(action)))
        except GitFailed as error:
            return CannotTell(str(error))

    def _workspace(self, action: Action, deadline: Deadline) -> Workspace:
        base = action.params["base"] or ""
        return Workspace(self._remote, deadline, object_format="sha256" if len(base) == 64 else "sha1")

    def _expected(self, action: Action) -> dict[str, str | None]:
        """The refs that a push sets, and what each has to be before; the branch first, the marker last.

        A server that dies between the two has set the branch, where the trailer is found.
        """
        branch, marker = _branch(action), _marker(action)
        expected = {branch: None if action.params["create"] else action.params["base"]}
        return {**expected, marker: None} if self._settings.marker_refs else expected

    def _prepare(self, work: Workspace, action: Action, staged: list[bytes]) -> str | Outcome:
        """The commit, ready to be pushed; or an outcome, when there is nothing to push."""
        params, base = action.params, action.params["base"]
        expected = self._expected(action)
        there = work.refs(*expected)
        if any(there.get(ref) != value for ref, value in expected.items()):
            return self._elsewhere(work, action, there)
        entries: dict[str, str] = {}
        if base is not None:
            try:
                work.fetch_snapshot(base)
            except GitFailed as error:
                if "not our ref" in str(error):
                    return Refused(f"The repository has no commit {base}.")
                raise
            if not work.is_commit(base):
                return Refused(f"{base} is not a commit.")
            entries = work.entries(base, [*(item["path"] for item in params["files"]), *params["delete"]])
        if reason := obstacle(entries, params):
            return Refused(reason)
        return work.import_commit(commit_stream(action, self._settings, staged, entries, _OURS), _OURS)

    def _elsewhere(self, work: Workspace, action: Action, there: dict[str, str]) -> Outcome:
        """The outcome when the refs are not what a push expects: our own effect, or somebody else's."""
        match self._find(work, action, there):
            case Applied() as applied:
                return applied
            case Several(effects):
                raise SeveralCommits(f"{len(effects)} commits of this action are in {action.resource}.")
            case _:
                tip, expected = there.get(_branch(action)), self._expected(action)[_branch(action)]
                at = f"at {tip}" if tip else "not there"
                return Refused(f"{action.resource} is {at}, where {expected or 'no branch'} was expected.")

    def _rejected(self, work: Workspace, action: Action, refusal: str) -> Outcome:
        """A push that was said no to: lost to another one, locked for now, or refused for good."""
        expected = self._expected(action)
        try:
            there = work.refs(*expected)
            if any(there.get(ref) != value for ref, value in expected.items()):
                return self._elsewhere(work, action, there)
        except GitFailed as error:
            return NotSent(f"The push was rejected: {refusal}; and then: {error}")
        reason = f"The push was rejected: {refusal}."
        return NotSent(reason) if any(word in refusal for word in _FOR_NOW) else Refused(reason)

    def _find(self, work: Workspace, action: Action, there: dict[str, str]) -> Found:
        """What the repository has of this action; GitFailed where it cannot be read.

        The branch says more than the marker: it shows duplicates, and what became of the commit in a rebase.
        """
        marker, tip, base = there.get(_marker(action)), there.get(_branch(action)), action.params["base"]
        cut = False
        if tip is not None and tip != base:
            work.fetch_history(tip, self._settings.search_depth)
            history = work.history(tip, base)
            cut = history.cut
            ours = sorted(work.saying(f"{TRAILER}: {action.action_id}", tip) & history.commits)
            if len(ours) > 1:
                return Several(tuple(self._applied(action, commit) for commit in ours))
            if ours:
                return self._applied(action, ours[0])
        if marker is not None:
            return self._applied(action, marker)
        return CannotTell("The branch is longer than the search is deep.") if cut else Absent()

    def _applied(self, action: Action, commit: str) -> Applied:
        params = action.params
        receipt: Json = {
            "repository": self._settings.name,
            "branch": action.resource.partition("/")[2],
            "commit": commit,
            "base": params["base"],
            "files": [{member: item[member] for member in ("path", "digest", "size")} for item in params["files"]],
            "delete": params["delete"],
        }
        return Applied(provider_id=commit, receipt=receipt)


def _branch(action: Action) -> str:
    return f"refs/heads/{action.resource.partition('/')[2]}"


def _marker(action: Action) -> str:
    return f"refs/onward/{action.action_id}"


def _is_ref(name: str) -> bool:
    """Whether git takes this for a ref's name."""
    if "\x00" in name:
        return False
    command = ["git", "check-ref-format", name]
    return subprocess.run(command, check=False, stdin=subprocess.DEVNULL, capture_output=True).returncode == 0
