# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""Charts drawn by matplotlib, as SVG inside the page. Texts stay text elements, and colours follow the page's scheme.

A chart is as wide as the screen of a phone; wider screens enlarge it.
"""

from __future__ import annotations

import io
import re
import typing as t
from xml.etree import ElementTree as xml

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import Unsupported
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.html.rate_spread import Quantity, Spread
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.html.run_history import Run
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.report.svg_drawing import cut, length

# CSS pixels.
_WIDTH = 340
_ROW = 26
# Maximum width of a rail's name; the tables show the whole name.
_LABEL = 110
_TREND_WIDTH, _TREND_HEIGHT = 250, 92
_FONT = 11.0
# Each transfer is drawn as a point up to this number per rail. More points would hide the box, so that only the box and
# the outliers are drawn.
_POINTS = 40
# Maximum number of outliers drawn per rail, the worst first.
_OUTLIERS = 50

# Colour in matplotlib's output -> colour of the page that replaces it.
_PAINTS = {
    "#010101": "var(--ink)",
    "#020202": "var(--soft)",
    "#030303": "var(--line)",
    "#040404": "var(--good)",
    "#050505": "var(--bad-full)",
    "#060606": "var(--good-plate)",
}
_INK, _SOFT, _LINE, _GOOD, _BAD, _PLATE = _PAINTS
_SETTINGS = {
    "svg.fonttype": "none",
    "svg.hashsalt": "railyard",
    "font.family": ["DejaVu Sans"],
    "font.size": _FONT,
    "axes.edgecolor": _LINE,
    "axes.labelcolor": _SOFT,
    "axes.facecolor": "none",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "figure.facecolor": "none",
    "grid.color": _LINE,
    "text.color": _INK,
    "xtick.color": _LINE,
    "xtick.labelcolor": _SOFT,
    "ytick.color": _LINE,
    "ytick.labelcolor": _INK,
    "path.simplify": False,
    "text.parse_math": False,
}
_REMEDY = "install it where the playbook runs: pip install matplotlib"


def check() -> None:
    """Check that charts can be drawn.

    :raises Unsupported: if matplotlib cannot be imported, with the reason.
    """
    try:
        import matplotlib.backends.backend_svg
        import matplotlib.figure  # noqa: F401
    except ImportError as error:
        message = "charts need Python's matplotlib, and it cannot be imported: %s" % error
        raise Unsupported(message, "matplotlib", _REMEDY) from error


def spread_chart(found: t.Sequence[Spread], quantity: Quantity, name: str) -> xml.Element:
    """Return a chart with one row per rail: transfers, box of the middle half, median, and outliers as diamonds."""
    height = _ROW * len(found) + 44
    draw_points = dotted(found)
    labels = [cut(each.label, _FONT, _LABEL) for each in found]

    def draw(figure: t.Any) -> None:
        axes = _axes(figure, _WIDTH, height, max(length(label, _FONT) for label in labels) + 14, 10, 8, 38)
        for row, each in enumerate(found):
            usual = each.usual or [each.median]
            axes.plot([usual[0], usual[-1]], [row, row], color=_SOFT, linewidth=1, zorder=2)
            width = each.three_quarters - each.quarter
            axes.barh(row, width, 0.62, each.quarter, color=_PLATE, edgecolor=_GOOD, linewidth=1, zorder=3)
            axes.plot([each.median] * 2, [row - 0.36, row + 0.36], color=_GOOD, linewidth=2.5, zorder=5)
            if draw_points:
                # offsets by the golden ratio: points of near values are apart, and the result is deterministic
                lanes = [row + ((number * 0.618034) % 1 - 0.5) * 0.42 for number in range(len(usual))]
                axes.plot(usual, lanes, "o", color=_GOOD, markersize=2.6, alpha=0.7, markeredgewidth=0, zorder=4)
            worst = [point.value for point in each.outliers[:_OUTLIERS]]
            axes.plot(worst, [row] * len(worst), "D", color=_BAD, markersize=5, alpha=0.8, markeredgewidth=0, zorder=6)
        axes.set_yticks(range(len(found)), labels)
        axes.set_ylim(len(found) - 0.4, -0.6)
        axes.set_xlim(*_room([each.low for each in found] + [each.high for each in found]))
        axes.tick_params(length=0)
        axes.grid(axis="x", linewidth=0.6, zorder=0)
        axes.set_xlabel(quantity.unit)
        axes.locator_params(axis="x", nbins=5)

    title = "%s of each rail, %s" % (quantity.title, quantity.unit)
    summary = "; ".join("%s: median %s, %s to %s" % (each.label, *map(short, _summary_values(each))) for each in found)
    return _svg(draw, _WIDTH, height, name, title, summary)


def dotted(found: t.Sequence[Spread]) -> bool:
    """Return whether each transfer is drawn as a point."""
    return all(len(each.points) <= _POINTS for each in found)


def _summary_values(each: Spread) -> tuple[float, float, float]:
    return each.median, each.low, each.high


def trend_chart(rail: str, runs: t.Sequence[Run], room: tuple[float, float], name: str) -> xml.Element:
    """Return a chart of a rail's median and slowest transfer per run, with a cross at each run in which it failed.

    :param room: lowest and highest value of the axis, in Gb/s.
    """

    def draw(figure: t.Any) -> None:
        axes = _axes(figure, _TREND_WIDTH, _TREND_HEIGHT, 44, 10, 8, 22)
        positions = list(range(len(runs)))
        missing = float("nan")
        axes.plot(positions, [each.worst.get(rail, missing) for each in runs], "--", color=_SOFT, linewidth=1, zorder=3)
        medians = [each.median.get(rail, missing) for each in runs]
        axes.plot(positions, medians, "-o", color=_GOOD, linewidth=1.8, markersize=3.5, zorder=4)
        low, high = room
        bad = [number for number, each in enumerate(runs) if each.of_rail.get(rail)]
        axes.plot(
            bad, [low + (high - low) * 0.06] * len(bad), "X", color=_BAD, markersize=7, markeredgewidth=0, zorder=5
        )
        axes.set_ylim(low, high)
        axes.set_xlim(-0.4, max(len(runs) - 0.6, 0.4))
        axes.set_xticks([0, len(runs) - 1] if len(runs) > 1 else [0], _end_dates(runs))
        axes.locator_params(axis="y", nbins=3)
        axes.tick_params(length=0, labelsize=10, labelcolor=_SOFT)
        labels = axes.get_xticklabels()
        labels[0].set_horizontalalignment("left")
        labels[-1].set_horizontalalignment("right" if len(labels) > 1 else "left")
        axes.grid(axis="y", linewidth=0.6, zorder=0)

    medians = [each.median[rail] for each in runs if rail in each.median]
    text = "Median Gb/s from run to run: %s" % (", ".join(map(short, medians)) or "none measured")
    failed = sum(bool(each.of_rail.get(rail)) for each in runs)
    return _svg(draw, _TREND_WIDTH, _TREND_HEIGHT, name, "Rail %s" % rail, "%s. Failed in %d runs" % (text, failed))


def trend_room(runs: t.Sequence[Run]) -> tuple[float, float]:
    """Return the range in Gb/s that the charts of all rails share, so that they can be compared.

    It is the range of the medians, extended downwards for the slowest transfers as far as the medians stay
    distinguishable.
    """
    medians = [value for each in runs for value in each.median.values()] or [0.0, 1.0]
    slowest = [value for each in runs for value in each.worst.values()] or medians
    lower_end = max(min(slowest), min(medians) - max(max(medians) - min(medians), 0.05 * min(medians)))
    low, high = _room([lower_end, max(medians)])
    return low - (high - low) * 0.12, high


def _end_dates(runs: t.Sequence[Run]) -> list[str]:
    return [runs[0].began[:10], runs[-1].began[:10]] if len(runs) > 1 else [runs[0].began[:10]]


def short(value: float) -> str:
    """Format a number with three or four digits: ``0.118``, ``1.93``, ``187.2``, ``1204``."""
    return (
        "%.3f" % value
        if value < 1
        else "%.2f" % value
        if value < 10
        else "%.1f" % value
        if value < 1000
        else "%.0f" % value
    )


def _room(values: t.Sequence[float]) -> tuple[float, float]:
    """Return a range around the values that is wide enough that noise does not fill it."""
    low, high = min(values), max(values)
    pad = max((high - low) * 0.06, high * 0.02, 1e-6)
    return max(low - pad, 0.0) if low - pad > 0 or low == 0 else low - pad, high + pad


def _axes(figure: t.Any, width: float, height: float, left: float, right: float, top: float, bottom: float) -> t.Any:
    """Add axes with these margins in pixels."""
    box = (left / width, bottom / height, (width - left - right) / width, (height - top - bottom) / height)
    return figure.add_axes(box)


def _svg(
    draw: t.Callable[[t.Any], None], width: float, height: float, name: str, title: str, description: str
) -> xml.Element:
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    out = io.BytesIO()
    # independent of the user's matplotlib settings: the same documents give the same bytes
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_SETTINGS)
        figure = Figure(figsize=(width / 72.0, height / 72.0), dpi=72)
        draw(figure)
        FigureCanvasSVG(figure).print_svg(out, metadata={"Date": None})
    root = plain(xml.fromstring(out.getvalue().decode("utf-8")), name)
    for key in ("width", "height", "version"):
        root.attrib.pop(key, None)
    root.attrib.update({"class": "chart", "role": "img", "aria-labelledby": "%s-title %s-desc" % (name, name)})
    for at, (tag, text) in enumerate((("title", title), ("desc", description))):
        element = xml.Element(tag, id="%s-%s" % (name, tag))
        element.text = text
        root.insert(at, element)
    return root


def plain(root: xml.Element, name: str) -> xml.Element:
    """Convert an SVG for use in HTML: no namespaces, no unused ids, ids prefixed by ``name``, the page's colours and
    font.
    """
    used = set(re.findall(r"#([\w.-]+)", " ".join(value for each in root.iter() for value in each.attrib.values())))
    bare(root)
    for element in root.iter():
        for key in list(element.attrib):
            value = element.attrib.pop(key)
            if key == "id":
                if value in used:
                    element.set("id", "%s-%s" % (name, value))
                continue
            if value.startswith("#") and key.endswith("href"):
                value = "#%s-%s" % (name, value[1:])
            value = re.sub(r"url\(#([^)]+)\)", r"url(#%s-\1)" % name, value)
            value = re.sub("#0[1-6]0[1-6]0[1-6]", lambda match: _PAINTS.get(match[0], match[0]), value)
            if key == "style":
                value = re.sub(r"font: ([\d.]+px) [^;]+", r"font-size: \1", value)
                value = re.sub(r"font-family: [^;]+;? ?", "", value)
            element.set(key.rpartition("}")[2], value)
    for unwanted in root.findall("metadata"):
        root.remove(unwanted)
    return root


def bare(root: xml.Element) -> xml.Element:
    """Remove namespaces, which HTML does not use, and empty lines."""
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]
        if element.text and not element.text.strip():
            element.text = None
        if element.tail and not element.tail.strip():
            element.tail = None
    return root
