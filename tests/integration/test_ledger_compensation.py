"""Taking back what happened: an action that the ledger derives itself, on both stores and through the real service."""

import os
import signal
import uuid
from datetime import timedelta

import httpx
import pytest
from typer.testing import CliRunner

from experiments.fake_api import FakeApi
from onward_ledger import __main__ as ledger_command
from onward_ledger import compensating, errors, protocol
from onward_ledger.action import ActionKey, Intent, Status
from onward_ledger.audit import broken_at
from onward_ledger.ledger import Ledger
from onward_ledger.providers.http import HttpProvider
from onward_ledger.providers.interface import ApprovalPolicy, Compensation, ProviderClass
from onward_ledger.store import retention
from tests.support.ledger import ENGINES, Sink, open_bed, shared_database
from tests.support.ledger_process import LedgerProcess

S = Status


def refund(action):
    return action.resource, {"of": action.provider_id, "amount": action.params["amount"]}


@pytest.fixture(params=ENGINES)
def bed(request, tmp_path):
    """A bed whose sink can be undone, by a second sink `bed.undo`."""
    with open_bed(request.param, request, tmp_path) as bed:
        yield undoable(bed)


def undoable(bed, provider_class=ProviderClass.IDEMPOTENT):
    bed.undo = Sink(provider_class)
    bed.undo.kind = "test.undo"
    bed.sink.compensation = Compensation(kind="test.undo", request=refund)
    providers = {kind: bed.ledger.provider(kind) for kind in bed.ledger.kinds}
    bed.ledger = Ledger(bed.opened.store, providers | {"test.undo": bed.undo}, instance=bed.ledger.instance)
    return bed


def a_minute_later(bed):
    """Another instance, whose database says that it is later."""
    return bed.another(clock=bed.ledger.store.now() + timedelta(minutes=1))


def compensate(bed, action, *, epoch=None, ledger=None, principal=None):
    ledger = ledger or bed.ledger
    return ledger.perform(compensating.call(ledger, action.action_id, epoch=epoch, principal=principal))


def close(bed):
    return bed.ledger.store.close_fence(bed.run_id, "anna", "no longer wanted")


def test_it_is_an_action_of_its_own_made_from_the_record(bed):
    done = bed.put(bed.intent())
    undone = compensate(bed, done, principal="anna")
    assert (undone.status, undone.kind, undone.resource) == (S.SUCCEEDED, "test.undo", done.resource)
    assert undone.params == {"of": done.provider_id, "amount": 5}
    assert (undone.step, undone.slot, undone.rev) == (done.step, f"{done.slot}/undo", done.rev)
    assert undone.action_id == str(uuid.uuid5(uuid.UUID(bed.run_id), f"{done.step}/{done.slot}/undo"))
    assert bed.undo.effects == [undone.action_id]
    assert bed.ledger.store.action(done.action_id) == done.but(replayed=False), "what happened has happened"


def test_the_history_holds_what_is_compensated_and_who_asked(bed):
    done = bed.put(bed.intent())
    undone = compensate(bed, done, principal="anna")
    history = bed.ledger.store.events(undone.action_id)
    assert [(e.word, e.principal) for e in history] == [("propose", "anna"), ("claim", "anna"), ("record", None)]
    assert history[0].detail == {"request_hash": undone.request_hash, "compensates": done.action_id}
    assert broken_at(undone, history) is None


def test_asked_again_it_is_replayed(bed):
    done = bed.put(bed.intent())
    first = compensate(bed, done)
    again = compensate(bed, done)
    assert (again.replayed, again.receipt, again.claims) == (True, first.receipt, 1)
    assert len(bed.undo.sends) == 1


def test_what_was_derived_stays_when_the_settings_change(bed):
    done = bed.put(bed.intent())
    bed.undo.script = ["not_sent"]
    with pytest.raises(errors.NotApplied):
        compensate(bed, done)
    bed.sink.compensation = Compensation(kind="test.undo", request=lambda action: ("other", {}))
    assert compensate(bed, done, ledger=a_minute_later(bed)).params == {"of": done.provider_id, "amount": 5}


def test_a_closed_fence_lets_it_pass_and_nothing_else(bed):
    done = bed.put(bed.intent())
    close(bed)
    undone = compensate(bed, done, epoch=1)
    assert (undone.status, bed.undo.effects) == (S.SUCCEEDED, [undone.action_id])
    with pytest.raises(errors.FenceClosed):
        bed.put(bed.intent("another"))
    same = Intent(key=undone.key, kind="test.undo", resource="another", params={}, epoch=1)
    with pytest.raises(errors.ParamsConflict):
        bed.put(same)
    assert (len(bed.sink.sends), len(bed.undo.sends)) == (1, 1)


def test_the_same_request_by_a_caller_is_refused_through_a_closed_fence(bed):
    """Control: it is being derived that lets it pass, not its kind or its key."""
    done = bed.put(bed.intent())
    close(bed)
    resource, params = refund(done)
    with pytest.raises(errors.FenceClosed):
        bed.put(Intent(key=done.key.undo, kind="test.undo", resource=resource, params=params, epoch=1))
    assert bed.undo.sends == []


def test_a_closing_leaves_one_that_waits_to_be_sent(bed):
    done, waiting = bed.put(bed.intent()), bed.put(bed.intent("waits"), propose=True)
    bed.undo.script = ["not_sent"]
    with pytest.raises(errors.NotApplied) as down:
        compensate(bed, done)
    fence = close(bed)
    statuses = {a.action_id: a.status for a in fence.actions}
    assert statuses[down.value.action.action_id] is S.PREPARED
    assert statuses[waiting.action_id] is S.WITHDRAWN, "control: what is no compensation goes"


def test_a_provider_that_is_down_behind_a_closed_fence_is_tried_again(bed):
    done = bed.put(bed.intent())
    close(bed)
    bed.undo.script = ["not_sent"]
    with pytest.raises(errors.NotApplied) as down:
        compensate(bed, done)
    assert down.value.action.status is S.PREPARED
    assert compensate(bed, done, ledger=a_minute_later(bed)).status is S.SUCCEEDED
    assert len(bed.undo.effects) == 1


@pytest.mark.parametrize(
    ("provider_class", "word", "after", "sends"),
    [
        (ProviderClass.IDEMPOTENT, "lost", S.SUCCEEDED, 1),
        (ProviderClass.IDEMPOTENT, "raise", S.SUCCEEDED, 2),
        (ProviderClass.QUERYABLE, "lost", S.SUCCEEDED, 1),
        (ProviderClass.QUERYABLE, "raise", S.UNKNOWN, 1),
    ],
)
def test_it_has_the_promise_of_its_own_class(request, tmp_path, provider_class, word, after, sends):
    with open_bed("sqlite", request, tmp_path) as bed:
        undoable(bed, provider_class)
        done = bed.put(bed.intent())
        close(bed)
        bed.undo.script = [word]
        assert compensate(bed, done).status is S.UNKNOWN
        assert compensate(bed, done).status is after
        assert (len(bed.undo.sends), len(bed.undo.effects)) == (sends, 0 if after is S.UNKNOWN else 1)


def test_an_older_driver_is_refused_and_a_person_is_not(bed):
    done = bed.put(bed.intent())
    bed.ledger.store.announce(bed.run_id, 3, "a new driver")
    with pytest.raises(errors.StaleEpoch):
        compensate(bed, done, epoch=2)
    assert bed.undo.sends == []
    assert compensate(bed, done).epoch == 3


@pytest.mark.parametrize("script", ["refuse", "raise"])
def test_only_what_happened_is_compensated(bed, script):
    bed.sink.script, bed.sink.can_tell = [script], False
    action = bed.put(bed.intent())
    with pytest.raises(errors.Conflict, match="Only what SUCCEEDED"):
        compensate(bed, action)
    assert bed.undo.sends == []


def test_what_names_nothing_and_what_compensates_itself_is_refused(bed):
    plain, done = bed.put(bed.draft()), bed.put(bed.intent())
    with pytest.raises(errors.NotCompensable, match=r"draft\.save does not say how"):
        compensate(bed, plain)
    undone = compensate(bed, done)
    with pytest.raises(errors.NotCompensable, match="takes an effect back itself"):
        compensate(bed, undone)
    with pytest.raises(errors.NotFound):
        compensate(bed, undone.but(action_id=str(uuid.uuid4())))


@pytest.mark.parametrize(
    "wrong", [lambda action: ("", {}), lambda action: ("a\nb", {}), lambda action: ("a", {"n": 2**60})]
)
def test_a_request_that_cannot_be_meant_is_refused_and_not_recorded(bed, wrong):
    done = bed.put(bed.intent())
    bed.sink.compensation = Compensation(kind="test.undo", request=wrong)
    with pytest.raises(errors.BadRequest):
        compensate(bed, done)
    assert [a.action_id for a in bed.ledger.store.actions(run_id=bed.run_id)] == [done.action_id]


def test_a_kind_that_asks_somebody_cannot_take_back(bed):
    bed.undo.approval = ApprovalPolicy()
    with pytest.raises(errors.BadRequest, match=r"test\.undo needs an approval"):
        Ledger(bed.opened.store, {"test.sink": bed.sink, "test.undo": bed.undo})
    with pytest.raises(errors.BadRequest, match=r"there is no kind 'test\.undo'"):
        Ledger(bed.opened.store, {"test.sink": bed.sink})


def test_what_was_removed_by_age_is_not_compensated(bed):
    bed.ledger.store.identity()
    done = bed.put(bed.intent())
    call = compensating.call(bed.ledger, done.action_id, epoch=None)
    close(bed)
    assert retention.prune(bed.opened.database, bed.ledger.store.now() + timedelta(seconds=1)).runs == 1
    with pytest.raises(errors.FenceClosed, match="removed by age"):
        bed.ledger.perform(call)
    assert bed.undo.sends == []


def test_a_run_whose_compensation_waits_is_not_removed(bed):
    done = bed.put(bed.intent())
    close(bed)
    bed.undo.script = ["not_sent"]
    with pytest.raises(errors.NotApplied):
        compensate(bed, done)
    bed.ledger.store.identity()
    assert retention.prune(bed.opened.database, bed.ledger.store.now() + timedelta(days=1)).runs == 0


# --- what a closed fence does besides ---------------------------------------------------------------------------------


def test_what_was_refused_before_the_closing_is_still_replayed(bed):
    bed.sink.script = ["refuse"]
    failed = bed.put(bed.intent())
    close(bed)
    again = bed.put(bed.intent())
    assert (again.status, again.replayed, again.reason) == (S.FAILED, True, failed.reason)


def test_a_closing_between_the_check_and_the_commit_of_a_transactional_effect_wins(request, tmp_path):
    with open_bed("sqlite", request, tmp_path) as bed:
        proposed = bed.put(bed.publication(bed.put(bed.draft())), propose=True)
        bed.decide(proposed, "approve")
        publish = bed.ledger.provider("report.publish")
        verify = publish.verify

        def closing(action):
            close(bed)
            return verify(action)

        publish.verify = closing
        answer = bed.put(
            Intent(key=proposed.key, kind=proposed.kind, resource=proposed.resource, params=proposed.params, epoch=1)
        )
        assert (answer.status, bed.words(answer)) == (S.WITHDRAWN, ["propose", "decide", "withdraw"])


def test_an_idempotent_unknown_of_a_closed_run_is_not_sent_again(bed):
    """Control beside it: with an open fence the same look-up makes it PREPARED, and the same call sends it."""
    bed.sink.script = ["raise", "raise"]
    kept, other = bed.put(bed.intent()), bed.put(bed.intent("other"))
    assert (kept.status, other.status) == (S.UNKNOWN, S.UNKNOWN)
    assert bed.put(bed.intent("other")).status is S.SUCCEEDED
    close(bed)
    assert bed.put(bed.intent()).status is S.UNKNOWN
    assert bed.sink.effects == [other.action_id]


# --- through the service ----------------------------------------------------------------------------------------------

CONFIG = """
[kinds."ticket.create"]
type = "http"
class = "queryable"
base_url = "{url}"
plain_http = true
allow_addresses = ["127.0.0.0/8"]
path = "/searchable/things"
marker = {{body = "/marker"}}
answer = {{provider_id = "/id", receipt = {{id = "/id"}}}}

[kinds."ticket.create".lookup]
path = "/searchable/things?marker={{action_id}}"
results = "/items"
id = "/id"
marker = "/marker"
total = "/total"

[kinds."ticket.create".compensate]
kind = "ticket.close"
resource = "{{resource}}"
params = {{ticket = "{{provider_id}}", id = "{{receipt.members.id}}", because = "the run of {{step}} was cancelled"}}

[kinds."ticket.close"]
type = "http"
class = "idempotent"
base_url = "{url}"
plain_http = true
allow_addresses = ["127.0.0.0/8"]
path = "/idempotent/things"
marker = {{header = "X-Marker"}}
key = {{lifetime_seconds = "unlimited"}}
answer = {{provider_id = "/id"}}
"""


class Configured(LedgerProcess):
    def arguments(self):
        return [*super().arguments(), "--config", str(self.folder / "ledger.toml")]


@pytest.fixture
def api(tmp_path):
    folder = tmp_path / "api"
    folder.mkdir()
    with FakeApi(folder) as api:
        yield api


@pytest.fixture(params=ENGINES)
def service(request, tmp_path, api, monkeypatch):
    monkeypatch.setattr(protocol, "RETRY_PAUSES_SECONDS", (0.01, 0.01, 0.01))
    (tmp_path / "ledger.toml").write_text(CONFIG.format(url=api.url))
    store = f"sqlite:///{tmp_path / 'ledger.db'}" if request.param == "sqlite" else shared_database(request)
    process = Configured(tmp_path, store, schema=f"ledger_{uuid.uuid4().hex[:12]}")
    try:
        yield process
    finally:
        process.close()


def die_in_a_close_before():
    _die_in_a_close("before")


def die_in_a_close_after():
    _die_in_a_close("after")


def _die_in_a_close(window):
    real = HttpProvider.send

    def send(self, action, deadline):
        outcome = None if window == "before" and action.kind == "ticket.close" else real(self, action, deadline)
        if action.kind == "ticket.close":
            os.kill(os.getpid(), signal.SIGKILL)
        return outcome

    HttpProvider.send = send


def create(client, run_id):
    key = ActionKey(run_id, "pay", "ticket")
    return client.perform(key, "ticket.create", lambda: ("desk", {"title": "It burns"}), epoch=1)


@pytest.mark.parametrize("plant", [die_in_a_close_before, die_in_a_close_after])
def test_killed_around_its_send_the_effect_is_taken_back_once(service, api, plant):
    run_id = str(uuid.uuid4())
    client = service.start(plant=plant).client()
    done = create(client, run_id)
    client.close_fence(run_id, reason="cancelled")
    with pytest.raises(errors.LedgerUnreachable):
        client.compensate(done.action_id, epoch=1)
    assert service.wait() == -signal.SIGKILL
    before = len(api.effects(flavour="idempotent"))
    assert before == (plant is die_in_a_close_after), "the fault fired where it should"

    client = service.start().client()
    [left] = client.fence(run_id, 2, holder="the next driver").unsettled
    assert (left.status, left.slot) == (S.UNKNOWN, "ticket/undo")
    undone = client.compensate(done.action_id, epoch=2)
    [effect] = api.effects(flavour="idempotent")
    assert (undone.status, undone.provider_id, effect.marker) == (S.SUCCEEDED, effect.id, undone.action_id)
    assert undone.params == {
        "ticket": done.provider_id,
        "id": done.provider_id,
        "because": "the run of pay was cancelled",
    }
    assert client.compensate(done.action_id).replayed
    assert client.live(run_id, "pay", "ticket/undo").action_id == undone.action_id
    assert len(api.effects()) == 2


def test_no_caller_can_ask_for_the_place_of_a_compensation(service, api):
    run_id = str(uuid.uuid4())
    client = service.start().client()
    key = ActionKey(run_id, "pay", "ticket/undo")
    with pytest.raises(errors.BadRequest, match="the ledger derives itself"):
        client.perform(key, "ticket.close", lambda: ("desk", {}), epoch=1)
    with pytest.raises(errors.BadRequest, match="letters, digits"):
        ActionKey(run_id, "pay", "ticket/undo/undo")
    answer = httpx.post(
        f"{service.url}/v1/actions/{key.action_id}/compensate",
        json={"epoch": 1, "kind": "ticket.close"},
        headers={"Authorization": f"Bearer {service.token}"},
        trust_env=False,
    )
    assert (answer.status_code, answer.json()["code"]) == (422, "bad-request"), "a kind is not the caller's to say"
    assert api.effects() == ()


def test_a_person_takes_back_what_turned_out_to_have_happened(service, api):
    run_id = str(uuid.uuid4())
    client = service.start().client()
    done = create(client, run_id)
    client.close_fence(run_id, reason="cancelled")

    def compensate(action_id):
        where = ("--url", service.url, "--token-file", str(service.token_file), "--principal", "anna")
        return CliRunner().invoke(ledger_command.app, ["compensate", action_id, *where])

    first, again = compensate(done.action_id), compensate(done.action_id)
    assert (first.exit_code, again.exit_code) == (0, 0), first.output
    assert "ticket.close" in first.stdout and again.stdout == first.stdout
    [effect] = api.effects(flavour="idempotent")
    assert client.events(effect.marker)[0].principal == "anna"
    refused = compensate(effect.marker)
    assert (refused.exit_code, refused.stdout) == (4, "")
    assert "takes an effect back itself" in refused.stderr
