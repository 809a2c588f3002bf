"""What a variant is: one protocol in one world, in one size, and the verdict that it must get."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

NOTHING: frozenset[str] = frozenset()


@dataclass(frozen=True, kw_only=True)
class Variant:
    """One protocol in one world.

    The size: `drivers` (0: one caller who is always there), `epochs` that are handed out, effect `steps`, `hands` of
    services. The names of the other fields are read with the class: "this protocol resends_in_flight".
    """

    name: str
    what: str
    breaks: frozenset[str] = NOTHING  # invariants that must be found broken
    tolerates: frozenset[str] = NOTHING  # invariants that are not looked at, to see what follows from breaking them
    ends: bool = False  # checked too: from every state an end can be reached

    drivers: int = 2
    epochs: int = 2
    steps: int = 1
    hands: int = 2

    # The world.
    idempotent: bool = True
    transactional: bool = False
    looks_up: bool = True
    lags: bool = False  # a look-up can miss what happened a moment ago
    forgets: bool = False
    refuses: bool = False
    not_sent: bool = False
    duplicates: bool = False  # the network delivers a request twice
    suspends: bool = False  # a sender sleeps between its check and its write for longer than the declared times
    replans: bool = False  # planning again gives another plan
    asks_anew: bool = False  # a driver that takes over asks for something else

    # The protocol.
    ledger: bool = True
    fences_checkpoint: bool = True
    fences_ledger: bool = True
    action_id: Literal["step", "arguments", "attempt"] = "step"
    check: Literal["deadline", "fence", "none"] = "deadline"
    absent: Literal["when remembered", "when settled", "at once", "hold"] = "when remembered"
    window: Literal["", "deadline", "quiet", "quiesced"] = ""
    minds_age: bool = True
    minds_doubt: bool = True
    approval: bool = False
    operator: bool = False
    cancels: bool = False
    restores: bool = False
    looks_first: bool = True
    waits_after_restore: bool = True

    # Mistakes.
    resends_in_flight: bool = False
    succeeds_early: bool = False
    performs_again: bool = False
    assumes_absent: bool = False
    replays_blindly: bool = False
    approves_everything: bool = False
    error_means_not_done: bool = False
    believes_early_look_up: bool = False
    minds_age_at_look_up_only: bool = False
    refuses_late_truth: bool = False
    contradicts_in_doubt: bool = False
    looks_first_at_proposals_only: bool = False


# Names of invariants, as `invariants.py` has them.
DUPLICATE = frozenset({"duplicate effect"})
BACK = frozenset({"checkpoint goes back"})
SILENT = frozenset({"unknown settled silently"})
EARLY = frozenset({"succeeded without effect"})
