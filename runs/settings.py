"""What the environment and the command line say about this installation.

Every value has a default, so that nothing needs to be set for a first run on one machine.
"""

from __future__ import annotations

import getpass
import os
import stat
from pathlib import Path
from typing import Literal, Self

from pydantic import Field, SecretStr, field_validator, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from runs.errors import UsageError

StoreKind = Literal["postgres", "sqlite"]


def _os_user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user id without a name
        return f"uid-{os.getuid()}"


class Settings(BaseSettings):
    """Settings of one process, read once. Keyword arguments win over the environment."""

    # The prefix and the case keep field names from being looked up as they are: `home` would be everybody's HOME.
    model_config = SettingsConfigDict(
        frozen=True, extra="ignore", populate_by_name=True, case_sensitive=True, env_prefix="ONWARD_"
    )

    home: Path = Field(default=Path("~/.onward"), validation_alias="ONWARD_HOME")
    store: StoreKind = Field(default="postgres", validation_alias="ONWARD_STORE")
    principal: str = Field(default_factory=_os_user, min_length=1, validation_alias="ONWARD_PRINCIPAL")

    # Whose runs are made and seen here: commands of one tenant do not find another's.
    tenant: str = Field(default="default", min_length=1, validation_alias="ONWARD_TENANT")

    # Connection strings may hold passwords, so they stay out of every printed form.
    database_url: str | None = Field(default=None, repr=False, validation_alias="DATABASE_URL")
    ledger_database_url: str | None = Field(default=None, repr=False, validation_alias="LEDGER_DATABASE_URL")
    objects: str | None = Field(default=None, validation_alias="ONWARD_OBJECTS")

    # A ledger that somebody else runs. Without a URL the local one is started when it is needed.
    ledger_url: str | None = Field(default=None, validation_alias="ONWARD_LEDGER_URL")
    ledger_token: SecretStr | None = Field(default=None, validation_alias="ONWARD_LEDGER_TOKEN")

    # A driver that hangs or is cut off loses its run after this time; a dead one is noticed at once, whatever it is.
    lease_seconds: float = Field(default=15.0, ge=0.5, le=3600, validation_alias="ONWARD_LEASE_SECONDS")

    @field_validator("home")
    @classmethod
    def _absolute(cls, value: Path) -> Path:
        return Path(os.path.abspath(value.expanduser()))  # noqa: PTH100 - resolve() would follow a link the user chose

    @field_validator("database_url", "ledger_database_url", "objects", "ledger_url", "ledger_token", mode="before")
    @classmethod
    def _empty_is_unset(cls, value: object) -> object:
        return None if value == "" else value

    @model_validator(mode="after")
    def _databases_are_of_postgres(self) -> Self:
        """Raises UsageError. With SQLite the addresses are not used: they may be those of another program."""
        if self.store == "postgres":
            for name, value in (
                ("DATABASE_URL", self.database_url),
                ("LEDGER_DATABASE_URL", self.ledger_database_url),
            ):
                if value is not None:
                    _check_address(name, value)
        return self

    @property
    def objects_url(self) -> str:
        """Where files live: a URL that obstore understands; a folder in `home` unless told otherwise."""
        return self.objects or (self.home / "objects").as_uri()

    @property
    def sqlite_path(self) -> Path:
        """The file of runs, events and checkpoints with `store="sqlite"`."""
        return self.home / "onward.sqlite"

    @property
    def ledger_sqlite_path(self) -> Path:
        """The ledger's own file with `store="sqlite"`; never the same as the runs'."""
        return self.home / "ledger.sqlite"

    @property
    def scratch(self) -> Path:
        """Folder of temporary files, one subfolder per drive."""
        return self.home / "tmp"

    @property
    def locks(self) -> Path:
        """Folder of lock files."""
        return self.home / "locks"


def _check_address(name: str, value: str) -> None:
    """Refuse what is no connection string. It may hold a password, so neither it nor libpq's words on it are shown."""
    import psycopg
    from psycopg.conninfo import conninfo_to_dict

    try:
        conninfo_to_dict(value)
    except psycopg.Error:
        raise UsageError(
            f"{name} is no address of a Postgres database. Write it as postgresql://USER@HOST/DATABASE, or unset it."
        ) from None


def check_home(settings: Settings) -> None:
    """Refuse a data folder that is something else, or that cannot be looked at. One that is not there yet is fine.

    Raises UsageError.
    """
    home = settings.home
    try:
        status = home.stat()
    except FileNotFoundError:
        return
    except OSError as error:
        raise _unusable(home, error) from error
    if not stat.S_ISDIR(status.st_mode):
        raise UsageError(f"The data folder {home} is not a folder. Set ONWARD_HOME to a folder of your own.")


def _unusable(home: Path, error: OSError) -> UsageError:
    return UsageError(
        f"The data folder {home} cannot be used: {error.strerror}. Set ONWARD_HOME to a folder of your own."
    )


def prepare_home(settings: Settings) -> None:
    """Make the data folder, readable by its owner only, and refuse one that others can enter.

    Raises UsageError when the folder cannot be made or belongs to somebody else.
    """
    check_home(settings)
    home = settings.home
    try:
        home.mkdir(parents=True, exist_ok=True, mode=0o700)
        status = home.stat()
    except OSError as error:
        raise _unusable(home, error) from error
    if status.st_uid != os.geteuid():
        raise UsageError(f"The data folder {home} belongs to another account. Set ONWARD_HOME to a folder of your own.")
    if stat.S_IMODE(status.st_mode) & 0o077:
        home.chmod(0o700)
