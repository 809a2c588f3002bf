"""What the cells say: what is right, what is only safe, what was repeated; and the verdict on ours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from experiments.peers.columns import COLUMNS, Column
from experiments.peers.lab import Told
from experiments.peers.order import Word
from experiments.peers.provider import Charge
from experiments.peers.systems import CONTROL, ONWARD, PEERS, System

PROVIDERS = {False: "searchable", True: "remembers keys"}

# Where nothing had happened, an action that can only be looked up waits for a person: safe, and an over-refusal.
NOTHING_HAPPENED = "K"

Verdict = Literal["pass", "disproved", "invalid"]


@dataclass(frozen=True, kw_only=True)
class Cell:
    """What one system did under one plan. `invalid` says why it proves nothing."""

    system: System
    column: Column
    keyed: bool
    charges: Sequence[Charge]
    status: Word
    told: Sequence[Told]
    seconds: float
    invalid: str | None = None

    @property
    def effects(self) -> int:
        """Charges in the world."""
        return sum(not charge["again"] for charge in self.charges)

    @property
    def refused(self) -> bool:
        """Whether the last caller was refused."""
        answer = self.told[-1].answer if self.told else None
        return answer is not None and answer.word == "refused"

    @property
    def right(self) -> bool:
        """One charge; and a refusal where the second request is another one."""
        return self.effects == 1 and (self.refused or not self.column.refuses)

    @property
    def safe(self) -> bool:
        """Right; or nothing was done and the record says that a person has to look."""
        return self.right or (self.effects == 0 and self.status == "unsettled")

    @property
    def over_refused(self) -> bool:
        """No charge, though one was right."""
        return self.effects == 0

    @property
    def needs_person(self) -> bool:
        """The record is not settled in the end."""
        return self.status != "done"

    @property
    def word(self) -> str:
        """For the table."""
        if self.invalid is not None:
            return "invalid"
        if self.column.refuses and self.effects == 1:
            return "refused" if self.refused else "silent"
        return f"{self.effects}{'?' if self.needs_person and self.system is not CONTROL else ''}"

    def to_json(self) -> dict[str, Any]:
        """JSON values, with everything that was said."""
        return {
            "system": self.system.name,
            "provider": PROVIDERS[self.keyed],
            "column": self.column.name,
            "word": self.word,
            "effects": self.effects,
            "status": self.status,
            "right": self.right,
            "over_refused": self.over_refused,
            "needs_person": self.needs_person,
            "invalid": self.invalid,
            "seconds": round(self.seconds, 2),
            "charges": list(self.charges),
            "processes": [told.to_json() for told in self.told],
        }


@dataclass(frozen=True, kw_only=True)
class Results:
    """All cells of one run, in the order of the table."""

    seed: int
    cells: Sequence[Cell]
    versions: Mapping[str, str]
    seconds: float

    @property
    def not_installed(self) -> tuple[str, ...]:
        """Distributions that could not be compared."""
        return tuple(dict.fromkeys(str(peer.distribution) for peer in PEERS if peer.version is None))

    def of(self, system: System) -> tuple[Cell, ...]:
        """The cells of one system."""
        return tuple(cell for cell in self.cells if cell.system is system)

    @property
    def reasons(self) -> tuple[str, ...]:
        """What speaks against the verdict `pass`, the worst first."""
        return (*self._disproved(), *self._invalid())

    @property
    def verdict(self) -> Verdict:
        """On ours: disproved by a cell that is not as promised; invalid where the control repeats nothing."""
        return "disproved" if self._disproved() else "invalid" if self._invalid() else "pass"

    def _disproved(self) -> tuple[str, ...]:
        bad = [cell for cell in self.of(ONWARD) if cell.invalid is None and not _as_promised(cell)]
        return tuple(f"{_named(cell)}: {cell.effects} charges, recorded as {cell.status}" for cell in bad)

    def _invalid(self) -> tuple[str, ...]:
        broken = [f"{_named(cell)}: {cell.invalid}" for cell in self.cells if cell.invalid is not None]
        unmoved = [
            f"{_named(cell)}: without a ledger it was performed {cell.effects} times, so this plan shows nothing"
            for cell in self.of(CONTROL)
            if not cell.keyed and cell.column.name != NOTHING_HAPPENED and cell.invalid is None and cell.effects < 2
        ]
        missing = [] if self.of(CONTROL) else ["the control was left out, so nothing shows that the plans bite"]
        return (*broken, *unmoved, *missing)

    def to_json(self) -> dict[str, Any]:
        """The table first, then everything that was seen."""
        return {
            "verdict": self.verdict,
            "reasons": list(self.reasons),
            "columns": {column.name: column.says for column in COLUMNS},
            "table": [row for system in self._systems() for row in self._rows(system)],
            "systems": [_described(system) for system in self._systems()],
            "not_installed": list(self.not_installed),
            "seed": self.seed,
            "versions": dict(self.versions),
            "seconds": round(self.seconds, 1),
            "cells": [cell.to_json() for cell in self.cells],
        }

    def _systems(self) -> tuple[System, ...]:
        return tuple(dict.fromkeys(cell.system for cell in self.cells))

    def _rows(self, system: System) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        for keyed, provider in PROVIDERS.items():
            cells = [cell for cell in self.of(system) if cell.keyed == keyed]
            row: dict[str, Any] = {"system": system.name, "provider": provider}
            row |= {cell.column.name: cell.word for cell in cells}
            row["duplicates"] = sum(max(cell.effects - 1, 0) for cell in cells)
            row["over_refusals"] = sum(cell.over_refused for cell in cells)
            row["for_a_person"] = sum(cell.needs_person for cell in cells) if system is not CONTROL else 0
            found.append(row)
        return found


def _as_promised(cell: Cell) -> bool:
    if cell.column.name == NOTHING_HAPPENED and not cell.keyed:
        return cell.safe
    return cell.right


def _named(cell: Cell) -> str:
    return f"{cell.system.name}, {PROVIDERS[cell.keyed]}, {cell.column.name}"


def _described(system: System) -> dict[str, Any]:
    return {"name": system.name, "version": system.version, "store": system.store, "settings": system.settings}
