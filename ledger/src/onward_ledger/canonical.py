"""The canonical JSON of RFC 8785: one text for one value, so that whoever hashes it gets the same hash."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from typing import Any, cast

import rfc8785

from onward_ledger.errors import BadRequest

# What RFC 8785 numbers can hold exactly. A float beyond it is an integer too, and is refused the same way: its
# canonical text would read back as an integer that no other reader can hold.
LARGEST_INTEGER = 2**53 - 1

# Writes what RFC 8785 asks for, as far as `_is_simple` goes.
_SORTED = json.JSONEncoder(ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def canonical(value: object) -> bytes:
    """RFC 8785 bytes of a JSON value; numbers that two readers could read differently are a BadRequest."""
    try:
        if _is_simple(value):
            return _SORTED.encode(value).encode()
        return rfc8785.dumps(cast(Any, value))
    except (ValueError, RecursionError) as error:
        raise BadRequest(f"This is not a JSON value: {error}.") from None


def plain(value: object) -> Any:
    """The JSON value with a canonical form that is nearest to this one: what it cannot hold exactly becomes text.

    For what somebody else says, above all receipts: a number that is too large must not cost the record of an effect.
    """
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()  # half surrogates have no canonical form
    if isinstance(value, Mapping):
        return {plain(str(name)): plain(item) for name, item in cast(Mapping[object, object], value).items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in cast(list[object], value)]
    if isinstance(value, int | float) and not isinstance(value, bool):
        exact = math.isfinite(value) and abs(value) <= LARGEST_INTEGER
        return value if exact else str(value)
    return value


def digest(value: object) -> str:
    """The hex sha256 of the canonical JSON of a value."""
    return hashlib.sha256(canonical(value)).hexdigest()


def _is_simple(value: object) -> bool:
    """Whether Python's own encoder, which is several times as fast, writes the canonical form: there is no float, and
    names are ASCII, so that they sort alike. Refuses numbers on its way, without recursion: depth is the caller's to
    choose.
    """
    waiting: list[object] = [value]
    simple = True
    while waiting:
        item = waiting.pop()
        if type(item) is str or item is None:
            continue
        if isinstance(item, dict):
            members = cast(dict[object, object], item)
            waiting.extend(members.values())
            simple = simple and all(isinstance(name, str) and name.isascii() for name in members)
        elif isinstance(item, list | tuple):
            waiting.extend(cast(list[object], item))
        elif isinstance(item, int | float):
            _refuse_number(item)
            simple = simple and isinstance(item, int)
        else:
            simple = simple and isinstance(item, str)
    return simple


def _refuse_number(item: float) -> None:
    if isinstance(item, float) and not math.isfinite(item):
        raise BadRequest("Numbers must be finite: NaN and infinity have no JSON form.")
    if abs(item) > LARGEST_INTEGER:
        raise BadRequest(f"The number {item} is beyond 2^53 - 1; send it as a string.")
