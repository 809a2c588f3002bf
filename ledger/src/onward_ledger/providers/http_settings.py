"""The settings of a kind of type `http`, checked when the service starts; what goes where is in docs/adopting.md."""

from __future__ import annotations

import re
from ipaddress import ip_network
from typing import Annotated, Any, Literal, cast
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from onward_ledger.action import Json
from onward_ledger.errors import BadRequest
from onward_ledger.providers.addresses import Network
from onward_ledger.providers.configured import Closed
from onward_ledger.providers.http_exchange import Origin
from onward_ledger.providers.http_template import Pointer, Template, Tree, UrlTemplate, header_value, literal_path
from onward_ledger.providers.interface import ProviderClass

# A definite no of an API that means what HTTP means. 408, 409, 423, 425 are not here: each of them can be said while
# the request, or the one before it with the same key, is under way.
REFUSED = (400, 401, 403, 404, 405, 406, 410, 411, 413, 414, 415, 422)
NOT_ACCEPTED = (429,)

_TOKEN = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_OURS = {"host", "content-length", "content-type", "transfer-encoding", "connection", "accept-encoding", "expect", "te"}
_SECRET = {"authorization", "proxy-authorization", "cookie"}


def _header_name(name: str) -> str:
    if not _TOKEN.fullmatch(name):
        raise ValueError(f"{name!r} is not the name of a header")
    if name.lower() in _OURS:
        raise ValueError(f"the header {name} is set by this provider itself")
    return name


def _checked(name: str, value: str) -> None:
    try:
        header_value(value)
    except BadRequest as error:
        raise ValueError(f"{name}: {error.message}") from None


def _parsed(kind: Any) -> BeforeValidator:
    """Read text into a template or pointer; what it raises names the key."""

    def parse(value: object) -> object:
        if not isinstance(value, str):
            raise ValueError("this must be text")
        return kind(value)

    return BeforeValidator(parse)


def _expected(members: dict[str, Any]) -> dict[str, Any]:
    for pointer, value in members.items():
        Pointer(pointer)
        if not isinstance(value, str | int | float | bool):
            raise ValueError(f"{pointer}: this must be text, a number, true or false")
    return members


def _body(value: object) -> object:
    if value not in ("params", "none") and not isinstance(value, dict):
        raise ValueError('this must be "params", "none" or a table')
    return Tree(cast(Json, value)) if isinstance(value, dict) else value


HeaderName = Annotated[str, AfterValidator(_header_name)]
JsonPointer = Annotated[Pointer, _parsed(Pointer)]
HeaderTemplate = Annotated[Template, _parsed(Template)]
Path = Annotated[UrlTemplate, _parsed(UrlTemplate)]
Status = Annotated[int, Field(ge=300, le=599)]
Net = Annotated[Network, BeforeValidator(lambda text: ip_network(text) if isinstance(text, str) else text)]
# What members of an answer have to be, by pointer: text, a number, true or false.
Expected = Annotated[dict[str, Any], AfterValidator(_expected)]
Body = Annotated[Any, AfterValidator(_body)]
Lifetime = Annotated[float | None, BeforeValidator(lambda value: None if value == "unlimited" else value)]


class _Settings(Closed, BaseModel):
    model_config = ConfigDict(arbitrary_types_allowed=True)


class SecretHeader(_Settings):
    """The value of a header, from the environment or a file, with what stands in front of it."""

    value_env: str | None = None
    value_file: str | None = None
    prefix: str = ""

    @model_validator(mode="after")
    def _one(self) -> SecretHeader:
        if (self.value_env is None) == (self.value_file is None):
            raise ValueError("a secret needs one of value_env and value_file")
        return self


class Key(_Settings):
    """The idempotency key: which header holds the action id, and how long the API remembers it (None: for ever)."""

    header: HeaderName = "Idempotency-Key"
    lifetime_seconds: Lifetime = Field(gt=0, allow_inf_nan=False)


class Marker(_Settings):
    """Where the action id goes so that the effect can be found by it. One of the three."""

    body: JsonPointer | None = None
    header: HeaderName | None = None
    query: str | None = Field(default=None, min_length=1, max_length=100)

    @model_validator(mode="after")
    def _one(self) -> Marker:
        if [self.body, self.header, self.query].count(None) != 2:
            raise ValueError("a marker goes to one of body, header and query")
        if self.body is not None and not self.body.text:
            raise ValueError("a marker needs a member of its own, as in /metadata/reference")
        return self


class Reading(_Settings):
    """What an answer of success holds.

    `provider_id`: where the API's own id of the effect is. `receipt`: further members to keep, by name. `success` and
    `refusal`: for an API that answers 2xx in any case, which members tell a yes and a no.
    """

    provider_id: JsonPointer | None = None
    receipt: dict[str, JsonPointer] = Field(default_factory=dict, max_length=20)
    success: Expected = Field(default_factory=dict)
    refusal: Expected = Field(default_factory=dict)


class LookUp(_Settings):
    """How an effect is searched for by its marker; changes nothing.

    `results` leads to the list of what was found; without it the answer itself is the one effect. A list is believed
    to be all there is if `complete` holds (members and what they have to be), or nothing stands at `next`, or it has as
    many items as the number at `total` says, or the API has no pages (`single_page`). `marker` leads to the action id
    in each effect: what has another one there is not ours. `absent_status`: what the API answers when there is none.
    `read_back`: a success is believed only when it is found, too.
    """

    path: Path
    results: JsonPointer | None = None
    id: JsonPointer
    marker: JsonPointer
    marker_match: Literal["equals", "contains"] = "equals"
    complete: Expected = Field(default_factory=dict)
    next: JsonPointer | None = None
    total: JsonPointer | None = None
    single_page: bool = False
    absent_status: tuple[Literal[404, 410], ...] = ()
    receipt: dict[str, JsonPointer] | None = Field(default=None, max_length=20)
    deadline_seconds: float = Field(default=10.0, gt=0, le=600, allow_inf_nan=False)
    read_back: bool = False

    @model_validator(mode="after")
    def _can_tell(self) -> LookUp:
        if "action_id" not in self.path.names():
            raise ValueError("the path of a look-up needs the field {action_id}")
        told = bool(self.complete) + (self.next is not None) + (self.total is not None) + self.single_page
        if self.results is not None and told != 1:
            raise ValueError("a list of results needs one of complete, next, total and single_page: is it all of it?")
        if self.results is None and (told or not self.absent_status):
            raise ValueError("without results, absent_status says what the API answers when there is none")
        return self


class Tls(_Settings):
    """Files for TLS, relative to the configuration's folder. Certificates are always verified."""

    ca_file: str | None = None
    client_certificate_file: str | None = None
    client_key_file: str | None = None


class HttpSettings(_Settings):
    """A kind of type `http`."""

    provider_class: ProviderClass = Field(alias="class")
    base_url: str
    method: Literal["POST", "PUT", "PATCH", "DELETE"] = "POST"
    path: Path
    headers: dict[HeaderName, HeaderTemplate] = Field(default_factory=dict)
    secret_headers: dict[HeaderName, SecretHeader] = Field(default_factory=dict)
    body: Body = "params"
    encoding: Literal["json", "form"] = "json"
    key: Key | None = None
    marker: Marker | None = None
    answer: Reading = Field(default_factory=Reading)
    lookup: LookUp | None = None
    refused: frozenset[Status] = frozenset(REFUSED)
    not_accepted: frozenset[Status] = frozenset(NOT_ACCEPTED)
    allow_addresses: tuple[Net, ...] = ()
    plain_http: bool = False
    tls: Tls = Field(default_factory=Tls)
    keep_alive_seconds: float | None = Field(default=None, ge=0, le=300)
    connections: int = Field(default=20, ge=1, le=1000)
    most_answer_bytes: int = Field(default=1024 * 1024, ge=1024, le=64 * 1024 * 1024)

    @property
    def origin(self) -> Origin:
        """Scheme, host and port of the base URL."""
        parts = urlsplit(self.base_url)
        port = parts.port or {"http": 80, "https": 443}[parts.scheme]
        return Origin(scheme=parts.scheme, host=parts.hostname or "", port=port)

    @property
    def base_path(self) -> str:
        """What every path begins with."""
        return urlsplit(self.base_url).path.rstrip("/")

    @property
    def keep_alive(self) -> float:
        """How long a connection is kept: by default only where a request that got lost is safe to send again."""
        if self.keep_alive_seconds is not None:
            return self.keep_alive_seconds
        return 15.0 if self.provider_class is ProviderClass.IDEMPOTENT else 0.0

    @property
    def tree(self) -> Tree | None:
        """The body's template, where it has one."""
        return self.body if isinstance(self.body, Tree) else None

    @model_validator(mode="after")
    def _base(self) -> HttpSettings:
        try:
            parts = urlsplit(self.base_url)
            usable = bool(parts.hostname) and parts.port != 0 and self.base_url.isascii()
        except ValueError:
            raise ValueError("base_url is not a URL") from None
        if parts.scheme not in ("http", "https") or not usable:
            raise ValueError("base_url must be https://host[:port][/path], in ASCII")
        if parts.scheme == "http" and not self.plain_http:
            raise ValueError("base_url is not https; say plain_http = true if nobody listens on the way")
        if parts.scheme == "http" and self.tls.model_fields_set:
            raise ValueError("tls: base_url is not https")
        if parts.username is not None or parts.query or parts.fragment:
            raise ValueError("base_url holds no user, password, query or fragment; secrets go to secret_headers")
        literal_path(parts.path)
        return self

    @model_validator(mode="after")
    def _headers(self) -> HttpSettings:
        for name in self.headers:
            if name.lower() in _SECRET:
                raise ValueError(f"headers: {name} is a secret; it goes to secret_headers")
            if not self.headers[name].names():
                _checked(name, self.headers[name].literal)
        for name, value in self.secret_headers.items():
            _checked(name, value.prefix + "x")
        every = [*self.headers, *self.secret_headers, self.key and self.key.header, self.marker and self.marker.header]
        names = [name.lower() for name in every if name]
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise ValueError(f"the header {twice} is set twice")
        return self

    @model_validator(mode="after")
    def _class(self) -> HttpSettings:
        match self.provider_class:
            case ProviderClass.IDEMPOTENT if self.key is None:
                raise ValueError("an idempotent kind needs [key] with lifetime_seconds")
            case ProviderClass.QUERYABLE if self.lookup is None:
                raise ValueError("a queryable kind needs [lookup]")
            case ProviderClass.OPAQUE if self.key is not None or self.lookup is not None:
                raise ValueError("a kind with [key] is idempotent, and one with [lookup] is queryable, not opaque")
            case ProviderClass.QUERYABLE if self.key is not None:
                raise ValueError("a kind with [key] is idempotent")
            case ProviderClass.TRANSACTIONAL:
                raise ValueError("an effect at an API cannot commit together with its record")
            case _:
                pass
        if self.lookup is not None and not self._marks():
            raise ValueError("a look-up finds nothing unless [marker], or {action_id} somewhere, puts the id there")
        return self

    @model_validator(mode="after")
    def _body(self) -> HttpSettings:
        if self.body == "none" and self.marker is not None and self.marker.body is not None:
            raise ValueError("marker.body: there is no body")
        if both := self.refused & self.not_accepted:
            raise ValueError(f"{min(both)} is in refused and in not_accepted")
        return self

    def _marks(self) -> bool:
        names = self.path.names().union(*(template.names() for template in self.headers.values()))
        names |= self.tree.names() if self.tree else set()
        return self.marker is not None or self.key is not None or "action_id" in names
