"""The ledger that a command uses: the one that ONWARD_LEDGER_URL names, or a local one that starts by itself.

The local one's life. Under a file lock the first command starts it, in a process group of its own and on a free port,
and writes `ledger.json` (0600). Others attach only if `/health` answers with the instance that is written there. Any
failure to attach starts it again; one of another version, or with other stores, is drained and replaced. All of that
happens under the same lock. It outlives the command that started it; `onward down` stops it.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Generator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import fasteners
import psutil

import onward_ledger
from onward_ledger.client import TIMEOUT_SECONDS, LedgerClient
from onward_ledger.errors import LedgerError
from onward_ledger.objects import Objects
from onward_ledger.private_file import write_private
from onward_ledger.values import Health
from runs import ledger_marks
from runs.errors import OtherStore, ServiceUnreachable
from runs.holder import is_that_process, process_started
from runs.settings import Settings

# The ledger of a home whose records are in that home.
LOCAL = "local"

START_SECONDS = 30.0
# What a ledger that was told to stop may take to finish the calls in progress; then it is killed: that is safe.
DRAIN_SECONDS = 15.0
HEALTH_SECONDS = 2.0
_POLL_SECONDS = 0.02
_LOG_TAIL = 1500


@dataclass(frozen=True, kw_only=True)
class Address:
    """Where a local ledger answers, and which process it is. `serves` are its stores: others are another ledger."""

    url: str
    pid: int
    process_started: float
    instance: str
    version: str
    token_file: str
    serves: list[str]

    @property
    def token(self) -> str:
        """The service token."""
        return Path(self.token_file).read_text(encoding="utf-8").strip()


@dataclass(frozen=True, kw_only=True)
class _Files:
    """The files of the local ledger of one store kind."""

    address: Path
    token: Path
    lock: Path
    log: Path

    @classmethod
    def of(cls, settings: Settings) -> _Files:
        name = "ledger" if settings.store == "postgres" else f"ledger-{settings.store}"
        home = settings.home
        return cls(
            address=home / f"{name}.json",
            token=home / f"{name}.token",
            lock=settings.locks / f"{name}.lock",
            log=home / f"{name}.log",
        )


# Ledgers that this process started: kept so that one which has died is reaped.
_started: list[subprocess.Popen[bytes]] = []


def ledger_id(settings: Settings) -> str:
    """What a run's row remembers of its ledger; the same for the same records, free of passwords."""
    if settings.ledger_url is not None:
        return settings.ledger_url.rstrip("/")
    if settings.store == "sqlite":
        return LOCAL
    url = settings.ledger_database_url or settings.database_url
    return LOCAL if url is None else _without_password(url)


def connect(settings: Settings, *, principal: str | None = None) -> LedgerClient:
    """A client of the ledger, which is started where it is local and does not run; the caller closes it.

    Raises ServiceUnreachable when none can be had, and OtherStore when it keeps its objects elsewhere than we do.
    """
    principal = principal or settings.principal
    client, health = _attached(settings, principal) or _opened(settings, principal)
    ours = Objects(settings.objects_url).url
    if health.objects != ours:
        client.close()
        raise OtherStore(
            f"The ledger at {client.url} keeps objects in {health.objects}, this installation in {ours}. "
            "Set ONWARD_OBJECTS to the same place for both."
        )
    return client


def _attached(settings: Settings, principal: str) -> tuple[LedgerClient, Health] | None:
    """The local ledger that runs already, as nearly always, for one question; None where it takes more than that."""
    if settings.ledger_url is not None:
        return None
    address = _read_address(_Files.of(settings))
    if address is None or not _is_ours(address, serves(settings)):
        return None
    try:
        client = LedgerClient(address.url, address.token, principal=principal, timeout_seconds=HEALTH_SECONDS)
    except OSError:
        return None
    with contextlib.suppress(LedgerError):
        health = client.health()
        if health.instance == address.instance:
            client.set_timeout(TIMEOUT_SECONDS)
            return client, health
    client.close()
    return None


def _opened(settings: Settings, principal: str) -> tuple[LedgerClient, Health]:
    url, token = endpoint(settings)
    client = LedgerClient(url, token, principal=principal)
    try:
        return client, client.health()
    except LedgerError as error:
        client.close()
        raise ServiceUnreachable(f"The ledger at {url} cannot be used: {error.message}") from error


def look(settings: Settings) -> Health | None:
    """Which ledger answers now; None when none does. Starts nothing."""
    if settings.ledger_url is not None:
        return _health(settings.ledger_url, _external_token(settings))
    address = _read_address(_Files.of(settings))
    return _health(address.url, address.token) if address is not None and _answers(address) else None


def is_gone(settings: Settings) -> bool:
    """Whether the local ledger's process has ended; costs no request. Whether it answers is another question."""
    address = _read_address(_Files.of(settings))
    return address is None or not is_that_process(address.pid, address.process_started)


def ensure(settings: Settings) -> Address:
    """The local ledger of these settings, started or replaced where needed. Raises ServiceUnreachable."""
    files = _Files.of(settings)
    served = serves(settings)
    address = _read_address(files)
    if address is not None and _is_ours(address, served) and _answers(address):
        return address
    with _locked(files):
        silent, address = address, _read_address(files)
        if address is not None and address != silent and _is_ours(address, served) and _answers(address):
            return address  # somebody has started it meanwhile
        if address is not None:
            _end_process(address)
        ledger_marks.end_abandoned(files.address, DRAIN_SECONDS)
        return _start(settings, files, served, _port_for(address))


def stop(settings: Settings) -> bool:
    """Stop the local ledger; False when none was running. Calls in progress are finished first."""
    files = _Files.of(settings)
    if not files.address.exists() and not ledger_marks.marks(files.address):
        return False
    with _locked(files):
        ledger_marks.end_abandoned(files.address, DRAIN_SECONDS)
        address = _read_address(files)
        stopped = address is not None and _end_process(address)
        _reap(address.pid if address is not None else None)
        files.address.unlink(missing_ok=True)
    return stopped


def endpoint(settings: Settings) -> tuple[str, str]:
    """The URL and the token of the ledger that `connect` speaks to."""
    if settings.ledger_url is not None:
        return settings.ledger_url, _external_token(settings)
    address = ensure(settings)
    return address.url, address.token


def _external_token(settings: Settings) -> str:
    if settings.ledger_token is None:
        raise ServiceUnreachable("ONWARD_LEDGER_URL is set and ONWARD_LEDGER_TOKEN is not; set the service's token.")
    return settings.ledger_token.get_secret_value()


def serves(settings: Settings) -> list[str]:
    """What a ledger of these settings is for: store kind, ledger id, object store. A run's row remembers the same."""
    return [settings.store, ledger_id(settings), Objects(settings.objects_url).url]


def store_url(settings: Settings) -> str:
    """Where the local ledger keeps its records; the local Postgres is started where it is needed."""
    if settings.store == "sqlite":
        return f"sqlite:///{settings.ledger_sqlite_path}"
    url = settings.ledger_database_url or settings.database_url
    if url is not None:
        return url
    from runs import local_postgres

    return local_postgres.ensure(settings.home)


def _without_password(url: str) -> str:
    from psycopg.conninfo import conninfo_to_dict, make_conninfo

    parts = conninfo_to_dict(url)
    kept: dict[str, Any] = {name: parts[name] for name in ("host", "port", "dbname", "user") if name in parts}
    return make_conninfo(**kept)


def _is_ours(address: Address, serves: list[str]) -> bool:
    return address.version == onward_ledger.__version__ and address.serves == serves


def _answers(address: Address) -> bool:
    """Whether the very instance that the file names answers: a port may belong to somebody else by now."""
    try:
        health = _health(address.url, address.token)
    except OSError:
        return False
    return health is not None and health.instance == address.instance


def _health(url: str, token: str) -> Health | None:
    with LedgerClient(url, token, timeout_seconds=HEALTH_SECONDS) as client:
        try:
            return client.health()
        except LedgerError:
            return None


@contextlib.contextmanager
def _locked(files: _Files) -> Generator[None]:
    files.lock.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = fasteners.InterProcessLock(files.lock)
    if not lock.acquire(timeout=START_SECONDS + DRAIN_SECONDS):
        raise ServiceUnreachable(
            f"Another command has been starting the ledger for {START_SECONDS + DRAIN_SECONDS:.0f} seconds "
            f"({files.lock} is locked). See {files.log}, then try again."
        )
    try:
        yield
    finally:
        lock.release()


def _read_address(files: _Files) -> Address | None:
    """None also for a file that cannot be understood: then a new ledger is started."""
    try:
        return Address(**json.loads(files.address.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None


def _end_process(address: Address) -> bool:
    """Drain the process, then kill it; False when it was gone already. Never touches another with the same pid."""
    if not is_that_process(address.pid, address.process_started):
        return False
    with contextlib.suppress(psutil.Error):
        process = psutil.Process(address.pid)
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGCONT)  # a stopped one could not drain
    if not _gone(address, DRAIN_SECONDS):
        with contextlib.suppress(psutil.Error):
            psutil.Process(address.pid).kill()
        _gone(address, DRAIN_SECONDS)
    return True


def _reap(pid: int | None) -> None:
    """Where the ended ledger was a child of this process: its last threads may take a moment longer."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        for child in (started for started in _started if started.pid == pid):
            child.wait(DRAIN_SECONDS)


def _gone(address: Address, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while is_that_process(address.pid, address.process_started):
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_SECONDS)
    return True


def _port_for(former: Address | None) -> int:
    """The port of the ledger before, so that clients find the new one there; 0 (any) where it is taken by now."""
    port = urlsplit(former.url).port if former is not None else None
    if port is None:
        return 0
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return 0
    return port


def _start(settings: Settings, files: _Files, serves: list[str], port: int) -> Address:
    if not files.token.exists():  # an old token stays: clients that live through a restart have it
        write_private(files.token, secrets.token_urlsafe(32) + "\n")
    with ledger_marks.start_under_way(files.address) as ready:
        return _start_with(settings, files, serves, port, ready)


def _start_with(settings: Settings, files: _Files, serves: list[str], port: int, ready: Path) -> Address:
    # The store's URL may hold a password, which has no business in a list of processes.
    environment = {**os.environ, "ONWARD_LEDGER_STORE": store_url(settings)}
    with files.log.open("ab") as log:
        log_start = log.tell()
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "onward_ledger", "serve"),
                *("--host", "127.0.0.1", "--port", str(port), "--objects", settings.objects_url),
                *("--token-file", str(files.token), "--ready-file", str(ready)),
                *("--witness", str(_witness(settings, files))),
            ],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd="/",
            start_new_session=True,  # Ctrl-C in the terminal of whoever started it is not for the ledger
        )
    _started[:] = [*(former for former in _started if former.poll() is None), process]
    answer = _wait_until_ready(process, ready, files.log, log_start)
    started = process_started(process.pid)
    if started is None:
        raise ServiceUnreachable(f"The ledger ended right after its start: {_tail(files.log, log_start)}")
    address = Address(
        url=answer["url"],
        pid=process.pid,
        process_started=started,
        instance=answer["instance"],
        version=answer["version"],
        token_file=str(files.token),
        serves=serves,
    )
    write_private(files.address, json.dumps(asdict(address), indent=2) + "\n")
    return address


def _witness(settings: Settings, files: _Files) -> Path:
    """What this home remembers of the ledger's records, for each database apart: another one has forgotten nothing."""
    named = ledger_id(settings)
    if named == LOCAL:
        return files.token.with_suffix(".witness")
    return files.token.with_suffix(f".{hashlib.sha256(named.encode()).hexdigest()[:12]}.witness")


def _wait_until_ready(process: subprocess.Popen[bytes], ready: Path, log: Path, log_start: int) -> dict[str, Any]:
    deadline = time.monotonic() + START_SECONDS
    while not ready.exists():
        if process.poll() is not None:
            raise ServiceUnreachable(f"The ledger did not start: {_tail(log, log_start)}")
        if time.monotonic() > deadline:
            process.kill()
            process.wait()
            raise ServiceUnreachable(f"The ledger did not start in {START_SECONDS:.0f} seconds; see {log}.")
        time.sleep(_POLL_SECONDS)
    return json.loads(ready.read_text(encoding="utf-8"))


def _tail(log: Path, start: int) -> str:
    with log.open("rb") as file:
        file.seek(start)
        text = file.read()[-_LOG_TAIL:].decode(errors="replace").strip()
    lines = text.splitlines()
    return f"{lines[-1] if lines else 'it said nothing'} (see {log})"
