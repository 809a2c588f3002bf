"""Charts of results: a line for values over time or along a scale, horizontal bars for categories.

A chart shows what its table shows, in the same words and order, and says what it leaves out. Null values are not
drawn as zero.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import TYPE_CHECKING, Any, Final, Literal

from tools.chart_svg import DOT, SERIES, Canvas, canvas, color, round_values
from tools.draft_types import Result, Scalar
from tools.formatting import NUMERIC_TYPES, ColumnFormat, as_number, column_formats, number, shorten, text_width

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDTH: Final = 720  # CSS pixels; the page scales it
MOST_BARS: Final = 20
MOST_MARKERS: Final = 60  # points of a line that get a dot to point at
LABEL_WIDTH: Final = 28  # columns of text
CHARACTER: Final = 6.6  # pixels a column of text takes at 12 pixels, on the safe side of common fonts
NO_KEY: Final = "(empty)"


@dataclass(frozen=True, kw_only=True)
class Chart:
    """One drawn chart. `legend` names the series in the order of their colors; `notes` say what is left out."""

    svg: str
    legend: tuple[str, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Point:
    """One row that can be drawn. `keys` is what its row is called, as shown."""

    keys: tuple[str, ...]
    raw: tuple[Scalar, ...]
    value: float
    shown: str


def draw(result: Result, kind: Literal["line", "bar", "none"], label: str) -> Chart | None:
    """The chart of a result, or none where there is nothing to draw. `label` is read out by a screen reader."""
    columns = _columns(result)
    if kind == "none" or columns is None:
        return None
    keys, value = columns
    formats = list(column_formats(result).values())
    points = [p for row in result["rows"] if (p := _point(row, keys, value, formats))]
    notes = _without_value(len(result["rows"]) - len(points))
    if not points:
        return None
    if kind == "line" and len(keys) <= 2:
        return _line(points, formats[value], label, notes)
    return _bars(points, label, notes)


def _columns(result: Result) -> tuple[list[int], int] | None:
    """Which columns name the rows, and which is drawn: the last numeric one, so that a result of a question fits."""
    columns = result["columns"]
    numeric = [i for i, c in enumerate(columns) if c["type"] in NUMERIC_TYPES and i > 0]
    if not numeric:
        return None
    value = numeric[-1]
    keys = [i for i in range(value) if columns[i]["type"] not in NUMERIC_TYPES or i == 0]
    return keys[:3], value


def _point(row: Sequence[Scalar], keys: list[int], value: int, formats: list[ColumnFormat]) -> Point | None:
    amount = as_number(row[value])
    if amount is None or abs(amount) > 1e300:  # beyond it the axis itself would overflow
        return None
    return Point(
        keys=tuple(NO_KEY if row[i] is None else formats[i].show(row[i]) for i in keys),
        raw=tuple(row[i] for i in keys),
        value=float(amount),
        shown=formats[value].show(row[value]),
    )


def _without_value(count: int) -> list[str]:
    return [f"Not drawn: {_groups(count)} without a value."] if count else []


def _groups(count: int) -> str:
    return "1 group" if count == 1 else f"{count:,} groups"


# ---- Bars ------------------------------------------------------------------------------------------------------


def _bars(points: list[Point], label: str, notes: list[str]) -> Chart:
    shown, rest = points[:MOST_BARS], points[MOST_BARS:]
    if rest:
        notes = [*notes, f"The first {MOST_BARS} are drawn, {_groups(len(rest))} more are not."]
    names = [" · ".join(point.keys) for point in shown]
    left = round(min(LABEL_WIDTH, max(map(text_width, names))) * CHARACTER) + 14
    right = round(max(text_width(p.shown) for p in shown) * CHARACTER) + 14
    low, high = min(0.0, *(p.value for p in shown)), max(0.0, *(p.value for p in shown))
    below = right if low < 0 else 0  # room for the figures of bars that point to the left
    with canvas(WIDTH, len(shown) * 26 + 12, (left + below, 6, right, 6)) as drawing:
        axes = drawing.axes
        axes.set_axis_off()
        axes.set_xlim(low, high if high > low else low + 1)
        axes.set_ylim(len(shown) - 0.5, -0.5)
        for place, (point, name) in enumerate(zip(shown, names, strict=True)):
            _bar(drawing, place, point, name, below)
        axes.vlines(0, -0.5, len(shown) - 0.5, color=color("axis"), linewidth=1)
        return Chart(svg=drawing.svg(f"Bar chart: {label}"), legend=(), notes=tuple(notes))


def _bar(drawing: Canvas, place: int, point: Point, name: str, below: int) -> None:
    for bar in drawing.axes.barh(place, point.value, height=0.68, color=color("series0")):
        bar.set_gid(drawing.tip(f"{name}: {point.shown}"))
    title = drawing.text(shorten(name, LABEL_WIDTH), name)
    _write(drawing.axes, title, (0, place), -8 - below, "label", xycoords=("axes fraction", "data"))
    _write(drawing.axes, drawing.text(point.shown), (point.value, place), -6 if point.value < 0 else 6, "value")


def _write(axes: Axes, text: str, at: tuple[float, float], offset: int, role: str, **where: Any) -> None:
    """Write beside a place: to its left when the offset (pixels) is negative, else to its right."""
    side = "right" if offset < 0 else "left"
    style: dict[str, Any] = {"ha": side, "va": "center_baseline", "fontsize": 12, "color": color(role), **where}
    axes.annotate(text, at, xytext=(offset, 0), textcoords="offset points", annotation_clip=False, **style)


# ---- Lines -----------------------------------------------------------------------------------------------------


def _line(points: list[Point], form: ColumnFormat, label: str, notes: list[str]) -> Chart:
    dated = [p for p in points if p.raw[0] is not None]
    if len(dated) < len(points):
        notes = [*notes, f"Not drawn: {_groups(len(points) - len(dated))} without a place on the axis."]
    names = list(dict.fromkeys(p.keys[1] for p in dated)) if dated and len(dated[0].keys) > 1 else [""]
    if len(names) > SERIES:
        notes = [*notes, f"The first {SERIES} lines are drawn, {len(names) - SERIES:,} more are not."]
    names = names[:SERIES]
    series = [[p for p in dated if p.keys[1:] in ((name,), ())] for name in names]
    drawn = [p for one in series for p in one]
    if len({p.raw[0] for p in drawn}) < 2:  # one place on the axis makes no line
        return _bars(points, label, notes)
    axis = _axis(drawn)
    with canvas(WIDTH, 280, (_scale_width(drawn, form), 14, 30, 34)) as drawing:
        _scales(drawing, drawn, axis, form)
        for index, one in enumerate(series):
            _one_line(drawing, sorted(one, key=axis.place), index, axis)
        legend = tuple(names) if len(names) > 1 else ()
        return Chart(svg=drawing.svg(f"Line chart: {label}"), legend=legend, notes=tuple(notes))


@dataclass(frozen=True, kw_only=True)
class _Axis:
    """Where a point stands from left to right. `step` is the distance of neighbours, null where there is none."""

    place: Callable[[Point], float]
    step: float | None


def _axis(points: list[Point]) -> _Axis:
    keys = [p.raw[0] for p in points]
    for read, step in _SCALES:
        if all(read(key) is not None for key in keys):
            return _Axis(place=lambda p, read=read: read(p.raw[0]) or 0.0, step=step)
    order = {key: float(index) for index, key in enumerate(dict.fromkeys(keys))}
    return _Axis(place=lambda p: order[p.raw[0]], step=None)


def _parts(pattern: str, per_year: int) -> Callable[[Scalar], float | None]:
    def read(key: Scalar) -> float | None:
        found = re.fullmatch(pattern, key) if isinstance(key, str) else None
        return float(int(found[1]) * per_year + int(found[2] or 0)) if found else None

    return read


def _week(key: Scalar) -> float | None:
    found = re.fullmatch(r"(\d{4})-W(\d{2})", key) if isinstance(key, str) else None
    try:
        return date.fromisocalendar(int(found[1]), int(found[2]), 1).toordinal() / 7 if found else None
    except ValueError:
        return None


def _day(key: Scalar) -> float | None:
    try:
        moment = datetime.fromisoformat(key) if isinstance(key, str) and "-" in key else None
    except ValueError:
        return None
    return moment and moment.toordinal() + (moment.hour * 3600 + moment.minute * 60 + moment.second) / 86400


def _plain(key: Scalar) -> float | None:
    return float(key) if isinstance(key, int | float) and not isinstance(key, bool) and abs(key) < 1e300 else None


# How to read the keys of an axis, and how far neighbours are apart; a greater gap breaks the line. Days and numbers
# may leave some out as a matter of course (weekends), so they have no step.
_SCALES: Final = (
    (_parts(r"(\d{4})()", 1), 1.0),
    (_parts(r"(\d{4})-(\d{2})", 12), 1.0),
    (_parts(r"(\d{4})-Q([1-4])", 4), 1.0),
    (_week, 1.0),
    (_day, None),
    (_plain, None),
)


def _one_line(drawing: Canvas, points: list[Point], index: int, axis: _Axis) -> None:
    """Draw one series, broken where a period is missing."""
    style: dict[str, Any] = {"color": color(f"series{index}"), "clip_on": False}
    places = [axis.place(p) for p in points]
    starts = [0, *(i for i in range(1, len(points)) if axis.step and places[i] - places[i - 1] > axis.step * 1.5)]
    for start, end in zip(starts, [*starts[1:], len(points)], strict=True):
        values = [p.value for p in points[start:end]]
        drawing.axes.plot(places[start:end], values, linewidth=2.2, solid_joinstyle="round", **style)
    lonely = [i for i in starts if i + 1 == len(points) or i + 1 in starts]
    for i in range(len(points)) if len(points) <= MOST_MARKERS else lonely:
        (dot,) = drawing.axes.plot(
            [places[i]], [points[i].value], marker="o", markersize=DOT, markeredgewidth=0, linestyle="none", **style
        )
        dot.set_gid(drawing.tip(f"{', '.join(points[i].keys)}: {points[i].shown}"))


def _limits(points: list[Point]) -> tuple[float, float]:
    """From zero, unless all values are so far from it that their differences would vanish."""
    low, high = min(p.value for p in points), max(p.value for p in points)
    if low >= 0 and low <= 0.6 * high:
        return 0.0, high or 1.0
    if low < 0 <= high:
        return low, high
    room = (high - low) * 0.15 or abs(high) * 0.1
    return low - room, high + room


def _tick_text(tick: float, ticks: list[float], form: ColumnFormat) -> str:
    if form.percent:
        return f"{round(tick * 100, 6):g}%"
    decimals = next((d for d in range(9) if all(round(t, d) == round(t, 12) for t in ticks)), 9)
    return number(round(tick, 12), decimals)


def _scale_width(points: list[Point], form: ColumnFormat) -> int:
    ticks = round_values(*_limits(points))
    return round(max(text_width(_tick_text(t, ticks, form)) for t in ticks) * CHARACTER) + 14


def _scales(drawing: Canvas, points: list[Point], axis: _Axis, form: ColumnFormat) -> None:
    axes: Axes = drawing.axes
    for side in axes.spines.values():
        side.set_visible(False)
    axes.tick_params(length=0, labelsize=12, labelcolor=color("label"), pad=8)
    ticks = round_values(*_limits(points))
    axes.set_ylim(ticks[0], ticks[-1])
    axes.set_yticks(ticks, [drawing.text(_tick_text(tick, ticks, form)) for tick in ticks])
    axes.grid(axis="y", color=color("grid"), linewidth=1)
    if ticks[0] <= 0 <= ticks[-1]:
        axes.axhline(0, color=color("axis"), linewidth=1)
    by_place = {axis.place(p): p.keys[0] for p in points}
    places = sorted(by_place)
    room = (places[-1] - places[0]) * 0.02
    axes.set_xlim(places[0] - room, places[-1] + room)
    widest = min(LABEL_WIDTH // 2, max(map(text_width, by_place.values())))
    step = math.ceil(len(places) * (widest + 3) * CHARACTER / (WIDTH - 100))
    named = places[::step]
    labels = [drawing.text(shorten(by_place[at], LABEL_WIDTH // 2), by_place[at]) for at in named]
    axes.set_xticks(named, labels)
