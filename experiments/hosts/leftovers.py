"""What an experiment on hosts leaves when it is killed itself, found and removed by the next one.

Its folder names the process that it belongs to and the token of its network; from these two everything else follows:
namespaces with their processes, links, the server's disk, copies of its programs.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import psutil

from experiments.hosts import network
from experiments.hosts.postgres import forget

PREFIX = "onward-hosts-"
DISK = "disk"


@contextmanager
def folder_of(token: str) -> Generator[Path]:
    """The folder of one experiment; others may pass through it (the server's account), and see nothing."""
    folder = Path(tempfile.mkdtemp(prefix=PREFIX))
    try:
        folder.chmod(0o711)
        owner = {"pid": os.getpid(), "started": psutil.Process().create_time(), "token": token}
        (folder / "owner.json").write_text(json.dumps(owner), encoding="utf-8")
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def remove_abandoned() -> list[Path]:
    """Remove what experiments left whose process is gone; their folders."""
    removed: list[Path] = []
    for told in Path(tempfile.gettempdir()).glob(f"{PREFIX}*/owner.json"):
        folder = told.parent
        with contextlib.suppress(OSError, ValueError, KeyError):
            owner = json.loads(told.read_text(encoding="utf-8"))
            if folder.lstat().st_uid == os.geteuid() and not _lives(owner):
                network.remove(str(owner["token"]))
                forget(folder / DISK)
                shutil.rmtree(folder)
                removed.append(folder)
    return removed


def _lives(owner: dict[str, float]) -> bool:
    try:
        return abs(psutil.Process(int(owner["pid"])).create_time() - owner["started"]) < 1.0
    except psutil.NoSuchProcess:
        return False
