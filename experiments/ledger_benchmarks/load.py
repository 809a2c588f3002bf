"""Sustained load: sixteen clients, each asking for one fresh action after the other, and who computes how much."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import psutil
import psycopg

from experiments.benchmarks.figures import Declared, Measured, amount, tail
from experiments.benchmarks.rounds import Teller
from experiments.benchmarks.services import ROOT, Services
from experiments.errors import NotRun
from experiments.ledger_benchmarks.place import Place, open_place

NAME = "load"
CLIENTS = 16
SECONDS_PER_ROUND = 0.5  # 15 s of 30 rounds

RATE = Declared(
    key="actions_per_second",
    unit="actions/s",
    target=500,
    least=True,
    says=f"fresh actions of {CLIENTS} clients, whole seconds; client, service and Postgres share the machine",
)
MS = Declared(key="loaded_ms", unit="ms", says=f"a fresh action while {CLIENTS} clients ask")
P95 = Declared(key="loaded_p95_ms", unit="ms", says="the same, 95th percentile")
SERVICE = Declared(key="service_cores", unit="cores", says="what the service computes meanwhile")
POSTGRES = Declared(key="postgres_cores", unit="cores", says="what Postgres computes meanwhile")
CLIENT = Declared(key="client_cores", unit="cores", says="what the clients compute meanwhile, all in one process")
DECLARED = (RATE, MS, P95, SERVICE, POSTGRES, CLIENT)


def measure(services: Services, rounds: int, teller: Teller) -> Measured:
    """See the module."""
    seconds = max(rounds * SECONDS_PER_ROUND, 2)
    teller.say(f"load: {CLIENTS} clients for {seconds:.0f} s")
    with open_place(services, "load") as place:
        told = _told_by_clients(place, seconds)
    taken = {"actions per second": [float(number) for number in told["per_second"]]}
    taken |= {"milliseconds": told["milliseconds"]} | {name: [cores] for name, cores in told["cores"].items()}
    figures = (
        amount(RATE, taken["actions per second"]),
        amount(MS, taken["milliseconds"]),
        tail(P95, taken["milliseconds"], 0.95),
        amount(SERVICE, taken["service"]),
        amount(POSTGRES, taken["postgres"]),
        amount(CLIENT, taken["client"]),
    )
    return Measured(figures=figures, samples=taken)


def _told_by_clients(place: Place, seconds: float) -> dict[str, Any]:
    command = [sys.executable, "-m", "experiments.ledger_benchmarks.clients", "--port", str(place.port)]
    command += ["--token-file", str(place.folder / "token"), "--clients", str(CLIENTS), "--seconds", str(seconds)]
    command += ["--service", str(place.pid), "--postmaster", str(_postmaster(place))]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        words = done.stderr.strip().splitlines() or ["none"]
        raise NotRun(f"The clients of the benchmark ended with {done.returncode}. Their last words: {words[-1]}")
    return json.loads(done.stdout)


def _postmaster(place: Place) -> int:
    with psycopg.connect(place.dsn, autocommit=True) as connection:
        row = connection.execute("select pg_backend_pid()").fetchone()
    assert row is not None
    return psutil.Process(row[0]).ppid()
