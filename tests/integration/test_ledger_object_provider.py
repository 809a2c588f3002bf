"""The provider type `object` on an S3 API: kills at every put, another store's bytes, a store that goes away.

The bucket keeps every version of a key, so the server itself says how often each was written.
"""

import uuid

import obstore
import pytest
from obstore.store import S3Store

from onward_ledger import errors
from onward_ledger.action import Status
from onward_ledger.objects import Objects, digest_of
from onward_ledger.providers.configured import Context
from onward_ledger.providers.interface import Absent, Applied, CannotTell, Deadline, NotSent, Refused
from onward_ledger.providers.object_put import from_settings
from tests.support.configured import killed_in_the_send, ledger_over, perform
from tests.support.killed import die, run_killed
from tests.support.s3_server import CREDENTIALS, s3_server, versions
from tests.unit.test_ledger_action import RUN, action

pytestmark = pytest.mark.campaign

PAGES = {"index.html": b"<h1>one</h1>", "second.html": b"<h1>two</h1>", "data/third.csv": b"a,b"}
TYPES = {"index.html": "text/html; charset=utf-8", "second.html": "text/html", "data/third.csv": "text/csv"}


@pytest.fixture(scope="module")
def endpoint():
    with s3_server() as url:
        yield url


@pytest.fixture
def settings(endpoint, tmp_path):
    for name, value in CREDENTIALS.items():
        (tmp_path / name).write_text(value + "\n")
    keys = {"access_key_id_file": "ACCESS_KEY_ID", "secret_access_key_file": "SECRET_ACCESS_KEY"}
    return {"store": f"s3://reports/{uuid.uuid4().hex}", "endpoint": endpoint, "region": "us-east-1"} | keys


def make(settings, folder):
    """A provider as the service makes it, over objects that are staged in a folder."""
    staging = Objects(str(folder / "objects"))
    for data in PAGES.values():
        staging.put_once(f"runs/{RUN}/{digest_of(data)}", data)
    return from_settings("site.put", settings, Context(objects=staging, folder=folder))


@pytest.fixture
def provider(settings, tmp_path):
    return make(settings, tmp_path)


@pytest.fixture
def bucket(settings, endpoint):
    """The same keys through another client."""
    names = {f"aws_{name.lower()}": value for name, value in CREDENTIALS.items()}
    prefix = settings["store"].removeprefix("s3://reports/")
    return S3Store("reports", prefix=prefix, endpoint=endpoint, client_options={"allow_http": True}, **names)


@pytest.fixture
def written(settings, endpoint):
    """How often each key of this test's prefix was written."""
    prefix = settings["store"].removeprefix("s3://reports/")
    return lambda: {key.removeprefix(f"{prefix}/"): times for key, times in versions(endpoint, prefix).items()}


def put():
    objects = [
        {"key": key, "source": f"runs/{RUN}/{digest_of(data)}", "digest": digest_of(data), "size": len(data)}
        | {"media_type": TYPES[key]}
        for key, data in PAGES.items()
    ]
    return action(kind="site.put", resource="pages", params={"objects": objects})


ONCE = {f"pages/{key}": 1 for key in PAGES}


def test_objects_are_put_with_their_media_types_and_the_receipt_names_what_the_store_says(provider, settings, bucket):
    applied = provider.send(put(), Deadline(30))
    assert isinstance(applied, Applied)
    receipt = {item["key"]: item for item in applied.receipt["objects"]}
    for key, media_type in TYPES.items():
        found = obstore.get(bucket, f"pages/{key}")
        assert found.attributes["Content-Type"] == media_type
        said = receipt[f"pages/{key}"]
        assert (said["digest"], said["media_type"]) == (digest_of(PAGES[key]), media_type)
        assert (said["e_tag"], said["version"]) == (found.meta["e_tag"], found.meta["version"])
        assert found.bytes().to_bytes() == PAGES[key]
        assert None not in (said["e_tag"], said["version"])
    assert applied.receipt["store"] == settings["store"]
    assert provider.lookup(put()) == applied


def killed_at_the_nth_put(settings, folder, n, window, mode):
    """Send in this process, and be killed before or after the nth put."""
    real, count = obstore.put, iter(range(1, 100))

    def dying(store, key, data, **more):
        doomed = next(count) == n
        if doomed and window == "before":
            die()
        result = real(store, key, data, **more | {"mode": mode})
        if doomed:
            die()
        return result

    provider = make(settings, folder)
    obstore.put = dying
    provider.send(put(), Deadline(30))


@pytest.mark.parametrize("window", ["before", "after"])
@pytest.mark.parametrize("n", [1, 2, 3])
def test_killed_at_any_put_the_rest_is_put_and_every_key_is_written_once(
    provider, settings, tmp_path, written, n, window
):
    run_killed(killed_at_the_nth_put, settings, tmp_path, n, window, "create")
    done = n if window == "after" else n - 1
    assert sum(written().values()) == done
    found = provider.lookup(put())
    assert found == Absent() if done < 3 else isinstance(found, Applied)
    applied = provider.send(put(), Deadline(30))
    assert applied == provider.lookup(put())
    assert isinstance(applied, Applied)
    assert written() == ONCE


def provider_in(folder, settings):
    return make(settings, folder)


@pytest.mark.parametrize(("window", "claims"), [("before", 2), ("after", 1)])
def test_a_service_that_is_killed_around_its_send_ends_with_one_object_per_key_and_its_receipt(
    settings, tmp_path, written, window, claims
):
    run_killed(killed_in_the_send, tmp_path, provider_in, (settings,), put(), window)
    with ledger_over(tmp_path, provider_in(tmp_path, settings)) as ledger:
        done = perform(ledger, put())
        assert (done.status, done.claims) == (Status.SUCCEEDED, claims)
        assert perform(ledger, put()).receipt == done.receipt
    assert written() == ONCE


def test_control_a_put_without_the_condition_is_seen_as_a_second_write(provider, settings, tmp_path, written):
    for _ in range(2):
        run_killed(killed_at_the_nth_put, settings, tmp_path, 3, "after", "overwrite")
    assert written() == dict.fromkeys(ONCE, 2)


def test_another_object_under_a_key_is_refused_and_nothing_is_put(provider, bucket, written):
    obstore.put(bucket, "pages/data/third.csv", b"mine")
    refused = provider.send(put(), Deadline(30))
    assert isinstance(refused, Refused) and "data/third.csv exists with the digest" in refused.reason
    assert provider.lookup(put()) == Absent()
    assert written() == {"pages/data/third.csv": 1}
    obstore.delete(bucket, "pages/data/third.csv")
    assert isinstance(provider.send(put(), Deadline(30)), Applied), "control: without it, the same request does"


def test_a_store_that_is_down_is_not_sent_and_cannot_tell(settings, tmp_path):
    down = make(settings | {"endpoint": "http://127.0.0.1:9"}, tmp_path)
    assert isinstance(down.send(put(), Deadline(30)), NotSent)
    assert isinstance(down.lookup(put()), CannotTell)


def test_a_store_whose_answer_is_lost_behind_the_first_put_leaves_the_outcome_unknown(provider, written, monkeypatch):
    real = Objects.put_once

    def put_and_lose(self, key, data, **more):
        stored = real(self, key, data, **more)
        raise errors.ObjectsUnreachable(f"The answer for {stored.key} was lost.")

    with monkeypatch.context() as patch:
        patch.setattr(Objects, "put_once", put_and_lose)
        with pytest.raises(errors.ObjectsUnreachable):
            provider.send(put(), Deadline(30))
    assert written() == {"pages/index.html": 1}
    assert provider.lookup(put()) == Absent(), "one of three"
    assert isinstance(provider.send(put(), Deadline(30)), Applied)
    assert written() == ONCE


def test_no_secret_is_in_a_receipt_an_error_or_a_repr(provider, settings, tmp_path):
    (tmp_path / "SECRET_ACCESS_KEY").write_text("s3cr3t-key")
    other = make(settings | {"endpoint": "http://127.0.0.1:9"}, tmp_path)
    texts = [repr(other), repr(vars(other)), repr(other.send(put(), Deadline(30))), repr(other.lookup(put()))]
    assert not any("s3cr3t" in text for text in texts)
