"""The two runs that are cancelled. The same small workbook; in one of them the draft can be taken back.

plain          the built-in kinds: nothing is taken back
compensating   `draft.save` names a compensation: an action of a kind of type `http`, at an API in its own process,
               whose log counts what reached it
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

World = Literal["plain", "compensating"]
WORLDS: tuple[World, ...] = ("plain", "compensating")

UNDONE, UNDOING = "draft.save", "draft.retract"

_CONFIG = """
[kinds."draft.save".compensate]
kind = "draft.retract"
resource = "{{resource}}"
params = {{draft = "{{provider_id}}", digest = "{{receipt.digest}}"}}

[kinds."draft.retract"]
type = "http"
class = "idempotent"
base_url = "{url}"
plain_http = true
allow_addresses = ["127.0.0.0/8"]
path = "/idempotent/things"
marker = {{header = "X-Marker"}}
key = {{lifetime_seconds = "unlimited"}}
answer = {{provider_id = "/id"}}
"""


def write_config(folder: Path, url: str) -> Path:
    """The ledger's configuration file for the compensating world, with this API."""
    path = folder / "ledger.toml"
    path.write_text(_CONFIG.format(url=url), encoding="utf-8")
    return path
