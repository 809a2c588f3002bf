"""The kind `draft.save`: a draft's objects get their final keys.

Class idempotent: the final key is written with create-if-absent; the key itself is the idempotency key, and an object
store does not forget it. The bytes were staged before under `runs/<run_id>/`; the request holds references.
"""

from __future__ import annotations

from onward_ledger.action import Action, Json
from onward_ledger.errors import BadKey, BadRequest, ObjectConflict
from onward_ledger.objects import Objects, check_key
from onward_ledger.providers.interface import (
    Applied,
    Deadline,
    Found,
    Outcome,
    ProviderClass,
    Refused,
    SendingProvider,
)
from onward_ledger.providers.listing import check_listing
from onward_ledger.providers.staged import find_placed, place, read_staged


class DraftSave(SendingProvider):
    """Params: `{"digest", "objects": [{"name", "source", "digest", "size", "media_type"}]}`; a folder as resource."""

    kind = "draft.save"
    provider_class = ProviderClass.IDEMPOTENT

    def __init__(self, objects: Objects) -> None:
        self._objects = objects

    def validate(self, run_id: str, resource: str, params: Json) -> None:
        """The resource lies below `drafts/<run_id>/`, every source below `runs/<run_id>/`."""
        if set(params) != {"digest", "objects"}:
            raise BadRequest("params must have exactly the members digest and objects.")
        if not resource.startswith(f"drafts/{run_id}/"):
            raise BadRequest(f"The resource of a draft must lie below drafts/{run_id}/.")
        for item in check_listing(params, key="source", folder=f"runs/{run_id}"):
            try:
                check_key(_final_key(resource, item))
            except BadKey as error:
                raise BadRequest(error.message) from None

    def send(self, action: Action, deadline: Deadline) -> Outcome:
        """Read every staged object and check it, then put each under its final key.

        Until the first put nothing can have happened, so a store that does not answer the reads is definite. Behind
        it, an answer that stays out leaves the outcome unknown.
        """
        items = action.params["objects"]
        staged = read_staged(self._objects, items)
        if not isinstance(staged, list):
            return staged
        deadline.check()
        try:
            place(self._objects, [(_final_key(action.resource, item), None) for item in items], staged)
        except ObjectConflict as error:
            return Refused(error.message)
        return self._applied(action)

    def lookup(self, action: Action) -> Found:
        """Read every final key back. Another object under one is for `send` to refuse, so it counts as absent."""
        found = find_placed(
            self._objects, [(_final_key(action.resource, item), item["digest"]) for item in action.params["objects"]]
        )
        return self._applied(action) if isinstance(found, list) else found

    def _applied(self, action: Action) -> Applied:
        objects = [
            {"name": item["name"], "key": _final_key(action.resource, item), "digest": item["digest"]}
            | {"size": item["size"], "media_type": item["media_type"]}
            for item in action.params["objects"]
        ]
        receipt: Json = {"resource": action.resource, "digest": action.params["digest"], "objects": objects}
        return Applied(provider_id=action.resource, receipt=receipt | {"store": self._objects.url})


def _final_key(resource: str, item: Json) -> str:
    return f"{resource}/{item['name']}"
