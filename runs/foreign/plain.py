"""Values of somebody's graph as JSON: for a person who reads them, and the same in every process.

What has no JSON form is named by its type; nothing is revived from it. `cut` is for what goes into rows and screens.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Set
from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum
from pathlib import PurePath
from typing import Any, cast
from uuid import UUID

LONGEST_TEXT = 2_000
MOST_MEMBERS = 100
DEEPEST = 12


def plain(value: Any, *, depth: int = 0) -> Any:
    """A JSON value for any value. Messages and models of Pydantic become objects."""
    if value is None or (isinstance(value, bool | str | int) and not isinstance(value, Enum)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if depth > 50:
        return f"<{type(value).__name__}>"
    if isinstance(value, Mapping):
        return {str(name): plain(each, depth=depth + 1) for name, each in cast(Mapping[Any, Any], value).items()}
    if isinstance(value, Set):
        return sorted((plain(each, depth=depth + 1) for each in cast(Set[Any], value)), key=repr)
    if isinstance(value, list | tuple):
        return [plain(each, depth=depth + 1) for each in cast(list[Any], value)]
    return _other(value, depth)


def _other(value: Any, depth: int) -> Any:
    if isinstance(value, Enum):
        return plain(value.value, depth=depth + 1)
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, Decimal | UUID | PurePath):
        return str(value)
    if isinstance(value, bytes | bytearray):
        return f"<{len(value)} bytes>"
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        members = {each.name: getattr(value, each.name) for each in dataclasses.fields(value)}
        return plain(members, depth=depth + 1)
    if callable(dump := getattr(value, "model_dump", None)) and not isinstance(value, type):
        return plain(dump(), depth=depth + 1)
    return f"<{type(value).__name__}>"


def cut(value: Any, *, depth: int = 0) -> Any:
    """A JSON value with its long texts, lists and objects shortened; what was left out is said in its place."""
    if isinstance(value, str) and len(value) > LONGEST_TEXT:
        return f"{value[:LONGEST_TEXT]}… ({len(value):,} characters)"
    if not isinstance(value, list | dict):
        return value
    if depth >= DEEPEST:
        return "…"
    if isinstance(value, list):
        items = cast(list[Any], value)
        kept = [cut(each, depth=depth + 1) for each in items[:MOST_MEMBERS]]
        return kept if len(items) <= MOST_MEMBERS else [*kept, f"… ({len(items):,} items)"]
    members = cast(dict[str, Any], value)
    kept = {name: cut(each, depth=depth + 1) for name, each in list(members.items())[:MOST_MEMBERS]}
    return kept if len(members) <= MOST_MEMBERS else kept | {"…": f"{len(members):,} members"}
