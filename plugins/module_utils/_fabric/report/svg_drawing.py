# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""A drawing as self-contained SVG, without scripts, fonts or external pictures. The same calls give the same bytes.

Lengths are in CSS pixels. Colours are classes that follow the light or dark scheme of the reader; viewers without such
a scheme show the light one.
"""

from __future__ import annotations

import re
from xml.etree import ElementTree as xml

NAMESPACE = "http://www.w3.org/2000/svg"

# Colours of rails that remain distinguishable with colour blindness (after Okabe and Ito, some darker for white paper),
# for the light and the dark scheme. Names are always beside them, so no information depends on colour alone.
RAIL_COLOURS = (
    ("#0072b2", "#4db2f0"),
    ("#d55e00", "#ff8f4a"),
    ("#009e73", "#2fd6a4"),
    ("#b4558c", "#f09ccb"),
    ("#8f7200", "#f0d84a"),
    ("#3d9fd9", "#a9e0ff"),
    ("#5d4bb8", "#b9adff"),
    ("#4d4d4d", "#d0d0d0"),
)
DASHES = ("", "7 3", "2 3", "9 3 2 3")

_MONO = "ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace"
_STYLE = (
    """
text { font-family: system-ui, 'DejaVu Sans', 'Segoe UI', Roboto, Helvetica, Arial, sans-serif; fill: #1c2024 }
.mono { font-family: %s }
.middle { text-anchor: middle }
.end { text-anchor: end }
.strong { font-weight: 600 }
.soft { fill: #5b6470 }
.paper { fill: #ffffff }
.bad { fill: #b3261e }
.sign { fill: #ffffff }
.block { fill: #f6f7f9; stroke: #d3d8de }
.row { fill: #ffffff; stroke: #e1e5ea }
.cell { fill: #ffffff; stroke-width: 1.5 }
.wire { fill: none; stroke-width: 2 }
"""
    % _MONO
)
_DARK = """
text { fill: #e8eaed }
.soft { fill: #a3acb8 }
.paper { fill: #14171a }
.bad { fill: #ff8a80 }
.sign { fill: #14171a }
.block { fill: #1b1f24; stroke: #39414b }
.row { fill: #22272d; stroke: #333b44 }
.cell { fill: #14171a }
"""

# Width of a character as a multiple of the font size: of the fixed-width font, and a high average of others.
_MONO_WIDTH = 0.61
_SANS_WIDTH = 0.58


class Drawing:
    """``title`` and ``text`` are for screen readers. ``name`` is unique within a page: the style and ids of the drawing
    use it."""

    def __init__(self, title: str, text: str, name: str = "") -> None:
        ids = ["%s-%s" % (name, each) if name else each for each in ("title", "text")]
        self.root = xml.Element("svg", {"xmlns": NAMESPACE, "role": "img", "aria-labelledby": " ".join(ids)})
        xml.SubElement(self.root, "title", id=ids[0]).text = title
        xml.SubElement(self.root, "desc", id=ids[1]).text = text
        if name:
            self.root.set("class", name)
        light, dark = [_STYLE], [_DARK]
        for at, (on_light, on_dark) in enumerate(RAIL_COLOURS):
            for lines, colour in ((light, on_light), (dark, on_dark)):
                lines.append(".f%d { fill: %s }\n.s%d { stroke: %s }\n" % (at, colour, at, colour))
        style = "".join(light) + "@media screen and (prefers-color-scheme: dark) {" + "".join(dark) + "}\n"
        if name:
            style = re.sub(r"^(?=[a-z.])", ".%s " % name, style, flags=re.MULTILINE)
        xml.SubElement(self.root, "style").text = style
        self._paper = xml.SubElement(self.root, "rect", {"class": "paper"})
        self._into = self.root

    def group(self, tip: str = "") -> xml.Element:
        """Start a group with a tooltip. Elements drawn from now on belong to it."""
        self._into = xml.SubElement(self.root, "g")
        if tip:
            xml.SubElement(self._into, "title").text = tip
        return self._into

    def box(
        self,
        x: float,
        y: float,
        width: float,
        height: float,
        kind: str,
        round_by: float = 4,
        tip: str = "",
        dash: str = "",
    ) -> None:
        """Draw a rectangle with a tooltip. ``kind``: its classes; ``round_by``: the radius of its corners."""
        keys = {"x": _number(x), "y": _number(y), "width": _number(width), "height": _number(height)}
        if dash:
            keys["stroke-dasharray"] = dash
        made = xml.SubElement(self._into, "rect", {**keys, "rx": _number(round_by), "class": kind})
        if tip:
            xml.SubElement(made, "title").text = tip

    def line(self, x: float, y: float, to_y: float, kind: str, dash: str = "", to_x: float | None = None) -> None:
        """Draw a vertical line, and from its end a horizontal one to ``to_x``."""
        turn = "" if to_x is None else "H%s" % _number(to_x)
        keys = {"d": "M%s %sV%s%s" % (_number(x), _number(y), _number(to_y), turn), "class": kind}
        if dash:
            keys["stroke-dasharray"] = dash
        xml.SubElement(self._into, "path", keys)

    def text(self, x: float, y: float, content: str, size: float = 12, kind: str = "", room: float = 0) -> None:
        """Draw text; ``y`` is the baseline. Text wider than ``room`` is shortened, and the full text becomes its
        tooltip."""
        keys = {"x": _number(x), "y": _number(y), "font-size": _number(size)}
        if kind:
            keys["class"] = kind
        made = xml.SubElement(self._into, "text", keys)
        made.text = cut(content, size, room, "mono" in kind) if room else content
        if made.text != content:
            made.text, whole = None, xml.SubElement(made, "title")
            whole.text, whole.tail = content, cut(content, size, room, "mono" in kind)

    def done(self, width: float, height: float) -> bytes:
        """Return the bytes of the file."""
        size = {"width": _number(width), "height": _number(height)}
        self._paper.attrib.update(size)
        self.root.attrib.update(dict(size, viewBox="0 0 %s %s" % (size["width"], size["height"])))
        for element in self.root:
            element.tail = "\n"
            for inner in element:
                inner.tail = "\n"
        self.root.text = "\n"
        return xml.tostring(self.root, encoding="utf-8", xml_declaration=True) + b"\n"


def _number(value: float) -> str:
    return ("%.1f" % value).rstrip("0").rstrip(".")


def length(text: str, size: float, mono: bool = False) -> float:
    """Return the approximate width of a text, rounded up."""
    return len(text) * size * (_MONO_WIDTH if mono else _SANS_WIDTH)


def cut(text: str, size: float, room: float, mono: bool = False) -> str:
    """Return the text shortened to ``room``. The middle is cut, because names differ most at their ends."""
    most = max(1, int(room / (size * (_MONO_WIDTH if mono else _SANS_WIDTH))))
    if len(text) <= most:
        return text
    tail = (most - 1) * 2 // 3
    return text[: most - 1 - tail] + "…" + (text[-tail:] if tail else "")
