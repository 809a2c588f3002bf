"""Write the example inputs beside this file: always the same ones.

    python examples/make_examples.py

* sales.xlsx    three sheets of a small shop's year; every revenue is units times price, so any figure can be checked
                with a pocket calculator or with SUM in a spreadsheet.
* sales.csv     its orders again, as text.
* messy.xlsx    what real workbooks do: titles above the table, the same header twice, an empty column, numbers among
                words, formulas with and without a stored value, an error, a total row, Chinese text.

Needs openpyxl, which the `dev` dependency group holds.
"""

from __future__ import annotations

import csv
import io
import random
import zipfile
from datetime import date, datetime, timedelta
from pathlib import Path

from openpyxl import Workbook
from openpyxl.styles import Font
from openpyxl.worksheet.worksheet import Worksheet

HERE = Path(__file__).resolve().parent
ORDERS = 360
REGIONS = ("North", "South", "East", "West")
PRODUCTS = {"Lamp": 40.0, "Chair": 89.5, "Desk": 249.0, "Shelf": 120.0, "Clock": 19.9}
CUSTOMERS = ("Ada Stores", "Bright & Co", "Café Noir", "Delta GmbH", "Easton Ltd", "北京商贸", "Grün AG", "Harbor Inn")
CHANNELS = ("web", "shop", "phone")
LARGE_ORDERS = {41: 180, 157: 240, 233: 150, 318: 210}  # order's place in the list: units far above the usual 1 to 24
WITHOUT_CUSTOMER = (12, 88, 140, 201, 299)
WITHOUT_UNITS = (65, 250)

ORDER_HEADER = ["order_id", "date", "region", "product", "customer", "channel", "units", "price", "revenue"]
Row = list[object]


def orders() -> list[Row]:
    """The year's orders, in order of their dates."""
    chance = random.Random(2025)  # noqa: S311 - the same figures every time, no secret
    rows: list[Row] = []
    for place in range(ORDERS):
        day = date(2025, 1, 1) + timedelta(days=place * 365 // ORDERS)
        product = chance.choice(list(PRODUCTS))
        units: int | None = LARGE_ORDERS.get(place) or chance.randint(1, 24)
        if place in WITHOUT_UNITS:
            units = None
        customer = None if place in WITHOUT_CUSTOMER else chance.choice(CUSTOMERS)
        price = PRODUCTS[product]
        revenue = None if units is None else round(units * price, 2)
        region, channel = chance.choice(REGIONS), chance.choice(CHANNELS)
        rows.append([10_001 + place, day, region, product, customer, channel, units, price, revenue])
    return rows


def targets() -> list[Row]:
    """A revenue target for each region and quarter."""
    base = {"North": 50_000, "South": 45_000, "East": 55_000, "West": 40_000}
    return [[region, f"Q{quarter}", base[region] + 2_500 * quarter] for quarter in range(1, 5) for region in REGIONS]


def returns(sold: list[Row]) -> list[Row]:
    """Every fifteenth order came back, five days later."""
    reasons = ("damaged", "wrong item", "late", None)
    back: list[Row] = []
    for number, order in enumerate(sold[14::15], 1):
        day = order[1]
        assert isinstance(day, date)
        back.append([f"R{number:03}", order[0], day + timedelta(days=5), reasons[number % 4], order[8]])
    return back


def sales_workbook(sold: list[Row]) -> bytes:
    """The three sheets."""
    book = _book()
    _fill(book.create_sheet("Orders"), ORDER_HEADER, sold)
    _fill(book.create_sheet("Targets"), ["region", "quarter", "target"], targets())
    _fill(book.create_sheet("Returns"), ["return_id", "order_id", "date", "reason", "refund"], returns(sold))
    return _saved(book)


def sales_text(sold: list[Row]) -> bytes:
    """The orders as .csv."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\r\n")
    writer.writerow(ORDER_HEADER)
    writer.writerows(["" if cell is None else cell for cell in row] for row in sold)
    return text.getvalue().encode()


def messy_workbook() -> bytes:
    """Two sheets with most of what goes wrong in real ones."""
    book = _book()
    sheet = book.create_sheet("销售数据")
    sheet["A1"] = "2025年销售明细"
    sheet["A2"] = "单位：元"
    _fill(sheet, ["日期", "地区", "产品", "数量", "单价", "金额", "金额", "备注", "折扣", "毛利"], _messy_rows(), top=4)
    raw = book.create_sheet("Q1 'raw' & more")
    _fill(raw, ["code", "name", None, "note\nlong", "when"], _raw_rows())
    return _saved(book, {f"F{row}": f"D{row}*E{row}" for row in range(5, 13)})


def _messy_rows() -> list[Row]:
    regions, products = ("华东", "华北", "华南", "西部"), ("笔记本", "手机", "平板")
    rows: list[Row] = []
    for place in range(8):
        units, price = 3 + 2 * place, (4999.0, 2599.5, 1899.0)[place % 3]
        discount = "n/a" if place == 5 else round(0.05 * place, 2)
        margin = "#DIV/0!" if place == 6 else f"=F{place + 5}-{1000 * place}"
        day = datetime(2025, 1 + place, 15)
        amount = units * price
        rows.append(
            [day, regions[place % 4], products[place % 3], units, price, amount, amount * 1.13, None, discount, margin]
        )
    return [*rows, ["合计", None, None, sum(3 + 2 * place for place in range(8)), *[None] * 6]]


def _raw_rows() -> list[Row]:
    return [
        ["00123", "<script>alert(1)</script>", 1, "line one\nline two", "2025-03-01"],
        ["00456", "'; DROP TABLE sales; --", 2, "| a | b |", "2025-03-02"],
        ["00789", '=HYPERLINK("http://127.0.0.1")', None, "**bold** [x](y)", "2025-03-03"],
        ["01000", "𝒳 naïve ‘quotes’", 4, None, "2025-03-05"],
    ]


def _book() -> Workbook:
    book = Workbook()
    del book["Sheet"]
    book.properties.creator = "Onward"
    book.properties.created = book.properties.modified = datetime(2025, 1, 1)
    return book


def _fill(sheet: Worksheet, header: list[str | None], rows: list[Row], top: int = 1) -> None:
    for place, title in enumerate(header, 1):
        sheet.cell(top, place, title).font = Font(bold=True)
    for number, row in enumerate(rows, top + 1):
        for place, value in enumerate(row, 1):
            cell = sheet.cell(number, place)
            if isinstance(value, str) and value.startswith("=HYPERLINK"):
                cell.value, cell.data_type = value, "s"  # text that looks like a formula
            else:
                cell.value = value
    sheet.freeze_panes = sheet.cell(top + 1, 1)
    for place in range(1, len(header) + 1):
        sheet.column_dimensions[sheet.cell(top, place).column_letter].width = 14


def _saved(book: Workbook, stored: dict[str, str] | None = None) -> bytes:
    """The file, with fixed times inside; `stored` makes formulas of values in the first sheet, which stay stored."""
    written = io.BytesIO()
    book.save(written)
    result = io.BytesIO()
    with zipfile.ZipFile(written) as source, zipfile.ZipFile(result, "w", zipfile.ZIP_DEFLATED) as target:
        for part in source.namelist():
            text = source.read(part)
            if part.endswith("sheet1.xml"):
                for cell, formula in (stored or {}).items():
                    text = text.replace(
                        f'<c r="{cell}" t="n"><v>'.encode(), f'<c r="{cell}"><f>{formula}</f><v>'.encode()
                    )
            if part == "docProps/core.xml":
                text = _fixed_times(text)
            target.writestr(zipfile.ZipInfo(part, (2025, 1, 1, 0, 0, 0)), text, zipfile.ZIP_DEFLATED)
    return result.getvalue()


def _fixed_times(core: bytes) -> bytes:
    """openpyxl writes the time of saving; the file should not change from day to day."""
    start = core.index(b">", core.index(b"<dcterms:modified")) + 1
    return core[:start] + b"2025-01-01T00:00:00Z" + core[core.index(b"<", start) :]


def main() -> None:
    """Write all three."""
    sold = orders()
    (HERE / "sales.xlsx").write_bytes(sales_workbook(sold))
    (HERE / "sales.csv").write_bytes(sales_text(sold))
    (HERE / "messy.xlsx").write_bytes(messy_workbook())


if __name__ == "__main__":
    main()
