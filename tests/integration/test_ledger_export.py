"""The audit trail of a real store: whole as it is written, of one moment, and bounded in memory."""

import itertools
import json
import threading

import pytest

from onward_ledger import export, signing, trail
from onward_ledger.export import Filter
from tests.support.ledger import ENGINES, execute, open_bed

pytestmark = pytest.mark.campaign


@pytest.fixture(params=ENGINES)
def bed(request, tmp_path):
    with open_bed(request.param, request, tmp_path, needs_approval=False) as bed:
        yield bed


@pytest.fixture
def signer(tmp_path):
    return signing.signer(tmp_path / "ledger.key")


@pytest.fixture
def verify(tmp_path, signer):
    public = tmp_path / "ledger.pub"
    public.write_text(signer.public_pem)
    return signing.verifier(public).verify


def lines(bed, signer, **wanted):
    return list(export.export(bed.opened.database, signer, Filter(**wanted)))


def found(bed, signer, verify, **wanted):
    return trail.audit(lines(bed, signer, **wanted), verify)


def test_a_trail_holds_every_record_with_its_history_and_its_decisions(bed, signer, verify):
    saved = bed.put(bed.draft())
    waits = bed.put(bed.publication(saved))
    bed.decide(waits, "approve", reason="read it")
    published = bed.put(bed.publication(saved))
    bed.sink.script = ["refuse"]
    failed = bed.put(bed.intent())

    written = lines(bed, signer)
    report = trail.audit(written, verify)
    assert (report.whole, report.actions, report.findings) == (True, 3, ())

    header, *actions, end = map(json.loads, written)
    assert header["filter"] == {"run_id": None, "created_after": None}
    assert [a["action_id"] for a in actions] == sorted(x.action_id for x in (saved, published, failed))
    by_id = {a["action_id"]: a for a in actions}
    line = by_id[published.action_id]
    stored = bed.ledger.store.action(published.action_id)
    assert line["record"]["receipt"] == stored.receipt
    assert (line["events"], line["head"]) == (stored.events, stored.head)
    assert [e["word"] for e in line["history"]] == bed.words(published)
    assert [(d["decision"], d["principal"], d["reason"]) for d in line["decisions"]] == [("approve", "anna", "read it")]
    assert by_id[failed.action_id]["record"]["reason"] == "the sink refuses"
    assert (end["actions"], end["pruned_runs"], end["root"]) == (3, 0, actions[-1]["hash"])


def test_an_empty_ledger_has_a_trail_too(bed, signer, verify):
    report = found(bed, signer, verify)
    assert (report.whole, report.actions) == (True, 0)


def test_one_run_or_what_was_created_later_can_be_exported(bed, signer, verify):
    first = bed.put(bed.intent("first"))
    second = bed.put(bed.intent("second"))
    bed.run_id = "7f0f3b8e-6a5d-4a53-9d7e-0c1a2b3c4d5e"
    other = bed.put(bed.intent("first"))
    for wanted, expected in (
        ({"run_id": first.run_id}, [first, second]),
        ({"run_id": other.run_id}, [other]),
        ({"created_after": other.created_at}, [other]),
    ):
        written = lines(bed, signer, **wanted)
        assert trail.audit(written, verify).whole
        assert {json.loads(line)["action_id"] for line in written[1:-1]} == {a.action_id for a in expected}


def test_what_commits_while_it_is_written_is_not_in_it(bed, signer, verify, monkeypatch):
    """One snapshot: without it the events of a page would be newer than its records."""
    monkeypatch.setattr(export, "PAGE", 2)
    for n in range(5):
        bed.put(bed.intent(f"s{n}"), propose=True)
    going = export.export(bed.opened.database, signer, Filter())
    begun = list(itertools.islice(going, 2))

    def settle_all_and_add():
        other = bed.another()
        for n in range(7):
            other.put(bed.intent(f"s{n}"), propose=False)

    worker = threading.Thread(target=settle_all_and_add)
    worker.start()
    worker.join()
    report = trail.audit([*begun, *going], verify)
    assert (report.findings, report.actions) == ((), 5)
    now = found(bed, signer, verify)
    assert (now.findings, now.actions) == ((), 7), "the negative control: they were there"


@pytest.mark.parametrize(
    ("statement", "what"),
    [
        ("update {t}actions set receipt = '{{\"amount\": 1}}' where action_id = '{id}'", "another receipt"),
        ("update {t}actions set reason = 'eve' where action_id = '{id}'", None),
        ("update {t}actions set status = 'FAILED', receipt = null where action_id = '{id}'", "history ends with"),
        ("update {t}actions set head = '{zeros}' where action_id = '{id}'", "event 4: the record ends elsewhere"),
        (
            "update {t}action_events set principal = 'eve' where action_id = '{id}' and seq = 2",
            "event 2: it was changed",
        ),
        ("delete from {t}action_events where action_id = '{id}' and seq = 2", "event 2"),
        ("delete from {t}action_events where action_id = '{id}' and seq = 3", "event 3: it is missing"),
    ],
)
def test_what_was_changed_in_the_database_shows_in_its_export(bed, signer, verify, statement, what):
    """But for what the history does not hold: an export can only be compared with an earlier one (first row)."""
    action = bed.put(bed.intent())
    with_triggers_off(bed, statement.format(t="", id=action.action_id, zeros="0" * 64))
    report = found(bed, signer, verify)
    if what is None:
        assert report.whole
    else:
        [finding] = report.findings
        assert (finding.action_id, what in finding.what) == (action.action_id, True), finding


def with_triggers_off(bed, statement):
    if bed.opened.kind == "postgres":
        execute(bed, f"set session_replication_role = replica; {statement}")
        return
    names = ("actions_keep_intent", "actions_keep_final", "action_events_keep_update", "action_events_keep_delete")
    for name in names:
        execute(bed, f"drop trigger {name}")
    execute(bed, statement)
