"""What each provider class promises, under every fault, seen with real services, databases and an API.

    uv run experiments/guarantees.py                     the whole table; about two minutes
    uv run experiments/guarantees.py --only opaque       one row
    uv run experiments/guarantees.py --fault "killed"    some columns
    uv run experiments/guarantees.py --json              everything that was seen, as JSON
    uv run experiments/guarantees.py --write-docs        write the table of docs/guarantees.md

What it does. For each cell a ledger service with a database of its own performs one effect at an API in a process of
its own, which writes each effect to a fsynced log. The fault strikes: processes and database servers are killed,
answers are lost, requests come late or several times, the API forgets keys or lies. Then drivers come back and ask
again until the record is settled, or stays UNKNOWN. The log says what really happened.

What you will see. The number of effects in each cell: 1 is right, `?` means that a person has to look. The last row is
the control, a ledger that takes "unknown" for "not done": it must have duplicates, otherwise the faults show nothing.

    exit 0    pass: every cell is as promised
    exit 10   disproved, or invalid: a fault did not happen, or the control showed nothing
    exit 9    a service could not be started
"""

from __future__ import annotations

import argparse
import json
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
    return command.guarded(lambda teller: _run(arguments, teller.say), "guarantees")


def _run(arguments: argparse.Namespace, tell: Callable[[str], None]) -> int:
    from experiments.guaranteed import report
    from experiments.guaranteed.campaign import plans, run_campaign
    from runs.errors import Exit

    wanted = plans(arguments.only, arguments.fault)
    if not wanted:
        tell("there is no such cell; --only takes part of a row's name, --fault of a column's")
        return Exit.USAGE
    results = run_campaign(wanted, tell)
    if arguments.write_docs and results.verdict == "pass":
        report.write_page(results)
    if arguments.json:
        print(json.dumps(results.to_json(), indent=2))
    else:
        report.print_results(results, sys.stdout)
    return Exit.OK if results.verdict == "pass" else Exit.DISPROVED


def _parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="guarantees.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", action="append", default=[], metavar="ROW", help="rows with this in their name")
    parser.add_argument("--fault", action="append", default=[], metavar="TEXT", help="faults with this in their name")
    parser.add_argument("--json", action="store_true", help="everything that was seen, on stdout")
    parser.add_argument("--write-docs", action="store_true", help="write the table of docs/guarantees.md")
    arguments = parser.parse_args()
    if arguments.write_docs and (arguments.only or arguments.fault):
        parser.error("--write-docs writes the whole table; leave --only and --fault away")
    return arguments


if __name__ == "__main__":
    sys.exit(main())
