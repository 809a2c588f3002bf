"""The witness: what was noted is read again, by whom and whatever happened in between; what is torn is not."""

import os
import signal
import subprocess
import sys
import threading
import uuid
from datetime import UTC, datetime, timedelta

import pytest

from onward_ledger import witness
from onward_ledger.action import Action, ActionKey, Status
from onward_ledger.errors import BadRequest, Conflict
from onward_ledger.witness import SLOTS, Witness

LEDGER = "2cf24dba-5fb0-4a30-a26e-83b2ac5b9e29"
NOON = datetime(2026, 5, 4, 12, 0, 0, 123456, tzinfo=UTC)


def claimed(n):
    key = ActionKey(str(uuid.UUID(int=7)), f"s{n}", "pay")
    return Action(
        action_id=key.action_id,
        run_id=key.run_id,
        step=key.step,
        slot=key.slot,
        rev=1,
        kind="pay",
        resource="account/1",
        params={},
        request_hash="ab" * 32,
        status=Status.IN_FLIGHT,
        epoch=1,
        version=2,
        events=2,
        head=f"{n:064x}",
        created_at=NOON,
        updated_at=NOON + timedelta(seconds=n),
    )


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "onward-ledger.witness"


def numbers(marks):
    return [int(mark.hash, 16) for mark in marks]


def test_what_was_noted_is_read_again_in_its_order(folder):
    mine = Witness(folder, LEDGER)
    assert (mine.last, mine.recent(), mine.marks()) == (None, [], [])
    for n in range(5):
        mine.note(claimed(n))
    assert mine.marks() == mine.recent()
    assert numbers(mine.marks()) == [0, 1, 2, 3, 4]
    assert mine.last.to_json() == {
        "ledger_id": LEDGER,
        "action_id": claimed(4).action_id,
        "run_id": claimed(4).run_id,
        "seq": 2,
        "hash": claimed(4).head,
        "recorded_at": "2026-05-04T12:00:04.123456Z",
    }
    mine.close()


def test_the_next_process_goes_on_behind_the_last_slot_and_knows_what_it_did_not_note_itself(folder):
    for start in (0, 200, 400):
        mine = Witness(folder, LEDGER)
        assert mine.last is None
        for n in range(start, start + 200):
            mine.note(claimed(n))
        mine.close()
    assert [path.name for path in folder.iterdir()] == ["ring-0"]
    mine = Witness(folder, LEDGER)
    assert numbers(mine.marks()) == list(range(600 - SLOTS, 600))
    mine.close()


def test_processes_of_one_folder_have_a_ring_each_and_know_of_each_other(folder):
    first, second = Witness(folder, LEDGER), Witness(folder, LEDGER)
    first.note(claimed(1))
    second.note(claimed(2))
    assert (numbers(first.recent()), numbers(second.recent())) == ([1], [2])
    assert numbers(first.marks()) == numbers(second.marks()) == [1, 2]
    first.close()
    third = Witness(folder, LEDGER)
    third.note(claimed(3))
    assert sorted(path.name for path in folder.iterdir()) == ["ring-0", "ring-1"], "a ring that is free is taken"
    assert sorted(numbers(third.marks())) == [1, 2, 3]
    second.close()
    third.close()


def test_too_many_processes_are_told_so(folder, monkeypatch):
    monkeypatch.setattr(witness, "RINGS", 2)
    held = [Witness(folder, LEDGER), Witness(folder, LEDGER)]
    with pytest.raises(Conflict, match="--witness"):
        Witness(folder, LEDGER)
    for each in held:
        each.close()


def test_every_torn_or_changed_slot_is_no_slot_and_harms_no_other(folder):
    mine = Witness(folder, LEDGER)
    for n in range(3):
        mine.note(claimed(n))
    ring = folder / "ring-0"
    whole = ring.read_bytes()
    begin = 2 * 128  # the second one
    for place in range(begin, begin + 108):
        ring.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        assert numbers(mine.marks()) == [0, 2], place - begin
    for end in range(begin, begin + 108, 9):
        ring.write_bytes(whole[:end] + bytes(begin + 128 - end) + whole[begin + 128 :])
        assert numbers(mine.marks()) == [0, 2]
    ring.write_bytes(whole)
    assert numbers(mine.marks()) == [0, 1, 2], "the negative control"
    mine.close()


def test_a_ring_that_was_cut_or_holds_anything_else_is_used_again(folder):
    folder.mkdir()
    for content in (b"", b"hello", os.urandom(SLOTS * 128), bytes(200)):
        (folder / "ring-0").write_bytes(content)
        mine = Witness(folder, LEDGER)
        mine.note(claimed(1))
        assert numbers(mine.marks()) == [1]
        assert (folder / "ring-0").stat().st_size == SLOTS * 128
        mine.close()


def test_what_a_killed_process_noted_is_there_and_its_ring_is_free(folder):
    code = (
        "import os, pathlib, sys\n"
        "from tests.unit.test_ledger_witness import LEDGER, Witness, claimed\n"
        "mine = Witness(pathlib.Path(sys.argv[1]), LEDGER)\n"
        "for n in range(300): mine.note(claimed(n))\n"
        "os.kill(os.getpid(), 9)\n"
    )
    ended = subprocess.run([sys.executable, "-c", code, str(folder)], check=False, timeout=30)
    assert ended.returncode == -signal.SIGKILL
    mine = Witness(folder, LEDGER)
    assert numbers(mine.marks()) == list(range(300 - SLOTS, 300))
    mine.note(claimed(300))
    assert numbers(mine.marks()) == list(range(301 - SLOTS, 301))
    mine.close()


def test_threads_do_not_take_each_others_slots(folder):
    mine = Witness(folder, LEDGER)
    threads = [
        threading.Thread(target=lambda at=at: [mine.note(claimed(n)) for n in range(at, at + 25)])
        for at in range(0, 200, 25)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(numbers(mine.marks())) == list(range(200))
    mine.close()


def test_a_witness_that_cannot_be_written_is_told_and_stops_nothing(folder, caplog):
    mine = Witness(folder, LEDGER)
    os.close(mine._descriptor)
    mine._descriptor = os.open(folder / "ring-0", os.O_RDONLY)
    mine.note(claimed(1))
    assert "cannot be written" in caplog.text
    assert numbers(mine.recent()) == [1]
    os.close(mine._descriptor)


def test_a_folder_that_cannot_be_one_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(BadRequest, match="cannot be used"):
        Witness(tmp_path / "file", LEDGER)
