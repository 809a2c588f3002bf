"""The PostgreSQL that starts by itself: one server for one ONWARD_HOME, for whoever has none.

    ensure(home)   start it, or attach to it, and return its connection string
    stop(home)     stop it
    status(home)   look, and touch nothing

The server outlives the command that started it, on purpose; it listens on a unix socket only. Any process may be
killed at any moment, and the next `ensure` goes on from there:

    whoever starts it   is killed: its lock is free at once; the server, if launched, goes on starting
    initdb              is killed: it works under another name, and only a finished database is renamed
    the server          is killed: its orphans are waited for, then the next server recovers from its log
    everything          is lost with the machine: a pid of before proves nothing, and is compared with the process

Two things tell whether a server is alive. It answers on the socket in its folder: then it is used. Or its processes
hold the lock on the data folder, which they have inherited: then nobody may start another one.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import psutil
import psycopg

from runs.postgres_binaries import (
    WITHOUT,
    Binaries,
    LocalPostgresError,
    copies_beside,
    locate_binaries,
    runnable_binaries,
    server_environment,
)
from runs.postgres_move import how_to_move
from runs.postgres_place import SOCKET, Place, find_place, make_private, sync_folder, write_pointer

if sys.platform != "win32":
    import fcntl

__all__ = ["LocalPostgresError", "Status", "ensure", "locate_binaries", "status", "stop"]

SETTINGS = {
    "listen_addresses": "",
    "port": "5432",  # only part of the socket's name
    "unix_socket_permissions": "0700",
    "max_connections": "100",
    "shared_buffers": "32MB",
    "max_wal_size": "256MB",
    "fsync": "on",
    "synchronous_commit": "on",
    "full_page_writes": "on",
    "log_destination": "stderr",
    "logging_collector": "off",
    "log_checkpoints": "off",
}
LOG_BYTES = 10_000_000  # a larger log is put aside when the server is started
POLL_SECONDS = 0.02
CONNECT_SECONDS = 3
ORPHAN_GRACE_SECONDS = 3.0  # orphans of a killed server go by themselves in milliseconds, unless they are stopped
FAST_STOP_SECONDS = 15.0  # then sessions that do not end are no longer waited for


@dataclass(frozen=True, kw_only=True)
class Status:
    """What is there. `dsn` is set when the server answers, `pid` when its process lives; `major` when data exists.

    `outside` are the folders outside ONWARD_HOME that belong to it, so that nothing is left when it is removed.
    """

    dsn: str | None
    pid: int | None
    major: int | None
    data: Path
    log: Path
    outside: tuple[Path, ...]


def ensure(home: Path, timeout_seconds: float = 60.0) -> str:
    """Start the server of this ONWARD_HOME, or attach to it; return its connection string.

    Creates ONWARD_HOME and the database when they are missing. LocalPostgresError when there is no way, or when the
    server does not answer in time; a server that still recovers from its log goes on and can be waited for again.
    """
    deadline = time.monotonic() + timeout_seconds
    with _system_errors_told(home):
        place = find_place(home)
        if not _answers(place):
            place.home.mkdir(mode=0o700, parents=True, exist_ok=True)
            with _start_lock(place, deadline):
                _bring_up(place, deadline)
        return place.dsn


def stop(home: Path, timeout_seconds: float = 30.0) -> bool:
    """Stop the server and wait until all its processes are gone; False when none was running.

    Open transactions are rolled back. LocalPostgresError when it is still there in the end.
    """
    deadline = time.monotonic() + timeout_seconds
    with _system_errors_told(home):
        place = find_place(home)
        if not place.lock.exists() or not place.data.exists():
            return False
        with _start_lock(place, deadline), _open_folder(place.data) as folder:
            if _postmaster(place) is None and _lock_folder(folder):
                return False
            if _ask_to_end(place, folder, min(time.monotonic() + FAST_STOP_SECONDS, deadline)):
                return True
            _kill_processes(place)  # a suspended session never ends; the next start recovers from the log
            if _ask_to_end(place, folder, deadline):
                return True
    raise LocalPostgresError(f"The PostgreSQL of {place.data} does not stop; see {place.log}.")


def status(home: Path) -> Status:
    """Look at the server of this ONWARD_HOME; starts, creates and changes nothing."""
    with _system_errors_told(home):
        place = find_place(home)
        postmaster = _postmaster(place)
        outside = [folder for folder in (place.data, place.sockets) if folder.parent != place.home]
        outside += copies_beside(place.copies) if place.account.switch else []
        return Status(
            dsn=place.dsn if _answers(place) else None,
            pid=postmaster.pid if postmaster else None,
            major=_major_of_data(place) if place.data.exists() else None,
            data=place.data,
            log=place.log,
            outside=tuple(dict.fromkeys(folder for folder in outside if folder.exists())),
        )


@contextlib.contextmanager
def _system_errors_told(home: Path) -> Generator[None]:
    try:
        yield
    except OSError as error:
        raise LocalPostgresError(f"The local PostgreSQL of {home} cannot be used: {error}. {WITHOUT}") from error


def _bring_up(place: Place, deadline: float) -> None:
    """Under the start lock: make the database if there is none, then start the server if there is none."""
    binaries = None
    if not os.path.lexists(place.data):
        binaries = runnable_binaries(place.account, place.copies)
        _make_database(place, binaries)
    write_pointer(place)
    with _claim(place, deadline) as claim:
        if claim is None:
            return  # one that was already starting answers now
        binaries = binaries or runnable_binaries(place.account, place.copies)
        if (made_by := _major_of_data(place)) != binaries.major:
            raise LocalPostgresError(how_to_move(place, made_by, binaries))
        _remove_unfinished(place)
        server, said_before = _launch(place, binaries, claim)
    _wait_until_it_answers(place, server, said_before, deadline)


def _make_database(place: Place, binaries: Binaries) -> None:
    # initdb makes the folder itself: as root, a folder handed to another account could be swapped for a link.
    _remove_unfinished(place)
    unfinished = place.data.with_name(f"{place.data.name}.init-{secrets.token_hex(4)}")
    command = [binaries.folder / "initdb", "-D", unfinished, "-U", "postgres", "-E", "UTF8", "--locale=C"]
    options = ["--auth-local=trust", "--auth-host=reject", "--no-instructions"]
    try:
        done = place.account.run([*map(str, command), *options])
        if done.returncode != 0:
            raise LocalPostgresError(
                f"PostgreSQL's initdb could not make a database in {place.data} (exit code {done.returncode}):\n"
                f"{_last_lines(done.stdout + done.stderr)}\n{WITHOUT}"
            )
        unfinished.rename(place.data)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    sync_folder(place.data.parent)


def _remove_unfinished(place: Place) -> None:
    """Remove what killed initdbs left. One that still writes loses, and its rest goes the next time."""
    for unfinished in place.data.parent.glob(f"{place.data.name}.init-*"):
        shutil.rmtree(unfinished, ignore_errors=True)


def _major_of_data(place: Place) -> int:
    try:
        return int((place.data / "PG_VERSION").read_text())
    except (OSError, ValueError) as error:
        raise LocalPostgresError(
            f"{place.data} is not a PostgreSQL database: its PG_VERSION cannot be read. Move it away. {WITHOUT}"
        ) from error


@contextlib.contextmanager
def _start_lock(place: Place, deadline: float) -> Generator[None]:
    """One process (and one thread) at a time starts or stops the server."""
    with place.lock.open("ab") as file:
        while not _lock(file.fileno()):
            _pause(deadline, f"Another process has been starting or stopping PostgreSQL all the time ({place.lock}).")
        yield


@contextlib.contextmanager
def _claim(place: Place, deadline: float) -> Generator[int | None]:
    """The lock on the data folder, once no process of an earlier server is left; None when a server answers.

    The server inherits the lock and so do all its processes: it is held as long as one of them lives, whatever
    happens to pids, and also when they live in another container. (And systemd's cleaner of /var/tmp leaves a locked
    folder alone.)
    """
    patience = time.monotonic() + ORPHAN_GRACE_SECONDS
    with _open_folder(place.data) as folder:
        while not _answers(place):
            postmaster = _postmaster(place)
            if postmaster is None and _lock_folder(folder):
                yield folder
                return
            if postmaster is None and time.monotonic() > patience:
                _kill_processes(place)
            who = f"process {postmaster.pid}" if postmaster else "processes that cannot be seen from here"
            _pause(deadline, f"{place.data} is in use by {who}, and no server answers; see {place.log}.")
        yield None


def _launch(place: Place, binaries: Binaries, claim: int) -> tuple[psutil.Process | None, int]:
    """Start the server; return it (None: it is gone already) and where in the log its words begin."""
    if place.sockets != place.data:
        make_private(place.sockets, place.account)
    # The claim proves that no server lives, so a pid recorded in these files is stale, whoever has that number now.
    # PostgreSQL would take any process of the account for a server; it lets us name one pid that is none, and still
    # looks whether the old server's shared memory is in use.
    stale = _recorded_pid(place)
    environment = server_environment(**({"PG_GRANDPARENT_PID": str(stale)} if stale else {}))
    (place.sockets / f"{SOCKET}.lock").unlink(missing_ok=True)
    settings = {**SETTINGS, "unix_socket_directories": str(place.sockets), "cluster_name": place.key}
    options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
    with _open_log(place) as log:
        said_before = log.tell()
        # The shell leaves at once, so that the server is no child of ours: it can end, and is reaped, without us.
        done = subprocess.run(
            ["/bin/sh", "-c", '"$@" >&2 & echo $!', "sh", binaries.folder / "postgres", "-D", place.data, *options],
            cwd="/",
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            check=True,
            pass_fds=(claim,),
            start_new_session=True,  # Ctrl-C is for the command, not for the server
            **place.account.identity,
        )
    try:
        return psutil.Process(int(done.stdout)), said_before
    except psutil.NoSuchProcess:
        return None, said_before


def _wait_until_it_answers(place: Place, server: psutil.Process | None, said_before: int, deadline: float) -> None:
    while not _answers(place):
        if server is None or not _lives(server):
            with place.log.open("rb") as log:
                log.seek(said_before)
                said = log.read().decode(errors="replace")
            raise LocalPostgresError(
                f"PostgreSQL did not start. The end of {place.log}:\n{_last_lines(said)}\n{WITHOUT}"
            )
        _pause(deadline, f"PostgreSQL (process {server.pid}) was started and does not answer yet; see {place.log}.")


def _answers(place: Place) -> bool:
    """Whether a server takes connections on the socket and is the one of this data folder."""
    if not _says_ready(place):
        return False  # connecting would only fill the log with refusals
    try:
        with psycopg.connect(place.dsn, connect_timeout=CONNECT_SECONDS, autocommit=True) as connection:
            row = connection.execute("SHOW data_directory").fetchone()
    except psycopg.OperationalError:
        return False
    return row is not None and Path(row[0]) == place.data


def _postmaster(place: Place) -> psutil.Process | None:
    """The server's first process if it lives. The recorded pid alone proves nothing: another may have that number."""
    pid = _recorded_pid(place)
    if pid is None:
        return None
    try:
        process = psutil.Process(pid)
        return process if _lives(process) and _is_of(place, process) else None
    except psutil.Error:
        return None


def _recorded_pid(place: Place) -> int | None:
    try:
        return int((place.data / "postmaster.pid").read_text().split("\n", 1)[0])
    except (OSError, ValueError):
        return None


def _says_ready(place: Place) -> bool:
    """Whether the server, or a killed one before it, has written that it takes connections."""
    try:
        return (place.data / "postmaster.pid").read_text().split("\n")[7].strip() == "ready"
    except (OSError, ValueError, IndexError):
        return False


def _is_of(place: Place, process: psutil.Process) -> bool:
    # Account and title are readable everywhere; where a process runs is not, for root in a container.
    if process.uids().real != place.account.uid:
        return False
    command = process.cmdline()
    started_here = Path(command[0]).name == "postgres" and command[1:3] == ["-D", str(place.data)] if command else False
    return started_here or " ".join(command).startswith(f"postgres: {place.key}: ")


def _kill_processes(place: Place) -> None:
    """Kill all that is left of the server, whose data then has to be recovered from its log."""
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if _is_of(place, process):
                process.kill()


def _lives(process: psutil.Process) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _ask_to_end(place: Place, folder: int, until: float) -> bool:
    """Ask the server to end, also one that is only just starting; whether all its processes are gone in time."""
    asked = None
    while time.monotonic() < until:
        postmaster = _postmaster(place)
        if postmaster is None and _lock_folder(folder):
            return True
        if postmaster and postmaster != asked:
            with contextlib.suppress(psutil.NoSuchProcess):
                postmaster.send_signal(signal.SIGINT)  # "fast": ends sessions, and leaves nothing to recover
            asked = postmaster
        time.sleep(POLL_SECONDS)
    return False


@contextlib.contextmanager
def _open_folder(folder: Path) -> Generator[int]:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _lock_folder(descriptor: int) -> bool:
    try:
        return _lock(descriptor)
    except OSError:
        return True  # some network file systems lock no folders; PostgreSQL's check of its shared memory has to do


def _open_log(place: Place) -> IO[bytes]:
    if place.log.exists() and place.log.stat().st_size > LOG_BYTES:
        place.log.replace(place.log.with_name(f"{place.log.name}.1"))
    return place.log.open("ab")


def _last_lines(said: str, lines: int = 15) -> str:
    return "\n".join(said.strip().splitlines()[-lines:])


def _pause(deadline: float, message: str) -> None:
    """Wait a moment before looking again; LocalPostgresError when the time is over."""
    if time.monotonic() > deadline:
        raise LocalPostgresError(f"{message} {WITHOUT}")
    time.sleep(POLL_SECONDS)
