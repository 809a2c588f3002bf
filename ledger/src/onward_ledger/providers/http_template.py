"""How data gets into a request and out of an answer: templates and JSON pointers, both parsed when the service starts.

A template is text with fields: `{action_id}`, `{run_id}`, `{resource}`, `{params.NAME}`, `{params.NAME.NAME}`. A star
behind the name, as in `{resource*}`, keeps slashes in a path. `{{` and `}}` are braces. Only what the settings hold is
a template; what a field is replaced by is data and is never read as a template, a path, a header or a query.

A template over a whole record, receipt included, also knows `{step}`, `{slot}`, `{provider_id}` and `{receipt.NAME}`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import quote

from onward_ledger.action import Action, Json
from onward_ledger.canonical import canonical
from onward_ledger.errors import BadRequest

LONGEST_URL_BYTES = 8000


def _fields(names: str) -> re.Pattern[str]:
    return re.compile(rf"\{{\{{|\}}\}}|\{{(?P<name>{names})(?P<star>\*?)\}}|[{{}}]")


_OF_REQUEST = _fields(r"action_id|run_id|resource|params(?:\.[\w-]+)+")
_OF_RECORD = _fields(r"action_id|run_id|step|slot|resource|provider_id|(?:params|receipt)(?:\.[\w-]+)+")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_HEADER = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?")
_LITERAL_URL = re.compile(r"(?:[A-Za-z0-9._~!$&'()*+,;=:@/?-]|%[0-9A-Fa-f]{2})*")

MISSING: Any = object()


@dataclass(frozen=True, kw_only=True)
class Values:
    """What the fields of templates stand for."""

    action_id: str
    run_id: str
    resource: str
    params: Json

    def get(self, name: str) -> object:
        """The JSON value of a field; BadRequest where there is none."""
        root, *parts = name.split(".")
        value: object = getattr(self, root)
        if value is None:
            raise BadRequest(f"{root} is missing.")
        for part in parts:
            if not isinstance(value, dict) or part not in value:
                raise BadRequest(f"{name} is missing.")
            value = cast(Json, value)[part]
        return value


@dataclass(frozen=True, kw_only=True)
class RecordValues(Values):
    """The same of a record whose effect has happened."""

    step: str
    slot: str
    provider_id: str | None
    receipt: Json | None

    @classmethod
    def of(cls, action: Action) -> RecordValues:
        """The values of this record."""
        return cls(
            action_id=action.action_id,
            run_id=action.run_id,
            step=action.step,
            slot=action.slot,
            resource=action.resource,
            params=action.params,
            provider_id=action.provider_id,
            receipt=action.receipt,
        )


@dataclass(frozen=True)
class _Field:
    name: str
    star: bool


class Template:
    """Text with fields, of a request or of a whole record. ValueError when it is none."""

    def __init__(self, text: str, *, of_record: bool = False) -> None:
        self.parts: list[str | _Field] = []
        end = 0
        for match in (_OF_RECORD if of_record else _OF_REQUEST).finditer(text):
            self.parts.append(text[end : match.start()])
            end = match.end()
            if match["name"]:
                self.parts.append(_Field(match["name"], bool(match["star"])))
            elif match[0] in ("{{", "}}"):
                self.parts.append(match[0][0])
            else:
                raise ValueError(f"what begins with {text[match.start() :][:20]!r} is no field")
        self.parts.append(text[end:])

    @property
    def literal(self) -> str:
        """What stands outside of the fields."""
        return "".join(part for part in self.parts if isinstance(part, str))

    def names(self) -> set[str]:
        """The fields."""
        return {part.name for part in self.parts if isinstance(part, _Field)}

    def text(self, values: Values) -> str:
        """The text, with single values in it."""
        return "".join(part if isinstance(part, str) else scalar(part.name, values) for part in self.parts)

    def header(self, values: Values) -> str:
        """The text, if a header can hold it: printable ASCII, no line break."""
        return header_value(self.text(values))

    def value(self, values: Values) -> object:
        """The JSON value of a template that is one field and nothing else; the text of any other."""
        fields = [part for part in self.parts if part]
        if len(fields) == 1 and isinstance(fields[0], _Field):
            return values.get(fields[0].name)
        return self.text(values)

    def path(self, values: Values) -> str:
        """The text with fields quoted as parts of a path, which no value can leave."""
        return "".join(part if isinstance(part, str) else _quoted_path(part, values) for part in self.parts)

    def query(self, values: Values) -> str:
        """The text with fields quoted as values of a query."""
        return "".join(part if isinstance(part, str) else _quoted(part.name, values) for part in self.parts)


class UrlTemplate:
    """A path, and a query where one is given: `/boards/{params.board}/cards?ref={action_id}`. ValueError if not."""

    def __init__(self, text: str) -> None:
        if not text.startswith("/") or text.startswith("//"):
            raise ValueError("a path begins with one slash")
        path, _, query = text.partition("?")
        self._path, self._query = Template(path), Template(query)
        literal_path(self._path.literal)
        literal_path(self._query.literal)

    def names(self) -> set[str]:
        """The fields."""
        return self._path.names() | self._query.names()

    def render(self, base: str, values: Values, more: Mapping[str, str] | None = None) -> str:
        """The target below the path `base`. `more` are further values of its query, by name."""
        path = self._path.path(values)
        assert not path.startswith("//") and not _steps_out(path), "no value is empty, . or .."
        queries = [self._query.query(values)] if self._query.literal or self._query.names() else []
        queries += [f"{quote(name, safe='')}={quote(value, safe='')}" for name, value in (more or {}).items()]
        url = base + path + ("?" + "&".join(queries) if queries else "")
        if len(url) > LONGEST_URL_BYTES:
            raise BadRequest(f"The URL of the request is longer than {LONGEST_URL_BYTES} bytes.")
        return url


class Tree:
    """A JSON value whose strings are templates; keys are as they stand."""

    def __init__(self, value: object, *, of_record: bool = False) -> None:
        self._value = _planted(value, of_record)

    def names(self) -> set[str]:
        """The fields."""
        return _names(self._value)

    def render(self, values: Values) -> Any:
        """The JSON value, with data in it."""
        return _rendered(self._value, values)


class Pointer:
    """A JSON pointer (RFC 6901): `/items/0/id`; the empty one is the whole document. ValueError if it is none."""

    def __init__(self, text: str) -> None:
        if text and not text.startswith("/"):
            raise ValueError("a JSON pointer begins with a slash, as in /items/0/id")
        self.text = text
        self._parts = [part.replace("~1", "/").replace("~0", "~") for part in text.split("/")[1:]]

    def get(self, document: object) -> Any:
        """What the pointer leads to; MISSING for nothing."""
        for part in self._parts:
            if isinstance(document, dict) and part in document:
                document = cast(Json, document)[part]
            elif isinstance(document, list) and part.isdecimal() and int(part) < len(cast(list[Any], document)):
                document = cast(list[Any], document)[int(part)]
            else:
                return MISSING
        return document

    def put(self, document: Json, value: str) -> Json:
        """A copy of an object with a text at this place; BadRequest where something else stands in the way."""
        if not self._parts:
            raise BadRequest("A marker needs a member of its own.")
        return _put(document, self._parts, value, self.text)


def literal_path(text: str) -> str:
    """The text, if it can stand in a URL's path as it is. ValueError if not."""
    if not _LITERAL_URL.fullmatch(text):
        raise ValueError("a path is written as it stands in a URL, with anything unusual percent-encoded")
    if _steps_out(text):
        raise ValueError("a path has no . or .. in it")
    return text


def scalar(name: str, values: Values) -> str:
    """A field's value as text: text, a number, true or false."""
    value = values.get(name)
    if isinstance(value, str):
        return value
    if isinstance(value, bool | int | float):
        return canonical(value).decode()
    raise BadRequest(f"{name} must be text, a number, true or false.")


def header_value(text: str) -> str:
    """The text, if it is the value of a header: printable ASCII without spaces around it."""
    if not _HEADER.fullmatch(text):
        raise BadRequest("The value of a header may hold printable ASCII only, and is not empty.")
    return text


def _quoted(name: str, values: Values) -> str:
    text = scalar(name, values)
    if _CONTROL.search(text):
        raise BadRequest(f"{name} holds a control character, which no URL can.")
    try:
        return quote(text, safe="")
    except UnicodeEncodeError:
        raise BadRequest(f"{name} is not valid text.") from None


def _quoted_path(field: _Field, values: Values) -> str:
    """Refused also where it is quoted: servers are known that decode a path before they walk it."""
    text = scalar(field.name, values)
    parts = re.split(r"[/\\]", text)
    if any(part in ("", ".", "..") for part in parts):
        raise BadRequest(f"{field.name} is not usable as a part of a path.")
    quoted = _quoted(field.name, values)
    return quoted.replace("%2F", "/") if field.star else quoted


def _steps_out(path: str) -> bool:
    return any(part.replace("%2e", ".").replace("%2E", ".") in (".", "..") for part in path.split("/"))


def _planted(value: object, of_record: bool) -> object:
    if isinstance(value, str):
        return Template(value, of_record=of_record)
    if isinstance(value, dict):
        return {name: _planted(item, of_record) for name, item in cast(Json, value).items()}
    if isinstance(value, list):
        return [_planted(item, of_record) for item in cast(list[object], value)]
    return value


def _names(value: object) -> set[str]:
    if isinstance(value, Template):
        return value.names()
    items: list[object] = []
    if isinstance(value, dict):
        items = list(cast(Json, value).values())
    elif isinstance(value, list):
        items = cast(list[object], value)
    return set[str]().union(*(_names(item) for item in items))


def _rendered(value: object, values: Values) -> object:
    if isinstance(value, Template):
        return value.value(values)
    if isinstance(value, dict):
        return {name: _rendered(item, values) for name, item in cast(Json, value).items()}
    if isinstance(value, list):
        return [_rendered(item, values) for item in cast(list[object], value)]
    return value


def _put(document: Json, parts: list[str], value: str, text: str) -> Json:
    name, rest = parts[0], parts[1:]
    inner = document.get(name, {} if rest else MISSING)
    if (rest and not isinstance(inner, dict)) or (not rest and inner is not MISSING):
        raise BadRequest(f"The params have something at {text} already, where the marker goes.")
    return document | {name: _put(cast(Json, inner), rest, value, text) if rest else value}
