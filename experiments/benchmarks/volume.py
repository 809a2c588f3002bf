"""What a run leaves in the database: bytes of write-ahead log, rows, commits. Onward, and plain LangGraph beside it.

The same graph over the same workbook. Onward's share holds all of it: the run's row and grant, the lease, the events,
the checkpoints, and both schemas, its own and the ledger's.
"""

from __future__ import annotations

from collections.abc import Callable

import psycopg

from experiments.benchmarks.figures import Declared, Measured, amount, quotient
from experiments.benchmarks.plain import plain
from experiments.benchmarks.product import product
from experiments.benchmarks.rounds import Subject, Teller, interleave
from experiments.benchmarks.server import Connection, rows, transactions, wal_position
from experiments.benchmarks.services import Services
from graph.build import build

NAME = "volume"
ROUNDS_SHARE = 3  # what a run writes is nearly the same each time

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


class Ledgered:
    """What one side wrote, run by run."""

    def __init__(self, connection: Connection, run: Callable[[], None]) -> None:
        self._connection = connection
        self._run = run
        self.wal: list[float] = []
        self.commits: list[float] = []
        self.rows: list[dict[str, int]] = []

    def once(self) -> float:
        """One run; what it wrote to the log."""
        tables, began, wal = rows(self._connection), transactions(self._connection), wal_position(self._connection)
        self._run()
        self.wal.append(wal_position(self._connection) - wal)
        self.commits.append(transactions(self._connection) - began)
        now = rows(self._connection)
        self.rows.append({name: now[name] - tables.get(name, 0) for name in now if now[name] != tables.get(name, 0)})
        return self.wal[-1]


def measure(services: Services, rounds: int, teller: Teller) -> Measured:
    """See the module."""
    count = max(rounds // ROUNDS_SHARE, 2)
    with (
        product(services) as ours,
        plain(services) as theirs,
        psycopg.connect(services.dsn, autocommit=True) as looking,
    ):
        onward = Ledgered(looking, lambda: ours.drive(ours.begin()))
        floor = Ledgered(looking, lambda: theirs.drive(theirs.begin(), build))
        again = Ledgered(looking, lambda: theirs.drive(theirs.begin(), build))
        subjects: dict[str, Subject] = {"onward": onward.once, "plain": floor.once, "plain again": again.once}
        taken = interleave("volume", subjects, rounds=count, teller=teller, warm_up=1)
    figures = (
        quotient(WAL_RATIO, taken["onward"], taken["plain"], taken["plain again"]),
        amount(WAL, taken["onward"]),
        amount(ROWS, _totals(onward, count)),
        amount(COMMITS, onward.commits[-count:]),
        amount(PLAIN_WAL, taken["plain"]),
        amount(PLAIN_ROWS, _totals(floor, count)),
        amount(PLAIN_COMMITS, floor.commits[-count:]),
    )
    tables = {f"onward, rows of {name}": found for name, found in _by_table(onward, count).items()}
    tables |= {f"plain, rows of {name}": found for name, found in _by_table(floor, count).items()}
    bytes_of = {f"{side}, WAL bytes": found for side, found in taken.items()}
    return Measured(figures=figures, samples={**bytes_of, **tables})


def _totals(side: Ledgered, count: int) -> list[float]:
    return [float(sum(found.values())) for found in side.rows[-count:]]


def _by_table(side: Ledgered, count: int) -> dict[str, list[float]]:
    names = sorted({name for found in side.rows for name in found})
    return {name: [float(found.get(name, 0)) for found in side.rows[-count:]] for name in names}
