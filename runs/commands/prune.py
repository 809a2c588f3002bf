"""`onward prune`: remove by age what is over. It only looks, unless `--apply` is given."""

from __future__ import annotations

import re
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from datetime import timedelta
from functools import cache
from typing import TYPE_CHECKING, Any

from runs.commands.output import Format, say, write_json, write_table
from runs.commands.services import Opened, objects_of, opened, places
from runs.errors import UsageError
from runs.retention import (
    Kept,
    Leftovers,
    Place,
    Removal,
    remove_finished,
    remove_leftovers,
)

if TYPE_CHECKING:
    from runs.retention import Ledger
    from runs.settings import StoreKind
    from runs.thinning import Thinning

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}

OLDEST = timedelta(days=36_500)

WHY = {
    "unknown_outcome": "whether its effect happened is not known: {ids}. Settle it: onward ledger resolve ACTION_ID",
    "forked": "others were made from it: {ids}",
    "elsewhere": "it was made with another object store or ledger than this installation uses",
    "in_use": "somebody holds it at this moment; try again",
    "deltas": "its graph rebuilds values from older checkpoints",
}


@dataclass(frozen=True, kw_only=True)
class Request:
    """What the command line asks for; ages as typed."""

    older_than: str
    checkpoints: str | None
    limit: int
    apply: bool


@dataclass(frozen=True, kw_only=True)
class Pruned:
    """What went from one store, or would."""

    store: str
    removal: Removal
    thinning: Thinning | None
    leftovers: Leftovers

    @property
    def kept(self) -> list[Kept]:
        """Every run that is old enough and stays."""
        return [*self.removal.kept, *(self.thinning.kept if self.thinning is not None else ())]

    @property
    def more(self) -> bool:
        """Whether the limit was reached."""
        return self.removal.more or (self.thinning is not None and self.thinning.more)

    def to_json(self) -> dict[str, Any]:
        """One of the stores in `told`."""
        thinned = self.thinning.thinned if self.thinning is not None else ()
        return {
            "store": self.store,
            "runs": [
                {
                    "run_id": one.run_id,
                    "status": one.status,
                    "finished_at": one.finished_at.isoformat(),
                    **{name: value for name, value in one.amount.to_json().items() if name != "runs"},
                }
                for one in self.removal.gone
            ],
            "total": self.removal.total.to_json(),
            "thinned": [asdict(one) for one in thinned],
            "leftovers": asdict(self.leftovers),
            "kept": [{"run_id": one.run_id, "reason": one.reason, "ids": list(one.ids)} for one in self.kept],
            "more": self.more,
        }


def prune(request: Request, *, store: StoreKind | None, output: Format) -> int:
    """See `onward prune`. JSON: see `told`."""
    age = parse_age("--older-than", request.older_than)
    idle = parse_age("--checkpoints", request.checkpoints) if request.checkpoints is not None else None
    found: list[Pruned] = []
    for settings in places(store):
        with opened(settings) as place:
            found.append(_pruned(place, age, idle, request))
    if output == "json":
        write_json(told(found, applied=request.apply, age=age, idle=idle))
    else:
        _write(found)
    _say(found, request)
    return 0


def told(found: list[Pruned], *, applied: bool, age: timedelta, idle: timedelta | None) -> dict[str, Any]:
    """The JSON of `docs/json.md`."""
    return {
        "applied": applied,
        "older_than_seconds": int(age.total_seconds()),
        "checkpoints_seconds": int(idle.total_seconds()) if idle is not None else None,
        "stores": [one.to_json() for one in found],
    }


def _pruned(opened: Opened, age: timedelta, idle: timedelta | None, request: Request) -> Pruned:
    from runs import local_ledger

    settings = opened.settings
    objects = objects_of(settings)
    now = opened.database.now()
    with ExitStack() as stack:

        @cache
        def ledger() -> Ledger:
            return stack.enter_context(local_ledger.connect(settings))

        place = Place(
            database=opened.database,
            objects=objects,
            ledger=ledger,
            made_with=(settings.store, objects.url, local_ledger.ledger_id(settings)),
        )
        removal = remove_finished(place, now - age, limit=request.limit, apply=request.apply)
        thinning = None
        if idle is not None:
            from runs.thinning import thin_idle  # imports langgraph

            thinning = thin_idle(opened.store, opened.database, now - idle, limit=request.limit, apply=request.apply)
        return Pruned(
            store=settings.store,
            removal=removal,
            thinning=thinning,
            leftovers=remove_leftovers(place, now - age, apply=request.apply),
        )


def parse_age(option: str, text: str) -> timedelta:
    """An age such as 30d, 12h or 8w. Raises UsageError."""
    found = re.fullmatch(r"(\d{1,6})([smhdw])", text.strip())
    age = timedelta(**{_UNITS[found[2]]: int(found[1])}) if found is not None else None
    if age is None or age > OLDEST:
        raise UsageError(f"{option} {text!r} is no age. Give a number and s, m, h, d or w, such as 30d.")
    return age


def _write(found: list[Pruned]) -> None:
    rows: list[tuple[str, str, str]] = []
    for one in found:
        total, thinned = one.removal.total, one.thinning.thinned if one.thinning is not None else ()
        counts = {
            "finished runs": total.runs,
            "their checkpoints": total.checkpoints,
            "their events": total.events,
            "their objects": total.objects,
            "bytes of them": total.bytes,
            "runs whose history is thinned": len(thinned),
            "checkpoints of them": sum(each.checkpoints for each in thinned),
            "jobs that are over": one.leftovers.jobs,
            "workers and drivers that are gone": one.leftovers.workers + one.leftovers.holders,
        }
        rows += [(one.store, what, f"{number:,}") for what, number in counts.items()]
    if rows:
        write_table(("store", "what", "number"), rows)


def _say(found: list[Pruned], request: Request) -> None:
    for one in found:
        for kept in one.kept:
            say(f"Kept {kept.run_id}: {WHY[kept.reason].format(ids=', '.join(kept.ids))}.")
    if not found:
        say("There are no runs yet.")
    elif any(one.more for one in found):
        again = "Run it again for the rest." if request.apply else "It is more than one call removes."
        say(f"The limit of {request.limit:,} was reached. {again}")
    if found and not request.apply:
        say("Nothing was changed; --apply removes it.")
