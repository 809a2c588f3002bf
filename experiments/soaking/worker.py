"""The product's own worker, `onward worker`, that ends with the experiment and serves the small workflow too.

    python -m experiments.soaking.worker PARENT_PID [options of onward worker]

Its drivers are forked from a process that has imported `PRELOADED`; there the workflow is registered as well.
"""

from __future__ import annotations

import sys

PRELOADED = "experiments.soaking.registered"


def main() -> int:
    """Be a worker until told to stop."""
    from tools.process import die_with_parent

    die_with_parent(int(sys.argv[1]), sys.stdin.fileno())
    from experiments.soaking import registered
    from runs import cli, forking

    assert registered.__name__ == PRELOADED
    forking.PRELOADED.append(PRELOADED)
    return cli.main(["worker", "--output", "json", *sys.argv[2:]])


if __name__ == "__main__":
    sys.exit(main())
