"""Two ways to every answer, SQL in DuckDB and polars without SQL, agree on tables and questions nobody thought of."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime
from pathlib import Path
from random import Random
from typing import Any

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tools import query_run
from tools.query import Limits, QueryServer, TableFile
from tools.questions import compile_sql, validate
from tools.recompute import compare, recompute, reexecute
from tools.sheet import DTYPES

SHEET = 'Sales "2025"; DROP'
CHARACTERS = st.sampled_from(["a", "A", "b", " ", "%", "_", "'", '"', "é", "ß", "字", "😀", "1", "\n"])
TEXTS = st.text(CHARACTERS, min_size=1, max_size=3)
INTEGERS = st.integers(-3, 3) | st.sampled_from([2**53, 2**53 + 1, 2**63 - 1, -(2**63)])
HUNDREDTHS = st.integers(-400, 400).map(lambda n: n / 100) | st.sampled_from([1e9, -1e9, 123456789.12])
DOUBLES = st.floats(-1e12, 1e12) | st.sampled_from([0.1, 0.2, 0.3, 1e16, -1e16, 1 / 3])
DATES = st.dates(date(1899, 12, 25), date(2101, 1, 10)) | st.dates(date(2024, 12, 25), date(2025, 1, 10))
DATETIMES = st.datetimes(datetime(1950, 1, 1), datetime(2050, 1, 1)) | DATES.map(
    lambda d: datetime(d.year, d.month, d.day, 23, 59, 59, 999999)
)

# Column name, type as in the profile, values, and how many decimals the profile would tell.
COLUMNS: list[tuple[str, str, st.SearchStrategy[Any], int | None]] = [
    ("region", "text", TEXTS, None),
    ("Count of rows", "mixed", st.sampled_from(["1", "01", "x", "1.0"]), None),
    ("pieces", "integer", st.integers(-3, 3), None),
    ("select", "integer", INTEGERS, None),
    ("price", "number", HUNDREDTHS, 2),
    ("weight", "number", DOUBLES, None),
    ('odd "name", k0', "date", DATES, None),
    ("at", "datetime", DATETIMES, None),
    ("paid", "boolean", st.booleans(), None),
    ("nothing", "empty", st.none(), None),
]
PROFILE = {
    "name": "t",
    "sheets": [{"name": SHEET, "columns": [{"name": n, "type": t, "decimals": d} for n, t, _, d in COLUMNS]}],
}
NUMBERS = [name for name, kind, _, _ in COLUMNS if kind in ("integer", "number")]
ORDERED = [name for name, kind, _, _ in COLUMNS if kind in ("integer", "number", "date", "datetime")]
ALL = [name for name, *_ in COLUMNS]
TYPES = {name: kind for name, kind, *_ in COLUMNS}
MEASURES = {"sum": NUMBERS, "mean": NUMBERS, "median": NUMBERS, "outliers": NUMBERS, "min": ORDERED, "max": ORDERED}


@st.composite
def tables(draw: st.DrawFn) -> pl.DataFrame:
    """Few rows of few different values, so that groups have members, ties happen and filters find something."""
    height = draw(st.sampled_from([12, 9, 16, 6, 3, 1, 0]))
    chance = Random(draw(st.integers(0, 1 << 32)))  # drawing each cell from hypothesis would take most of the time
    series: list[pl.Series] = []
    for name, kind, values, _ in COLUMNS:
        pool = draw(st.lists(values, min_size=1, max_size=4))
        some = [0.0 if value == 0 and kind == "number" else value for value in pool]  # the tables know no -0.0
        nulls = chance.choice([0.0, 0.1, 0.5, 1.0 if chance.random() < 0.2 else 0.2])
        often = chance.choice([[], some[:1] * 5])  # one value far more often than others makes outliers of them
        cells = [None if chance.random() < nulls else chance.choice(some + often) for _ in range(height)]
        series.append(pl.Series(name, cells, DTYPES[kind]))
    return pl.DataFrame(series)


def json_value(value: Any) -> Any:
    return value.isoformat() if isinstance(value, date) else value


@st.composite
def filters(draw: st.DrawFn, table: pl.DataFrame) -> dict[str, Any]:
    column = draw(st.sampled_from(ALL))
    kind = TYPES[column]
    ops = ["=", "!=", "in", "is_null", "is_not_null"]
    ops += ["<", "<=", ">", ">="] * 2 if column in ORDERED else []
    ops += ["contains"] * 3 if kind in ("text", "mixed", "empty") else []
    op = draw(st.sampled_from(ops))
    if op.startswith("is_"):
        return {"column": column, "op": op, "value": None}
    present = [value for value in table[column].to_list() if value is not None]
    new = {"text": TEXTS, "mixed": TEXTS, "empty": TEXTS, "integer": INTEGERS | HUNDREDTHS, "number": HUNDREDTHS}
    new |= {"date": DATES, "datetime": DATETIMES | DATES, "boolean": st.booleans()}
    one = (st.sampled_from(present) | new[kind] if present else new[kind]).map(json_value)
    return {"column": column, "op": op, "value": draw(st.lists(one, min_size=1, max_size=3) if op == "in" else one)}


@st.composite
def questions(draw: st.DrawFn, table: pl.DataFrame) -> dict[str, Any]:
    aggregate = draw(
        st.sampled_from(
            ["sum", "mean", "median", "min", "max", "count", "count_distinct"] * 2 + ["missing", "outliers"] * 3
        )
    )
    measure = draw(st.sampled_from(MEASURES.get(aggregate, ALL)))
    if aggregate in ("count", "missing") and draw(st.booleans()):
        measure = None
    group: list[dict[str, str]] = []
    if aggregate != "missing":
        for column in draw(st.lists(st.sampled_from(ALL), min_size=draw(st.integers(0, 2)), max_size=3, unique=True)):
            dated = aggregate != "outliers" and TYPES[column] in ("date", "datetime")
            bys = ["value", "year", "quarter", "month", "week", "day"] if dated else ["value"]
            group.append({"column": column, "by": draw(st.sampled_from(bys))})
    return {
        "id": "q1",
        "text": "any",
        "sheet": SHEET,
        "aggregate": aggregate,
        "measure": measure,
        "group": group,
        "filter": draw(st.lists(filters(table), max_size=draw(st.sampled_from([0, 1, 2])))),
        "order": {
            "by": draw(st.sampled_from(["value", "group"])),
            "direction": draw(st.sampled_from(["asc", "desc"])),
        },
        "limit": draw(st.none() | st.integers(1, 6)),
        "chart": "none",
    }


@pytest.fixture(scope="module")
def parquet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tables") / "table.parquet"


@pytest.fixture(scope="module")
def connection():
    with query_run.connect(1 << 28) as connection:
        yield connection


@pytest.fixture(scope="module")
def by_sql(connection, parquet):
    """The answer as the query child gives it, but on one connection for all examples, for speed."""

    def load(table: pl.DataFrame) -> Callable[[Any], dict[str, Any]]:
        table.write_parquet(parquet)
        connection.execute(f"DROP TABLE IF EXISTS {query_run.quoted(SHEET)}")
        query_run.load(connection, SHEET, str(parquet))
        return answer

    def answer(question: Any) -> dict[str, Any]:
        connection.execute("DROP TABLE IF EXISTS answer")
        limits = {"rows": 10_000, "reply_bytes": 1 << 22}
        return query_run.collect(connection, compile_sql(question, PROFILE), "answer", limits)

    return load


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(data=st.data())
def test_sql_and_polars_agree(by_sql, data):
    table = data.draw(tables())
    answer = by_sql(table)
    for question in data.draw(st.lists(questions(table), min_size=8, max_size=8)):
        question = validate(question, PROFILE)
        differences = compare(answer(question), recompute(question, {SHEET: table}))
        assert [str(difference) for difference in differences] == [], question


# ── the comparison would notice ──

FIXED = pl.DataFrame(
    {
        "region": ["N", "S", "N", None, "s", "N"],
        "pieces": [1, 2, 3, None, 5, 2],
        "price": [10.5, 0.25, None, 0.5, -300.0, 900.0],
        'odd "name", k0': [
            date(2024, 12, 30),
            date(2025, 1, 1),
            None,
            date(2027, 1, 1),
            date(2025, 4, 1),
            date(2025, 1, 31),
        ],
        "paid": [True, False, None, True, True, False],
    }
).select(
    pl.col(name)
    if name in ("region", "pieces", "price", 'odd "name", k0', "paid")
    else pl.lit(None, DTYPES[kind]).alias(name)
    for name, kind, _, _ in COLUMNS
)


def fixed(aggregate: str, measure: str | None = None, **parts: Any) -> dict[str, Any]:
    return validate(
        {"id": "q1", "text": "any", "sheet": SHEET, "aggregate": aggregate, "measure": measure, **parts}, PROFILE
    )


REGION = [{"column": "region", "by": "value"}]
MUTANTS = [
    ("NULLS LAST", "NULLS FIRST", fixed("count", group=REGION)),
    ("DESC", "ASC", fixed("count", group=REGION)),
    ("1 ASC", "1 DESC", fixed("count", group=REGION)),
    ("t.k0 AS", "lower(t.k0) AS", fixed("count", group=REGION)),
    ("LIMIT 2", "LIMIT 3", fixed("count", group=REGION, limit=2)),
    ("count(*)", "count(t.k0)", fixed("count", group=REGION)),
    ("count(DISTINCT t.v)", "count(t.v)", fixed("count_distinct", "region")),
    ("nullif(count(t.v), 0)", "count(*)", fixed("mean", "price")),
    ("DECIMAL(38, 2)", "DECIMAL(38, 1)", fixed("sum", "price")),
    ("sum(t.v)", "coalesce(sum(t.v), 0)", fixed("sum", "pieces", filter=[{"column": "region", "op": "is_null"}])),
    ("0.5)", "0.49)", fixed("median", "price")),
    ("min(", "max(", fixed("min", "pieces")),
    ("IS DISTINCT FROM", "<>", fixed("count", filter=[{"column": "region", "op": "!=", "value": "N"}])),
    (">=", ">", fixed("count", filter=[{"column": "pieces", "op": ">=", "value": 2}])),
    ("isoyear", "year", fixed("count", group=[{"column": 'odd "name", k0', "by": "week"}])),
    ("%02d", "%d", fixed("count", group=[{"column": 'odd "name", k0', "by": "month"}])),
    ("count(*) - ", "", fixed("missing")),
    ("t.place ASC", "t.place DESC", fixed("missing")),
    ("0.25", "0.26", fixed("outliers", "price")),
    ("1.5 *", "1.4 *", fixed("outliers", "price")),
    ("p.v < b.low OR ", "", fixed("outliers", "price")),
    (" LEFT JOIN", " JOIN", fixed("outliers", "pieces", filter=[{"column": "pieces", "op": "<", "value": 5}])),
]


@pytest.mark.parametrize(("right", "wrong", "question"), MUTANTS, ids=[f"{m[0]} to {m[1]}" for m in MUTANTS])
def test_a_wrong_piece_of_sql_is_found_out(by_sql, monkeypatch, right, wrong, question):
    answer, again = by_sql(FIXED), recompute(question, {SHEET: FIXED})
    assert compare(answer(question), again) == []
    sql = compile_sql(question, PROFILE)
    assert right in sql
    monkeypatch.setattr(f"{__name__}.compile_sql", lambda *_: sql.replace(right, wrong))
    assert compare(answer(question), again) != []


def test_a_cell_that_was_read_otherwise_is_found_out(by_sql):
    question = fixed("sum", "price", group=REGION)
    answer = by_sql(FIXED)(question)
    other = FIXED.with_columns(pl.when(pl.col("price") == 0.25).then(0.26).otherwise(pl.col("price")).alias("price"))
    assert [str(difference) for difference in compare(answer, recompute(question, {SHEET: other}))] == [
        '"sum of price" in row 3 is 0.25, computed again it is 0.26.'
    ]


def test_free_sql_is_executed_again_and_a_changed_source_is_found_out(tmp_path):
    sql = f"SELECT region, sum(price) AS total FROM {query_run.quoted(SHEET)} GROUP BY region ORDER BY region"
    first, second, changed = (TableFile(sheet=SHEET, path=tmp_path / f"{name}.parquet") for name in ("1", "2", "3"))
    FIXED.write_parquet(first.path)
    FIXED.write_parquet(second.path, compression="uncompressed")
    FIXED.head(5).write_parquet(changed.path)
    with QueryServer() as queries:
        answer = queries.run([first], sql).to_json()
        assert compare(answer, reexecute(queries, sql, [second])) == []
        assert [str(difference) for difference in compare(answer, reexecute(queries, sql, [changed]))] == [
            '"total" in row 1 is 910.5, computed again it is 10.5.'
        ]
        few = Limits(rows=1)
        truncated = queries.run([first], sql, few).to_json()
        assert truncated["truncated"]
        assert compare(truncated, reexecute(queries, sql, [second], few)) == []
