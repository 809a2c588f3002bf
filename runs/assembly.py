"""What a drive of the agent is made of, from the settings: store, ledger, objects, graph, context."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager

from graph import versions
from graph.context import Context
from graph.models import ModelNotFound, load_model
from onward_ledger.client import LedgerClient
from onward_ledger.objects import Objects
from runs import local_ledger
from runs.checkpoints import set_up_through
from runs.drain import Drain
from runs.errors import UsageError
from runs.foreign.serving import Serving
from runs.parts import Parts, Seat, Workflow
from runs.registry import FOREIGN, Run
from runs.settings import Settings
from runs.store import open_store
from tools.action import Actions
from tools.files import Files
from tools.query import QueryServer


@contextmanager
def parts_for(
    settings: Settings, drain: Drain, *, driver_kind: str = "driver", graph: str | None = None
) -> Generator[Parts]:
    """Everything that driving needs: Postgres and the ledger are started where they are local and do not run.

    `graph`: whose graphs this process drives, if not those that runs name themselves.
    """
    store = open_store(settings)
    objects = Objects(settings.objects_url)
    with closing(store.database()) as database, ExitStack() as stack:
        set_up_through(database, store)
        ledger = stack.enter_context(local_ledger.connect(settings))
        serving, agent = (
            Serving(graph, objects, lambda: local_ledger.endpoint(settings), named_by_run=driver_kind != "worker"),
            agent_context(ledger, objects),
        )
        yield Parts(
            store=store,
            open_database=lambda: database,
            ledger=ledger,
            ledger_id=local_ledger.ledger_id(settings),
            objects_url=objects.url,
            workflow=served_workflow,
            make_context=lambda seat: serving.context(seat) if seat.run.kind == FOREIGN else agent(seat),
            check_run=check_model,
            scratch=settings.scratch,
            lease_seconds=settings.lease_seconds,
            drain=drain,
            driver_kind=driver_kind,
            foreign=serving.workflow,
        )


def served_workflow(version: str) -> Workflow:
    """The workflow of a version; KeyError for one that is not served here."""
    found = versions.VERSIONS[version]
    return Workflow(build=found.build, recursion_limit=found.recursion_limit)


def check_model(run: Run) -> None:
    """Raise UsageError when the run's model cannot be had here: a missing package or key fails no run."""
    if run.kind == FOREIGN:
        return  # its models are its own affair
    try:
        load_model(run.model)
    except ModelNotFound as error:
        raise UsageError(str(error)) from error


def agent_context(ledger: LedgerClient, objects: Objects) -> Callable[[Seat], AbstractContextManager[Context]]:
    """A factory of the agent's contexts. Children and files of a drive end with its context."""

    @contextmanager
    def make(seat: Seat) -> Generator[Context]:
        recorder, run = seat.recorder, seat.run
        with ExitStack() as stack:
            started: list[QueryServer] = []

            def queries() -> QueryServer:
                if not started:
                    started.append(stack.enter_context(QueryServer()))
                return started[0]

            yield Context(
                run_id=run.run_id,
                epoch=seat.epoch,
                principal=run.owner,
                actions=Actions(
                    ledger,
                    run.run_id,
                    seat.epoch,
                    on_answer=lambda action: recorder.receipt(action, replayed=action.replayed),
                    check=recorder.check,
                    allowed_kinds=run.allowed_kinds,
                ),
                files=Files(objects, run.run_id),
                recorder=recorder,
                model=load_model(run.model),
                scratch=seat.scratch,
                queries=queries,
            )

    return make
