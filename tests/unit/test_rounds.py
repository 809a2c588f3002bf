"""Work that is done again and again while services come and go."""

from __future__ import annotations

import threading

import pytest

from onward_ledger.database import Unreachable
from onward_ledger.errors import LedgerUnreachable
from runs import rounds as module
from runs.errors import ServiceUnreachable
from runs.rounds import DATABASE, LEDGER, Troubles, rounds

NO_DATABASE, NO_LEDGER = Unreachable("no database"), LedgerUnreachable("no ledger")


def told_by(*outcomes: Exception | None, service: str = LEDGER) -> list[tuple[str, str | None]]:
    """What is told when the rounds come out like this, one after the other."""
    told: list[tuple[str, str | None]] = []
    stopped, coming = threading.Event(), list(outcomes)

    def work() -> None:
        outcome = coming.pop(0)
        if not coming:
            stopped.set()
        if outcome is not None:
            raise outcome

    troubles = Troubles(lambda service, error: told.append((service, None if error is None else str(error))))
    rounds(service, work, stopped=stopped, wait=lambda: None, troubles=troubles)
    return told


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PAUSE_SECONDS", 0.0)


def test_trouble_is_told_once_and_its_end_once() -> None:
    assert told_by(None, NO_LEDGER, NO_LEDGER, None, None) == [(LEDGER, "no ledger"), (LEDGER, None)]


def test_a_database_is_told_as_that_whoever_asked_it() -> None:
    assert told_by(NO_DATABASE, None) == [(DATABASE, "no database"), (DATABASE, None)]
    assert told_by(NO_LEDGER, NO_DATABASE, None) == [
        *((LEDGER, "no ledger"), (DATABASE, "no database")),
        *((DATABASE, None), (LEDGER, None)),
    ]


def test_a_service_that_cannot_be_found_is_trouble_too() -> None:
    assert told_by(ServiceUnreachable("nowhere"), service=DATABASE) == [(DATABASE, "nowhere")]


def test_two_that_notice_the_same_tell_it_once() -> None:
    told: list[object] = []
    troubles = Troubles(lambda service, error: told.append((service, error)))
    troubles.met(DATABASE, NO_DATABASE)
    troubles.met(DATABASE, NO_DATABASE)
    troubles.passed(DATABASE)
    troubles.passed(DATABASE)
    assert told == [(DATABASE, NO_DATABASE), (DATABASE, None)]


def test_what_is_no_trouble_is_not_hidden() -> None:
    with pytest.raises(AssertionError):
        told_by(AssertionError("a bug"))
