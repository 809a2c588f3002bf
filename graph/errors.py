"""What ends a step without a result, as one tree.

    GraphError
    ├── ActionFailed      definite     a provider definitely refused an action
    ├── OutcomeUnknown    definite     only a person can say whether an action's effect happened
    └── NoUsableAnswer    definite     the model gave no complete and valid answer within its tries

The message is a plain sentence for the user: what is wrong, and what to do about it.
"""

from __future__ import annotations

from onward_ledger.action import Action


class GraphError(Exception):
    """Root of the tree."""

    definite = True


class ActionFailed(GraphError):
    """A provider definitely refused an action. `action` is its record."""

    def __init__(self, action: Action) -> None:
        why = (action.reason or "no reason was given").rstrip(".")
        super().__init__(f"The action {action.kind} on {action.resource} failed: {why}.")
        self.action = action


class OutcomeUnknown(GraphError):
    """Only a person can say whether an action's effect happened. `action` is its record."""

    def __init__(self, action: Action) -> None:
        why = (action.reason or "no answer came").rstrip(".")
        super().__init__(
            f"Nobody can tell whether {action.kind} on {action.resource} happened: {why}. "
            "`onward resume` asks the provider again. Where it cannot tell, look it up yourself and say so: "
            f"onward ledger resolve {action.action_id} --reason TEXT, with --receipt JSON or --failed."
        )
        self.action = action


class NoUsableAnswer(GraphError):
    """The model gave no complete and valid answer within its tries."""
