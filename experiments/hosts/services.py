"""The services on hosts of their own: the sink of effects, the ledger, the gate in front of Postgres.

    python -m experiments.hosts.services --spec FILE --ready-file FILE --parent PID      be the ledger

The ledger is the product's service with a witness in its process (`experiments.observed_ledger`), which tells every
effect to the sink before it answers.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from experiments.cluster import service
from experiments.hosts import gate
from experiments.hosts.network import Host
from experiments.observed_ledger import LedgerSpec, serve_observed
from experiments.oracle import Oracle
from experiments.story import Story

LEDGER_PORT = 8700


@contextmanager
def sink_on(host: Host, folder: Path) -> Generator[Oracle]:
    """The sink: the oracle's process, which every effect is told to."""
    log, ready = folder / "sink.log", folder / "sink.ready"
    command = ["-m", "experiments.oracle", "--log", log, "--ready-file", ready, "--host", host.address]
    with service("sink", [*command, "--parent", os.getpid()], folder, ready, host.inside) as port:
        yield Oracle(int(port), log, host.address)


@contextmanager
def ledger_on(host: Host, folder: Path, store: str, objects: str, token_file: Path, sink: Oracle) -> Generator[str]:
    """The ledger over this database; its address."""
    spec, ready = folder / "ledger.spec", folder / "ledger.ready"
    told = {"store": store, "objects": objects, "token_file": str(token_file), "host": host.address}
    told |= {"sink": [sink.port, str(sink.log), sink.host], "story": str(folder / "ledger.txt")}
    spec.write_text(json.dumps(told), encoding="utf-8")
    command = ["-m", "experiments.hosts.services", "--spec", spec, "--ready-file", ready, "--parent", os.getpid()]
    with service("ledger", command, folder, ready, host.inside) as said:
        yield json.loads(said)["url"]


@contextmanager
def gate_on(host: Host, folder: Path, server_port: int) -> Generator[tuple[Path, Path]]:
    """The gate, open at first; where its orders are, and its log."""
    orders, log, ready = folder / "gate.orders", folder / "gate.log", folder / "gate.ready"
    gate.OPEN.write(orders)
    command = ["-m", "experiments.hosts.gate", "--host", host.address, "--server-port", server_port]
    paths = ["--orders", orders, "--log", log, "--ready-file", ready, "--parent", os.getpid()]
    with service("gate", [*command, *paths], folder, ready, host.inside):
        yield orders, log


def main() -> None:
    """Be the ledger of an experiment until stopped."""
    from tools.process import die_with_parent

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--spec", type=Path, required=True)
    parser.add_argument("--ready-file", type=Path, required=True)
    parser.add_argument("--parent", type=int, required=True)
    options = parser.parse_args()
    die_with_parent(options.parent, sys.stdin.fileno())
    told = json.loads(options.spec.read_text(encoding="utf-8"))
    port, log, address = told["sink"]
    spec = LedgerSpec(
        store=told["store"],
        objects=told["objects"],
        token_file=Path(told["token_file"]),
        oracle=Oracle(port, Path(log), address),
        host=told["host"],
        port=LEDGER_PORT,
    )
    serve_observed(Story(Path(told["story"])), spec, options.ready_file, None, None)


if __name__ == "__main__":
    main()
