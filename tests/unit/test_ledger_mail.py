"""The provider type `mail` by itself: what it refuses to record, its settings, and bytes that no text breaks out of."""

import re
from dataclasses import replace
from datetime import timedelta, timezone
from email import message_from_bytes, policy
from email.headerregistry import Address

import pytest
from hypothesis import HealthCheck, example, given, reject, settings
from hypothesis import strategies as st

from onward_ledger import errors
from onward_ledger.canonical import canonical
from onward_ledger.objects import Objects
from onward_ledger.providers.configured import Context
from onward_ledger.providers.interface import Deadline, NotSent, ProviderClass, Refused
from onward_ledger.providers.mail import from_settings
from onward_ledger.providers.mail_message import check_params, message_of, recipients_of
from tests.unit.test_ledger_action import RUN, action

BASE = {"host": "localhost", "tls": "none", "sender": "Ledger <ledger@example.org>"}
SENDER = Address("Ledger", addr_spec="ledger@example.org")


@pytest.fixture
def context(tmp_path):
    return Context(objects=Objects(str(tmp_path / "objects")), folder=tmp_path)


@pytest.fixture
def provider(context):
    return from_settings("mail.send", BASE | {"recipients": ["*@example.org", "boss@example.com"]}, context)


def params(**changes):
    return {"to": ["anna@example.org"], "subject": "Sales", "text": "Hello\n"} | changes


def attachment(**changes):
    described = {"digest": "0" * 64, "size": 5, "media_type": "text/csv"}
    return {"name": "a.csv", "source": f"runs/{RUN}/x"} | described | changes


def mail(**changes):
    wanted = params(**changes)
    return action(kind="mail.send", resource=",".join(recipients_of(wanted)), params=wanted)


@pytest.mark.parametrize(
    "address",
    [
        "anna",
        "anna@",
        "@example.org",
        "a b@example.org",
        "anna@example.org\r\nBcc: eve@example.org",
        "anna@example.org\n",
        "anna@example.org>, <eve@example.org",
        "anna@example.org,eve@example.org",
        "Anna <anna@example.org>",
        '"anna x"@example.org',
        "anna@[127.0.0.1]",
        "anna@example..org",
        "anna@.org",
        "anna@eve@example.org",
        "a" * 65 + "@example.org",
        "anna@" + "x" * 191,
        "anna\x00@example.org",
        "=?utf-8?q?anna=0D=0A?=@example.org",
        "anna\u2028@example.org",
        None,
        7,
    ],
)
def test_what_is_no_plain_address_is_not_recorded(provider, address):
    for changes in ({"to": [address]}, {"cc": [address]}):
        with pytest.raises(errors.BadRequest, match="address"):
            provider.validate(RUN, "x", params(**changes))


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"to": []}, "params.to"),
        ({"to": "anna@example.org"}, "params.to"),
        ({"to": ["anna@example.org"] * 2}, "twice"),
        ({"to": [f"p{n}@example.org" for n in range(51)]}, "at most 50"),
        ({"to": ["eve@example.net"]}, "none of the recipients"),
        ({"cc": ["boss@example.com.evil.net"]}, "none of the recipients"),
        ({"subject": " "}, "params.subject"),
        ({"subject": None}, "params.subject"),
        ({"subject": "x" * 501}, "params.subject"),
        ({"subject": "Hi\r\nBcc: eve@example.org"}, "one line"),
        ({"subject": "Hi\u2028there"}, "one line"),
        ({"subject": "=?utf-8?q?x=0D=0ABcc:_eve@example.org?="}, "encoded word"),
        ({"text": None}, "params.text"),
        ({"text": "a\x00b"}, "params.text"),
        ({"html": 7}, "params.html"),
        ({"bcc": ["eve@example.org"]}, "params must have"),
        ({"from": "boss@example.org"}, "params must have"),
        ({"attachments": "x"}, "params.attachments"),
        ({"attachments": [attachment(source="runs/other/x")]}, "must lie below"),
        ({"attachments": [attachment(name="../x")]}, "plain relative path"),
        ({"attachments": [attachment(name="a/b")]}, "without folders"),
        ({"attachments": [attachment(name="a\u2028b")]}, "control characters"),
        ({"attachments": [attachment(name='a"; x="b')]}, "plain relative path"),
        ({"attachments": [attachment(media_type="text/html\r\nX: y")]}, "media type"),
        ({"attachments": [attachment(media_type="message/rfc822")]}, "whole messages"),
        ({"attachments": [attachment(media_type="multipart/mixed")]}, "whole messages"),
        ({"attachments": [attachment(size=10 * 1024 * 1024 + 1)]}, "more than"),
    ],
)
def test_a_mail_that_cannot_be_meant_is_not_recorded(provider, changes, sentence):
    wanted = params(**changes)
    with pytest.raises(errors.BadRequest, match=sentence):
        provider.validate(RUN, "anna@example.org", wanted)


def test_the_resource_says_who_gets_it_so_that_a_grant_is_bound_to_them(provider):
    wanted = params(to=["bob@example.org"], cc=["anna@example.org", "BOSS@Example.com"])
    provider.validate(RUN, "BOSS@Example.com,anna@example.org,bob@example.org", wanted)
    for resource in ("bob@example.org", "bob@example.org,anna@example.org,BOSS@Example.com", "mail"):
        with pytest.raises(errors.BadRequest, match="addresses of to and cc"):
            provider.validate(RUN, resource, wanted)


# Long texts are made slowly on a busy machine, which Hypothesis takes for filtering.
@settings(suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow], deadline=None)
@given(
    subject=st.text(min_size=1, max_size=200),
    text=st.text(max_size=300),
    html=st.text(max_size=100),
    name=st.text(min_size=1, max_size=40),
)
@example(subject="=?utf-8?q?x=0D=0ABcc:_e?=", text=".\r.\n.\r\n", html="\x85", name="a =_utf-8 b")
@example(subject="x" * 500, text="x" * 5000 + "\nFrom me\n", html="", name="n" * 200)
def test_no_text_breaks_out_of_its_place_and_the_bytes_are_stable(subject, text, html, name):
    wanted = mail(subject=subject, text=text, html=html, attachments=[attachment(name=name)])
    try:
        check_params(RUN, wanted.params, largest_bytes=100)
        canonical(wanted.params)
    except errors.BadRequest:
        reject()
    content = b"a,b\r\n.\r\n" + text.encode()
    data = message_of(wanted, sender=SENDER, domain="example.org", attachments=[content])
    assert data == message_of(wanted, sender=SENDER, domain="example.org", attachments=[content])
    assert data.isascii() and not re.search(rb"\r(?!\n)|(?<!\r)\n", data)
    assert max(len(line) for line in data.split(b"\r\n")) <= 998
    head = message_from_bytes(data, policy=policy.SMTP)
    assert sorted(head.keys()) == sorted(
        ["Message-ID", "Date", "From", "To", "Subject", "Auto-Submitted", "MIME-Version", "Content-Type"]
    )
    assert head["To"] == "anna@example.org" and head["From"] == "Ledger <ledger@example.org>"
    assert [part.get_filename() for part in head.iter_attachments()] == [name]


MIME = {"MIME-Version", "Content-Type", "Content-Transfer-Encoding"}


@pytest.mark.parametrize(
    "subject", ["=?utf-8?q?x=0D=0ABcc:_eve@example.org?=", "=?utf-8?q?x=0D=0A=0D=0Abody?=", "=?utf-8?b?eA0KeQ==?="]
)
def test_a_subject_that_slips_through_the_first_check_does_not_slip_through_the_second(provider, subject):
    """Some versions of Python's own library write these line breaks into the head of a mail, others fold them away."""
    try:
        data = message_of(mail(subject=subject), sender=SENDER, domain="example.org", attachments=[])
    except ValueError as error:
        assert "breaks out" in str(error)
        refused = provider.send(mail(subject=subject), Deadline(5))
        assert isinstance(refused, Refused) and "breaks out" in refused.reason
    else:
        head = message_from_bytes(data, policy=policy.SMTP)
        assert "Bcc" not in head
        assert set(head.keys()) <= {"Message-ID", "Date", "From", "To", "Subject", "Auto-Submitted", *MIME}
        assert "body" not in head.get_content()


def test_the_time_zone_in_which_a_store_says_the_time_does_not_matter():
    there = mail()
    here = replace(there, created_at=there.created_at.astimezone(timezone(timedelta(hours=5))))
    assert message_of(there, sender=SENDER, domain="d", attachments=[]) == message_of(
        here, sender=SENDER, domain="d", attachments=[]
    )


def test_two_actions_have_two_message_ids(provider):
    identities = {
        message_from_bytes(message_of(one, sender=SENDER, domain="example.org", attachments=[]), policy=policy.SMTP)[
            "Message-ID"
        ]
        for one in (mail(), replace(mail(), action_id=RUN))
    }
    assert identities == {f"<{mail().action_id}@example.org>", f"<{RUN}@example.org>"}


def test_a_server_that_is_not_there_is_definite(context):
    provider = from_settings("mail.send", BASE | {"port": 9}, context)
    assert (provider.provider_class, provider.looks_up) == (ProviderClass.OPAQUE, False)
    for host in ("127.0.0.1", "localhost"):
        outcome = from_settings("mail.send", BASE | {"port": 9, "host": host}, context).send(mail(), Deadline(5))
        assert isinstance(outcome, NotSent) and f"{host}:9" in outcome.reason
    missing = mail(attachments=[attachment()])
    assert isinstance(provider.send(missing, Deadline(5)), Refused)


def test_a_mail_that_the_library_cannot_write_is_refused_and_leaves_no_question(provider, monkeypatch):
    def fail(*_, **__):
        raise RuntimeError("no such charset")

    monkeypatch.setattr("onward_ledger.providers.mail.message_of", fail)
    assert provider.send(mail(), Deadline(5)) == Refused("The mail cannot be written: no such charset")


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"host": "mail.example.org"}, "only given to a server on this machine"),
        ({"host": "127.0.0.1.example.org"}, "only given to a server on this machine"),
        ({"username": "u"}, "go together"),
        ({"password_env": "PATH"}, "go together"),
        ({"username": "u", "password_env": "NOT_SET_ANYWHERE"}, "NOT_SET_ANYWHERE is not set"),
        ({"username": "ü", "password_env": "PATH"}, "must be ASCII"),
        ({"sender": "=?utf-8?q?x=0D=0ABcc:_e?= <a@b>"}, "plain text"),
        ({"sender": "nobody"}, "sender: 'nobody' is not a mail address"),
        ({"sender": "x <a@b>, <c@d>"}, "sender"),
        ({"sender": "ledger@bücher.example"}, "domain"),
        ({"tls": "starttls", "ca_file": "nowhere.pem"}, "ca_file"),
    ],
)
def test_settings_that_cannot_be_meant_are_refused_in_words(context, settings, sentence):
    with pytest.raises(errors.BadRequest, match=sentence):
        from_settings("mail.send", BASE | settings, context)


@pytest.mark.parametrize("settings", [{"password": "s3cr3t"}, {"tls": "maybe"}, {"port": 0}, {"recipients": []}])
def test_settings_are_closed_and_take_no_secret_in_the_clear(context, settings):
    with pytest.raises(ValueError) as raised:
        from_settings("mail.send", BASE | settings, context)
    assert "s3cr3t" not in str(raised.value)


def test_a_password_is_in_no_repr_and_tls_is_what_is_meant_by_default(context, monkeypatch):
    monkeypatch.setenv("MAIL_PASSWORD", "s3cr3t")
    settings = {"host": "mail.example.org", "sender": "a@b.example", "username": "u", "password_env": "MAIL_PASSWORD"}
    provider = from_settings("mail.send", settings, context)
    assert "s3cr3t" not in repr(vars(provider))
    assert (provider._server.tls, provider._server.port, provider._domain) == ("starttls", 587, "b.example")
    assert provider._server.context.check_hostname
