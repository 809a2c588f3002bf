"""Recorded model calls: a start before the call, its use after it, and a bounded number of tries.

A start without an end counts as paid, amount unknown: the provider may have generated and billed an answer that no
process lived to save.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from graph.context import Context
from graph.errors import NoUsableAnswer
from graph.prompts import InvalidAnswer

TRIES = 3  # a model that fails three times on its own mistakes rarely succeeds at the fourth

T = TypeVar("T")


def ask(context: Context, step: str, messages: Sequence[BaseMessage], read: Callable[[AIMessage], T]) -> T:
    """The first answer that `read` accepts; what it refused goes back to the model as feedback.

    Raises NoUsableAnswer after TRIES calls.
    """
    conversation = list(messages)
    refusals: list[str] = []
    for _ in range(TRIES):
        answer = _call(context, step, [*conversation, *map(HumanMessage, refusals[-1:])])
        try:
            return read(answer)
        except InvalidAnswer as refused:
            refusals.append(f"Your answer cannot be used. {refused}")
            context.recorder.progress(step, f"The model's answer was refused: {refused}")
    raise NoUsableAnswer(f"The model gave no usable answer in {TRIES} tries. The last refusal: {refusals[-1]}")


def _call(context: Context, step: str, messages: Sequence[BaseMessage]) -> AIMessage:
    context.recorder.check()
    call = context.recorder.model_call_started(step, model_name(context))
    answer = context.model.invoke(list(messages))
    metadata: dict[str, Any] = answer.response_metadata
    usage = answer.usage_metadata
    context.recorder.model_call_finished(
        call,
        finish_reason=metadata.get("finish_reason") or metadata.get("stop_reason"),
        input_tokens=usage["input_tokens"] if usage else None,
        output_tokens=usage["output_tokens"] if usage else None,
        cost_usd=_cost(context, metadata),
    )
    return answer


def _cost(context: Context, metadata: dict[str, Any]) -> float | None:
    """What the provider says that the call cost. Price lists go stale, so none is kept here."""
    if language_model(context) is None:
        return 0.0
    cost = metadata.get("cost") or metadata.get("token_usage", {}).get("cost")
    return float(cost) if isinstance(cost, int | float) else None


def model_name(context: Context) -> str:
    """The name that goes into events and into the report."""
    model = context.model
    name = getattr(model, "model_name", None) or getattr(model, "model", None)
    return str(name or model._llm_type)  # pyright: ignore[reportPrivateUsage] - LangChain's name for its kind


def language_model(context: Context) -> str | None:
    """The language model's name; None when the offline analyst works."""
    from graph.models import OfflineAnalyst

    return None if isinstance(context.model, OfflineAnalyst) else model_name(context)
