"""From recordings to cases: which boundaries are deadly in which group. Nothing here keeps a list of its own."""

from __future__ import annotations

from collections.abc import Iterable

from experiments.boundaries import Boundary, Moment
from experiments.crash_points import NAMES, crash_point
from experiments.nemesis import Fault
from experiments.plan import Order, Plan
from experiments.recordings import Recording

# The last act of each call of the checkpointer, on Postgres and on SQLite: until then its statements are not durable.
LAST_ACTS = ("exit pipeline", "commit")
# The first statement of a super-step's checkpoint: the step is over, and nothing of it is stored.
FIRST_STATEMENTS = ("insert into checkpoint_blobs", "insert into checkpoints")


def point_plans() -> list[Plan]:
    """The named crash points, and the hardest of them with a model that writes something else afterwards."""
    plans = [Plan(group="points", name=name, driver=(Fault(at=crash_point(name)),)) for name in NAMES]
    hardest = "write_draft: after effect"
    name = f"{hardest}, then the model writes something else"
    return [*plans, Plan(group="points", name=name, driver=(Fault(at=crash_point(hardest)),), restless=True)]


def _killed(group: str, at: Iterable[Moment], order: Order = "natural") -> list[Plan]:
    return [Plan(group=group, name=str(m), driver=(Fault(at=m.boundary),), order=order) for m in at]


def driver_plans(recording: Recording) -> list[Plan]:
    """The driver killed at every moment of every role."""
    return _killed("driver", recording.moments)


def order_plans(recording: Recording) -> list[Plan]:
    """With checkpoints forced in front of writes: killed just before and just after each of their commits."""
    return _killed("order", commits(recording), "checkpoint first")


def commits(recording: Recording) -> list[Moment]:
    """The moments around the commits of the thread that stores checkpoints and writes."""
    return [m for m in recording.role("background") if any(b.label in LAST_ACTS for b in m.boundaries)]


def pair_plans(first: Plan, recovery: Recording) -> list[Plan]:
    """A second kill at every moment of the recovery from the first one."""
    names = [(m, f"{first.name}; in the recovery {m}") for m in recovery.moments]
    return [Plan(group="pairs", name=name, driver=(*first.driver, Fault(at=m.boundary))) for m, name in names]


def control_plans(recording: Recording) -> list[Plan]:
    """The control killed at every moment of its own recording."""
    return _killed("control", recording.moments)


def ledger_plans(recording: Recording) -> list[Plan]:
    """The service killed at every moment: while it starts, serves, sends and stops."""
    return [Plan(group="ledger", name=str(m), ledger=Fault(at=m.boundary)) for m in recording.moments]


def plain_provider_plans(recording: Recording) -> list[Plan]:
    """The same where it sends and around it, with a provider that would not notice a second sending."""
    sending = recording.role("send")
    return [Plan(group="plain provider", name=str(m), ledger=Fault(at=m.boundary)) for m in sending]


def stopped_driver_plans(recording: Recording) -> list[Plan]:
    """A driver stopped at every super-step, inside every open pipeline, and before every request for an effect."""
    chosen = [moment.boundary for moment in recording.moments if _worth_stopping(moment.boundary)]
    return [Plan(group="stopped driver", name=str(at), driver=(_stop(at),)) for at in chosen]


def _worth_stopping(at: Boundary) -> bool:
    if at.side != "before":
        return False
    if at.role == "background":
        return at.label in (*LAST_ACTS, *FIRST_STATEMENTS)
    return at.label.startswith("send PUT /v1/actions")


def stopped_ledger_plans() -> list[Plan]:
    """The service stopped between its gate, the last look at the deadline, and the send."""
    gate = Boundary(role="send", label="put an object")
    return [Plan(group="stopped ledger", name="before the first object is put", ledger=_stop(gate))]


def stopped_plain_provider_plans() -> list[Plan]:
    """The same with a provider that would not notice a second sending."""
    gate = Boundary(role="send", label="the effect")
    return [Plan(group="stopped ledger", name="before the effect, at a provider that is told once", ledger=_stop(gate))]


def request_plans() -> list[Plan]:
    """The same requests again, and changed ones."""
    return [Plan(group="requests", name="every action asked for again, as it is and changed")]


def decision_plans() -> list[Plan]:
    """A wake-up that says approved, while the ledger holds nothing; then a person rejects."""
    return [Plan(group="decisions", name="woken with an approval that nobody gave, then rejected", rejected=True)]


def _stop(at: Boundary) -> Fault:
    return Fault(at=at, how="stop")


# --- hunts: the cases that must catch each mutant ---------------------------------------------------------------------


def hunt_plans(hunt: str, driver: Recording, *, restless: bool) -> list[Plan]:
    """The cases of a mutant's hunt, most promising first."""
    send = {
        "ledger after effect": Boundary(role="send", label="the effect", side="after"),
        "ledger before effect": Boundary(role="send", label="put an object"),
    }
    if hunt in send:
        return [Plan(group="ledger", name=str(send[hunt]), ledger=Fault(at=send[hunt]))]
    if hunt == "points":
        return [plan for plan in point_plans() if "after effect" in plan.name and plan.restless == restless]
    if hunt == "requests":
        return request_plans()
    if hunt == "decisions":
        return decision_plans()
    if hunt == "stopped driver":
        return [plan for plan in stopped_driver_plans(driver) if plan.driver[0].at.role == "background"]
    assert hunt == "driver"
    return _killed("driver", driver.role("background"))
