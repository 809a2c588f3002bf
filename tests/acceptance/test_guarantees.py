"""`experiments/guarantees.py`: a few cells of its table, the control among them, and its table in the docs."""

import json
import subprocess
import sys

import pytest

from experiments.guaranteed.faults import FAULTS
from experiments.guaranteed.report import BEGIN, END, PAGE
from experiments.guaranteed.rows import ROWS
from tests.support.markdown import ROOT

# A busy machine makes a minute of what takes a quarter of one.
pytestmark = [pytest.mark.campaign, pytest.mark.timeout(250)]


def guarantees(*arguments):
    command = [sys.executable, "experiments/guarantees.py", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240)


@pytest.fixture(scope="module")
def killed_behind_the_effect():
    done = guarantees("--fault", "killed after send", "--json")
    return done, json.loads(done.stdout)


def cells(told):
    return {cell["row"]: cell for cell in told["cells"]}


def test_a_service_that_is_killed_behind_the_effect_makes_no_second_one(killed_behind_the_effect):
    done, told = killed_behind_the_effect
    assert (done.returncode, told["verdict"], told["duplicates"]) == (0, "pass", 0)
    seen = {row: (cell["effects"], cell["status"], cell["needs_a_person"]) for row, cell in cells(told).items()}
    control = seen.pop("control: what is unknown is sent again")
    assert seen == {
        "transactional": (1, "SUCCEEDED", False),
        "idempotent": (1, "SUCCEEDED", False),
        "queryable": (1, "SUCCEEDED", False),
        "queryable, resend_after_absent": (1, "SUCCEEDED", False),
        "opaque": (1, "UNKNOWN", True),
    }
    assert control[0] == 2, "a ledger that guesses must be caught by the same fault"


def test_what_was_sent_again_says_so_in_its_history(killed_behind_the_effect):
    seen = {row: cell["history"] for row, cell in cells(killed_behind_the_effect[1]).items()}
    assert seen["transactional"] == ["propose", "decide", "apply"]
    assert seen["queryable"] == ["propose", "claim", "lose", "find"]
    assert seen["idempotent"] == ["propose", "claim", "lose", "unsend", "claim", "record"]
    assert seen["opaque"] == ["propose", "claim", "lose"]


def test_a_cell_that_does_not_exist_is_a_mistake():
    done = guarantees("--only", "no such row")
    assert (done.returncode, "no such cell" in done.stderr) == (2, True)


def test_the_page_shows_every_row_and_fault():
    table = PAGE.read_text(encoding="utf-8").partition(BEGIN)[2].partition(END)[0]
    head, _, *lines = [line.strip("| ").split(" | ") for line in table.strip().splitlines() if line.startswith("|")]
    assert head == ["fault", *(row.name for row in ROWS)]
    assert [line[0] for line in lines] == [fault.name for fault in FAULTS]
    assert not any("!" in cell for line in lines for cell in line[1:-1]), "a cell is not as promised"
    assert any(line[-1] == "2!" for line in lines), "the control has shown nothing"
    assert len(FAULTS) == 12, "the README says twelve"
    assert "Each class under twelve faults" in (ROOT / "README.md").read_text(encoding="utf-8")
