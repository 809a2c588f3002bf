"""All measurements in reading order, and measuring those that were asked for."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from experiments.benchmarks import actions, driver, startup, steps, volume
from experiments.benchmarks.figures import Declared, Figure, Measured
from experiments.benchmarks.machine import Machine, look_at_machine, server_facts, versions
from experiments.benchmarks.rounds import Teller
from experiments.benchmarks.services import Services, services


class Measurement(Protocol):
    """What each module of a measurement holds."""

    @property
    def NAME(self) -> str:
        """As `--only` names it."""
        ...

    @property
    def DECLARED(self) -> Sequence[Declared]:
        """Its figures, in the order of the table."""
        ...

    def measure(self, services: Services, rounds: int, teller: Teller) -> Measured:
        """Measure all of them."""
        ...


MEASUREMENTS: tuple[Measurement, ...] = (driver, actions, steps, volume, startup)


def declared() -> tuple[Declared, ...]:
    """Every figure there is."""
    return tuple(figure for measurement in MEASUREMENTS for figure in measurement.DECLARED)


@dataclass(frozen=True, kw_only=True)
class Results:
    """What was measured, on which machine. `measured` is by the name of the measurement."""

    rounds: int
    machine: Machine
    server: Mapping[str, str]
    versions: Mapping[str, str]
    seconds: float
    measured: Mapping[str, Measured]

    @property
    def figures(self) -> tuple[Figure, ...]:
        """All of them, in order."""
        return tuple(figure for measured in self.measured.values() for figure in measured.figures)

    @property
    def missed(self) -> tuple[Figure, ...]:
        """Those that miss their target."""
        return tuple(figure for figure in self.figures if figure.met is False)


def measure_all(
    only: Sequence[str],
    rounds: int,
    teller: Teller,
    measurements: Sequence[Measurement] = MEASUREMENTS,
    compared: Sequence[str] = (),
) -> Results:
    """Measure, in one home for all, what is named in `only` (everything when it is empty).

    `compared` are packages of others that are measured beside ours where they are installed.
    """
    machine, began = look_at_machine(), time.monotonic()
    if machine.warning is not None:
        teller.say(machine.warning)
    chosen = [measurement for measurement in measurements if not only or measurement.NAME in only]
    measured: dict[str, Measured] = {}
    teller.say("starting Postgres and the ledger in a temporary folder")
    with services() as where:
        facts = server_facts(where.dsn)
        for number, measurement in enumerate(chosen, 1):
            teller.say(f"{measurement.NAME} ({number} of {len(chosen)})")
            found = measurement.measure(where, rounds, teller)
            _check_declared(measurement, found)
            measured[measurement.NAME] = found
    return Results(
        rounds=rounds,
        machine=machine,
        server=facts,
        versions=versions(compared),
        seconds=time.monotonic() - began,
        measured=measured,
    )


def _check_declared(measurement: Measurement, found: Measured) -> None:
    """All figures are declared, and come in that order; what is not installed has none."""
    declared = [figure.declared for figure in found.figures]
    assert declared == [each for each in measurement.DECLARED if each in declared], measurement.NAME
