"""The kind `report.publish`: a report becomes the newest publication of its resource.

Class transactional: the publication is a row of the ledger's own database, in the same commit as its receipt. It needs
an approval; what was approved is the digest, so every object is hashed again before the commit.
"""

from __future__ import annotations

from datetime import datetime

from onward_ledger.action import Action, Json
from onward_ledger.database import Transaction
from onward_ledger.errors import BadKey, BadRequest, DigestMismatch, ObjectMissing, ObjectsUnreachable
from onward_ledger.objects import Objects, check_key
from onward_ledger.providers.interface import (
    Applied,
    ApprovalPolicy,
    NotSent,
    Refused,
    Sound,
    TransactionalProvider,
    Verdict,
)
from onward_ledger.providers.listing import check_listing

LONGEST_TITLE = 300
LONGEST_NOTE = 4000


class ReportPublish(TransactionalProvider):
    """Params: `{"title", "digest", "objects": [{"name", "key", "digest", "size", "media_type"}], "note"}`."""

    kind = "report.publish"
    approval = ApprovalPolicy()
    editable = frozenset({"title", "note", "resource"})

    def __init__(self, objects: Objects) -> None:
        self._objects = objects

    def validate(self, run_id: str, resource: str, params: Json) -> None:
        """The resource lies below `reports/`, every object below `drafts/<run_id>/`."""
        if set(params) != {"title", "digest", "objects", "note"}:
            raise BadRequest("params must have exactly the members title, digest, objects and note.")
        try:
            check_key(resource)
        except BadKey as error:
            raise BadRequest(f"The resource is not usable: {error.message}") from None
        if not resource.startswith("reports/"):
            raise BadRequest("The resource of a report must lie below reports/.")
        _check_text("title", params["title"], LONGEST_TITLE)
        _check_text("note", params["note"], LONGEST_NOTE)
        if not params["title"].strip():
            raise BadRequest("params.title must not be empty.")
        check_listing(params, key="key", folder=f"drafts/{run_id}")

    def verify(self, action: Action) -> Verdict:
        """Hash every object again; the digest over them was checked against the request when it was recorded."""
        try:
            for item in action.params["objects"]:
                data = self._objects.read_checked(item["key"], item["digest"])
                if len(data) != item["size"]:
                    return Refused(f"The object {item['key']} has {len(data)} bytes, not {item['size']}.")
        except (ObjectMissing, DigestMismatch) as error:
            return Refused(error.message)
        except ObjectsUnreachable as error:
            return NotSent(error.message)
        return Sound()

    def apply(self, tx: Transaction, action: Action, now: datetime) -> Applied:
        """Insert the publication; a second one for the same action is refused by the database."""
        params = action.params
        row = tx.one(
            "insert_publication",
            action_id=action.action_id,
            run_id=action.run_id,
            resource=action.resource,
            title=params["title"],
            note=params["note"],
            digest=params["digest"],
            objects=params["objects"],
            now_at=now,
        )
        assert row is not None
        receipt: Json = {
            "publication_id": row["publication_id"],
            "resource": action.resource,
            "title": params["title"],
            "digest": params["digest"],
            "objects": params["objects"],
            "published_at": now.isoformat(),
        }
        return Applied(provider_id=str(row["publication_id"]), receipt=receipt)


def _check_text(name: str, value: object, longest: int) -> None:
    if not isinstance(value, str) or len(value) > longest or "\x00" in value:
        raise BadRequest(f"params.{name} must be text of at most {longest} characters.")
