"""The provider type `mail`: a mail over SMTP.

Class opaque: a mail server can be asked neither whether it took a mail, nor to take it only once. So a mail whose
reply is missing stays UNKNOWN until a person settles it, and is never sent again by itself. What a server says no to
before the content, or in reply to it, is definite. The Message-ID is the action's id: a person finds the mail by it in
the server's log or in a mailbox, and a mailbox that is sent it twice can drop one.
"""

from __future__ import annotations

import hashlib
import ipaddress
import ssl
from email.headerregistry import Address
from email.utils import getaddresses
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Literal

from pydantic import Field

from onward_ledger.action import Action, Json
from onward_ledger.errors import BadRequest
from onward_ledger.objects import Objects
from onward_ledger.providers.configured import Closed, Context, secret
from onward_ledger.providers.interface import (
    Applied,
    Deadline,
    NotSent,
    Outcome,
    ProviderClass,
    Refused,
    SendingProvider,
)
from onward_ledger.providers.mail_message import (
    address_of,
    check_params,
    message_id,
    message_of,
    needs_utf8,
    recipients_of,
)
from onward_ledger.providers.mail_session import MailServer, Reply, Unready, session
from onward_ledger.providers.staged import read_staged

_PORTS = {"starttls": 587, "implicit": 465, "none": 25}


class MailSettings(Closed):
    """`sender` is an address, or `Name <address>`; `domain` is that of the Message-IDs, and the sender's by default.

    `tls` "none" is for a server on this machine only. `recipients` are patterns such as `*@example.org`, of which
    every recipient has to match one.
    """

    host: str = Field(min_length=1)
    port: int | None = Field(default=None, ge=1, le=65535)
    tls: Literal["starttls", "implicit", "none"] = "starttls"
    ca_file: str | None = None
    username: str | None = Field(default=None, min_length=1)
    password_env: str | None = None
    password_file: str | None = None
    sender: str
    domain: str | None = Field(default=None, pattern=r"^[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)*$")
    recipients: tuple[str, ...] = Field(default=("*",), min_length=1)
    largest_bytes: int = Field(default=10 * 1024 * 1024, ge=1)


def from_settings(kind: str, settings: Json, context: Context) -> Mail:
    """The provider of one kind; see MailSettings."""
    given = MailSettings.model_validate(settings)
    sender = _sender(given.sender)
    domain = given.domain or sender.domain
    if not domain.isascii():
        raise BadRequest("domain: name one in plain letters for the Message-IDs; the sender's is not.")
    server = _server(given, domain, context.folder)
    return Mail(kind, settings=given, server=server, sender=sender, domain=domain, staging=context.objects)


class Mail(SendingProvider):
    """The resource is everybody who gets the mail: the addresses, sorted, with commas between them. Params:

    `to`, `cc`      lists of addresses (`cc` may be left out)
    `subject`       one line
    `text`, `html`  the content, and the same content as HTML (may be left out)
    `attachments`   `[{"name", "source", "digest", "size", "media_type"}]` (may be left out)
    """

    provider_class = ProviderClass.OPAQUE
    looks_up = False

    def __init__(
        self, kind: str, *, settings: MailSettings, server: MailServer, sender: Address, domain: str, staging: Objects
    ) -> None:
        self.kind = kind
        self._settings = settings
        self._server = server
        self._sender = sender
        self._domain = domain
        self._staging = staging

    def validate(self, run_id: str, resource: str, params: Json) -> None:
        """Addresses are plain and allowed; the subject is one line; sources lie below `runs/<run_id>/`."""
        check_params(run_id, params, largest_bytes=self._settings.largest_bytes)
        recipients = recipients_of(params)
        for address in recipients:
            if not any(fnmatchcase(address.lower(), pattern.lower()) for pattern in self._settings.recipients):
                raise BadRequest(f"{address} is none of the recipients {', '.join(self._settings.recipients)}.")
        if resource != ",".join(recipients):
            raise BadRequest("The resource must be the addresses of to and cc, sorted, with commas between them.")

    def send(self, action: Action, deadline: Deadline) -> Outcome:
        """Hand the mail to the server, to all recipients or to none.

        Until its content is sent nothing can have happened. Behind that, the server's reply decides; without one the
        outcome is unknown.
        """
        staged = read_staged(self._staging, action.params.get("attachments", []))
        if not isinstance(staged, list):
            return staged
        try:
            message = message_of(action, sender=self._sender, domain=self._domain, attachments=staged)
        except Exception as error:  # whatever the library does not like: nothing was sent, and nobody needs to ask
            return Refused(f"The mail cannot be written: {error}")
        utf8 = needs_utf8(action.params, self._sender)
        try:
            with session(self._server, deadline) as server:
                recipients = recipients_of(action.params)
                no = server.address(self._sender.addr_spec, recipients, len(message), utf8=utf8)
                if no is not None:
                    return no
                deadline.check()
                no = server.announce()
                if no is not None:
                    return no
                deadline.check()  # the permission may have taken its time, and counts for nothing yet
                return self._outcome(action, message, server.content(message))
        except Unready as error:
            return NotSent(f"The mail server was not ready: {error}")

    def _outcome(self, action: Action, message: bytes, reply: Reply) -> Outcome:
        if not 200 <= reply.code < 600 or 300 <= reply.code < 400:
            raise ConnectionError(f"The mail server's reply to the mail makes no sense: {reply}")
        if not reply.positive:
            return reply.no("did not take the mail")
        identity = message_id(action, self._domain)
        receipt: Json = {
            "message_id": identity,
            "recipients": recipients_of(action.params),
            "digest": hashlib.sha256(message).hexdigest(),
            "size": len(message),
            "server": f"{self._server.host}:{self._server.port}",
            "reply": str(reply),
        }
        return Applied(provider_id=identity, receipt=receipt)


def _sender(text: str) -> Address:
    found = getaddresses([text])
    if len(found) != 1:
        raise BadRequest("sender: this must be one address, or Name <address>.")
    name, address = found[0]
    if "=?" in text:
        raise BadRequest("sender: write the name as plain text; it is encoded for the mail.")
    try:
        plain = address_of(address)
        return Address(display_name=name, username=plain.username, domain=plain.domain)
    except ValueError as error:
        raise BadRequest(f"sender: {error}.") from None


def _server(given: MailSettings, name: str, folder: Path) -> MailServer:
    password = secret("password", env=given.password_env, file=given.password_file, folder=folder)
    if (given.username is None) != (password is None):
        raise BadRequest("username and password (by password_env or password_file) go together.")
    if given.username and password and not (given.username + password.get_secret_value()).isascii():
        raise BadRequest("username and password must be ASCII: the log-in of SMTP has no other letters.")
    if given.tls == "none" and not _is_loopback(given.host):
        raise BadRequest("tls: without TLS a mail is only given to a server on this machine.")
    context = None
    if given.tls != "none":
        try:
            context = ssl.create_default_context(cafile=str(folder / given.ca_file) if given.ca_file else None)
        except (OSError, ssl.SSLError) as error:
            raise BadRequest(f"ca_file: {given.ca_file} cannot be used: {error}.") from None
    return MailServer(
        host=given.host,
        port=given.port or _PORTS[given.tls],
        tls=given.tls,
        context=context,
        username=given.username,
        password=password,
        name=name,
    )


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"
