"""Who may ask for what: the caller that a token stands for, and the person who speaks.

A token has scopes, and optionally the person that it proves, roles, and kinds that it is limited to.

    perform   announce a fence, propose, perform, reconcile and withdraw actions; guards
    read      look at everything that is recorded
    decide    approve, edit, revise or reject; standing grants
    operate   resolve UNKNOWN actions, close fences, hold and release, retry dead letters, prune, export
"""

from __future__ import annotations

import fnmatch
import urllib.parse
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from onward_ledger.errors import BadRequest, Forbidden


class Scope(StrEnum):
    """What a token is good for; see the module's docstring."""

    PERFORM = "perform"
    READ = "read"
    DECIDE = "decide"
    OPERATE = "operate"


EVERYTHING = frozenset(Scope)

# Scopes that `kinds` limits. Reading is not limited by kind, and an operator's work is about all kinds.
LIMITED_BY_KIND = frozenset({Scope.PERFORM, Scope.DECIDE})


@dataclass(frozen=True, kw_only=True)
class Caller:
    """Who sends a request, as far as the token proves it.

    `principal`: the person that the token proves; None where people are only asserted by header. `kinds`: globs that
    perform and decide are limited to; empty: every kind.
    """

    name: str
    scopes: frozenset[Scope] = EVERYTHING
    principal: str | None = None
    roles: frozenset[str] = frozenset()
    kinds: tuple[str, ...] = ()

    def require(self, scope: Scope | str, kind: str | None = None) -> None:
        """Forbidden unless the token has the scope, and may use it for this kind where one is named."""
        if scope not in self.scopes:
            raise Forbidden(f"The token {self.name!r} lacks the scope {str(scope)!r}.")
        if kind is not None and scope in LIMITED_BY_KIND and not self.covers(kind):
            allowed = ", ".join(self.kinds)
            raise Forbidden(f"The token {self.name!r} may {scope} actions of {allowed} only, not of {kind}.")

    def covers(self, kind: str) -> bool:
        """Whether the token is good for actions of this kind."""
        return not self.kinds or any(fnmatch.fnmatchcase(kind, glob) for glob in self.kinds)


def who(caller: Caller, header: str | None) -> tuple[str | None, bool]:
    """The person who speaks, and whether that is only asserted: `(principal, asserted)`.

    `header` is X-Onward-Principal as it came. With a token that proves its person, a header that names somebody else
    is Forbidden.
    """
    asserted = _principal(header) if header is not None else None
    if caller.principal is None:
        return asserted, True
    if asserted not in (None, caller.principal):
        raise Forbidden(f"The token {caller.name!r} is {caller.principal}'s; it cannot speak for {asserted}.")
    return caller.principal, False


def person(caller: Caller, header: str | None) -> tuple[str, bool]:
    """Like `who`, for what needs a person: BadRequest when nobody is named."""
    name, asserted = who(caller, header)
    if name is None:
        raise BadRequest("A person's word needs a person: send X-Onward-Principal.")
    return name, asserted


def _principal(header: str) -> str:
    name = urllib.parse.unquote(header).strip()
    if not is_principal(name):
        raise BadRequest("X-Onward-Principal must be 1 to 200 printable characters.")
    return name


def is_principal(name: str) -> bool:
    """Whether this can be the name of a person: 1 to 200 printable characters."""
    return 1 <= len(name) <= 200 and name.isprintable() and name == name.strip()


def listed(scopes: Iterable[Scope]) -> list[str]:
    """Scopes in the order in which they are told."""
    return [scope.value for scope in Scope if scope in frozenset(scopes)]
