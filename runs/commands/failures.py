"""Which exit code and which sentence an error ends a command with."""

from __future__ import annotations

import os
import sys
import traceback
from types import ModuleType
from typing import Any

from runs.errors import Exit, RunError

# A pipe whose reader went away, and an interrupt outside of a drive: as a shell says of what a signal ended.
BROKEN_PIPE = 128 + 13
INTERRUPTED = 128 + 2


def explain(error: BaseException) -> tuple[int, str]:
    """The exit code and the plain sentence for an error of any layer."""
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED, "Interrupted; nothing is lost. `onward list` shows whether there is a run to resume."
    if isinstance(error, BrokenPipeError):
        return BROKEN_PIPE, ""  # whoever closed the pipe wants to read nothing more
    if isinstance(error, RunError):
        return error.exit_code, error.message
    for read in (_of_typer, _of_ledger, _of_database, _of_tools, _of_graph, _of_settings):
        if (found := read(error)) is not None:
            return found
    if isinstance(error, OSError):
        return Exit.FAILED, _of_system(error)
    what = f"{type(error).__name__}: {_first_line(error)}" if str(error) else type(error).__name__
    return Exit.FAILED, f"Something unexpected went wrong ({what}). ONWARD_DEBUG=1 shows where."


def debug(error: BaseException) -> None:
    """The traceback, for whoever set ONWARD_DEBUG."""
    if os.environ.get("ONWARD_DEBUG", "") not in ("", "0"):
        traceback.print_exception(error)


def _loaded(name: str) -> ModuleType | None:
    """A module that was imported already: an error whose module was not cannot have been raised."""
    return sys.modules.get(name)


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def _of_typer(error: BaseException) -> tuple[int, str] | None:
    import typer

    if not isinstance(error, typer.TyperException):
        return None
    context: Any = getattr(error, "ctx", None)
    text = error.format_message().rstrip()
    text = text.replace("Value error, ", "")
    text += "" if text.endswith((".", "?", "!", ")")) else "."
    return error.exit_code, f"{text} Try: {context.command_path} --help" if context is not None else text


def _of_ledger(error: BaseException) -> tuple[int, str] | None:
    errors: Any = _loaded("onward_ledger.errors")
    if errors is None or not isinstance(error, errors.LedgerError):
        return None
    message = str(error)
    unreachable = (errors.LedgerUnreachable, errors.ServiceFault, errors.NotApplied, errors.ObjectsUnreachable)
    codes: tuple[tuple[Any, Exit], ...] = (
        (errors.NotFound, Exit.NOT_FOUND),
        ((errors.Conflict, errors.ParamsConflict, errors.InProgress), Exit.CONFLICT),
        ((*unreachable, errors.Unauthorized), Exit.UNREACHABLE),
        ((errors.BadRequest, errors.TooLarge), Exit.USAGE),
    )
    return next((code for kinds, code in codes if isinstance(error, kinds)), Exit.FAILED), message


def _of_database(error: BaseException) -> tuple[int, str] | None:
    databases: Any = _loaded("onward_ledger.database")
    if databases is not None and isinstance(error, databases.DatabaseError):
        if isinstance(error, databases.Unreachable):
            return Exit.UNREACHABLE, f"The database does not answer: {_first_line(error).rstrip('.')}."
        return (Exit.CONFLICT if isinstance(error, databases.SchemaTooNew) else Exit.FAILED), str(error)
    local: Any = _loaded("runs.postgres_binaries")
    if local is not None and isinstance(error, local.LocalPostgresError):
        return Exit.UNREACHABLE, str(error)
    return None


def _of_tools(error: BaseException) -> tuple[int, str] | None:
    errors: Any = _loaded("tools.errors")
    if errors is None or not isinstance(error, errors.ToolError):
        return None
    return (Exit.USAGE if isinstance(error, errors.InputError) else Exit.FAILED), str(error)


def _of_graph(error: BaseException) -> tuple[int, str] | None:
    errors: Any = _loaded("graph.errors")
    if errors is not None and isinstance(error, errors.GraphError):
        return (Exit.UNKNOWN_OUTCOME if isinstance(error, errors.OutcomeUnknown) else Exit.FAILED), str(error)
    models: Any = _loaded("graph.models")
    if models is not None and isinstance(error, models.ModelNotFound):
        return Exit.USAGE, str(error)
    return None


def _of_settings(error: BaseException) -> tuple[int, str] | None:
    pydantic: Any = _loaded("pydantic")
    if pydantic is None or not isinstance(error, pydantic.ValidationError):
        return None
    invalid: Any = error
    problems = [f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in invalid.errors(include_url=False)]
    return Exit.USAGE, f"A setting cannot be used. {'; '.join(problems)}."


def _of_system(error: OSError) -> str:
    where = f" ({os.fsdecode(error.filename)})" if isinstance(error.filename, str | bytes) else ""
    return f"The system refused: {error.strerror or error}{where}."
