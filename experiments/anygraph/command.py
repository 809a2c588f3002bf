"""verify.py --graph: what can be asked for, and the exit code."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable

from experiments.anygraph.errors import GraphError
from experiments.anygraph.request import DURABILITIES, Target, parse_graph, parse_json, parse_object
from runs.errors import Exit

OURS_ONLY = ("pairs", "random", "minutes", "plant")  # options of verify.py


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of somebody's own graph. `--store`, `--only`, `--json` and `--out` are verify.py's."""
    group = parser.add_argument_group("somebody's own graph (see docs/your-graph.md)")
    group.add_argument("--graph", metavar="FILE.py:NAME", help="a builder, a compiled graph, or a function making one")
    group.add_argument(
        "--effects", metavar="[NAME=]WHAT", action="append", default=[], help="what to count; repeatable"
    )
    group.add_argument(
        "--input", metavar="JSON", help="input of the graph; {thread_id} is replaced; @file reads a file"
    )
    group.add_argument("--resume", metavar="JSON", action="append", default=[], help="answer to an interrupt, in order")
    group.add_argument("--config", metavar="JSON", help="configurable values, recursion_limit")
    group.add_argument("--context", metavar="JSON", help="runtime context")
    group.add_argument("--durability", choices=DURABILITIES, default="sync", help="LangGraph's, sync by default")
    group.add_argument("--ainvoke", action="store_true", help="run it with ainvoke; found out by itself in most cases")
    group.add_argument(
        "--lanes", type=int, metavar="N", help="threads killed side by side, if effects have {thread_id}"
    )
    group.add_argument("--longest", type=float, metavar="SECONDS", default=60.0, help="for one process of a case")


def run(arguments: argparse.Namespace, tell: Callable[[str], None]) -> int:
    """Try the graph that the arguments name; what is found goes to stdout, progress to `tell`.

    Exit 0 when nothing is wrong, 10 when something is or nothing was tested, 2 for what the user has to change, 9 for
    a service that does not start.
    """
    from experiments.anygraph.effects import parse_effects
    from experiments.errors import NotRun
    from runs.local_postgres import LocalPostgresError

    try:
        target, effects = target_of(arguments), parse_effects(arguments.effects)
        from experiments.anygraph.campaign import run_campaign
        from experiments.anygraph.report import print_results, to_json

        results = run_campaign(
            target,
            effects,
            arguments.store,
            tell,
            keep=arguments.out,
            lanes=arguments.lanes,
            only=arguments.only,
            longest_seconds=arguments.longest,
        )
    except GraphError as error:
        tell(str(error))
        return Exit.USAGE
    except (NotRun, LocalPostgresError) as error:
        tell(str(error))
        return Exit.UNREACHABLE
    told = json.dumps(to_json(results), indent=2)
    if arguments.out is not None:
        (arguments.out / "results.json").write_text(told, encoding="utf-8")
    if arguments.json:
        print(told)
    else:
        print_results(results, sys.stdout)
    return Exit.OK if results.verdict == "pass" else Exit.DISPROVED


def target_of(arguments: argparse.Namespace) -> Target:
    """The graph and how it is run; GraphError when the arguments make no sense."""
    for option in OURS_ONLY:
        if getattr(arguments, option):
            raise GraphError(f"--{option} is for Onward's own run, and does not go with --graph.")
    file, name = parse_graph(arguments.graph)
    if arguments.lanes is not None and arguments.lanes < 1:
        raise GraphError("--lanes has to be at least 1.")
    return Target(
        file=file,
        name=name,
        input=parse_json("--input", arguments.input) if arguments.input is not None else None,
        config=parse_object("--config", arguments.config) if arguments.config is not None else None,
        context=parse_json("--context", arguments.context) if arguments.context is not None else None,
        answers=tuple(parse_json("--resume", answer) for answer in arguments.resume),
        durability=arguments.durability,
        asynchronous=True if arguments.ainvoke else None,
    )
