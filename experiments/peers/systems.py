"""What is compared: each system with its strongest settings, in one sentence."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

from experiments.peers import agent_once, effect_ledger, exactly_once, onward, sakrit, unguarded
from experiments.peers.order import Order, Place, Word

POSTGRES = "Postgres"


@dataclass(frozen=True, kw_only=True)
class System:
    """One row of the table. `module` is what its two settings have in common.

    `make` prepares a place, `call` is one call in a process of its own, `look` is what is recorded in the end. Where a
    service performs the effect, `serve` is one instance of it, and `call` gets its ready file.
    """

    name: str
    distribution: str | None
    store: str
    settings: str
    make: Callable[[Place], None]
    call: Callable[..., str]
    look: Callable[[Order, Place], Word]
    serve: Callable[..., str] | None = None

    @property
    def version(self) -> str | None:
        """Of the installed package; None where it is not installed. What has no package has the version ``."""
        if self.distribution is None:
            return ""
        try:
            return version(self.distribution)
        except PackageNotFoundError:
            return None


ONWARD = System(
    name="onward-ledger",
    distribution="onward-ledger",
    store=POSTGRES,
    settings="a kind of class idempotent where the provider remembers keys, else queryable without resending",
    make=onward.make,
    call=onward.call,
    look=onward.look,
    serve=onward.serve,
)
CONTROL = System(
    name="no ledger",
    distribution=None,
    store="none",
    settings="the control: whoever is asked performs the charge",
    make=unguarded.make,
    call=unguarded.call,
    look=unguarded.look,
)
PEERS = (
    System(
        name="sakrit",
        distribution="sakrit",
        store="SQLite with multi_worker, its only store",
        settings="leases, fencing, reconcile; L2R with resending where the provider remembers keys, else L1, surfacing",
        make=sakrit.make,
        call=sakrit.call,
        look=sakrit.look,
    ),
    System(
        name="effect-ledger",
        distribution="effect-ledger",
        store=POSTGRES,
        settings="no lease; a recovery policy asks the provider, where the caller knows that no worker is left",
        make=effect_ledger.make,
        call=effect_ledger.call,
        look=effect_ledger.look,
    ),
    System(
        name="exactly-once",
        distribution="exactly-once",
        store=POSTGRES,
        settings="check_then_decide with a lease, and a fingerprint",
        make=exactly_once.make,
        call=exactly_once.call,
        look=exactly_once.look,
    ),
    System(
        name="exactly-once, careful",
        distribution="exactly-once",
        store=POSTGRES,
        settings="wait, no lease, and a fingerprint: nothing is taken over",
        make=exactly_once.make,
        call=exactly_once.call_carefully,
        look=exactly_once.look,
    ),
    System(
        name="agent-once",
        distribution="agent-once",
        store=POSTGRES,
        settings="verify and stale_after, errors of the network are unknown",
        make=agent_once.make,
        call=agent_once.call,
        look=agent_once.look,
    ),
    System(
        name="agent-once, careful",
        distribution="agent-once",
        store=POSTGRES,
        settings="no verify: nothing is taken over",
        make=agent_once.make,
        call=agent_once.call_carefully,
        look=agent_once.look,
    ),
)
SYSTEMS = (ONWARD, *PEERS, CONTROL)
