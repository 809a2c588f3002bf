"""A PostgreSQL server on a host of its own, on a small disk in memory: it can be killed, filled up and started again.

    kill(SIGQUIT)   what `pg_ctl stop -m immediate` does: no session is told goodbye, nothing is written down
    kill(SIGKILL)   to the postmaster alone: its children notice that it is gone, and end

Nothing that was acknowledged is lost by either, since the disk lives on. (That it outlives the machine is no claim of
this experiment.) Whoever is in the private network may connect; nobody else can reach it.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import psutil
import psycopg

from experiments.errors import NotRun
from experiments.hosts.network import Host, run
from runs.postgres_binaries import Account, Binaries, copies_beside, runnable_binaries, server_environment
from runs.postgres_place import Place, find_place

PORT = 5432
DISK_MEGABYTES = 160
START_SECONDS = 30.0
STOP_SECONDS = 10.0
POLL_SECONDS = 0.02
DATABASE = "onward"

SETTINGS = {
    "port": str(PORT),
    "unix_socket_directories": "",
    "max_connections": "200",
    "shared_buffers": "32MB",
    "min_wal_size": "8MB",
    "max_wal_size": "32MB",
    "wal_recycle": "off",  # a full disk is full at once: no old file of the log is used again
    "log_checkpoints": "off",
    "tcp_keepalives_idle": "5",
    "tcp_keepalives_interval": "2",
    "tcp_keepalives_count": "3",
}


class Server:
    """The server. `disk` is the folder on which it gets its disk; usable as a context manager."""

    def __init__(self, host: Host, network: str, disk: Path) -> None:
        self.host = host
        self.log = disk.with_suffix(".log")
        self._network = network
        self._disk = disk
        self._place = _place(disk)
        self._process: subprocess.Popen[bytes] | None = None
        self._programs: Binaries

    @property
    def dsn(self) -> str:
        """The connection string, for everybody in the network."""
        return self.dsn_at(PORT)

    def dsn_at(self, port: int) -> str:
        """The same at another port of the host."""
        return (
            f"postgresql://postgres@{self.host.address}:{port}/{DATABASE}"
            "?sslmode=disable&gssencmode=disable&connect_timeout=5"
        )

    @property
    def account(self) -> Account:
        """Whose processes they are."""
        return self._place.account

    def __enter__(self) -> Server:
        self._disk.mkdir()
        run("mount", "-t", "tmpfs", "-o", f"size={DISK_MEGABYTES}m,mode=0755", "onward-experiment", self._disk)
        try:
            self._programs = runnable_binaries(self.account, self._place.copies)
            self._make()
            self.start()
            with psycopg.connect(self.dsn.replace(f"/{DATABASE}?", "/postgres?"), autocommit=True) as connection:
                connection.execute(f"create database {DATABASE}".encode())
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.kill(signal.SIGQUIT)
        forget(self._disk)

    @property
    def _data(self) -> Path:
        return self._disk / "data"

    def _make(self) -> None:
        self._data.mkdir(mode=0o700)
        os.chown(self._data, self.account.uid, self.account.gid)
        options = ["-U", "postgres", "-E", "UTF8", "--locale=C", "--auth=trust", "--wal-segsize=1", "--no-sync"]
        done = self.account.run([str(self._programs.folder / "initdb"), "-D", str(self._data), *options])
        if done.returncode != 0:
            raise NotRun(f"initdb failed: {(done.stdout + done.stderr).strip().splitlines()[-1]}")
        (self._data / "pg_hba.conf").write_text(f"host all all {self._network} trust\n", encoding="ascii")

    def start(self) -> None:
        """Start it, and wait until it takes connections; it recovers from its log first."""
        if self._process is not None:
            self._wait_for_orphans()
        settings = {**SETTINGS, "listen_addresses": self.host.address}
        options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        command = [self._programs.folder / "postgres", "-D", self._data, *options]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self.host.inside(command, user=self.account.uid, group=self.account.gid),
                cwd="/",
                env=server_environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C is for the experiment
            )
        deadline = time.monotonic() + START_SECONDS
        while not self.answers:
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise NotRun.because("PostgreSQL", self.log)
            time.sleep(POLL_SECONDS)

    @property
    def runs(self) -> bool:
        """Whether its first process lives."""
        return self._process is not None and self._process.poll() is None

    @property
    def answers(self) -> bool:
        """Whether it takes connections."""
        with suppress(psycopg.OperationalError):
            psycopg.connect(self.dsn.replace(f"/{DATABASE}?", "/postgres?")).close()
            return True
        return False

    def kill(self, number: signal.Signals) -> None:
        """A signal to its first process, and wait until that is gone; one that is gone already is fine."""
        if self._process is None or not self.runs:
            return
        self._process.send_signal(number)
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _wait_for_orphans(self) -> None:
        """A server must not start while children of a killed one live on the same data."""
        alive = [psutil.Process(pid) for pid in self.host.pids() if psutil.pid_exists(pid)]
        theirs = [process for process in alive if process.uids().real == self.account.uid]
        _, left = psutil.wait_procs(theirs, STOP_SECONDS)
        for process in left:
            process.kill()
        psutil.wait_procs(left, STOP_SECONDS)

    # --- the disk ---------------------------------------------------------------------------------------------------

    def fill_disk(self) -> int:
        """Leave no room on its disk; how many bytes that took."""
        filler, written, chunk = self._disk / "filler", 0, b"\0" * 65536
        with filler.open("wb", buffering=0) as file, suppress(OSError):
            while True:
                written += file.write(chunk)
        return written

    def free_disk(self) -> None:
        """Give the room back."""
        (self._disk / "filler").unlink(missing_ok=True)

    @property
    def free_bytes(self) -> int:
        """The room on its disk."""
        return shutil.disk_usage(self._disk).free

    @property
    def log_bytes(self) -> int:
        """How much its log holds now."""
        return self.log.stat().st_size

    def said(self, words: str, since: int = 0) -> bool:
        """Whether its log has these words, behind the first so many bytes."""
        return words.encode() in self.log.read_bytes()[since:]


def _place(disk: Path) -> Place:
    """Which account runs the server, and where a copy of its programs lies if that account needs one."""
    return find_place(disk.parent / "nobody's home")


def forget(disk: Path) -> None:
    """Remove the disk, also from under processes that are still at work on it, and copies of the programs."""
    if os.path.ismount(disk):
        run("umount", "--lazy", disk)
    for copy in copies_beside(_place(disk).copies):
        shutil.rmtree(copy, ignore_errors=True)
