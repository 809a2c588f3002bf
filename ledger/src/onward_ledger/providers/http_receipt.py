"""What is kept of an answer: an id, and chosen members that are small and that JSON can hold."""

from __future__ import annotations

from collections.abc import Mapping

from onward_ledger.action import Json
from onward_ledger.canonical import canonical, plain
from onward_ledger.errors import BadRequest
from onward_ledger.providers.http_template import MISSING, Pointer

LARGEST_MEMBER_BYTES = 2000


def identifier(value: object) -> str | None:
    """An API's id as text: text that is not empty, or an integer; None for anything else."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if isinstance(value, str) and value.strip():
        return value
    return None


def members(document: object, kept: Mapping[str, Pointer]) -> Json:
    """The chosen members that are there and are small; numbers that JSON does not hold exactly become text."""
    found = {name: pointer.get(document) for name, pointer in kept.items()}
    return {name: plain(value) for name, value in found.items() if value is not MISSING and _is_small(value)}


def _is_small(value: object) -> bool:
    try:
        return len(canonical(plain(value))) <= LARGEST_MEMBER_BYTES
    except (BadRequest, RecursionError):  # nested deeper than anybody reads
        return False
