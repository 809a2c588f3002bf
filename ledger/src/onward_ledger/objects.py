"""Object storage: bytes under keys, written once and never replaced.

An object is put with create-if-absent and read back against its sha256, so the digest in a record is the pointer and
there is nothing to overwrite. Where objects lie is a URL: a folder (`/path` or `file:///path`), `s3://bucket/prefix`,
or what else obstore opens (`gs://`, `az://`). Credentials and endpoints come from the environment: `AWS_*`, or
`ONWARD_OBJECTS_ENDPOINT`, `_REGION`, `_ACCESS_KEY_ID`, `_SECRET_ACCESS_KEY`, `_SESSION_TOKEN`, which win.

Durability: an object store's acknowledged put is durable. A local folder survives killed processes by itself; against
power loss this module syncs the file and the folders above it before it reports success, since obstore never does. A
process killed inside a put to a folder can leave `key#1` behind; such a name is no object, and
`remove_leftovers()` deletes old ones.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError
from obstore.store import LocalStore, from_url

from onward_ledger.errors import BadKey, BadRequest, DigestMismatch, ObjectConflict, ObjectMissing, ObjectsUnreachable

LONGEST_KEY_BYTES = 900
_UNSAFE = re.compile(r'[\x00-\x1f\x7f\\{}^%`\[\]"<>#|*?]')
_LEFTOVER = re.compile(r"#\d+$")

# One request to a remote store; a put that takes longer has an unknown outcome, which the caller settles by its key.
REQUEST_TIMEOUT = timedelta(seconds=10)


@dataclass(frozen=True, kw_only=True)
class Stored:
    """What lies under a key: hex sha256 and size in bytes. `created` is False when the same bytes were there before.

    `e_tag` and `version` are the store's own names of it, where it has any; a local folder has none.
    """

    key: str
    digest: str
    size: int
    created: bool
    e_tag: str | None = None
    version: str | None = None


def digest_of(data: bytes) -> str:
    """The hex sha256."""
    return hashlib.sha256(data).hexdigest()


def check_key(key: str) -> str:
    """The key itself, if it is a plain relative path: no empty, `.` or `..` part, nothing a store would rewrite."""
    parts = key.split("/")
    if any(part in ("", ".", "..") or part != part.strip() for part in parts):
        raise BadKey(f"The key {key!r} is not a plain relative path.")
    if _UNSAFE.search(key):
        raise BadKey(f"The key {key!r} holds a character that object stores do not agree on.")
    try:
        size = len(key.encode())
    except UnicodeEncodeError:
        raise BadKey(f"The key {key!r} is not valid text.") from None
    if size > LONGEST_KEY_BYTES:
        raise BadKey(f"The key {key[:40]!r}… is {size} bytes long; {LONGEST_KEY_BYTES} is the limit.")
    return key


class Objects:
    """Objects under one URL. May be shared by threads."""

    def __init__(self, url: str, *, environment: Mapping[str, str] | None = None) -> None:
        self._folder = _local_folder(url)
        self._named: set[Path] = set()  # folders whose own names are known to be on disk
        environment = os.environ if environment is None else environment
        if self._folder is not None:
            self._folder.mkdir(parents=True, exist_ok=True)
            self.url = self._folder.as_uri()
            self._store: Any = LocalStore(self._folder)
        else:
            self.url = url
            self._store = _remote_store(url, environment)

    def put_once(self, key: str, data: bytes, *, media_type: str | None = None) -> Stored:
        """Create the object. The same bytes under the key already is success, other bytes an ObjectConflict.

        `media_type` is what the store is told to serve it as; a local folder keeps none.
        ObjectsUnreachable: whether the put took effect is not known; the same call again is safe.
        """
        check_key(key)
        digest = digest_of(data)
        attributes: Any = {"Content-Type": media_type} if media_type and self._folder is None else None
        try:
            put = obstore.put(self._store, key, data, mode="create", use_multipart=False, attributes=attributes)
            stored = self._stored(key, data, put, created=True)
        except AlreadyExistsError:
            stored = self.look(key)
            if stored.digest != digest:
                found, wanted = stored.digest[:12], digest[:12]
                raise ObjectConflict(f"The object {key} exists with the digest {found}…, not {wanted}….") from None
        except (BaseError, OSError) as error:
            raise ObjectsUnreachable(f"The object {key} could not be written: {_first_line(error)}.") from error
        # Also when it was there: whoever made it may have died before it was on disk.
        self._sync(key)
        return stored

    def read(self, key: str) -> bytes:
        """The bytes under a key; ObjectMissing where there are none."""
        return self._get(key)[0]

    def look(self, key: str) -> Stored:
        """What lies under a key, by reading it; ObjectMissing where there is nothing."""
        data, meta = self._get(key)
        return self._stored(key, data, meta, created=False)

    def read_checked(self, key: str, digest: str) -> bytes:
        """The bytes under a key, if they are those that the digest names; else DigestMismatch."""
        data = self.read(key)
        found = digest_of(data)
        if found != digest:
            raise DigestMismatch(f"The object {key} has the digest {found[:12]}…, not {digest[:12]}….")
        return data

    def keys(self, prefix: str = "") -> list[str]:
        """Every key below a folder-like prefix, sorted; leftovers of killed writers are not among them."""
        try:
            found = obstore.list(self._store, prefix or None).collect()
        except (BaseError, OSError) as error:
            raise ObjectsUnreachable(f"The objects could not be listed: {_first_line(error)}.") from error
        return sorted(item["path"] for item in found if not _LEFTOVER.search(item["path"]))

    def sizes(self, prefix: str) -> dict[str, int]:
        """The size in bytes of every object below a folder-like prefix, by key."""
        try:
            found = obstore.list(self._store, check_key(prefix)).collect()
        except (BaseError, OSError) as error:
            raise ObjectsUnreachable(f"The objects could not be listed: {_first_line(error)}.") from error
        return {item["path"]: item["size"] for item in found if not _LEFTOVER.search(item["path"])}

    def remove_below(self, prefix: str) -> int:
        """Delete every object below a folder-like prefix; how many there were. Safe to repeat.

        For whoever owns what lies there and knows that nothing refers to it any more: a record never takes it back.
        """
        keys = self.keys(check_key(prefix))
        try:
            if self._folder is not None:
                shutil.rmtree(self._folder / prefix, ignore_errors=True)  # with what killed writers left there
            elif keys:
                obstore.delete(self._store, keys)
        except FileNotFoundError:
            pass  # somebody else removes them too; what is left is told below
        except (BaseError, OSError) as error:
            raise ObjectsUnreachable(f"Objects could not be removed: {_first_line(error)}.") from error
        if left := self.keys(prefix):
            raise ObjectsUnreachable(f"The object {left[0]} could not be removed.")
        return len(keys)

    def remove_leftovers(self, *, older_than_seconds: float = 3600) -> int:
        """Delete what killed writers left in a local folder; how many. Younger ones may belong to a live writer."""
        removed = 0
        if self._folder is not None:
            for path in self._folder.rglob("*#*"):
                if _LEFTOVER.search(path.name) and time.time() - path.stat().st_mtime > older_than_seconds:
                    path.unlink(missing_ok=True)
                    removed += 1
        return removed

    def _get(self, key: str) -> tuple[bytes, Mapping[str, Any]]:
        check_key(key)
        try:
            found = obstore.get(self._store, key)
            return found.bytes().to_bytes(), found.meta
        except FileNotFoundError:
            raise ObjectMissing(f"There is no object {key} in {self.url}.") from None
        except (BaseError, OSError) as error:
            raise ObjectsUnreachable(f"The object {key} could not be read: {_first_line(error)}.") from error

    def _stored(self, key: str, data: bytes, said: Mapping[str, Any], *, created: bool) -> Stored:
        # The tag of a local file is made from its inode and times: a copy of the folder would have other ones.
        e_tag, version = (said["e_tag"], said["version"]) if self._folder is None else (None, None)
        return Stored(key=key, digest=digest_of(data), size=len(data), created=created, e_tag=e_tag, version=version)

    def _sync(self, key: str) -> None:
        """Put a local file on disk, and its name, and the names of the folders above that are new to this process."""
        if self._folder is None:
            return
        path = self._folder / key
        _fsync(path)
        named = False
        while path != self._folder and not named:
            path = path.parent
            _fsync(path)
            named = path in self._named
            self._named.add(path)


def _fsync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _local_folder(url: str) -> Path | None:
    parts = urlsplit(url)
    if parts.scheme == "file":
        if parts.netloc not in ("", "localhost"):
            raise BadRequest(f"{url}: a file URL names a folder of this machine: file:///path.")
        return Path(unquote(parts.path)).resolve()
    return Path(url).expanduser().resolve() if "://" not in url else None


def _remote_store(url: str, environment: Mapping[str, str]) -> Any:
    if url.startswith("memory:"):
        raise BadRequest("Objects in memory do not survive the process; name a folder or an object store.")
    client: Any = {"timeout": REQUEST_TIMEOUT, "allow_http": True}
    retry: Any = {"max_retries": 2, "retry_timeout": REQUEST_TIMEOUT}
    try:
        return from_url(url, config=_config(url, environment), client_options=client, retry_config=retry)
    except (BaseError, ValueError) as error:
        raise BadRequest(f"The object store {url} cannot be opened: {_first_line(error)}.") from error


def _config(url: str, environment: Mapping[str, str]) -> Any:
    if not url.startswith(("s3://", "s3a://")):
        return None
    names = ("ENDPOINT", "REGION", "ACCESS_KEY_ID", "SECRET_ACCESS_KEY", "SESSION_TOKEN")
    found = {
        f"aws_{name.lower()}": value
        for name in names
        if (value := environment.get(f"ONWARD_OBJECTS_{name}") or environment.get(f"AWS_{name}"))
    }
    endpoint = environment.get("ONWARD_OBJECTS_ENDPOINT") or environment.get("AWS_ENDPOINT_URL_S3")
    endpoint = endpoint or environment.get("AWS_ENDPOINT_URL")
    if endpoint:
        found["aws_endpoint"] = endpoint
    return {"aws_region": environment.get("AWS_DEFAULT_REGION", "us-east-1"), **found}


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
