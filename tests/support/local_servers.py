"""What tests of the local PostgreSQL look at and do: its processes, and ends that nobody expects."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import psycopg

from runs.postgres_place import find_place

REPOSITORY = Path(__file__).resolve().parents[2]


@contextlib.contextmanager
def python(code: str, *arguments: object, **options):
    """A Python process of the repository, in a session of its own; killed with its group at the end."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    process = subprocess.Popen(
        command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True, start_new_session=True, **options
    )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


ENSURE = """
import sys
from pathlib import Path
from runs.local_postgres import ensure
print(ensure(Path(sys.argv[1])), flush=True)
"""


def wait_for(condition, seconds: float = 20.0):
    """The first true value of the condition; a failure when there is none in time."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.005)
    return value


def server_processes(home: Path) -> list[psutil.Process]:
    """The server's processes, found by the title that PostgreSQL gives them."""
    place = find_place(home)
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.status() != psutil.STATUS_ZOMBIE and (
                f"postgres: {place.key}: " in " ".join(process.cmdline()) or str(place.data) in process.cmdline()
            ):
                found.append(process)
    return found


def command_of(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.NoSuchProcess:
        return []


def kill_all(home: Path) -> None:
    """SIGKILL to every process of the server: for the database, the loss of the machine."""
    processes = server_processes(home)
    for process in processes:
        with contextlib.suppress(psutil.Error):
            process.kill()
    wait_for(lambda: not server_processes(home))


def rows(dsn: str) -> int:
    with psycopg.connect(dsn) as connection:
        return connection.execute("SELECT count(*) FROM kept").fetchone()[0]


def add_row(dsn: str) -> None:
    with psycopg.connect(dsn) as connection:
        connection.execute("INSERT INTO kept VALUES (1)")


def log_of(home: Path) -> str:
    return (home / "postgres.log").read_text()


def initdb_of(home: Path) -> psutil.Process | None:
    """initdb while it works for this home."""
    place = find_place(home)
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            command = process.cmdline()
            if command and command[0].endswith("initdb") and f"{place.data}.init-" in " ".join(command):
                return process
    return None


def unfinished_of(home: Path) -> list[Path]:
    place = find_place(home)
    return list(place.data.parent.glob(f"{place.data.name}.init-*"))
