"""Settle what is UNKNOWN: by asking the provider again, or by a person's word."""

from __future__ import annotations

from typing import Annotated

import typer

from onward_ledger.action import Status
from onward_ledger.commands.common import (
    DEFAULT_TOKEN_FILE,
    DEFAULT_URL,
    TokenFile,
    Url,
    Who,
    json_object,
    line,
    speaking,
    told,
)


def resolve(
    action_id: Annotated[str, typer.Argument(help="The id of an UNKNOWN action.")],
    reason: Annotated[str, typer.Option(help="How you know.")],
    version: Annotated[int, typer.Option(help="The version that you have seen in `show`.")],
    receipt: Annotated[
        str | None, typer.Option(help="It happened: what proves it, as a JSON object. Without this it did not happen.")
    ] = None,
    failed: Annotated[bool, typer.Option("--failed", help="It did not happen, and shall not.")] = False,
    principal: Who = None,
    url: Url = DEFAULT_URL,
    token_file: TokenFile = DEFAULT_TOKEN_FILE,
) -> None:
    """Settle an UNKNOWN action by your word: it happened (--receipt) or it did not (--failed)."""
    if failed == (receipt is not None):
        raise typer.BadParameter("Say either --receipt '{…}' or --failed.")
    with told(), speaking(url, token_file, principal) as client:
        action = client.resolve(
            action_id,
            status=Status.FAILED if failed else Status.SUCCEEDED,
            receipt=json_object(receipt) if receipt is not None else None,
            reason=reason,
            expected_version=version,
        )
    line(action)
