"""Which model answers: any LangChain chat model, or the offline analyst when there is none.

`--model provider:name` asks LangChain's registry of providers; `--model module:object` takes a chat model (or a
function that makes one) from the user's own module. Both answer the same prompts and are held to the same checks.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import re
from typing import Any, cast

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult

from tools.ask import NotAnswerable, default_questions, map_ask
from tools.compose import compose_offline

OFFLINE = "offline"


class ModelNotFound(Exception):
    """The model that was asked for cannot be had. The message says what to install or correct."""


class OfflineAnalyst(BaseChatModel):
    """A deterministic chat model: fixed rules plan from the profile and put the figures into words.

    It reads the JSON of the last message and answers in the JSON that the prompt asks for, like any other model.
    """

    @property
    def _llm_type(self) -> str:
        return OFFLINE

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        request = json.loads(cast(str, messages[-1].content))
        answer = _plan(request) if request["task"] == "plan" else _write(request)
        message = AIMessage(
            json.dumps(answer, ensure_ascii=False),
            response_metadata={"finish_reason": "stop", "model_name": OFFLINE},
            usage_metadata={"input_tokens": 0, "output_tokens": 0, "total_tokens": 0},
        )
        return ChatResult(generations=[ChatGeneration(message=message)])


def _plan(request: dict[str, Any]) -> dict[str, Any]:
    """The user's questions as far as they can be mapped; the default ones where the user asked nothing."""
    profile = request["profile"]
    questions: list[Any] = []
    unanswered: list[dict[str, Any]] = []
    for ask in request["asks"]:
        mapped = map_ask(ask, profile)
        if isinstance(mapped, NotAnswerable):
            unanswered.append({"ask": ask, "reason": mapped.reason, "columns": list(mapped.columns_looked_at)})
        else:
            questions.append(mapped)
    if not request["asks"]:
        questions = list(default_questions(profile))
    return {"title": f"Report on {profile['name']}", "questions": questions, "unanswered": unanswered}


def _write(request: dict[str, Any]) -> dict[str, Any]:
    return dict(compose_offline(request["plan"], request["profile"], request["results"]))


def load_model(spec: str | None) -> BaseChatModel:
    """The chat model that `spec` names; the offline analyst for None.

    Raises ModelNotFound with the package to install, or with what is wrong in the module.
    """
    if spec is None or spec == OFFLINE:
        return OfflineAnalyst()
    source, separator, name = spec.partition(":")
    if not separator or not source or not name:
        raise ModelNotFound(f"The model {spec!r} is neither provider:name nor module:object.")
    if (found := _from_module(source, name)) is not None:
        return found
    return _from_provider(source, name)


def _from_module(module: str, name: str) -> BaseChatModel | None:
    """The object of the user's module; None when there is no such module or no such name in it."""
    if not re.fullmatch(r"[A-Za-z_]\w*", name) or not _exists(module):
        return None
    try:
        found = getattr(importlib.import_module(module), name, None)
    except (Exception, SystemExit) as error:  # the user's own code, which may raise anything
        raise ModelNotFound(f"The module {module} of the model {module}:{name} raised {_told(error)}.") from error
    if found is None:
        return None
    model = _called(found, f"{module}:{name}")
    if not isinstance(model, BaseChatModel):
        raise ModelNotFound(f"{module}:{name} is a {type(model).__name__}, not a LangChain chat model.")
    return model


def _called(found: Any, spec: str) -> Any:
    """A model as it is; of anything else that can be called, what it makes."""
    if isinstance(found, BaseChatModel) or not callable(found):
        return found
    try:
        return found()
    except (Exception, SystemExit) as error:
        raise ModelNotFound(f"{spec} was called to make a chat model and raised {_told(error)}.") from error


def _told(error: BaseException) -> str:
    return f"{type(error).__name__}: {_first_line(error)}".rstrip(".")


def _exists(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):
        return False


def _from_provider(provider: str, name: str) -> BaseChatModel:
    try:
        from langchain.chat_models import init_chat_model
    except ImportError as error:
        raise ModelNotFound(
            f"The model {provider}:{name} needs the package langchain. Run: uv sync --extra models"
        ) from error
    try:
        return init_chat_model(name, model_provider=provider)
    except ImportError as error:
        package = getattr(error, "name", None) or f"langchain-{provider}"
        raise ModelNotFound(
            f"The provider {provider} needs the package {package.replace('_', '-')}. "
            f"Run: uv pip install {package.replace('_', '-')}"
        ) from error
    except Exception as error:
        # A provider raises its own kinds here: an unknown name, a missing key.
        raise ModelNotFound(f"The model {provider}:{name} cannot be used: {_first_line(error)}") from error


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
