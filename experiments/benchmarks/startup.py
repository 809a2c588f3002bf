"""How long a person waits before anything happens: `--help`, and the first words of a first run.

`onward run examples/sales.csv --approve --store sqlite` in a home that does not exist yet, so that the ledger's start
is in it, and once more in the same home.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from experiments.benchmarks.figures import Declared, Measured, amount, quotient
from experiments.benchmarks.rounds import Subject, Teller, interleave
from experiments.benchmarks.services import ROOT, Services, environment_of, stop
from experiments.errors import NotRun

NAME = "startup"
ROUNDS_SHARE = 6  # a first run takes seconds

HELP_RATIO = Declared(key="help_ratio", unit="ratio", says="the command's `--help` against `python -c pass`")
HELP = Declared(key="help_ms", unit="ms", says="the command's `--help`")
PASS = Declared(key="python_ms", unit="ms", says="`python -c pass`")
WORD = Declared(key="first_word_ms", unit="ms", says="`onward run`, to its first line of any kind")
PROGRESS = Declared(
    key="first_progress_ms",
    unit="ms",
    says="`onward run` in a new home, to the first line of a step, ledger's start in it",
)
WARM = Declared(key="first_progress_warm_ms", unit="ms", says="the same where the ledger runs already")
IMPORTS = Declared(
    key="driver_import_cpu_ms", unit="ms CPU", says="what a driver's process computes before it drives: its imports"
)
DECLARED = (HELP_RATIO, HELP, PASS, WORD, PROGRESS, WARM, IMPORTS)

RUN = ("run", "examples/sales.csv", "--approve", "--store", "sqlite")
IMPORT = "import runs.driver, runs.assembly, runs.drain, runs.drive, graph.build"


def onward() -> list[str]:
    """The command of this environment."""
    found = Path(sys.executable).with_name("onward")
    if not found.exists():
        raise NotRun(f"There is no command {found}. Install the project into the environment of {sys.executable}.")
    return [str(found)]


def measure(services: Services, rounds: int, teller: Teller) -> Measured:
    """See the module."""
    folder = services.folder
    nothing = [sys.executable, "-c", "pass"]
    helps: dict[str, Subject] = {
        "help": lambda: _wall([*onward(), "--help"], folder),
        "pass": lambda: _wall(nothing, folder),
        "pass again": lambda: _wall(nothing, folder),
    }
    taken = interleave("start-up, --help", helps, rounds=rounds, teller=teller)
    runs: dict[str, Subject] = {
        "first run": lambda: _first_run(folder),
        "imports, CPU": lambda: _cpu([sys.executable, "-c", IMPORT]),
    }
    count = max(rounds // ROUNDS_SHARE, 2)
    taken |= interleave("start-up, first run", runs, rounds=count, teller=teller, warm_up=1)
    figures = (
        quotient(HELP_RATIO, taken["help"], taken["pass"], taken["pass again"]),
        amount(HELP, taken["help"]),
        amount(PASS, taken["pass"]),
        amount(WORD, taken["first run, first line"]),
        amount(PROGRESS, taken["first run, first step"]),
        amount(WARM, taken["first run, first step of the second"]),
        amount(IMPORTS, taken["imports, CPU"]),
    )
    return Measured(figures=figures, samples=taken)


def _wall(command: Sequence[str], home: Path) -> float:
    began = time.perf_counter()
    done = subprocess.run(command, cwd=ROOT, env=environment_of(home), capture_output=True, check=False)
    taken = (time.perf_counter() - began) * 1000
    if done.returncode != 0:
        raise NotRun(f"{' '.join(command)} ended with {done.returncode}: {done.stderr.decode(errors='replace')[-300:]}")
    return taken


def _cpu(command: Sequence[str]) -> float:
    """CPU time of a process and its threads, user and system."""
    process = subprocess.Popen(command, cwd=ROOT)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise NotRun(f"A driver's imports ended with {process.returncode}.")
    return (used.ru_utime + used.ru_stime) * 1000


def _first_run(folder: Path) -> dict[str, float]:
    """The first command of a new user, and the second one, in a home of their own."""
    home = Path(tempfile.mkdtemp(prefix="first-", dir=folder))
    try:
        word, step = _first_lines(home)
        _, warm = _first_lines(home)
    finally:
        stop(home)
        shutil.rmtree(home, ignore_errors=True)
    return {"first line": word, "first step": step, "first step of the second": warm}


def _first_lines(home: Path) -> tuple[float, float]:
    """Milliseconds to the first line of a run, and to the first line of a step; the run goes on to its end."""
    began = time.perf_counter()
    word = progress = None
    last = ""
    with subprocess.Popen(
        [*onward(), *RUN],
        cwd=ROOT,
        env=environment_of(home),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        for line in process.stderr:
            now = (time.perf_counter() - began) * 1000
            word, last = word or now, line.strip()
            if progress is None and line.startswith("[epoch 1] plan:"):
                progress = now
    if process.returncode != 0 or word is None or progress is None:
        raise NotRun(f"`onward run` of the benchmark ended with {process.returncode}: {last}")
    return word, progress
