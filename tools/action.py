"""The only door to the world: every external effect of a run goes through the ledger from here.

Bound to one run and one epoch, so that no node can speak for another run, or for a driver that was replaced.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from onward_ledger import Action, ActionKey, Fence, LedgerClient
from tools.errors import NotPermitted

# Returns (resource, params); called only when nothing is recorded for the key yet.
Build = Callable[[], tuple[str, dict[str, Any]]]


def _ignore(_: Action) -> None:
    return None


def _always() -> None:
    return None


class Actions:
    """The actions of one run under one epoch.

    `on_answer` sees every answer (for events and progress). `check` is called before every request and raises when the
    driver has lost the run. `allowed_kinds` are the kinds of effects that the run may use, as written at its start, so
    that newer software gives it no more rights; null: any. Errors: those of `onward_ledger.errors`, and NotPermitted.
    """

    def __init__(
        self,
        client: LedgerClient,
        run_id: str,
        epoch: int,
        on_answer: Callable[[Action], None] = _ignore,
        check: Callable[[], None] = _always,
        allowed_kinds: Collection[str] | None = None,
    ) -> None:
        self._client = client.checked(check)
        self._run_id = run_id
        self._epoch = epoch
        self._on_answer = on_answer
        self._allowed_kinds = allowed_kinds

    def perform(self, step: str, slot: str, kind: str, build: Build, *, rev: int = 1) -> Action:
        """Perform the action or replay what stands.

        SUCCEEDED carries the receipt; FAILED is final; UNKNOWN waits for a person; PREPARED lacks an approval;
        WITHDRAWN was taken back, and `decision` says by whom.
        """
        self._check_kind(kind)
        key = ActionKey(self._run_id, step, slot, rev)
        return self._told(self._client.perform(key, kind, build, epoch=self._epoch))

    def propose(self, step: str, slot: str, kind: str, build: Build, *, rev: int = 1) -> Action:
        """Record the intent and stop there; repeating it is harmless. `decision` is set when somebody has decided."""
        self._check_kind(kind)
        key = ActionKey(self._run_id, step, slot, rev)
        return self._told(self._client.propose(key, kind, build, epoch=self._epoch))

    def live(self, step: str, slot: str) -> Action | None:
        """The one revision that is not withdrawn, with its decision; None where there is none."""
        return self._client.live(self._run_id, step, slot)

    def settle(self, fence: Fence) -> list[Action]:
        """Verify what earlier epochs left in flight or unknown; what each of them is now."""
        return [self._told(self._client.reconcile(action.action_id)) for action in fence.unsettled]

    def _check_kind(self, kind: str) -> None:
        if self._allowed_kinds is not None and kind not in self._allowed_kinds:
            allowed = ", ".join(sorted(self._allowed_kinds)) or "none"
            raise NotPermitted(f"This run may not use {kind}. What it may use was written at its start: {allowed}.")

    def _told(self, action: Action) -> Action:
        self._on_answer(action)
        return action
