"""The list of objects in a request: names, keys, digests, sizes, media types, and the one digest over all of them."""

from __future__ import annotations

import hashlib
import re
from typing import Any, cast

from onward_ledger.action import Json, canonical
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
    members = {*_DIGESTED, key}
    objects: object = params.get("objects")
    if not isinstance(objects, list) or not 1 <= len(cast(list[Any], objects)) <= MOST_OBJECTS:
        raise BadRequest(f"params.objects must be a list of 1 to {MOST_OBJECTS} objects.")
    listed = cast(list[object], objects)
    for place, item in enumerate(listed):
        if not isinstance(item, dict) or set(cast(Json, item)) != members:
            raise BadRequest(f"params.objects[{place}] must have exactly the members {', '.join(sorted(members))}.")
        _check_object(f"params.objects[{place}]", cast(Json, item), key, folder)
    found = cast(list[Json], listed)
    if len({item["name"] for item in found}) != len(found):
        raise BadRequest("params.objects names an object twice.")
    if params.get("digest") != report_digest(found):
        raise BadRequest("params.digest is not the digest of params.objects.")
    return found


def _check_object(where: str, item: Json, key: str, folder: str) -> None:
    if not isinstance(item["digest"], str) or not _DIGEST.fullmatch(item["digest"]):
        raise BadRequest(f"{where}.digest must be a hex sha256.")
    if type(item["size"]) is not int or item["size"] < 0:
        raise BadRequest(f"{where}.size must be a number of bytes.")
    if not isinstance(item["media_type"], str) or not _MEDIA_TYPE.fullmatch(item["media_type"]):
        raise BadRequest(f"{where}.media_type must be a media type such as text/html.")
    for member in ("name", key):
        try:
            check_key(item[member])
        except (BadKey, AttributeError, TypeError):
            raise BadRequest(f"{where}.{member} must be a plain relative path.") from None
    if not item[key].startswith(f"{folder}/"):
        raise BadRequest(f"{where}.{key} must lie below {folder}/.")
