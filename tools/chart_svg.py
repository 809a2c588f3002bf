"""matplotlib as a pure function: a figure in, an inline <svg> element out, the same bytes on every machine.

What matplotlib would do otherwise, and what stands here instead:

* On import it reads the fonts of the system (through `fc-list`) and writes a cache under HOME, behind a lock file. A
  process killed there leaves the lock, and every later import waits 5 s for it (measured). Here the import sees a
  private folder with a list of one font, its own DejaVu Sans: nothing is searched, written to HOME or locked.
* It measures text in that font, and warns about each character it lacks; a "$" in a label is mathematics to it. Here
  it is given a placeholder for every text that comes from a file, and the text is put in afterwards, as SVG text in
  the reader's own fonts.
* Colors, ids, metadata and inline styles: here each color is the name of a role, and becomes a class, so that the
  page decides (dark mode, and a content policy without inline styles). Ids, of which several charts in one page
  would have the same, are dropped.
"""

from __future__ import annotations

import importlib
import io
import json
import os
import re
import sys
import tempfile
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final
from xml.etree import ElementTree

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FONT_LIST_VERSION: Final = "3.11.0"  # of matplotlib's font list; with another one it reads the system's fonts again
SERIES: Final = 5  # series that have a color of their own
DOT: Final = 6  # diameter of a marker, the only kind there is

_ROLES: Final = ("axis", "grid", "label", "value", *(f"series{n}" for n in range(SERIES)))
_CLASS_OF_COLOR: Final = {f"#{n:06x}": role for n, role in enumerate(_ROLES, 1)}
_COLOR_OF_CLASS: Final = {role: color for color, role in _CLASS_OF_COLOR.items()}
_KEPT_STYLES: Final = {"font-size", "font-weight", "text-anchor", "stroke-width", "stroke-linecap", "stroke-linejoin"}

_importing = threading.Lock()
_drawing = threading.Lock()  # matplotlib's settings are one set for the whole process


def color(role: str) -> str:
    """The color that stands for a role; the page gives the role its real color."""
    return _COLOR_OF_CLASS[role]


@dataclass(frozen=True, kw_only=True)
class Canvas:
    """A figure to draw on, and the texts to put in afterwards."""

    figure: Figure
    axes: Axes
    _texts: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    _tips: list[str] = field(default_factory=list[str])

    def text(self, shown: str, full: str | None = None) -> str:
        """A placeholder to give to matplotlib. `full` is what the reader sees when pointing at a shortened text."""
        self._texts.append((shown, full or shown))
        return f"@{len(self._texts) - 1}"

    def tip(self, text: str) -> str:
        """A gid for an artist, which gives it a text that appears when the reader points at it."""
        self._tips.append(text)
        return f"tip@{len(self._tips) - 1}"

    def svg(self, label: str) -> str:
        """What was drawn, as one <svg> element that a screen reader calls by the label."""
        written = io.BytesIO()
        self.figure.savefig(written, format="svg", metadata={"Date": None, "Creator": None})
        drawn = ElementTree.fromstring(written.getvalue())  # noqa: S314 - matplotlib wrote it a moment ago
        view = {"viewBox": drawn.attrib["viewBox"], "role": "img", "aria-label": label, "class": "chart"}
        root = ElementTree.Element("svg", view)
        for child in drawn:
            self._copy(child, root)
        return ElementTree.tostring(root, encoding="unicode")

    def _copy(self, element: ElementTree.Element, parent: ElementTree.Element) -> None:
        """Append the element to the parent, without what a page must not have twice or at all."""
        tag = element.tag.rpartition("}")[2]
        if tag in {"metadata", "defs"}:
            return
        copied = ElementTree.Element(tag, _attributes(element))
        if tip := re.fullmatch(r"tip@(\d+)", element.attrib.get("id", "")):
            ElementTree.SubElement(copied, "title").text = self._tips[int(tip[1])]
        if tag == "use":  # a marker, referred to by an id
            copied.tag = "circle"
            copied.attrib["r"] = f"{DOT / 2:g}"
            for here, there in (("x", "cx"), ("y", "cy")):
                copied.attrib[there] = copied.attrib.pop(here)
        elif tag == "text":
            self._put_text(copied, element.text or "")
        for child in element:
            self._copy(child, copied)
        if tag == "g" and not copied.attrib and len(copied) < 2:  # most of matplotlib's groups only carried an id
            parent.extend(copied)
        else:
            parent.append(copied)

    def _put_text(self, element: ElementTree.Element, written: str) -> None:
        placeholder = re.fullmatch(r"@(\d+)", written)
        shown, full = self._texts[int(placeholder[1])] if placeholder else (written, written)
        element.text = shown
        if full != shown:
            ElementTree.SubElement(element, "title").text = full


def _attributes(element: ElementTree.Element) -> dict[str, str]:
    """Geometry (nothing here is rotated), rounded to what can be seen; colors as classes; the styles the page needs."""
    kept = {name: _rounded(element.attrib[name]) for name in ("d", "x", "y") if name in element.attrib}
    classes: list[str] = []
    for style in filter(None, element.attrib.get("style", "").split(";")):
        name, value = (part.strip() for part in style.split(":", 1))
        if name in {"fill", "stroke"} and value != "none":
            classes.append(f"{name}-{_CLASS_OF_COLOR[value]}")
        elif name in _KEPT_STYLES or value == "none":
            kept[name] = value.removesuffix("px")
    return {**kept, "class": " ".join(classes)} if classes else kept


def _rounded(numbers: str) -> str:
    text = re.sub(r"-?\d+\.\d+", lambda n: f"{float(n[0]):.2f}".rstrip("0").rstrip("."), numbers)
    return " ".join(text.split())


def round_values(low: float, high: float) -> list[float]:
    """A few round values for the lines of a grid; the first and the last enclose the range."""
    _import_matplotlib()
    from matplotlib.ticker import MaxNLocator

    locator = MaxNLocator(nbins=5, steps=[1, 2, 2.5, 5, 10])
    return [float(value) for value in locator.tick_values(low, high)]


@contextmanager
def canvas(width: int, height: int, margins: tuple[int, int, int, int]) -> Generator[Canvas]:
    """A figure of this size with one pair of axes; margins are left, top, right, bottom. All in CSS pixels."""
    _import_matplotlib()
    import matplotlib as mpl
    from matplotlib.figure import Figure

    left, top, right, bottom = margins
    with _drawing, mpl.rc_context():
        mpl.rcdefaults()  # a user's own settings would change the bytes
        mpl.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "onward", "font.family": "DejaVu Sans"})
        figure = Figure(figsize=(width / 72, height / 72), dpi=72)  # one point of the SVG is one pixel
        box = (left / width, bottom / height, 1 - (left + right) / width, 1 - (top + bottom) / height)
        axes = figure.add_axes(box)
        figure.patch.set_visible(False)
        axes.patch.set_visible(False)
        yield Canvas(figure=figure, axes=axes)


def _import_matplotlib() -> None:
    with _importing:
        if "matplotlib" in sys.modules:
            return
        before = os.environ.get("MPLCONFIGDIR")
        with tempfile.TemporaryDirectory(prefix="onward-charts-") as folder:
            fonts = Path(folder, f"fontlist-v{FONT_LIST_VERSION}.json")
            fonts.write_text(json.dumps(_font_list()), encoding="utf-8")
            os.environ["MPLCONFIGDIR"] = folder
            try:
                # Everything that will be used is imported now: the folder is gone afterwards.
                importlib.import_module("matplotlib.backends.backend_svg")
                importlib.import_module("matplotlib.figure")
                importlib.import_module("matplotlib.style")
            finally:
                del os.environ["MPLCONFIGDIR"]
                if before is not None:
                    os.environ["MPLCONFIGDIR"] = before


def _font_list() -> dict[str, object]:
    """matplotlib's cache of fonts, as it would write it on a machine that has none but its own DejaVu Sans."""
    face = {"style": "normal", "variant": "normal", "weight": 400, "stretch": "normal", "size": "scalable", "index": 0}
    dejavu = {"__class__": "FontEntry", "name": "DejaVu Sans", "fname": "fonts/ttf/DejaVuSans.ttf", **face}
    return {
        "__class__": "FontManager",
        "_version": FONT_LIST_VERSION,
        "_FontManager__default_weight": "normal",
        "default_size": None,
        "defaultFamily": {"ttf": "DejaVu Sans", "afm": "Helvetica"},
        "afmlist": [],
        "ttflist": [dejavu],
    }
