"""`onward doctor`: the checks of `runs.doctor`, one line each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runs.commands.output import Format, write_json, write_table
from runs.commands.services import settings_for
from runs.doctor import examine
from runs.errors import Exit

if TYPE_CHECKING:
    from runs.settings import StoreKind


def doctor(*, store: StoreKind | None, output: Format) -> int:
    """See `onward doctor`. JSON: `{"ok", "checks": [{"name", "verdict", "text", "advice"}]}`; exit 1 on a fail."""
    checks = list(examine(settings_for(store)))
    ok = all(check.verdict != "fail" for check in checks)
    if output == "json":
        write_json({"ok": ok, "checks": [check.to_json() for check in checks]})
    else:
        rows = [(c.verdict, c.name, c.text, c.advice or None) for c in checks]
        write_table(("", "check", "found", "what to do"), rows)
    return Exit.OK if ok else Exit.FAILED
