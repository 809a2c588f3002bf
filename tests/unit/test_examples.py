"""The committed example files are what their script writes, and hold the figures that are quoted from them."""

from __future__ import annotations

import importlib.util
import io
import zipfile
from decimal import Decimal
from pathlib import Path

import pytest

from tools.workbook import read_workbook

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
TOTAL_REVENUE = Decimal("500868.8")


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("make_examples", EXAMPLES / "make_examples.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def parts(content: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def test_the_files_are_what_the_script_writes(script):
    sold = script.orders()
    assert parts((EXAMPLES / "sales.xlsx").read_bytes()) == parts(script.sales_workbook(sold))
    assert parts((EXAMPLES / "messy.xlsx").read_bytes()) == parts(script.messy_workbook())
    assert (EXAMPLES / "sales.csv").read_bytes() == script.sales_text(sold)


def test_they_are_small():
    assert all(path.stat().st_size < 200_000 for path in EXAMPLES.iterdir() if path.is_file())


def test_figures_of_the_sales_example_by_hand():
    workbook = read_workbook(EXAMPLES / "sales.xlsx", "sales.xlsx")
    orders, targets, returns = (sheet.table for sheet in workbook.sheets)
    by_hand = sum(
        Decimal(str(price)) * units for units, price in orders.select("units", "price").rows() if units is not None
    )
    assert by_hand == sum(Decimal(str(revenue)) for revenue in orders["revenue"].drop_nulls())
    assert (orders.height, targets.height, returns.height) == (360, 16, 24)
    assert (orders["customer"].null_count(), orders["units"].null_count(), orders["revenue"].null_count()) == (5, 2, 2)
    assert by_hand == TOTAL_REVENUE


def test_csv_and_xlsx_hold_the_same_orders():
    text = read_workbook(EXAMPLES / "sales.csv", "sales.csv").sheets[0].table
    book = read_workbook(EXAMPLES / "sales.xlsx", "sales.xlsx").sheets[0].table
    assert text.equals(book)
