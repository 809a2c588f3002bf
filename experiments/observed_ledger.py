"""The ledger service as it is, with a witness in its process: every effect is told to the oracle.

    python -m experiments.observed_ledger --oracle-port N --oracle-log FILE --parent PID serve …

What is told, and when:

    draft.save       each time the provider has sent, also when the store already had the object. An idempotent effect
                     hides its second sending; here it counts, which is stricter than what is promised.
    report.publish   each publication, when its transaction has committed; one that rolled back is no effect.

The answer to the driver leaves the ledger only after the oracle has the line on disk.
"""

from __future__ import annotations

import argparse
import functools
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from experiments.mutants import IN_LEDGER, plant
from experiments.oracle import Oracle


def observe(oracle: Oracle) -> None:
    """Tell the oracle what the providers of this process do."""
    _observe_sends(oracle)
    _observe_commits(oracle)


def _tell(oracle: Oracle, action: Any) -> None:
    oracle.record(
        run_id=action.run_id,
        kind=action.kind,
        resource=action.resource,
        digest=action.params["digest"],
        witness="ledger",
    )


def _observe_sends(oracle: Oracle) -> None:
    from onward_ledger.providers.draft import DraftSave
    from onward_ledger.providers.interface import Applied

    send = DraftSave.send

    def sending(self: Any, action: Any, deadline: Any) -> Any:
        outcome = send(self, action, deadline)
        if isinstance(outcome, Applied):
            _tell(oracle, action)
        return outcome

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


def main() -> None:
    """Be the ledger, observed, until stopped or until the experiment is gone."""
    from onward_ledger.__main__ import main as serve
    from tools.process import die_with_parent

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--oracle-port", type=int, required=True)
    parser.add_argument("--oracle-log", type=Path, required=True)
    parser.add_argument("--parent", type=int, required=True, help="the pid of the process that started this one")
    parser.add_argument("--plant", help="a defect to plant, so that the experiment has something to find")
    arguments, rest = parser.parse_known_args()
    die_with_parent(arguments.parent, sys.stdin.fileno())
    observe(Oracle(arguments.oracle_port, arguments.oracle_log))
    if arguments.plant in IN_LEDGER:
        plant(arguments.plant)
    sys.argv = ["onward-ledger", *rest]
    serve()


if __name__ == "__main__":
    main()
