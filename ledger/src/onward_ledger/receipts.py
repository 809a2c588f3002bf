"""What a provider says, made fit to be recorded: no secret, not large, and nothing that a database cannot hold.

An effect that happened must not fail to be recorded because its receipt is odd. So nothing here raises: a receipt that
does not fit is replaced by what it says shortly, with its size and digest.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from typing import Any, TypeVar, cast

from onward_ledger.action import Json, canonical
from onward_ledger.errors import BadRequest
from onward_ledger.masking import masked
from onward_ledger.providers.interface import Applied, CannotTell, NotSent, Refused, Several
from onward_ledger.wire import LARGEST_JSON_BYTES, check_shape

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
    try:
        check_shape("receipt", receipt)
        safe = cast(Json, _walked(receipt))
        written = canonical(safe)
    except BadRequest as error:
        return _short(receipt, str(error))
    if len(written) > LARGEST_JSON_BYTES:
        return _short(receipt, f"It is larger than {LARGEST_JSON_BYTES // 1024} KiB.")
    return safe


def text(value: object, longest: int) -> str:
    """A text without secrets, without what a database cannot hold, and no longer than this."""
    safe = _storable(masked(str(value)))
    return safe if len(safe) <= longest else safe[: longest - 1] + "…"


def _short(receipt: Json, because: str) -> Json:
    kept: Json = {}
    for name, value in receipt.items():
        if len(kept) == MOST_KEPT or name == "truncated" or len(str(name)) > LONGEST_KEPT:
            continue
        if value is None or isinstance(value, bool):
            kept[text(name, LONGEST_KEPT)] = value
        elif isinstance(value, str | int | float) and len(str(value)) <= LONGEST_KEPT:
            # A number that does not fit is why the receipt does not: as text it does.
            kept[text(name, LONGEST_KEPT)] = value if _is_plain(value) else text(value, LONGEST_KEPT)
    return kept | {"truncated": _extent(receipt) | {"because": text(because, LONGEST_KEPT)}}


def _extent(receipt: Json) -> Json:
    """Size and digest of what cannot be kept; empty for what cannot even be written (too deep, or circular)."""
    try:
        written = json.dumps(receipt, default=repr, skipkeys=True).encode("utf-8", "replace")
    except (ValueError, RecursionError):
        return {}
    return {"bytes": len(written), "sha256": hashlib.sha256(written).hexdigest()}


def _is_plain(value: object) -> bool:
    """Whether it is a number that JSON holds exactly."""
    try:
        return not isinstance(value, str) and bool(canonical(value))
    except BadRequest:
        return False


def _walked(value: Any) -> Any:
    """The same value with every text masked. Its depth has been checked."""
    if isinstance(value, str):
        return _storable(masked(value))
    if isinstance(value, dict):
        return {_walked(name): _walked(item) for name, item in cast(Json, value).items()}
    if isinstance(value, list | tuple):
        return [_walked(item) for item in cast(list[Any], value)]
    return value


def _storable(value: str) -> str:
    """NUL and half surrogates replaced: neither engine takes them in a text."""
    return value.replace("\x00", "�").encode("utf-8", "replace").decode()
