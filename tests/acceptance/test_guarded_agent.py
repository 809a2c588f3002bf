"""The example agent, killed for real by verify.py: without the ledger its effects are repeated, with it none is.

Where nobody can tell whether an effect happened, the run stops and says so: UNKNOWN, neither repeated nor forgotten.
"""

from __future__ import annotations

import difflib
import json
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from onward_ledger import LedgerClient, Status
from tests.support.anygraph_runs import ROOT, Done, run_all
from tests.support.markdown import document

pytestmark = [pytest.mark.campaign, pytest.mark.timeout(300)]

AGENTS = ROOT / "examples/agents"
WISH = '{"messages": [["user", "The printer of {thread_id} is on fire"]]}'
SECOND_LOOK = ", resend_after_absent=True, **desk.TIMES"

# The service itself, but a claim whose caller says nothing is over half a second behind its deadline, not five.
SERVE = """
import sys
from onward_ledger.store import claims
claims.RECORD_GRACE_SECONDS = 0.5
from onward_ledger.__main__ import main
sys.argv[0] = "onward-ledger"
main()
"""


def agent(folder: Path, name: str, store: str, only: str) -> list[str]:
    counted = [
        word for what in ("tickets", "mails") for word in ("--effects", f"{what}=python:{folder}/desk.py:{what}")
    ]
    given = ["--json", "--store", store, "--input", WISH, "--only", only]
    return [*given, "--graph", f"{folder}/{name}.py:agent", *counted]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("desk")


@pytest.fixture(scope="module")
def ledger(world: Path) -> Iterator[dict[str, str]]:
    """A service in a process of its own: its URL and its token, as the example reads them."""
    ready, token = world / "ready.json", world / "token"
    places = ["--store", f"sqlite:///{world}/ledger.db", "--objects", str(world / "objects"), "--port", "0"]
    files = ["--token-file", str(token), "--ready-file", str(ready)]
    with (
        (world / "ledger.log").open("wb") as log,
        subprocess.Popen([sys.executable, "-c", SERVE, "serve", *places, *files], cwd=ROOT, stderr=log) as process,
    ):
        while not ready.exists():
            assert process.poll() is None, (world / "ledger.log").read_text()
            time.sleep(0.02)
        yield {"LEDGER_URL": json.loads(ready.read_text())["url"], "LEDGER_TOKEN": token.read_text().strip()}
        process.terminate()


@pytest.fixture(scope="module")
def found(world: Path, ledger: dict[str, str]) -> dict[str, Done]:
    wary = world / "wary"
    shutil.copytree(AGENTS, wary)
    text = (wary / "guarded.py").read_text()
    assert SECOND_LOOK in text
    (wary / "guarded.py").write_text(text.replace(SECOND_LOOK, ""))
    commands = {
        "plain": agent(AGENTS, "plain", "sqlite", "(a tool), its result not stored"),
        "guarded": agent(AGENTS, "guarded", "postgres", "(a tool)"),
        "wary": agent(wary, "guarded", "sqlite", "in tools"),
    }
    return run_all(commands, world, DESK=str(world / "things"), **ledger)


def test_the_agent_as_it_was_repeats_each_effect(found: dict[str, Done]) -> None:
    told = found["plain"].json
    assert (told["killed"], told["lost"], told["stuck"]) == (3, 0, 0)
    assert all(case["duplicates"] for case in told["cases"])


def test_the_guarded_agent_repeats_and_loses_nothing(found: dict[str, Done]) -> None:
    told = found["guarded"].json
    assert (told["killed"], told["effects"]) == (6, {"tickets": 1, "mails": 2})
    wrong = {word: told[word] for word in ("not_fired", "duplicates", "lost", "wrong", "stuck")}
    assert (found["guarded"].code, told["verdict"]) == (0, "pass"), told["reasons"]
    assert set(wrong.values()) == {0}
    assert told["reexecuted_steps"] > 0


def test_it_was_killed_around_every_request_of_the_guard(found: dict[str, Done]) -> None:
    where = " ".join(case["boundary"] for case in found["wary"].json["cases"])
    for request in ("PUT /v1/guards/*", "POST /v1/actions/*/complete"):
        for side in ("before send", "after send", "before answer to", "after answer to"):
            assert f"{side} {request}" in where


def test_what_nobody_can_tell_is_unknown_and_listed(found: dict[str, Done], ledger: dict[str, str]) -> None:
    """Killed between the claim and the mail, where absence proves nothing: not repeated, and not forgotten either."""
    told = found["wary"].json
    assert (told["duplicates"], told["wrong"], told["not_fired"], told["killed"] >= 20) == (0, 0, 0, True)
    stopped = [case for case in told["cases"] if case["stuck"]]
    assert all("UNKNOWN" in case["stuck"] for case in stopped)
    assert all(case["stuck"] for case in told["cases"] if case["lost"]), "nothing is lost in silence"
    # A mail between its claim and its record; never the ticket, whose desk takes keys.
    assert stopped
    assert all("tool.send_mail" in case["stuck"] for case in stopped)
    with LedgerClient(ledger["LEDGER_URL"], ledger["LEDGER_TOKEN"]) as client:
        unknown = {action.action_id for action in client.actions(status=Status.UNKNOWN, limit=1000)}
    named = {re.findall(r"onward-ledger resolve ([0-9a-f-]{36})", case["stuck"])[0] for case in stopped}
    assert named <= unknown


# --- what it took -----------------------------------------------------------------------------------------------------


def changed() -> list[str]:
    """The lines that `guarded.py` has and `plain.py` has not, without its first sentence."""
    before, after = ((AGENTS / name).read_text().splitlines() for name in ("plain.py", "guarded.py"))
    new = [line[2:] for line in difflib.ndiff(before, after) if line.startswith("+ ")]
    return [line for line in new if line and not line.startswith('"""')]


def test_it_takes_ten_lines() -> None:
    assert len(changed()) <= 10


@pytest.mark.parametrize("page", ["examples/agents/README.md", "docs/adopting.md"])
def test_the_pages_show_these_lines(page: str) -> None:
    (block,) = [each for each in document(page).blocks("diff") if "EffectGuard" in each]
    assert [line[1:] for line in block.splitlines() if line.startswith("+")] == changed()
