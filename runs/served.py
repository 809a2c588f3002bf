"""Whether anybody serves a run's workflow version: this software, or a living worker.

A run whose version nobody serves is never claimed and never tried: it stays where it is until a worker of a release
that serves it comes, or somebody migrates it. What is left is to say so.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from graph.versions import CURRENT, SERVED, VERSIONS
from onward_ledger.database import Database
from runs.registry import FOREIGN, Run


@dataclass(frozen=True, kw_only=True)
class Served:
    """Versions by who serves them."""

    here: frozenset[str]
    workers: frozenset[str]

    def serves(self, run: Run) -> bool:
        """Whether the run's version is served; of a run that has ended it does not matter."""
        return run.finished or run.kind == FOREIGN or self.has(run.workflow_version)

    def has(self, version: str) -> bool:
        """Whether this version is served."""
        return version in self.here or version in self.workers


def served(database: Database) -> Served:
    """Who serves what now."""
    workers = {str(version) for row in database.read("workers") for version in row["versions"]}
    return Served(here=frozenset(SERVED), workers=frozenset(workers))


def unserved_versions(database: Database) -> dict[str, int]:
    """How many runs wait or are queued under versions that nobody serves, by version."""
    now = served(database)
    rows = database.read("unfinished_versions")
    return {row["workflow_version"]: row["runs"] for row in rows if not now.has(row["workflow_version"])}


def advice(run: Run) -> dict[str, Any]:
    """What would bring an unserved run on, in words and as commands; as `next_action` of `onward show`."""
    version, short = run.workflow_version, run.run_id[:8]
    text = (
        f"No living worker serves workflow version {version}, nor does this software (it has {', '.join(SERVED)}), so "
        "nobody drives the run and nothing tries to. Start a worker of a release that serves it"
    )
    if version in VERSIONS[CURRENT].migrations:
        return {"text": f"{text}, or migrate it.", "commands": [f"onward migrate {short} --to {CURRENT}"]}
    return {"text": f"{text}. There is no migration from it to version {CURRENT}.", "commands": []}
