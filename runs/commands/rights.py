"""`onward bar`: who may not act any more.

Whoever is barred decides, resumes, cancels and forks nothing. Their runs fail as `not_permitted` when they are taken up
next: after a wait for a person, after a kill, after a back-off. A driver that is at work finishes what it holds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from onward_ledger.database import statement
from runs.commands.output import say, visible
from runs.commands.services import check_may_act, opened, settings_for
from runs.errors import UsageError

if TYPE_CHECKING:
    from runs.settings import StoreKind


def bar(principal: str, *, reason: str | None, lift: bool, store: StoreKind | None) -> int:
    """See `onward bar`."""
    if lift == (reason is not None and bool(reason.strip())):
        raise UsageError("Give either --reason TEXT or --lift.")
    settings = settings_for(store)
    mine = {"tenant": settings.tenant, "principal": principal}
    with opened(settings) as place:
        check_may_act(place)
        if lift:
            place.database.at_once(statement("delete_barred", **mine))
            say(f"{visible(principal)} may act again.")
        else:
            assert reason is not None
            place.database.at_once(
                statement("insert_barred", **mine, reason=reason.strip(), barred_by=settings.principal)
            )
            say(f"{visible(principal)} may not act any more: {visible(reason.strip())}")
    return 0
