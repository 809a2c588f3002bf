"""The page shows every case once, tells its story, hides nothing that is wrong, and trusts nothing that it is told."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from copy import deepcopy
from dataclasses import dataclass, field
from html import unescape
from html.parser import HTMLParser
from typing import Any

import pytest

from experiments.boundaries import Boundary
from experiments.checker import Violation
from experiments.evidence import Checkpoint, Evidence, Record, World
from experiments.mutants import MUTANTS
from experiments.nemesis import Fault
from experiments.oracle import Effect
from experiments.page import render
from experiments.page_stories import BUDGET_CHARACTERS, SAMPLE, even, size
from experiments.page_words import Place, place
from experiments.plan import NO_FAULT, Plan
from experiments.results import Hunted, Outcome, Results, to_json
from experiments.story import Process

DIGEST = "d" * 64
STEPS = ("plan", "analyze", "write_draft", "test", "deliver")
VOID = ("meta", "col", "br", "wbr")
CRASHED = "commit #2 (background)"


# --- a campaign -------------------------------------------------------------------------------------------------------


def effects(*kinds: str) -> tuple[Effect, ...]:
    return tuple(Effect(entry=n, run_id="r", kind=kind, resource="x", digest=DIGEST) for n, kind in enumerate(kinds, 1))


WORLD = World(
    status="succeeded",
    effects=effects("draft.save", "report.publish"),
    checkpoints=(Checkpoint(checkpoint_id="c1", parent_id=None),),
    published=(DIGEST,),
    saved=DIGEST,
    records=(Record(step="write_draft", kind="draft.save", status="SUCCEEDED", receipt_digest=DIGEST),),
    claims=((1, None), (2, None)),
)
TWICE = effects("draft.save", "draft.save", "report.publish")
KILLED = Process(
    exit_code=86,
    lines=(
        *(f"EXECUTE {node}" for node in STEPS[:3]),
        "TOOL committed receipt draft-1",
        f"CRASH after {CRASHED}",
    ),
)
RESUMED = Process(
    exit_code=0,
    lines=(
        "EXECUTE write_draft",
        "TOOL reuse receipt draft-1",
        "EXECUTE test",
        "EXECUTE deliver",
        "TOOL committed receipt report-2",
        "END exit 0",
    ),
)
IDLE = Process(exit_code=0, lines=("END RunFinished",))


def evidence(group: str, **changes: Any) -> Evidence:
    at = Boundary(role="background", label="commit", occurrence=2, side="after")
    values: dict[str, Any] = {
        "system": "plain" if group == "control" else "onward",
        "plan": Plan(group=group, name=str(at), driver=(Fault(at=at),)),
        "processes": (KILLED, RESUMED, IDLE),
        "ended": WORLD,
        "after": WORLD,
    }
    return Evidence(**(values | changes))


REFERENCE = evidence("none", plan=NO_FAULT)


def outcome(group: str, *, violations: tuple[Violation, ...] = (), **changes: Any) -> Outcome:
    return Outcome(case=evidence(group, **changes), reference=REFERENCE, violations=violations)


WRONG = Violation(
    number="I1", invariant="one effect per intended action", seen="the effect of write_draft happened twice"
)
REPEATED = World(status="published", effects=TWICE, checkpoints=WORLD.checkpoints, saved=DIGEST)


def campaign(**changes: Any) -> dict[str, Any]:
    """A clean campaign as JSON: two cases, a control that repeats an effect, a mutant that was caught."""
    caught = outcome("driver", violations=(WRONG,))
    values: dict[str, Any] = {
        "store": "postgres",
        "verdict": "pass",
        "reasons": (),
        "reference": REFERENCE,
        "outcomes": (outcome("driver"), outcome("order")),
        "control": (outcome("control", ended=REPEATED, after=REPEATED),),
        "hunted": (Hunted(mutant=next(iter(MUTANTS.values())), caught=caught, tried=3),),
        "boundaries": {"driver": 4, "order": 2},
        "seconds": 12.0,
        "versions": {"python": "3.11"},
    }
    return json.loads(json.dumps(to_json(Results(**(values | changes)))))


def many(group: str, number: int, **changes: Any) -> list[dict[str, Any]]:
    """So many cases of a group, each with its own name."""
    case = campaign()["outcomes"][0]
    return [deepcopy(case) | {"group": group, "case": f"{group} case {n}"} | changes for n in range(number)]


# --- reading the page -------------------------------------------------------------------------------------------------


@dataclass
class Page(HTMLParser):
    """The elements of a page with their attributes, the text inside each id, and whether every tag is closed."""

    html: str
    elements: list[tuple[str, dict[str, str]]] = field(default_factory=list[tuple[str, dict[str, str]]])
    texts: dict[str, str] = field(default_factory=dict[str, str])
    _open: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])

    def __post_init__(self) -> None:
        super().__init__()
        self.feed(self.html)
        self.close()
        assert self._open == [], f"not closed: {self._open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.elements.append((tag, given))
        if tag not in VOID:
            self._open.append((tag, given.get("id", "")))

    def handle_endtag(self, tag: str) -> None:
        assert self._open[-1][0] == tag, f"{tag} closes {self._open[-1]}"
        self._open.pop()

    def handle_data(self, data: str) -> None:
        for _, id_ in self._open:
            if id_:
                self.texts[id_] = f"{self.texts.get(id_, '')}{data}"

    def with_class(self, name: str, tag: str | None = None) -> list[dict[str, str]]:
        return [given for t, given in self.elements if name in given.get("class", "").split() and tag in (None, t)]

    def cells(self, look: str) -> int:
        """Cells that look like this in the pictures; the legend has one <i> of each kind."""
        return sum(look in given["class"].split() for tag in ("a", "span") for given in self.with_class("cell", tag))

    @property
    def ids(self) -> list[str]:
        return [given["id"] for _, given in self.elements if "id" in given]

    @property
    def links(self) -> list[str]:
        return [given["href"] for _, given in self.elements if "href" in given]


def page(figures: dict[str, Any]) -> Page:
    return Page(render(figures))


# --- what it shows ----------------------------------------------------------------------------------------------------


def test_every_case_is_a_cell_of_its_own_look() -> None:
    shown = page(campaign())
    assert (shown.cells("ok"), shown.cells("repeat"), shown.cells("wrong")) == (2, 1, 0)
    assert "Pass: 0 effects repeated and 0 lost in 2 faulted runs" in shown.html
    assert "repeats an effect in 1 of 1 runs" in shown.html
    assert "1 of 1 mutants" in shown.html


def test_the_control_stands_right_below_what_it_is_compared_with() -> None:
    shown = page(campaign())
    assert re.findall(r'scope="rowgroup" colspan="6">([^<]+)</th>', shown.html) == [
        "With Onward: the driver killed at every boundary",
        "Without, the control: plain LangGraph killed at every boundary",
        "The same with checkpoints forced in front of the writes they hold",
    ]


def test_a_cell_stands_in_the_step_in_which_the_run_was_hit() -> None:
    early = Process(exit_code=86, lines=("CRASH before connect (main)",))
    whole = Process(exit_code=0, lines=(*(f"EXECUTE {node}" for node in STEPS), "END exit 0"))
    shown = page(campaign(outcomes=(outcome("driver", processes=(early, whole, IDLE)), outcome("driver"))))
    rows = re.findall(r'<tr class="cells">(.*?)</tr>', shown.html, re.DOTALL)
    columns = [row.split("</td>")[:-1] for row in rows]
    assert [["cell" in column for column in row] for row in columns] == [
        [True, False, False, True, False, False],  # Onward
        [False, False, False, True, False, False],  # the control
    ]
    ruler = re.findall(r'<tr class="ruler">(.*?)</tr>', shown.html.replace("<wbr>", ""), re.DOTALL)
    assert re.findall(r"<th[^>]*>([a-z_]+)", ruler[0]) == ["start", *STEPS]
    assert re.findall(r'class="effect">([a-z_]+)', ruler[0]) == ["write_draft", "deliver"]


def test_a_cell_leads_to_its_story_and_back() -> None:
    shown = page(campaign())
    assert {"#driver-1", "#at-driver-1", "#control-1", "#at-control-1"} <= {*shown.links}
    story = shown.texts["driver-1"]
    for line in (
        f"CRASH after {CRASHED}",
        "TOOL reuse receipt draft-1",
        "Second process, resumes by the same thread_id",
        "Third process, resumes the finished run",
        "(executes nothing)",
        "checkpoint writer",
        "1 → 2",
        "write_draft 1, deliver 1",
        "2 new, 1 reused",
        "uv run verify.py --only 'after commit #2 (background)'",
    ):
        assert line in story
    assert "END exit 0" not in story


def test_a_mutant_shows_its_rule_and_the_case_that_caught_it() -> None:
    mutant = next(iter(MUTANTS.values()))
    shown = page(campaign())
    assert f"<b>{mutant.name}</b> {mutant.what}" in unescape(shown.html)
    assert "✓ caught: I1 one effect per intended action" in shown.html
    story = shown.texts[f"mutant-{mutant.name}"]
    assert "the effect of write_draft happened twice" in story
    assert f"--plant {mutant.name} --only" in story


def test_a_story_leads_to_its_neighbours() -> None:
    shown = page(campaign() | {"outcomes": many("driver", 3), "control": []})
    story = re.findall(r'<article id="driver-2".*?</article>', shown.html, re.DOTALL)[0]
    assert 'rel="prev" href="#driver-1"' in story
    assert 'rel="next" href="#driver-3"' in story


@pytest.mark.parametrize(
    ("group", "name", "sentence", "role"),
    [
        ("driver", "before connect (pool)", "Killed before connect", "connection pool"),
        (
            "control",
            "after commit, before commit #2 (background)",
            "Killed after commit, before commit #2",
            "checkpoint writer",
        ),
        ("ledger", "after the effect (send)", "Killed after the effect", "sending"),
        ("stopped driver", "before commit (background)", "Stopped before commit", "checkpoint writer"),
        ("points", "deliver: after effect", "Killed at deliver: after effect", ""),
        ("driver", "before thing (somebody else)", "Killed before thing", "somebody else"),
        ("random", "seed 1 number 2", "seed 1 number 2", ""),
    ],
)
def test_a_place_in_words(group: str, name: str, sentence: str, role: str) -> None:
    assert place({"group": group, "case": name}) == Place(sentence=sentence, role=role)


def test_a_repeated_effect_is_told_as_one() -> None:
    again = Process(exit_code=0, lines=("EXECUTE write_draft", "TOOL committed receipt draft-2", "END published"))
    repeated = outcome("control", processes=(KILLED, again, IDLE), ended=REPEATED, after=REPEATED)
    text = render(campaign(control=(repeated,)))
    assert '<li class="committed">TOOL committed receipt draft-1</li>' in text
    assert '<li class="again">TOOL committed receipt draft-2</li>' in text
    assert 'class="again">TOOL' not in render(campaign())


# --- what is not as it should be --------------------------------------------------------------------------------------


def test_a_wrong_case_is_seen_as_wrong() -> None:
    told = campaign(
        verdict="disproved",
        reasons=("driver, here: I1 one effect per intended action: twice",),
        outcomes=(outcome("driver", after=WORLD), outcome("driver", violations=(WRONG,))),
    )
    shown = page(told)
    assert (shown.cells("ok"), shown.cells("wrong")) == (1, 1)
    assert '<a id="at-driver-2" class="cell wrong"' in shown.html
    assert re.search(r'id="at-driver-2"[^>]*>×</a>', shown.html)  # not by colour alone
    assert "Disproved: 1 of 2 runs contradict an invariant" in shown.html
    assert "driver, here: I1 one effect per intended action: twice" in shown.html
    assert "the effect of write_draft happened twice" in shown.texts["driver-2"]
    assert 'class="story wrong"' in shown.html
    assert "the effect of write_draft happened twice" not in shown.texts["driver-1"]


def test_a_fault_that_did_not_fire_and_an_unknown_outcome_are_seen() -> None:
    silent = Violation(number="I9", invariant="the fault fired", seen="process 1 ended with 0")
    quiet = Outcome(case=evidence("driver"), reference=REFERENCE, invalid=(silent,))
    waits = Record(step="write_draft", kind="draft.save", status="UNKNOWN", receipt_digest=None)
    unknown = World(status="waiting_human", effects=(), checkpoints=WORLD.checkpoints, records=(waits,))
    told = campaign(
        verdict="invalid",
        reasons=("the fault did not fire",),
        outcomes=(quiet, outcome("ledger", ended=unknown, after=unknown)),
    )
    shown = page(told)
    assert (shown.cells("unfired"), shown.cells("unknown"), shown.cells("ok")) == (1, 1, 0)
    assert "Invalid: 1 faulted runs were made, and they prove nothing" in shown.html
    assert "I9 the fault fired: process 1 ended with 0" in shown.texts["driver-1"]


def test_a_clean_control_and_a_surviving_mutant_are_seen() -> None:
    survivor = Hunted(mutant=next(iter(MUTANTS.values())), caught=None, tried=7)
    shown = page(campaign(verdict="invalid", reasons=("x",), control=(outcome("control"),), hunted=(survivor,)))
    assert (shown.cells("clean"), shown.cells("repeat")) == (1, 0)
    assert "NOT CAUGHT in 7 cases" in shown.html
    assert len(shown.with_class("bad", "li")) == 2  # the cards of the control and of the mutants


def test_a_part_of_a_campaign_does_not_claim_the_whole() -> None:
    shown = page(campaign(control=(), hunted=()))
    assert "this one has not run all of them" in shown.html
    assert "this one has not run all of them" not in render(campaign())


# --- what may not happen ----------------------------------------------------------------------------------------------


def test_the_same_figures_give_the_same_bytes() -> None:
    assert render(campaign()) == render(campaign())


def test_the_page_refers_to_nothing_outside_and_allows_only_its_own_script() -> None:
    shown = page(campaign())
    assert all(link.startswith("#") and link[1:] in shown.ids for link in shown.links)
    assert len(shown.ids) == len(set(shown.ids))
    assert not re.search(r"https?://|@import|url\(|\ssrc=|\sstyle=|\son[a-z]+=", shown.html)
    policy = next(given["content"] for _, given in shown.elements if "http-equiv" in given)
    for tag in ("style", "script"):
        (inside,) = re.findall(f"<{tag}>(.*?)</{tag}>", shown.html, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(inside.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy
    assert "default-src 'none'" in policy


@pytest.mark.parametrize("hostile", ["<script>alert(1)</script>", '"><img src=x>', "{{ 7 * 7 }}", "</article></style>"])
def test_hostile_text_stays_text(hostile: str) -> None:
    told = campaign(verdict="disproved", reasons=(hostile,), outcomes=(outcome("driver", violations=(WRONG,)),))
    case = told["outcomes"][0]
    case["case"] = f"before {hostile} ({hostile})"
    case["violations"] = [hostile]
    case["processes"][0]["lines"] = [f"EXECUTE {hostile}", f"CRASH {hostile}"]
    case["processes"][0]["executed"] = [hostile]
    case["status"] = hostile
    case["effects"] = {hostile: 1}
    told["versions"] = {hostile: hostile}
    told["store"] = hostile
    shown = page(told)
    assert [tag for tag, _ in shown.elements].count("script") == 1
    assert "img" not in [tag for tag, _ in shown.elements]
    assert hostile in shown.texts["driver-1"]
    assert hostile not in shown.html or hostile.startswith("{{")


def test_thousands_of_cases_stay_a_small_page() -> None:
    good, wrong = many("random", 6000), many("random", 3, outcome="wrong", violations=["I1 twice"])
    told = campaign() | {"outcomes": [*good, *wrong, *many("driver", 300)], "seed": 1, "cases": 6303}
    text = render(told)
    shown = Page(text)
    assert len(text.encode()) < 5_000_000
    assert (shown.cells("ok"), shown.cells("wrong")) == (6300, 3)
    told_of = [id_ for id_ in shown.texts if re.fullmatch(r"random-\d+", id_)]
    assert len(told_of) == SAMPLE + 3
    assert {"random-6001", "random-6002", "random-6003"} <= set(told_of)
    assert sum(bool(re.fullmatch(r"driver-\d+", id_)) for id_ in shown.texts) == 300
    assert f"{6000 - SAMPLE} cases have no story here" in text
    assert "--random 6303 --seed 1 --only 'random case 0'" in shown.texts["random-1"]


def test_the_budget_holds_also_where_everything_is_wrong_and_long() -> None:
    case = many("driver", 1, outcome="wrong", violations=["I1 twice"])[0]
    case["processes"][0]["lines"] = [f"EXECUTE {n} {'x' * 2000}" for n in range(500)]
    told = campaign() | {"outcomes": [case | {"case": f"case {n}"} for n in range(1000)]}
    text = render(told)
    assert len(text.encode()) < 5_000_000
    kept = len(re.findall(r'<article id="driver-', text))
    assert 0 < kept <= BUDGET_CHARACTERS // size(case)
    assert text.count("cell wrong") == 1000 + 1  # and one in the legend
    assert "441 more lines in results.json" in text


def test_a_sample_is_even() -> None:
    assert even(list(range(10)), 5) == [0, 2, 4, 6, 8]
    assert even([1, 2], 5) == [1, 2]
    assert even([], 5) == []
