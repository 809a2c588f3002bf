"""A driver that forgets epochs: it does not look at its lease, and does not compare the epoch in what it writes."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

_COMPARED = re.compile(r"l\.epoch = (%\(epoch\)s(::bigint)?|:epoch)")


def forget_epochs() -> None:
    """In this process."""
    from onward_ledger.database import postgres, sqlite
    from runs.heartbeat import Heartbeat

    def nothing(self: Heartbeat, reason: str = "") -> None:
        return None

    Heartbeat.check = nothing  # pyright: ignore[reportAttributeAccessIssue]
    Heartbeat.lose = nothing
    postgres.load_statements = _forgetting(postgres.load_statements)
    sqlite.load_statements = _forgetting(sqlite.load_statements)


def forgotten(text: str) -> str:
    """A statement whose epoch is compared with nothing."""
    return _COMPARED.sub("l.epoch >= 1", text)


def _forgetting(load: Callable[[Path], dict[str, Any]]) -> Callable[[Path], dict[str, Any]]:
    def loading(folder: Path) -> dict[str, Any]:
        return {name: forgotten(text) for name, text in load(folder).items()}

    return loading
