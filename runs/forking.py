"""Where drivers are forked from: a server that has imported everything, and holds nothing of a run.

A process has one fork server, and whoever starts it first says what it imports. So this is said in one place, which
itself imports nothing of ours; a program that forks more adds to the list before the first fork.
"""

import multiprocessing
from multiprocessing.context import ForkServerContext

# A module that cannot be imported is left out by the fork server in silence: a test looks.
PRELOADED = ["runs.crew_member"]


def fork_context() -> ForkServerContext:
    """The context whose processes are forks of a process that has imported PRELOADED."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    return context
