"""Effects at an API that misbehaves, in a process of its own: what the record says, and what really happened.

The API's log is the witness. The services that are killed here are real processes, killed while their request is held.
"""

import threading
import uuid
from datetime import timedelta

import pytest

from experiments.fake_api import FakeApi
from onward_ledger import errors, protocol
from onward_ledger.action import ActionKey, Intent, Status
from onward_ledger.ledger import Ledger
from onward_ledger.providers import providers_for
from onward_ledger.store import open_store
from tests.support.ledger import ENGINES, open_bed, shared_database
from tests.support.ledger_process import ledger_process
from tests.support.raw_server import raw_server

pytestmark = pytest.mark.campaign

S = Status
CONFIG = """
[kinds."thing.keyed"]
type = "http"
class = "idempotent"
base_url = "{url}/idempotent"
path = "/things"
plain_http = true
allow_addresses = ["127.0.0.1/32"]
deadline_seconds = {deadline}
request_lifetime_seconds = 60
key = {{lifetime_seconds = 3600}}
marker = {{header = "X-Marker"}}
answer = {{provider_id = "/id", receipt = {{key = "/key"}}}}
secret_headers = {{Authorization = {{value_env = "THINGS_TOKEN", prefix = "Bearer "}}}}

[kinds."thing.found"]
type = "http"
class = "queryable"
base_url = "{url}/searchable"
path = "/things"
plain_http = true
allow_addresses = ["127.0.0.1/32"]
deadline_seconds = {deadline}
request_lifetime_seconds = 60
settle_window_seconds = 120
marker = {{body = "/marker"}}
answer = {{provider_id = "/id"}}

[kinds."thing.found".lookup]
path = "/things?marker={{action_id}}"
results = "/items"
id = "/id"
marker = "/marker"
complete = {{"/has_more" = false}}
{lookup}

[kinds."thing.sent"]
type = "http"
class = "opaque"
base_url = "{url}/opaque"
path = "/things"
plain_http = true
allow_addresses = ["127.0.0.1/32"]
deadline_seconds = {deadline}
marker = {{header = "X-Marker"}}
answer = {{provider_id = "/id"}}
not_accepted = [429, 503]
"""
TOKEN = "tok-0123456789abcdef"


@pytest.fixture(scope="module")
def shared_api(tmp_path_factory):
    with FakeApi(tmp_path_factory.mktemp("api")) as api:
        yield api


@pytest.fixture
def api(shared_api, monkeypatch):
    monkeypatch.setenv("THINGS_TOKEN", TOKEN)
    yield shared_api
    shared_api.control(heal=True)


def configuration(folder, api, *, deadline=10, lookup="", more=""):
    path = folder / "ledger.toml"
    path.write_text(CONFIG.format(url=api.url, deadline=deadline, lookup=lookup) + more)
    return path


@pytest.fixture(params=ENGINES)
def bed(request, tmp_path):
    with open_bed(request.param, request, tmp_path) as bed:
        yield bed


class Desk:
    """A ledger with the kinds of a file over the store of a bed."""

    def __init__(self, bed, path):
        self.bed = bed
        self.providers = providers_for(bed.objects, path)
        self.ledger = Ledger(bed.opened.store, self.providers, instance=bed.ledger.instance)
        self.opened = []

    def later(self, when):
        """A second instance whose database says that it is so late."""
        opened = open_store(self.bed.url, clock=when)
        self.opened.append(opened)
        ledger = Ledger(opened.store, self.providers)
        opened.store.start_instance(
            ledger.instance, lock_key=opened.liveness.lock_key or 1, version="test", host="here", pid=1
        )
        return ledger

    def intent(self, kind, step="pay"):
        key = ActionKey(self.bed.run_id, step, kind)
        return Intent(key=key, kind=kind, resource="boards/7", params={"title": "x"}, epoch=1)

    def put(self, kind, ledger=None):
        """What the record says of it afterwards, also where the call ends in an error."""
        intent = self.intent(kind)
        ledger = ledger or self.ledger
        try:
            return ledger.put(intent, propose=False)
        except errors.NotApplied:
            return ledger.store.action(intent.key.action_id)

    def close(self):
        for provider in self.providers.values():
            if hasattr(provider, "close"):
                provider.close()
        for opened in self.opened:
            opened.database.close()


@pytest.fixture
def desk(bed, api, tmp_path):
    desk = Desk(bed, configuration(tmp_path, api))
    yield desk
    desk.close()


def effects(api, action):
    return len(api.effects(marker=action.action_id))


# --- what each fault leaves: status and effects after the first call, and after a second one --------------------------

FAULTS = {
    #                thing.keyed                          thing.found                        thing.sent
    "":             ("SUCCEEDED 1 SUCCEEDED 1",           "SUCCEEDED 1 SUCCEEDED 1",         "SUCCEEDED 1 SUCCEEDED 1"),
    "error before": ("UNKNOWN 0 SUCCEEDED 1",             "UNKNOWN 0 UNKNOWN 0",             "UNKNOWN 0 UNKNOWN 0"),
    "error after":  ("UNKNOWN 1 SUCCEEDED 1",             "UNKNOWN 1 SUCCEEDED 1",           "UNKNOWN 1 UNKNOWN 1"),
    "drop before":  ("UNKNOWN 0 SUCCEEDED 1",             "UNKNOWN 0 UNKNOWN 0",             "UNKNOWN 0 UNKNOWN 0"),
    "drop after":   ("UNKNOWN 1 SUCCEEDED 1",             "UNKNOWN 1 SUCCEEDED 1",           "UNKNOWN 1 UNKNOWN 1"),
    "cut":          ("UNKNOWN 1 SUCCEEDED 1",             "UNKNOWN 1 SUCCEEDED 1",           "UNKNOWN 1 UNKNOWN 1"),
    "broken":       ("UNKNOWN 1 SUCCEEDED 1",             "UNKNOWN 1 SUCCEEDED 1",           "UNKNOWN 1 UNKNOWN 1"),
    "no id":        ("UNKNOWN 1 SUCCEEDED 1",             "UNKNOWN 1 SUCCEEDED 1",           "UNKNOWN 1 UNKNOWN 1"),
    "conflict":     ("UNKNOWN 0 SUCCEEDED 1",             "UNKNOWN 0 UNKNOWN 0",             "UNKNOWN 0 UNKNOWN 0"),
    "redirect":     ("UNKNOWN 0 SUCCEEDED 1",             "UNKNOWN 0 UNKNOWN 0",             "UNKNOWN 0 UNKNOWN 0"),
    "huge":         ("SUCCEEDED 1 SUCCEEDED 1",           "SUCCEEDED 1 SUCCEEDED 1",         "SUCCEEDED 1 SUCCEEDED 1"),
    "refuse":       ("FAILED 0 FAILED 0",                 "FAILED 0 FAILED 0",               "FAILED 0 FAILED 0"),
    "busy":         ("PREPARED 0 SUCCEEDED 1",            "PREPARED 0 SUCCEEDED 1",          "PREPARED 0 SUCCEEDED 1"),
    "unavailable":  ("UNKNOWN 0 SUCCEEDED 1",             "UNKNOWN 0 UNKNOWN 0",             "PREPARED 0 SUCCEEDED 1"),
    # An API that lies or doubles by itself: nobody can know it from one answer; see the tests below.
    "lie":          ("SUCCEEDED 0 SUCCEEDED 0",           "SUCCEEDED 0 SUCCEEDED 0",         "SUCCEEDED 0 SUCCEEDED 0"),
    "double":       ("SUCCEEDED 2 SUCCEEDED 2",           "SUCCEEDED 2 SUCCEEDED 2",         "SUCCEEDED 2 SUCCEEDED 2"),
}  # fmt: skip
KINDS = ("thing.keyed", "thing.found", "thing.sent")


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault or "none")
def test_what_a_fault_leaves(desk, api, fault):
    for kind, expected in zip(KINDS, FAULTS[fault], strict=True):
        before = len(api.fired())
        if fault:
            api.control(send=fault)
        first = desk.put(kind)
        seen = f"{first.status} {effects(api, first)}"
        assert list(api.fired()[before:]) == ([fault] if fault else []), "or the case counts for nothing"
        later = first.not_before_at
        second = desk.put(kind, desk.later(later) if later else None)
        assert f"{seen} {second.status} {effects(api, second)}" == expected, kind


def test_the_receipt_is_what_the_api_has(desk, api):
    for kind in KINDS:
        done = desk.put(kind)
        (effect,) = api.effects(marker=done.action_id)
        assert done.provider_id == effect.id and done.receipt["status"] == 201
        assert done.receipt["api"] == f"127.0.0.1:{api.port}"
    keyed = desk.put("thing.keyed")
    assert keyed.receipt["members"] == {"key": keyed.action_id} and keyed.replayed


def test_a_secret_goes_to_the_api_and_nowhere_else(desk, api, caplog):
    caplog.set_level("DEBUG")
    api.control(send="drop after")
    action = desk.put("thing.keyed")
    assert api.requests()[-1].headers["Authorization"] == f"Bearer {TOKEN}"
    written = [str(event.to_json()) for event in desk.ledger.store.events(action.action_id)]
    assert TOKEN not in "".join([caplog.text, str(action.to_json()), *written])
    assert "unknown" in caplog.text, "or this looks at nothing"


def test_nobody_listens(desk, api, tmp_path, bed):
    """Definitely not sent: back to PREPARED, and done when the API is there again."""
    api.stop()
    try:
        actions = [desk.put(kind) for kind in KINDS]
        assert [(action.status, action.in_doubt) for action in actions] == [(S.PREPARED, False)] * 3
        assert "was not reached" in desk.ledger.store.events(actions[0].action_id)[-1].reason
    finally:
        api.start()
    later = desk.later(max(action.not_before_at for action in actions))
    assert [desk.put(kind, later).status for kind in KINDS] == [S.SUCCEEDED] * 3
    assert [effects(api, action) for action in actions] == [1, 1, 1]


def test_a_host_that_does_not_answer_is_a_definite_no(bed, api, tmp_path):
    """It takes the connection and never speaks TLS: the send ends before the deadline after which nobody could tell."""

    def script(peer, number):
        while peer.connection.recv(4096):
            pass

    with raw_server(script) as server:
        silent = configuration(tmp_path, api, deadline=1)
        silent.write_text(silent.read_text().replace(api.url, f"https://127.0.0.1:{server.port}"))
        desk = Desk(bed, silent)
        assert [desk.put(kind).status for kind in KINDS] == [S.PREPARED] * 3
        desk.close()


# --- keys -------------------------------------------------------------------------------------------------------------


def test_a_key_is_used_again_only_while_the_api_remembers_it(desk, api):
    api.control(send="drop after")
    action = desk.put("thing.keyed")
    forgotten_at = action.first_sent_at + timedelta(seconds=3600)
    under_way = timedelta(seconds=10 + 60)  # its deadline, and a request's lifetime behind it
    late = desk.later(forgotten_at - under_way)
    assert desk.put("thing.keyed", late).status is S.UNKNOWN
    just_in_time = desk.later(forgotten_at - under_way - timedelta(seconds=1))
    assert desk.put("thing.keyed", just_in_time).status is S.SUCCEEDED
    assert effects(api, action) == 1


def test_the_control_an_api_that_forgets_sooner_than_it_says_gets_two(desk, api):
    """The promise rests on the lifetime that is declared; nothing else could have told."""
    api.control(send="drop after")
    desk.put("thing.keyed")
    api.control(forget_keys=True)
    action = desk.put("thing.keyed")
    assert (action.status, effects(api, action)) == (S.SUCCEEDED, 2)


def test_a_late_request_and_the_second_one_are_one_effect(desk, api, bed, tmp_path):
    """The first request hangs in the air until behind its deadline, and arrives when the second has been answered."""
    slow = Desk(bed, configuration(tmp_path, api, deadline=0.3))
    api.control(send="hold before")
    action = slow.put("thing.keyed")
    assert (action.status, effects(api, action)) == (S.UNKNOWN, 0)
    assert slow.put("thing.keyed").status is S.SUCCEEDED
    assert effects(api, action) == 1
    api.control(release=True)
    api.wait_until(lambda api: api.under_way() == 0)
    assert effects(api, action) == 1
    slow.close()


# --- looking up -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("search", ["error", "drop", "broken", "more", "huge"])
def test_an_api_that_cannot_be_asked_leaves_it_unknown_until_it_can(desk, api, search):
    api.control(send="drop after")
    action = desk.put("thing.found")
    api.control(search=search)
    assert desk.put("thing.found").status is S.UNKNOWN
    assert api.fired()[-1] == search
    assert (desk.put("thing.found").status, effects(api, action)) == (S.SUCCEEDED, 1)


def test_several_are_recorded_with_an_alarm(desk, api):
    api.control(send="drop after")
    action = desk.put("thing.found")
    api.control(search="duplicate")
    found = desk.put("thing.found")
    (effect,) = api.effects(marker=action.action_id)
    assert found.status is S.SUCCEEDED and effect.id in found.alarm and f"{effect.id}-again" in found.alarm
    assert "duplicate" in [event.word for event in desk.ledger.store.events(action.action_id)]


def test_the_same_thing_listed_twice_and_things_of_others_raise_no_alarm(desk, api):
    for search in ("twice", "everything"):
        kind_of_step = Intent(
            key=ActionKey(desk.bed.run_id, search, "found"), kind="thing.found", resource="b", params={}, epoch=1
        )
        api.control(send="drop after")
        action = desk.ledger.put(kind_of_step, propose=False)
        assert action.status is S.UNKNOWN
        api.control(search=search)
        found = desk.ledger.put(kind_of_step, propose=False)
        assert (found.status, found.alarm, effects(api, action)) == (S.SUCCEEDED, None, 1)


def resending(bed, api, folder):
    path = configuration(folder, api)
    path.write_text(
        path.read_text().replace('[kinds."thing.found"]\n', '[kinds."thing.found"]\nresend_after_absent = true\n')
    )
    return Desk(bed, path)


def test_absent_is_believed_when_nothing_can_be_under_way_and_not_before(bed, api, tmp_path):
    desk = resending(bed, api, tmp_path)
    api.control(send="drop before")
    action = desk.put("thing.found")
    settled = action.deadline_at + timedelta(seconds=60 + 120)
    assert desk.put("thing.found").status is S.UNKNOWN
    assert desk.put("thing.found", desk.later(settled - timedelta(seconds=1))).status is S.UNKNOWN
    done = desk.put("thing.found", desk.later(settled))
    assert (done.status, done.in_doubt, effects(api, action)) == (S.SUCCEEDED, False, 1)
    desk.close()


def test_the_control_an_index_that_lags_longer_than_its_settle_window_gets_two(bed, api, tmp_path):
    desk = resending(bed, api, tmp_path)
    api.control(send="drop after")
    action = desk.put("thing.found")
    api.control(search="lag")
    done = desk.put("thing.found", desk.later(action.deadline_at + timedelta(seconds=180)))
    assert (done.status, effects(api, action)) == (S.SUCCEEDED, 2)
    desk.close()


def test_read_back_tells_an_api_that_lies(bed, api, tmp_path):
    desk = Desk(bed, configuration(tmp_path, api, lookup="read_back = true"))
    api.control(send="lie")
    action = desk.put("thing.found")
    assert (action.status, effects(api, action)) == (S.UNKNOWN, 0)
    assert desk.put("thing.found").status is S.UNKNOWN, "for a person: the API says that it is not there"
    desk.close()


def test_read_back_tells_an_api_that_doubles(bed, api, tmp_path):
    desk = Desk(bed, configuration(tmp_path, api, lookup="read_back = true"))
    api.control(send="double")
    action = desk.put("thing.found")
    assert (action.status, effects(api, action)) == (S.UNKNOWN, 2)
    found = desk.put("thing.found")
    assert found.status is S.SUCCEEDED and "2 times" in found.alarm
    desk.close()


# --- services that are killed -----------------------------------------------------------------------------------------


@pytest.fixture(params=ENGINES)
def process(request, tmp_path, api, monkeypatch):
    monkeypatch.setattr(protocol, "RETRY_PAUSES_SECONDS", (0.01, 0.01, 0.01))
    store = f"sqlite:///{tmp_path / 'ledger.db'}" if request.param == "sqlite" else shared_database(request)
    environment = {"ONWARD_LEDGER_CONFIG": str(configuration(tmp_path, api)), "THINGS_TOKEN": TOKEN}
    schema = f"ledger_{uuid.uuid4().hex[:12]}"
    with ledger_process(tmp_path, store, schema=schema, environment=environment) as process:
        yield process


def perform(process, run_id, kind, epoch):
    key = ActionKey(run_id, "pay", kind)
    return process.client().perform(key, kind, lambda: ("boards/7", {"title": "x"}), epoch=epoch)


def kill_while_held(process, api, run_id, fault):
    """SIGKILL the service while the API holds a request of each kind; `fault`: on which side of the effects."""
    api.control(send=fault, times=len(KINDS))

    def ask(kind):
        with pytest.raises(errors.LedgerUnreachable):
            perform(process, run_id, kind, 1)

    callers = [threading.Thread(target=ask, args=(kind,)) for kind in KINDS]
    for caller in callers:
        caller.start()
    api.wait_until(lambda api: api.held() == len(KINDS))
    process.kill()
    for caller in callers:
        caller.join(20)
        assert not caller.is_alive()


def test_killed_between_the_effect_and_its_record(process, api):
    run_id = str(uuid.uuid4())
    kill_while_held(process.start(), api, run_id, "hold after")
    client = process.start().client()
    done = [perform(process, run_id, kind, 2) for kind in KINDS]
    assert [action.status for action in done] == [S.SUCCEEDED, S.SUCCEEDED, S.UNKNOWN]
    assert [effects(api, action) for action in done] == [1, 1, 1]
    opaque = done[2]
    settled = client.resolve(
        opaque.action_id,
        status="SUCCEEDED",
        receipt={"seen": "on the board"},
        reason="I looked",
        expected_version=opaque.version,
        principal="anna",
    )
    assert settled.status is S.SUCCEEDED and perform(process, run_id, "thing.sent", 2).replayed
    assert effects(api, settled) == 1


def test_killed_with_requests_in_the_air_that_arrive_later(process, api):
    """The effects happen when the service that asked for them is long gone, and the next one has asked and looked."""
    run_id = str(uuid.uuid4())
    kill_while_held(process.start(), api, run_id, "hold before")
    client = process.start().client()
    done = [perform(process, run_id, kind, 2) for kind in KINDS]
    assert [action.status for action in done] == [S.SUCCEEDED, S.UNKNOWN, S.UNKNOWN]
    assert [effects(api, action) for action in done] == [1, 0, 0]
    api.control(release=True)
    api.wait_until(lambda api: api.under_way() == 0)
    assert [effects(api, action) for action in done] == [1, 1, 1]
    settled = [client.reconcile(action.action_id) for action in done]
    assert [action.status for action in settled] == [S.SUCCEEDED, S.SUCCEEDED, S.UNKNOWN]


def test_a_wrong_file_ends_the_start_with_a_sentence(tmp_path):
    config = tmp_path / "ledger.toml"
    config.write_text('[kinds."x"]\ntype = "http"\nclass = "opaque"\nbase_url = "https://x"\n')
    environment = {"ONWARD_LEDGER_CONFIG": str(config)}
    with ledger_process(tmp_path, f"sqlite:///{tmp_path / 'ledger.db'}", environment=environment) as process:
        with pytest.raises(AssertionError) as caught:
            process.start(exec=True)
        assert f'{config}: kinds."x": path: field required.' in str(caught.value)
        assert "Traceback" not in str(caught.value)


# --- the witness itself -----------------------------------------------------------------------------------------------


def test_the_api_loses_no_effect_when_it_is_killed(tmp_path, bed, api):
    with FakeApi(tmp_path) as own:
        desk = Desk(bed, configuration(tmp_path, own))
        own.control(send="hold after")
        thread = threading.Thread(target=desk.put, args=("thing.keyed",))
        thread.start()
        own.wait_until(lambda own: own.held() == 1)
        port = own.port
        own.kill()
        thread.join(20)
        own.start()
        assert own.port == port
        action = desk.put("thing.keyed")
        assert (action.status, effects(own, action)) == (S.SUCCEEDED, 1), "it remembers key and thing"
        desk.close()
