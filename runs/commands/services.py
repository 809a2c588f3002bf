"""What a command opens: the data folder, the stores where runs are, one run, its files and its ledger."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from runs import registry
from runs.commands.output import visible
from runs.errors import AmbiguousRun, NotPermitted, RunNotFound
from runs.registry import Run
from runs.settings import Settings, StoreKind, check_home, prepare_home
from runs.store import Store, open_store

if TYPE_CHECKING:
    from onward_ledger.database import Database
    from onward_ledger.objects import Objects


@dataclass(frozen=True, kw_only=True)
class Opened:
    """One store of runs, open for reading and writing rows."""

    settings: Settings
    store: Store
    database: Database


def settings_for(store: StoreKind | None) -> Settings:
    """Settings of this process; `store` is what the command line says, which wins over the environment."""
    return Settings() if store is None else Settings(store=store)


@contextmanager
def opened(settings: Settings) -> Generator[Opened]:
    """The store that the settings name, started where needed, its schema brought to this version."""
    prepare_home(settings)
    store = open_store(settings)
    with closing(store.database("onward command")) as database:
        database.migrate()
        yield Opened(settings=settings, store=store, database=database)


def places(store: StoreKind | None) -> list[Settings]:
    """Where runs can be: the store that was named, or every one that exists. Looks, and starts nothing.

    Raises UsageError when the data folder is none.
    """
    settings = settings_for(store)
    check_home(settings)
    if "store" in settings.model_fields_set:
        return [settings] if _exists(settings) else []
    kinds: tuple[StoreKind, ...] = ("postgres", "sqlite")
    return [found for found in (Settings(store=kind) for kind in kinds) if _exists(found)]


def _exists(settings: Settings) -> bool:
    if settings.store == "sqlite":
        return settings.sqlite_path.exists()
    if settings.database_url is not None:
        return True
    from runs.local_postgres import status

    return status(settings.home).major is not None


@contextmanager
def found(typed: str, store: StoreKind | None) -> Generator[tuple[Opened, Run]]:
    """The store that holds a run, and the run. Raises RunNotFound, AmbiguousRun, or UsageError for what is no id."""
    hits: list[tuple[Settings, Run]] = []
    missing: RunNotFound | None = None
    for settings in places(store):
        with opened(settings) as place:
            try:
                hits.append((settings, registry.find(place.database, typed, tenant=settings.tenant)))
            except RunNotFound as error:
                missing = error
    if not hits:
        raise missing or RunNotFound(f"There is no run {visible(typed)}. `onward list` shows the runs there are.")
    if len(hits) > 1:
        ids = ", ".join(f"{run.run_id} ({settings.store})" for settings, run in hits)
        raise AmbiguousRun(f"{visible(typed)} fits several runs: {ids}. Give more of the id, or --store.")
    settings, run = hits[0]
    with opened(settings) as place:
        yield place, run


def check_may_act(opened: Opened) -> None:
    """Raise NotPermitted for a principal who was barred: who resumes, decides or cancels is asked again each time."""
    settings = opened.settings
    barred = opened.database.read("barred", tenant=settings.tenant, principal=settings.principal)
    if barred:
        raise NotPermitted(f"{settings.principal} may not act any more: {barred[0]['reason']}")


class LocalServer:
    """The local Postgres, watched by whoever follows a run: one that was killed is started again."""

    def __init__(self, settings: Settings) -> None:
        self._home = settings.home
        local = settings.store == "postgres" and settings.database_url is None
        self._pid = self._find() if local else None

    def _find(self) -> int | None:
        from runs.local_postgres import status

        return status(self._home).pid

    def revive(self) -> bool:
        """Start it again if it has died; whether it had. Looking costs no connection."""
        from runs.holder import process_started
        from runs.local_postgres import ensure

        if self._pid is None or process_started(self._pid) is not None:
            return False
        ensure(self._home)
        self._pid = self._find()
        return True


def objects_of(settings: Settings) -> Objects:
    """The object store that is configured here."""
    from onward_ledger.objects import Objects

    return Objects(settings.objects_url)
