"""How large the stand is, and how long things last on it."""

from __future__ import annotations

WORKERS = 2
CONCURRENCY = 3  # so that a run which lost its driver finds a free place
RUNS = 4
LEASE_SECONDS = 4.0

# What a case waits for at most while its fault lasts.
FAULT_SECONDS = 60.0
