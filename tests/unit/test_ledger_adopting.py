"""docs/adopting.md: its files are read as they are printed, its tables are the settings, its provider works."""

import tomllib
import uuid
from typing import get_args

import pytest

from onward_ledger.action import ActionKey, Intent, Status
from onward_ledger.errors import BadRequest
from onward_ledger.ledger import Ledger
from onward_ledger.objects import Objects
from onward_ledger.providers import providers_for
from onward_ledger.providers.configured import GROUP, Approval, Closed, Common, installed_types
from onward_ledger.providers.http_settings import NOT_ACCEPTED, REFUSED, HttpSettings
from onward_ledger.providers.interface import ApprovalPolicy, ProviderClass, SendingProvider
from onward_ledger.store import open_store
from tests.support.markdown import codes, document

ADOPTING = document("docs/adopting.md")
EXAMPLES = [block for block in ADOPTING.blocks("toml") if "kinds." in block]
HEADER = ("setting", "default", "what it is")


@pytest.fixture
def objects(tmp_path):
    return Objects(str(tmp_path / "objects"))


@pytest.fixture
def package(tmp_path, monkeypatch):
    """The provider of the page, installed as the page says."""
    (code,) = [block for block in ADOPTING.blocks("python") if "def from_settings" in block]
    (project,) = [block for block in ADOPTING.blocks("toml") if "entry-points" in block]
    points = tomllib.loads(project)["project"]["entry-points"][GROUP]
    site = tmp_path / "site"
    info = site / "acme_notes-1.0.dist-info"
    info.mkdir(parents=True)
    (site / "acme_notes.py").write_text(code)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-notes\nVersion: 1.0\n")
    lines = "\n".join(f"{name} = {value}" for name, value in points.items())
    (info / "entry_points.txt").write_text(f"[{GROUP}]\n{lines}\n")
    monkeypatch.syspath_prepend(str(site))
    return site


def configured(tmp_path, objects, *blocks):
    path = tmp_path / "ledger.toml"
    path.write_text("\n".join(blocks))
    return providers_for(objects, path)


def test_the_files_are_read_as_they_are_printed(tmp_path, objects, package, monkeypatch):
    monkeypatch.setenv("PAYMENTS_TOKEN", "tok-0123456789")
    (tmp_path / "tickets.key").write_text("key-0123456789\n")
    providers = configured(tmp_path, objects, *EXAMPLES)
    assert providers["report.publish"].approval == ApprovalPolicy(role="editor", approvers=2)
    payment, ticket, pager = (providers[kind] for kind in ("payment.create", "ticket.create", "pager.call"))
    assert (payment.provider_class, payment.key_lifetime_seconds) == (ProviderClass.IDEMPOTENT, 86400)
    assert payment.approval == ApprovalPolicy(role="treasurer", approvers=2)
    assert (ticket.provider_class, ticket.looks_up, ticket.resend_after_absent) == (ProviderClass.QUERYABLE, True, True)
    assert ticket.settle_window_seconds == 300
    assert (pager.provider_class, pager.looks_up) == (ProviderClass.OPAQUE, False)
    run_id = str(uuid.uuid4())
    payment.validate(run_id, "acme", {"amount": 5})
    ticket.validate(run_id, "any", {"project": "web", "title": "x", "text": "y"})
    pager.validate(run_id, "any", {"to": "anna"})
    with pytest.raises(BadRequest):
        ticket.validate(run_id, "any", {"project": "../admin", "title": "x", "text": "y"})


def fields(model, prefix=""):
    """Every setting with its default, as the page writes names; tables of settings are followed."""
    for name, field in model.model_fields.items():
        path = prefix + (field.alias or name)
        inner = [kind for kind in (field.annotation, *get_args(field.annotation)) if is_model(kind)]
        if inner:
            between = ".NAME." if "dict" in str(field.annotation) else "."
            yield from fields(inner[0], path + between)
        else:
            yield path, field


def is_model(kind):
    return isinstance(kind, type) and issubclass(kind, Closed)


def shown(field):
    if field.is_required():
        return "required"
    default = field.get_default(call_default_factory=True)
    if isinstance(default, bool):
        return str(default).lower()
    if default is None or default in ({}, ()):
        return "none"
    return f"{default:g}" if isinstance(default, float) else str(default)


SAID_IN_WORDS = {
    "secret_headers.NAME.prefix": "empty",
    "lookup.receipt": "as `answer.receipt`",
    "refused": "see below",
    "not_accepted": "429",
    "tls.ca_file": "the system's",
    "keep_alive_seconds": "15 or 0",
}


def tables():
    return [rows for names, rows in ADOPTING.tables() if names == list(HEADER)]


def test_every_setting_of_http_stands_in_the_table_with_its_default():
    rows = {codes(name)[0]: default for name, default, _ in tables()[1]}
    expected = {}
    for name, field in fields(HttpSettings):
        default = SAID_IN_WORDS.get(name) or shown(field)
        expected[name] = default
    assert list(rows) == list(expected)
    assert {name: default if "answer." in default else default.strip("`") for name, default in rows.items()} == expected


def test_every_setting_of_any_kind_stands_in_the_table():
    rows = {codes(name)[0]: default for name, default, _ in tables()[0]}
    common = [name for name, _ in fields(Common) if not name.startswith("approval")]
    assert sorted(rows) == sorted(["type", *common, *(name for name, _ in fields(Approval, "approval."))])
    for name in common:
        if name != "editable" and not name.startswith("compensate."):
            assert rows[name] == shown_value(getattr(SendingProvider, name)), name
    assert set(codes(tables()[0][0][2])) == installed_types().keys() - {"notes"}


def shown_value(value):
    return str(value).lower() if isinstance(value, bool) else f"{value:g}"


def test_the_statuses_are_those_of_the_code():
    answers = ADOPTING.table("answer", "the record says")
    refused = next(row[0] for row in answers if row[1] == "FAILED")
    assert tuple(int(word) for word in refused.replace(",", " ").split() if word.isdecimal()) == REFUSED
    assert NOT_ACCEPTED == (429,)


def test_the_provider_of_the_page_is_found_and_works(tmp_path, objects, package):
    note = next(block for block in EXAMPLES if "note.add" in block)
    provider = configured(tmp_path, objects, note)["note.add"]
    assert provider.deadline_seconds == 5
    opened = open_store(f"sqlite:///{tmp_path / 'ledger.db'}")
    opened.database.migrate()
    ledger = Ledger(opened.store, {"note.add": provider})
    opened.store.start_instance(ledger.instance, lock_key=1, version="test", host="here", pid=1)
    key = ActionKey(str(uuid.uuid4()), "say", "note")
    intent = Intent(key=key, kind="note.add", resource="notes", params={"text": "hello"}, epoch=1)
    done, again = ledger.put(intent, propose=False), ledger.put(intent, propose=False)
    assert (done.status, again.replayed, again.receipt) == (Status.SUCCEEDED, True, done.receipt)
    (file,) = (tmp_path / "notes").iterdir()
    assert (file.name, file.read_text()) == (done.provider_id, "hello")
    assert provider.lookup(done).receipt == done.receipt
    file.unlink()
    assert type(provider.lookup(done)).__name__ == "Absent"
    wrong = Intent(key=ActionKey(key.run_id, "say", "x"), kind="note.add", resource="n", params={}, epoch=1)
    with pytest.raises(BadRequest, match="exactly the member text"):
        ledger.put(wrong, propose=False)
    opened.database.close()


def test_without_the_package_there_is_no_such_type(tmp_path, objects):
    note = next(block for block in EXAMPLES if "note.add" in block)
    with pytest.raises(BadRequest, match="there is no type 'notes'; installed are "):
        configured(tmp_path, objects, note)
