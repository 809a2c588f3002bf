"""Mutants: the protocol with one rule taken out. A checker that lets one of them pass proves nothing.

Each changes one process of an experiment, or the database of its lane, never the product. `hunt` says which cases must
catch it, in the order in which they are tried; the first catch ends the hunt.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

Where = Literal["driver", "ledger", "database"]
Hunt = Literal[
    "points", "driver", "ledger after effect", "ledger before effect", "requests", "stopped driver", "decisions"
]


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """One rule taken out: where, what that is, which cases must notice, and in what kind of world."""

    name: str
    where: tuple[Where, ...]
    what: str
    hunt: Hunt
    plant: Callable[[], None]
    plain_provider: bool = False
    restless: bool = False


# --- in the ledger ----------------------------------------------------------------------------------------------------


def _perform_again() -> None:
    """Answer a repeated request by sending once more. A publication is spared: its row is unique for an action."""
    from onward_ledger.action import Action, Intent, Status
    from onward_ledger.ledger import Ledger
    from onward_ledger.providers.interface import Deadline, SendingProvider

    put = Ledger.put

    def forgetful(self: Ledger, intent: Intent, **how: Any) -> Action:
        action = put(self, intent, **how)
        provider = self.provider(intent.kind)
        if action.replayed and action.status is Status.SUCCEEDED and isinstance(provider, SendingProvider):
            provider.send(action, Deadline(30.0))
        return action

    Ledger.put = forgetful


def _resend_in_flight() -> None:
    """Take an unknown outcome for "not sent": send again without asking the provider."""
    from onward_ledger.action import Action
    from onward_ledger.providers.interface import Absent, Found, SendingProvider
    from onward_ledger.store.records import Cause
    from onward_ledger.store.store import Store

    settle = Store.settle

    def silent(
        self: Store, asked: Action, found: Found, provider: SendingProvider, cause: Cause, *, asked_at: datetime
    ) -> Action:
        return settle(self, asked, Absent(), provider, cause, asked_at=asked_at)

    def always(self: SendingProvider, action: Action, now: datetime) -> bool:
        return True

    Store.settle = silent
    SendingProvider.remembers = always


def _succeed_early() -> None:
    """Record the success first, then send."""
    from onward_ledger.action import Action
    from onward_ledger.ledger import Ledger
    from onward_ledger.providers.draft import DraftSave
    from onward_ledger.providers.interface import Provider

    send = Ledger._send  # pyright: ignore[reportPrivateUsage] - a mutant reaches inside

    def early(self: Ledger, action: Action, provider: Provider, began: float) -> Action:
        assert isinstance(provider, DraftSave)
        receipt = provider._applied(action)  # pyright: ignore[reportPrivateUsage]
        self._record(action, receipt, began)  # pyright: ignore[reportPrivateUsage]
        return send(self, action, provider, began)

    Ledger._send = early  # pyright: ignore[reportPrivateUsage]


def _replay_blindly() -> None:
    """Answer a known id with its receipt, whatever is asked for."""
    from dataclasses import replace

    from onward_ledger.action import Action, Intent
    from onward_ledger.store import claims

    def same(action: Action, intent: Intent) -> Action:
        return replace(action, replayed=True)

    claims._same_request = same  # pyright: ignore[reportPrivateUsage]


def _approve_everything() -> None:
    """The ledger's part of `resume-value`: whoever asks for the effect says himself that it was approved."""
    from onward_ledger.action import Action
    from onward_ledger.providers.interface import ApprovalPolicy
    from onward_ledger.store import claims

    def approved(action: Action, policy: ApprovalPolicy, now: datetime) -> None:
        return None

    claims.why_not_approved = approved


# --- in the driver ----------------------------------------------------------------------------------------------------


def _ask_anew() -> None:
    """Put the epoch into the slot, and with it into every action id."""
    from onward_ledger.action import Action
    from tools.action import Actions, Build

    perform, propose = Actions.perform, Actions.propose

    def fresh(self: Actions, slot: str) -> str:
        return f"{slot}.{self._epoch}"  # pyright: ignore[reportPrivateUsage]

    def performed(self: Actions, step: str, slot: str, kind: str, build: Build, *, rev: int = 1) -> Action:
        return perform(self, step, fresh(self, slot), kind, build, rev=rev)

    def proposed(self: Actions, step: str, slot: str, kind: str, build: Build, *, rev: int = 1) -> Action:
        return propose(self, step, fresh(self, slot), kind, build, rev=rev)

    Actions.perform, Actions.propose = performed, proposed


def _ask_by_arguments() -> None:
    """Make the action's id from what is asked for."""
    from onward_ledger.action import Action, request_hash
    from tools.action import Actions, Build

    perform = Actions.perform

    def performed(self: Actions, step: str, slot: str, kind: str, build: Build, *, rev: int = 1) -> Action:
        resource, params = build()
        if kind == "draft.save":
            slot = f"{slot}.{request_hash(kind, resource, params)[:12]}"
        return perform(self, step, slot, kind, lambda: (resource, params), rev=rev)

    Actions.perform = performed


def _trust_the_resume_value() -> None:
    """Let `deliver` do what the graph was resumed with, and nothing else."""
    from langgraph.types import interrupt

    from graph import nodes
    from graph.state import State, Update

    deliver = nodes.deliver

    def trusting(state: State, runtime: Any) -> Update:
        if "outcome" in state:
            return deliver(state, runtime)
        step = nodes.step_of("deliver", state)
        context = runtime.context
        action = context.actions.propose(step, "publish", "report.publish", lambda: nodes.publication(state))
        answer = interrupt({"approval": {"action_id": action.action_id}})
        if answer.get("decision") != "approve":
            return {"decision": "reject", "outcome": "rejected"}
        action = context.actions.perform(step, "publish", "report.publish", lambda: nodes.publication(state))
        receipt = {"action_id": action.action_id, "receipt": action.receipt or {}}
        return {"decision": "approve", "delivery": receipt, "outcome": "published"}

    nodes.deliver = trusting


def _finish_when_next_is_empty() -> None:
    """Take `next == ()` for the end of the run."""
    from langgraph.types import StateSnapshot

    from runs import parts
    from runs.next_move import Finish, Move, Position, next_move, read_position

    def read(snapshot: StateSnapshot) -> Position:
        from dataclasses import replace

        position = read_position(snapshot)
        ended = position.started and snapshot.next == ()
        return replace(position, pending=(), outcome="published") if ended else position

    def move(position: Position, decisions: Any, receipts: Any) -> Move:
        ended = position.started and not position.pending and not position.questions
        return Finish("published") if ended else next_move(position, decisions, receipts)

    parts.read_position, parts.next_move = read, move


def _fence_off() -> None:
    """SQLite's part of `no-fence`: the driver's connection says the newest epoch, whichever its own is."""
    import sqlite3

    from runs import checkpoints

    connect = checkpoints.connect

    def unfenced(path: Any, functions: dict[str, Any]) -> sqlite3.Connection:
        mine: str | None = functions["onward_fence"]()

        def newest() -> str | None:
            run_id = str(mine).partition(":")[0]
            with sqlite3.connect(path) as other:
                rows = other.execute("select epoch from leases where run_id = ?", (run_id,)).fetchall()
            return f"{run_id}:{rows[0][0]}" if rows else mine

        return connect(path, {**functions, "onward_fence": newest})

    checkpoints.connect = unfenced


UNFENCED = "create or replace function hold_fence() returns trigger language plpgsql as $$ begin return new; end $$"

_ALL = (
    Mutant(
        name="fresh-action-id",
        where=("driver",),
        what="every driver asks under action ids of its own, as if a retry were a new action",
        hunt="points",
        plant=_ask_anew,
    ),
    Mutant(
        name="no-replay",
        where=("ledger",),
        what="a recorded effect is performed again when it is asked for again",
        hunt="points",
        plant=_perform_again,
    ),
    Mutant(
        name="silent-resend",
        where=("ledger",),
        what="an action left in flight is sent again without asking the provider",
        hunt="ledger after effect",
        plant=_resend_in_flight,
        plain_provider=True,
    ),
    Mutant(
        name="early-success",
        where=("ledger",),
        what="the success is recorded before the effect is sent",
        hunt="ledger before effect",
        plant=_succeed_early,
    ),
    Mutant(
        name="blind-replay",
        where=("ledger",),
        what="a known id is answered with its receipt without comparing what is asked for",
        hunt="requests",
        plant=_replay_blindly,
    ),
    Mutant(
        name="no-fence",
        where=("database", "driver"),
        what="checkpoints of a driver that was replaced are taken",
        hunt="stopped driver",
        plant=_fence_off,
    ),
    Mutant(
        name="arguments-in-id",
        where=("driver",),
        what="the action's id is made from its arguments, which a model writes anew after a crash",
        hunt="points",
        plant=_ask_by_arguments,
        restless=True,
    ),
    Mutant(
        name="resume-value",
        where=("driver", "ledger"),
        what="the decision is taken from the value that the graph is resumed with",
        hunt="decisions",
        plant=_trust_the_resume_value,
    ),
    Mutant(
        name="next-is-empty",
        where=("driver",),
        what="a run is taken for finished when `next` is empty",
        hunt="driver",
        plant=_finish_when_next_is_empty,
    ),
)

MUTANTS = {mutant.name: mutant for mutant in _ALL}
NAMES = tuple(MUTANTS)


def plant_in_driver(name: str | None, store: str) -> None:
    """Plant a defect in this driver, if it belongs there."""
    mutant = MUTANTS.get(name or "")
    if mutant is None or "driver" not in mutant.where:
        return
    if name != "no-fence" or store == "sqlite":  # on Postgres that one is in the database
        mutant.plant()


def plant_in_ledger(name: str | None) -> None:
    """Plant a defect in this ledger, if it belongs there."""
    mutant = MUTANTS.get(name or "")
    if mutant is not None and "ledger" in mutant.where:
        (_approve_everything if name == "resume-value" else mutant.plant)()


def plant_in_database(name: str | None, dsn: str | None) -> None:
    """Plant a defect in a lane's database, if it belongs there; its tables are made."""
    if name != "no-fence" or dsn is None:
        return
    import psycopg

    with psycopg.connect(dsn, autocommit=True, options="-c search_path=onward") as connection:
        connection.execute(UNFENCED)
