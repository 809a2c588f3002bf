"""What a run leaves in the database: bytes of write-ahead log, rows, commits. Onward, and plain LangGraph beside it.

The same graph over the same workbook. Onward's share holds all of it: the run's row and grant, the lease, the events,
the checkpoints, and both schemas, its own and the ledger's.
"""

from __future__ import annotations

from collections.abc import Callable

import psycopg

from experiments.benchmarks.figures import Declared, Measured, amount, quotient
from experiments.benchmarks.plain import Plain, plain
from experiments.benchmarks.product import Product, product
from experiments.benchmarks.rounds import Subject, Teller, interleave
from experiments.benchmarks.server import Connection, rows, transactions, wal_position
from experiments.benchmarks.services import Services
from graph.build import build

NAME = "volume"
ROUNDS_SHARE = 2  # what a run writes is nearly the same each time, unless the server tidies up meanwhile

WAL_RATIO = Declared(
    key="wal_ratio",
    unit="ratio",
    says="write-ahead log of a run of the reference graph: Onward against plain LangGraph",
)
WAL = Declared(key="wal_bytes_per_run", unit="bytes", says="write-ahead log of such a run")
ROWS = Declared(key="rows_per_run", unit="rows", says="rows that it leaves; by table in the JSON")
COMMITS = Declared(key="commits_per_run", unit="commits", says="transactions of it that wrote or locked a row")
PLAIN_WAL = Declared(key="plain_wal_bytes_per_run", unit="bytes", says="write-ahead log on plain LangGraph")
PLAIN_ROWS = Declared(key="plain_rows_per_run", unit="rows", says="rows on plain LangGraph")
PLAIN_COMMITS = Declared(key="plain_commits_per_run", unit="commits", says="such transactions on plain LangGraph")
DECLARED = (WAL_RATIO, WAL, ROWS, COMMITS, PLAIN_WAL, PLAIN_ROWS, PLAIN_COMMITS)


def measure(services: Services, rounds: int, teller: Teller) -> Measured:
    """See the module."""
    with (
        product(services) as ours,
        plain(services) as theirs,
        psycopg.connect(services.dsn, autocommit=True) as looking,
    ):
        subjects: dict[str, Subject] = {
            "onward": _written(looking, lambda: _onward(ours)),
            "plain": _written(looking, lambda: _plainly(theirs)),
        }
        taken = interleave("volume", subjects, rounds=max(rounds // ROUNDS_SHARE, 2), teller=teller, warm_up=1)
    figures = (
        quotient(WAL_RATIO, taken["onward, WAL bytes"], taken["plain, WAL bytes"]),
        amount(WAL, taken["onward, WAL bytes"]),
        amount(ROWS, taken["onward, rows"]),
        amount(COMMITS, taken["onward, commits"]),
        amount(PLAIN_WAL, taken["plain, WAL bytes"]),
        amount(PLAIN_ROWS, taken["plain, rows"]),
        amount(PLAIN_COMMITS, taken["plain, commits"]),
    )
    return Measured(figures=figures, samples=taken)


def _onward(ours: Product) -> None:
    run_id = ours.begin()
    with ours.set_up() as parts:
        ours.drive(run_id, parts)


def _plainly(theirs: Plain) -> None:
    begun = theirs.begin()
    with theirs.set_up() as saver:
        theirs.drive(begun, saver, build)


def _written(looking: Connection, run: Callable[[], None]) -> Subject:
    """What the server wrote for one run."""

    def subject() -> dict[str, float]:
        tables, began, wal = rows(looking), transactions(looking), wal_position(looking)
        run()
        found = {"WAL bytes": wal_position(looking) - wal, "commits": transactions(looking) - began}
        new = {name: count - tables.get(name, 0) for name, count in rows(looking).items()}
        by_table = {f"rows of {name}": count for name, count in new.items() if count}
        return {**found, "rows": sum(new.values()), **by_table}

    return subject
