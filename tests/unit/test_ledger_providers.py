"""The two providers by themselves: what they refuse to record, what is definite, what they look up."""

import hashlib
from dataclasses import replace
from datetime import timedelta

import pytest

from onward_ledger import errors
from onward_ledger.objects import Objects, digest_of
from onward_ledger.providers.draft import DraftSave
from onward_ledger.providers.interface import (
    Absent,
    Applied,
    CannotTell,
    Deadline,
    DeadlinePassed,
    NotSent,
    ProviderClass,
    Refused,
    Sound,
)
from onward_ledger.providers.listing import report_digest
from onward_ledger.providers.publish import ReportPublish
from tests.support.ledger import Sink
from tests.unit.test_ledger_action import NOW, RUN, action

HASH = digest_of(b"hello")


@pytest.fixture
def objects(tmp_path):
    objects = Objects(str(tmp_path / "objects"))
    objects.put_once(f"runs/{RUN}/{HASH}", b"hello")
    return objects


def item(**changes):
    members = {"name": "report.md", "source": f"runs/{RUN}/{HASH}", "digest": HASH, "size": 5}
    return members | {"media_type": "text/markdown"} | changes


def draft_params(*items):
    listed = list(items) or [item()]
    return {"digest": report_digest(listed), "objects": listed}


def draft(*items):
    return action(kind="draft.save", resource=f"drafts/{RUN}/1", params=draft_params(*items))


def test_the_report_digest_is_that_of_the_sorted_listing():
    a, b = item(name="a"), item(name="b", size=6)
    text = (
        f'[{{"digest":"{HASH}","media_type":"text/markdown","name":"a","size":5}},'
        f'{{"digest":"{HASH}","media_type":"text/markdown","name":"b","size":6}}]'
    )
    assert report_digest([b, a]) == report_digest([a, b]) == hashlib.sha256(text.encode()).hexdigest()


@pytest.mark.parametrize(
    ("bad", "sentence"),
    [
        ({"source": "runs/other/x"}, "must lie below runs/"),
        ({"source": f"runs/{RUN}/../x"}, "plain relative path"),
        ({"source": None}, "plain relative path"),
        ({"name": "a/../b"}, "plain relative path"),
        ({"digest": "abc"}, "hex sha256"),
        ({"digest": None}, "hex sha256"),
        ({"size": -1}, "number of bytes"),
        ({"size": True}, "number of bytes"),
        ({"media_type": "text"}, "media type"),
        ({"colour": "red"}, "exactly the members"),
    ],
)
def test_a_draft_that_cannot_be_meant_is_not_recorded(objects, bad, sentence):
    with pytest.raises(errors.BadRequest, match=sentence):
        DraftSave(objects).validate(RUN, f"drafts/{RUN}/1", draft_params(item() | bad))


@pytest.mark.parametrize(
    ("resource", "params"),
    [
        (f"drafts/{RUN}", draft_params()),
        ("drafts/other/1", draft_params()),
        (f"drafts/{RUN}/../x", draft_params()),
        (f"drafts/{RUN}/1", draft_params() | {"digest": "0" * 64}),
        (f"drafts/{RUN}/1", draft_params() | {"note": ""}),
        (f"drafts/{RUN}/1", {"digest": report_digest([]), "objects": []}),
        (f"drafts/{RUN}/1", {"digest": "", "objects": "x"}),
        (f"drafts/{RUN}/1", draft_params(item(), item())),
        (f"drafts/{RUN}/1", draft_params(*[item(name=f"n{n}") for n in range(201)])),
    ],
)
def test_a_draft_outside_its_place_or_with_a_wrong_digest_is_not_recorded(objects, resource, params):
    with pytest.raises(errors.BadRequest):
        DraftSave(objects).validate(RUN, resource, params)


def test_a_good_draft_is_saved_and_found(objects):
    provider = DraftSave(objects)
    provider.validate(RUN, f"drafts/{RUN}/1", draft_params())
    assert provider.lookup(draft()) == Absent()
    applied = provider.send(draft(), Deadline(30))
    assert isinstance(applied, Applied)
    assert applied.provider_id == f"drafts/{RUN}/1"
    assert applied.receipt["objects"][0]["key"] == f"drafts/{RUN}/1/report.md"
    assert objects.read(f"drafts/{RUN}/1/report.md") == b"hello"
    assert provider.lookup(draft()) == applied
    assert provider.send(draft(), Deadline(30)) == applied, "the same key with the same digest is success"


def test_another_object_under_the_final_key_is_a_definite_refusal(objects):
    objects.put_once(f"drafts/{RUN}/1/report.md", b"other")
    provider = DraftSave(objects)
    assert provider.lookup(draft()) == Absent()
    assert isinstance(provider.send(draft(), Deadline(30)), Refused)
    assert objects.read(f"drafts/{RUN}/1/report.md") == b"other"


@pytest.mark.parametrize("wrong", [item(source=f"runs/{RUN}/none"), item(digest="0" * 64), item(size=6)])
def test_a_staged_object_that_is_missing_or_different_is_a_definite_refusal(objects, wrong):
    assert isinstance(DraftSave(objects).send(draft(item(name="good"), wrong), Deadline(30)), Refused)
    assert objects.keys("drafts") == [], "all are checked before the first is put"


def unreachable(*_, **__):
    raise errors.ObjectsUnreachable("the bucket does not answer")


def test_a_store_that_is_down_before_the_first_put_is_definitely_not_sent(objects, monkeypatch):
    for reading in ("read_checked", "look"):
        monkeypatch.setattr(objects, reading, unreachable)
    provider = DraftSave(objects)
    assert provider.send(draft(), Deadline(30)) == NotSent("the bucket does not answer")
    assert provider.lookup(draft()) == CannotTell("the bucket does not answer")


def test_a_store_that_is_lost_in_a_put_leaves_the_outcome_unknown(objects, monkeypatch):
    monkeypatch.setattr(objects, "put_once", unreachable)
    with pytest.raises(errors.ObjectsUnreachable):
        DraftSave(objects).send(draft(), Deadline(30))


def test_nothing_is_put_behind_the_deadline(objects):
    with pytest.raises(DeadlinePassed):
        DraftSave(objects).send(draft(), replace(Deadline(30), began=-1e9))
    assert objects.keys("drafts") == []


def publication(objects, /, **changes):
    objects.put_once(f"drafts/{RUN}/1/report.md", b"hello")
    listed = [{k: v for k, v in item(key=f"drafts/{RUN}/1/report.md").items() if k != "source"}]
    params = {"title": "Sales", "digest": report_digest(listed), "objects": listed, "note": ""} | changes
    return action(kind="report.publish", resource="reports/sales", params=params)


def test_a_publication_is_sound_while_its_bytes_are_what_was_approved(objects, tmp_path):
    provider = ReportPublish(objects)
    wanted = publication(objects)
    provider.validate(RUN, wanted.resource, wanted.params)
    assert provider.verify(wanted) == Sound()
    path = tmp_path / "objects" / f"drafts/{RUN}/1/report.md"
    path.write_bytes(b"hullo")
    assert isinstance(provider.verify(wanted), Refused)
    path.unlink()
    assert isinstance(provider.verify(wanted), Refused)


@pytest.mark.parametrize(
    ("resource", "changes"),
    [
        ("drafts/x", {}),
        ("reports/../x", {}),
        ("reports/x", {"title": " "}),
        ("reports/x", {"title": "x" * 301}),
        ("reports/x", {"title": None}),
        ("reports/x", {"note": "a\x00b"}),
        ("reports/x", {"digest": "0" * 64}),
        ("reports/x", {"more": 1}),
        ("reports/x", {"objects": [item()]}),
    ],
)
def test_a_publication_that_cannot_be_meant_is_not_recorded(objects, resource, changes):
    with pytest.raises(errors.BadRequest):
        ReportPublish(objects).validate(RUN, resource, publication(objects, **changes).params)


@pytest.mark.parametrize(
    ("provider_class", "lifetime", "age", "may"),
    [
        (ProviderClass.IDEMPOTENT, None, 10**9, True),
        (ProviderClass.IDEMPOTENT, 100.0, 29, True),
        (ProviderClass.IDEMPOTENT, 100.0, 30, False),
        (ProviderClass.QUERYABLE, None, 0, False),
        (ProviderClass.OPAQUE, None, 0, False),
    ],
)
def test_only_a_key_that_is_surely_remembered_is_used_again(provider_class, lifetime, age, may):
    sink = Sink(provider_class)
    sink.key_lifetime_seconds, sink.deadline_seconds, sink.request_lifetime_seconds = lifetime, 10.0, 60.0
    assert sink.remembers(action(first_sent_at=NOW), NOW + timedelta(seconds=age)) is may
    assert sink.remembers(action(first_sent_at=None), NOW) is False
