"""Runs in a notebook: start one, see what it proposes, decide, and go on by its id after any kill.

    from runs import notebook

    run = notebook.start("book.xlsx", "revenue by region")   # drives until a person has to decide
    run.proposal()                                           # what would be published
    run.buttons()                                            # or: run.approve(), run.edit(title=…), run.reject(…)
    run = notebook.find("3f2a")                              # after a restart of the kernel

It uses the settings of the commands (ONWARD_HOME, ONWARD_STORE, …), so `onward show` shows the same runs. A driver is a
process of its own that ends with its kernel; what it had committed stays, and `run.resume()` goes on from there.
"""

from runs.driver import ROOT
from runs.errors import Conflict
from runs.notebook.driver import Driver
from runs.notebook.table import Table
from runs.notebook.view import Proposal, Report, RunView, find, start

EXAMPLES = ROOT / "examples"

__all__ = ["EXAMPLES", "Conflict", "Driver", "Proposal", "Report", "RunView", "Table", "find", "start"]
