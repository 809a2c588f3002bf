"""What a process of a case would import, done once by the fork server."""

from __future__ import annotations

import gc
import importlib

for name in (
    "experiments.guaranteed.service",
    "experiments.mutants",
    "httpx",
    "onward_ledger.providers.http",
    "onward_ledger.serve",
    "psycopg",
    "uvicorn.loops.auto",
    "uvicorn.protocols.http.httptools_impl",
):
    importlib.import_module(name)

gc.collect()
gc.freeze()
