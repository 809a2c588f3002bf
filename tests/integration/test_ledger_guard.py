"""Guards: the claims of callers that perform the effect themselves, on both stores and through the real service.

The world is a list that can be counted. Times are set on the database's clock.
"""

import asyncio
import signal
import subprocess
import sys
import time
import uuid
from datetime import timedelta

import httpx
import pytest

from onward_ledger import AsyncLedgerClient, errors, guarding
from onward_ledger.action import ActionKey, Intent, Status
from onward_ledger.guard import CannotTell, DeadlinePassed, Guard, NotSent, Refused, Seen, current
from onward_ledger.guard_protocol import Declaration, Next
from onward_ledger.providers.interface import Absent, Applied, Several
from onward_ledger.providers.interface import CannotTell as Cannot
from onward_ledger.providers.interface import NotSent as Unsent
from onward_ledger.providers.interface import Refused as No
from onward_ledger.store.guards import Lost
from tests.support.ledger import ENGINES, execute, open_bed
from tests.support.ledger_process import ROOT, ledger_process

S = Status


@pytest.fixture(params=ENGINES)
def bed(request, tmp_path):
    with open_bed(request.param, request, tmp_path) as bed:
        yield bed


LOOKS = Declaration(looks_up=True)
OPAQUE = Declaration()
AGAIN = Declaration(looks_up=True, resend_after_absent=True)
KEYED = Declaration(idempotent=True, key_lifetime_seconds=3600.0)


def wanted(bed, *, epoch=1, kind="ticket.create", **params):
    key = ActionKey(bed.run_id, "answer", "ticket")
    return Intent(key=key, kind=kind, resource="tickets", params={"title": "fire", **params}, epoch=epoch)


def begin(bed, declared=LOOKS, *, ledger=None, token=None, looked=False, **intent):
    token = token or str(uuid.uuid4())
    return guarding.begin(ledger or bed.ledger, wanted(bed, **intent), declared, claim_token=token, looked=looked)


def complete(bed, action, outcome, *, ledger=None):
    return guarding.complete(ledger or bed.ledger, action.action_id, action.claim_token, outcome)


def found(bed, begun, answer, declared=LOOKS, *, ledger=None):
    action = begun.action
    ledger = ledger or bed.ledger
    return guarding.found(ledger, action.action_id, answer, declared, version=action.version, asked_at=begun.asked_at)


def ticket(name="T-1"):
    return Applied(provider_id=name, receipt={"ticket": name})


def claimed(bed, declared=LOOKS, **options):
    begun = begin(bed, declared, **options)
    assert (begun.next, begun.action.status) == (Next.RUN, S.IN_FLIGHT)
    return begun.action


# --- claims -----------------------------------------------------------------------------------------------------------


def test_an_effect_is_claimed_completed_and_replayed(bed):
    action = claimed(bed)
    done = complete(bed, action, ticket())
    assert (done.status, done.provider_id, done.receipt) == (S.SUCCEEDED, "T-1", {"ticket": "T-1"})
    again = begin(bed)
    assert (again.next, again.action.receipt) == (Next.REPLAY, {"ticket": "T-1"})
    assert bed.words(action) == ["propose", "claim", "record"]


def test_what_the_caller_declared_is_in_the_history(bed):
    action = claimed(bed, AGAIN)
    claim = next(e for e in bed.ledger.store.events(action.action_id) if e.word == "claim")
    assert claim.detail == {"declared": AGAIN.to_json()}


def test_a_second_caller_is_told_to_wait_and_the_first_is_answered_again(bed):
    """The answer to a claim can be lost: who brings the token again gets the claim again, and nobody else does."""
    action = claimed(bed)
    again = begin(bed, token=action.claim_token)
    assert (again.next, again.action.claim_token, again.action.claims) == (Next.RUN, action.claim_token, 1)
    with pytest.raises(errors.InProgress) as refused:
        begin(bed)
    assert refused.value.retry_after_seconds > 0


def test_another_request_under_the_same_key_is_refused(bed):
    complete(bed, claimed(bed), ticket())
    with pytest.raises(errors.ParamsConflict) as refused:
        begin(bed, title="flood")
    assert refused.value.action.params == {"title": "fire"}


def test_a_kind_that_the_ledger_performs_is_no_kind_for_a_guard(bed):
    with pytest.raises(errors.BadRequest, match=r"performs actions of kind test\.sink"):
        begin(bed, kind="test.sink")
    served = bed.put(bed.intent())
    with pytest.raises(errors.BadRequest, match=r"performs actions of kind test\.sink"):
        complete(bed, served, ticket())
    with pytest.raises(errors.BadRequest, match=r"performs actions of kind test\.sink"):
        now = bed.ledger.store.now()
        guarding.found(bed.ledger, served.action_id, Absent(), LOOKS, version=served.version, asked_at=now)
    assert bed.sink.effects == [served.action_id]


def test_an_older_epoch_cannot_begin(bed):
    bed.ledger.store.announce(bed.run_id, 2, "new")
    with pytest.raises(errors.StaleEpoch):
        begin(bed)


def test_a_closed_run_begins_nothing_more(bed):
    bed.ledger.store.close_fence(bed.run_id, "anna", "No longer wanted.")
    with pytest.raises(errors.FenceClosed):
        begin(bed)


# --- completions ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("outcome", "status", "words"),
    [
        (ticket(), S.SUCCEEDED, ["record"]),
        (No("The queue is closed."), S.FAILED, ["refuse"]),
        (Unsent("Nobody was there."), S.PREPARED, ["unsend"]),
        (Lost("TimeoutError"), S.UNKNOWN, ["lose"]),
    ],
)
def test_a_completion_can_be_sent_any_number_of_times(bed, outcome, status, words):
    action = claimed(bed)
    versions = {complete(bed, action, outcome).version for _ in range(3)}
    stands = bed.ledger.store.action(action.action_id)
    assert (stands.status, versions, bed.words(action)[2:]) == (status, {stands.version}, words)


def test_late_truth_is_accepted_at_any_epoch(bed):
    action = claimed(bed)
    bed.ledger.store.announce(bed.run_id, 5, "new")
    assert begin(bed, epoch=5).next is Next.VERIFY
    done = complete(bed, action, ticket())
    assert (done.status, bed.words(action)) == (S.SUCCEEDED, ["propose", "claim", "lose", "record"])


def test_a_second_effect_is_recorded_with_an_alarm(bed):
    """The world did not show the first one, and it was run again: that it happened twice is never hidden."""
    first = claimed(bed, AGAIN)
    later = bed.another(clock=first.deadline_at + timedelta(seconds=120))
    found(bed, begin(bed, AGAIN, ledger=later), Absent(), AGAIN, ledger=later)
    second = begin(bed, AGAIN, ledger=later).action
    complete(bed, second, ticket("T-2"))
    told = complete(bed, first, ticket("T-1"))
    assert (told.status, told.provider_id) == (S.SUCCEEDED, "T-2")
    assert "T-1" in told.alarm
    assert bed.words(first)[-1] == "duplicate"


def test_nobody_completes_without_the_token(bed):
    action = claimed(bed)
    with pytest.raises(errors.NotFound, match="is no claim"):
        guarding.complete(bed.ledger, action.action_id, str(uuid.uuid4()), ticket())
    assert bed.ledger.store.action(action.action_id).status is S.IN_FLIGHT


def test_a_receipt_is_recorded_without_secrets(bed):
    done = complete(bed, claimed(bed), Applied(provider_id="T-1", receipt={"url": "https://anna:geheim@example.com"}))
    assert done.receipt == {"url": "https://anna:***@example.com"}


# --- who died in between ----------------------------------------------------------------------------------------------


def test_a_claim_is_its_callers_until_the_deadline_and_then_unknown(bed):
    action = claimed(bed)
    if bed.opened.kind == "postgres":  # a file has one service: there a second one would be the first one's successor
        before = bed.another(clock=action.deadline_at - timedelta(seconds=1))
        with pytest.raises(errors.InProgress):
            begin(bed, ledger=before)
    with pytest.raises(errors.InProgress):
        bed.ledger.reconcile(action.action_id)
    behind = bed.another(clock=action.deadline_at)
    begun = begin(bed, ledger=behind)
    assert (begun.next, begun.action.status) == (Next.VERIFY, S.UNKNOWN)
    assert behind.reconcile(action.action_id).status is S.UNKNOWN, "the ledger has nobody to ask"


def test_a_newer_driver_need_not_wait_for_the_deadline(bed):
    action = claimed(bed)
    with pytest.raises(errors.InProgress):
        begin(bed)
    begun = begin(bed, epoch=2)
    assert (begun.next, begun.action.status) == (Next.VERIFY, S.UNKNOWN)
    assert "has been replaced" in begun.action.reason
    assert bed.words(action) == ["propose", "claim", "lose"]


def test_a_restarted_service_asks_before_the_effect_runs_again(bed):
    action = claimed(bed)
    bed.opened.liveness.release()
    successor = bed.another()
    begun = begin(bed, ledger=successor)
    assert (begun.next, begun.action.status) == (Next.VERIFY, S.UNKNOWN)
    assert complete(bed, action, ticket(), ledger=successor).status is S.SUCCEEDED, "late truth"


# --- unknown, by class ------------------------------------------------------------------------------------------------


def unknown(bed, declared):
    action = claimed(bed, declared)
    return complete(bed, action, Lost("TimeoutError"))


def test_without_anybody_who_looks_it_stays_unknown(bed):
    action = unknown(bed, OPAQUE)
    later = bed.another(clock=action.deadline_at + timedelta(days=30))
    assert begin(bed, OPAQUE, ledger=later).next is Next.UNKNOWN


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        (ticket(), S.SUCCEEDED),
        (Absent(), S.UNKNOWN),
        (Several((ticket("T-1"), ticket("T-2"))), S.SUCCEEDED),
        (Cannot("The search is down."), S.UNKNOWN),
    ],
)
def test_what_was_found_settles_it(bed, answer, status):
    unknown(bed, LOOKS)
    settled = found(bed, begin(bed), answer)
    assert settled.status is status
    assert (settled.alarm is not None) is isinstance(answer, Several)


@pytest.mark.parametrize(("seconds", "after"), [(-1, Next.VERIFY), (0, Next.RUN)])
def test_what_is_absent_is_run_again_only_when_nothing_can_be_under_way(bed, seconds, after):
    action = unknown(bed, AGAIN)
    settled_at = action.deadline_at + timedelta(seconds=120)
    later = bed.another(clock=settled_at + timedelta(seconds=seconds))
    found(bed, begin(bed, AGAIN, ledger=later), Absent(), AGAIN, ledger=later)
    assert begin(bed, AGAIN, ledger=later).next is after


def test_a_look_that_began_too_early_counts_as_one(bed):
    """What was asked before the settle window was over says nothing, however late it is told."""
    action = unknown(bed, AGAIN)
    early = begin(bed, AGAIN)
    later = bed.another(clock=action.deadline_at + timedelta(days=1))
    assert found(bed, early, Absent(), AGAIN, ledger=later).status is S.UNKNOWN


def test_what_was_found_for_an_older_version_changes_nothing(bed):
    action = unknown(bed, AGAIN)
    early = begin(bed, AGAIN)
    complete(bed, action, ticket())
    assert found(bed, early, Absent(), AGAIN).provider_id == "T-1"


def test_a_time_that_has_not_come_is_refused(bed):
    action = unknown(bed, AGAIN)
    future = bed.ledger.store.now() + timedelta(days=1)
    with pytest.raises(errors.BadRequest, match="future"):
        guarding.found(bed.ledger, action.action_id, Absent(), AGAIN, version=action.version, asked_at=future)


def test_a_key_that_the_world_remembers_is_used_again_and_a_forgotten_one_is_not(bed):
    action = unknown(bed, KEYED)
    late = bed.another(clock=action.first_sent_at + timedelta(seconds=3600))
    assert begin(bed, KEYED, ledger=late).next is Next.UNKNOWN
    again = begin(bed, KEYED)
    assert (again.next, again.action.in_doubt, again.action.claims) == (Next.RUN, True, 2)
    refused = complete(bed, again.action, No("already there?"))
    assert refused.status is S.UNKNOWN, "the first may have been the effect"


def test_a_restored_ledger_asks_before_the_first_run(bed):
    values = {
        "ledger_id": "'7f0f3b8e-6a5d-4a53-9d7e-0c1a2b3c4d5e'",
        "made_at": "'2026-01-01T00:00:00.000000Z'",
        "look_first_until_at": "'2999-01-01T00:00:00.000000Z'",
    }
    execute(bed, f"insert into ledger ({', '.join(values)}) values ({', '.join(values.values())})")
    begun = begin(bed)
    assert (begun.next, begun.action.status) == (Next.VERIFY, S.PREPARED)
    assert found(bed, begun, Absent()).status is S.PREPARED
    assert begin(bed, looked=True).next is Next.RUN


# --- through the service: what a program writes -----------------------------------------------------------------------


class World:
    """What the effects of a test changed: tickets, with the id of the action that made them."""

    def __init__(self):
        self.tickets = []

    def make(self, title, action_id):
        self.tickets.append({"id": f"T-{len(self.tickets) + 1}", "title": title, "action": action_id})
        return self.tickets[-1]

    def find(self, action):
        made = [t for t in self.tickets if t["action"] == action.action_id]
        return [Seen(receipt={"ticket": t["id"]}, provider_id=t["id"]) for t in made]


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    folder = tmp_path_factory.mktemp("guards")
    with ledger_process(folder, f"sqlite:///{folder / 'ledger.db'}") as process:
        yield process.start()


@pytest.fixture
def world():
    return World()


@pytest.fixture
def key():
    return ActionKey(str(uuid.uuid4()), "answer", "ticket")


KIND = "ticket.create"
FIRE = {"resource": "tickets", "params": {"title": "fire"}}


def test_a_block_runs_once_and_later_ones_have_the_receipt(service, world, key):
    guard = Guard(service.client(), KIND, verify=world.find)
    for turn in range(3):
        with guard.action(key, **FIRE) as effect:
            assert effect.to_run is (turn == 0)
            if effect.to_run:
                ticket = world.make("fire", effect.action_id)
                effect.done({"ticket": ticket["id"]}, provider_id=ticket["id"])
        assert (effect.receipt, effect.action.provider_id) == ({"ticket": "T-1"}, "T-1")
    assert len(world.tickets) == 1


@pytest.mark.parametrize(
    ("error", "status", "reason"),
    [
        (NotSent("Nobody was there."), S.PREPARED, "Nobody was there."),
        (Refused("The queue is closed."), S.FAILED, "The queue is closed."),
        (ZeroDivisionError("oops"), S.UNKNOWN, "ZeroDivisionError: oops"),
        (KeyboardInterrupt(), S.UNKNOWN, "KeyboardInterrupt: KeyboardInterrupt"),
    ],
)
def test_what_a_block_raises_says_what_became_of_it(service, key, error, status, reason):
    client = service.client()
    with pytest.raises(type(error)), Guard(client, KIND).action(key, **FIRE):
        raise error
    action = client.action(key.action_id)
    assert (action.status, action.reason) == (status, reason)


def test_a_refusal_is_raised_again_from_the_record(service, key):
    guard = Guard(service.client(), KIND, refuses=(PermissionError,))
    with pytest.raises(PermissionError), guard.action(key, **FIRE):
        raise PermissionError("not you")
    with guard.action(key, **FIRE) as effect:
        assert not effect.to_run
    with pytest.raises(Refused, match="not you"):
        _ = effect.receipt


def test_a_block_that_says_nothing_is_unknown(service, key):
    client = service.client()
    with pytest.raises(errors.BadRequest, match=r"ended without done\(\)"), Guard(client, KIND).action(key, **FIRE):
        pass
    assert client.action(key.action_id).status is S.UNKNOWN


def test_what_is_unknown_is_asked_about_and_never_run_on_a_guess(service, world, key):
    guard = Guard(service.client(), KIND, verify=world.find)
    with pytest.raises(TimeoutError), guard.action(key, **FIRE) as effect:
        world.make("fire", effect.action_id)
        raise TimeoutError
    with guard.action(key, **FIRE) as effect:
        assert (effect.to_run, effect.receipt) == (False, {"ticket": "T-1"})


async def find_later(action):
    return None


@pytest.mark.parametrize(
    ("verify", "why"),
    [
        (None, "TimeoutError"),
        (lambda action: None, "TimeoutError"),
        (lambda action: [], "TimeoutError"),
        (CannotTell("the search is down"), "the search is down"),
        (OSError("broken"), "The look-up failed: OSError"),
        (lambda action: False, "verify returned False"),
        (lambda action: {}, "verify returned {}"),
        (lambda action: [{"id": 1}, ""], "verify returned ''"),
        (lambda action: object(), "not a JSON value"),
        (find_later, "verify is async"),
    ],
)
def test_where_nobody_can_tell_the_error_says_who_settles_it(service, key, verify, why):
    def look(action):
        if isinstance(verify, Exception):
            raise verify
        return verify(action)

    client = service.client()
    guard = Guard(client, KIND, verify=look if verify is not None else None)
    with pytest.raises(TimeoutError), guard.action(key, **FIRE):
        raise TimeoutError
    for _ in range(2):
        with pytest.raises(errors.UnknownOutcome) as raised, guard.action(key, **FIRE):
            raise AssertionError("the block ran on a guess")
    assert why in str(raised.value)
    assert f"onward-ledger resolve {key.action_id}" in str(raised.value)
    settled = client.resolve(
        key.action_id, status=S.SUCCEEDED, receipt={"seen": "by Anna"}, reason="looked", expected_version=3
    )
    with guard.action(key, **FIRE) as effect:
        assert (effect.to_run, effect.receipt) == (False, settled.receipt)


def test_two_effects_are_told_and_not_hidden(service, world, key):
    guard = Guard(service.client(), KIND, verify=world.find)
    with pytest.raises(TimeoutError), guard.action(key, **FIRE) as effect:
        world.make("fire", effect.action_id)
        world.make("fire", effect.action_id)
        raise TimeoutError
    with guard.action(key, **FIRE) as effect:
        assert effect.receipt == {"ticket": "T-1"}
    assert "2 times" in effect.action.alarm


def test_what_is_absent_too_soon_is_not_run_again(service, world, key):
    """It could be when its settle window is over; this caller is not so patient."""
    guard = Guard(service.client(patience_seconds=2), KIND, verify=world.find, resend_after_absent=True)
    with pytest.raises(TimeoutError), guard.action(key, **FIRE):
        raise TimeoutError
    with pytest.raises(errors.UnknownOutcome), guard.action(key, **FIRE):
        raise AssertionError("the block ran on a guess")


def test_an_idempotent_effect_is_run_again_with_its_key(service, key):
    guard = Guard(service.client(), KIND, idempotent=True)
    keys = []
    with pytest.raises(TimeoutError), guard.action(key, **FIRE) as effect:
        keys.append(effect.action_id)
        raise TimeoutError
    with guard.action(key, **FIRE) as effect:
        keys.append(effect.action_id)
        effect.done({})
    assert keys == [key.action_id] * 2


def test_who_wakes_behind_the_deadline_does_not_run(service, key):
    client = service.client()
    with pytest.raises(DeadlinePassed), Guard(client, KIND, deadline_seconds=0.05).action(key, **FIRE) as effect:
        while effect.remaining > 0:
            time.sleep(0.01)
        effect.check()
    assert client.action(key.action_id).status is S.PREPARED


def test_a_claim_whose_answer_comes_too_late_does_not_run(service, key):
    """The answer to the claim itself took longer than the deadline."""

    class Slow(httpx.HTTPTransport):
        def handle_request(self, request):
            answer = super().handle_request(request)
            if request.method == "PUT":
                answer.read()
                time.sleep(0.1)
            return answer

    client = service.client(transport=Slow())
    with pytest.raises(DeadlinePassed), Guard(client, KIND, deadline_seconds=0.1).action(key, **FIRE):
        raise AssertionError("the block ran behind its deadline")
    assert client.action(key.action_id).status is S.PREPARED


def test_lost_answers_change_nothing(service, world, key):
    """Every answer is lost once: the claim is answered again to the same caller, the receipt is recorded once."""

    class Lossy(httpx.HTTPTransport):
        def __init__(self):
            super().__init__()
            self.seen = set()

        def handle_request(self, request):
            answer = super().handle_request(request)
            what = (request.method, request.url.path, request.content)
            if what not in self.seen:
                self.seen.add(what)
                answer.read()
                raise httpx.ReadError("cut")
            return answer

    client = service.client(transport=Lossy())
    with Guard(client, KIND).action(key, **FIRE) as effect:
        effect.done({"ticket": world.make("fire", effect.action_id)["id"]})
    assert (len(world.tickets), effect.receipt) == (1, {"ticket": "T-1"})
    assert [e.word for e in client.events(key.action_id)] == ["propose", "claim", "record"]


def test_a_receipt_that_cannot_be_kept_is_told_on_the_first_day(service, key):
    """Recorded as done, and refused both times: not given once and missing after a crash."""
    guard = Guard(service.client(), KIND)

    @guard.effect
    def report() -> str:
        return "x" * 70_000

    for _ in range(2):
        with pytest.raises(errors.BadRequest, match=r"happened and is recorded.*larger than 64 KiB"):
            report(key)
    assert service.client().action(key.action_id).status is S.SUCCEEDED


# --- as a decorator ---------------------------------------------------------------------------------------------------


def test_a_function_runs_once_for_its_key(service, world, key):
    guard = Guard(service.client(), KIND)

    @guard.effect(resource=lambda title, urgent=False: f"tickets/{title}")
    def create(title, urgent=False):
        return world.make(title, current().action_id)

    made = create(key, "fire")
    assert create(key, "fire") == made == {"id": "T-1", "title": "fire", "action": key.action_id}
    action = service.client().action(key.action_id)
    assert (action.resource, action.params) == ("tickets/fire", {"title": "fire", "urgent": False})
    with pytest.raises(errors.ParamsConflict):
        create(key, "flood")
    assert len(world.tickets) == 1
    with pytest.raises(errors.BadRequest, match="No guarded effect"):
        current()


def test_a_value_that_is_no_json_is_refused_before_anything_happens(service, key):
    @Guard(service.client(), KIND).effect
    def create(title):
        raise AssertionError("it ran")

    with pytest.raises(errors.BadRequest, match="not a JSON value"):
        create(key, object())
    with pytest.raises(errors.NotFound):
        service.client().action(key.action_id)


def test_async_functions_and_blocks(service, world, key):
    async def find(action):
        await asyncio.sleep(0)
        return world.find(action)

    async def main():
        async with AsyncLedgerClient(service.url, service.token) as client:
            guard = Guard(client, KIND, verify=find)

            @guard.effect
            async def create(title):
                await asyncio.sleep(0)
                return world.make(title, current().action_id)["id"]

            assert [await create(key, "fire") for _ in range(2)] == ["T-1", "T-1"]

            other = ActionKey(key.run_id, "answer", "other")
            with pytest.raises(asyncio.CancelledError):
                async with guard.action(other, **FIRE) as effect:
                    world.make("fire", effect.action_id)
                    raise asyncio.CancelledError
            assert (await client.action(other.action_id)).status is S.UNKNOWN
            async with guard.action(other, **FIRE) as effect:
                assert (effect.to_run, effect.receipt) == (False, {"ticket": "T-2"})
            with pytest.raises(errors.BadRequest, match="async with"):
                guard.action(other, **FIRE).__enter__()

    asyncio.run(main())


# --- real deaths ------------------------------------------------------------------------------------------------------

WORKER = """
import os, sys
from onward_ledger import ActionKey, LedgerClient
from onward_ledger.guard import Guard, Seen

url, token, run_id, world, die, epoch = sys.argv[1:]

def find(action):
    made = [line for line in open(world) if line.split()[0] == action.action_id] if os.path.exists(world) else []
    return [Seen(receipt={"line": line.split()[1]}, provider_id=line.split()[1]) for line in made]

def at(point):
    if point == die:
        os.kill(os.getpid(), 9)

guard = Guard(LedgerClient(url, token), "ticket.create", verify=find, epoch=int(epoch))
at("before the claim")
with guard.action(ActionKey(run_id, "answer", "ticket"), resource="tickets", params={"title": "fire"}) as effect:
    at("behind the claim")
    if effect.to_run:
        with open(world, "a") as file:
            file.write(effect.action_id + f" {os.getpid()}\\n")
            file.flush()
            os.fsync(file.fileno())
        at("behind the effect")
        effect.done({"line": str(os.getpid())}, provider_id=str(os.getpid()))
at("behind the record")
"""


def work(service, run_id, world, die="", epoch=1):
    arguments = [service.url, service.token, run_id, str(world), die, str(epoch)]
    return subprocess.run([sys.executable, "-c", WORKER, *arguments], cwd=ROOT, capture_output=True, text=True)


@pytest.mark.parametrize(
    ("die", "ends"),
    [
        ("before the claim", S.SUCCEEDED),
        ("behind the claim", S.UNKNOWN),
        ("behind the effect", S.SUCCEEDED),
        ("behind the record", S.SUCCEEDED),
    ],
)
def test_a_worker_that_is_killed_leaves_nothing_to_guess(service, key, tmp_path, die, ends):
    """The next worker finds the effect, or runs it for the first time; what it cannot know it leaves to a person."""
    world = tmp_path / "world"
    assert work(service, key.run_id, world, die).returncode == -signal.SIGKILL
    second = work(service, key.run_id, world, epoch=2)
    assert ("UnknownOutcome" in second.stderr) is (ends is S.UNKNOWN), second.stderr
    assert service.client().action(key.action_id).status is ends
    effects = world.read_text().splitlines() if world.exists() else []
    assert len(effects) == (0 if ends is S.UNKNOWN else 1)
