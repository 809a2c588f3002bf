"""The HTTP provider over TLS: whose certificate is believed, for which name, and its own certificate."""

import ssl
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from onward_ledger.objects import Objects
from onward_ledger.providers.configured import Context
from onward_ledger.providers.http import HttpProvider, from_settings
from onward_ledger.providers.interface import Applied, Deadline, NotSent
from tests.support.raw_server import Peer, raw_server
from tests.unit.test_ledger_http import ACTION

OK = b"HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n"
NAME = "api.example.com"


class Authority:
    """Certificates in a folder: `ca.pem`, and for each name `<name>.pem` with its key inside."""

    def __init__(self, folder):
        self.folder = folder
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Test authority")])
        builder = self._builder(self.name, self.key)
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        self.certificate = builder.sign(self.key, hashes.SHA256())
        (folder / "ca.pem").write_bytes(self.certificate.public_bytes(serialization.Encoding.PEM))

    def _builder(self, subject, key):
        now = datetime.now(UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self.name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + timedelta(days=1))
        )

    def issue(self, name):
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        names = x509.SubjectAlternativeName([x509.DNSName(name)])
        certificate = self._builder(subject, key).add_extension(names, critical=False).sign(self.key, hashes.SHA256())
        path = self.folder / f"{name}.pem"
        private = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        path.write_bytes(private + certificate.public_bytes(serialization.Encoding.PEM))
        return path


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture
def context(authority, tmp_path):
    return Context(objects=Objects(str(tmp_path / "objects")), folder=authority.folder)


def tls_server(certificate, *, clients_of=None, seen=None):
    """Answers each request; `seen` gets the server name and the subject of the client's certificate."""
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate)
    if clients_of is not None:
        tls.verify_mode = ssl.CERT_REQUIRED
        tls.load_verify_locations(clients_of)
    names = []
    tls.sni_callback = lambda connection, name, context: names.append(name)

    def script(peer, number):
        with tls.wrap_socket(peer.connection, server_side=True) as connection:
            inner = Peer(connection, peer._requests)
            while inner.request():
                certificate = connection.getpeercert() or {}
                if seen is not None:
                    seen.append((names[-1], dict(pair[0] for pair in certificate.get("subject", ()))))
                inner.say(OK)

    return raw_server(script)


def send(context, port, *, host=NAME, tls=None):
    settings = {"class": "opaque", "base_url": f"https://{host}:{port}", "path": "/things"}
    settings |= {"allow_addresses": ["127.0.0.0/8"], "tls": tls or {}}
    made = from_settings("thing.make", settings, context)
    # The same settings and TLS, with a resolver that knows the name.
    provider = HttpProvider(
        "thing.make",
        made._settings,
        tls=made._exchange._pool._ssl_context,
        resolve=lambda host, port: ["127.0.0.1"],
    )
    try:
        return provider.send(ACTION, Deadline(5))
    finally:
        provider.close()


def test_a_certificate_of_the_named_authority_for_this_very_name(authority, context):
    seen = []
    with tls_server(authority.issue(NAME), seen=seen) as server:
        assert isinstance(send(context, server.port, tls={"ca_file": "ca.pem"}), Applied)
    assert seen == [(NAME, {})], "the name is asked for, though the connection goes to a checked address"


@pytest.mark.parametrize(
    ("name", "tls", "reason"),
    [
        (NAME, {}, "unable to get local issuer certificate|self.signed"),
        ("other.example.com", {"ca_file": "ca.pem"}, "Hostname mismatch"),
    ],
)
def test_any_other_certificate_is_refused_before_anything_is_sent(authority, context, name, tls, reason):
    with tls_server(authority.issue(name)) as server:
        outcome = send(context, server.port, tls=tls)
        assert isinstance(outcome, NotSent) and server.requests == []
    assert any(one in outcome.reason for one in reason.split("|")), outcome.reason


def test_the_systems_authorities_do_not_count_beside_a_named_one(context):
    assert from_settings(
        "thing.make",
        {"class": "opaque", "base_url": "https://x", "path": "/", "tls": {"ca_file": "ca.pem"}},
        context,
    )._exchange._pool._ssl_context.cert_store_stats() == {"x509": 1, "crl": 0, "x509_ca": 1}


def test_a_certificate_of_its_own_is_shown(authority, context):
    authority.issue("ledger.example.com")
    seen = []
    own = {"ca_file": "ca.pem", "client_certificate_file": "ledger.example.com.pem"}
    with tls_server(authority.issue(NAME), clients_of=authority.folder / "ca.pem", seen=seen) as server:
        assert isinstance(send(context, server.port, tls=own), Applied)
        assert seen[0][1] == {"commonName": "ledger.example.com"}
        # A server that lets in nobody without a certificate says so behind the handshake, in TLS 1.3: it is not
        # known that the request was not handled.
        with pytest.raises(Exception, match="The request was written"):
            send(context, server.port, tls={"ca_file": "ca.pem"})
        assert len(server.requests) == 1


def test_a_server_that_speaks_only_old_versions_is_not_spoken_to(authority, context):
    with tls_server(authority.issue(NAME)) as server:
        assert isinstance(send(context, server.port, tls={"ca_file": "ca.pem"}), Applied)
    old = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    old.load_cert_chain(authority.issue(NAME))
    old.set_ciphers("DEFAULT:@SECLEVEL=0")
    with pytest.warns(DeprecationWarning):
        old.minimum_version, old.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1

    def script(peer, number):
        old.wrap_socket(peer.connection, server_side=True)

    with raw_server(script) as server:
        outcome = send(context, server.port, tls={"ca_file": "ca.pem"})
        assert isinstance(outcome, NotSent) and server.requests == []
