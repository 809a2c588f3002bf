"""Where a command's words go: data to stdout, messages to stderr, and nothing that could drive a terminal.

File names, sheet names and questions come from outside. Whatever is shown passes `visible`, so that a name with control
characters is seen, not obeyed; and no text is read as markup.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
import sys
from collections.abc import Generator, Iterable, Mapping, Sequence
from io import StringIO
from typing import TYPE_CHECKING, Any, Literal, TextIO

from runs.errors import RunError

if TYPE_CHECKING:
    from rich.console import Console

Format = Literal["table", "json"]

# C0 and C1 controls, marks that turn the direction of text, line separators that are not newlines, halves of surrogate
# pairs (a file name that is not valid UTF-8).
_UNSAFE = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")

WIDTH = 10_000


class OutputLost(RunError):
    """Stdout takes no more data: a full disk, say. A reader that went away is a BrokenPipeError instead."""


def _escape(found: re.Match[str]) -> str:
    code = ord(found.group())
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def visible(value: object) -> str:
    """One line of text that is safe to show: what would move a cursor or hide text is written as an escape."""
    return _UNSAFE.sub(_escape, str(value))


def visible_lines(text: str) -> str:
    """The same for a text of several lines."""
    return "\n".join(visible(line) for line in text.split("\n"))


def to_json(value: object) -> str:
    """Indented JSON in which every dangerous character is an escape, so that a terminal can show it."""
    text = json.dumps(value, ensure_ascii=False, indent=2, default=str)
    return _UNSAFE.sub(lambda found: found.group() if found.group() == "\n" else f"\\u{ord(found.group()):04x}", text)


def prepare_streams() -> None:
    """A terminal or a locale that cannot show a character gets an escape for it, never a traceback.

    A stream that was closed before the start (`>&-`) leads nowhere instead.
    """
    # Libraries log what we say in our own words; without a handler Python would print it.
    logging.getLogger().addHandler(logging.NullHandler())
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, _nowhere("r" if name == "stdin" else "w"))
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")


def _nowhere(mode: Literal["r", "w"]) -> TextIO:
    """A stream to the null device.

    The system gives it the lowest free number, which is the closed stream's own: so no database file gets that number,
    and no child process writes into one.
    """
    number = os.open(os.devnull, os.O_RDWR)
    os.set_inheritable(number, number <= 2)
    return open(number, mode, encoding="utf-8", closefd=False)


def console(stream: TextIO, *, colors: bool) -> Console:
    """A console that reads no markup and guesses no highlights.

    It is wider than any line: a terminal wraps long lines itself, and an id that was not folded can be copied.
    """
    from rich.console import Console

    return Console(
        file=stream,
        markup=False,
        highlight=False,
        emoji=False,
        width=WIDTH,
        force_terminal=colors,
        force_jupyter=False,  # or it would show in the notebook what belongs into `stream`
        soft_wrap=True,
    )


def write(text: str) -> None:
    """One piece of data on stdout. BrokenPipeError when nobody reads it any more, OutputLost when it is not taken."""
    with _told_as_lost():
        sys.stdout.write(text + "\n")
        sys.stdout.flush()


def finish() -> None:
    """Hand over what is still in the buffer, while an error can be told. Raises as `write` does."""
    with _told_as_lost():
        sys.stdout.flush()


@contextlib.contextmanager
def _told_as_lost() -> Generator[None]:
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputLost(f"The output cannot be written to stdout: {error.strerror or error}.") from error


def say(text: str) -> None:
    """One message on stderr. A reader or a terminal that went away stops no run."""
    with contextlib.suppress(OSError):
        sys.stderr.write(visible_lines(text) + "\n")
        sys.stderr.flush()


def write_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """A table on stdout; None is shown as a dash."""
    write(table_text(columns, rows, colors=sys.stdout.isatty()))


def table_text(columns: Sequence[str], rows: Iterable[Sequence[object]], *, colors: bool = False) -> str:
    """The lines of a table; None is shown as a dash."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, no_wrap=True)
    for row in rows:
        table.add_row(*(Text("-" if cell is None else visible(cell)) for cell in row))
    lines = StringIO()
    console(lines, colors=colors).print(table)
    return "\n".join(line.rstrip() for line in lines.getvalue().splitlines())


def write_facts(facts: Sequence[tuple[str, object]]) -> None:
    """Names and values on stdout, one fact a line; a fact without a value is left out."""
    if text := facts_text(facts):
        write(text)


def facts_text(facts: Sequence[tuple[str, object]]) -> str:
    """Names and values, one fact a line; a fact without a value is left out."""
    shown = [(name, value) for name, value in facts if value is not None]
    width = max((len(name) for name, _ in shown), default=0) + 2
    lines: list[str] = []
    for name, value in shown:
        first, *more = str(value).split("\n")
        lines.append(f"{name:{width}}{visible(first)}".rstrip())
        lines += [f"{'':{width}}{visible(line)}" for line in more]
    return "\n".join(lines)


def write_json(value: Mapping[str, Any]) -> None:
    """One JSON object on stdout."""
    write(to_json(value))


def leave_quietly() -> None:
    """Where stdout takes nothing any more: give Python's own flush at exit a place to write to."""
    try:
        sys.stdout.flush()
    except OSError:
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
