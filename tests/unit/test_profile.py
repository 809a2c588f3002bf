"""What a profile says of a workbook: types, roles, ranges, examples; always the same for the same bytes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.workbook_files import xlsx
from tools.profile import MAX_DISTINCT, called_identifier, profile
from tools.workbook import read_workbook

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def of_csv(text: str) -> dict[str, dict]:
    described = profile(read_workbook(text.encode(), "data.csv"))
    return {column["name"]: column for column in described["sheets"][0]["columns"]}


def roles(name: str) -> dict[str, dict[str, str]]:
    described = profile(read_workbook(EXAMPLES / name, name))
    return {s["name"]: {c["name"]: c["role"] for c in s["columns"]} for s in described["sheets"]}


def test_roles_of_the_sales_example():
    found = roles("sales.xlsx")
    assert found["Orders"] == {
        "order_id": "identifier",
        "date": "date",
        "region": "category",
        "product": "category",
        "customer": "category",
        "channel": "category",
        "units": "measure",
        "price": "measure",
        "revenue": "measure",
    }
    assert found["Targets"] == {"region": "category", "quarter": "category", "target": "measure"}
    assert found["Returns"]["return_id"] == "identifier"
    assert roles("sales.csv")["sales"] == found["Orders"]


def test_roles_of_the_messy_example():
    found = roles("messy.xlsx")["销售数据"]
    assert found["地区"] == "category"
    assert found["金额"] == found["金额 (2)"] == "measure"
    assert found["备注"] == "empty"
    assert roles("messy.xlsx")["Q1 'raw' & more"]["code"] == "identifier"


def test_figures_of_a_column():
    column = of_csv("price,region\n1.50,North\n,North\n10.25,South\n")["price"]
    assert {
        key: column[key] for key in ("type", "role", "non_null", "nulls", "distinct", "min", "max", "decimals")
    } == {
        "type": "number",
        "role": "measure",
        "non_null": 2,
        "nulls": 1,
        "distinct": 2,
        "min": 1.5,
        "max": 10.25,
        "decimals": 2,
    }


def test_dates_are_in_iso_form():
    columns = of_csv("d,t\n2025-01-31,2025-01-31 10:30\n2024-12-01,2025-02-01 00:00\n")
    assert (columns["d"]["min"], columns["d"]["max"]) == ("2024-12-01", "2025-01-31")
    assert columns["t"]["min"] == "2025-01-31T10:30:00"


@pytest.mark.parametrize(
    ("values", "decimals"),
    [
        (["1.5", "2.25"], 2),
        (["0.1", "0.2", "1e+14"], None),
        (["1.123456789", "2"], 9),
        (["1.1234567891", "2"], None),
        (["2.0", "3.0"], 0),
        (["0.07", "1.15", "99999999.99"], 2),
    ],
)
def test_decimals_say_whether_a_sum_can_be_exact(values, decimals):
    assert of_csv("x\n" + "\n".join(values))["x"]["decimals"] == decimals


def test_no_decimals_for_what_is_no_number():
    assert of_csv("x,y\n1,a\n2,b\n")["x"]["decimals"] is None


def test_examples_are_the_most_frequent_values_first():
    assert of_csv("x\nb\nb\na\na\nc\nb\n")["x"]["examples"] == ["b", "a", "c"]


def test_distinct_values_are_counted_up_to_a_limit():
    column = of_csv("x\n" + "\n".join(f"v{n}" for n in range(MAX_DISTINCT + 5)))["x"]
    assert (column["distinct"], column["role"], len(column["examples"])) == (MAX_DISTINCT, "text", 5)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("id", True),
        ("Order ID", True),
        ("orderId", True),
        ("customer_no", True),
        ("Product-Code", True),
        ("订单编号", True),
        ("电话号码", True),
        ("valid", False),
        ("paid", False),
        ("number of visits", False),
        ("数量", False),
        ("notes", False),
    ],
)
def test_names_of_identifiers(name, expected):
    assert called_identifier(name) is expected


def test_numbers_that_count_up_without_a_gap_are_identifiers_and_years_are_categories():
    rows = "\n".join(f"{n},{2020 + n % 3},{n * n}" for n in range(1, 20))
    columns = of_csv("running,year,square\n" + rows)
    assert {name: column["role"] for name, column in columns.items()} == {
        "running": "identifier",
        "year": "category",
        "square": "measure",
    }


def test_long_and_many_texts_are_no_categories():
    rows = "\n".join(f"{'word ' * 20}{n % 5},item {n}" for n in range(100))
    assert {name: column["role"] for name, column in of_csv("note,item\n" + rows).items()} == {
        "note": "text",
        "item": "text",
    }


def test_notes_of_sheets_and_workbook_are_there():
    described = profile(read_workbook(xlsx({"A": [["x", "x"], [1, "#N/A"]], "B": []}), "book.xlsx"))
    assert [(note["kind"], note["column"], note["count"]) for note in described["sheets"][0]["notes"]] == [
        ("duplicate header", "x (2)", None),
        ("error cells", "x (2)", 1),
    ]
    assert [note["kind"] for note in described["notes"]] == ["empty sheet"]


@pytest.mark.parametrize("name", ["sales.xlsx", "sales.csv", "messy.xlsx"])
def test_the_same_bytes_give_the_same_json(name):
    first, second = (
        json.dumps(profile(read_workbook((EXAMPLES / name).read_bytes(), name)), allow_nan=False) for _ in range(2)
    )
    assert first == second
