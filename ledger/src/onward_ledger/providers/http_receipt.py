"""What is kept of an answer: an id, chosen members, no secret, and nothing that a database or JSON cannot hold."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, cast

from pydantic import SecretStr

from onward_ledger.action import LARGEST_INTEGER, Json, canonical
from onward_ledger.errors import BadRequest
from onward_ledger.providers.http_template import MISSING, Pointer

LONGEST_ID = 500
LARGEST_MEMBER_BYTES = 2000
_SHORTEST_SECRET = 4  # a shorter one would be found everywhere


class Redactor:
    """Replaces secrets wherever they turn up: an API may say a token back in an error."""

    def __init__(self, secrets: Iterable[SecretStr]) -> None:
        # The value and, behind "Bearer " or the like, its last word. The longest first: one may be part of another.
        texts = {
            text for secret in secrets for text in (secret.get_secret_value(), secret.get_secret_value().split()[-1])
        }
        self._texts = sorted((text for text in texts if len(text) >= _SHORTEST_SECRET), key=len, reverse=True)

    def __repr__(self) -> str:
        return f"Redactor({len(self._texts)} texts)"

    def text(self, text: str) -> str:
        """The text without secrets, and without what a database's text cannot hold."""
        for secret in self._texts:
            text = text.replace(secret, "[secret]")
        return storable(text)

    def json(self, value: Any) -> Any:
        """The same of every text in a JSON value."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {self.text(name): self.json(item) for name, item in cast(Json, value).items()}
        if isinstance(value, list):
            return [self.json(item) for item in cast(list[Any], value)]
        return value


def storable(text: str) -> str:
    """The text with NUL and half surrogates replaced: an effect that happened must not fail to be recorded."""
    return text.replace("\x00", "�").encode("utf-8", "replace").decode()


def identifier(value: object) -> str | None:
    """An API's id as text: text that is not empty, or an integer; None for anything else."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if isinstance(value, str) and value.strip():
        return value if len(value) <= LONGEST_ID else value[:LONGEST_ID] + "…"
    return None


def members(document: object, kept: Mapping[str, Pointer]) -> Json:
    """The chosen members that are there and are small; numbers that JSON does not hold exactly become text."""
    found = {name: pointer.get(document) for name, pointer in kept.items()}
    return {name: _plain(value) for name, value in found.items() if value is not MISSING and _is_small(value)}


def _plain(value: Any) -> Any:
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, dict):
        return {storable(name): _plain(item) for name, item in cast(Json, value).items()}
    if isinstance(value, list):
        return [_plain(item) for item in cast(list[Any], value)]
    if isinstance(value, int | float) and not isinstance(value, bool):
        exact = math.isfinite(value) and abs(value) <= LARGEST_INTEGER
        return value if exact else str(value)
    return value


def _is_small(value: object) -> bool:
    try:
        return len(canonical(_plain(value))) <= LARGEST_MEMBER_BYTES
    except (BadRequest, RecursionError):  # nested deeper than anybody reads
        return False
