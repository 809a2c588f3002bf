"""`onward migrate`: what bringing a run to another workflow version would do, and doing it with `--apply`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from runs import events
from runs.commands.output import Format, say, write_facts, write_json
from runs.commands.services import Opened, check_may_act, found
from runs.registry import Run

if TYPE_CHECKING:
    from runs.migrate import Migration
    from runs.settings import StoreKind


def migrate(run_id: str, *, to: str, apply: bool, store: StoreKind | None, output: Format) -> int:
    """See `onward migrate`.

    JSON: run_id, from, to, stands {status, reason, step}, changes {added, removed, changed}, next [node], next_steps,
    applied.
    """
    with found(run_id, store) as (opened, run):
        check_may_act(opened)
        from runs import migrate
        from runs.checkpoints import set_up_through

        set_up_through(opened.database, opened.store)
        migration = migrate.rehearse(opened.store, opened.database, run, to)
        view = view_of(migration, _last_step(opened, run))
        if apply:
            after = migrate.apply(opened.store, opened.database, migration)
            say(f"Migrated: the run is of workflow version {after.workflow_version}, {after.status} as before.")
        else:
            say("Nothing was written. Do it with --apply.")
    view["applied"] = apply
    _write(view, output)
    return 0


def view_of(migration: Migration, step: str | None) -> dict[str, Any]:
    """A migration as JSON, but for whether it was done. `step`: the one that began last."""
    run = migration.run
    return {
        "run_id": run.run_id,
        "from": run.workflow_version,
        "to": migration.target.name,
        "stands": {"status": str(run.status), "reason": run.reason, "step": step},
        "changes": migration.changes,
        "next": list(migration.next),
        "next_steps": migration.next_steps,
    }


def _last_step(opened: Opened, run: Run) -> str | None:
    """The step that began last; None for a run that has not begun."""
    rows = opened.database.read("last_event", run_id=run.run_id, kind="step_started")
    return events.Event.from_row(rows[0]).step if rows else None


def _write(view: dict[str, Any], output: Format) -> None:
    if output == "json":
        write_json(view)
        return
    stands, changes = view["stands"], view["changes"]
    status = stands["status"] + (f" ({stands['reason']})" if stands["reason"] else "")
    write_facts(
        [
            ("Run", view["run_id"]),
            ("From", f"workflow version {view['from']}"),
            ("To", f"workflow version {view['to']}"),
            ("Stands", f"{status}, in {stands['step']}" if stands["step"] else f"{status}, not begun"),
            *((name.capitalize(), ", ".join(changes[name]) or None) for name in ("added", "removed", "changed")),
            ("Goes on", ", ".join(view["next_steps"]) or "with its first step"),
        ]
    )
