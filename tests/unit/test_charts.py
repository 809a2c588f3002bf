"""Charts show what their rows hold, say what they leave out, and come out the same everywhere."""

from __future__ import annotations

import re
import warnings
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.report_sample import HOSTILE, result, results
from tools.chart_svg import FONT_LIST_VERSION
from tools.charts import MOST_BARS, draw


def bars(rows):
    return draw(result("q", [("region", "text"), ("sum of revenue", "number")], rows), "bar", "Revenue")


def line(rows, kind="text", name="date (month)"):
    return draw(result("q", [(name, kind), ("sum of revenue", "number")], rows), "line", "Revenue")


def root(chart):
    return ElementTree.fromstring(chart.svg)


def texts(chart):
    return [element.text for element in root(chart).iter("text")]


def tips(chart):
    return [element.text for element in root(chart).iter("title")]


def lines(chart):
    """The points of each drawn line."""
    drawn = [p for p in root(chart).iter("path") if p.attrib.get("stroke-width") == "2.2"]
    return [re.findall(r"[ML] ([\d.-]+) ([\d.-]+)", p.attrib["d"]) for p in drawn]


def bar_widths(chart):
    paths = [p.attrib["d"] for p in root(chart).iter("path") if p.attrib.get("class") == "fill-series0"]
    corners = [[float(x) for x in re.findall(r"[ML] ([\d.-]+)", d)] for d in paths]
    return [max(xs) - min(xs) for xs in corners]


def test_bars_are_in_the_order_of_the_result_and_in_proportion():
    chart = bars([["West", 50.0], ["East", 200.0], ["South", 100.0]])
    assert tips(chart) == ["West: 50", "East: 200", "South: 100"]
    west, east, south = bar_widths(chart)
    assert east == pytest.approx(4 * west, abs=0.1)
    assert south == pytest.approx(2 * west, abs=0.1)
    assert (chart.notes, chart.legend) == ((), ())


def test_a_negative_bar_points_the_other_way():
    chart = bars([["up", 100.0], ["down", -50.0]])
    up, down = [p.attrib["d"] for p in root(chart).iter("path") if p.attrib.get("class") == "fill-series0"]
    zero = float(up.split()[1])
    assert min(float(x) for x in re.findall(r"[ML] ([\d.-]+)", down)) < zero


def test_what_is_not_drawn_is_said():
    chart = bars([[f"k{i}", 1000.0 - i] for i in range(MOST_BARS + 25)] + [["none", None]])
    assert len(bar_widths(chart)) == MOST_BARS
    assert chart.notes == ("Not drawn: 1 group without a value.", "The first 20 are drawn, 25 groups more are not.")


def test_a_long_label_is_cut_and_kept_whole_as_a_title():
    name = "华东大区（上海、江苏、浙江、安徽）及周边"
    chart = bars([[name, 1.0]])
    assert "华东大区（上海、江苏、浙江…" in texts(chart)
    assert name in tips(chart)


@pytest.mark.parametrize("name", [HOSTILE, "$x^2$ \\frac", "<!--", "]]>", "&amp;", '" onload="alert(1)', "@0", "tip@0"])
def test_a_label_stays_text(name):
    chart = bars([[name, 1.5], ["b", 2.0]])
    assert name in texts(chart)
    assert f"{name}: 1.50" in tips(chart)
    assert {e.tag for e in root(chart).iter()} <= {"svg", "g", "path", "text", "title", "circle"}


def test_a_caption_for_a_screen_reader_stays_text():
    chart = draw(results()["q3"], "bar", '"><script>alert(1)</script>')
    assert root(chart).attrib["aria-label"] == 'Bar chart: "><script>alert(1)</script>'
    assert root(chart).attrib["role"] == "img"


def test_a_line_breaks_where_a_month_is_missing():
    rows = [["2024-11", 10.0], ["2024-12", 20.0], ["2025-03", 30.0], ["2025-04", 15.0]]
    assert [len(points) for points in lines(line(rows))] == [2, 2]
    assert [len(points) for points in lines(line([*rows, ["2025-01", 1.0], ["2025-02", 1.0]]))] == [6]


def test_months_stand_where_they_belong_whatever_the_order_of_the_rows():
    (points,) = lines(line([["2025-03", 3.0], ["2025-01", 1.0], ["2025-02", 2.0]]))
    xs, ys = [float(x) for x, _ in points], [float(y) for _, y in points]
    assert xs == sorted(xs)
    assert ys == sorted(ys, reverse=True)  # upwards is smaller
    assert xs[2] - xs[1] == pytest.approx(xs[1] - xs[0], abs=0.02)


@pytest.mark.parametrize(
    ("kind", "keys", "shares"),
    [
        ("text", ["2024", "2025", "2026"], 0.5),
        ("text", ["2024-Q3", "2024-Q4", "2025-Q1"], 0.5),
        ("text", ["2024-W52", "2025-W01", "2025-W02"], 0.5),
        ("date", ["2025-01-01", "2025-01-02", "2025-01-11"], 0.1),
        ("datetime", ["2025-01-01T00:00:00", "2025-01-01T12:00:00", "2025-01-02T00:00:00"], 0.5),
        ("integer", [2000, 2010, 2040], 0.25),
        ("text", ["a", "b", "c"], 0.5),
    ],
)
def test_the_axis_is_that_of_the_keys(kind, keys, shares):
    chart = line([[key, 1.0 + i] for i, key in enumerate(keys)], kind, "key")
    xs = [float(x) for points in lines(chart) for x, _ in points]
    assert (xs[1] - xs[0]) / (xs[-1] - xs[0]) == pytest.approx(shares, abs=0.01)


def test_the_value_axis_has_separators_and_begins_at_zero():
    chart = line([["2025-01", 1_200_000.0], ["2025-02", 4_700_000.0]])
    labels = [t for t in texts(chart) if "20" not in t or "," in t]
    assert labels == ["0", "1,000,000", "2,000,000", "3,000,000", "4,000,000", "5,000,000"]


def test_the_value_axis_of_shares_is_in_percent():
    rows = [["2025-01", 0.1], ["2025-02", 0.5]]
    chart = draw(result("q", [("date (month)", "text"), ("share", "number")], rows), "line", "x")
    assert {"0%", "10%", "50%"} <= set(texts(chart))
    assert "Jan 2025: 10.0%" in tips(chart)


def test_values_close_together_are_not_flattened():
    chart = line([["2025-01", 290.0], ["2025-02", 291.0]])
    assert "0" not in texts(chart)


def test_two_keys_make_a_line_for_each_of_the_second():
    chart = draw(results()["q5"], "line", "x")
    assert len(lines(chart)) == 5
    assert chart.legend == ("华东大区", "North", "South-West & Islands", "西南", "Overseas")
    classes = {e.attrib["class"] for e in root(chart).iter("path") if "series" in e.attrib.get("class", "")}
    assert classes == {f"stroke-series{n}" for n in range(5)}


def test_rows_without_a_key_are_named_as_not_drawn():
    assert draw(results()["q2"], "line", "x").notes == ("Not drawn: 1 group without a place on the axis.",)
    assert "(empty)" in texts(draw(results()["q3"], "bar", "x"))


@pytest.mark.parametrize(
    ("rows", "drawn"),
    [
        ([], False),
        ([["a", None]], False),
        ([["a", 0.0]], True),
        ([["a", 1e301]], False),
        ([["a", -5.0], ["b", -1.0]], True),
    ],
)
@pytest.mark.parametrize("kind", ["bar", "line"])
def test_few_or_strange_rows(kind, rows, drawn):
    chart = draw(result("q", [("k", "text"), ("v", "number")], rows), kind, "x")
    assert (chart is not None) is drawn


def test_one_place_makes_bars_instead_of_a_line():
    chart = line([["2025-01", 4.0]])
    assert root(chart).attrib["aria-label"].startswith("Bar chart")
    assert root(line([["2025-01", 4.0], ["2025-02", 4.0]])).attrib["aria-label"].startswith("Line chart")


def test_no_chart_without_numbers_or_when_none_is_wanted():
    assert draw(result("q", [("a", "text"), ("b", "text")], [["x", "y"]]), "bar", "x") is None
    assert draw(results()["q3"], "none", "x") is None


def test_big_integers_and_decimals_can_be_drawn():
    for kind, value in (("bigint", "12345678901234567890"), ("decimal", "12.50")):
        chart = draw(result("q", [("k", "text"), ("v", kind)], [["a", value]]), "bar", "x")
        assert len(bar_widths(chart)) == 1


def test_colors_are_roles_and_nothing_is_styled_inline():
    for chart in (draw(results()["q2"], "line", "x"), draw(results()["q3"], "bar", "x")):
        assert not re.search(r"style=|#[0-9a-f]{3}|id=|href|clip-path|<metadata|<defs|font-family|https?:", chart.svg)


def test_nothing_is_warned_about_and_a_users_settings_do_not_count():
    plain = bars([["中文 $x$", 1.0], ["b", 2.0]]).svg
    import matplotlib as mpl

    with warnings.catch_warnings(), mpl.rc_context({"font.size": 30, "axes.facecolor": "red", "path.simplify": False}):
        warnings.simplefilter("error")
        assert bars([["中文 $x$", 1.0], ["b", 2.0]]).svg == plain
        assert mpl.rcParams["font.size"] == 30


def test_matplotlib_reads_the_font_list_that_is_put_before_it():
    """If this fails after an upgrade, matplotlib searches the system's fonts again: see `tools.chart_svg`."""
    bars([["a", 1.0]])
    from matplotlib.font_manager import FontManager, fontManager

    assert FontManager.__version__ == FONT_LIST_VERSION
    assert [font.name for font in fontManager.ttflist] == ["DejaVu Sans"]


@settings(max_examples=25, deadline=None)
@given(
    st.sampled_from(["bar", "line"]),
    st.lists(
        st.tuples(st.one_of(st.none(), st.text(max_size=40)), st.one_of(st.none(), st.floats(-1e299, 1e299))),
        max_size=8,
    ),
)
def test_any_rows_can_be_drawn(kind, rows):
    chart = draw(result("q", [("k", "text"), ("v", "number")], [list(row) for row in rows]), kind, "any")
    values = [value for _, value in rows if value is not None]
    assert (chart is None) == (not values)
    if chart is not None:
        assert root(chart).tag == "svg"
        geometry = " ".join(
            v for e in root(chart).iter() for k, v in e.attrib.items() if k in {"d", "x", "y", "cx", "cy"}
        )
        assert not re.search("nan|inf", geometry)
