"""The provider type `object`: objects get final keys in a store of their own (S3, GCS, Azure, a folder).

Class idempotent: a key is written with create-if-absent, so the key itself is the idempotency key, and a store forgets
it only if somebody deletes the object. A send that was cut leaves some of the objects; the same send puts the rest.
Other bytes under a key are a definite no, found before anything is put.
"""

from __future__ import annotations

import os
from typing import Any
from urllib.parse import urlsplit

from pydantic import Field

from onward_ledger.action import Action, Json
from onward_ledger.errors import BadKey, BadRequest, ObjectMissing, ObjectsUnreachable
from onward_ledger.objects import Objects, Stored, check_key
from onward_ledger.providers.configured import Closed, Context, secret
from onward_ledger.providers.interface import (
    Applied,
    Deadline,
    Found,
    NotSent,
    Outcome,
    ProviderClass,
    Refused,
    SendingProvider,
)
from onward_ledger.providers.listing import check_different, check_items
from onward_ledger.providers.staged import find_placed, place, read_staged

_MEMBERS = {"key", "source", "digest", "size", "media_type"}


class ObjectSettings(Closed):
    """`store` is a URL such as `s3://bucket/prefix`, or a folder. The rest is for S3 only; other stores, and an S3
    without any of these, take theirs from the environment (`AWS_*`, `GOOGLE_*`, `AZURE_*`).
    """

    store: str = Field(min_length=1)
    endpoint: str | None = None
    region: str | None = None
    access_key_id_env: str | None = None
    access_key_id_file: str | None = None
    secret_access_key_env: str | None = None
    secret_access_key_file: str | None = None
    session_token_env: str | None = None
    session_token_file: str | None = None


def from_settings(kind: str, settings: dict[str, Any], context: Context) -> ObjectPut:
    """The provider of one kind; see ObjectSettings."""
    given = ObjectSettings.model_validate(settings)
    store = given.store
    if "://" not in store:
        store = str(context.folder / store)
    elif urlsplit(store).username or urlsplit(store).query:
        raise BadRequest("store: the URL holds a user or a query; credentials are given by *_env or *_file.")
    target = Objects(store, environment=_environment(given, context))
    if target.url == context.objects.url:
        raise BadRequest("store: this is the store in which objects are staged; name another one, or a prefix.")
    return ObjectPut(kind, staging=context.objects, target=target)


class ObjectPut(SendingProvider):
    """Params: `{"objects": [{"key", "source", "digest", "size", "media_type"}]}`; the resource is a prefix of keys."""

    provider_class = ProviderClass.IDEMPOTENT

    def __init__(self, kind: str, *, staging: Objects, target: Objects) -> None:
        self.kind = kind
        self._staging = staging
        self._target = target

    def validate(self, run_id: str, resource: str, params: Json) -> None:
        """Every source lies below `runs/<run_id>/`; every key, with the resource before it, is a plain path."""
        if set(params) != {"objects"}:
            raise BadRequest("params must have exactly the member objects.")
        keys = {"key": None, "source": f"runs/{run_id}"}
        items = check_items("params.objects", params["objects"], _MEMBERS, keys)
        check_different("params.objects", items, "key")
        try:
            for item in items:
                check_key(_final_key(resource, item))
        except BadKey as error:
            raise BadRequest(error.message) from None

    def send(self, action: Action, deadline: Deadline) -> Outcome:
        """Read what is staged, look at what lies under the keys, and put what is missing.

        Until the first put nothing can have happened, so whatever does not answer is definite. Behind it, an answer
        that stays out leaves the outcome unknown; so do other bytes that appear under a key since it was looked at,
        because some objects may have been put.
        """
        items = action.params["objects"]
        staged = read_staged(self._staging, items)
        if not isinstance(staged, list):
            return staged
        obstacle = self._look_first(action)
        if obstacle is not None:
            return obstacle
        deadline.check()
        keys = [(_final_key(action.resource, item), item["media_type"]) for item in items]
        return self._applied(action, place(self._target, keys, staged, deadline=deadline))

    def lookup(self, action: Action) -> Found:
        """Read every key back. Other bytes under one are for `send` to refuse, so they count as absent."""
        wanted = [(_final_key(action.resource, item), item["digest"]) for item in action.params["objects"]]
        found = find_placed(self._target, wanted)
        return self._applied(action, found) if isinstance(found, list) else found

    def _look_first(self, action: Action) -> Refused | NotSent | None:
        for item in action.params["objects"]:
            key = _final_key(action.resource, item)
            try:
                found = self._target.look(key)
            except ObjectMissing:
                continue
            except ObjectsUnreachable as error:
                return NotSent(error.message)
            if found.digest != item["digest"]:
                digests = f"{found.digest[:12]}…, not {item['digest'][:12]}…"
                return Refused(f"The object {key} exists with the digest {digests}.")
        return None

    def _applied(self, action: Action, stored: list[Stored]) -> Applied:
        objects = [
            {"key": one.key, "digest": one.digest, "size": one.size, "media_type": item["media_type"]}
            | ({"e_tag": one.e_tag} if one.e_tag else {})
            | ({"version": one.version} if one.version else {})
            for one, item in zip(stored, action.params["objects"], strict=True)
        ]
        receipt: Json = {"store": self._target.url, "resource": action.resource, "objects": objects}
        return Applied(provider_id=action.resource, receipt=receipt)


def _final_key(resource: str, item: Json) -> str:
    return f"{resource}/{item['key']}"


def _environment(given: ObjectSettings, context: Context) -> dict[str, str]:
    """What the store's client is told: these settings where there are any, else the environment.

    `ONWARD_OBJECTS_*` is about the store in which objects are staged, and is never meant here.
    """
    said = {"ENDPOINT_URL_S3": given.endpoint, "REGION": given.region}
    for name in ("access_key_id", "secret_access_key", "session_token"):
        env, file = getattr(given, f"{name}_env"), getattr(given, f"{name}_file")
        value = secret(name, env=env, file=file, folder=context.folder)
        said[name.upper()] = value.get_secret_value() if value else None
    found = {f"AWS_{name}": value for name, value in said.items() if value}
    inherited = {name: value for name, value in os.environ.items() if name.startswith("AWS_")}
    if "AWS_SECRET_ACCESS_KEY" in found:  # a session token of other keys does not belong to these
        inherited.pop("AWS_SESSION_TOKEN", None)
    return inherited | found
