"""Workers, Postgres and the ledger on separate hosts: cut apart, killed, filled up, with wrong clocks, and healed.

    uv run experiments/partitions.py                      every case; Linux and root; some minutes
    uv run experiments/partitions.py --list               what there is
    uv run experiments/partitions.py --only "refused"     cases with this in their name
    uv run experiments/partitions.py --group clock        one group of them
    uv run experiments/partitions.py --json               everything that was seen, as JSON
    uv run experiments/partitions.py --keep DIR           logs of cases that are not as they should be

What it does. Hosts are network namespaces with an address and a host name each: Postgres (a server of its own, on a
small disk in memory), the ledger, the sink of effects, and two workers. In each case several runs are under way; the
fault strikes in the middle of them, lasts, and heals. Then every run has to end, with its effects once at the sink.
Nothing of yours is touched; all of it is removed in the end, also after Ctrl-C, and what a killed experiment left is
removed by the next one.

What you will see. One line for each case: whether the fault hit (runs that were driven then), runs completed,
duplicates, lost effects, UNKNOWN outcomes, runs that are stuck, take-overs, and the seconds after the heal until a run
went on, until the last one ended, and until the worker that was hit had ended new runs. A fault that cannot be made
here is "not run", never passed.

    exit 0    pass
    exit 10   disproved, or invalid: a fault hit nothing
    exit 9    a service could not be started
    exit 2    usage; not Linux, not root, or a program is missing
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from experiments.hosts.faults import Fault

# Run as a file, this folder would come first, and its modules would hide others of the same name.
if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parent.parent)


def main() -> int:
    """Run what the command line asks for; the exit code."""
    from experiments.hosts.faults import FAULTS
    from runs.errors import Exit

    arguments = _parsed()
    wanted = [fault for fault in FAULTS if _is_wanted(fault.name, fault.group, arguments)]
    if arguments.list and wanted:
        print("\n".join(f"{fault.group:8}{fault.name}" for fault in wanted))
        return Exit.OK
    why = cannot(sys.platform, os.geteuid() if hasattr(os, "geteuid") else None)
    if not wanted or why is not None:
        sys.stderr.write(f"partitions: {why if wanted else 'there is no such case; --list shows them'}\n")
        return Exit.USAGE

    from experiments.benchmarks import command

    return command.guarded(lambda teller: _run(wanted, arguments, teller.say), "partitions")


def _is_wanted(name: str, group: str, arguments: argparse.Namespace) -> bool:
    named = not arguments.only or any(text in name for text in arguments.only)
    return named and (not arguments.group or group in arguments.group)


def _run(wanted: Sequence[Fault], arguments: argparse.Namespace, tell: Callable[[str], None]) -> int:
    from experiments.benchmarks import command
    from experiments.hosts import report
    from experiments.hosts.campaign import run_campaign
    from runs.errors import Exit

    logging.getLogger("psycopg.pool").setLevel(logging.CRITICAL)  # our own connections end with the server's
    results = run_campaign(wanted, tell, arguments.keep)
    command.give(results.to_json(), lambda: report.print_results(results, sys.stdout), as_json=arguments.json)
    return Exit.OK if results.verdict == "pass" else Exit.DISPROVED


def cannot(platform: str, account: int | None) -> str | None:
    """Why it cannot be run here, in a sentence; None where it can."""
    from experiments.hosts.network import missing_tools

    if platform != "linux":
        return "This experiment makes hosts out of Linux's network namespaces, and this is not Linux."
    if account != 0:
        return "This experiment makes network namespaces and disks, which only root may. Run it as root."
    if missing := missing_tools():
        return f"These programs are missing: {', '.join(missing)}. Install iproute2 and util-linux."
    return None


def _parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="partitions.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", action="append", default=[], metavar="TEXT", help="cases with this in their name")
    parser.add_argument("--group", action="append", default=[], metavar="NAME", help="cases of this group")
    parser.add_argument("--list", action="store_true", help="name the cases, and run none")
    parser.add_argument("--json", action="store_true", help="everything that was seen, on stdout")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep logs of cases that are not as they should be")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
