"""TLS of the ledger, service and clients, with certificates made here."""

import asyncio
import json
import re
import socket
import ssl
import subprocess
import sys
import warnings

import httpx
import pytest
from typer.testing import CliRunner

from onward_ledger import AsyncLedgerClient, LedgerClient, errors, protocol
from onward_ledger.__main__ import app
from onward_ledger.serve import ServeOptions
from onward_ledger.tls import Certificate, client_context, server_context
from tests.support.certificates import Authority
from tests.support.ledger_process import ROOT, ledger_process

pytestmark = pytest.mark.campaign

HOST = "127.0.0.1"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("tls")


@pytest.fixture(scope="module")
def ours(folder):
    return Authority(folder, "ours")


@pytest.fixture(scope="module")
def theirs(folder):
    return Authority(folder, "theirs")


@pytest.fixture(scope="module")
def certificate(ours):
    return ours.sign("server", address=HOST)


def served(folder, certificate, **more):
    files = {"ONWARD_LEDGER_TLS_CERT": str(certificate.file), "ONWARD_LEDGER_TLS_KEY": str(certificate.key)}
    folder.mkdir()
    return ledger_process(folder, f"sqlite:///{folder / 'ledger.db'}", environment=files | more)


@pytest.fixture(scope="module")
def service(folder, certificate):
    with served(folder / "service", certificate) as process:
        yield process.start()


@pytest.fixture(scope="module")
def closed(folder, certificate, theirs):
    """A service that lets in clients of one authority only, and not of the one that its own certificate has."""
    with served(folder / "closed", certificate, ONWARD_LEDGER_TLS_CLIENT_CA=str(theirs.file)) as process:
        yield process.start()


@pytest.fixture(autouse=True)
def _soon(monkeypatch):
    """Do not try again what cannot succeed."""
    monkeypatch.setattr(protocol, "RETRY_PAUSES_SECONDS", ())


def reach(service, **options):
    with LedgerClient(service.url, service.token, **options) as client:
        return client.health().instance, client.actions()


def test_a_client_that_trusts_the_authority_is_answered(service, ours):
    assert service.url.startswith("https://127.0.0.1:")
    assert reach(service, ca_file=ours.file) == (service.ready["instance"], ())
    assert reach(service, ca_file=str(ours.file)) == (service.ready["instance"], ())


def test_the_async_client_too(service, ours):
    async def ask():
        async with AsyncLedgerClient(service.url, service.token, ca_file=ours.file) as client:
            return (await client.health()).instance

    assert asyncio.run(ask()) == service.ready["instance"]


def test_nobody_else_is_trusted(service, theirs):
    for options in ({}, {"ca_file": theirs.file}):
        with pytest.raises(errors.LedgerUnreachable, match="CERTIFICATE_VERIFY_FAILED"):
            reach(service, **options)


def test_a_certificate_of_another_address_is_refused(folder, ours):
    elsewhere = ours.sign("elsewhere", address="127.0.0.2")
    with served(folder / "elsewhere", elsewhere) as process:
        process.start()
        with pytest.raises(errors.LedgerUnreachable, match="IP address mismatch"):
            reach(process, ca_file=ours.file)


def test_nothing_is_said_without_tls(service):
    with pytest.raises(httpx.RemoteProtocolError):
        httpx.get(service.url.replace("https://", "http://") + "/health", trust_env=False)


def handshake(service, ca_file, highest):
    context = ssl.create_default_context(cafile=ca_file)
    context.set_ciphers("ALL:@SECLEVEL=0")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        context.minimum_version, context.maximum_version = ssl.TLSVersion.MINIMUM_SUPPORTED, highest
    port = int(service.url.rsplit(":", 1)[1])
    with (
        socket.create_connection((HOST, port), timeout=10) as plain,
        context.wrap_socket(plain, server_hostname=HOST) as wrapped,
    ):
        return wrapped.version()


def test_tls_is_1_2_or_newer(service, ours):
    assert handshake(service, ours.file, ssl.TLSVersion.TLSv1_3) == "TLSv1.3"
    assert handshake(service, ours.file, ssl.TLSVersion.TLSv1_2) == "TLSv1.2"
    with pytest.raises((ssl.SSLError, ConnectionError)):
        handshake(service, ours.file, ssl.TLSVersion.TLSv1_1)


def test_both_sides_ask_for_1_2(certificate, ours):
    for context in (server_context(certificate), client_context("https://x", ours.file)):
        assert context.minimum_version is ssl.TLSVersion.TLSv1_2
    assert client_context("http://x", ours.file) is False
    assert client_context("https://x") is True


def test_only_clients_with_a_certificate_are_let_in(closed, ours, theirs):
    welcome, stranger = theirs.sign("welcome"), ours.sign("stranger")
    assert reach(closed, ca_file=ours.file, certificate=welcome) == (closed.ready["instance"], ())
    for options in ({}, {"certificate": stranger}):
        with pytest.raises(errors.LedgerUnreachable):
            reach(closed, ca_file=ours.file, **options)


def command(*arguments, **environment):
    done = subprocess.run(
        [sys.executable, "-m", "onward_ledger", *map(str, arguments)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        env={"PATH": "/usr/bin:/bin", **environment},
    )
    return done.returncode, done.stdout, done.stderr


def test_the_command_trusts_whom_the_environment_names(service, ours):
    arguments = ("list", "--json", "--url", service.url, "--token-file", service.token_file)
    code, out, _ = command(*arguments, ONWARD_LEDGER_CA_FILE=str(ours.file))
    assert (code, json.loads(out)) == (0, {"actions": []})
    code, _, told = command(*arguments)
    assert code == 9
    assert "CERTIFICATE_VERIFY_FAILED" in told


def test_the_command_shows_the_certificate_that_the_environment_names(closed, ours, theirs):
    arguments = ("list", "--json", "--url", closed.url, "--token-file", closed.token_file)
    own = theirs.sign("operator")
    files = {"ONWARD_LEDGER_CLIENT_CERT": str(own.file), "ONWARD_LEDGER_CLIENT_KEY": str(own.key)}
    code, out, told = command(*arguments, ONWARD_LEDGER_CA_FILE=str(ours.file), **files)
    assert (code, json.loads(out or "{}")) == (0, {"actions": []}), told
    assert command(*arguments, ONWARD_LEDGER_CA_FILE=str(ours.file))[0] == 9


def test_options_that_belong_together():
    for options, says in (
        (["--tls-cert", "x"], "TLS needs --tls-cert and --tls-key"),
        (["--tls-client-ca", "x"], "--tls-client-ca needs both"),
    ):
        done = CliRunner().invoke(app, ["serve", *options])
        assert done.exit_code == 2
        assert says in re.sub(r"\W*\n\W*", " ", done.output)


def test_files_that_cannot_be_used_are_told(tmp_path, ours, certificate):
    missing = tmp_path / "missing.pem"
    for files, says in (
        ({"certificate": Certificate(file=missing, key=certificate.key)}, "missing.pem its key"),
        ({"certificate": Certificate(file=certificate.file, key=ours.file)}, "cannot be used"),
        ({"certificate": certificate, "client_ca": missing}, "The clients' certificate authority"),
    ):
        with pytest.raises(errors.BadRequest) as caught:
            ServeOptions(store="", objects="", token="", **files).context()
        assert says in caught.value.message


def test_they_end_the_start_with_a_sentence_before_anything_is_made(tmp_path, certificate):
    store = ("--store", f"sqlite:///{tmp_path / 'never.db'}", "--objects", tmp_path / "never")
    files = ("--tls-cert", certificate.file, "--tls-key", tmp_path / "missing.key")
    code, _, told = command("serve", *store, "--token-file", tmp_path / "token", *files)
    assert code == 2
    assert told.endswith("cannot be used: No such file or directory.\n")
    assert "Traceback" not in told
    assert [path.name for path in tmp_path.iterdir()] == ["token"]


def test_a_client_is_told_what_is_wrong_with_its_files(tmp_path, ours):
    with pytest.raises(errors.BadRequest, match=r"certificate authority .*missing\.pem cannot be used: No such file"):
        LedgerClient("https://x", "token", ca_file=tmp_path / "missing.pem")
    broken = Certificate(file=ours.file, key=ours.file)
    with pytest.raises(errors.BadRequest, match="its key"):
        LedgerClient("https://x", "token", certificate=broken)


def test_whoever_listens_for_all_without_tls_is_warned(folder, certificate):
    anywhere = {"ONWARD_LEDGER_HOST": "0.0.0.0"}
    with served(folder / "open-tls", certificate, **anywhere) as process:
        process.start()
        assert "not encrypted" not in (process.folder / "ledger.log").read_text()
    (folder / "open").mkdir()
    with ledger_process(folder / "open", f"sqlite:///{folder / 'open' / 'l.db'}", environment=anywhere) as process:
        process.start()
        assert "not encrypted" in (process.folder / "ledger.log").read_text()
