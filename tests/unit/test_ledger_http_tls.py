"""The HTTP provider over TLS: whose certificate is believed, for which name, and its own certificate."""

import ssl

import pytest

from onward_ledger.objects import Objects
from onward_ledger.providers.configured import Context
from onward_ledger.providers.http import HttpProvider, from_settings
from onward_ledger.providers.interface import Applied, Deadline, NotSent
from tests.support.certificates import Authority
from tests.support.raw_server import Peer, raw_server
from tests.unit.test_ledger_http import ACTION

OK = b"HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n"
NAME = "api.example.com"


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("authority"), "ca")


@pytest.fixture
def context(authority, tmp_path):
    return Context(objects=Objects(str(tmp_path / "objects")), folder=authority.file.parent)


def tls_server(certificate, *, clients_of=None, seen=None):
    """Answers each request; `seen` gets the server name and the subject of the client's certificate."""
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate.file, certificate.key)
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
        tls=made._exchange.tls,
        resolve=lambda host, port: ["127.0.0.1"],
    )
    try:
        return provider.send(ACTION, Deadline(5))
    finally:
        provider.close()


def test_a_certificate_of_the_named_authority_for_this_very_name(authority, context):
    seen = []
    with tls_server(authority.sign(NAME, host=NAME), seen=seen) as server:
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
    with tls_server(authority.sign(name, host=name)) as server:
        outcome = send(context, server.port, tls=tls)
        assert isinstance(outcome, NotSent) and server.requests == []
    assert any(one in outcome.reason for one in reason.split("|")), outcome.reason


def test_the_systems_authorities_do_not_count_beside_a_named_one(context):
    assert from_settings(
        "thing.make",
        {"class": "opaque", "base_url": "https://x", "path": "/", "tls": {"ca_file": "ca.pem"}},
        context,
    )._exchange.tls.cert_store_stats() == {"x509": 1, "crl": 0, "x509_ca": 1}


def test_a_certificate_of_its_own_is_shown(authority, context):
    client = authority.sign("ledger")
    seen = []
    own = {"ca_file": "ca.pem", "client_certificate_file": client.file.name, "client_key_file": client.key.name}
    with tls_server(authority.sign(NAME, host=NAME), clients_of=authority.file, seen=seen) as server:
        assert isinstance(send(context, server.port, tls=own), Applied)
        assert seen[0][1] == {"commonName": "ledger"}
        # A server that lets in nobody without a certificate says so behind the handshake, in TLS 1.3: it is not
        # known that the request was not handled.
        with pytest.raises(Exception, match="The request was written"):
            send(context, server.port, tls={"ca_file": "ca.pem"})
        assert len(server.requests) == 1


def test_a_server_that_speaks_only_old_versions_is_not_spoken_to(authority, context):
    with tls_server(authority.sign(NAME, host=NAME)) as server:
        assert isinstance(send(context, server.port, tls={"ca_file": "ca.pem"}), Applied)
    old = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate = authority.sign(NAME, host=NAME)
    old.load_cert_chain(certificate.file, certificate.key)
    old.set_ciphers("DEFAULT:@SECLEVEL=0")
    with pytest.warns(DeprecationWarning):
        old.minimum_version, old.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1

    def script(peer, number):
        old.wrap_socket(peer.connection, server_side=True)

    with raw_server(script) as server:
        outcome = send(context, server.port, tls={"ca_file": "ca.pem"})
        assert isinstance(outcome, NotSent) and server.requests == []
