"""A run's files: immutable objects under `runs/<run_id>/<sha256>`, named by what they hold.

State, requests and approvals carry references, never bytes. The object lives as long as its run.
"""

from __future__ import annotations

from typing import TypedDict

from onward_ledger.errors import DigestMismatch as ObjectDigestMismatch
from onward_ledger.objects import Objects, digest_of
from tools.errors import DigestMismatch


class Ref(TypedDict):
    """A reference to bytes: the object's key, the hex sha256 of the bytes, and their number."""

    key: str
    digest: str
    size: int


class Files:
    """The files of one run. May be shared by threads."""

    def __init__(self, objects: Objects, run_id: str) -> None:
        self._objects = objects
        self._run_id = run_id

    def put(self, data: bytes) -> Ref:
        """Store bytes; the same bytes again are the same object."""
        digest = digest_of(data)
        stored = self._objects.put_once(f"runs/{self._run_id}/{digest}", data)
        return Ref(key=stored.key, digest=digest, size=len(data))

    def get(self, ref: Ref) -> bytes:
        """The bytes that a reference names; DigestMismatch when the object holds others."""
        try:
            return self._objects.read_checked(ref["key"], ref["digest"])
        except ObjectDigestMismatch as error:
            raise DigestMismatch(error.message) from error
