"""The rows: one kind for each provider class, and whether its effect is promised to happen.

At most one effect is promised to all of them. `once`: exactly one, whatever happens in between. The others may stay
UNKNOWN for a person. The kinds themselves stand in kinds.toml. The last row is the control, which must break its
promise.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from string import Template

PUBLISH = "report.publish"


@dataclass(frozen=True)
class Row:
    """One provider class, by the kind that stands for it.

    `sends`: there is something outside of the database. `planted`: the mutant in its service (experiments.mutants).
    """

    name: str
    kind: str
    once: bool
    sends: bool = True
    planted: str | None = None


ROWS = (
    Row("transactional", PUBLISH, once=True, sends=False),
    Row("idempotent", "thing.keyed", once=True),
    Row("queryable", "thing.found", once=False),
    Row("queryable, resend_after_absent", "thing.resent", once=True),
    Row("opaque", "thing.sent", once=False),
    Row("control: what is unknown is sent again", "thing.found", once=False, planted="silent-resend"),
)

_FILE = Path(__file__).with_name("kinds.toml")


def config_of(url: str, key_lifetime_seconds: float) -> str:
    """The configuration of a service, for an API at this URL that remembers keys for so long."""
    text = Template(_FILE.read_text(encoding="utf-8"))
    return text.substitute(url=url, key_lifetime_seconds=key_lifetime_seconds)
