"""The ledger service as a real process, on a free port, that can be killed and started again on the same records.

Processes come from a fork server that has imported everything, so a start costs milliseconds; `exec=True` runs the
command itself. A service can also be told to kill itself inside its first draft.save, `before` or `after` the send, or
to `plant` something first: a function that can be pickled.
"""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

from onward_ledger import LedgerClient
from onward_ledger.providers.draft import DraftSave
from tests.support.preloading import CONTEXT

ROOT = Path(__file__).resolve().parents[2]


class LedgerProcess:
    """One service in a folder. `environment` is added to that of the process."""

    def __init__(self, folder: Path, store: str, *, schema="onward_ledger", objects=None, environment=None):
        self.folder = folder
        self.store = store
        self.schema = schema
        self.objects = objects or str(folder / "objects")
        self.ready_file = folder / "ready.json"
        self.token_file = folder / "token"
        self.environment = environment or {}
        self.process = None
        self.ready: dict = {}
        self._clients: list[LedgerClient] = []

    @property
    def token(self) -> str:
        return self.token_file.read_text().strip()

    @property
    def url(self) -> str:
        return self.ready["url"]

    def arguments(self) -> list[str]:
        where = ["--store", self.store, "--schema", self.schema, "--objects", self.objects, "--port", "0"]
        return ["serve", *where, "--token-file", str(self.token_file), "--ready-file", str(self.ready_file)]

    def start(self, *, die: str | None = None, plant=None, exec: bool = False) -> "LedgerProcess":
        assert self.process is None
        self.ready_file.unlink(missing_ok=True)
        log = self.folder / "ledger.log"
        if exec:
            command = [sys.executable, "-m", "onward_ledger", *self.arguments()]
            with log.open("ab") as stderr:
                self.process = subprocess.Popen(command, cwd=ROOT, stderr=stderr, env=os.environ | self.environment)
        else:
            how = (self.arguments(), self.environment, str(log), die, plant)
            self.process = CONTEXT.Process(target=_serve, args=how)
            self.process.start()
        end = time.monotonic() + 60
        while not self.ready_file.exists():
            assert self._exit_code() is None, log.read_text()
            assert time.monotonic() < end, "the service did not start"
            time.sleep(0.01)
        self.ready = json.loads(self.ready_file.read_text())
        return self

    def client(self, **options) -> LedgerClient:
        client = LedgerClient(self.url, self.token, **{"principal": "anna"} | options)
        self._clients.append(client)
        return client

    def _exit_code(self) -> int | None:
        return self.process.poll() if isinstance(self.process, subprocess.Popen) else self.process.exitcode

    def wait(self) -> int:
        """Its exit code, once it has ended; the next start is a new process."""
        end = time.monotonic() + 60
        while (code := self._exit_code()) is None:
            assert time.monotonic() < end, "the service did not end"
            time.sleep(0.01)
        if not isinstance(self.process, subprocess.Popen):
            self.process.join()
            self.process.close()
        self.process = None
        return code

    def kill(self) -> None:
        os.kill(self.process.pid, signal.SIGKILL)
        assert self.wait() == -signal.SIGKILL

    def stop(self) -> int:
        """Ask it to stop; its exit code."""
        os.kill(self.process.pid, signal.SIGTERM)
        return self.wait()

    def close(self) -> None:
        for client in self._clients:
            client.close()
        if self.process is not None:
            if self._exit_code() is None:
                os.kill(self.process.pid, signal.SIGKILL)
            self.wait()


@contextmanager
def ledger_process(folder: Path, store: str, **options):
    process = LedgerProcess(folder, store, **options)
    try:
        yield process
    finally:
        process.close()


def _serve(arguments: list[str], environment: dict, log: str, die: str | None, plant) -> None:
    """What runs in the process."""
    from onward_ledger.__main__ import main

    os.environ.update(environment)
    with Path(log).open("ab") as file:
        os.dup2(file.fileno(), sys.stderr.fileno())
    if die is not None:
        _die_in_the_first_send(die)
    if plant is not None:
        plant()
    sys.argv = ["onward-ledger", *arguments]
    main()


def _die_in_the_first_send(window: str) -> None:
    real = DraftSave.send

    def send(self, action, deadline):
        if window == "after":
            real(self, action, deadline)
        os.kill(os.getpid(), signal.SIGKILL)

    DraftSave.send = send
