"""What a node gets besides the state: the seam between the graph and whoever drives it.

LangGraph passes a `Context` to every node as its runtime context (`runtime: Runtime[Context]`). What a lower layer
needs from a higher one reaches it as a value in here, so `graph` imports nothing of `runs`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from onward_ledger.action import Action
    from tools.action import Actions
    from tools.files import Files
    from tools.query import QueryServer


class LeaseLost(BaseException):
    """This driver no longer holds the run; whatever it does next would be refused.

    A BaseException, so that no tool, retry or model wrapper swallows it.
    """


class CancelRequested(BaseException):
    """Somebody asked to cancel the run: its work stops here. A BaseException for the same reason."""


class Recorder(Protocol):
    """Writes a run's durable history. Every method raises LeaseLost when another driver has taken over."""

    def check(self) -> None:
        """Raise LeaseLost when this driver has lost the run, LimitReached when its deadline or budget is used up.

        And CancelRequested when somebody asked to cancel it.

        Cheap (no I/O): call it before anything long or expensive, and inside loops.
        """
        ...

    def step_started(self, step: str) -> int:
        """Record that a step (`plan`, `analyze#2`) begins; its attempt number, counted from 1 over all epochs."""
        ...

    def step_finished(self, step: str) -> None:
        """Record that the step's work is done (its result becomes durable with the next checkpoint)."""
        ...

    def progress(self, step: str, text: str, *, done: int | None = None, total: int | None = None) -> None:
        """Record one line for who follows: what happens now, and how much of how much is done."""
        ...

    def model_call_started(self, step: str, model: str) -> str:
        """Record a model call before it is made; its call id. A start without an end counts as paid, amount unknown."""
        ...

    def model_call_finished(
        self,
        call_id: str,
        *,
        finish_reason: str | None,
        input_tokens: int | None,
        output_tokens: int | None,
        cost_usd: float | None,
    ) -> None:
        """Record what the call used. `None` means that the provider did not say."""
        ...

    def receipt(self, action: Action, *, replayed: bool) -> None:
        """Record that an action has its receipt; `replayed` when nothing was sent for this answer."""
        ...


@dataclass(frozen=True, kw_only=True)
class Context:
    """Everything a node may touch, made anew for each drive."""

    run_id: str
    epoch: int
    principal: str  # on whose behalf the run acts: its owner, not whoever resumed it
    actions: Actions  # the only door to the world
    files: Files  # immutable objects of this run
    recorder: Recorder
    model: BaseChatModel
    scratch: Path  # temporary files of this drive; removed at its end
    queries: Callable[[], QueryServer]  # the query server of this drive, started at the first call
