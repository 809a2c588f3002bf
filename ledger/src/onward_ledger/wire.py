"""The bodies of requests, as the service validates and documents them."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Annotated, Any, Literal, cast

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, StringConstraints, WithJsonSchema

from onward_ledger.action import UNDO, ActionKey, Intent, Json, Status
from onward_ledger.canonical import LARGEST_INTEGER, canonical
from onward_ledger.errors import BadRequest, TooLarge

# Params and receipts are references and digests; bytes are staged as objects before.
LARGEST_JSON_BYTES = 64 * 1024

# What is deeper, or has more values, is no list of references; and not every reader of the record could follow it.
DEEPEST_JSON = 32
MOST_VALUES = 10_000

Name = Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]*$")]
Resource = Annotated[str, StringConstraints(min_length=1, max_length=900, pattern=r"^[^\x00-\x1f\x7f]*$")]
Reason = Annotated[str, StringConstraints(min_length=1, max_length=4000, pattern=r"^[^\x00]*$")]
Count = Annotated[int, Field(strict=True, ge=1, le=LARGEST_INTEGER)]
Hash = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]

Revision = Annotated[int, Field(strict=True, ge=1, le=2**31 - 1)]  # what an integer column holds

# Checked by ActionKey, which says it in plainer words; here for readers of the document.
RunIdText = Annotated[str, WithJsonSchema({"type": "string", "format": "uuid"})]
_PART = "^[A-Za-z0-9_.:#-]{1,100}$"
Part = Annotated[str, WithJsonSchema({"type": "string", "pattern": _PART})]

# What is looked for by; no other can be there.
PartQuery = Annotated[str, StringConstraints(pattern=_PART)]
SlotQuery = Annotated[str, StringConstraints(pattern=f"^[A-Za-z0-9_.:#-]{{1,100}}({UNDO})?$")]

_RUN = "7f0f3b8e-6a5d-4a53-9d7e-0c1a2b3c4d5e"
_HELLO = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"


def small(what: str, value: Json) -> Json:
    """The value itself, unless it is too large, too deep, or no JSON that every reader reads alike."""
    check_shape(what, value)
    if len(canonical(value)) > LARGEST_JSON_BYTES:
        raise TooLarge(f"{what} is larger than {LARGEST_JSON_BYTES // 1024} KiB; stage bytes as objects.")
    return value


def check_shape(what: str, value: Json) -> None:
    """BadRequest when the value is nested too deep or has too many values. Without recursion: the depth is given."""
    waiting: list[tuple[object, int]] = [(value, 1)]
    values = 0
    while waiting:
        item, depth = waiting.pop()
        values += 1
        if depth > DEEPEST_JSON:
            raise BadRequest(f"{what} is nested deeper than {DEEPEST_JSON} levels.")
        if values + len(waiting) > MOST_VALUES:
            raise BadRequest(f"{what} has more than {MOST_VALUES} values.")
        if isinstance(item, dict):
            waiting.extend((inner, depth + 1) for inner in cast(dict[object, object], item).values())
        elif isinstance(item, list | tuple):
            waiting.extend((inner, depth + 1) for inner in cast(list[object], item))


def _having(some: tuple[str, ...], others: tuple[str, ...]) -> Json:
    """The JSON schema of an object that has these members, each with a value, and not the others."""
    has: Json = {name: {"not": {"type": "null"}} for name in some}
    return {"required": list(some), "properties": has | {name: {"type": "null"} for name in others}}


class Body(BaseModel):
    """A request body: unknown members are refused, so that a misspelt one is not silently ignored."""

    model_config = ConfigDict(extra="forbid")


class ActionBody(Body):
    """What is wanted. The id in the path must be the one that run, step, slot and rev make."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {
                    "run_id": _RUN,
                    "step": "write_draft",
                    "slot": "draft",
                    "rev": 1,
                    "kind": "draft.save",
                    "resource": f"drafts/{_RUN}/1",
                    "params": {
                        "digest": "17053a01ff512e9f3bcfad551925320312b448823e98fd15f814e47130e86fac",
                        "objects": [
                            {
                                "name": "report.md",
                                "source": f"runs/{_RUN}/{_HELLO}",
                                "digest": _HELLO,
                                "size": 5,
                                "media_type": "text/markdown",
                            }
                        ],
                    },
                    "epoch": 1,
                }
            ]
        },
    )

    run_id: RunIdText
    step: Part
    slot: Part
    rev: Revision = 1
    kind: Name
    resource: Resource
    params: dict[str, Any]
    epoch: Count

    def intent(self, action_id: str) -> Intent:
        """The intent of this body, if it belongs to this id."""
        key = ActionKey(self.run_id, self.step, self.slot, self.rev)
        if key.action_id != action_id:
            raise BadRequest(f"The id of this run, step, slot and rev is {key.action_id}, not {action_id}.")
        if key.is_undo:
            raise BadRequest(f"The slot {self.slot} is that of a compensation, which the ledger derives itself.")
        params = small("params", self.params)
        return Intent(key=key, kind=self.kind, resource=self.resource, params=params, epoch=self.epoch)


def check_resource(resource: str) -> None:
    """BadRequest when a resource that nobody has sent could not be one."""
    if not re.fullmatch(r"[^\x00-\x1f\x7f]{1,900}", resource):
        raise BadRequest("A resource has 1 to 900 characters, and no control characters.")


class FenceBody(Body):
    """Either an announcement (`epoch` and `holder`) or a closing (`closed` and `reason`)."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "oneOf": [
                _having(("epoch", "holder"), ("closed", "reason")),
                _having(("closed", "reason"), ("epoch", "holder")),
            ],
            "examples": [{"epoch": 2, "holder": "host:4711"}, {"closed": True, "reason": "cancelled"}],
        },
    )

    epoch: Count | None = None
    holder: Name | None = None
    closed: Literal[True] | None = None
    reason: Reason | None = None

    def check(self) -> None:
        """BadRequest when it is neither of the two."""
        given = tuple(name for name in ("epoch", "holder", "closed", "reason") if getattr(self, name) is not None)
        if given not in (("epoch", "holder"), ("closed", "reason")):
            raise BadRequest("A fence is announced with epoch and holder, or closed with closed and reason.")


class ResolveBody(Body):
    """An operator's word on an UNKNOWN action."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {
                    "status": "SUCCEEDED",
                    "receipt": {"provider_id": "tr_815", "seen": "in the bank's statement of May 4"},
                    "reason": "checked by hand",
                    "expected_version": 3,
                }
            ]
        },
    )

    status: Annotated[Status, WithJsonSchema({"enum": ["SUCCEEDED", "FAILED"]})]
    receipt: dict[str, Any] | None = None
    reason: Reason
    expected_version: Count


class WithdrawBody(Body):
    """Why a PREPARED action is taken back."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"reason": "no longer wanted"}]})

    reason: Reason


class CompensateBody(Body):
    """Under which epoch an effect is taken back. Without one, under whichever is announced."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"epoch": 2}, {}]})

    epoch: Count | None = None


class RetryBody(Body):
    """Why a dead letter is tried again."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"reason": "the API is back"}]})

    reason: Reason | None = None


class DecisionBody(Body):
    """A person's decision, bound to the request hash that the person has seen."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {"decision": "approve", "request_hash": "ab" * 32, "expires_at": "2030-01-01T00:00:00Z"},
                {"decision": "edit", "request_hash": "ab" * 32, "changes": {"title": "Sales, first half"}},
                {"decision": "revise", "request_hash": "ab" * 32, "reason": "compare with last year"},
            ]
        },
    )

    decision: Literal["approve", "edit", "revise", "reject"]
    request_hash: Hash
    reason: Reason | None = None
    changes: dict[str, Any] | None = None
    expires_at: AwareDatetime | None = None


class GrantBody(Body):
    """A standing permission of the person who asks."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"examples": [{"kind": "report.publish", "expires_at": "2030-01-01T00:00:00Z", "uses": 1}]},
    )

    kind: Name
    resource: Resource | None = None
    expires_at: AwareDatetime
    uses: Annotated[int, Field(strict=True, ge=1, le=1000)] = 1


class RevocationBody(Body):
    """Why an approval is taken back before it was used."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"reason": "the figures changed"}]})

    reason: Reason


class GrantRevocationBody(Body):
    """Which of the person's own grants gives nothing any more."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"kind": "report.publish"}]})

    kind: Name
    resource: Resource | None = None


class Problem(BaseModel):
    """Problem details (RFC 9457). `definite`: this call changed nothing. `terminal`: asking again is pointless."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    definite: bool
    terminal: bool
    retryable: bool
    retry_after_seconds: float | None = None
    fence_epoch: int | None = None
    closed_at: datetime | None = None
    action: Json | None = None
    decision: Json | None = None
    errors: list[Json] | None = None
