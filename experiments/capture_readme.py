"""The README's first screen shows what `onward demo` prints; this writes it there, and checks that it still does.

    python -m experiments.capture_readme             run the demo, and put its output between the markers
    python -m experiments.capture_readme --check     run it, and compare: exit 1 when the README shows something else

What differs from run to run (ids of receipts, seconds) is left out of the comparison, and nothing else.
"""

from __future__ import annotations

import argparse
import difflib
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BEGIN, END = "<!-- demo:begin -->", "<!-- demo:end -->"
VOLATILE = ((re.compile(r"\b(draft|report)-[0-9a-f]{12}\b"), r"\1-ID"), (re.compile(r"\b\d+ seconds\b"), "N seconds"))


class NotCaptured(Exception):
    """There is nothing to show. The message says why."""


def demo_output(store: str = "postgres") -> str:
    """What `onward demo` prints on a stream that is no terminal."""
    command = [sys.executable, "-m", "runs.cli", "demo", "--store", store]
    environment = {**os.environ, "NO_COLOR": "1", "PYTHONUTF8": "1"}
    done = subprocess.run(
        command, check=False, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, encoding="utf-8"
    )
    if done.returncode != 0:
        raise NotCaptured(f"The demo ended with {done.returncode}, so there is nothing to show.\n{done.stdout}")
    return done.stdout


def block(output: str) -> str:
    """The output as it stands between the markers."""
    return f"\n```text\n{output.rstrip()}\n```\n"


def shown(readme: str) -> str:
    """What the README has between the markers. Raises NotCaptured without them."""
    _, begin, rest = readme.partition(BEGIN)
    between, end, _ = rest.partition(END)
    if not begin or not end:
        raise NotCaptured(f"The README has no {BEGIN} … {END}.")
    return between


def with_output(readme: str, output: str) -> str:
    """The README with this output between the markers."""
    old = f"{BEGIN}{shown(readme)}{END}"
    return readme.replace(old, f"{BEGIN}{block(output)}{END}")


def normalised(text: str) -> str:
    """Without what differs from run to run."""
    for pattern, word in VOLATILE:
        text = pattern.sub(word, text)
    return text


def differences(readme: str, output: str) -> list[str]:
    """Lines in which the README and a run of the demo differ."""
    old, new = normalised(shown(readme)).splitlines(), normalised(block(output)).splitlines()
    return list(difflib.unified_diff(old, new, "README.md", "onward demo", lineterm=""))


def main() -> int:
    """Write, or check; 0 when the README shows what the demo prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="compare only")
    parser.add_argument("--readme", type=Path, default=ROOT / "README.md")
    arguments = parser.parse_args()
    try:
        readme = arguments.readme.read_text(encoding="utf-8")
        shown(readme)
        output = demo_output()
        if arguments.check:
            found = differences(readme, output)
            print("\n".join(found) or "The README shows what the demo prints.")
            return 1 if found else 0
        arguments.readme.write_text(with_output(readme, output), encoding="utf-8")
    except NotCaptured as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
