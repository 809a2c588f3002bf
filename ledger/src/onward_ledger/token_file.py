"""The file of tokens: TOML, one table per token, readable by its owner only. No token is in it, only hashes.

A token has 32 random bytes and is told once, when it is made; so a plain sha256 of it is enough, and nothing slower.

    [tokens.nightly-agent]
    sha256 = "9f86d081…"                  # of the token
    scopes = ["perform", "read"]          # perform, read, decide, operate
    principal = "ann"                     # optional: the person it proves
    roles = ["publisher"]                 # optional: roles that approvals ask for
    kinds = ["report.*"]                  # optional: perform and decide are limited to these
    expires_at = 2030-01-01T00:00:00Z     # optional
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import secrets
import stat
import tomllib
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from onward_ledger.callers import Caller, Scope, is_principal, listed
from onward_ledger.errors import BadRequest, Conflict, NotFound
from onward_ledger.private_file import write_private

# Says in a log, in a diff or to a scanner what it is.
PREFIX = "onw_"

_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def _is_person(name: str) -> str:
    if not is_principal(name):
        raise ValueError("must be 1 to 200 printable characters")
    return name


_Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,99}$")]
_Word = Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]*$")]


def digest(token: str | bytes) -> str:
    """The hex sha256 of a token: what is kept of it."""
    return hashlib.sha256(token.encode() if isinstance(token, str) else token).hexdigest()


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One token that is known: its hash, who its caller is, and when it ends."""

    sha256: str
    caller: Caller
    expires_at: datetime | None = None
    created_at: datetime | None = None

    def is_good(self, now: datetime) -> bool:
        """Whether the token has not ended."""
        return self.expires_at is None or now < self.expires_at


class _Token(BaseModel):
    """One table. Unknown members are refused: a misspelt `kinds` must not make a token that is good for all."""

    model_config = ConfigDict(extra="forbid")

    sha256: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
    scopes: Annotated[list[Scope], Field(min_length=1)]
    principal: Annotated[str, AfterValidator(_is_person)] | None = None
    roles: list[_Word] = []
    kinds: Annotated[list[_Word], Field(min_length=1)] | None = None
    expires_at: AwareDatetime | None = None
    created_at: AwareDatetime | None = None

    def entry(self, name: str) -> Entry:
        caller = Caller(
            name=name,
            scopes=frozenset(self.scopes),
            principal=self.principal,
            roles=frozenset(self.roles),
            kinds=tuple(self.kinds or ()),
        )
        return Entry(sha256=self.sha256, caller=caller, expires_at=self.expires_at, created_at=self.created_at)


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid")

    tokens: dict[_Name, _Token] = {}


def read_entries(path: Path) -> list[Entry]:
    """The tokens of a file. BadRequest when others can read it, or when it is not what it should be."""
    return _parse(path, _read(path))


def new_token() -> str:
    """A token of 32 random bytes."""
    return PREFIX + secrets.token_urlsafe(32)


def add(path: Path, caller: Caller, *, created_at: datetime, expires_at: datetime | None = None) -> str:
    """Make a token for this caller and append its hash to the file. The token is only in the answer.

    A missing file is made. Conflict when the file has a token of this name.
    """
    token = new_token()
    entry = Entry(sha256=digest(token), caller=caller, created_at=created_at, expires_at=expires_at)
    with _locked(path):
        before = _read(path) if path.exists() else ""
        if any(known.caller.name == caller.name for known in _parse(path, before)):
            raise Conflict(f"{path} has a token of the name {caller.name} already; revoke it, or take another name.")
        text = (before.rstrip("\n") + "\n\n" if before.strip() else "") + _table(entry)
        _parse(path, text)
        write_private(path, text)
    return token


def revoke(path: Path, name: str) -> None:
    """Take the token of this name out of the file. What else is in it, comments too, stays as it is."""
    with _locked(path):
        before = _read(path)
        expected = [entry for entry in _parse(path, before) if entry.caller.name != name]
        if len(expected) == len(_parse(path, before)):
            raise NotFound(f"{path} has no token of the name {name}.")
        tables = re.split(r"(?m)^(?=\[)", before)
        text = "".join(_comments_behind(table) if _is_of(table, name) else table for table in tables)
        if _parse(path, text) != expected:
            raise BadRequest(
                f"{path} is written in a way that cannot be edited here; take [tokens.{name}] out by hand."
            )
        write_private(path, text)


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            text = file.read()
    except OSError as error:
        hint = "; make a token with: onward-ledger token new NAME" if isinstance(error, FileNotFoundError) else ""
        raise BadRequest(f"The token file {path} cannot be read: {error.strerror or error}{hint}.") from error
    if mode & _OTHERS:
        raise BadRequest(f"Others can use the token file {path} (its mode is {mode:04o}). Run: chmod 600 {path}")
    try:
        return text.decode()
    except UnicodeDecodeError:
        raise BadRequest(f"The token file {path} is not UTF-8.") from None


def _parse(path: Path, text: str) -> list[Entry]:
    try:
        tokens = _File.model_validate(tomllib.loads(text)).tokens
    except tomllib.TOMLDecodeError as error:
        raise BadRequest(f"The token file {path} is not TOML: {error}.") from None
    except ValidationError as error:
        # The values are not told: somebody may have put a token where its hash belongs.
        found = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors(include_input=False))
        raise BadRequest(f"The token file {path} is not right: {found}.") from None
    return [token.entry(name) for name, token in tokens.items()]


def _table(entry: Entry) -> str:
    caller = entry.caller
    members: dict[str, Any] = {
        "sha256": entry.sha256,
        "scopes": listed(caller.scopes),
        "principal": caller.principal,
        "roles": sorted(caller.roles),
        "kinds": list(caller.kinds),
        "expires_at": entry.expires_at,
        "created_at": entry.created_at,
    }
    lines = [f"{name} = {_toml(value)}" for name, value in members.items() if value]
    return "\n".join([f"[tokens.{caller.name}]", *lines]) + "\n"


def _toml(value: object) -> str:
    # Printable text in JSON's quotes is a TOML string, and a list of them a TOML array.
    return value.isoformat() if isinstance(value, datetime) else json.dumps(value, ensure_ascii=False)


def _comments_behind(table: str) -> str:
    """The comments between a table and the next one: they belong to the next one."""
    lines = table.splitlines(keepends=True)
    last = max(number for number, line in enumerate(lines) if line.strip() and not line.lstrip().startswith("#"))
    return "".join(lines[last + 1 :]).lstrip("\n")


def _is_of(table: str, name: str) -> bool:
    try:
        return list(tomllib.loads(table).get("tokens", {})) == [name]
    except tomllib.TOMLDecodeError:
        return False


@contextmanager
def _locked(path: Path) -> Generator[None]:
    """One writer at a time. The folder is locked, since the file itself is replaced."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path.parent, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
