"""The columns: what goes wrong, each for real. Where a fault did not happen, NotStruck: the cell says nothing."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from experiments.guaranteed.stand import Stand
from onward_ledger.action import FINAL

CALLERS = 4


@dataclass(frozen=True)
class Fault:
    """One column. `outside`: it is about something outside of the ledger's database, which a row may not have.

    `alone`: it kills the database server, so the case needs one of its own. `lie`: the API says what is not true, so
    the record can be no better. `key_lifetime_seconds`: how long the API remembers keys.
    """

    name: str
    what: str
    strike: Callable[[Stand], None]
    outside: bool = True
    alone: bool = False
    lie: bool = False
    key_lifetime_seconds: float = 600.0


def _before_send(stand: Stand) -> None:
    service = stand.service(end_at="before send")
    stand.ask(service)
    stand.must_have_ended(service)


def _after_send(stand: Stand) -> None:
    service = stand.service(end_at="after send")
    stand.ask(service)
    stand.must_have_ended(service)


def _api(stand: Stand, fault: str) -> None:
    """The API does this to the first request; the driver is told whatever comes of it."""
    stand.api.control(send=fault)
    stand.ask(stand.service())
    stand.must_have_struck(fault)


def _lost_answer(stand: Stand) -> None:
    _api(stand, "drop after")


def _timeout(stand: Stand) -> None:
    _api(stand, "hold after")


def _duplicate_delivery(stand: Stand) -> None:
    """The driver's request arrives several times at once, and once more when all is done."""
    service = stand.service()
    stand.epoch += 1
    threads = [stand.asking(service, same_epoch=True) for _ in range(CALLERS)]
    for thread in threads:
        thread.join()
    stand.wait_for("an answer", stand.status_is(*FINAL))
    stand.ask(service)


def _late_delivery(stand: Stand) -> None:
    """The request is under way while a driver asks again, and arrives then."""
    stand.api.control(send="hold before")
    service = stand.service()
    stand.ask(service)
    stand.must_have_struck("hold before")
    stand.ask(service)
    stand.api.control(release=True)
    stand.wait_for("the late request", lambda: stand.effects() >= 1)


def _database_killed(stand: Stand) -> None:
    """Its server dies while the request is under way, and is back before the answer has been given up."""
    service = stand.service()
    if not stand.row.sends:
        stand.server.kill()
        stand.server.start()
        stand.ask(service)
        return
    stand.api.control(send="hold before")
    driver = stand.asking(service)
    stand.wait_for("a request that is held", lambda: stand.api.held() == 1)
    stand.server.kill()
    stand.api.control(release=True)
    stand.wait_for("the effect", lambda: stand.effects() >= 1)
    stand.server.start()
    driver.join()


def _service_killed(stand: Stand) -> None:
    """The service dies while its request is under way; the request arrives nevertheless."""
    service = stand.service()
    stand.api.control(send="hold before")
    driver = stand.asking(service)
    stand.wait_for("a request that is held", lambda: stand.api.held() == 1)
    service.kill()
    stand.api.control(release=True)
    stand.wait_for("the effect", lambda: stand.effects() >= 1)
    driver.join()


def _two_instances(stand: Stand) -> None:
    """Both are asked at once, by two drivers each; then one of them dies."""
    first, second = stand.service(), stand.service()
    stand.epoch += 1
    threads = [stand.asking(service, same_epoch=True) for service in (first, second, first, second)]
    for thread in threads:
        thread.join()
    first.kill()
    stand.ask(second)


def _key_expired(stand: Stand) -> None:
    """The answer is lost, and nobody comes back before the API has forgotten the key."""
    stand.api.control(send="drop after")
    service = stand.service()
    asked_at = time.monotonic()
    stand.ask(service)
    stand.must_have_struck("drop after")
    service.kill()  # nobody asks meanwhile, not even in the background
    stand.api.control(forget_keys=True)
    time.sleep(max(asked_at + stand.key_lifetime_seconds - time.monotonic(), 0.0))


def _error_after(stand: Stand) -> None:
    _api(stand, "error after")


def _lie(stand: Stand) -> None:
    _api(stand, "lie")


FAULTS = (
    Fault("killed before send", "the service, between the claim and the effect", _before_send, outside=False),
    Fault("killed after send", "the service, between the effect and its record", _after_send, outside=False),
    Fault("lost answer", "the connection is cut behind the effect", _lost_answer),
    Fault("timeout", "the effect happened, the answer never comes", _timeout),
    Fault("duplicate delivery", "the caller's request arrives four times at once", _duplicate_delivery, outside=False),
    Fault("late delivery", "the request arrives after it was given up and looked up", _late_delivery),
    Fault("database killed", "its server, while the request is under way", _database_killed, outside=False, alone=True),
    Fault("service killed", "while its request is under way", _service_killed),
    Fault("two instances", "of the service are asked at once, one dies", _two_instances, outside=False),
    Fault(
        "key expired", "nobody asks again before the API has forgotten the key", _key_expired, key_lifetime_seconds=2.0
    ),
    Fault("500 after the effect", "the API says that it failed", _error_after),
    Fault("201 without an effect", "the API says that it did what it did not", _lie, lie=True),
)
