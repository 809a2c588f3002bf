"""The provider type `mail` on a real SMTP server, whose own log says what was accepted: what is definite, what not."""

import hashlib
import socket
import time
from contextlib import contextmanager
from dataclasses import replace
from email import message_from_string, policy
from email.message import EmailMessage

import pytest

from onward_ledger.action import Status
from onward_ledger.objects import Objects, digest_of
from onward_ledger.providers import mail as mail_module
from onward_ledger.providers import mail_message
from onward_ledger.providers.configured import Context
from onward_ledger.providers.interface import Applied, CannotTell, Deadline, DeadlinePassed, NotSent, Refused
from onward_ledger.providers.mail import from_settings
from onward_ledger.providers.mail_session import Session
from tests.support.configured import ledger_over, perform
from tests.support.killed import die, run_killed, start
from tests.support.mail_server import PASSWORD, USER, mail_server, make_certificate
from tests.unit.test_ledger_action import RUN, action

pytestmark = pytest.mark.campaign

PDF = b"%PDF-1.7\nnot really\n"


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    with mail_server(tmp_path_factory.mktemp("mail")) as server:
        yield server


@pytest.fixture
def server(running):
    running.reset()
    return running


def provider_of(folder, port, **settings):
    objects = Objects(str(folder / "objects"))
    objects.put_once(f"runs/{RUN}/{digest_of(PDF)}", PDF)
    base = {"host": "127.0.0.1", "port": port, "tls": "none", "sender": "Onward Ledger <ledger@example.org>"}
    return from_settings("mail.send", base | settings, Context(objects=objects, folder=folder))


@pytest.fixture
def provider(server, tmp_path):
    return provider_of(tmp_path, server.port)


def mail(**changes):
    params = {"to": ["bob@example.org", "anna@example.org"], "subject": "Sales", "text": "See below.\n.\n..dots\n"}
    params |= changes
    return action(kind="mail.send", resource=",".join(mail_message.recipients_of(params)), params=params)


def attachment(name="report.pdf", **changes):
    digest = digest_of(PDF)
    described = {"digest": digest, "size": len(PDF), "media_type": "application/pdf"}
    return {"name": name, "source": f"runs/{RUN}/{digest}"} | described | changes


def parsed(accepted):
    return message_from_string(accepted["content"], policy=policy.default)


def test_a_mail_is_accepted_and_the_receipt_says_what_the_server_said(provider, server):
    wanted = mail(cc=["carol@example.org"], html="<p>Grüße</p>", attachments=[attachment("Übersicht.pdf")])
    provider.validate(wanted.run_id, wanted.resource, wanted.params)
    applied = provider.send(wanted, Deadline(20))
    assert isinstance(applied, Applied)
    [accepted] = server.accepted
    assert accepted["from"] == "ledger@example.org"
    assert accepted["to"] == ["anna@example.org", "bob@example.org", "carol@example.org"]
    data = accepted["content"].encode()
    identity = f"<{wanted.action_id}@example.org>"
    assert applied.provider_id == identity
    assert applied.receipt | {"reply": ""} == {
        "message_id": identity,
        "recipients": accepted["to"],
        "digest": hashlib.sha256(data).hexdigest(),
        "size": len(data),
        "server": f"127.0.0.1:{server.port}",
        "reply": "",
    }
    assert applied.receipt["reply"].startswith("250 2.0.0 Ok: queued as Q")
    message = parsed(accepted)
    assert (message["Message-ID"], message["From"]) == (identity, "Onward Ledger <ledger@example.org>")
    assert (message["To"], message["Cc"]) == ("bob@example.org, anna@example.org", "carol@example.org")
    assert message["Date"].datetime == wanted.created_at.replace(microsecond=0)
    assert message.get_body(("plain",)).get_content().splitlines() == ["See below.", ".", "..dots"]
    assert message.get_body(("html",)).get_content().strip() == "<p>Grüße</p>"
    [attached] = message.iter_attachments()
    assert (attached.get_filename(), attached.get_content()) == ("Übersicht.pdf", PDF)
    server.wait_for("QUIT")
    assert isinstance(provider.lookup(wanted), CannotTell) and not provider.looks_up


def test_the_bytes_follow_from_the_record_alone(provider, server, tmp_path, monkeypatch):
    wanted = mail(html="<p>x</p>", attachments=[attachment(), attachment("b.pdf")])
    for one in (provider, provider_of(tmp_path, server.port)):
        assert isinstance(one.send(replace(wanted, epoch=5, claims=3), Deadline(20)), Applied)
    first, second = server.accepted
    assert first == second, "sent twice on purpose: a mailbox can tell that it is one mail"
    # Control: boundaries as the library makes them differ from send to send, and the comparison notices.
    monkeypatch.setattr(EmailMessage, "set_boundary", lambda *_: None)
    provider.send(wanted, Deadline(20))
    assert server.accepted[2] != first


@pytest.mark.parametrize(
    ("behaviour", "kind", "sentence"),
    [
        ({"greeting": "554 no service"}, NotSent, "554 no service"),
        ({"greeting": "421 too busy"}, NotSent, "421 too busy"),
        ({"mail": "451 try later"}, NotSent, "451 try later"),
        ({"mail": "550 not you"}, Refused, "550 not you"),
        ({"rcpt": {"bob@example.org": "550 no such user"}}, Refused, "for bob@example.org: 550 no such user"),
        ({"rcpt": {"bob@example.org": "450 greylisted"}}, NotSent, "450 greylisted"),
        ({"rcpt": {"bob@example.org": "450 x", "anna@example.org": "551 y"}}, Refused, "551 y"),
        ({"data": "451 not now"}, NotSent, "451 not now"),
        ({"data": "554 no valid recipients"}, Refused, "554 no valid"),
        ({"before": "drop"}, NotSent, "closed"),
        ({"reply": "451 disk full"}, NotSent, "451 disk full"),
        ({"reply": "550 spam"}, Refused, "550 spam"),
    ],
)
def test_what_the_server_says_no_to_is_definite_and_nothing_is_accepted(provider, server, behaviour, kind, sentence):
    server.behave(**behaviour)
    outcome = provider.send(mail(), Deadline(20))
    assert isinstance(outcome, kind), outcome
    assert sentence in outcome.reason
    assert server.accepted == []
    if "rcpt" in behaviour:
        server.wait_for("QUIT")
        assert server.said[-2:] == ["RSET", "QUIT"], "one refused recipient refuses the whole, before the content"
    server.behave()
    assert isinstance(provider.send(mail(), Deadline(20)), Applied), "control: it was the behaviour"
    assert len(server.accepted) == 1


@pytest.mark.parametrize(
    ("behaviour", "accepted"), [({"after": "drop"}, 1), ({"after": "hang"}, 1), ({"reply": "hm"}, 0)]
)
def test_a_mail_whose_reply_is_missing_or_no_reply_is_unknown(provider, server, behaviour, accepted):
    server.behave(**behaviour)
    deadline = Deadline(1.0 if behaviour == {"after": "hang"} else 20)
    with pytest.raises(OSError):
        provider.send(mail(), deadline)
    assert len(server.accepted) == accepted
    assert deadline.remaining > -3


def test_a_server_that_hangs_before_the_content_is_cut_at_the_deadline_and_definite(provider, server):
    server.behave(before="hang")
    deadline = Deadline(1.0)
    assert isinstance(provider.send(mail(), deadline), NotSent)
    assert -3 < deadline.remaining <= 0
    assert server.accepted == []


def test_a_server_that_drips_is_cut_at_the_deadline_too(tmp_path):
    """Every byte is in time, and the greeting never ends: a limit per read would wait for ever."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        provider = provider_of(tmp_path, listener.getsockname()[1])
        process = start(send, tmp_path, listener.getsockname()[1], 1.5)
        connection, _ = listener.accept()
        began = time.monotonic()
        with pytest.raises(OSError):
            while time.monotonic() - began < 15:
                connection.sendall(b"2")
                time.sleep(0.05)
        process.join(20)
        assert process.exitcode == 0
        connection.close()
    assert isinstance(provider.send(mail(), Deadline(5)), NotSent), "nobody listens any more"


def send(folder, port, seconds):
    assert isinstance(provider_of(folder, port).send(mail(), Deadline(seconds)), NotSent)


@pytest.mark.parametrize("step", ["address", "announce"])
def test_no_content_is_sent_behind_the_deadline(provider, server, monkeypatch, step):
    real, deadline = getattr(Session, step), Deadline(20)

    def slow(*arguments, **more):
        found = real(*arguments, **more)
        object.__setattr__(deadline, "began", -1e9)
        return found

    monkeypatch.setattr(Session, step, slow)
    with pytest.raises(DeadlinePassed):
        provider.send(mail(), deadline)
    assert server.accepted == [] and "CONTENT" not in server.said
    assert isinstance(provider.send(mail(), replace(Deadline(20), began=-1e9)), NotSent)


@pytest.mark.parametrize("tls", ["starttls", "implicit"])
def test_a_mail_goes_encrypted_and_logged_in(tmp_path, monkeypatch, tls):
    monkeypatch.setenv("MAIL_PASSWORD", PASSWORD)
    with mail_server(tmp_path / "mail", tls=tls, login=True) as server:
        login = {"username": USER, "password_env": "MAIL_PASSWORD"}
        settings = {"tls": tls, "ca_file": "mail/ca.pem", "host": "localhost", **login}
        applied = provider_of(tmp_path, server.port, **settings).send(mail(), Deadline(20))
        assert isinstance(applied, Applied), applied
        [accepted] = server.accepted
        assert (accepted["tls"], accepted["login"]) == (True, True)
        # A certificate of somebody else, a wrong password, another way of TLS: nothing is sent, and nothing is told.
        (tmp_path / "other").mkdir()
        make_certificate(tmp_path / "other")
        stranger = provider_of(tmp_path, server.port, **settings | {"ca_file": "other/ca.pem"})
        outcome = stranger.send(mail(), Deadline(20))
        assert isinstance(outcome, NotSent) and "certificate" in outcome.reason
        monkeypatch.setenv("MAIL_PASSWORD", "wrong-word")
        outcome = provider_of(tmp_path, server.port, **settings).send(mail(), Deadline(20))
        assert isinstance(outcome, NotSent) and "535" in outcome.reason and "wrong-word" not in outcome.reason
        other = provider_of(tmp_path, server.port, tls="none", host="127.0.0.1")
        assert not isinstance(other.send(mail(), Deadline(1)), Applied)
        assert len(server.accepted) == 1


def test_a_server_without_starttls_gets_nothing_in_the_clear(server, tmp_path):
    outcome = provider_of(tmp_path, server.port, tls="starttls").send(mail(), Deadline(20))
    assert isinstance(outcome, NotSent) and "no STARTTLS" in outcome.reason
    assert not any(line.startswith("MAIL") for line in server.said)


def test_an_address_in_other_letters_needs_a_server_that_takes_it(server, tmp_path):
    wanted = mail(to=["änne@example.org"], subject="Grüße")
    provider = provider_of(tmp_path, server.port)
    provider.validate(wanted.run_id, wanted.resource, wanted.params)
    assert isinstance(provider.send(wanted, Deadline(20)), Applied)
    assert server.accepted[0]["to"] == ["änne@example.org"]
    assert "To: änne@example.org" in server.accepted[0]["content"]
    plain = tmp_path / "plain"
    plain.mkdir()
    (plain / "no-utf8").touch()
    with mail_server(plain) as old:
        refused = provider_of(tmp_path, old.port).send(wanted, Deadline(20))
        assert isinstance(refused, Refused) and "SMTPUTF8" in refused.reason
        assert isinstance(provider_of(tmp_path, old.port).send(mail(subject="Grüße"), Deadline(20)), Applied)


def test_an_attachment_that_is_not_there_is_refused_before_the_server_is_asked(provider, server):
    missing = mail(attachments=[attachment(source=f"runs/{RUN}/none")])
    assert isinstance(provider.send(missing, Deadline(20)), Refused)
    assert server.said == []


# What a killed service leaves: at most one mail, and a record that says UNKNOWN.


MOMENTS = ("session", "address", "announce", "content")


def killed_at(folder, port, moment, window):
    """Perform in this process, and be killed before or after one part of the conversation."""
    owner = mail_module if moment == "session" else Session
    real = getattr(owner, moment)

    @contextmanager
    def dying_session(*arguments):
        if window == "before":
            die()
        with real(*arguments):
            die()
        yield

    def dying(*arguments, **more):
        if window == "before":
            die()
        real(*arguments, **more)
        die()

    setattr(owner, moment, dying_session if moment == "session" else dying)
    perform_mail(folder, port)


def perform_mail(folder, port):
    with ledger_over(folder, provider_of(folder, port)) as ledger:
        return perform(ledger, mail())


def assert_unknown_and_not_sent_again(folder, server, mails):
    """The next service says UNKNOWN, as often as it is asked, and the server hears nothing more."""
    heard = len(server.said)
    with ledger_over(folder, provider_of(folder, server.port)) as ledger:
        for _ in range(3):
            action = perform(ledger, mail())
            assert (action.status, action.claims) == (Status.UNKNOWN, 1)
        assert ledger.reconcile(action.action_id).status is Status.UNKNOWN
    assert len(server.said) == heard
    assert len(server.accepted) == mails


@pytest.mark.parametrize("window", ["before", "after"])
@pytest.mark.parametrize("moment", MOMENTS)
def test_killed_at_any_moment_there_is_at_most_one_mail_and_the_record_is_unknown(server, tmp_path, moment, window):
    run_killed(killed_at, tmp_path, server.port, moment, window)
    mails = 1 if (moment, window) == ("content", "after") else 0
    assert_unknown_and_not_sent_again(tmp_path, server, mails)


def test_killed_while_the_server_has_the_mail_and_has_not_replied_there_is_one_mail(server, tmp_path):
    server.behave(after="hang")
    process = start(perform_mail, tmp_path, server.port)
    server.wait_for("ACCEPTED")
    process.kill()
    process.join(20)
    assert process.exitcode == -9
    server.behave()
    assert_unknown_and_not_sent_again(tmp_path, server, 1)


def test_a_lost_reply_is_unknown_until_a_person_settles_it(server, tmp_path):
    server.behave(after="drop")
    with ledger_over(tmp_path, provider_of(tmp_path, server.port)) as ledger:
        assert perform(ledger, mail()).status is Status.UNKNOWN
        server.behave()
        assert perform(ledger, mail()).status is Status.UNKNOWN
        assert len(server.accepted) == 1


def test_control_an_eager_resend_and_a_fresh_message_id_are_two_mails_in_the_server_s_log(
    server, tmp_path, monkeypatch
):
    provider = provider_of(tmp_path, server.port)
    server.behave(after="drop")
    with pytest.raises(OSError):
        provider.send(mail(), Deadline(20))
    server.behave()
    monkeypatch.setattr(mail_message, "message_id", lambda action, domain: f"<{time.monotonic_ns()}@{domain}>")
    provider.send(mail(), Deadline(20))
    assert len({parsed(accepted)["Message-ID"] for accepted in server.accepted}) == 2
