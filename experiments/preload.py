"""Everything that a process of a case would import, imported once by the fork server, so that a case costs no imports.

Only imported: nothing is connected and nothing is computed. What some libraries start by being imported (threads of
polars' allocator and of numpy's linear algebra) they start again by themselves in a forked process.
"""

from __future__ import annotations

import importlib

from tools import chart_svg

for name in (
    "experiments.workload",
    "graph.build",
    "graph.models",
    "httpcore",
    "httpx",
    "langgraph.checkpoint.postgres",
    "langgraph.checkpoint.sqlite",
    "runs.assembly",
):
    importlib.import_module(name)

# matplotlib is imported by the product in its own way, which keeps the user's fonts and settings out of the report.
chart_svg._import_matplotlib()  # pyright: ignore[reportPrivateUsage] - its only effect is the import
