"""The table of run states, and that the databases uphold the same words."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import pytest

from onward_ledger.database.statements import load_statements
from runs.errors import UnknownTransition
from runs.registry import FINAL, TRANSITIONS, Status, target

SQL = Path(__file__).parents[2] / "runs" / "sql"
WORDS = sorted({word for _, word, _ in TRANSITIONS})


def test_every_pair_outside_the_table_is_a_bug_and_raises():
    table = {(source, word): after for source, word, after in TRANSITIONS}
    assert len(table) == len(TRANSITIONS) == 14
    for status, word in itertools.product(Status, WORDS):
        if (status, word) in table:
            assert target(status, word) is table[status, word]
        else:
            with pytest.raises(UnknownTransition):
                target(status, word)
    with pytest.raises(UnknownTransition):
        target(Status.QUEUED, "fly")


def test_nothing_leaves_a_final_state_and_everything_else_can_end():
    assert {source for source, _, _ in TRANSITIONS}.isdisjoint(FINAL)
    for start in set(Status) - FINAL:
        reached, waiting = set(), [start]
        while waiting:
            status = waiting.pop()
            for source, _, after in TRANSITIONS:
                if source is status and after not in reached:
                    reached.add(after)
                    waiting.append(after)
        assert reached & FINAL


@pytest.mark.parametrize("engine", ["postgres", "sqlite"])
def test_the_schema_knows_the_same_statuses(engine):
    schema = (SQL / engine / "schema.sql").read_text(encoding="utf-8")
    in_postgres, in_sqlite = r"create type run_status as enum \((.*?)\n\)", r"check \(status in\s+\((.*?)\)\)"
    pattern = in_postgres if engine == "postgres" else in_sqlite
    body = re.search(pattern, schema, re.DOTALL).group(1)
    found = re.findall(r"'([a-z_]+)'", re.sub(r"--.*", "", body))
    assert found == [str(status) for status in Status]


def test_both_engines_have_the_same_statements_with_the_same_parameters():
    postgres, sqlite = load_statements(SQL / "postgres"), load_statements(SQL / "sqlite")
    assert sorted(postgres) == sorted(sqlite)
    for name in postgres:
        there = set(re.findall(r"%\((\w+)\)s", postgres[name]))
        here = set(re.findall(r"(?<![:\w]):(\w+)", sqlite[name]))
        assert there == here, name
