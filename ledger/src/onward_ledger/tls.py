"""TLS of both sides: 1.2 or newer, and nothing is accepted unverified."""

from __future__ import annotations

import ssl
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from onward_ledger.errors import BadRequest

MINIMUM = ssl.TLSVersion.TLSv1_2


@dataclass(frozen=True, kw_only=True)
class Certificate:
    """A certificate (with its chain) and its private key, each a PEM file; both may be one file."""

    file: Path
    key: Path

    def load_into(self, context: ssl.SSLContext) -> None:
        """BadRequest when they cannot be used. A key with a password is an error: nobody is there to type it."""
        with _usable("The certificate", self.file, "its key", self.key):
            context.load_cert_chain(self.file, self.key, password=lambda: "")


def server_context(certificate: Certificate, client_ca: Path | None = None) -> ssl.SSLContext:
    """What the service listens with. With `client_ca`, only clients with a certificate of it are let in at all."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = MINIMUM
    certificate.load_into(context)
    if client_ca is not None:
        context.verify_mode = ssl.CERT_REQUIRED
        with _usable("The clients' certificate authority", client_ca):
            context.load_verify_locations(client_ca)
    return context


def client_context(
    url: str, ca_file: Path | str | None = None, certificate: Certificate | None = None
) -> ssl.SSLContext | bool:
    """Whom a client trusts, in httpx's terms: those of `ca_file` and nobody else, or those whom everybody trusts.

    False for an address without TLS, where there is nothing to verify: reading what everybody trusts takes 30 ms.
    """
    if url.lower().startswith("http://"):
        return False
    if ca_file is None and certificate is None:
        return True
    if ca_file is None:
        context = httpx.create_ssl_context()
    else:
        with _usable("The certificate authority", Path(ca_file)):
            context = ssl.create_default_context(cafile=ca_file)
    context.minimum_version = MINIMUM
    if certificate is not None:
        certificate.load_into(context)
    return context


@contextmanager
def _usable(*what: object) -> Generator[None]:
    try:
        yield
    except OSError as error:  # ssl.SSLError is one
        reason = error.strerror or str(error)
        raise BadRequest(f"{' '.join(str(part) for part in what)} cannot be used: {reason}.") from None
