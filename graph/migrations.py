"""Bringing the state of a waiting run from one workflow version to another.

A migration is a pure function that somebody has written and tested: the whole state under the old version, and the
nodes that were to come next there, in; the whole state under the new one out. It is registered with the version that
it leads to (`graph.versions`), so what there is no function for is refused, never guessed. It gets no graph: the
software that migrates need not serve the old version.

Rules for who writes one:

* Name as `as_node` the last node that counts as finished. The new graph's own router then says what comes next, and a
  migration after which nothing would come next is refused. What the old version had begun begins again there.
* A step's name is part of an action's identity. Where a renamed node keeps the names of its steps, drafts that are
  saved and approvals that are given stay valid; where it does not, they are made and asked for again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

# A state as it is checkpointed: JSON values by name.
Values: TypeAlias = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Migrated:
    """A state under the new version: every value, and the node of the new graph behind which the run stands.

    `as_node` is "__start__" for a run of which no step has finished.
    """

    values: Values
    as_node: str


# `migrate(values, pending)`. Of a run that stands at a question, the node that asks is pending.
Migrate: TypeAlias = Callable[[Values, tuple[str, ...]], Migrated]
