# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""Charts by matplotlib, as SVG within the page: texts stay texts, and colours are those of the page's scheme.

They are drawn as wide as a phone, so that they can be read there; wider screens enlarge them.
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
# Of a rail's name at the most; the tables have the whole.
_LABEL = 110
_TREND_WIDTH, _TREND_HEIGHT = 250, 92
_FONT = 11.0
# Up to so many transfers of a rail each is a point; more would hide the box, and it and the outliers alone are drawn.
_POINTS = 40
# Outliers of a rail that are drawn at the most, the worst.
_OUTLIERS = 50

# Colours of matplotlib's output, and the colour of the page that replaces each.
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
    """See that charts can be drawn here.

    :raises Unsupported: where they cannot, with the reason.
    """
    try:
        import matplotlib.backends.backend_svg
        import matplotlib.figure  # noqa: F401
    except ImportError as error:
        message = "charts need Python's matplotlib, and it cannot be imported: %s" % error
        raise Unsupported(message, "matplotlib", _REMEDY) from error


def spread_chart(found: t.Sequence[Spread], quantity: Quantity, name: str) -> xml.Element:
    """A row a rail: its transfers, the box of the middle half, the median, and outliers as diamonds."""
    height = _ROW * len(found) + 44
    single = dotted(found)
    labels = [cut(each.label, _FONT, _LABEL) for each in found]

    def draw(figure: t.Any) -> None:
        axes = _axes(figure, _WIDTH, height, max(length(label, _FONT) for label in labels) + 14, 10, 8, 38)
        for at, each in enumerate(found):
            usual = each.usual or [each.median]
            axes.plot([usual[0], usual[-1]], [at, at], color=_SOFT, linewidth=1, zorder=2)
            width = each.three_quarters - each.quarter
            axes.barh(at, width, 0.62, each.quarter, color=_PLATE, edgecolor=_GOOD, linewidth=1, zorder=3)
            axes.plot([each.median] * 2, [at - 0.36, at + 0.36], color=_GOOD, linewidth=2.5, zorder=5)
            if single:
                # beside each other by the golden ratio: near values lie apart, and the same values alike each time
                lanes = [at + ((number * 0.618034) % 1 - 0.5) * 0.42 for number in range(len(usual))]
                axes.plot(usual, lanes, "o", color=_GOOD, markersize=2.6, alpha=0.7, markeredgewidth=0, zorder=4)
            worst = [point.value for point in each.outliers[:_OUTLIERS]]
            axes.plot(worst, [at] * len(worst), "D", color=_BAD, markersize=5, alpha=0.8, markeredgewidth=0, zorder=6)
        axes.set_yticks(range(len(found)), labels)
        axes.set_ylim(len(found) - 0.4, -0.6)
        axes.set_xlim(*_room([each.low for each in found] + [each.high for each in found]))
        axes.tick_params(length=0)
        axes.grid(axis="x", linewidth=0.6, zorder=0)
        axes.set_xlabel(quantity.unit)
        axes.locator_params(axis="x", nbins=5)

    title = "%s of each rail, %s" % (quantity.title, quantity.unit)
    summary = "; ".join("%s: median %s, %s to %s" % (each.label, *map(short, _three(each))) for each in found)
    return _svg(draw, _WIDTH, height, name, title, summary)


def dotted(found: t.Sequence[Spread]) -> bool:
    """Whether each transfer is drawn as a point."""
    return all(len(each.points) <= _POINTS for each in found)


def _three(each: Spread) -> tuple[float, float, float]:
    return each.median, each.low, each.high


def trend_chart(rail: str, runs: t.Sequence[Run], room: tuple[float, float], name: str) -> xml.Element:
    """A rail's median and slowest transfer from run to run, and a cross at each run in which it failed."""

    def draw(figure: t.Any) -> None:
        axes = _axes(figure, _TREND_WIDTH, _TREND_HEIGHT, 44, 10, 8, 22)
        at = list(range(len(runs)))
        nothing = float("nan")
        axes.plot(at, [each.worst.get(rail, nothing) for each in runs], "--", color=_SOFT, linewidth=1, zorder=3)
        medians = [each.median.get(rail, nothing) for each in runs]
        axes.plot(at, medians, "-o", color=_GOOD, linewidth=1.8, markersize=3.5, zorder=4)
        low, high = room
        bad = [number for number, each in enumerate(runs) if each.of_rail.get(rail)]
        axes.plot(
            bad, [low + (high - low) * 0.06] * len(bad), "X", color=_BAD, markersize=7, markeredgewidth=0, zorder=5
        )
        axes.set_ylim(low, high)
        axes.set_xlim(-0.4, max(len(runs) - 0.6, 0.4))
        axes.set_xticks([0, len(runs) - 1] if len(runs) > 1 else [0], _ends(runs))
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
    """The range that all rails' charts share, so that they can be compared: that of the medians, and below it as much
    as the slowest transfers need, but not so much that medians look the same."""
    medians = [value for each in runs for value in each.median.values()] or [0.0, 1.0]
    slowest = [value for each in runs for value in each.worst.values()] or medians
    least = max(min(slowest), min(medians) - max(max(medians) - min(medians), 0.05 * min(medians)))
    low, high = _room([least, max(medians)])
    return low - (high - low) * 0.12, high


def _ends(runs: t.Sequence[Run]) -> list[str]:
    return [runs[0].began[:10], runs[-1].began[:10]] if len(runs) > 1 else [runs[0].began[:10]]


def short(value: float) -> str:
    """A number in three digits or a few more: ``0.118``, ``1.93``, ``187.2``, ``1204``."""
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
    """A range around values, not so narrow that noise fills it."""
    low, high = min(values), max(values)
    pad = max((high - low) * 0.06, high * 0.02, 1e-6)
    return max(low - pad, 0.0) if low - pad > 0 or low == 0 else low - pad, high + pad


def _axes(figure: t.Any, width: float, height: float, left: float, right: float, top: float, bottom: float) -> t.Any:
    """Axes with these margins, in pixels."""
    box = (left / width, bottom / height, (width - left - right) / width, (height - top - bottom) / height)
    return figure.add_axes(box)


def _svg(
    draw: t.Callable[[t.Any], None], width: float, height: float, name: str, title: str, description: str
) -> xml.Element:
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    out = io.BytesIO()
    # whatever a user's own settings are: the same documents give the same bytes
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
    """An SVG for use within HTML: no namespaces, the ids of its own that are used, the page's colours and font."""
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
            value = re.sub("#0[1-6]0[1-6]0[1-6]", lambda found: _PAINTS.get(found[0], found[0]), value)
            if key == "style":
                value = re.sub(r"font: ([\d.]+px) [^;]+", r"font-size: \1", value)
                value = re.sub(r"font-family: [^;]+;? ?", "", value)
            element.set(key.rpartition("}")[2], value)
    for unwanted in root.findall("metadata"):
        root.remove(unwanted)
    return root


def bare(root: xml.Element) -> xml.Element:
    """An SVG without namespaces, which HTML does not write, and without empty lines."""
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]
        if element.text and not element.text.strip():
            element.text = None
        if element.tail and not element.tail.strip():
            element.tail = None
    return root
