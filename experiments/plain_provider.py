"""A provider of drafts that does what it is told, each time, like a mail server: the hardest kind to be safe with.

Class queryable: it can be searched for the action's id, and it does not notice that it is asked twice. The effect is
one line at the oracle. So a second sending is a second effect, whoever sends it and why; and an outcome that nobody
knows, of which no trace is found, stays UNKNOWN until a person settles it.
"""

from __future__ import annotations

from typing import Any

from experiments.boundaries import Watch
from experiments.oracle import Oracle


def install(oracle: Oracle, watch: Watch) -> None:
    """Let `draft.save` go through it in this process."""
    from onward_ledger.providers.draft import DraftSave
    from onward_ledger.providers.interface import Absent, Applied, ProviderClass

    save = DraftSave.send

    def sending(self: Any, action: Any, deadline: Any) -> Any:
        """Put the files, as ever; what counts is the line at the oracle."""
        outcome = save(self, action, deadline)
        if isinstance(outcome, Applied):
            with watch.operation("the effect"):
                oracle.record(
                    run_id=action.run_id,
                    kind=action.kind,
                    resource=action.resource,
                    digest=action.params["digest"],
                    marker=action.action_id,
                )
        return outcome

    def looking(self: Any, action: Any) -> Any:
        found = [effect for effect in oracle.effects(action.run_id) if effect.marker == action.action_id]
        return self._applied(action) if found else Absent()

    DraftSave.provider_class = ProviderClass.QUERYABLE
    DraftSave.send = sending
    DraftSave.lookup = looking
