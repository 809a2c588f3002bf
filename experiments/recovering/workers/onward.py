"""The product's own worker, `onward worker --graph`, that ends with the experiment."""

from __future__ import annotations

import sys

from experiments.recovering.children import told


def main() -> int:
    """Be a worker until killed."""
    orders = told(__doc__)
    from runs import cli

    return cli.main(["worker", "--graph", orders.settings["graph"], "--output", "json"])


if __name__ == "__main__":
    sys.exit(main())
