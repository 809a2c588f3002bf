"""The commit of an action: what its request may say, what can stand in the way, and the text that makes it."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping
from typing import Any, cast

from onward_ledger.action import Action, Json
from onward_ledger.errors import BadRequest
from onward_ledger.providers.git_settings import NAMED, GitSettings
from onward_ledger.providers.listing import check_items

TRAILER = "Onward-Action"
_MEMBERS = {"base", "create", "message", "author", "files", "delete"}
_FILE_MEMBERS = {"path", "source", "digest", "size"}
_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_CLAIMS = re.compile(rf"^\s*{TRAILER}\s*:", re.IGNORECASE | re.MULTILINE)
_LONGEST_MESSAGE = 10_000
_LONGEST_PATH_BYTES = 900
_DEEPEST_PATH = 20
_FOLDER = "040000"
_PLAIN, _EXECUTABLE = "100644", "100755"


def check_params(run_id: str, params: Json) -> None:
    """BadRequest with the member that is wrong."""
    if set(params) != _MEMBERS:
        raise BadRequest(f"params must have exactly the members {', '.join(sorted(_MEMBERS))}.")
    _check_base(params["base"], params["create"])
    _check_message(params["message"])
    _check_author(params["author"])
    deleted: object = params["delete"]
    if not isinstance(deleted, list) or len(cast(list[Any], deleted)) > 200:
        raise BadRequest("params.delete must be a list of at most 200 paths.")
    files: object = params["files"]
    if files != [] or not deleted:
        check_items("params.files", files, _FILE_MEMBERS, {"source": f"runs/{run_id}"})
    paths = [*(item["path"] for item in params["files"]), *cast(list[object], deleted)]
    _check_apart([_check_path(path) for path in paths])


def obstacle(entries: Mapping[str, str], params: Json) -> str | None:
    """What in the tree of the base stands in the way, as a sentence. `entries` are modes by path; see Workspace."""
    files = [item["path"] for item in params["files"]]
    for path in (*files, *params["delete"]):
        for above in _above(path):
            if entries.get(above, _FOLDER) != _FOLDER:
                return f"{above} is no folder in the base commit, so {path} cannot lie below it."
    for path in files:
        if entries.get(path, _PLAIN) not in (_PLAIN, _EXECUTABLE):
            return f"{path} is no regular file in the base commit, and is not replaced."
    for path in params["delete"]:
        if entries.get(path, _FOLDER) == _FOLDER:
            return f"There is no file {path} in the base commit to delete."
    return None


def commit_stream(
    action: Action, settings: GitSettings, staged: Iterable[bytes], entries: Mapping[str, str], ref: str
) -> bytes:
    """The fast-import stream of the action's commit under `ref`: the same bytes at every send."""
    params = action.params
    when = f"{int(action.created_at.timestamp())} +0000"
    committer = {"name": settings.committer_name, "email": settings.committer_email}
    author = params["author"] or committer
    message = f"{params['message'].rstrip()}\n\n{TRAILER}: {action.action_id}\n"
    parts = [
        f"commit {ref}\n".encode(),
        f"author {author['name']} <{author['email']}> {when}\n".encode(),
        f"committer {committer['name']} <{committer['email']}> {when}\n".encode(),
        _data(message.encode()),
        f"from {params['base']}\n".encode() if params["base"] else b"",
    ]
    for item, data in zip(params["files"], staged, strict=True):
        mode = entries.get(item["path"], _PLAIN)
        parts += [f"M {mode} inline {_quoted(item['path'])}\n".encode(), _data(data)]
    parts += [f"D {_quoted(path)}\n".encode() for path in params["delete"]]
    return b"".join(parts)


def _check_base(base: object, create: object) -> None:
    if base is not None and (not isinstance(base, str) or not _COMMIT.fullmatch(base)):
        raise BadRequest("params.base must be the full hex id of a commit, or null for a first commit.")
    if not isinstance(create, bool):
        raise BadRequest("params.create must be true or false.")
    if base is None and not create:
        raise BadRequest("params.create must be true where params.base is null: there is nothing to build on.")


def _check_message(message: object) -> None:
    if not isinstance(message, str) or not message.strip() or len(message) > _LONGEST_MESSAGE:
        raise BadRequest(f"params.message must be text of 1 to {_LONGEST_MESSAGE} characters.")
    if any(char in message for char in "\x00\r"):
        raise BadRequest("params.message must not hold NUL or carriage returns.")
    if _CLAIMS.search(message):
        raise BadRequest(f"params.message must not have a line that begins with {TRAILER}: that one is added.")


def _check_author(author: object) -> None:
    if author is None:
        return
    if not isinstance(author, dict) or set(cast(Json, author)) != {"name", "email"}:
        raise BadRequest("params.author must have exactly the members name and email, or be null.")
    for member, value in cast(Json, author).items():
        if not isinstance(value, str) or not re.fullmatch(NAMED, value) or value != value.strip():
            raise BadRequest(f"params.author.{member} must be text of 1 to 200 characters, without < and >.")


def _check_path(path: object) -> str:
    """A path inside of a repository: nothing that leaves it, and nothing that any file system takes for `.git`."""
    if not isinstance(path, str) or any(char in path for char in "\\:") or _has_control(path):
        raise BadRequest(f"The path {path!r} is not a plain relative path.")
    parts = path.split("/")
    if len(path.encode()) > _LONGEST_PATH_BYTES or len(parts) > _DEEPEST_PATH:
        raise BadRequest(f"The path {path[:40]!r}… is longer or deeper than is taken.")
    for part in parts:
        shown = "".join(char for char in part if unicodedata.category(char) != "Cf").casefold().rstrip(" .")
        if part in ("", ".", "..") or shown in ("", ".git", "git~1"):
            raise BadRequest(f"The path {path!r} is not a plain relative path, or leads into .git.")
    return path


def _check_apart(paths: list[str]) -> None:
    named = set(paths)
    if len(named) != len(paths):
        raise BadRequest("params names a path twice.")
    for path in paths:
        if not named.isdisjoint(_above(path)):
            raise BadRequest(f"The path {path!r} lies below another one of this request.")


def _has_control(text: str) -> bool:
    return any(unicodedata.category(char) in ("Cc", "Cs") for char in text)


def _above(path: str) -> list[str]:
    """The folders above a path."""
    parts = path.split("/")
    return ["/".join(parts[:count]) for count in range(1, len(parts))]


def _data(data: bytes) -> bytes:
    return b"data %d\n%b\n" % (len(data), data)


def _quoted(path: str) -> str:
    return '"' + path.replace("\\", "\\\\").replace('"', '\\"') + '"'
