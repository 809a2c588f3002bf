"""The product's own worker, `onward worker`, that ends with the experiment and serves one workflow more.

Its drivers are forked from a process that has imported `PRELOADED`; there the workflow is registered as well.
"""

from __future__ import annotations

import sys

from experiments.recovering.children import told

PRELOADED = "experiments.recovering.workers.onward_steps"


def main() -> int:
    """Be a worker until killed."""
    told(__doc__)
    from experiments.recovering.workers import onward_steps
    from runs import cli, crew

    assert onward_steps.__name__ == PRELOADED
    crew.PRELOADED.append(PRELOADED)
    return cli.main(["worker", "--output", "json"])


if __name__ == "__main__":
    sys.exit(main())
