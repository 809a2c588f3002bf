"""Kinds from a file: what they become, and that every mistake is told with the file, the kind and the key."""

from datetime import UTC, datetime
from importlib.metadata import EntryPoint, entry_points

import pytest

from onward_ledger.action import Action, Status
from onward_ledger.errors import BadRequest
from onward_ledger.masking import masked
from onward_ledger.objects import Objects
from onward_ledger.providers import providers_for
from onward_ledger.providers.configured import GROUP, Closed, configure, installed_types, secret
from onward_ledger.providers.interface import ApprovalPolicy, ProviderClass, SendingProvider

HTTP = """
[kinds."ticket.create"]
type = "http"
class = "queryable"
base_url = "https://tickets.example.com"
path = "/tickets"
marker = {body = "/ref"}
lookup = {path = "/tickets?ref={action_id}", results = "/items", id = "/id", marker = "/ref", single_page = true}
"""


@pytest.fixture
def objects(tmp_path):
    return Objects(str(tmp_path / "objects"))


class Note(Closed):
    text: str
    file: str = "notes.txt"


class Noted(SendingProvider):
    """A third party's provider."""

    provider_class = ProviderClass.OPAQUE
    looks_up = False

    def __init__(self, kind, settings, context):
        self.kind, self.settings, self.context = kind, settings, context

    def validate(self, run_id, resource, params):
        pass

    def send(self, action, deadline):
        raise AssertionError("nothing is sent here")


def from_settings(kind, settings, context):
    return Noted(kind, Note.model_validate(settings), context)


def other_kind(kind, settings, context):
    return Noted("another", None, context)


def nothing(kind, settings, context):
    return None


def complains(kind, settings, context):
    raise BadRequest("file: it does not exist.")


NOT_CALLABLE = 7


def point(name):
    return EntryPoint("note", f"tests.unit.test_ledger_configured:{name}", GROUP)


TYPES = {"note": point("from_settings")}
NOTE = '[kinds."note.add"]\ntype = "note"\ntext = "x"\n'


def written(tmp_path, text):
    path = tmp_path / "ledger.toml"
    path.write_text(text, encoding="utf-8")
    return path


def made(tmp_path, objects, text, types=None):
    return configure(providers_for(objects), written(tmp_path, text), objects, types)


def told(tmp_path, objects, text, types=TYPES):
    with pytest.raises(BadRequest) as caught:
        made(tmp_path, objects, text, types)
    message = caught.value.message
    assert message.startswith(str(tmp_path)) and message.endswith(".") and "\n" not in message
    return message.removeprefix(f"{tmp_path}/")


# --- what it makes ----------------------------------------------------------------------------------------------------


def test_without_a_file_there_are_the_built_in_kinds(objects):
    assert providers_for(objects).keys() >= {"draft.save", "report.publish"}


def test_an_empty_file_changes_nothing(tmp_path, objects):
    providers = providers_for(objects, written(tmp_path, ""))
    assert providers.keys() == providers_for(objects).keys()
    assert providers["report.publish"].approval == providers_for(objects)["report.publish"].approval


def test_a_kind_of_type_http(tmp_path, objects):
    providers = providers_for(objects, written(tmp_path, HTTP))
    provider = providers["ticket.create"]
    assert provider.kind == "ticket.create" and provider.provider_class is ProviderClass.QUERYABLE
    assert provider.approval is None and provider.editable == frozenset() and not provider.resend_after_absent


def test_what_every_kind_can_have_is_set_on_it_and_only_on_it(tmp_path, objects):
    more = """
    deadline_seconds = 10
    request_lifetime_seconds = 90
    settle_window_seconds = 300.5
    resend_after_absent = true
    editable = ["title", "resource"]
    approval = {role = "lead", principals = ["anna", "ben"], approvers = 2}
    """
    provider = made(tmp_path, objects, HTTP + more)["ticket.create"]
    assert (provider.deadline_seconds, provider.request_lifetime_seconds) == (10, 90)
    assert (provider.settle_window_seconds, provider.resend_after_absent) == (300.5, True)
    assert provider.editable == {"title", "resource"}
    assert provider.approval == ApprovalPolicy(role="lead", principals=frozenset({"anna", "ben"}), approvers=2)
    assert type(provider).deadline_seconds == 30.0 and type(provider).resend_after_absent is False


def a_record(**changes):
    record = {
        "action_id": "3f1c8a52-0d6f-5f3e-9a55-2f6d6c9b7a10",
        "run_id": "7f0f3b8e-6a5d-4a53-9d7e-0c1a2b3c4d5e",
        "step": "pay",
        "slot": "card",
        "rev": 1,
        "kind": "note.add",
        "resource": "desk/7",
        "params": {"text": "x", "list": [1, 2]},
        "request_hash": "ab" * 32,
        "status": Status.SUCCEEDED,
        "provider_id": "n-1",
        "receipt": {"members": {"id": 17}, "who": "{action_id}"},
        "epoch": 1,
        "version": 3,
        "events": 3,
        "head": "cd" * 32,
        "created_at": datetime(2026, 1, 1, tzinfo=UTC),
        "updated_at": datetime(2026, 1, 1, tzinfo=UTC),
    }
    return Action(**record | changes)


def test_what_takes_an_effect_back_is_made_from_the_whole_record(tmp_path, objects):
    text = """
    [kinds."note.add".compensate]
    kind = "note.drop"
    resource = "{resource}/{slot}"
    params = {id = "{receipt.members.id}", of = "{provider_id} of {step}", list = "{params.list}", w = "{receipt.who}"}
    [kinds."note.drop"]
    type = "note"
    text = "x"
    """
    compensation = made(tmp_path, objects, NOTE + text, TYPES)["note.add"].compensation
    assert compensation.kind == "note.drop"
    resource, params = compensation.request(a_record())
    assert resource == "desk/7/card"
    assert params == {"id": 17, "of": "n-1 of pay", "list": [1, 2], "w": "{action_id}"}


@pytest.mark.parametrize(
    ("changes", "missing"),
    [
        ({"receipt": {"members": {}}}, "receipt.members.id is missing."),
        ({"receipt": None}, "receipt is missing."),
        ({"provider_id": None}, "provider_id is missing."),
    ],
)
def test_what_a_record_lacks_is_told(tmp_path, objects, changes, missing):
    text = (
        'compensate = {kind = "note.add", resource = "r", params = {a = "{receipt.members.id}", b = "{provider_id}"}}'
    )
    compensation = made(tmp_path, objects, NOTE + text, TYPES)["note.add"].compensation
    with pytest.raises(BadRequest) as caught:
        compensation.request(a_record(**changes))
    assert caught.value.message == missing


def test_without_it_nothing_takes_an_effect_back(tmp_path, objects):
    assert made(tmp_path, objects, NOTE, TYPES)["note.add"].compensation is None
    assert {provider.compensation for provider in providers_for(objects).values()} == {None}


def test_a_built_in_kind_keeps_what_is_not_said(tmp_path, objects):
    text = """
    [kinds."draft.save"]
    deadline_seconds = 5
    [kinds."draft.save".approval]
    [kinds."report.publish".approval]
    role = "editor"
    """
    providers = made(tmp_path, objects, text)
    assert providers["draft.save"].deadline_seconds == 5 and providers["draft.save"].approval == ApprovalPolicy()
    assert providers["report.publish"].approval == ApprovalPolicy(role="editor")
    assert providers["report.publish"].editable == {"title", "note", "resource"}


def test_an_approval_can_be_taken_away_only_by_its_word(tmp_path, objects):
    providers = made(tmp_path, objects, '[kinds."report.publish"]\napproval = {required = false}')
    assert providers["report.publish"].approval is None
    assert providers_for(objects)["report.publish"].approval is not None
    assert "approval" in told(tmp_path, objects, '[kinds."report.publish"]\napproval = false')


def test_a_type_of_a_third_party_gets_its_settings_and_where_it_is(tmp_path, objects):
    provider = made(tmp_path, objects, NOTE + "deadline_seconds = 3\n", TYPES)["note.add"]
    assert provider.settings == Note(text="x") and provider.deadline_seconds == 3
    assert provider.context.objects is objects and provider.context.folder == tmp_path


def test_the_types_that_come_with_the_ledger_are_found_as_everybody_elses():
    assert installed_types().keys() >= {"http", "git", "object", "mail"}
    assert installed_types() == {found.name: found for found in entry_points(group=GROUP)}
    for name in ("http", "git", "object", "mail"):
        assert installed_types()[name].load().__module__.startswith("onward_ledger.providers.")


# --- what is wrong with it --------------------------------------------------------------------------------------------

UNDONE = 'compensate = {{kind = "{}", resource = "r", params = {{}}}}'
WRONG = [
    ("kinds = 1", "ledger.toml: kinds: this must be a table of tables."),
    ("kinds.x = 1", 'ledger.toml: kinds."x": this must be a table.'),
    ("[kind.x]", "ledger.toml: kind: this is not known"),
    ("[kinds", "ledger.toml: the file is not TOML"),
    ('[kinds."a b"]\ntype="note"', "a kind may hold letters, digits and _ . : # - only"),
    ('[kinds.ticket.create]\ntype="note"', 'written in quotes: [kinds."ticket.create"]'),
    ('[kinds."t"]', 'kinds."t": type: this kind needs one'),
    ('[kinds."t"]\ntype = 7', "type: this kind needs one"),
    ('[kinds."t"]\ntype = "fax"', "type: there is no type 'fax'; installed are note."),
    ('[kinds."draft.save"]\ntype = "note"', "type: the kind is built in"),
    ('[kinds."draft.save"]\ntext = "x"', "text: this is not known of a built-in kind"),
    ('[kinds."report.publish"]\ndeadline_seconds = 3', "deadline_seconds: a transactional kind sends nothing"),
    (NOTE + "deadline_seconds = 0", 'kinds."note.add": deadline_seconds: input should be greater than 0'),
    (NOTE + "deadline_seconds = inf", "deadline_seconds: "),
    (NOTE + 'deadline_seconds = "soon"', "deadline_seconds: "),
    (NOTE + "settle_window_seconds = -1", "settle_window_seconds: "),
    (NOTE + "approval = {approvers = 3}", "approval.approvers: "),
    (NOTE + 'approval = {approver = "x"}', "approval.approver: this is not known"),
    (NOTE + 'approval = {approvers = 2, principals = ["a"]}', "2 approvers are asked for, and principals names 1"),
    (
        NOTE + 'approval = {required = false, role = "lead"}',
        "approval: who approves is said of an approval that is not",
    ),
    (NOTE + "resend_after_absent = true", "resend_after_absent: only a kind that can be looked up"),
    (NOTE + "compensate = true", 'kinds."note.add": compensate: '),
    (NOTE + 'compensate = {kind = "x"}', "compensate.resource: field required"),
    (NOTE + 'compensate = {kind = "x", resource = "", params = {}}', "compensate.resource: this must be text"),
    (NOTE + 'compensate = {kind = "x", resource = "r", params = "p"}', "compensate.params: this must be a table"),
    (NOTE + 'compensate = {kind = "x", resource = "{reciept.id}", params = {}}', "is no field"),
    (NOTE + 'compensate = {kind = "x", resource = "r", params = {a = ["{receipt}"]}}', "is no field"),
    (NOTE + UNDONE.format("note.gone"), "compensate.kind: there is no kind 'note.gone'."),
    (NOTE + UNDONE.format("report.publish"), "compensate.kind: report.publish needs an approval, and nobody is asked"),
    (NOTE + "colour = 1", 'kinds."note.add": colour: this is not known.'),
    ('[kinds."note.add"]\ntype = "note"', "text: field required"),
]


@pytest.mark.parametrize(("text", "sentence"), WRONG, ids=range(len(WRONG)))
def test_a_mistake_is_told_with_the_file_the_kind_and_the_key(tmp_path, objects, text, sentence):
    assert sentence in told(tmp_path, objects, text)


def test_a_kind_that_cannot_be_looked_up_is_never_found_absent(tmp_path, objects):
    opaque = HTTP.replace('"queryable"', '"opaque"').replace("lookup = ", "# ") + "resend_after_absent = true\n"
    assert "resend_after_absent: only a kind that can be looked up" in told(tmp_path, objects, opaque, None)
    with_key = (
        HTTP.replace('"queryable"', '"idempotent"') + "key = {lifetime_seconds = 60}\nresend_after_absent = true\n"
    )
    assert made(tmp_path, objects, with_key)["ticket.create"].resend_after_absent


def test_a_file_that_is_not_there_or_no_text(tmp_path, objects):
    with pytest.raises(BadRequest, match="cannot be read: No such file"):
        providers_for(objects, tmp_path / "missing.toml")
    (tmp_path / "ledger.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(BadRequest, match="is not TOML"):
        providers_for(objects, tmp_path / "ledger.toml")
    (tmp_path / "ledger.toml").write_bytes(b"#" * (1024 * 1024 + 1))
    with pytest.raises(BadRequest, match="larger than"):
        providers_for(objects, tmp_path / "ledger.toml")


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ("tests.unit.no_such_module:make", "cannot be imported: ModuleNotFoundError: No module named"),
        ("tests.unit.test_ledger_configured:no_such_name", "cannot be imported: AttributeError"),
        ("tests.unit.test_ledger_configured:NOT_CALLABLE", "cannot be called"),
        ("tests.unit.test_ledger_configured:other_kind", "did not make a provider of this kind"),
        ("tests.unit.test_ledger_configured:nothing", "did not make a provider of this kind"),
        ("tests.unit.test_ledger_configured:complains", 'kinds."note.add": file: it does not exist.'),
    ],
)
def test_a_type_of_a_third_party_that_does_not_work_is_told(tmp_path, objects, value, sentence):
    assert sentence in told(tmp_path, objects, NOTE, {"note": EntryPoint("note", value, GROUP)})


def test_a_module_that_fails_when_it_is_imported_is_told(tmp_path, objects, monkeypatch):
    (tmp_path / "broken_type.py").write_text("raise RuntimeError('no licence\\nsecond line')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    broken = {"note": EntryPoint("note", "broken_type:make", GROUP)}
    assert "broken_type:make cannot be imported: RuntimeError: no licence." in told(tmp_path, objects, NOTE, broken)


def test_a_type_that_does_not_work_disturbs_nobody_who_does_not_use_it(tmp_path, objects):
    broken = TYPES | {"fax": EntryPoint("fax", "no_such_module:make", GROUP)}
    assert "note.add" in made(tmp_path, objects, NOTE, broken)


def test_a_setting_that_may_be_a_secret_is_not_quoted(tmp_path, objects):
    text = NOTE.replace('text = "x"', 'text = ["s3cret-word"]') + 'approval = {role = ["s3cret-word"]}\n'
    assert "s3cret" not in told(tmp_path, objects, text)
    assert "s3cret" not in told(tmp_path, objects, text.replace("approval", "editable"))


# --- secrets ----------------------------------------------------------------------------------------------------------


def test_a_secret_is_read_where_its_name_leads_and_is_masked_from_then_on(tmp_path, monkeypatch):
    monkeypatch.setenv("A_TOKEN", "tok-from-the-environment")
    (tmp_path / "token").write_text("tok-from-the-file\r\n")
    assert masked("tok-from-the-file") == "tok-from-the-file"
    by_name = secret("token", env="A_TOKEN", file=None, folder=tmp_path)
    by_file = secret("token", env=None, file="token", folder=tmp_path)
    assert by_name is not None and by_name.get_secret_value() == "tok-from-the-environment"
    assert by_file is not None and by_file.get_secret_value() == "tok-from-the-file"
    assert "tok-" not in f"{by_name!r} {by_file} " + masked("tok-from-the-file and tok-from-the-environment")
    assert secret("token", env=None, file=None, folder=tmp_path) is None


def test_a_secret_with_two_sources_is_none(tmp_path):
    with pytest.raises(BadRequest, match="token_env and token_file are both given"):
        secret("token", env="A", file="b", folder=tmp_path)
