"""`python -m experiments.protocol_model`: explore every variant, and print the table of verdicts.

--json      one object, with the shortest trace to each violation
--full      the larger variants too, and all of those that are caught
--only A    variants by name
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from experiments.protocol_model.explore import Exploration, explore
from experiments.protocol_model.variants import EVERY, VARIANTS


def verdict(found: Exploration) -> str:
    """One or two words: holds, violates, stuck."""
    if found.violations:
        return "violates"
    return "stuck" if found.stuck is not None else "holds"


def as_json(found: Exploration) -> dict[str, Any]:
    """The row of one variant."""
    return {
        "name": found.variant.name,
        "what": found.variant.what,
        "must_violate": sorted(found.variant.breaks),
        "verdict": verdict(found),
        "as_it_must": found.as_it_must,
        "states": found.states,
        "edges": found.edges,
        "depth": found.depth,
        "seconds": round(found.seconds, 2),
        "violations": found.violations,
        "stuck": found.stuck,
    }


def tell(found: Exploration) -> None:
    """One line, and the traces of what must not be."""
    told = ", ".join(f"{name} after {len(trace)}" for name, trace in found.violations.items())
    line = f"{found.variant.name:40} {found.states:>8} {found.edges:>9} {found.depth:>4} {found.seconds:>6.2f} s"
    print(f"{line}  {verdict(found)}{': ' + told if told else ''}", flush=True)
    if found.as_it_must:
        return
    print(f"    NOT AS IT MUST BE: {found.variant.what}")
    for name, trace in (*found.violations.items(), *([("stuck", found.stuck)] if found.stuck else [])):
        print(f"    {name}:", *(f"\n      {n:2}. {line}" for n, line in enumerate(trace, 1)))


def main(arguments: list[str]) -> int:
    """0 when every variant has the verdict that it must get."""
    parser = argparse.ArgumentParser(prog="python -m experiments.protocol_model", description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--only", action="append", choices=sorted(EVERY))
    options = parser.parse_args(arguments)
    names = options.only or (EVERY if options.full else VARIANTS)
    found: list[Exploration] = []
    for name in names:
        found.append(explore(EVERY[name], complete=options.full))
        if not options.json:
            tell(found[-1])
    if options.json:
        print(json.dumps([as_json(one) for one in found], indent=2))
    return 0 if all(one.as_it_must for one in found) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
