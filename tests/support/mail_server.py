"""A real SMTP server in a process of its own, that can be told to misbehave, and logs what it accepts.

The log is the oracle: one line of JSON per accepted mail, on disk before the reply leaves. `behave(**words)` holds from
the next command on:

    greeting, mail, data, reply       the answer instead of the usual one (`reply`: to the content; nothing is accepted)
    rcpt                              {address: answer}
    before, after                     "drop" | "hang" around the content: before 354, or behind the log
"""

import asyncio
import json
import os
import signal
import ssl
import subprocess
import sys
import time
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from aiosmtpd.smtp import SMTP, AuthResult
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

ROOT = Path(__file__).resolve().parents[2]
USER, PASSWORD = "ledger", "s3cr3t-word"


class MailServer:
    """One server in a folder, while its block runs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = 0
        self.process = None

    @property
    def accepted(self) -> list[dict]:
        """What was accepted: `{"from", "to", "content", "tls", "login"}` each."""
        log = self.folder / "accepted.jsonl"
        return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []

    @property
    def said(self) -> list[str]:
        """The commands of all clients so far."""
        return (self.folder / "said").read_text().splitlines()

    def behave(self, **words) -> None:
        scratch = self.folder / "behaviour.new"
        scratch.write_text(json.dumps(words))
        scratch.rename(self.folder / "behaviour")

    def reset(self) -> None:
        """Forget everything, once all clients are gone."""
        connections = self.folder / "connections"
        end = time.monotonic() + 20
        while connections.exists() and (text := connections.read_text()).count("+") != text.count("-"):
            assert time.monotonic() < end, "a client stays"
            time.sleep(0.01)
        self.behave()
        (self.folder / "said").write_text("")
        (self.folder / "accepted.jsonl").unlink(missing_ok=True)

    def wait_for(self, command: str) -> None:
        """Until some client has said this."""
        end = time.monotonic() + 20
        while not any(line.startswith(command) for line in self.said):
            assert time.monotonic() < end, f"nobody said {command}"
            time.sleep(0.01)

    def kill(self) -> None:
        if self.process.poll() is None:
            os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait()


@contextmanager
def mail_server(folder: Path, *, tls="none", login=False):
    """A server that is up. `tls` is none, starttls or implicit, with the certificate of `make_certificate`."""
    server = MailServer(folder)
    folder.mkdir(exist_ok=True)
    server.behave()
    (folder / "said").touch()
    if tls != "none":
        make_certificate(folder)
    ready = folder / "port"
    command = [sys.executable, "-W", "ignore", "-m", "tests.support.mail_server", str(folder), tls, str(int(login))]
    with (folder / "server.log").open("ab") as log:
        server.process = subprocess.Popen(command, cwd=ROOT, stderr=log)
    try:
        end = time.monotonic() + 30
        while not ready.exists():
            assert server.process.poll() is None and time.monotonic() < end, (folder / "server.log").read_text()
            time.sleep(0.01)
        server.port = int(ready.read_text())
        yield server
    finally:
        server.kill()


def make_certificate(folder: Path) -> Path:
    """`ca.pem` and `key.pem` for 127.0.0.1 and localhost."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    names = x509.SubjectAlternativeName([x509.DNSName("localhost"), x509.IPAddress(ip_address("127.0.0.1"))])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(names, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    plain = serialization.NoEncryption()
    (folder / "ca.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    (folder / "key.pem").write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
    )
    return folder / "ca.pem"


# What runs in the process.


class _Folder:
    """What the server knows from its folder, and writes to it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def behaviour(self) -> dict:
        return json.loads((self.path / "behaviour").read_text())

    def append(self, name: str, line: str) -> None:
        with (self.path / name).open("a") as file:
            file.write(line + "\n")
            file.flush()
            os.fsync(file.fileno())


class _Smtp(SMTP):
    """Aiosmtpd's, with another answer where the behaviour has one."""

    folder: _Folder
    greeted = False

    def connection_made(self, transport) -> None:
        self.folder.append("connections", "+")
        super().connection_made(transport)

    def connection_lost(self, error) -> None:
        super().connection_lost(error)
        self.folder.append("connections", "-")

    async def push(self, status) -> None:
        if not self.greeted:
            self.greeted = True
            status = self.folder.behaviour().get("greeting", status)
        await super().push(status)

    async def misbehave(self, word) -> bool:
        """Whether nothing more is to be said."""
        if word == "hang":
            while self.transport is not None and not self.transport.is_closing():
                await asyncio.sleep(0.02)
        if word is not None and self.transport is not None:
            self.transport.abort()
        return word is not None

    async def smtp_DATA(self, arg) -> None:
        behaviour = self.folder.behaviour()
        if await self.misbehave(behaviour.get("before")):
            return
        if "data" in behaviour:
            await self.push(behaviour["data"])
            return
        await super().smtp_DATA(arg)


class _Handler:
    def __init__(self, folder: _Folder) -> None:
        self.folder = folder

    async def handle_EHLO(self, server, session, envelope, hostname, responses):
        session.host_name = hostname
        self.folder.append("said", f"EHLO {hostname}")
        return responses

    async def handle_MAIL(self, server, session, envelope, address, options):
        self.folder.append("said", " ".join(["MAIL", address, *options]))
        answer = self.folder.behaviour().get("mail", "250 OK")
        if answer.startswith("2"):
            envelope.mail_from = address
        return answer

    async def handle_RCPT(self, server, session, envelope, address, options):
        self.folder.append("said", f"RCPT {address}")
        answer = self.folder.behaviour().get("rcpt", {}).get(address, "250 OK")
        if answer.startswith("2"):
            envelope.rcpt_tos.append(address)
        return answer

    async def handle_RSET(self, server, session, envelope):
        self.folder.append("said", "RSET")
        return "250 OK"

    async def handle_QUIT(self, server, session, envelope):
        self.folder.append("said", "QUIT")
        return "221 Bye"

    async def handle_DATA(self, server, session, envelope):
        behaviour = self.folder.behaviour()
        self.folder.append("said", "CONTENT")
        if "reply" in behaviour:
            return behaviour["reply"]
        number = len((self.folder.path / "said").read_text().splitlines())
        accepted = {
            "from": envelope.mail_from,
            "to": envelope.rcpt_tos,
            "content": envelope.content.decode(),
            "tls": session.ssl is not None or server.transport.get_extra_info("sslcontext") is not None,
            "login": bool(session.authenticated),
        }
        self.folder.append("accepted.jsonl", json.dumps(accepted))
        self.folder.append("said", "ACCEPTED")
        if await server.misbehave(behaviour.get("after")):
            return "250 nobody hears this"
        return f"250 2.0.0 Ok: queued as Q{number}"


async def _serve(path: Path, tls: str, login: bool) -> None:
    folder = _Folder(path)
    context = None
    if tls != "none":
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(path / "ca.pem", path / "key.pem")
    options = {"enable_SMTPUTF8": not (path / "no-utf8").exists(), "hostname": "mail.test", "ident": "test"}
    if tls == "starttls":
        options |= {"tls_context": context, "require_starttls": True}
    if login:
        options |= {"auth_required": True, "auth_require_tls": tls == "starttls", "authenticator": _authenticate}
    made = type("Smtp", (_Smtp,), {"folder": folder})
    loop = asyncio.get_running_loop()
    server = await loop.create_server(
        lambda: made(_Handler(folder), **options), "127.0.0.1", 0, ssl=context if tls == "implicit" else None
    )
    scratch = path / "port.new"
    scratch.write_text(str(server.sockets[0].getsockname()[1]))
    scratch.rename(path / "port")
    await server.serve_forever()


def _authenticate(server, session, envelope, mechanism, data) -> AuthResult:
    return AuthResult(success=(data.login, data.password) == (USER.encode(), PASSWORD.encode()), handled=False)


if __name__ == "__main__":
    asyncio.run(_serve(Path(sys.argv[1]), sys.argv[2], sys.argv[3] == "1"))
