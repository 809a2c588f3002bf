"""Kinds from a TOML file: which type of provider performs them, with which settings, and who approves them.

    [kinds."ticket.create"]
    type = "http"                       # an entry point of the group `onward_ledger.providers`
    deadline_seconds = 10
    base_url = "https://tickets.example.com"

    [kinds."ticket.create".approval]
    role = "lead"
    approvers = 2

A type is a `Factory`: `from_settings(kind, settings, context) -> Provider`, found by its entry point. It gets what
stands under the kind, without the members that every kind can have (`Common`): those are checked and set here. It
reports what is wrong by a pydantic ValidationError or a BadRequest; the file and the kind are put in front here.

A kind that is built in has no `type`: only its approval, what takes it back, and its times can be set.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any, Literal, cast

from pydantic import Field, SecretStr, ValidationError, model_validator

from onward_ledger.errors import BadRequest
from onward_ledger.masking import keep_secret
from onward_ledger.objects import Objects
from onward_ledger.providers.compensation import Compensate, check_compensations
from onward_ledger.providers.interface import ApprovalPolicy, Provider, ProviderClass, SendingProvider
from onward_ledger.providers.settings import Closed as Closed

GROUP = "onward_ledger.providers"
KIND = re.compile(r"[A-Za-z0-9_.:#-]{1,100}")
LARGEST_FILE = 1024 * 1024


@dataclass(frozen=True, kw_only=True)
class Context:
    """What a factory may use: where objects lie, and the folder from which relative paths of the file are taken."""

    objects: Objects
    folder: Path


Settings = dict[str, Any]
Factory = Callable[[str, Settings, Context], Provider]


class Approval(Closed):
    """`[kinds.X.approval]`; see ApprovalPolicy. `required = false`: nobody has to, whatever the type says."""

    required: bool = True
    role: str | None = Field(default=None, min_length=1, max_length=100)
    principals: frozenset[str] = frozenset()
    approvers: Literal[1, 2] = 1

    @model_validator(mode="after")
    def _enough(self) -> Approval:
        if not self.required and len(self.model_fields_set) > 1:
            raise ValueError("who approves is said of an approval that is not required")
        if self.principals and len(self.principals) < self.approvers:
            raise ValueError(f"{self.approvers} approvers are asked for, and principals names {len(self.principals)}")
        return self

    def policy(self) -> ApprovalPolicy | None:
        """What the ledger goes by."""
        policy = ApprovalPolicy(role=self.role, principals=self.principals, approvers=self.approvers)
        return policy if self.required else None


class Common(Closed):
    """What every kind can have. Times are in seconds; what is not given stays as the type declares it."""

    approval: Approval | None = None
    editable: frozenset[str] | None = None
    compensate: Compensate | None = None
    deadline_seconds: float | None = Field(default=None, gt=0, le=600, allow_inf_nan=False)
    request_lifetime_seconds: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    settle_window_seconds: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    resend_after_absent: bool | None = None


def configure(
    providers: Mapping[str, Provider], config: Path, objects: Objects, types: Mapping[str, EntryPoint] | None = None
) -> dict[str, Provider]:
    """The built-in `providers` with what the file changes of them, and the kinds that it adds.

    BadRequest names the file, the kind and the key. `types` are the entry points, by name.
    """
    context = Context(objects=objects, folder=config.resolve().parent)
    types = installed_types() if types is None else types
    configured = dict(providers)
    for kind, settings in _read(config).items():
        where = f'{config}: kinds."{kind}"'
        common, own = _split(where, kind, settings)
        if kind in providers:
            _keep_built_in(where, own)
        else:
            configured[kind] = _made(where, kind, own, context, types)
        _declare(where, configured[kind], common)
    check_compensations(configured, f"{config}: ")
    return configured


def installed_types() -> dict[str, EntryPoint]:
    """Every installed type of provider, by the name that a file says it by."""
    return {point.name: point for point in entry_points(group=GROUP)}


def secret(name: str, *, env: str | None, file: str | None, folder: Path) -> SecretStr | None:
    """The secret that `<name>_env` or `<name>_file` leads to; None when neither is given.

    A file's last line break is no part of it. It is masked in logs and receipts from here on. BadRequest says what is
    missing, never what was read.
    """
    if env is not None and file is not None:
        raise BadRequest(f"{name}_env and {name}_file are both given; one of them is enough.")
    if env is not None:
        value = os.environ.get(env)
        if value is None:
            raise BadRequest(f"{name}_env: the environment variable {env} is not set.")
    elif file is not None:
        try:
            value = (folder / Path(file).expanduser()).read_text(encoding="utf-8").rstrip("\r\n")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not text"
            raise BadRequest(f"{name}_file: {file} cannot be read: {reason}.") from None
    else:
        return None
    if not value.strip():
        raise BadRequest(f"{name}: the secret is empty.")
    keep_secret(value)
    return SecretStr(value)


def _read(config: Path) -> dict[str, Settings]:
    """The tables under `kinds`."""
    try:
        if config.stat().st_size > LARGEST_FILE:
            raise BadRequest(f"{config}: the file is larger than {LARGEST_FILE} bytes.")
        document = tomllib.loads(config.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadRequest(f"{config}: the file cannot be read: {error.strerror}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadRequest(f"{config}: the file is not TOML: {error}.") from None
    for name in document:
        if name != "kinds":
            raise BadRequest(f'{config}: {name}: this is not known; kinds are tables like [kinds."ticket.create"].')
    kinds = document.get("kinds", {})
    if not isinstance(kinds, dict):
        raise BadRequest(f"{config}: kinds: this must be a table of tables.")
    for kind, settings in cast(dict[str, object], kinds).items():
        if not KIND.fullmatch(kind):
            raise BadRequest(f'{config}: kinds."{kind}": a kind may hold letters, digits and _ . : # - only.')
        if not isinstance(settings, dict):
            raise BadRequest(f'{config}: kinds."{kind}": this must be a table.')
        if nested := [name for name, value in cast(Settings, settings).items() if _is_kind(value)]:
            quoted = f'[kinds."{kind}.{nested[0]}"]'
            raise BadRequest(f"{config}: kinds.{kind}: a kind with a dot in its name is written in quotes: {quoted}.")
    return cast(dict[str, Settings], kinds)


def _is_kind(value: object) -> bool:
    """Whether a table is a kind of its own: `[kinds.ticket.create]` is read as `create` inside of `ticket`."""
    return isinstance(value, dict) and "type" in value


def _split(where: str, kind: str, settings: Settings) -> tuple[Common, Settings]:
    names = set(Common.model_fields)
    given = {name: value for name, value in settings.items() if name in names}
    try:
        common = Common.model_validate(given)
    except ValidationError as error:
        raise BadRequest(f"{where}: {sentence(error)}") from None
    return common, {name: value for name, value in settings.items() if name not in names}


def _keep_built_in(where: str, own: Settings) -> None:
    for name in own:
        reason = "the kind is built in and has its type" if name == "type" else "this is not known of a built-in kind"
        raise BadRequest(f"{where}: {name}: {reason}.")


def _made(where: str, kind: str, own: Settings, context: Context, types: Mapping[str, EntryPoint]) -> Provider:
    name = own.pop("type", None)
    if not isinstance(name, str):
        raise BadRequest(f'{where}: type: this kind needs one, such as type = "http".')
    if name not in types:
        raise BadRequest(f"{where}: type: there is no type {name!r}; installed are {', '.join(sorted(types))}.")
    factory = _loaded(where, types[name])
    try:
        provider = cast(object, factory(kind, own, context))  # a third party's: its annotation is only its word
    except ValidationError as error:
        raise BadRequest(f"{where}: {sentence(error)}") from None
    except BadRequest as error:
        raise BadRequest(f"{where}: {error.message}") from None
    if not isinstance(provider, Provider) or getattr(provider, "kind", None) != kind:
        raise BadRequest(f"{where}: type: {types[name].value} did not make a provider of this kind.")
    return provider


def _loaded(where: str, point: EntryPoint) -> Factory:
    """The factory itself. Whatever a third party's module raises at its import is told, and ends the start."""
    try:
        factory = point.load()
    except Exception as error:
        reason = f"{type(error).__name__}: {error}".splitlines()[0].rstrip(".")
        raise BadRequest(f"{where}: type: {point.value} cannot be imported: {reason}.") from error
    if not callable(factory):
        raise BadRequest(f"{where}: type: {point.value} cannot be called.")
    return cast(Factory, factory)


def _declare(where: str, provider: Provider, common: Common) -> None:
    """Set on the instance what the file says of every kind's declarations."""
    if common.approval is not None:
        provider.approval = common.approval.policy()
    if common.editable is not None:
        provider.editable = common.editable
    if common.compensate is not None:
        provider.compensation = common.compensate.value()
    times = ("deadline_seconds", "request_lifetime_seconds", "settle_window_seconds", "resend_after_absent")
    for name in times:
        value = getattr(common, name)
        if value is not None:
            if not isinstance(provider, SendingProvider):
                raise BadRequest(f"{where}: {name}: a transactional kind sends nothing.")
            setattr(provider, name, value)
    if isinstance(provider, SendingProvider) and provider.resend_after_absent:
        _check_resend(where, provider)


def _check_resend(where: str, provider: SendingProvider) -> None:
    if provider.provider_class is ProviderClass.OPAQUE or not provider.looks_up:
        raise BadRequest(f"{where}: resend_after_absent: only a kind that can be looked up can be found absent.")


def sentence(error: ValidationError) -> str:
    """The first thing that is wrong, as `key: what.`; the value itself is not told, since it may be a secret."""
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    key = ".".join(str(part) for part in first["loc"]) or "settings"
    text = first["msg"].removeprefix("Value error, ").rstrip(".")
    if first["type"] == "extra_forbidden":
        text = "this is not known"
    return f"{key}: {text[:1].lower()}{text[1:]}."
