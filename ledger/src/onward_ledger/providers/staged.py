"""Staged bytes on their way into the world: read and checked, put under final keys, read back.

What several kinds do with the objects that a request refers to. Bytes are staged below `runs/<run_id>/`; a request
holds their keys, digests and sizes.
"""

from __future__ import annotations

from collections.abc import Sequence

from onward_ledger.action import Json
from onward_ledger.errors import DigestMismatch, ObjectMissing, ObjectsUnreachable
from onward_ledger.objects import Objects, Stored
from onward_ledger.providers.interface import Absent, CannotTell, Deadline, NotSent, Refused


def read_staged(objects: Objects, items: Sequence[Json]) -> list[bytes] | Refused | NotSent:
    """The bytes of every item's `source`, if they have its `digest` and `size`.

    Reading changes nothing, so a store that does not answer is definite here.
    """
    try:
        staged = [objects.read_checked(item["source"], item["digest"]) for item in items]
    except (ObjectMissing, DigestMismatch) as error:
        return Refused(error.message)
    except ObjectsUnreachable as error:
        return NotSent(error.message)
    for item, data in zip(items, staged, strict=True):
        if len(data) != item["size"]:
            return Refused(f"The object {item['source']} has {len(data)} bytes, not {item['size']}.")
    return staged


def place(
    target: Objects,
    keys: Sequence[tuple[str, str | None]],
    staged: Sequence[bytes],
    *,
    deadline: Deadline | None = None,
) -> list[Stored]:
    """Put each under its key with create-if-absent. `keys` holds the key and the media type to be told, if any.

    Raises ObjectConflict where other bytes lie, ObjectsUnreachable where a store does not answer, and TimeoutError
    behind the deadline: whatever was put before stays, and the same call puts the rest.
    """
    placed: list[Stored] = []
    for (key, media_type), data in zip(keys, staged, strict=True):
        if deadline is not None and deadline.remaining <= 0:
            raise TimeoutError(f"{len(placed)} of {len(keys)} objects were put before the deadline.")
        placed.append(target.put_once(key, data, media_type=media_type))
    return placed


def find_placed(target: Objects, wanted: Sequence[tuple[str, str]]) -> list[Stored] | Absent | CannotTell:
    """Read every key back: all of them with their digests, or Absent as soon as one is missing or other bytes."""
    found: list[Stored] = []
    try:
        for key, digest in wanted:
            found.append(target.look(key))
            if found[-1].digest != digest:
                return Absent()
    except ObjectMissing:
        return Absent()
    except ObjectsUnreachable as error:
        return CannotTell(error.message)
    return found
