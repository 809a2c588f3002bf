"""A large ledger against small ones: three services, each over a database with so many actions, asked side by side."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, LiteralString, cast

import psycopg
from psycopg import sql

from experiments.benchmarks.figures import Declared, Figure, Measured, amount, quotient
from experiments.benchmarks.rounds import Subject, Teller, interleave, milliseconds
from experiments.benchmarks.services import Services
from experiments.ledger_benchmarks.place import Place, open_place
from onward_ledger.store import SCHEMA

NAME = "size"
ROUNDS_EACH = 5
SMALL, MIDDLE, LARGE = SIZES = (100, 10_000, 100_000)
FLAT = 1.15
FILL = Path(__file__).with_name("fill.sql")

# What is asked, and how it reads in a table.
ASKED = {
    "perform": "a fresh action",
    "replay": "a replay of one of the first actions",
    "show": "one action and its history",
    "list": "the first hundred actions",
    "list_end": "the last hundred actions, behind an id",
    "list_run": "the actions of one run",
    "list_unknown": "the UNKNOWN actions, five in each ledger",
}


def _grown(asked: str, size: int, target: float | None) -> Declared:
    key = f"{asked}_at_{size}_ratio"
    says = f"{ASKED[asked]} where there are {size:,} actions, against {SMALL}"
    return Declared(key=key, unit="ratio", target=target, says=says)


GROWN = {(asked, size): _grown(asked, size, FLAT) for asked in ASKED for size in (MIDDLE, LARGE)}
TOOK = {
    asked: Declared(key=f"{asked}_at_{LARGE}_ms", unit="ms", says=f"{ASKED[asked]}, of {LARGE:,}") for asked in ASKED
}
DECLARED = (*GROWN.values(), *TOOK.values())


def measure(services: Services, rounds: int, teller: Teller) -> Measured:
    """See the module."""
    with ExitStack() as stack:
        subjects: dict[str, Subject] = {}
        for size in SIZES:
            teller.say(f"size: a ledger of {size:,} actions")
            place = stack.enter_context(open_place(services, f"size-{size}"))
            fill(place, size)
            for asked, subject in _subjects(place, size).items():
                subjects[f"{asked} of {size}"] = subject
                if size == SMALL:
                    subjects[f"{asked} of {size} again"] = subject
        taken = interleave(NAME, subjects, rounds=rounds * ROUNDS_EACH, teller=teller)
    figures: list[Figure] = [
        quotient(
            declared, taken[f"{asked} of {size}"], taken[f"{asked} of {SMALL}"], taken[f"{asked} of {SMALL} again"]
        )
        for (asked, size), declared in GROWN.items()
    ]
    figures += [amount(TOOK[asked], taken[f"{asked} of {LARGE}"]) for asked in ASKED]
    return Measured(figures=tuple(figures), samples=taken)


def fill(place: Place, actions: int) -> None:
    """Put so many actions, their histories and their runs into the database, and let Postgres learn of them."""
    schema = sql.Identifier(SCHEMA)
    with psycopg.connect(place.dsn, autocommit=True) as connection:
        connection.execute(sql.SQL("set search_path to {}").format(schema))
        with connection.transaction():
            for part in FILL.read_text(encoding="utf-8").split(";\n"):
                if part.strip():
                    connection.execute(cast(LiteralString, part), {"actions": actions} if "%(" in part else None)
        connection.execute("vacuum analyze")


def _subjects(place: Place, size: int) -> Mapping[str, Subject]:
    first = place.ask(place.get("/v1/actions?limit=1")).json()["actions"][0]
    place.ask(known := place.fresh())  # what is replayed is of a kind that this service performs
    last = _id_behind_all_but(place, 101)
    asked: dict[str, Callable[[], Any]] = {
        "replay": lambda: place.ask(known),
        "show": lambda: [place.ask(place.get(f"/v1/actions/{first['action_id']}{more}")) for more in ("", "/events")],
        "list": lambda: place.ask(place.get("/v1/actions?limit=100")),
        "list_end": lambda: place.ask(place.get(f"/v1/actions?limit=100&after={last}")),
        "list_run": lambda: place.ask(place.get(f"/v1/actions?run_id={first['run_id']}")),
        "list_unknown": lambda: place.ask(place.get("/v1/actions?status=UNKNOWN")),
    }
    assert len(place.ask(place.get("/v1/actions?status=UNKNOWN")).json()["actions"]) == 5, "five are open"
    return {"perform": partial(_fresh, place)} | {name: partial(milliseconds, work) for name, work in asked.items()}


def _fresh(place: Place) -> float:
    data = place.fresh()
    return milliseconds(lambda: place.ask(data))


def _id_behind_all_but(place: Place, count: int) -> str:
    statement = "select action_id from actions order by created_at desc, action_id desc offset %s limit 1"
    with psycopg.connect(place.dsn, autocommit=True, options=f"-c search_path={SCHEMA}") as connection:
        row = connection.execute(statement, (count - 1,)).fetchone()
    assert row is not None
    return str(row[0])
