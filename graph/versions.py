"""Workflow versions: which graph a run was created with is written in its row and never changes.

A node that is renamed while its interrupt is pending lets the resume return as if the run were finished. So a change
to nodes, edges or state makes a new version here, beside the old one, for as long as old runs exist.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

CURRENT = "1"
SERVED = ("1",)


def builder(version: str) -> Callable[[], Any]:
    """The `build` function of a version. Raises KeyError for one that is not served here."""
    if version not in SERVED:
        raise KeyError(version)
    from graph.build import build

    return build
