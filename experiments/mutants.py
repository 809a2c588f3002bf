"""Defects to plant on purpose: a checker that lets them pass proves nothing.

    no-replay         in the ledger: a recorded effect is performed again when it is asked for again
    fresh-action-id   in the driver: every driver asks under ids of its own, as if a retry were a new action

They change one process of an experiment, never the product.
"""

from __future__ import annotations

IN_LEDGER = ("no-replay",)
IN_DRIVER = ("fresh-action-id",)
ALL = IN_LEDGER + IN_DRIVER


def plant(name: str) -> None:
    """Plant a defect in this process."""
    {"no-replay": _perform_again, "fresh-action-id": _ask_anew}[name]()


def _perform_again() -> None:
    """Answer a repeated request by sending once more. A publication is spared: its row is unique for an action."""
    from onward_ledger.action import Action, Intent, Status
    from onward_ledger.ledger import Ledger
    from onward_ledger.providers.interface import Deadline, SendingProvider

    put = Ledger.put

    def forgetful(self: Ledger, intent: Intent, *, propose: bool, principal: str | None = None) -> Action:
        action = put(self, intent, propose=propose, principal=principal)
        provider = self.provider(intent.kind)
        if action.replayed and action.status is Status.SUCCEEDED and isinstance(provider, SendingProvider):
            provider.send(action, Deadline(30.0))
        return action

    Ledger.put = forgetful


def _ask_anew() -> None:
    """Put the epoch into the slot, and with it into every action id."""
    from onward_ledger.action import Action
    from tools.action import Actions, Build

    perform, propose = Actions.perform, Actions.propose

    def fresh(self: Actions, slot: str) -> str:
        return f"{slot}.{self._epoch}"  # pyright: ignore[reportPrivateUsage] - a mutant reaches inside

    def performed(self: Actions, step: str, slot: str, kind: str, build: Build, *, rev: int = 1) -> Action:
        return perform(self, step, fresh(self, slot), kind, build, rev=rev)

    def proposed(self: Actions, step: str, slot: str, kind: str, build: Build, *, rev: int = 1) -> Action:
        return propose(self, step, fresh(self, slot), kind, build, rev=rev)

    Actions.perform, Actions.propose = performed, proposed
