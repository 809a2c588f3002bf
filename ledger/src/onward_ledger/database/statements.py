"""Named statements from `.sql` files.

A statement starts with a line `-- name: do_this`; the comment lines behind it say what it does and why it is safe.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import LiteralString, cast

_NAME = re.compile(r"^-- name: *(\w+) *$", re.MULTILINE)


@cache
def load_statements(folder: Path) -> dict[str, LiteralString]:
    """Every named statement of the folder's `.sql` files (not its subfolders, not schema.sql), by name.

    The text comes from files of this package, so it is as good as a literal; parameters are always bound.
    """
    statements: dict[str, LiteralString] = {}
    for file in sorted(folder.glob("*.sql")):
        if file.name == "schema.sql":
            continue
        parts = _NAME.split(file.read_text(encoding="utf-8"))
        for name, text in zip(parts[1::2], parts[2::2], strict=True):
            if name in statements:
                raise ValueError(f"{file}: statement {name} is defined twice")
            statements[name] = cast(LiteralString, text.strip().rstrip(";"))
    return statements


@cache
def load_schema(folder: Path) -> tuple[int, LiteralString, dict[int, LiteralString]]:
    """`(version, schema.sql, {n: migration to n})`.

    The version is the last migration's number, 1 where there is none: schema.sql is the truth for a new database,
    `migrations/NNNN_what.sql` bring an older one to it.
    """
    schema = cast(LiteralString, (folder / "schema.sql").read_text(encoding="utf-8"))
    migrations: dict[int, LiteralString] = {
        int(file.name[:4]): cast(LiteralString, file.read_text(encoding="utf-8"))
        for file in sorted((folder / "migrations").glob("[0-9][0-9][0-9][0-9]_*.sql"))
    }
    return max(migrations, default=1), schema, migrations
