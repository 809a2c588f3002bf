"""Everything that a process of a case would import, imported once by the fork server: LangGraph, its stores, agents.

And the installed packages that their file imports, by the names in an environment variable. None of Onward's own
`graph`, `tools` or `runs`: projects have modules of these names.
"""

from __future__ import annotations

import gc
import importlib
import os
from contextlib import suppress

from experiments.anygraph.request import PACKAGES

for name in (
    "aiosqlite",
    "experiments.anygraph.work",
    "experiments.processes",
    "httpcore",
    "httpx",
    "langchain_core.tools",
    "langgraph.checkpoint.postgres.aio",
    "langgraph.checkpoint.sqlite.aio",
    "langgraph.func",
    "langgraph.graph",
    "langgraph.prebuilt",
    "obstore",
):
    importlib.import_module(name)

for name in ("langchain.agents", *filter(None, os.environ.get(PACKAGES, "").split(","))):
    # What cannot be imported here fails in the process of a case, where it is told.
    with suppress(Exception):
        importlib.import_module(name)

gc.collect()
gc.freeze()  # else the first collection of a forked process touches, and so copies, all of it
