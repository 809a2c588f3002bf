"""What is wrong with a run that was cancelled: every rule in words, by the oracle's and the API's word, not the run's.

one end         it ends once, as cancelled or as succeeded
published       as succeeded exactly one publication, as cancelled none
drafts          as many as the ledger has receipts for, at most one
too late        what it succeeded by was claimed before the fence was closed
closed          behind `cancelled` the fence is closed: one more effect is refused
settled         nothing is in flight or waits to be sent
listed          the report lists what the ledger has, with its receipts
taken back      as cancelled once, what can be; as succeeded nothing
afterwards      a resume of the ended run executes nothing and changes nothing
"""

from __future__ import annotations

from collections.abc import Generator

from experiments.cancelled.case import Seen
from experiments.cancelled.worlds import UNDOING, UNDONE, World
from onward_ledger.action import Action, Status

ENDS = ("cancelled", "succeeded")


def violations(seen: Seen, world: World) -> tuple[str, ...]:
    """Every rule that this case breaks."""
    found = [*_one_end(seen), *_effects(seen), *_afterwards(seen)]
    if seen.status == "cancelled":
        found += [*_closed(seen), *_listed(seen), *_taken_back(seen, world)]
    elif seen.status == "succeeded":
        found += _too_late(seen)
    return tuple(found)


def invalid(seen: Seen) -> str | None:
    """Why the case proves nothing; None when it does."""
    return None if seen.met else "the process did not come to its boundary"


def _one_end(seen: Seen) -> Generator[str]:
    ends = [str(e.data["to"]) for e in seen.history if e.kind == "status" and e.data["to"] in (*ENDS, "failed")]
    if seen.status not in ENDS or ends != [seen.status]:
        yield f"one end: it stands at {seen.status}, and its history has {ends or 'no end'}"


def _effects(seen: Seen) -> Generator[str]:
    world = seen.evidence.ended
    published, saved = world.effects_of("deliver"), world.effects_of("write_draft")
    if published != (seen.status == "succeeded"):
        yield f"published: {seen.status} with {published} publications"
    receipts = sum(a.status is Status.SUCCEEDED and a.kind == UNDONE for a in seen.actions)
    if saved != receipts or saved > 1:
        yield f"drafts: {saved} saved, {receipts} receipts"
    left = [a for a in seen.actions if a.status in (Status.IN_FLIGHT, Status.PREPARED) and a.step != "afterwards"]
    if left:
        yield f"settled: {', '.join(f'{a.kind} is {a.status}' for a in left)}"


def _too_late(seen: Seen) -> Generator[str]:
    publication = next((a for a in seen.actions if a.kind == "report.publish" and a.status is Status.SUCCEEDED), None)
    if publication is not None and seen.closed_at is not None and publication.updated_at > seen.closed_at:
        yield "too late: it was published behind the closing of the fence"
    if _undoing(seen) or seen.undone:
        yield "taken back: something, although the run succeeded"


def _closed(seen: Seen) -> Generator[str]:
    if seen.accepted or seen.closed_at is None:
        yield "closed: the run is cancelled, and one more effect of it was performed"
    done = next((e.created_at for e in seen.history if e.kind == "status" and e.data["to"] == "cancelled"), None)
    if done is not None and seen.closed_at is not None and seen.closed_at > done:
        yield "closed: the fence was closed behind the end"


def _listed(seen: Seen) -> Generator[str]:
    reports = [e.data for e in seen.history if e.kind == "cancel_report"]
    if not reports:
        yield "listed: there is no report"
        return
    told = {each["action_id"]: each["receipt"] for each in reports[-1]["sent"] if each["status"] == "SUCCEEDED"}
    stands = {a.action_id: a.receipt for a in _sent(seen)}
    if told != stands:
        yield f"listed: {len(told)} receipts, and the ledger has {len(stands)}, or others"


def _taken_back(seen: Seen, world: World) -> Generator[str]:
    wanted = [a.key.undo.action_id for a in _sent(seen) if a.kind == UNDONE] if world == "compensating" else []
    recorded = [a.action_id for a in _undoing(seen) if a.status is Status.SUCCEEDED]
    if not sorted(seen.undone) == sorted(recorded) == sorted(wanted):
        yield f"taken back: {len(wanted)} wanted, {len(recorded)} recorded, {len(seen.undone)} at the API"


def _afterwards(seen: Seen) -> Generator[str]:
    last = seen.evidence.processes[-1]
    if last.executed or last.committed or last.reused:
        yield f"afterwards: a resume executed {', '.join(last.executed) or 'something'}"
    if seen.evidence.ended != seen.evidence.after:
        yield "afterwards: a resume changed what stands"


def _sent(seen: Seen) -> list[Action]:
    """What happened, as the ledger has it, without what takes back."""
    return [a for a in seen.actions if a.status is Status.SUCCEEDED and not a.key.is_undo and a.step != "afterwards"]


def _undoing(seen: Seen) -> list[Action]:
    return [a for a in seen.actions if a.kind == UNDOING]
