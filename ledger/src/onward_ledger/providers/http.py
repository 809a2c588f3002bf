"""The type `http`: one request at any API, described by settings.

    idempotent   the action id goes into a header that the API deduplicates by, for as long as it says
    queryable    the action id goes somewhere into the effect, and the API can be searched for it
    opaque       neither: what gets lost is for a person

What an answer means:

    2xx                          the effect is there, if the answer holds what the settings promise of it
    `refused` (400, 401, 403 …)  definitely not, and never
    `not_accepted` (429)         definitely not, not now
    no connection, no TLS        nothing was written: not now
    all else                     nobody knows: 5xx, redirects, 409, time-outs, cut connections, an answer without its id
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlencode
from uuid import UUID

from pydantic import SecretStr

from onward_ledger.action import Action, Json
from onward_ledger.canonical import canonical
from onward_ledger.errors import BadRequest
from onward_ledger.masking import masked
from onward_ledger.providers.addresses import Guard, Resolve, system_resolve
from onward_ledger.providers.configured import Context, Settings, secret
from onward_ledger.providers.http_exchange import Answer, Exchange, Lost, NotJson, NotWritten, Request, tls_context
from onward_ledger.providers.http_receipt import identifier, members
from onward_ledger.providers.http_settings import Expected, HttpSettings, LookUp, Marker
from onward_ledger.providers.http_template import MISSING, Pointer, Values, header_value
from onward_ledger.providers.interface import (
    Absent,
    Applied,
    CannotTell,
    Deadline,
    DeadlinePassed,
    Found,
    NotSent,
    Outcome,
    Refused,
    SendingProvider,
    Several,
)
from onward_ledger.receipts import fit

_NO_ACTION = str(UUID(int=0))  # stands for the id while a request is checked that has none yet
_LONGEST_QUOTE = 300
_MOST_LOOKED_AT = 1 << 16  # bytes of a body that are searched for secrets, of which the quote is the beginning


class Doubtful(Exception):
    """An answer came that says neither yes nor no."""


class HttpProvider(SendingProvider):
    """One kind at one API. `secrets` are whole values of headers; `resolve` finds the addresses of its host."""

    def __init__(
        self,
        kind: str,
        settings: HttpSettings,
        *,
        secrets: Mapping[str, SecretStr] | None = None,
        tls: ssl.SSLContext | None = None,
        resolve: Resolve = system_resolve,
    ) -> None:
        self.kind = kind
        self.provider_class = settings.provider_class
        self.looks_up = settings.lookup is not None
        if settings.key is not None:
            self.key_lifetime_seconds = settings.key.lifetime_seconds
        self._settings = settings
        self._secrets = dict(secrets or {})
        origin = settings.origin
        self._host = origin.authority
        self._exchange = Exchange(
            origin,
            Guard([origin.host], settings.allow_addresses, resolve=resolve),
            tls=tls,
            keep_alive_seconds=settings.keep_alive,
            connections=settings.connections,
            most_answer_bytes=settings.most_answer_bytes,
        )

    def validate(self, run_id: str, resource: str, params: Json) -> None:
        """Whatever a request can be made of can be meant; the API says the rest."""
        values = Values(action_id=_NO_ACTION, run_id=run_id, resource=resource, params=params)
        self._request(values)
        if self._settings.lookup is not None:
            self._question(self._settings.lookup, values)

    def send(self, action: Action, deadline: Deadline) -> Outcome:
        """Write the request once. Lost and Doubtful leave the outcome unknown."""
        try:
            request = self._request(_values(action))
        except BadRequest as error:  # the settings are not those under which it was recorded
            return NotSent(f"The settings do not fit the action: {error.message}")
        try:
            answer = self._exchange.ask(request, deadline)
        except NotWritten as error:
            return fit(NotSent(f"{self._host} was not reached: {error}."))
        except Lost as error:
            raise Lost(masked(f"{self._host}: {error}")) from None
        outcome = self._outcome(action, answer)
        if isinstance(outcome, Applied) and self._settings.lookup is not None and self._settings.lookup.read_back:
            outcome = self._read_back(action, outcome, deadline)
        return fit(outcome)

    def lookup(self, action: Action) -> Found:
        """Search for the marker. Anything but a whole, plain answer is no answer."""
        settings = self._settings.lookup
        if settings is None:
            return super().lookup(action)
        return self._look(action, settings, Deadline(settings.deadline_seconds))

    def _look(self, action: Action, settings: LookUp, deadline: Deadline) -> Found:
        try:
            request = self._question(settings, _values(action))
            answer = self._exchange.ask(request, deadline)
        except (NotWritten, Lost, DeadlinePassed, BadRequest) as error:
            return fit(CannotTell(f"{self._host} could not be asked: {error}"))
        try:
            return fit(self._found(action, answer, settings))
        except (Doubtful, NotJson) as error:
            return fit(CannotTell(f"{self._host} was asked: {error}"))

    def _read_back(self, action: Action, applied: Applied, deadline: Deadline) -> Applied:
        """The success, if it can be found; a success that cannot is no proof of anything."""
        settings = self._settings.lookup
        assert settings is not None, "only what can be looked up is read back"
        left = Deadline(min(settings.deadline_seconds, deadline.remaining))
        match self._look(action, settings, left):
            case Applied(provider_id=provider_id, receipt=receipt):
                return Applied(provider_id=provider_id, receipt=applied.receipt | {"read_back": receipt})
            case CannotTell(reason):
                raise Doubtful(f"It was a success by its answer, and could not be read back: {reason}")
            case Absent():
                raise Doubtful(f"{self._host} answered with success, and does not have it.")
            case Several(effects):
                raise Doubtful(f"{self._host} answered with success, and has it {len(effects)} times.")

    def close(self) -> None:
        """Close what connections are kept."""
        self._exchange.close()

    # --- the request --------------------------------------------------------------------------------------------------

    def _request(self, values: Values) -> Request:
        settings, marker = self._settings, self._settings.marker or Marker.model_construct()
        headers = self._headers(values)
        if settings.key is not None:
            headers.append((settings.key.header, values.action_id))
        if marker.header is not None:
            headers.append((marker.header, values.action_id))
        document: Json | None = None
        if settings.tree is not None:
            document = settings.tree.render(values)
        elif settings.body == "params":
            document = values.params
        if marker.body is not None:
            document = marker.body.put(document or {}, values.action_id)
        body = b""
        if document is not None:
            content_type, body = _encoded(document, settings.encoding)
            headers.append(("Content-Type", content_type))
        more = {marker.query: values.action_id} if marker.query is not None else None
        target = settings.path.render(settings.base_path, values, more)
        return Request(method=settings.method, target=target, headers=headers, body=body)

    def _question(self, settings: LookUp, values: Values) -> Request:
        target = settings.path.render(self._settings.base_path, values)
        return Request(method="GET", target=target, headers=self._headers(values))

    def _headers(self, values: Values) -> list[tuple[str, str]]:
        headers = [(name, template.header(values)) for name, template in self._settings.headers.items()]
        return headers + [(name, value.get_secret_value()) for name, value in self._secrets.items()]

    # --- the answer ---------------------------------------------------------------------------------------------------

    def _outcome(self, action: Action, answer: Answer) -> Outcome:
        settings = self._settings
        if 200 <= answer.status <= 299:
            return self._success(action, answer)
        if answer.status in settings.refused:
            return Refused(self._said(answer))
        if answer.status in settings.not_accepted:
            return NotSent(self._said(answer))
        raise Doubtful(f"{self._said(answer)} That does not tell whether it happened.")

    def _success(self, action: Action, answer: Answer) -> Applied | Refused:
        """A status of success is believed, unless the answer lacks what the settings promise of it.

        An answer that is too large to be read is still one: the effect is there, and its id is not known here.
        """
        reading = self._settings.answer
        try:
            document = answer.document
        except NotJson as error:
            if reading.success or reading.refusal:
                raise Doubtful(f"{self._host} answered {answer.status}, and: {error}") from None
            document = MISSING
        if reading.refusal and _holds(reading.refusal, document):
            return Refused(self._said(answer))
        if not _holds(reading.success, document):
            raise Doubtful(f"{self._host} answered {answer.status} without what tells success.")
        provider_id = action.action_id
        if reading.provider_id is not None and not answer.truncated:
            provider_id = self._identifier(reading.provider_id, document)
        receipt = self._receipt(answer, document, reading.receipt)
        return Applied(provider_id=provider_id, receipt=receipt)

    def _found(self, action: Action, answer: Answer, settings: LookUp) -> Found:
        if answer.status in settings.absent_status:
            return Absent()
        if not 200 <= answer.status <= 299:
            raise Doubtful(f"it answered {answer.status}.")
        results = self._results(answer, settings)
        ours = [item for item in results if _is_marked(item, settings, action.action_id)]
        if not ours and (settings.results is None or any(_marker(item, settings) is None for item in results)):
            raise Doubtful(f"it found something that does not have the action's id at {settings.marker.text}.")
        effects = self._effects(ours, answer, settings)
        if len(effects) > 1:
            return Several(tuple(effects.values()))
        if not _is_complete(answer, settings, len(results)):
            raise Doubtful("the answer is not all that there is.")
        return next(iter(effects.values()), Absent())

    def _results(self, answer: Answer, settings: LookUp) -> list[object]:
        if settings.results is None:
            return [answer.document]
        results: object = settings.results.get(answer.document)
        if not isinstance(results, list):
            raise Doubtful(f"its answer has no list at {settings.results.text or 'its top'}.")
        return cast(list[object], results)

    def _effects(self, ours: list[object], answer: Answer, settings: LookUp) -> dict[str, Applied]:
        """By id: an API whose pages overlap lists the same effect twice."""
        kept = self._settings.answer.receipt if settings.receipt is None else settings.receipt
        effects: dict[str, Applied] = {}
        for item in ours:
            provider_id = self._identifier(settings.id, item)
            receipt = {"found_by": "look-up"} | self._receipt(answer, item, kept)
            effects[provider_id] = Applied(provider_id=provider_id, receipt=receipt)
        return effects

    def _identifier(self, pointer: Pointer, document: object) -> str:
        found = identifier(pointer.get(document))
        if found is None:
            raise Doubtful(f"The answer of {self._host} has no id at {pointer.text}.")
        return found

    def _receipt(self, answer: Answer, document: object, kept: Mapping[str, Pointer]) -> Json:
        receipt: Json = {"api": self._host, "status": answer.status}
        receipt |= {"digest": answer.digest, "size": len(answer.body)}
        receipt |= {"truncated": True} if answer.truncated else {}
        receipt |= {"date": answer.headers["date"]} if "date" in answer.headers else {}
        return receipt | {"members": members(document, kept)}

    def _said(self, answer: Answer) -> str:
        """A status and the beginning of its body, for a person. A secret that the API says back is masked uncut."""
        body = " ".join(masked(answer.body[:_MOST_LOOKED_AT].decode("utf-8", "replace")).split())
        cut = body if len(body) <= _LONGEST_QUOTE else body[:_LONGEST_QUOTE] + "…"
        return f"{self._host} answered {answer.status}" + (f": {cut}" if cut else ".")


def from_settings(kind: str, settings: Settings, context: Context) -> HttpProvider:
    """The factory of the type `http`."""
    parsed = HttpSettings.model_validate(settings)
    secrets = {name: _secret(name, parsed, context) for name in parsed.secret_headers}
    tls = _tls(parsed, context.folder) if parsed.origin.scheme == "https" else None
    return HttpProvider(kind, parsed, secrets=secrets, tls=tls)


def _secret(name: str, settings: HttpSettings, context: Context) -> SecretStr:
    given = settings.secret_headers[name]
    value = secret("value", env=given.value_env, file=given.value_file, folder=context.folder)
    assert value is not None, "one of the two is given"
    whole = given.prefix + value.get_secret_value()
    try:
        return SecretStr(header_value(whole))
    except BadRequest:
        raise BadRequest(f"secret_headers.{name}: the secret holds what no header can.") from None


def _tls(settings: HttpSettings, folder: Path) -> ssl.SSLContext:
    def path(file: str | None) -> str | None:
        return None if file is None else str(folder / Path(file).expanduser())

    given = settings.tls
    try:
        return tls_context(
            ca_file=path(given.ca_file),
            client_certificate=path(given.client_certificate_file),
            client_key=path(given.client_key_file),
        )
    except OSError as error:
        raise BadRequest(f"tls: a file cannot be used: {error.strerror or error}.") from None


def _values(action: Action) -> Values:
    return Values(action_id=action.action_id, run_id=action.run_id, resource=action.resource, params=action.params)


def _encoded(document: Json, encoding: str) -> tuple[str, bytes]:
    """Canonical, so that a request that is sent again is the same to the byte."""
    if encoding == "json":
        return "application/json", canonical(document)
    fields: list[tuple[str, str]] = []
    for name, value in sorted(document.items()):
        if not isinstance(value, str | bool | int | float):
            raise BadRequest(f"{name} must be text, a number, true or false: a form has no more than that.")
        fields.append((name, value if isinstance(value, str) else canonical(value).decode()))
    try:
        return "application/x-www-form-urlencoded", urlencode(fields).encode("ascii")
    except UnicodeEncodeError:
        raise BadRequest("A value of the form is not valid text.") from None


def _holds(expected: Expected, document: object) -> bool:
    """Whether every member is there and what it has to be; JSON's true is not its 1."""
    found = [(Pointer(pointer).get(document), value) for pointer, value in expected.items()]
    return all(isinstance(one, bool) == isinstance(value, bool) and one == value for one, value in found)


def _marker(item: object, settings: LookUp) -> str | None:
    text: Any = settings.marker.get(item)
    return text if isinstance(text, str) else None


def _is_marked(item: object, settings: LookUp, action_id: str) -> bool:
    text = _marker(item, settings)
    return text == action_id if settings.marker_match == "equals" else action_id in (text or "")


def _is_complete(answer: Answer, settings: LookUp, count: int) -> bool:
    if 'rel="next"' in answer.headers.get("link", "") or "rel=next" in answer.headers.get("link", ""):
        return False
    if settings.next is not None:
        return settings.next.get(answer.document) in (MISSING, None, False, "")
    if settings.total is not None:
        total = settings.total.get(answer.document)
        return isinstance(total, int) and not isinstance(total, bool) and total <= count
    return _holds(settings.complete, answer.document)
