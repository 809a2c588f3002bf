"""One conversation with a mail server, up to the last moment at which nothing can have happened, and beyond it.

Until the content of a mail is sent, whatever goes wrong is definite: SMTP knows no mail without content. Behind it,
only the server's reply says what became of it.
"""

from __future__ import annotations

import contextlib
import re
import smtplib
import socket
import ssl
import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal

from pydantic import SecretStr

from onward_ledger.providers.interface import Deadline, NotSent, Refused

_LINE_START = re.compile(rb"(?m)^\.")
_UNPRINTABLE = re.compile(r"[^\x20-\x7e\u00a0-\U0010ffff]+")


class Unready(Exception):
    """The server cannot be reached or will not talk: nothing happened, and it is not about this mail."""


@dataclass(frozen=True, kw_only=True)
class MailServer:
    """Where the server is, and how to get in. `name` is what it is told of this machine."""

    host: str
    port: int
    tls: Literal["starttls", "implicit", "none"]
    context: ssl.SSLContext | None = field(default=None, repr=False)
    username: str | None = None
    password: SecretStr | None = None
    name: str


@dataclass(frozen=True)
class Reply:
    """What a server answered."""

    code: int
    text: str

    @property
    def positive(self) -> bool:
        """Whether the server does what it was asked for."""
        return 200 <= self.code < 300

    def no(self, what: str) -> Refused | NotSent:
        """The definite no that this reply is: for good where the server says so."""
        reason = f"The mail server {what}: {self}"
        return Refused(reason) if 500 <= self.code < 600 else NotSent(reason)

    def __str__(self) -> str:
        return f"{self.code} {self.text}"


@contextmanager
def session(server: MailServer, deadline: Deadline) -> Generator[Session]:
    """A conversation that is open, encrypted and logged in as far as the server is configured; else Unready.

    Behind the deadline the connection is cut, whatever is under way.
    """
    smtp = smtplib.SMTP(local_hostname=server.name)
    watch = threading.Timer(max(deadline.remaining, 0), _cut, [smtp])
    watch.daemon = True
    try:
        try:
            _open(smtp, server, deadline)
            watch.start()
            _greet(smtp, server)
        except (smtplib.SMTPException, OSError) as error:
            raise Unready(f"{server.host}:{server.port}: {_words(error)}") from None
        yield Session(smtp)
        # Its answer would say nothing, and waiting for it could cost the answer that is already there.
        with contextlib.suppress(smtplib.SMTPException, OSError):
            smtp.putcmd("quit")
    finally:
        watch.cancel()
        smtp.close()


class Session:
    """What is said in an open conversation. Everything but `content` raises nothing but Unready."""

    def __init__(self, smtp: smtplib.SMTP) -> None:
        self._smtp = smtp

    def address(self, sender: str, recipients: Sequence[str], size: int, *, utf8: bool) -> Refused | NotSent | None:
        """Say from whom to whom; all recipients or none."""
        if utf8 and not self._smtp.has_extn("smtputf8"):
            return Refused("The mail server does not take addresses with these letters: it has no SMTPUTF8.")
        options = [f"SIZE={size}"] if self._smtp.has_extn("size") else []
        try:
            reply = _reply(self._smtp.mail(sender, [*options, "SMTPUTF8", "BODY=8BITMIME"] if utf8 else options))
            if not reply.positive:
                return reply.no("does not take mail from this sender")
            answers = {one: _reply(self._smtp.rcpt(one)) for one in recipients}
            noes = {one: reply for one, reply in answers.items() if not reply.positive}
            if noes:
                with contextlib.suppress(smtplib.SMTPException, OSError):
                    self._smtp.rset()
                worst = max(noes, key=lambda one: noes[one].code)
                return noes[worst].no(f"does not take mail for {worst}")
        except (smtplib.SMTPException, OSError) as error:
            raise Unready(_words(error)) from None
        return None

    def announce(self) -> Refused | NotSent | None:
        """Ask for the permission to send content: the last thing that is said before it counts."""
        try:
            reply = _reply(self._smtp.docmd("data"))
        except (smtplib.SMTPException, OSError) as error:
            raise Unready(_words(error)) from None
        return None if reply.code == 354 else reply.no("does not take this mail")

    def content(self, message: bytes) -> Reply:
        """Send the content, and wait for what becomes of it. Whatever is raised here means that nobody knows."""
        body = _LINE_START.sub(b"..", message)
        self._smtp.send(body + (b"" if body.endswith(b"\r\n") else b"\r\n") + b".\r\n")
        return _reply(self._smtp.getreply())


def _open(smtp: smtplib.SMTP, server: MailServer, deadline: Deadline) -> None:
    seconds = deadline.remaining
    if seconds <= 0:
        raise TimeoutError("there was no time left to connect")
    smtp.sock = socket.create_connection((server.host, server.port), timeout=seconds)


def _greet(smtp: smtplib.SMTP, server: MailServer) -> None:
    if server.tls == "implicit":
        _encrypt(smtp, server)
    _expect(_reply(smtp.getreply()), "greets with")
    _expect(_reply(smtp.ehlo()), "answers EHLO with")
    if server.tls == "starttls":
        if not smtp.has_extn("starttls"):
            raise smtplib.SMTPNotSupportedError("the server offers no STARTTLS, and nothing is sent in the clear")
        _expect(_reply(smtp.docmd("STARTTLS")), "answers STARTTLS with")
        _encrypt(smtp, server)
        _expect(_reply(smtp.ehlo()), "answers EHLO with")
    if server.username is not None and server.password is not None:
        smtp.login(server.username, server.password.get_secret_value())


def _encrypt(smtp: smtplib.SMTP, server: MailServer) -> None:
    """Go on in TLS. What was said in the clear is forgotten, as RFC 3207 asks for."""
    assert server.context is not None and smtp.sock is not None
    wrapped = server.context.wrap_socket(smtp.sock, server_hostname=server.host, do_handshake_on_connect=False)
    smtp.sock, smtp.file = wrapped, None
    smtp.helo_resp, smtp.ehlo_resp, smtp.esmtp_features, smtp.does_esmtp = None, None, {}, False
    wrapped.do_handshake()


def _expect(reply: Reply, what: str) -> None:
    if not reply.positive:
        raise smtplib.SMTPException(f"the server {what} {reply}")


def _reply(answer: tuple[int, bytes]) -> Reply:
    code, text = answer
    return Reply(code, _UNPRINTABLE.sub(" ", text.decode("utf-8", errors="replace"))[:300].strip())


def _words(error: Exception) -> str:
    if isinstance(error, smtplib.SMTPResponseException):
        raw = error.smtp_error
        return str(_reply((error.smtp_code, raw if isinstance(raw, bytes) else raw.encode())))
    return _UNPRINTABLE.sub(" ", str(error) or type(error).__name__)[:300]


def _cut(smtp: smtplib.SMTP) -> None:
    """Wake whoever waits for this connection. The TLS layer is left out: it belongs to the waiting thread."""
    if smtp.sock is not None:
        with contextlib.suppress(OSError):
            socket.socket.shutdown(smtp.sock, socket.SHUT_RDWR)
