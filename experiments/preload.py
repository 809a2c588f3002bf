"""Everything that a process of a case would import or compile, done once by the fork server.

Nothing is connected, and no data is kept. What some libraries start by being imported (threads of polars' allocator and
of numpy's linear algebra) they start again by themselves in a forked process. Beyond imports, three caches are
filled that each process would fill for itself: the templates of the report, matplotlib's fonts, regular expressions.
"""

from __future__ import annotations

import gc
import importlib

from experiments.warm_children import PROGRAMS
from tools import chart_svg, report
from tools.ask import map_ask
from tools.charts import draw

PROFILE = {
    "name": "warm.csv",
    "sheets": [
        {
            "name": "warm",
            "rows": 2,
            "columns": [
                {
                    "name": "region",
                    "type": "text",
                    "role": "category",
                    "non_null": 2,
                    "nulls": 0,
                    "distinct": 2,
                    "examples": [],
                },
                {
                    "name": "revenue",
                    "type": "number",
                    "role": "measure",
                    "non_null": 2,
                    "nulls": 0,
                    "distinct": 2,
                    "examples": [],
                },
            ],
            "notes": [],
        }
    ],
}

for name in (
    "experiments.workload",
    "experiments.observed_ledger",
    "graph.build",
    "graph.models",
    "httpcore",
    "httpx",
    "langgraph.checkpoint.postgres",
    "langgraph.checkpoint.sqlite",
    "onward_ledger.__main__",
    "onward_ledger.serve",
    "runs.assembly",
    "uvicorn.loops.auto",
    "uvicorn.protocols.http.httptools_impl",
    *PROGRAMS,
):
    importlib.import_module(name)

# matplotlib is imported by the product in its own way, which keeps the user's fonts and settings out of the report.
chart_svg._import_matplotlib()  # pyright: ignore[reportPrivateUsage] - its only effect is the import

# The caches. Each is private to its module, and filling it is the point.
report._html().get_template("report.html.j2")  # pyright: ignore[reportPrivateUsage]
report._markdown().get_template("report.md.j2")  # pyright: ignore[reportPrivateUsage]
_COLUMNS = [{"name": "region", "type": "text"}, {"name": "revenue", "type": "number"}]
draw({"columns": _COLUMNS, "rows": [["North", 1.0], ["South", 2.0]], "total_rows": 2}, "bar", "warm")  # pyright: ignore[reportArgumentType]
map_ask("total revenue", PROFILE)

# What is there now stays as it is: a collection in a forked process would touch, and so copy, all of it.
gc.collect()
gc.freeze()
