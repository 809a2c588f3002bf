"""How an effect is taken back: what a file says of it, in templates over the record of the effect.

    [kinds."ticket.create".compensate]
    kind = "ticket.close"
    resource = "{resource}"
    params = {ticket = "{provider_id}", because = "{receipt.state}"}

A provider that is written in Python declares a `Compensation` itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, cast

from pydantic import BeforeValidator, ConfigDict, Field

from onward_ledger.action import Action, Json
from onward_ledger.errors import BadRequest
from onward_ledger.providers.http_template import RecordValues, Template, Tree
from onward_ledger.providers.interface import Compensation, Provider
from onward_ledger.providers.settings import Closed


def _template(value: object) -> Template:
    if not isinstance(value, str) or not value:
        raise ValueError("this must be text")
    return Template(value, of_record=True)


def _tree(value: object) -> Tree:
    if not isinstance(value, dict):
        raise ValueError("this must be a table")
    return Tree(cast(Json, value), of_record=True)


class Compensate(Closed):
    """`[kinds.X.compensate]`: the kind that takes an effect of X back, and its request."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    kind: str = Field(min_length=1, max_length=100)
    resource: Annotated[Template, BeforeValidator(_template)]
    params: Annotated[Any, BeforeValidator(_tree)]

    def value(self) -> Compensation:
        """What the ledger goes by."""
        return Compensation(kind=self.kind, request=self._request)

    def _request(self, action: Action) -> tuple[str, Json]:
        values = RecordValues.of(action)
        return self.resource.text(values), cast(Tree, self.params).render(values)


def check_compensations(providers: Mapping[str, Provider], where: str = "") -> None:
    """BadRequest unless every kind that takes an effect back is there, and needs no approval."""
    for kind, provider in providers.items():
        if provider.compensation is None:
            continue
        undoing, place = provider.compensation.kind, f'{where}kinds."{kind}": compensate.kind'
        if undoing not in providers:
            raise BadRequest(f"{place}: there is no kind {undoing!r}.")
        if providers[undoing].approval is not None:
            raise BadRequest(f"{place}: {undoing} needs an approval, and nobody is asked when an effect is taken back.")
