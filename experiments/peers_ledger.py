"""Our ledger beside its peers: kill, stop and wake real processes, and count the charges in the world.

    uv run --group peers experiments/peers_ledger.py            every system, a table; about three minutes
    uv run experiments/peers_ledger.py                          those that are installed; ours at least
    uv run --group peers experiments/peers_ledger.py --json     everything that was seen, as JSON
    uv run experiments/peers_ledger.py --only onward-ledger --only "no ledger"
    uv run experiments/peers_ledger.py --columns AS             some of the plans

What it does. A provider in a process of its own performs charges and writes each to a fsynced log. Each system guards
the same charge with its strongest settings, on Postgres where it can. Each plan is the same for all: a process is
killed when the provider has committed, four ask at once, the same key comes with other params, an answer is late, a
stopped process wakes after somebody has taken over. Once with a provider that can only be searched, and once with one
that remembers idempotency keys. Postgres, provider and ledgers live in a temporary folder; nothing of yours is touched.

What you will see. A row per system and provider, a column per plan, in each cell the number of charges: 1 is right.
`?` means that the record is not settled and a person has to look. The last row is the control, no ledger at all: it
must repeat charges, otherwise the plans show nothing and the verdict is "invalid".

    exit 0    pass: every cell of ours is as promised
    exit 10   disproved, or invalid: nothing was tested
    exit 9    a service could not be started
    exit 2    the command line is wrong
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

# Run as a file, this folder would come first, and its modules would hide others of the same name.
if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parent.parent)


def main() -> int:
    """Run what the command line asks for; the exit code."""
    from experiments.benchmarks import command

    arguments = _parsed()
    return command.guarded(lambda teller: _run(arguments, teller.say), "peers")


def _run(arguments: argparse.Namespace, tell: Callable[[str], None]) -> int:
    from experiments.benchmarks import command
    from experiments.peers.campaign import Options, run_campaign
    from experiments.peers.report import print_results
    from runs.errors import Exit

    results = run_campaign(Options(systems=arguments.only, columns=arguments.columns, seed=arguments.seed), tell)
    told = results.to_json()
    command.give(told, lambda: print_results(results, sys.stdout), as_json=arguments.json, keep=arguments.out)
    return Exit.OK if results.verdict == "pass" else Exit.DISPROVED


def _parsed() -> argparse.Namespace:
    from experiments.peers.columns import COLUMNS
    from experiments.peers.systems import SYSTEMS

    parser = argparse.ArgumentParser(
        prog="peers_ledger.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names, letters = [system.name for system in SYSTEMS], "".join(column.name for column in COLUMNS)
    parser.add_argument(
        "--only", action="append", choices=names, default=[], metavar="NAME", help=f"one of: {'; '.join(names)}"
    )
    told = "; ".join(f"{column.name}: {column.says}" for column in COLUMNS)
    parser.add_argument("--columns", default="", metavar="LETTERS", help=f"some of {letters}. {told}")
    parser.add_argument("--seed", type=int, default=1, metavar="S", help="what the order is drawn by (1)")
    parser.add_argument("--json", action="store_true", help="everything as JSON on stdout")
    parser.add_argument("--out", type=Path, metavar="FILE", help="keep the JSON there")
    arguments = parser.parse_args()
    unknown = set(arguments.columns) - set(letters)
    if unknown:
        parser.error(f"there is no column {', '.join(sorted(unknown))}; there are {letters}")
    return arguments


if __name__ == "__main__":
    sys.exit(main())
