"""What a process of a case would import, done once by the fork server: the service, and the peers that are there."""

from __future__ import annotations

import gc
import importlib
import importlib.util

for name in (
    "experiments.peers.onward",
    "experiments.peers.systems",
    "httpx",
    "onward_ledger.serve",
    "psycopg",
    "uvicorn.loops.auto",
    "uvicorn.protocols.http.httptools_impl",
):
    importlib.import_module(name)

for package, name in {
    "sakrit": "sakrit.core.reconcile",
    "effect_ledger": "effect_ledger.postgres",
    "exactly_once": "exactly_once.stores.postgres",
    "once": "once.postgres",
}.items():
    if importlib.util.find_spec(package) is not None:
        importlib.import_module(name)

gc.collect()
gc.freeze()
