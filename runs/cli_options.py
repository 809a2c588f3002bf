"""Options and arguments that several commands of `onward` take."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

Output = Annotated[
    Literal["table", "json"],
    typer.Option("--output", "-o", help="How data is written to stdout.", show_default=True),
]
Store = Annotated[
    Literal["postgres", "sqlite"] | None,
    typer.Option("--store", help="Where runs live; without it: ONWARD_STORE, else postgres (or where the run is)."),
]
RunId = Annotated[str, typer.Argument(metavar="RUN_ID", help="The run's id, or a unique beginning of it.")]
NoResume = Annotated[bool, typer.Option("--no-resume", help="Record the decision only; do not drive the run on.")]
