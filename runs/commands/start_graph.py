"""`onward run --graph`: a run of somebody's own graph. The order is that of `runs.commands.start`.

Their file is read here, not executed: that is for the process that drives the run.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from runs.commands.output import Format, say
from runs.commands.start import OURS_SECONDS, deadline_from
from runs.errors import UsageError
from runs.foreign.errors import GraphError
from runs.foreign.sources import defines
from runs.foreign.specs import GraphSpec, spec_of

if TYPE_CHECKING:
    from runs.commands.services import Opened
    from runs.registry import Run
    from runs.settings import StoreKind


@dataclass(frozen=True, kw_only=True)
class Request:
    """What the command line asks for: `graph`, `input`, `config` and `context` as typed, the rest as for any run."""

    graph: str
    version: str | None = None
    input: str | None = None
    config: str | None = None
    context: str | None = None
    ainvoke: bool = False
    deadline: str | None = None
    budget: float | None = None
    budget_tokens: int | None = None
    queue: bool = False


def refuse_ours(*, input: Path | None, ask: list[str] | None, model: str | None, approve: bool) -> None:
    """Raise UsageError for what is for the analysis of a workbook only."""
    if input is not None:
        raise UsageError("A graph of your own gets its input with --input JSON, @file or -.")
    for option, given in (("--ask", ask), ("--model", model), ("--approve", approve)):
        if given:
            raise UsageError(f"{option} is for the analysis of a workbook, and does not go with --graph.")


def run(request: Request, *, store: StoreKind | None, output: Format) -> int:
    """See `onward run`."""
    spec = spec_of(request.graph, version=request.version)
    if not defines(spec.file, spec.attribute):
        raise GraphError(f"{spec.file} has no {spec.attribute}.")
    if request.input is None:
        raise UsageError("Give the input of the graph: --input JSON, --input @file.json, or --input - for stdin.")
    data = json_text("--input", request.input)
    params = _params(request, spec)
    say("Starting…")  # before the imports below, which take a moment
    from runs.commands.driving import answer, drive_and_answer
    from runs.commands.services import check_may_act, opened, settings_for

    with opened(settings_for(store)) as place:
        check_may_act(place)
        new = _create(place, request, spec, data, params)
        say(f"Run {new.run_id}: {spec.name} of {spec.file}, version {new.workflow_version}.")
        return answer(place, new, output) if request.queue else drive_and_answer(place, new, output)


def json_text(option: str, text: str) -> bytes:
    """JSON from the command line, from a file as `@file.json`, or from stdin as `-`; as bytes, checked.

    Raises UsageError that says where it is wrong.
    """
    try:
        if text == "-":
            data = sys.stdin.buffer.read()
        else:
            data = Path(text[1:]).expanduser().read_bytes() if text.startswith("@") else text.encode()
        json.loads(data, parse_constant=_refuse_constant)
    except OSError as error:
        raise UsageError(f"{option}: {text[1:]} cannot be read: {error.strerror}.") from None
    except ValueError as error:
        raise UsageError(f"{option} is not JSON: {error}.") from None
    return data


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON value")


def _params(request: Request, spec: GraphSpec) -> dict[str, Any]:
    """What the row keeps: where the graph is on this machine, and how it is invoked."""
    params: dict[str, Any] = {"graph": {"spec": spec.text, "folder": str(spec.folder)}}
    for name, text in (("config", request.config), ("context", request.context)):
        if text is not None:
            params[name] = json.loads(json_text(f"--{name}", text))
            if not isinstance(params[name], dict):
                raise UsageError(f'--{name} has to be a JSON object, such as {{"key": "value"}}.')
    config = cast(dict[str, Any], params.get("config", {}))
    if not isinstance(config.get("configurable", {}), dict):
        raise UsageError('"configurable" in --config has to be a JSON object.')
    if request.ainvoke:
        params["ainvoke"] = True
    return params


def _create(place: Opened, request: Request, spec: GraphSpec, data: bytes, params: dict[str, Any]) -> Run:
    from runs import local_ledger, registry
    from runs.commands.services import objects_of
    from runs.registry import FOREIGN

    settings = place.settings
    deadline_at = None if request.deadline is None else deadline_from(request.deadline, place.database.now())
    with local_ledger.connect(settings):
        new = registry.NewRun(
            kind=FOREIGN,
            owner=settings.principal,
            tenant=settings.tenant,
            workflow_version=spec.version,
            store=settings.store,
            ledger=local_ledger.ledger_id(settings),
            params=params,
            deadline_at=deadline_at,
            budget_micros=round(request.budget * 1_000_000) if request.budget is not None else None,
            budget_tokens=request.budget_tokens,
            wake_seconds=None if request.queue else OURS_SECONDS,
        )
        name = Path(request.input[1:]).name if request.input and request.input.startswith("@") else "input.json"
        return registry.create_from(place.database, objects_of(settings), data, name, new)
