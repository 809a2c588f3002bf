"""`onward fork`: a new run from where another one stood before a step, with something changed."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from runs.commands.output import Format, say
from runs.commands.services import Opened, check_may_act, found, objects_of
from runs.errors import OtherVersion, UsageError
from runs.registry import FOREIGN, Run

if TYPE_CHECKING:
    from runs.fork import Change, Naming
    from runs.parts import Driveable
    from runs.settings import StoreKind

NAMES = ("model", "ask", "budget", "deadline")

# Where the agent's graph has not planned yet, other questions can still be answered.
_PLANS = "plan"


@dataclass(frozen=True, kw_only=True)
class Request:
    """What the command line asks for; `settings` are the values of `--set`."""

    run_id: str
    step: str
    settings: Sequence[str] = ()
    queue: bool = False


def fork(request: Request, *, store: StoreKind | None, output: Format) -> int:
    """See `onward fork`."""
    given = parse_settings(request.settings)
    with found(request.run_id, store) as (opened, parent):
        check_may_act(opened)
        made = _fork(opened, parent, request, given)
        from runs.commands.driving import answer, drive_and_answer

        say(f"Run {made.run_id}: a fork of {parent.run_id} from {request.step}.")
        return answer(opened, made, output) if request.queue else drive_and_answer(opened, made, output)


def parse_settings(settings: Sequence[str]) -> dict[str, list[str]]:
    """`NAME=VALUE` by name; only `ask` may come more than once. Raises UsageError."""
    given: dict[str, list[str]] = {}
    for setting in settings:
        name, separator, value = setting.partition("=")
        if not separator or not name.strip():
            raise UsageError(f"--set {setting!r} cannot be used: give NAME=VALUE.")
        given.setdefault(name.strip(), []).append(value)
    for name, values in given.items():
        if len(values) > 1 and name != "ask":
            raise UsageError(f"--set {name} was given {len(values)} times.")
    return given


def _fork(opened: Opened, parent: Run, request: Request, given: Mapping[str, Sequence[str]]) -> Run:
    from runs import fork, local_ledger, registry
    from runs.checkpoints import set_up_through
    from runs.commands.start import OURS_SECONDS

    store, ledger_id, location = local_ledger.serves(opened.settings)
    registry.refuse_elsewhere(parent, store=store, objects=location, ledger=ledger_id)
    set_up_through(opened.database, opened.store)
    with _workflow(opened, parent) as (workflow, name_of), local_ledger.connect(opened.settings) as ledger:
        point = fork.find_point(fork.points(opened.database, parent, workflow, name_of), request.step)
        change = _change(opened, parent, point.node, given)
        return fork.fork(
            opened.database,
            objects_of(opened.settings),
            ledger,
            parent,
            workflow,
            point,
            change,
            owner=opened.settings.principal,
            wake_seconds=None if request.queue else OURS_SECONDS,
        )


@contextmanager
def _workflow(opened: Opened, parent: Run) -> Generator[tuple[Driveable, Naming]]:
    """The parent's graph, and how its steps are called; of somebody's own graph as `runs.foreign.recording` does."""
    from graph.versions import VERSIONS
    from runs.parts import Workflow

    if parent.kind == FOREIGN:
        from runs import local_ledger
        from runs.foreign.serving import Serving

        serving = Serving(None, objects_of(opened.settings), lambda: local_ledger.endpoint(opened.settings))
        with closing(serving.workflow(parent)) as theirs:
            yield theirs, lambda node, _, number: f"{node}#{number}"
        return
    version = VERSIONS.get(parent.workflow_version)
    if version is None:
        raise OtherVersion(
            f"The run {parent.run_id} is of workflow version {parent.workflow_version}, which this software does not "
            "serve, so its steps cannot be told. Fork it with a release that serves it."
        )
    workflow = Workflow(build=version.build, recursion_limit=version.recursion_limit)
    yield workflow, lambda node, values, _: version.step_of(node, values)


def _change(opened: Opened, parent: Run, node: str, given: Mapping[str, Sequence[str]]) -> Change:
    """What `--set` means for this run, at this place. Raises UsageError for what has no effect there."""
    from runs.fork import Change, parse_value

    row = _columns(opened, given)
    own = {name: values[0] for name, values in given.items() if name not in NAMES}
    state: dict[str, Any] = {name: parse_value(value) for name, value in own.items()}
    if parent.kind != FOREIGN:
        if own:
            raise UsageError(f"--set {', '.join(own)} cannot be used: give {', '.join(NAMES)}.")
        if "asks" in row:
            if node != _PLANS:
                raise UsageError("Questions are planned in the step plan. To change them, fork --from plan.")
            state["asks"] = row["asks"]
    elif "asks" in row or "model" in row:
        raise UsageError("--set ask and model are for workbooks. Give the names of this graph's state.")
    return Change(row=row, state=state, said={name: list(values) for name, values in given.items()})


def _columns(opened: Opened, given: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """The columns of the new row that differ from the parent's."""
    from runs.commands.start import check_model, deadline_from

    row: dict[str, Any] = {}
    if "model" in given:
        row["model"] = given["model"][0] or None
        check_model(row["model"])
    if "ask" in given:
        row["asks"] = list(given["ask"])
        if not all(ask.strip() for ask in row["asks"]):
            raise UsageError("A question given with --set ask is empty.")
    if "budget" in given:
        row["budget_micros"] = _micros(given["budget"][0])
    if "deadline" in given:
        row["deadline_at"] = deadline_from(given["deadline"][0], opened.database.now())
    return row


def _micros(text: str) -> int:
    try:
        dollars = float(text)
    except ValueError:
        dollars = -1.0
    if not 0 <= dollars < 1e9:
        raise UsageError(f"--set budget={text} cannot be used: give US dollars.")
    return round(dollars * 1_000_000)
