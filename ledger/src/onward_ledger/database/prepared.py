"""Statements that are parsed and planned once for each connection; `execute name(…)` then goes into any message.

The simple query protocol takes several statements in one message, and has no parameters. With SQL's own PREPARE the
server still parses and plans a statement only once; for short statements that is most of its work.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import LiteralString, cast

_PARAMETER = re.compile(r"%\((\w+)\)s")


def executing(
    statements: Mapping[str, LiteralString], names: Collection[str]
) -> tuple[LiteralString, dict[str, LiteralString]]:
    """`(the message that prepares them, name → its call with the same parameters)`, for some named statements."""
    preparing = ";\n".join(_preparing(name, statements[name]) for name in names)
    return cast(LiteralString, preparing), {name: _call(name, statements[name]) for name in names}


def _parameters(text: str) -> list[str]:
    return list(dict.fromkeys(_PARAMETER.findall(text)))


def _preparing(name: str, text: str) -> str:
    """Each parameter by its number; a percent sign stands for itself, since nothing is merged into this text."""
    parameters = _parameters(text)
    numbered = _PARAMETER.sub(lambda found: f"${parameters.index(found[1]) + 1}", text)
    return f"prepare {name} as {numbered.replace('%%', '%')}\n"


def _call(name: str, text: str) -> LiteralString:
    given = ", ".join(f"%({parameter})s" for parameter in _parameters(text))
    return cast(LiteralString, f"execute {name}({given})" if given else f"execute {name}")
