"""A fresh action: one HTTP request to the service, whose effect costs nothing, against its floor and against peers.

Ours is a service of its own and is asked over HTTP; the peers are libraries in this process. All are on one server.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from experiments.benchmarks.figures import Declared, Figure, Measured, amount, quotient, tail
from experiments.benchmarks.rounds import Subject, Teller, interleave, milliseconds
from experiments.benchmarks.services import Services
from experiments.cluster import new_database
from experiments.ledger_benchmarks.floor import open_floor
from experiments.ledger_benchmarks.peers import TITLES, peers
from experiments.ledger_benchmarks.place import PARAMS, RESOURCE, Place, key_of, open_place
from experiments.ledger_benchmarks.service import NOTHING
from onward_ledger.client import LedgerClient

NAME = "fresh"
ROUNDS_EACH = 10  # an action takes milliseconds, and a p95 needs many

RATIO = Declared(
    key="fresh_ratio",
    unit="ratio",
    target=1.5,
    says="a fresh action against one ping and as many bare commits as it makes",
)
CLIENT = Declared(
    key="fresh_client_ratio", unit="ratio", says="the same through `LedgerClient`, against the same floor"
)
COMMITS = Declared(key="fresh_commits", unit="commits", says="commits of a fresh action, counted at the server")
MS = Declared(key="fresh_ms", unit="ms", says="a fresh action")
P95 = Declared(key="fresh_p95_ms", unit="ms", says="a fresh action, 95th percentile")
FLOOR = Declared(key="floor_ms", unit="ms", says="one ping and as many bare commits")
FLOOR_P95 = Declared(key="floor_p95_ms", unit="ms", says="the floor, 95th percentile")
PING = Declared(key="service_ping_ms", unit="ms", says="`GET /health` over a kept connection")
COMMIT = Declared(key="bare_commit_ms", unit="ms", says="one small row in autocommit mode, flushed to disk")
AGAINST = {
    name: Declared(key=f"fresh_against_{name}_ratio", unit="ratio", target=1.0, says=f"a fresh action against {title}")
    for name, title in TITLES.items()
}
THEIRS = {
    name: Declared(key=f"{name}_ms", unit="ms", says=f"a fresh action of {title}") for name, title in TITLES.items()
}
THEIR_P95 = {
    name: Declared(key=f"{name}_p95_ms", unit="ms", says=f"a fresh action of {title}, 95th percentile")
    for name, title in TITLES.items()
}
DECLARED = (
    *(RATIO, *AGAINST.values(), CLIENT, COMMITS, MS, P95, FLOOR, FLOOR_P95, PING, COMMIT),
    *(declared for name in TITLES for declared in (THEIRS[name], THEIR_P95[name])),
)


def measure(services: Services, rounds: int, teller: Teller) -> Measured:
    """See the module."""
    with ExitStack() as stack:
        place = stack.enter_context(open_place(services, "fresh"))
        floor = stack.enter_context(open_floor(place))
        client = stack.enter_context(LedgerClient(place.url, place.token))
        theirs = stack.enter_context(peers(new_database(services.dsn, "peers_fresh")))
        subjects: dict[str, Subject] = {
            "onward": _prepared(place.fresh, place.ask),
            "onward, LedgerClient": lambda: milliseconds(lambda: _perform(client, place)),
            "floor": lambda: milliseconds(floor.fresh),
            "floor again": lambda: milliseconds(floor.fresh),
            "ping": lambda: milliseconds(floor.ping),
            "commit": lambda: milliseconds(floor.commit),
            **{name: _prepared(_new_key, perform) for name, perform in theirs.items()},
        }
        taken = interleave(NAME, subjects, rounds=rounds * ROUNDS_EACH, teller=teller)
        commits = [float(floor.commits)]
    ours, base = taken["onward"], taken["floor"]
    figures: list[Figure] = [
        quotient(RATIO, ours, base, taken["floor again"]),
        *(quotient(AGAINST[name], ours, taken[name]) for name in theirs),
        quotient(CLIENT, taken["onward, LedgerClient"], base),
        amount(COMMITS, commits),
        amount(MS, ours),
        tail(P95, ours, 0.95),
        amount(FLOOR, base),
        tail(FLOOR_P95, base, 0.95),
        amount(PING, taken["ping"]),
        amount(COMMIT, taken["commit"]),
    ]
    for name in theirs:
        figures += [amount(THEIRS[name], taken[name]), tail(THEIR_P95[name], taken[name], 0.95)]
    return Measured(figures=tuple(figures), samples=taken)


def _prepared(make: Callable[[], Any], work: Callable[[Any], object]) -> Subject:
    def subject() -> float:
        wanted = make()
        return milliseconds(lambda: work(wanted))

    return subject


def _new_key() -> str:
    return str(uuid.uuid4())


def _perform(client: LedgerClient, place: Place) -> None:
    key = key_of(place.run_id, f"client-{next(place.numbers)}")
    client.perform(key, NOTHING, lambda: (RESOURCE, PARAMS), epoch=1)
