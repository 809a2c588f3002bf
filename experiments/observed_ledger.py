"""The ledger service as it is, with a witness in its process: every effect is told to the oracle.

`serve_observed` is the whole life of such a process. What is told, and when:

    draft.save       when the provider has sent, and whether that changed anything. This provider is idempotent: a
                     second sending changes nothing, and is told as "again".
    report.publish   each publication, when its transaction has committed; one that rolled back is no effect.

The answer to the driver leaves the ledger only after the oracle has the line on disk. With `plain_provider` the drafts
go through `experiments.plain_provider` instead, which has no such mercy: each sending is an effect.
"""

from __future__ import annotations

import functools
import logging
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments import choke
from experiments.boundaries import Passing, Watch, recorder
from experiments.mutants import plant_in_ledger
from experiments.nemesis import Fault, armed
from experiments.oracle import Oracle
from experiments.story import REFUSED, Story


@dataclass(frozen=True, kw_only=True)
class LedgerSpec:
    """One ledger of an experiment. `store` and `objects` are what `onward-ledger serve` takes.

    `deadline_seconds` is the hard deadline of a send, `grace_seconds` what its record may take beyond it: shorter ones
    make the cases short in which a service falls silent. `config`: kinds beside those that are built in. `host` and
    `port` are where it listens; port 0: a free one.
    """

    store: str
    objects: str
    token_file: Path
    oracle: Oracle
    planted: str | None = None
    plain_provider: bool = False
    deadline_seconds: float | None = None
    grace_seconds: float | None = None
    config: Path | None = None
    host: str = "127.0.0.1"
    port: int = 0


def serve_observed(
    story: Story, spec: LedgerSpec, ready_file: Path, fault: Fault | None, recording: Path | None
) -> str:
    """Be the ledger until stopped or until the fault: what `onward-ledger serve` does, watched."""
    from onward_ledger.serve import ServeOptions, read_token, serve

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    passing: Passing = recorder(recording) if recording is not None else armed(fault, story)
    watch = Watch(passing)
    choke.install_all(watch)
    _shorten_deadlines(spec)
    if spec.plain_provider:
        from experiments import plain_provider

        plain_provider.install(spec.oracle, watch)
    else:
        _observe_sends(spec.oracle)
    _observe_commits(spec.oracle)
    _tell_refusals(story)
    plant_in_ledger(spec.planted)
    token = read_token(spec.token_file)
    serve(
        ServeOptions(
            store=spec.store,
            objects=spec.objects,
            token=token,
            ready_file=ready_file,
            config=spec.config,
            host=spec.host,
            port=spec.port,
        )
    )
    return "stopped"


def _shorten_deadlines(spec: LedgerSpec) -> None:
    from onward_ledger.providers.interface import SendingProvider
    from onward_ledger.store import claims

    if spec.deadline_seconds is not None:
        SendingProvider.deadline_seconds = spec.deadline_seconds
    if spec.grace_seconds is not None:
        claims.RECORD_GRACE_SECONDS = spec.grace_seconds  # pyright: ignore[reportConstantRedefinition]


def _tell(oracle: Oracle, action: Any, *, again: bool = False) -> None:
    oracle.record(
        run_id=action.run_id,
        kind=action.kind,
        resource=action.resource,
        digest=action.params["digest"],
        marker=action.action_id,
        again=again,
    )


def _observe_sends(oracle: Oracle) -> None:
    """A send that put at least one new object has changed the world; the others found everything there."""
    import obstore

    from onward_ledger.providers.draft import DraftSave
    from onward_ledger.providers.interface import Applied

    put, send = obstore.put, DraftSave.send
    created = threading.local()

    def putting(*args: Any, **kwargs: Any) -> Any:
        done = put(*args, **kwargs)  # raises where the object stands already
        created.count = getattr(created, "count", 0) + 1
        return done

    def sending(self: Any, action: Any, deadline: Any) -> Any:
        created.count = 0
        outcome = send(self, action, deadline)
        if isinstance(outcome, Applied):
            _tell(oracle, action, again=created.count == 0)
        return outcome

    obstore.put = putting
    DraftSave.send = sending


def _observe_commits(oracle: Oracle) -> None:
    """A publication is an effect when its transaction commits, so it is told behind the commit."""
    from onward_ledger.database import PostgresDatabase, SqliteDatabase
    from onward_ledger.providers.publish import ReportPublish

    waiting = threading.local()  # publications of the transaction that this thread has open
    apply = ReportPublish.apply

    def applying(self: Any, tx: Any, action: Any, now: Any) -> Any:
        receipt = apply(self, tx, action, now)
        waiting.actions.append(action)
        return receipt

    def telling(transaction: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(transaction)
        @contextmanager
        def observed(self: Any) -> Generator[Any]:
            outer, waiting.actions = getattr(waiting, "actions", None), []
            try:
                with transaction(self) as tx:
                    yield tx
                for action in waiting.actions:
                    _tell(oracle, action)
            finally:
                waiting.actions = outer

        return observed

    ReportPublish.apply = applying
    for database in (PostgresDatabase, SqliteDatabase):
        database.transaction = telling(database.transaction)


def _tell_refusals(story: Story) -> None:
    """What the ledger refuses, and to which run: a campaign that never reached these has tested nothing there."""
    from onward_ledger.errors import LedgerError
    from onward_ledger.ledger import Ledger

    put = Ledger.put

    @functools.wraps(put)
    def telling(self: Ledger, intent: Any, **kwargs: Any) -> Any:
        try:
            return put(self, intent, **kwargs)
        except LedgerError as error:
            story.tell(f"{REFUSED}{error.code} {intent.key.run_id}")
            raise

    Ledger.put = telling
