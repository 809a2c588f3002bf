"""Where the local PostgreSQL of one ONWARD_HOME lies: its data, its socket, its log, and whose they are.

An ordinary user's data lies in `ONWARD_HOME/postgres`. Root cannot run PostgreSQL, and the account that does it for
root cannot enter a home folder that is closed to others; so root's data lies in `/var/tmp/onward-<hash of
ONWARD_HOME>`, and `ONWARD_HOME/postgres.json` points there.

Connections need no password. What keeps others out is that the socket lies in a folder that only the server's
account (and root) can enter; so every folder is checked before it is used, since anybody may create one in /var/tmp.
"""

from __future__ import annotations

import json
import os
import re
import sys
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from stat import S_IMODE, S_ISDIR, S_ISLNK
from typing import cast
from urllib.parse import quote

from runs.postgres_binaries import WITHOUT, Account, LocalPostgresError

if sys.platform != "win32":
    import pwd

SERVER_ACCOUNTS = ("postgres", "nobody")
SHARED_FOLDER = Path("/var/tmp")  # noqa: S108 - every folder in it is checked before it is used
SHORT_FOLDER = Path("/tmp")  # noqa: S108 - likewise
SOCKET = ".s.PGSQL.5432"
_SOCKET_PATH_BYTES = 100  # Linux takes 107, macOS 103


@dataclass(frozen=True, kw_only=True)
class Place:
    """The paths of one ONWARD_HOME's server. Finding them creates nothing."""

    home: Path
    data: Path
    sockets: Path
    account: Account

    @property
    def key(self) -> str:
        """Marks this server's processes, in their titles, and its folders outside ONWARD_HOME."""
        return key_of(self.home)

    @property
    def log(self) -> Path:
        """What the server says."""
        return self.home / "postgres.log"

    @property
    def lock(self) -> Path:
        """Held by whoever starts or stops the server."""
        return self.home / "postgres.lock"

    @property
    def pointer(self) -> Path:
        """Root only: says where the data lies."""
        return self.home / "postgres.json"

    @property
    def copies(self) -> Path:
        """Root only: copies of the programs are named after this."""
        return SHARED_FOLDER / f"{self.key}-postgres"

    @property
    def dsn(self) -> str:
        """The connection string; always the same for one ONWARD_HOME."""
        return f"postgresql://postgres@/postgres?host={quote(str(self.sockets), safe='')}&port=5432"


def key_of(home: Path) -> str:
    """`onward-<hash>` for a resolved ONWARD_HOME."""
    return "onward-" + sha256(os.fsencode(home)).hexdigest()[:16]


def find_place(home: Path) -> Place:
    """The place of an ONWARD_HOME, which need not exist yet. Refuses folders that are not as they must be."""
    if sys.platform == "win32":
        raise LocalPostgresError(
            "No PostgreSQL is started on Windows. Set DATABASE_URL to a PostgreSQL server, or use --store sqlite."
        )
    home = Path(os.path.realpath(home.expanduser()))
    place = _root_place(home) if os.geteuid() == 0 else _user_place(home)
    if os.path.lexists(place.data):
        check_private(place.data, place.account)
    if os.path.lexists(place.sockets):
        check_private(place.sockets, place.account)
    return place


def check_private(folder: Path, account: Account) -> None:
    """Refuse a folder that the account does not have for itself alone."""
    info = folder.lstat()
    if S_ISLNK(info.st_mode):
        wrong = "is a symbolic link"
    elif not S_ISDIR(info.st_mode):
        wrong = "is not a folder"
    elif info.st_uid != account.uid:
        wrong = f"belongs to {_name(info.st_uid)}, not to {account.name}"
    elif S_IMODE(info.st_mode) != 0o700:
        wrong = f"has mode {S_IMODE(info.st_mode):04o} instead of 0700"
    else:
        return
    raise LocalPostgresError(
        f"{folder} {wrong}. The database is open to everybody who can enter that folder, so it is not used as it is: "
        f"find out who changed it, and put it right or move it away. {WITHOUT}"
    )


def make_private(folder: Path, account: Account) -> None:
    """Create the folder if it is not there, and check it in any case. Only for an account that is ours."""
    assert not account.switch, "root makes no folder for another account: that one could swap it under root's hands"
    folder.mkdir(mode=0o700, exist_ok=True)
    check_private(folder, account)


def write_pointer(place: Place) -> None:
    """Remember where root's data lies; also after ONWARD_HOME was moved."""
    if place.data == place.home / "postgres" or place.pointer.exists():
        return
    unfinished = place.pointer.with_suffix(".json.new")
    with unfinished.open("w") as file:
        json.dump({"data": str(place.data)}, file)
        file.flush()
        os.fsync(file.fileno())
    unfinished.replace(place.pointer)
    sync_folder(place.home)


def sync_folder(folder: Path) -> None:
    """Make a rename in the folder survive a loss of power."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _user_place(home: Path) -> Place:
    user = Account(name=_name(os.geteuid()), uid=os.geteuid(), gid=os.getegid(), switch=False)
    data = home / "postgres"
    sockets = data if _fits_a_socket(data) else SHORT_FOLDER / key_of(home)
    place = Place(home=home, data=data, sockets=sockets, account=user)
    if place.pointer.exists() and not data.exists():
        raise LocalPostgresError(
            f"{home} has been used by root, whose database lies in {_pointed(place.pointer)}. Run this as root, or "
            f"set ONWARD_HOME to another folder. {WITHOUT}"
        )
    return place


def _root_place(home: Path) -> Place:
    theirs = home / "postgres"
    if os.path.lexists(theirs):
        owner = _name(theirs.lstat().st_uid)
        raise LocalPostgresError(
            f"{home} has been used by {owner}, whose database lies in it. Run this as {owner}, or set ONWARD_HOME to "
            f"another folder. {WITHOUT}"
        )
    pointer = home / "postgres.json"
    data = Path(os.path.realpath(SHARED_FOLDER)) / key_of(home)
    if pointer.exists():
        data = _pointed(pointer)
        if not os.path.lexists(data):
            raise LocalPostgresError(
                f"The database of {home} was in {data}, and that folder is gone. Bring it back; or, to begin with an "
                f"empty database, remove {pointer}. {WITHOUT}"
            )
    return Place(home=home, data=data, sockets=data, account=_server_account(data))


def _server_account(data: Path) -> Account:
    """Whoever owns the data already, so that an account that appears later changes nothing; else the first there is."""
    accounts: list[Account] = []
    for name in SERVER_ACCOUNTS:
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        accounts.append(Account(name=name, uid=entry.pw_uid, gid=entry.pw_gid, switch=True))
    if not accounts:
        raise LocalPostgresError(
            "PostgreSQL does not run as root, and there is no account `postgres` or `nobody` to run it. Run this as an "
            f"ordinary user. {WITHOUT}"
        )
    owner = data.lstat().st_uid if os.path.lexists(data) else None
    return next((account for account in accounts if account.uid == owner), accounts[0])


def _pointed(pointer: Path) -> Path:
    try:
        content = cast("object", json.loads(pointer.read_text()))
    except ValueError:
        content = None
    data = cast("dict[str, object]", content).get("data") if isinstance(content, dict) else None
    if not isinstance(data, str) or not Path(data).is_absolute():
        raise LocalPostgresError(f"{pointer} should say where the database lies, and does not. {WITHOUT}")
    return Path(data)


def _fits_a_socket(folder: Path) -> bool:
    # The server takes a list of folders, divided by commas, and quotes have a meaning in it.
    path = str(folder / SOCKET)
    return len(os.fsencode(path)) <= _SOCKET_PATH_BYTES and re.fullmatch(r"[\w./+@=~-]+", path, re.ASCII) is not None


def _name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"
