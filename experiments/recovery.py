"""How fast and how correctly a run goes on when its process, or its whole worker, is killed: ours and peers.

    uv run experiments/recovery.py --kills 20                     a table; most of the time is the peers'
    uv run experiments/recovery.py --kills 200 --json             everything that was seen, as JSON
    uv run experiments/recovery.py --kills 50 --only Onward       one system; `--help` names them
    uv run experiments/recovery.py --kills 200 --peer-kills 20    more kills for each peer (they wait for seconds)
    uv run experiments/recovery.py --kills 200 --write-docs       write the table of docs/benchmarks.md

What it does. Two workers of each system are up, with their defaults, and get one run after the other: five steps of a
tenth of a second, and one effect in the middle of the third, at an API in a process of its own that keeps a fsynced
log. At a moment drawn by the seed SIGKILL strikes: of Onward the run's own driver process, or the whole worker, in
turn; of the others the worker, since it runs the steps itself. Nothing is told to anybody. The same plan of kills is
used for all, and each system is set up as its documentation says. Everything runs in a temporary folder, on loopback.

What you will see. For each system the seconds from the kill to the claim by somebody else, to the first work that is on
record again, and to the end; and what is in the world: duplicates, lost effects, runs that nobody takes up again
(stuck), steps that were executed again. Onward stands there twice: as it is, and with two workers that pretend to be on
two machines, so that nobody can look into the other's table of processes.

The peers are the control: the same kills must make duplicates there, otherwise they show nothing ("invalid"). A missed
aim is said, and is no failure.

    exit 0    every run of ours ended with one effect, whether aims are met or not
    exit 10   disproved (a duplicate, a lost effect, a stuck run of ours), or invalid
    exit 9    a service could not be started
    exit 2    the command line makes no sense
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

# Run as a file, this folder would come first, and its modules would hide others of the same name.
if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

KILLS, PEER_KILLS, SEED = 20, 10, 7


def main() -> int:
    """Run what the command line asks for; the exit code."""
    from experiments.benchmarks import command

    arguments = _parsed()
    return command.guarded(lambda teller: _run(arguments, teller.say), "recovery")


def _run(arguments: argparse.Namespace, tell: Callable[[str], None]) -> int:
    from experiments.benchmarks import command
    from experiments.recovering.campaign import Options, run_campaign
    from experiments.recovering.report import print_results, write_document
    from runs.errors import Exit

    options = Options(
        kills=arguments.kills, peer_kills=arguments.peer_kills, seed=arguments.seed, only=tuple(arguments.only)
    )
    results = run_campaign(options, tell)
    if arguments.write_docs and results.verdict == "pass":
        write_document(results)
    told = results.to_json()
    command.give(told, lambda: print_results(results, sys.stdout), as_json=arguments.json, keep=arguments.out)
    return Exit.OK if results.verdict in ("pass", "no control") else Exit.DISPROVED


def _parsed() -> argparse.Namespace:
    from experiments.recovering.campaign import SYSTEMS

    names = [system.name for system in SYSTEMS]
    parser = argparse.ArgumentParser(
        prog="recovery.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=_count, default=KILLS, metavar="N", help=f"kills of Onward, each way ({KILLS})")
    parser.add_argument("--peer-kills", type=_count, metavar="N", help=f"kills of each peer ({PEER_KILLS}, or fewer)")
    parser.add_argument("--seed", type=int, default=SEED, metavar="S", help=f"what the plan is drawn by ({SEED})")
    parser.add_argument(
        "--only", action="append", choices=names, default=[], metavar="NAME", help=f"one of: {'; '.join(names)}"
    )
    parser.add_argument("--json", action="store_true", help="everything as JSON on stdout")
    parser.add_argument("--out", type=Path, metavar="FILE", help="keep the JSON there")
    parser.add_argument("--write-docs", action="store_true", help="write the table of docs/benchmarks.md")
    arguments = parser.parse_args()
    if arguments.peer_kills is None:
        arguments.peer_kills = min(PEER_KILLS, arguments.kills)
    if arguments.write_docs and arguments.only:
        parser.error("--write-docs writes the whole table; leave --only away")
    return arguments


def _count(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 100_000:
        raise argparse.ArgumentTypeError("must be a number from 1 to 100000")
    return int(text)


if __name__ == "__main__":
    sys.exit(main())
