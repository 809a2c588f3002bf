"""A campaign as one page that stands alone: a picture with a cell for every case, and the story behind each cell.

It is made from the JSON of `experiments.results` and nothing else, so that it can be made again from a results.json;
the same figures give the same bytes. Its style and its few lines of script are inside, its content policy forbids
every request and every other script, and without the script nothing is lost: a cell is a link to its story.
"""

from __future__ import annotations

import hashlib
from base64 import b64encode
from functools import cache
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from experiments.page_view import view

TEMPLATES: Final = Path(__file__).parent / "templates"


def render(figures: dict[str, Any]) -> str:
    """The page. `figures`: what `experiments.results.to_json` returns, or what was read from a results.json."""
    shown = view(figures)
    style = _text("page.css") + _columns(shown.widths)
    script = _text("page.js")
    policy = (
        f"default-src 'none'; style-src '{_digest(style)}'; script-src '{_digest(script)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    return _environment().get_template("page.html.j2").render(view=shown, style=style, script=script, policy=policy)


def _text(name: str) -> str:
    return (TEMPLATES / name).read_text(encoding="utf-8")


def _columns(widths: tuple[int, ...]) -> str:
    """The widths of the steps' columns: the content policy allows no style but the one in the head."""
    return "".join(f".step{number} {{ width: {percent}%; }}\n" for number, percent in enumerate(widths))


def _digest(text: str) -> str:
    """The digest of an inline element as a content policy names it."""
    return "sha256-" + b64encode(hashlib.sha256(text.encode()).digest()).decode()


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["trusted"] = Markup  # our own style and script; what comes from a campaign is never trusted
    return environment
