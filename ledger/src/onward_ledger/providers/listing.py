"""The list of objects in a request: names, keys, digests, sizes, media types, and the one digest over all of them."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any, cast

from onward_ledger.action import Json
from onward_ledger.canonical import canonical
from onward_ledger.errors import BadKey, BadRequest
from onward_ledger.objects import check_key

MOST_OBJECTS = 200
_DIGEST = re.compile(r"[0-9a-f]{64}")
_MEDIA_TYPE = re.compile(r"[\w.+-]+/[\w.+-]+(; ?charset=[\w-]+)?")
_DIGESTED = ("name", "digest", "size", "media_type")


def report_digest(objects: list[Json]) -> str:
    """sha256 of the canonical JSON of the objects' name, digest, size and media type, sorted by name."""
    listed = sorted(({member: item[member] for member in _DIGESTED} for item in objects), key=lambda item: item["name"])
    return hashlib.sha256(canonical(listed)).hexdigest()


def check_listing(params: Json, *, key: str, folder: str) -> list[Json]:
    """The objects of `params`, if each has exactly its members, lies below `folder`, and all make up `params.digest`.

    `key` is the name of the member that holds where an object lies.
    """
    found = check_items("params.objects", params.get("objects"), {*_DIGESTED, key}, {"name": None, key: folder})
    check_different("params.objects", found, "name")
    if params.get("digest") != report_digest(found):
        raise BadRequest("params.digest is not the digest of params.objects.")
    return found


def check_items(where: str, items: object, members: set[str], keys: Mapping[str, str | None]) -> list[Json]:
    """The items of a list, if each has exactly these members, and they are well-formed.

    `keys` names those members that are plain relative paths, each with the folder that it has to lie below, if any.
    """
    if not isinstance(items, list) or not 1 <= len(cast(list[Any], items)) <= MOST_OBJECTS:
        raise BadRequest(f"{where} must be a list of 1 to {MOST_OBJECTS} objects.")
    for place, item in enumerate(cast(list[object], items)):
        if not isinstance(item, dict) or set(cast(Json, item)) != members:
            raise BadRequest(f"{where}[{place}] must have exactly the members {', '.join(sorted(members))}.")
        _check_described(f"{where}[{place}]", cast(Json, item))
        for member, folder in keys.items():
            _check_key(f"{where}[{place}].{member}", cast(Json, item)[member], folder)
    return cast(list[Json], items)


def check_different(where: str, items: list[Json], member: str) -> None:
    """No two items have the same value here."""
    if len({item[member] for item in items}) != len(items):
        raise BadRequest(f"{where} names an object twice.")


def _check_described(where: str, item: Json) -> None:
    if not isinstance(item["digest"], str) or not _DIGEST.fullmatch(item["digest"]):
        raise BadRequest(f"{where}.digest must be a hex sha256.")
    if type(item["size"]) is not int or item["size"] < 0:
        raise BadRequest(f"{where}.size must be a number of bytes.")
    media_type = item.get("media_type", "text/plain")
    if not isinstance(media_type, str) or not _MEDIA_TYPE.fullmatch(media_type):
        raise BadRequest(f"{where}.media_type must be a media type such as text/html.")


def _check_key(where: str, key: object, folder: str | None) -> None:
    try:
        check_key(cast(str, key))
    except (BadKey, AttributeError, TypeError):
        raise BadRequest(f"{where} must be a plain relative path.") from None
    if folder is not None and not cast(str, key).startswith(f"{folder}/"):
        raise BadRequest(f"{where} must lie below {folder}/.")
