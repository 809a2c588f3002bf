"""A replay: the same request again, for an action that has succeeded. It must write nothing."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial

import psycopg

from experiments.benchmarks.figures import Declared, Figure, Measured, amount, quotient, tail
from experiments.benchmarks.rounds import Subject, Teller, interleave, milliseconds
from experiments.benchmarks.server import Connection, rows, transactions, wal_position
from experiments.benchmarks.services import Services
from experiments.cluster import new_database
from experiments.ledger_benchmarks.floor import open_floor
from experiments.ledger_benchmarks.peers import TITLES, peers
from experiments.ledger_benchmarks.place import Place, open_place

NAME = "replay"
ROUNDS_EACH = 10
LOOKED_AT = 20  # in each round, so that a single one's row, or byte, would show

RATIO = Declared(key="ledger_replay_ratio", unit="ratio", says="a replay against one ping and one read")
WAL = Declared(key="replay_wal_bytes", unit="bytes", target=0, says=f"write-ahead log of {LOOKED_AT} replays")
ROWS = Declared(key="replay_rows", unit="rows", target=0, says=f"rows that {LOOKED_AT} replays leave")
COMMITS = Declared(
    key="replay_writes", unit="commits", target=0, says=f"transactions of {LOOKED_AT} replays that wrote"
)
FRESH_WAL = Declared(
    key="fresh_wal_bytes", unit="bytes", says=f"write-ahead log of {LOOKED_AT} fresh actions, looked at in the same way"
)
FRESH_ROWS = Declared(key="fresh_rows", unit="rows", says=f"rows that {LOOKED_AT} fresh actions leave")
MS = Declared(key="ledger_replay_ms", unit="ms", says="a replay")
P95 = Declared(key="ledger_replay_p95_ms", unit="ms", says="a replay, 95th percentile")
AGAINST = {
    name: Declared(key=f"replay_against_{name}_ratio", unit="ratio", says=f"a replay against {title}")
    for name, title in TITLES.items()
}
THEIRS = {
    name: Declared(key=f"{name}_replay_ms", unit="ms", says=f"a replay of {title}") for name, title in TITLES.items()
}
DECLARED = (RATIO, WAL, ROWS, COMMITS, FRESH_WAL, FRESH_ROWS, MS, P95, *AGAINST.values(), *THEIRS.values())


def measure(services: Services, rounds: int, teller: Teller) -> Measured:
    """See the module."""
    with ExitStack() as stack:
        place = stack.enter_context(open_place(services, "replay"))
        floor = stack.enter_context(open_floor(place))
        theirs = stack.enter_context(peers(new_database(services.dsn, "peers_replay")))
        looking = stack.enter_context(psycopg.connect(place.dsn, autocommit=True))
        asked, key = place.fresh(), str(uuid.uuid4())
        place.ask(asked)
        for perform in theirs.values():
            perform(key)
        subjects: dict[str, Subject] = {
            "onward": lambda: milliseconds(lambda: place.ask(asked)),
            "floor": lambda: milliseconds(floor.replay),
            "floor again": lambda: milliseconds(floor.replay),
            **{name: partial(_timed, perform, key) for name, perform in theirs.items()},
        }
        taken = interleave(NAME, subjects, rounds=rounds * ROUNDS_EACH, teller=teller)
        # By themselves: what others write in between would be counted.
        looked: dict[str, Subject] = {
            "replays": lambda: _written(place, lambda: asked, looking),
            "fresh actions": lambda: _written(place, place.fresh, looking),
        }
        taken |= interleave("replay, what is written", looked, rounds=rounds, teller=teller)
    ours = taken["onward"]
    figures: list[Figure] = [
        quotient(RATIO, ours, taken["floor"], taken["floor again"]),
        amount(WAL, taken["replays, WAL bytes"]),
        amount(ROWS, taken["replays, rows"]),
        amount(COMMITS, taken["replays, commits"]),
        amount(FRESH_WAL, taken["fresh actions, WAL bytes"]),
        amount(FRESH_ROWS, taken["fresh actions, rows"]),
        amount(MS, ours),
        tail(P95, ours, 0.95),
        *(quotient(AGAINST[name], ours, taken[name]) for name in theirs),
        *(amount(THEIRS[name], taken[name]) for name in theirs),
    ]
    return Measured(figures=tuple(figures), samples=taken)


def _timed(perform: object, key: str) -> float:
    assert callable(perform)
    return milliseconds(lambda: perform(key))


def _written(place: Place, make: Callable[[], bytes], looking: Connection) -> dict[str, float]:
    """What some requests wrote. The figure is the median over the rounds: the server itself tidies up now and then."""
    before, began, wal = sum(rows(looking).values()), transactions(looking), wal_position(looking)
    for _ in range(LOOKED_AT):
        place.ask(make())
    found = {"WAL bytes": wal_position(looking) - wal, "commits": transactions(looking) - began}
    return {**found, "rows": sum(rows(looking).values()) - before}
