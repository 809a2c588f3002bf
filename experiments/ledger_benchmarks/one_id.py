"""A thousand calls with one id at the same moment: one send, one receipt, and everybody gets it."""

from __future__ import annotations

import resource
import time

from experiments.benchmarks.figures import Declared, Measured, amount
from experiments.benchmarks.rounds import Teller
from experiments.benchmarks.services import Services
from experiments.errors import NotRun
from experiments.ledger_benchmarks.clients import at_once
from experiments.ledger_benchmarks.place import Place, key_of, open_place, put_action
from experiments.ledger_benchmarks.service import COUNTED, sends_of

NAME = "one_id"
CALLS = 1000
FILES = 4 * CALLS  # each call is an open socket, here and in the service
REPEATS = 3

SENDS = Declared(key="sends_of_one_id", unit="sends", target=1, says=f"sends of {CALLS:,} concurrent calls with one id")
RECEIPTS = Declared(
    key="receipts_of_one_id", unit="receipts", target=1, says=f"different receipts that the {CALLS:,} callers got"
)
MS = Declared(key="one_id_ms", unit="ms", says=f"until all {CALLS:,} have their answer, 50 ms of it the send")
DECLARED = (SENDS, RECEIPTS, MS)


def measure(services: Services, rounds: int, teller: Teller) -> Measured:
    """See the module."""
    teller.say(f"one_id: {CALLS:,} connections at once, {REPEATS} times")
    _allow_files()
    taken: dict[str, list[float]] = {"sends": [], "receipts": [], "milliseconds": []}
    with open_place(services, "one-id") as place:
        for number in range(REPEATS):
            for name, value in _once(place, f"one-id-{number}").items():
                taken[name].append(value)
    # The worst, not the median: one second send in a thousand repeats is one too many.
    figures = (
        amount(SENDS, [max(taken["sends"])]),
        amount(RECEIPTS, [max(taken["receipts"])]),
        amount(MS, taken["milliseconds"]),
    )
    return Measured(figures=figures, samples=taken)


def _once(place: Place, slot: str) -> dict[str, float]:
    data = put_action(place.token, place.run_id, slot, kind=COUNTED)
    began = time.perf_counter()
    replies = at_once(place.port, data, CALLS)
    took = time.perf_counter() - began
    wrong = [reply for reply in replies if reply.status != 200 or not reply.json()["receipt"]]
    if wrong:
        raise NotRun(f"The ledger answered {wrong[0].status}: {wrong[0].body[:300].decode(errors='replace')}")
    action_id = key_of(place.run_id, slot).action_id
    sends = sends_of(place.folder).read_text(encoding="ascii").splitlines().count(action_id)
    if sends == 0:
        raise NotRun("The service counted no send, so the one that is counted proves nothing.")
    receipts = {str(reply.json()["receipt"]) for reply in replies}
    return {"sends": sends, "receipts": len(receipts), "milliseconds": took * 1000}


def _allow_files() -> None:
    """Open files for this process and for the service that it starts."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = FILES if hard == resource.RLIM_INFINITY else min(FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
