"""What a provider says, made fit to be recorded: no secret, not large, and nothing that a database cannot hold.

An effect that happened must not fail to be recorded because its receipt is odd. So nothing here raises: a receipt that
does not fit is replaced by what it says shortly, with its size and digest.
"""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import replace
from typing import Any, TypeVar, cast

from onward_ledger.action import Json
from onward_ledger.canonical import LARGEST_INTEGER
from onward_ledger.errors import BadRequest
from onward_ledger.masking import masked
from onward_ledger.providers.interface import Applied, CannotTell, NotSent, Refused, Several
from onward_ledger.wire import DEEPEST_JSON, LARGEST_JSON_BYTES

LONGEST_TEXT = 4000
LONGEST_ID = 900

# What is kept of a receipt that does not fit: its short members, which are its ids, digests, codes and times.
MOST_KEPT = 32
LONGEST_KEPT = 200

T = TypeVar("T")


def fit(said: T) -> T:
    """What a send or a look-up answered (an Outcome, a Found), fit to be recorded. Never raises."""
    match said:
        case Applied(provider_id=provider_id, receipt=receipt):
            applied = Applied(provider_id=text(provider_id, LONGEST_ID), receipt=fitting(receipt))
            return cast(T, applied)
        case Refused(reason) | NotSent(reason) | CannotTell(reason):
            return cast(T, replace(said, reason=text(reason, LONGEST_TEXT)))
        case Several(effects):
            return cast(T, Several(tuple(fit(effect) for effect in effects)))
        case _:
            return said


def fitting(receipt: Json) -> Json:
    """The receipt itself, masked; or, when it is too large, too deep or no JSON, a short one with `truncated`.

    `truncated` has `bytes` and `sha256` of what the provider gave, where it can be written, and `because`.
    """
    if not isinstance(cast(object, receipt), dict):  # a third party's: its annotation is only its word
        return _short({}, "It is no JSON object.")
    try:
        safe = {_masked_name(name): _masked(item, 2) for name, item in receipt.items()}
        size = len(json.dumps(safe, ensure_ascii=False).encode())
    except BadRequest as error:
        return _short(receipt, str(error))
    if size > LARGEST_JSON_BYTES:
        return _short(receipt, f"It is larger than {LARGEST_JSON_BYTES // 1024} KiB.")
    return safe


def text(value: object, longest: int) -> str:
    """A text without secrets, without what a database cannot hold, and no longer than this."""
    safe = _storable(masked(str(value)))
    return safe if len(safe) <= longest else safe[: longest - 1] + "…"


def _short(receipt: Json, because: str) -> Json:
    kept: Json = {}
    for name, value in receipt.items():
        if len(kept) == MOST_KEPT or name == "truncated" or not _is_short(name):
            continue
        if value is None or isinstance(value, bool) or _is_plain(value):
            kept[text(name, LONGEST_KEPT)] = value
        elif _is_short(value):
            kept[text(name, LONGEST_KEPT)] = text(value, LONGEST_KEPT)
    return kept | {"truncated": _extent(receipt) | {"because": text(because, LONGEST_KEPT)}}


def _extent(receipt: Json) -> Json:
    """Size and digest of what cannot be kept; empty for what cannot even be written (too deep, or circular)."""
    try:
        written = json.dumps(receipt, default=repr, skipkeys=True).encode("utf-8", "replace")
    except Exception:  # whatever a third party's values do
        return {}
    return {"bytes": len(written), "sha256": hashlib.sha256(written).hexdigest()}


def _masked(value: object, depth: int) -> Any:
    """The same value with every text masked; BadRequest where it is no JSON that every reader reads alike."""
    if isinstance(value, str):
        return _storable(masked(value))
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int | float):
        return _number(value)
    if depth > DEEPEST_JSON:
        raise BadRequest(f"It is nested deeper than {DEEPEST_JSON} levels.")
    if isinstance(value, dict):
        return {_masked_name(n): _masked(item, depth + 1) for n, item in cast(dict[object, object], value).items()}
    if isinstance(value, list | tuple):
        return [_masked(item, depth + 1) for item in cast(list[object], value)]
    raise BadRequest(f"It has a value that JSON has not: {type(value).__name__}.")


def _masked_name(name: object) -> str:
    if not isinstance(name, str):
        raise BadRequest("It has a name that is no text.")
    return _storable(masked(name))


def _number(number: float) -> float | str:
    """A number that JSON does not hold exactly is kept as text."""
    if _is_plain(number):
        return number
    if not _is_short(number):
        raise BadRequest("It has a number with hundreds of digits.")
    return str(number)


def _is_plain(value: object) -> bool:
    """Whether it is a number that JSON holds exactly."""
    if isinstance(value, float):
        return math.isfinite(value) and abs(value) <= LARGEST_INTEGER
    return isinstance(value, int) and abs(value) <= LARGEST_INTEGER


def _is_short(value: object) -> bool:
    if isinstance(value, int):
        return value.bit_length() < 3 * LONGEST_KEPT  # Python refuses to write very long ones
    return isinstance(value, float) or (isinstance(value, str) and len(value) <= LONGEST_KEPT)


def _storable(value: str) -> str:
    """NUL and half surrogates replaced: neither engine takes them in a text."""
    if value.isascii() and "\x00" not in value:
        return value
    return value.replace("\x00", "�").encode("utf-8", "replace").decode()
