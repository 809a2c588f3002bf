"""What can go wrong in the tools, as one tree.

    ToolError                the root: catch this to catch them all
    ├── InputError           definite     the input file cannot be used as a workbook
    ├── QuestionError        definite     a question does not fit the workbook it is asked of
    ├── ReaderDied           indefinite   the process that reads the workbook ended without an answer
    ├── QueryError           by kind      a query was refused, failed, or was stopped
    ├── NotPermitted         definite     the run may not use this kind of effect
    ├── ReadsDiffer          definite     two reads of one input do not agree on what a cell is
    └── DigestMismatch       definite     stored bytes are not the bytes that were put there

Definite: the same call on the same input fails again, and nothing was changed. Indefinite: the call may
succeed when it is tried again. The message is one plain sentence (or two) for the user: what is wrong, and
what to do about it.
"""

from __future__ import annotations

from typing import ClassVar, Literal

QueryErrorKind = Literal["refused", "failed", "memory", "time", "died"]


class ToolError(Exception):
    """Root of the tree. `definite` says whether trying the same call again is pointless."""

    definite: bool = True

    @property
    def message(self) -> str:
        """The sentence for the user."""
        return str(self.args[0]) if self.args else ""


class InputError(ToolError):
    """The input file cannot be used as a workbook: missing, another format, damaged, locked, empty, too large."""


class ReaderDied(ToolError):
    """The process that reads the workbook ended without an answer: killed, or out of memory."""

    definite = False


class NotPermitted(ToolError):
    """The run may not use this kind of effect: it was not among its rights when it was made."""


class QuestionError(ToolError):
    """A question does not fit its workbook: unknown sheet or column, or a column that cannot bear what is asked."""


class QueryError(ToolError):
    """A query gave no result.

    `kind` is "refused" (not one SELECT, or it reached for what it may not), "failed" (the database's own
    error), "memory" or "time" (stopped at a limit), or "died" (the child went away by itself: the only kind
    that is worth a second try).
    """

    KINDS: ClassVar[tuple[QueryErrorKind, ...]] = ("refused", "failed", "memory", "time", "died")

    def __init__(self, kind: QueryErrorKind, message: str) -> None:
        super().__init__(message)
        self.kind: QueryErrorKind = kind
        self.definite = kind != "died"

    def __reduce__(self) -> tuple[type[QueryError], tuple[str, str]]:
        """Pickle with both arguments: the error crosses a process border."""
        return type(self), (self.kind, self.message)


class ReadsDiffer(ToolError):
    """The second read of an input found a cell that cannot be what the first read took its column for."""


class DigestMismatch(ToolError):
    """Stored bytes do not have the digest in their reference: the object was changed or damaged."""
