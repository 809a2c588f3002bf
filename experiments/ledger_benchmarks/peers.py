"""The same action through the packages of others, in this process, on the same server: their effect costs nothing too.

Settings are those of `experiments.peers`. What is not installed is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from experiments.ledger_benchmarks.place import PARAMS
from experiments.peers.order import LEASE_SECONDS

# Performs the action under an id, or replays it.
Perform = Callable[[str], object]

MODULES = {
    "effect_ledger": "effect_ledger",
    "exactly_once": "exactly_once",
    "exactly_once_careful": "exactly_once",
    "agent_once": "once",
}
DISTRIBUTIONS = ("effect-ledger", "exactly-once", "agent-once")
TITLES = {
    "effect_ledger": "effect-ledger",
    "exactly_once": "exactly-once with a lease and a prober",
    "exactly_once_careful": "exactly-once without a lease",
    "agent_once": "agent-once",
}


@contextmanager
def peers(dsn: str) -> Generator[dict[str, Perform]]:
    """Those that are installed, each with its tables in this database."""
    makers = {
        "effect_ledger": _effect_ledger,
        "exactly_once": _exactly_once,
        "exactly_once_careful": _exactly_once_careful,
        "agent_once": _agent_once,
    }
    with ExitStack() as stack:
        yield {name: make(dsn, stack) for name, make in makers.items() if find_spec(MODULES[name]) is not None}


def _effect_ledger(dsn: str, stack: ExitStack) -> Perform:
    store: Any = import_module("effect_ledger.postgres").PostgresOperationStore(dsn)
    executor: Any = import_module("effect_ledger").EffectExecutor(scope="benchmark", store=store)

    def handler(operation: Any) -> dict[str, str]:
        return {"charge": operation.provider_key}

    return lambda key: executor.execute(key, "charge.create:v1", dict(PARAMS), handler)


def _exactly_once(dsn: str, stack: ExitStack) -> Perform:
    package: Any = import_module("exactly_once")

    def probe(key: str) -> Any:
        return package.ProbeResult(package.Verdict.UNKNOWN)

    return _once(dsn, stack, policy=package.check_then_decide(probe), lease_ttl=LEASE_SECONDS)


def _exactly_once_careful(dsn: str, stack: ExitStack) -> Perform:
    return _once(dsn, stack, policy=import_module("exactly_once").wait())


def _once(dsn: str, stack: ExitStack, **settings: Any) -> Perform:
    package: Any = import_module("exactly_once")
    store = package.Store.postgres(dsn)
    stack.callback(store.close)
    name = f"{len(settings)}"  # the two settings share a table, and no key

    def key_of(key: str, params: dict[str, Any]) -> str:
        return f"{name}:{key}"

    def payload(key: str, params: dict[str, Any]) -> dict[str, Any]:
        return params

    @package.once(store, key=key_of, fingerprint=payload, **settings)
    def charge(key: str, params: dict[str, Any]) -> dict[str, str]:
        return {"charge": key}

    return lambda key: charge(key, PARAMS)


def _agent_once(dsn: str, stack: ExitStack) -> Perform:
    store: Any = import_module("once.postgres").PostgresStore(dsn)
    once: Any = import_module("once").Once(store=store, unknown_on=(TimeoutError, OSError), stale_after=LEASE_SECONDS)
    stack.callback(once.close)

    def charge(customer: str, amount: int, idempotency_key: str | None = None) -> dict[str, str]:
        return {"charge": str(idempotency_key)}

    return lambda key: once.execute(charge, key=key, tool_name="charge.create", **PARAMS)
