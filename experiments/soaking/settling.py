"""What only a person can say: whether an effect happened whose answer is lost. Here the person reads the API's log."""

from __future__ import annotations

from contextlib import closing

from experiments.soaking.place import Place
from onward_ledger.action import Status


def settle_unknown(place: Place) -> list[dict[str, str]]:
    """Settle every UNKNOWN action by what is in the log; which ones, and as what. Workers then go on by themselves."""
    settled: list[dict[str, str]] = []
    with closing(place.ledger()) as ledger:
        for action in ledger.actions(None, Status.UNKNOWN, limit=500):
            found = place.sink.effects(marker=action.action_id)
            status = Status.SUCCEEDED if found else Status.FAILED
            ledger.resolve(
                action.action_id,
                status=status,
                receipt={"provider_id": found[0].id} if found else None,
                reason="the API's log " + ("has it" if found else "does not have it"),
                expected_version=action.version,
            )
            settled.append({"action_id": action.action_id, "run_id": action.run_id, "as": str(status)})
    return settled
