"""What this machine remembers of the ledger, outside its database: the last claims that it saw committed.

A database that was restored from an older backup has forgotten what it sent, and would send it again. It cannot tell by
itself. So each service process notes every claim here, behind its commit and before its send, and asks the database
about them later (see watch.py).

The witness is a folder with one ring of fixed slots for each process that runs at a time. A slot is written by one
`pwrite`, which survives a killed process at once and a power cut once it was synced (each second). A torn slot fails
its checksum and is no slot. Nothing here is needed for sending: without the folder only a restore goes unnoticed.
"""

from __future__ import annotations

import fcntl
import logging
import os
import struct
import threading
import uuid
import zlib
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from onward_ledger.action import Action, Json
from onward_ledger.errors import BadRequest, Conflict

log = logging.getLogger("onward_ledger")

# What is lost with a database is the end of what was committed, so the last claims tell. Claims are noted in nearly
# the order of their commits; more than a service performs at a time is enough.
SLOTS = 256

# How many of them are asked about each second: far more than can be committed and not noted yet at one moment.
RECENT = 64

# Processes over one folder at a time.
RINGS = 32

# count, seq, microseconds of recorded_at, ledger, action, run, hash: then the checksum of these.
_SLOT = struct.Struct(">4sQIq16s16s16s32s")
_CHECKSUM = struct.Struct(">I")
_SLOT_BYTES = 128
_MAGIC = b"OLW1"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, kw_only=True)
class Mark:
    """One event that was committed: the database knows it, or has forgotten something."""

    ledger_id: str
    action_id: str
    run_id: str
    seq: int
    hash: str
    recorded_at: datetime

    def to_json(self) -> Json:
        """As the statement `forgotten` takes it; the instant in the one form that both engines compare."""
        recorded_at = self.recorded_at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        return {**self.__dict__, "recorded_at": recorded_at}


def seen_params(mark: Mark | None) -> dict[str, object]:
    """As the statement `glance` asks whether the database remembers it; without one there is nothing to remember."""
    if mark is None:
        return {"seen_action_id": None, "seen_seq": None, "seen_hash": None}
    return {"seen_action_id": mark.action_id, "seen_seq": mark.seq, "seen_hash": mark.hash}


class Witness:
    """One process's ring, and the reading of all rings of the folder. May be shared by threads."""

    def __init__(self, folder: Path, ledger_id: str) -> None:
        self._ledger_id = ledger_id
        self._folder = folder
        self._lock = threading.Lock()
        self._dirty = False
        self._recent: deque[Mark] = deque(maxlen=RECENT)
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._descriptor = _take_ring(folder)
            self._count = max((count for count, _ in _slots(self._descriptor)), default=0)
        except OSError as error:
            raise BadRequest(f"The witness {folder} cannot be used: {error.strerror or error}.") from error

    def note(self, action: Action) -> None:
        """The last event of this record was committed. Call it behind the commit and before the send."""
        mark = Mark(
            ledger_id=self._ledger_id,
            action_id=action.action_id,
            run_id=action.run_id,
            seq=action.events,
            hash=action.head,
            recorded_at=action.updated_at,
        )
        with self._lock:
            self._count += 1
            self._recent.append(mark)
            self._dirty = True
            try:
                os.pwrite(self._descriptor, _packed(self._count, mark), self._count % SLOTS * _SLOT_BYTES)
            except OSError as error:  # the claim stands and its record is safe; only a restore could go unnoticed
                log.error("The witness %s cannot be written: %s", self._folder, error)

    @property
    def last(self) -> Mark | None:
        """The last one that this process noted."""
        return self._recent[-1] if self._recent else None

    def recent(self) -> list[Mark]:
        """The last ones that this process noted."""
        with self._lock:
            return list(self._recent)

    def marks(self) -> list[Mark]:
        """What all processes of this folder noted, dead ones too."""
        return [mark for path in _rings(self._folder) for mark in _read(path)]

    def sync(self) -> None:
        """Bring it to the disk."""
        with self._lock:
            dirty, self._dirty = self._dirty, False
        if dirty:
            os.fsync(self._descriptor)

    def close(self) -> None:
        """Bring it to the disk, and leave the ring to another process."""
        self.sync()
        os.close(self._descriptor)


def _rings(folder: Path) -> Iterator[Path]:
    return (path for number in range(RINGS) if (path := folder / f"ring-{number}").exists())


def _take_ring(folder: Path) -> int:
    """A ring that no living process has. The system frees it when the process ends, however it ends."""
    for number in range(RINGS):
        descriptor = os.open(folder / f"ring-{number}", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            continue
        missing = SLOTS * _SLOT_BYTES - os.fstat(descriptor).st_size
        if missing > 0:  # its whole size now, so that a full disk cannot get in the way later
            os.pwrite(descriptor, bytes(missing), SLOTS * _SLOT_BYTES - missing)
            os.fsync(descriptor)
        return descriptor
    raise Conflict(f"{RINGS} services use the witness {folder} already; name another one with --witness.")


def _packed(count: int, mark: Mark) -> bytes:
    microseconds = (mark.recorded_at - _EPOCH) // timedelta(microseconds=1)
    ids = (uuid.UUID(text).bytes for text in (mark.ledger_id, mark.action_id, mark.run_id))
    slot = _SLOT.pack(_MAGIC, count, mark.seq, microseconds, *ids, bytes.fromhex(mark.hash))
    return (slot + _CHECKSUM.pack(zlib.crc32(slot))).ljust(_SLOT_BYTES, b"\0")


def _read(path: Path) -> list[Mark]:
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError as error:
        raise BadRequest(f"The witness {path} cannot be read: {error.strerror or error}.") from error
    try:
        return [mark for _, mark in sorted(_slots(descriptor), key=lambda slot: slot[0])]
    finally:
        os.close(descriptor)


def _slots(descriptor: int) -> Iterator[tuple[int, Mark]]:
    data = os.pread(descriptor, SLOTS * _SLOT_BYTES, 0)
    for start in range(0, len(data) - _SLOT_BYTES + 1, _SLOT_BYTES):
        slot = data[start : start + _SLOT.size]
        (checksum,) = _CHECKSUM.unpack_from(data, start + _SLOT.size)
        if slot.startswith(_MAGIC) and checksum == zlib.crc32(slot):
            yield _unpacked(slot)


def _unpacked(slot: bytes) -> tuple[int, Mark]:
    _, count, seq, microseconds, ledger, action, run, head = _SLOT.unpack(slot)
    mark = Mark(
        ledger_id=str(uuid.UUID(bytes=ledger)),
        action_id=str(uuid.UUID(bytes=action)),
        run_id=str(uuid.UUID(bytes=run)),
        seq=seq,
        hash=head.hex(),
        recorded_at=_EPOCH + timedelta(microseconds=microseconds),
    )
    return count, mark
