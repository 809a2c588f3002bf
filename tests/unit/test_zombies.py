"""The parts of `experiments/zombies.py` that need no process: places, rows, what is judged, and the verdict."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from experiments.boundaries import Boundary, Moment
from experiments.evidence import Checkpoint, Evidence, World
from experiments.plan import NO_FAULT
from experiments.story import Process
from experiments.zombified import judging
from experiments.zombified.campaign import Judged, Options, Results
from experiments.zombified.case import Zombie, forks_of
from experiments.zombified.controls import CONTROLS, Damage, plain_places
from experiments.zombified.forgetting import forgotten
from experiments.zombified.life import backends, claim_ms, exit_code
from experiments.zombified.long_steps import LongStep
from experiments.zombified.places import Place, choose, places_of, read_places
from experiments.zombified.report import figures, rows, spread, summary
from experiments.zombified.rows import Row, changes, read_sqlite

# --- places -----------------------------------------------------------------------------------------------------------


def recorded(file: Path, *lines: tuple[str, str, str | None, bool]) -> tuple[Place, ...]:
    """A recording: role, label, node and whether something is open behind the operation."""
    counts: Counter[tuple[str, str]] = Counter()
    text: list[str] = []
    is_open = dict[str, bool]()
    for role, label, node, opened in lines:
        counts[role, label] += 1
        number = counts[role, label]
        text.append(json.dumps([role, label, number, "before", node, is_open.get(role, False)]))
        is_open[role] = opened
        text.append(json.dumps([role, label, number, "after", node, opened]))
    file.write_text("\n".join(text), encoding="utf-8")
    return read_places(file)


@pytest.fixture
def places(tmp_path: Path) -> tuple[Place, ...]:
    return recorded(
        tmp_path / "recording",
        ("main", "select from runs", None, False),
        ("main", "update runs", None, True),
        ("main", "commit", None, False),
        ("main", "send PUT /v1/actions/*", "write_draft", False),
        ("background", "insert into checkpoint_blobs", None, True),
        ("background", "exit pipeline", None, False),
    )


def test_a_place_says_what_the_process_is_in_the_middle_of(places: tuple[Place, ...]) -> None:
    assert {str(place): place.kinds for place in places} == {
        "before select from runs (main)": ("elsewhere",),
        "before update runs (main)": ("elsewhere",),
        "before commit (main)": ("open",),
        "before send PUT /v1/actions/* (main), in write_draft": ("write node",),
        "after send PUT /v1/actions/* (main), in write_draft": ("write node",),
        "before insert into checkpoint_blobs (background)": ("super-step",),
        "before exit pipeline (background)": ("open",),
        "after exit pipeline (background)": ("super-step",),
    }


def test_places_are_chosen_by_kind_by_name_and_every_so_many(places: tuple[Place, ...]) -> None:
    assert [str(p) for p in choose(places, only="open")] == [
        "before commit (main)",
        "before exit pipeline (background)",
    ]
    assert len(choose(places, only="write_draft")) == 2
    assert choose(places, every=3) == places[::3]
    assert choose(places, only="nowhere") == ()


def test_what_was_taken_back_is_no_place(tmp_path: Path) -> None:
    file = tmp_path / "recording"
    recorded(file, ("main", "commit", None, False))
    with file.open("a", encoding="utf-8") as lines:
        lines.write("\n" + json.dumps(["main", "commit", 2, "before", None, False]))
    assert [str(place) for place in read_places(file)] == ["before commit (main)", "after commit (main)"]


def test_the_control_is_stopped_between_its_super_steps() -> None:
    done = [
        Boundary(role="background", label=label, side=side)
        for label in ("insert into checkpoint_blobs", "insert into checkpoints", "exit pipeline")
        for side in ("before", "after")
    ]
    assert [str(place) for place in plain_places(places_of(done))] == [
        "before insert into checkpoint_blobs (background)",
        "after exit pipeline (background)",
    ]


# --- rows -------------------------------------------------------------------------------------------------------------


def test_a_change_is_told_by_its_table() -> None:
    before = frozenset({Row(table="runs", version="(0,1) by 7", shown="a"), Row(table="events", version="(0,1) by 8")})
    after = frozenset({Row(table="runs", version="(0,2) by 9", shown="b"), Row(table="events", version="(0,1) by 8")})
    (change,) = changes(before, after)
    assert (change.table, change.made, change.gone) == ("runs", 1, 1)
    assert changes(before, before) == ()


def test_every_row_of_an_sqlite_file_counts_but_those_of_no_run(tmp_path: Path) -> None:
    path = tmp_path / "runs.sqlite"
    with closing(sqlite3.connect(path)) as file:
        file.executescript("create table runs (a); create table holders (a); insert into runs values (1)")
    before = read_sqlite(path)
    with closing(sqlite3.connect(path)) as file:
        file.executescript("insert into holders values (1); insert into runs values (2)")
    assert [str(change) for change in changes(before, read_sqlite(path))] == ["runs: 1 row versions made, 0 gone: (2,)"]


def test_a_driver_that_forgets_epochs_compares_them_with_nothing() -> None:
    assert forgotten("where l.epoch = %(epoch)s::bigint and a") == "where l.epoch >= 1 and a"
    assert forgotten("where l.epoch = :epoch)") == "where l.epoch >= 1)"


# --- stories ----------------------------------------------------------------------------------------------------------


def test_a_story_tells_sessions_claims_and_exit_codes() -> None:
    process = Process(exit_code=0, lines=("BACKEND 7", "CLAIM 12.5", "BACKEND 9", "END exit 4"))
    assert (backends(process), claim_ms(process), exit_code(process)) == ((7, 9), 12.5, 4)
    assert exit_code(Process(exit_code=-9, lines=())) == -9
    assert exit_code(Process(exit_code=None, lines=())) is None


# --- judging ----------------------------------------------------------------------------------------------------------


def chain(*ids: str, forked: bool = False) -> tuple[Checkpoint, ...]:
    parents = [None, *ids]
    found = [Checkpoint(checkpoint_id=i, parent_id=p) for i, p in zip(ids, parents, strict=False)]
    return (*found[:-1], replace(found[-1], parent_id=ids[0])) if forked else tuple(found)


def zombie(**changed: object) -> Zombie:
    world = World(status="succeeded", effects=(), checkpoints=chain("1", "2", "3"), claims=((1, None), (2, None)))
    evidence = Evidence(system="onward", plan=NO_FAULT, processes=(), ended=world, after=world)
    good = Zombie(
        place="before commit (main)",
        kinds=("open",),
        wake="at the end",
        stopped=True,
        evidence=evidence,
        held=True,
        lease=True,
        taken=True,
        take_over_ms=150.0,
        claim_ms=12.0,
        terminated=1,
        end_ms=30.0,
        exit_code=4,
    )
    return replace(good, **changed)  # pyright: ignore[reportArgumentType]


def own(seen: Zombie) -> list[str]:
    return [number for number, (_, holds) in judging.OWN.items() if holds(seen)]


def test_a_zombie_that_leaves_at_once_contradicts_nothing() -> None:
    assert own(zombie()) == []
    assert own(zombie(killed=True, exit_code=-9)) == []
    assert own(zombie(nothing_left=True, taken=False, exit_code=0, evidence=once())) == []
    assert own(zombie(lease=False, exit_code=9, evidence=once())) == []


def once() -> Evidence:
    world = World(status="succeeded", effects=(), checkpoints=chain("1"), claims=((1, None),))
    return Evidence(system="onward", plan=NO_FAULT, processes=(), ended=world, after=world)


@pytest.mark.parametrize(
    ("changed", "contradicted"),
    [
        ({"changed": changes(frozenset(), frozenset({Row(table="events", version="1")}))}, ["Z1"]),
        ({"late": (("checkpoints", 1),)}, ["Z2"]),
        ({"exit_code": 0}, ["Z3"]),
        ({"exit_code": None}, ["Z3"]),
        ({"exit_code": 9}, ["Z3"]),
        ({"taken": False}, ["Z4"]),
        ({"stuck": True}, ["Z5"]),
    ],
)
def test_what_a_zombie_must_not_do_is_seen(changed: dict[str, object], contradicted: list[str]) -> None:
    assert own(zombie(**changed)) == contradicted


def test_a_zombie_that_never_stopped_proves_nothing() -> None:
    assert judging.invalid(zombie(stopped=False)) == "it was never stopped at its place"
    assert judging.violations(zombie(stopped=False, exit_code=0), once()) == ()


def test_a_further_take_over_is_told_and_counts_as_a_fault_of_its_own() -> None:
    assert (zombie().further, zombie(lease=False).further, zombie(lease=False, evidence=once()).further) == (0, 1, 0)


def test_a_fork_is_a_checkpoint_whose_parent_is_not_the_one_before_it() -> None:
    assert forks_of(World(status="", effects=(), checkpoints=chain("1", "2", "3"))) == 0
    assert forks_of(World(status="", effects=(), checkpoints=chain("1", "2", "3", forked=True))) == 1


# --- the verdict ------------------------------------------------------------------------------------------------------


def results(*zombies: Zombie, harm: bool = True, steps: tuple[LongStep, ...] = ()) -> Results:
    judged = tuple(
        Judged(
            zombie=z,
            violations=tuple(v for v in judging.violations(z, z.evidence) if v.number.startswith("Z")),
            invalid=judging.invalid(z),
        )
        for z in zombies
    )
    damage = tuple(Damage(control=name, place="p", stopped=True, forks=int(harm)) for name in CONTROLS)
    return Results(
        options=Options(),
        places={"open": 1},
        recorded=1,
        asked=1,
        judged=judged,
        damage=damage,
        long_steps=steps,
        seconds=1.0,
    )


ALIVE = LongStep(hold="sleeping", begun=True, epochs=(1,), refused=2, exit_code=0, status="succeeded", effects=(1, 1))


def test_the_verdict_needs_zombies_that_do_nothing_and_controls_that_do() -> None:
    assert results(zombie(), steps=(ALIVE,)).verdict == "pass"
    assert results(zombie(exit_code=0)).verdict == "disproved"
    assert results(zombie(), harm=False).verdict == "invalid"
    assert results(zombie(stopped=False)).verdict == "invalid"
    assert results(zombie(held=False)).doubts == ("no silent driver held anything open in the database",)
    assert results().verdict == "invalid"


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"epochs": (1, 2)}, "the epochs are [1, 2], not [1]"),
        ({"hold": "mute", "exit_code": 4}, "the epochs are [1], not [1, 2]"),
        ({"hold": "mute", "epochs": (1, 2)}, "the first driver ended with 0, not 4"),
        ({"effects": (1, 2)}, "the run is succeeded with (1, 2) effects"),
        ({"refused": 0}, "nobody tried to take the run"),
    ],
)
def test_a_long_step_is_taken_over_once_or_not_at_all(changed: dict[str, object], said: str) -> None:
    assert ALIVE.broken is None
    assert replace(ALIVE, **changed).broken == said  # pyright: ignore[reportArgumentType]
    assert results(zombie(), steps=(replace(ALIVE, **changed),)).verdict == "disproved"  # pyright: ignore[reportArgumentType]


def test_the_figures_and_the_table_tell_the_same() -> None:
    seen = results(zombie(), zombie(wake="at work", late=(("events", 2),)), steps=(ALIVE,))
    told = figures(seen)
    assert (told["zombies"], told["taken_over"], told["sessions_terminated"]) == (2, 2, 2)
    assert (told["late_writes"]["events"], told["late_writes"]["checkpoints"]) == (2, 0)
    assert told["take_over_ms"] == {"p50": 150.0, "p95": 150.0, "max": 150.0, "samples": 2}
    assert told["controls"]["no fence"]["forked"] == 1
    assert json.loads(json.dumps(told)) == told
    table = list(rows(seen))
    assert table[-1] == ("all", "2", "2", "2", "2", "0", "2", "1")
    assert "Verdict: disproved." in list(summary(seen))[-1]


def test_a_spread_of_nothing_is_nothing() -> None:
    assert spread([None]) is None


def test_moments_and_places_stop_at_the_same_boundary() -> None:
    first, last = Boundary(role="main", label="a", side="after"), Boundary(role="main", label="b")
    assert Place(moment=Moment((first, last)), kinds=("elsewhere",)).at == last
