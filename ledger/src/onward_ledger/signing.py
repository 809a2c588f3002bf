"""The key that an export is signed with: Ed25519, private in a file of its owner, public as PEM for whoever audits."""

from __future__ import annotations

import base64
import binascii
import os
import stat
import tempfile
from pathlib import Path

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)

from onward_ledger.errors import BadRequest


class Signer:
    """A private key."""

    def __init__(self, key: Ed25519PrivateKey) -> None:
        self._key = key

    def sign(self, data: bytes) -> str:
        """The signature in base64."""
        return base64.b64encode(self._key.sign(data)).decode()

    @property
    def public_pem(self) -> str:
        """The public key, as `openssl pkey -pubout` writes it."""
        return self._key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()

    @property
    def public_text(self) -> str:
        """Its 32 bytes in base64."""
        return base64.b64encode(self._key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)).decode()


def signer(path: Path) -> Signer:
    """The signer of a key file; a missing file gets a new key. BadRequest when others can read it or it holds none."""
    if not path.exists():
        _make(path)
    try:
        with path.open("rb") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            text = file.read()
    except OSError as error:
        raise BadRequest(f"The key file {path} cannot be read: {error.strerror or error}.") from error
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise BadRequest(f"Others can use the key file {path} (its mode is {mode:04o}). Run: chmod 600 {path}")
    try:
        key = load_pem_private_key(text, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, Ed25519PrivateKey):
        raise BadRequest(f"The key file {path} holds no Ed25519 private key in PEM without a password.")
    return Signer(key)


def _make(path: Path) -> None:
    """Write a new key, whole or not at all. Of two that start at once the first one's key stands."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")  # readable by its owner only
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.link(name, path)
    except FileExistsError:
        pass
    finally:
        Path(name).unlink(missing_ok=True)


class Verifier:
    """A public key."""

    def __init__(self, key: Ed25519PublicKey) -> None:
        self._key = key

    def verify(self, data: bytes, signature: str) -> bool:
        """Whether this key's owner has signed these bytes."""
        try:
            self._key.verify(base64.b64decode(signature, validate=True), data)
        except (InvalidSignature, binascii.Error, ValueError):
            return False
        return True


def verifier(path: Path) -> Verifier:
    """The verifier of a PEM file. BadRequest when it holds no Ed25519 public key."""
    try:
        key = load_pem_public_key(path.read_bytes())
    except OSError as error:
        raise BadRequest(f"The public key {path} cannot be read: {error.strerror or error}.") from error
    except (ValueError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, Ed25519PublicKey):
        raise BadRequest(f"{path} holds no Ed25519 public key in PEM.")
    return Verifier(key)
