"""Objects and drafts on an S3 API: moto's server, in a process of its own."""

import uuid

import pytest

from onward_ledger import errors
from onward_ledger.action import ActionKey, Status
from onward_ledger.objects import Objects, digest_of
from onward_ledger.providers.draft import DraftSave
from onward_ledger.providers.interface import CannotTell, Deadline, NotSent
from tests.support.ledger import draft_request, publication_request
from tests.support.ledger_process import ledger_process
from tests.support.s3_server import CREDENTIALS, s3_server
from tests.unit.test_ledger_action import action


@pytest.fixture(scope="module")
def endpoint():
    with s3_server() as url:
        yield url


@pytest.fixture
def environment(endpoint):
    return {"ONWARD_OBJECTS_ENDPOINT": endpoint} | {f"AWS_{name}": value for name, value in CREDENTIALS.items()}


@pytest.fixture
def objects(environment):
    return Objects(f"s3://reports/{uuid.uuid4().hex}", environment=environment)


def test_put_once_is_atomic_on_s3_too(objects):
    assert objects.put_once("a/b.md", b"one").created
    assert not objects.put_once("a/b.md", b"one").created
    with pytest.raises(errors.ObjectConflict):
        objects.put_once("a/b.md", b"two")
    assert objects.read_checked("a/b.md", digest_of(b"one")) == b"one"
    assert objects.keys() == ["a/b.md"]
    with pytest.raises(errors.ObjectMissing):
        objects.read("a/c.md")


def test_two_prefixes_do_not_see_each_other(objects, environment):
    objects.put_once("a", b"one")
    other = Objects(f"s3://reports/{uuid.uuid4().hex}", environment=environment)
    assert other.keys() == []
    assert other.put_once("a", b"two").created


def test_a_bucket_that_does_not_answer_is_definite_before_the_first_put():
    environment = {"AWS_ENDPOINT_URL": "http://127.0.0.1:9"} | {f"AWS_{n}": v for n, v in CREDENTIALS.items()}
    down = Objects("s3://reports/x", environment=environment)
    run_id = action().run_id
    staged = {"name": "r.md", "source": f"runs/{run_id}/x", "digest": "0" * 64, "size": 1, "media_type": "text/plain"}
    wanted = action(kind="draft.save", resource=f"drafts/{run_id}/1", params={"digest": "", "objects": [staged]})
    assert isinstance(DraftSave(down).send(wanted, Deadline(30)), NotSent)
    assert isinstance(DraftSave(down).lookup(wanted), CannotTell)
    with pytest.raises(errors.ObjectsUnreachable):
        down.put_once("a", b"x")


def test_a_draft_is_saved_and_published_on_s3_and_a_kill_behind_the_send_is_found(environment, tmp_path):
    url = f"s3://reports/{uuid.uuid4().hex}"
    objects, run_id = Objects(url, environment=environment), str(uuid.uuid4())
    key = ActionKey(run_id, "write_draft", "draft")
    store = f"sqlite:///{tmp_path / 'ledger.db'}"
    with ledger_process(tmp_path, store, objects=url, environment=environment) as process:
        doomed = process.start(die="after").client()
        with pytest.raises(errors.LedgerUnreachable):
            doomed.perform(key, "draft.save", lambda: draft_request(objects, run_id, b"# R"), epoch=1)
        process.wait()
        client = process.start().client()
        assert client.health().objects == url
        saved = client.perform(key, "draft.save", lambda: draft_request(objects, run_id, b"# R"), epoch=1)
        assert (saved.status, saved.claims, saved.replayed) == (Status.SUCCEEDED, 1, True)
        assert objects.keys(f"drafts/{run_id}") == [f"drafts/{run_id}/1/report.md"]
        key = ActionKey(run_id, "deliver", "publish")
        proposed = client.propose(key, "report.publish", lambda: publication_request(saved), epoch=1)
        client.decide(key.action_id, "approve", request_hash=proposed.request_hash)
        done = client.perform(key, "report.publish", lambda: publication_request(saved), epoch=1)
        assert (done.status, done.receipt["digest"]) == (Status.SUCCEEDED, saved.params["digest"])
