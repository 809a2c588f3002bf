"""What two runs without a fault have in common, so that only that is compared with a run that was killed.

Ids and times differ from run to run. They are found by comparing, not by their look: a *path* is where in a JSON value
two runs differ, such as `messages[].id`, and what is left without those paths is stable.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

Path = tuple[str, ...]
EACH = "[]"
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


def canonical(value: Any) -> str:
    """One text for one JSON value."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def plain(value: object) -> Any:
    """Any value as JSON: messages and models by their fields, everything else by its text."""
    if value is None or isinstance(value, str | int | float | bool):
        return value
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}  # pyright: ignore[reportUnknownArgumentType]
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]  # pyright: ignore[reportUnknownArgumentType]
    if isinstance(value, set | frozenset):
        return sorted((plain(item) for item in value), key=canonical)  # pyright: ignore[reportUnknownArgumentType]
    if isinstance(value, bytes):
        return value.hex()
    if hasattr(value, "model_dump"):
        return plain(value.model_dump())  # pyright: ignore[reportAttributeAccessIssue, reportUnknownArgumentType]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    return _ADDRESS.sub("", str(value))


def varying(one: Any, other: Any) -> frozenset[Path]:
    """Where two values differ. A list of another length, or another kind of value, differs as a whole."""
    return frozenset(_differences(one, other, ()))


def _differences(one: Any, other: Any, path: Path) -> Iterable[Path]:
    if isinstance(one, dict) and isinstance(other, dict):
        for key in sorted(one.keys() | other.keys()):
            if key in one and key in other:
                yield from _differences(one[key], other[key], (*path, key))
            else:
                yield (*path, key)
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for mine, theirs in zip(one, other, strict=True):
            yield from _differences(mine, theirs, (*path, EACH))
    elif one != other or type(one) is not type(other):
        yield path


def without(value: Any, paths: frozenset[Path], path: Path = ()) -> Any:
    """The value with null in place of what varies."""
    if path in paths:
        return None
    if isinstance(value, dict):
        return {key: without(item, paths, (*path, key)) for key, item in value.items()}
    if isinstance(value, list):
        return [without(item, paths, (*path, EACH)) for item in value]
    return value


def shown(paths: Iterable[Path]) -> list[str]:
    """Paths as people write them: `messages[].id`."""
    return sorted(".".join(path).replace(f".{EACH}", EACH) or "everything" for path in paths)


def varying_items(lists: Sequence[Sequence[Any]]) -> frozenset[Path]:
    """Where the items of lists differ that should hold the same, in any order. () when only their number is sure."""
    first = lists[0]
    if all(counted(other, frozenset()) == counted(first, frozenset()) for other in lists[1:]):
        return frozenset()
    if any(len(other) != len(first) for other in lists[1:]):
        return frozenset({()})
    paths = frozenset(
        path
        for other in lists[1:]
        for mine, theirs in zip(first, other, strict=True)
        for path in _differences(mine, theirs, ())
    )
    same = all(counted(other, paths) == counted(first, paths) for other in lists[1:])
    return paths if same else frozenset({()})


def counted(items: Iterable[Any], paths: frozenset[Path]) -> Counter[str]:
    """Items by what is stable in them."""
    return Counter(canonical(without(item, paths)) for item in items)
