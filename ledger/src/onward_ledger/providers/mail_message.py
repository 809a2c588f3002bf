"""The mail of an action: what its request may say, and the bytes that follow from it.

The bytes are a pure function of the action and the sender: the Message-ID is the action's id, the date is when it was
recorded, and the boundaries between parts are made of the id. So a mail that arrives twice is one that a mailbox can
recognize, and the digest in a receipt can be recomputed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP
from typing import Any, cast

from onward_ledger.action import Action, Json
from onward_ledger.errors import BadRequest
from onward_ledger.providers.listing import check_items

MOST_RECIPIENTS = 50
LONGEST_SUBJECT = 500
_REQUIRED, _OPTIONAL = {"to", "subject", "text"}, {"cc", "html", "attachments"}
_ATTACHMENT = {"name", "source", "digest", "size", "media_type"}
# Unquoted, so that no address can mean something else to another reader; any script, so that all people have one.
_ADDRESS = re.compile(r"(?!.*=\?)[^\s<>()\[\]\\,;:@\"\x00-\x1f\x7f]{1,64}@(?=.{1,190}$)[\w-]+(\.[\w-]+)*")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_BARE = re.compile(rb"\r(?!\n)|(?<!\r)\n")


def check_params(run_id: str, params: Json, *, largest_bytes: int) -> None:
    """BadRequest with the member that is wrong."""
    if not set(params) >= _REQUIRED or not set(params) <= _REQUIRED | _OPTIONAL:
        raise BadRequest("params must have the members to, subject and text, and may have cc, html and attachments.")
    _check_addresses("to", params["to"], least=1)
    _check_addresses("cc", params.get("cc", []), least=0)
    if len(recipients_of(params)) > MOST_RECIPIENTS:
        raise BadRequest(f"A mail has at most {MOST_RECIPIENTS} recipients.")
    subject = params["subject"]
    if not isinstance(subject, str) or not subject.strip() or len(subject) > LONGEST_SUBJECT:
        raise BadRequest(f"params.subject must be text of 1 to {LONGEST_SUBJECT} characters.")
    if _CONTROL.search(subject):
        raise BadRequest("params.subject must be one line without control characters.")
    if "=?" in subject:
        raise BadRequest("params.subject must not hold =?, which begins an encoded word: plain text is encoded for it.")
    for member in ("text", "html"):
        value = params.get(member, "")
        if not isinstance(value, str) or "\x00" in value:
            raise BadRequest(f"params.{member} must be text.")
    _check_attachments(run_id, params.get("attachments", []), largest_bytes)


def recipients_of(params: Json) -> list[str]:
    """Everybody who gets it, once, in a stable order."""
    return sorted({*params["to"], *params.get("cc", [])})


def address_of(text: str) -> Address:
    """The address that `name@domain` is; ValueError in words where it is none."""
    if not _ADDRESS.fullmatch(text):
        raise ValueError(f"{text[:80]!r} is not a mail address")
    user, _, domain = text.partition("@")
    return Address(username=user, domain=domain)


def needs_utf8(params: Json, sender: Address) -> bool:
    """Whether an address has letters that only SMTPUTF8 can carry. Names and subjects are encoded anyway."""
    return not all(address.isascii() for address in (*recipients_of(params), sender.addr_spec))


def message_id(action: Action, domain: str) -> str:
    """The same for every send of an action."""
    return f"<{action.action_id}@{domain}>"


def message_of(action: Action, *, sender: Address, domain: str, attachments: Sequence[bytes]) -> bytes:
    """The mail, ready to be sent: 7 bit but for addresses that need more, lines ended by CRLF."""
    params = action.params
    utf8 = needs_utf8(params, sender)
    mail = EmailMessage(policy=SMTP.clone(cte_type="7bit", utf8=utf8))
    mail["Message-ID"] = message_id(action, domain)
    mail["Date"] = action.created_at.astimezone(UTC)
    mail["From"] = sender
    mail["To"] = [address_of(text) for text in params["to"]]
    if params.get("cc"):
        mail["Cc"] = [address_of(text) for text in params["cc"]]
    mail["Subject"] = params["subject"]
    mail["Auto-Submitted"] = "auto-generated"  # RFC 3834: no out-of-office answers, please
    mail.set_content(params["text"])
    if params.get("html"):
        mail.add_alternative(params["html"], subtype="html")
    for item, data in zip(params.get("attachments", []), attachments, strict=True):
        media_type, _, charset = item["media_type"].partition(";")
        maintype, _, subtype = media_type.partition("/")
        extra = {"charset": charset.partition("=")[2]} if charset else {}
        mail.add_attachment(data, maintype=maintype, subtype=subtype, filename=item["name"], params=extra)
    for place, part in enumerate(mail.walk()):
        if part.is_multipart():
            part.set_boundary(f"=_{action.action_id}_{place}")
    data = mail.as_bytes()
    _check_written(data, mail.keys())
    return data


def _check_written(data: bytes, names: list[str]) -> None:
    """The headers are those that were set, and lines end in one way: the library is not believed in either.

    It decodes encoded words in what it is given, line breaks and all. And a line end that two servers read differently
    is how one mail becomes two.
    """
    head = data.partition(b"\r\n\r\n")[0].split(b"\r\n")
    written = [line.partition(b":")[0].decode() for line in head if not line.startswith((b" ", b"\t"))]
    if written != names or _BARE.search(data):
        raise ValueError("a text of it breaks out of its place")


def _check_addresses(member: str, value: object, *, least: int) -> None:
    listed = cast(list[Any], value) if isinstance(value, list) else []
    if not isinstance(value, list) or len(listed) < least:
        raise BadRequest(f"params.{member} must be a list of mail addresses.")
    for address in listed:
        if not isinstance(address, str):
            raise BadRequest(f"params.{member} must be a list of mail addresses.")
        try:
            address_of(address)
        except ValueError as error:
            raise BadRequest(f"params.{member}: {error}.") from None
    if len(set(listed)) != len(listed):
        raise BadRequest(f"params.{member} names an address twice.")


def _check_attachments(run_id: str, attachments: object, largest_bytes: int) -> None:
    if attachments == []:
        return
    items = check_items("params.attachments", attachments, _ATTACHMENT, {"name": None, "source": f"runs/{run_id}"})
    for place, item in enumerate(items):
        if "/" in item["name"] or _CONTROL.search(item["name"]):
            raise BadRequest(f"params.attachments[{place}].name must be a name without folders or control characters.")
        if item["media_type"].startswith(("multipart/", "message/")):
            raise BadRequest(f"params.attachments[{place}].media_type must not be one of whole messages.")
    if sum(item["size"] for item in items) > largest_bytes:
        raise BadRequest(f"The attachments have more than {largest_bytes} bytes.")
