# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""A picture of the topology from the plan document as SVG: units, leaves, rails, nodes and GPUs.

A rail is a column in its colour: its leaf at the top, and a line from there to the port of every node. A few nodes are
drawn with names and addresses of their ports, more nodes with their GPUs only, and many nodes as one block per unit
with counts. Failed ports and those that were not checked have a mark. If the ports of two nodes are cabled to each
other, a line connects these ports.
"""

from __future__ import annotations

import collections
import math
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan.port_view import cables, leaf_of
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.report.plan_tables import (
    link_layers,
    other_ports,
    rails_of,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.report.port_texts import (
    gpu_text,
    port_lines,
    where,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.report.svg_drawing import (
    DASHES,
    RAIL_COLOURS,
    Drawing,
    length,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.text_table import count

Document = t.Mapping[str, t.Any]
Health = t.Mapping[str, t.Mapping[str, str]]

# States of a port in the verdict.
OK, FAILED = "ok", "failed"

# Up to so many nodes (and ports), each node has a row; up to the first number, with the names of its ports.
_NAMED_NODES = 8
_NODES = 128
_PORTS = 2048
# Maximum numbers of rows in a block, blocks in a picture, and rails side by side.
_ROWS = 32
_BLOCKS = 255
_BAND = 12
# Up to so many nodes of a block have separate lines from the leaf; more nodes share one line with branches.
_LINES = 8
_LINE_GAP = 3.5
_MARGIN = 24
_GAP = 20
# Target ratio of width to height of a picture with many blocks.
_SHAPE = 1.5


class _Rail(t.NamedTuple):
    """The column of a rail. ``paint``: the number of its colour."""

    name: str
    paint: int
    dash: str
    subnet: str


class _Block(t.NamedTuple):
    """Nodes that are drawn together: a unit, a part of a large unit, or a profile. ``leaves``: by rail; ``rails``:
    those that are drawn."""

    title: str
    note: str
    nodes: t.Sequence[Document]
    leaves: t.Mapping[str, Document]
    rails: t.Sequence[_Rail] = ()


def topology(document: Document, name: str = "", health: Health | None = None) -> bytes:
    """Return the SVG file.

    :param name: the drawing's unique name within a page.
    :param health: node -> rail -> ``ok``, ``failed`` or another state, of a run that verified the ports.
    """
    nodes = document["nodes"]
    rails = _rails(document)
    ports = sum(len(node["ports"]) for node in nodes)
    if len(nodes) <= _NODES and ports <= _PORTS:
        blocks = _bands(_parts(_units(document)), rails)
        sketch: _Sketch = _Rows(blocks, len(nodes) <= _NAMED_NODES, document)
    else:
        sketch = _Sums(rails)
        blocks = [block._replace(rails=rails) for block in _few(_units(document))]
    sketch.health = health or {}
    return _draw(document, rails, blocks, sketch, name)


def _rails(document: Document) -> list[_Rail]:
    bases = list(dict.fromkeys(rail.get("base") or rail["name"] for rail in document["rails"]))
    found = []
    parts: dict[int, int] = {}
    for rail in document["rails"]:
        paint = bases.index(rail.get("base") or rail["name"])
        # NICs and planes of a rail have its colour, and different dashes.
        part = parts[paint] = parts.get(paint, -1) + 1
        turn = part + paint // len(RAIL_COLOURS)
        nets = [net for net in (rail.get("subnet"), rail.get("subnet6")) if net]
        found.append(
            _Rail(rail["name"], paint % len(RAIL_COLOURS), DASHES[turn % len(DASHES)], nets[0] if nets else "")
        )
    return found


def _units(document: Document) -> list[_Block]:
    """Return a block for each unit, and one for nodes without a unit; in a fabric without units, a block for each
    profile."""
    units = {unit["name"]: unit for unit in document.get("units") or ()}
    key = "unit" if units else "profile"
    groups: dict[str, list[Document]] = {name: [] for name in units}
    for node in document["nodes"]:
        groups.setdefault(node.get(key) or "", []).append(node)
    blocks = []
    for name, nodes in groups.items():
        unit = units.get(name) or {}
        leaves: dict[str, Document] = {}
        for leaf in unit.get("leaves") or ():
            if leaf.get("name"):
                # A rail of bonds may have two leaves.
                first = leaves.get(leaf["rail"])
                leaves[leaf["rail"]] = dict(leaf, name="%s, %s" % (first["name"], leaf["name"])) if first else leaf
        words = _counts_text(nodes, unit.get("nodes") or 0)
        if unit.get("site"):
            words += ", site %s" % unit["site"]
        title = "unit %s" % name if unit else "profile %s" % name if name and not units else "nodes of no unit"
        blocks.append(_Block(title, words, nodes, leaves))
    return blocks


def _counts_text(nodes: t.Sequence[Document], places: int = 0) -> str:
    """Return the number of nodes, of all ``places``, and of GPUs, as text."""
    total = "{:,} of {:,} nodes".format(len(nodes), places) if places > len(nodes) else count(len(nodes), "node")
    return "%s, %s" % (total, count(sum(map(_gpus, nodes)), "GPU"))


def _models(nodes: t.Iterable[Document]) -> str:
    """Return the number of nodes of each profile, the most first: ``24 hgx-h100, 8 dgx-b200``."""
    numbers: dict[str, int] = {}
    for node in nodes:
        name = node.get("profile") or "no profile"
        numbers[name] = numbers.get(name, 0) + 1
    return ", ".join("{:,} {}".format(number, name) for name, number in sorted(numbers.items(), key=lambda of: -of[1]))


def _back_to_back(document: Document) -> bool:
    """Return whether the ports of two nodes are cabled to each other: the plan has no leaves between them."""
    ports = [port for node in document["nodes"] for port in node["ports"]]
    between = any(port.get(key) for port in ports for key in ("gateway", "gateway6"))
    return (
        len(document["nodes"]) == 2 and not between and not any((port.get("leaf") or {}).get("name") for port in ports)
    )


def _gpus(node: Document) -> int:
    """Return the number of a node's GPUs."""
    return len(node.get("gpus") or {gpu for port in node["ports"] for gpu in port.get("gpus") or ()})


def _parts(blocks: t.Sequence[_Block]) -> list[_Block]:
    """Divide large blocks into equal parts that fit the height of a page."""
    parts = []
    for block in blocks:
        pieces = max(1, -(-len(block.nodes) // _ROWS))
        size = max(1, -(-len(block.nodes) // pieces))
        for piece in range(pieces):
            if pieces == 1:
                parts.append(block)
                continue
            nodes = block.nodes[piece * size : (piece + 1) * size]
            title = "%s (%d of %d)" % (block.title, piece + 1, pieces)
            parts.append(block._replace(title=title, note=_counts_text(nodes), nodes=nodes))
    return parts


def _bands(blocks: t.Sequence[_Block], rails: t.Sequence[_Rail]) -> list[_Block]:
    """Divide blocks by rails, so that texts stay readable and no two rails of a block have the same colour."""
    if len(rails) <= _BAND:
        return [block._replace(rails=rails) for block in blocks]
    size = len(RAIL_COLOURS)
    bands = [rails[at : at + size] for at in range(0, len(rails), size)]
    return [
        block._replace(title="%s, rails %s to %s" % (block.title, band[0].name, band[-1].name), rails=band)
        for block in blocks
        for band in bands
    ]


def _few(blocks: list[_Block]) -> list[_Block]:
    """Return at most as many blocks as a picture holds; the last one contains the remaining nodes."""
    if len(blocks) <= _BLOCKS:
        return blocks
    rest = [node for block in blocks[_BLOCKS - 1 :] for node in block.nodes]
    return [*blocks[: _BLOCKS - 1], _Block("%d more units" % (len(blocks) - _BLOCKS + 1), _counts_text(rest), rest, {})]


class _Sketch:
    """How blocks are drawn. All blocks of a picture have the same width."""

    width: float
    health: Health = {}
    # what the marks of ports mean
    marks = "✕ failed, ? not checked"

    def _state(self, node: str, rail: str) -> str:
        """Return the state of a port as words: empty if it is ok, or if nothing was verified."""
        state = self.health.get(node, {}).get(rail, "unknown") if self.health else OK
        return "" if state == OK else "failed" if state == FAILED else "not checked"

    def height(self, block: _Block) -> float:
        raise NotImplementedError

    def draw(self, drawing: Drawing, block: _Block, x: float, y: float) -> None:
        raise NotImplementedError


class _Rows(_Sketch):
    """A row for each node. ``named``: whether ports have their names and addresses."""

    _HEAD = 44
    _LEAF = 34

    def __init__(self, blocks: t.Sequence[_Block], named: bool, document: Document) -> None:
        nodes = document["nodes"]
        leaves = [leaf["name"] or "" for unit in document.get("units") or () for leaf in unit.get("leaves") or ()]
        heads = [*leaves, *(rail.name for block in blocks for rail in block.rails)]
        head = min(100.0, max(length(name, 10, mono=True) for name in heads) + 12) if heads else 0.0
        self._named = named
        self._paired = _back_to_back(document)
        # lines run beside the cells, with a branch into each cell
        most = max([len(block.nodes) for block in blocks] or [0])
        self._wires = 0.0 if self._paired else 5 + _LINE_GAP * (most if most <= _LINES else 1)
        texts = [text for node in nodes for port in node["ports"] for text in port_lines(port)] if named else []
        longest = max([length(text, 10, mono=True) for text in texts] or [0])
        self._column = self._wires + (min(190.0, max(104.0, longest + 18)) if named else max(58.0, head))
        self._lines = max([len(port_lines(port)) for node in nodes for port in node["ports"]] or [1])
        self._row = 40 + 13 * self._lines if named else 23
        names = [length(node["name"], 11, mono=True) for node in nodes]
        names.extend(length(text, 10) for node in nodes if named for text in (where(node), other_ports(node)))
        self._label = min(230.0, max([96.0, *(name + 20 for name in names)]))
        widest = max([len(block.rails) for block in blocks] or [0])
        self.width = max(self._label + self._column * widest + 12, 260)

    def height(self, block: _Block) -> float:
        return self._HEAD + self._LEAF + 14 + self._pitch * len(block.nodes) + (self._row - self._pitch) + 8

    @property
    def _pitch(self) -> float:
        """Return the distance between rows."""
        return self._row + (22 if self._paired else 0)

    def draw(self, drawing: Drawing, block: _Block, x: float, y: float) -> None:
        drawing.group("%s: %s" % (block.title, block.note))
        drawing.box(x, y, self.width, self.height(block), "block", 8)
        drawing.text(x + 12, y + 20, block.title, 13, "strong", self.width - 24)
        drawing.text(x + 12, y + 36, block.note, 11, "soft", self.width - 24)
        top = y + self._HEAD
        first = top + self._LEAF + 14
        for at in range(len(block.nodes)):
            drawing.box(x + 6, first + at * self._pitch, self.width - 12, self._row - 3, "row")
        for at, rail in enumerate(block.rails):
            left = x + self._label + at * self._column
            rows = [
                row for row, node in enumerate(block.nodes) if any(port["rail"] == rail.name for port in node["ports"])
            ]
            self._lines_of(drawing, rail, rows, left, top + self._LEAF, first)
            if rows or rail.name in block.leaves:
                self._leaf(drawing, rail, block.leaves.get(rail.name), left, top)
        if not self._paired:
            drawing.text(x + 12, top + 21, "leaves" if block.leaves else "rails", 11, "soft")
        for at, node in enumerate(block.nodes):
            self._node(drawing, node, block.rails, x, first + at * self._pitch)

    def _lines_of(
        self, drawing: Drawing, rail: _Rail, rows: t.Sequence[int], left: float, top: float, first: float
    ) -> None:
        """Draw the lines from the leaf to each node's port, or from one port to the other."""
        kind = "wire s%d" % rail.paint
        if self._paired:
            if len(rows) == 2:
                drawing.line(left + self._column / 2, first + self._row - 6, first + self._pitch + 3, kind, rail.dash)
            return
        middle = (self._row - 3) / 2
        for at, row in enumerate(rows):
            # The line of the lowest node is the outermost, so that lines do not cross.
            beside = (len(rows) - 1 - at) * _LINE_GAP if len(rows) <= _LINES else 0
            turn = first + row * self._row + middle
            drawing.line(left + 5 + beside, top, turn, kind, rail.dash, left + self._wires + 4)

    def _leaf(self, drawing: Drawing, rail: _Rail, leaf: Document | None, x: float, y: float) -> None:
        if self._paired:
            drawing.text(x + self._column / 2, y + 26, rail.name, 11, "mono strong middle", self._column - 10)
            return
        name = leaf["name"] if leaf else rail.name
        tip = "leaf %s, rail %s" % (name, rail.name) if leaf else "rail %s" % rail.name
        if leaf and leaf.get("aggregate"):
            tip += ", advertises %s" % leaf["aggregate"]
        drawing.box(x + 3, y, self._column - 6, self._LEAF, "cell s%d" % rail.paint, tip=tip, dash=rail.dash)
        middle, room = x + self._column / 2, self._column - 10
        if leaf:
            drawing.text(middle, y + 14, rail.name, 9, "soft middle", room)
            drawing.text(middle, y + 27, name, 10, "mono middle", room)
        else:
            drawing.text(middle, y + 21, name, 11, "mono middle", room)

    def _node(self, drawing: Drawing, node: Document, rails: t.Sequence[_Rail], x: float, y: float) -> None:
        middle = y + (self._row - 3) / 2
        tip = "node %s, index %s, profile %s" % (node["name"], node.get("index"), node.get("profile"))
        drawing.group("; ".join(filter(None, [tip, other_ports(node)])))
        drawing.text(x + 14, middle + (-2 if self._named else 4), node["name"], 11, "mono strong", self._label - 18)
        if self._named:
            drawing.text(x + 14, middle + 13, where(node), 10, "soft", self._label - 18)
            if other_ports(node):
                drawing.text(x + 14, middle + 26, other_ports(node), 10, "soft", self._label - 18)
        ports = {port["rail"]: port for port in node["ports"]}
        wide = self._column - self._wires
        for at, rail in enumerate(rails):
            left = x + self._label + at * self._column + self._wires
            port = ports.get(rail.name)
            if port is None:
                drawing.box(left + 4, y + 2, wide - 8, self._row - 7, "row", tip="no port on %s" % rail.name)
                drawing.text(left + wide / 2, middle + 4, "no port", 9, "soft middle", wide - 10)
            else:
                self._port(drawing, rail, port, left, y, self._state(node["name"], rail.name))

    def _port(self, drawing: Drawing, rail: _Rail, port: Document, x: float, y: float, state: str) -> None:
        tip = "%s: %s, %s" % (rail.name, ", ".join(port_lines(port)), gpu_text(port))
        for end in [leaf_of(port, each) for each in cables(port)]:
            if end.get("port"):
                tip += ", leaf %s port %s" % (end.get("name"), end["port"])
        if state:
            tip += ", " + state
        wide = self._column - self._wires
        middle, room = x + wide / 2, wide - 12
        if not self._named:
            drawing.box(x + 4, y + 2, wide - 8, self._row - 7, "cell s%d" % rail.paint, 3, tip, rail.dash)
            drawing.text(
                middle - (7 if state else 0), y + 14, gpu_text(port), 10, "middle", room - (14 if state else 0)
            )
            _mark(drawing, state, x + wide - 17, y + 3)
            return
        drawing.box(x + 4, y + 3, wide - 8, self._row - 9, "cell s%d" % rail.paint, 4, tip, rail.dash)
        lines = port_lines(port)
        top = y + 17 + 6.5 * (self._lines - len(lines))
        for at, line in enumerate(lines):
            drawing.text(middle, top + 13 * at, line, 10, "mono middle", room)
        gpus = gpu_text(port)
        pill, top = min(wide - 14, length(gpus, 10) + 20), y + self._row - 28
        drawing.box(middle - pill / 2, top, pill, 15, "f%d" % rail.paint, 7.5, tip)
        drawing.box(middle - pill / 2 + 1.5, top + 1.5, pill - 3, 12, "paper", 6, tip)
        drawing.text(middle, top + 11, gpus, 10, "strong middle", pill - 6)
        _mark(drawing, state, x + wide - 18, y + 4)


def _mark(drawing: Drawing, state: str, x: float, y: float) -> None:
    """Draw the state of a port that is not ok, as a sign in the upper right corner."""
    if state == "failed":
        drawing.box(x, y, 13, 13, "bad", 6.5)
        drawing.text(x + 6.5, y + 10, "✕", 9, "sign strong middle")
    elif state:
        drawing.text(x + 6.5, y + 10, "?", 9, "soft middle")


class _Sums(_Sketch):
    """A block with counts and profiles, and a column per rail with the number of its ports."""

    marks = "✕ failed ports"
    _COLUMN = 34
    _LABEL = 50

    def __init__(self, rails: t.Sequence[_Rail]) -> None:
        self._rails = rails
        self.width = max(self._LABEL + self._COLUMN * len(rails) + 10, 260)

    def height(self, block: _Block) -> float:
        return 124

    def draw(self, drawing: Drawing, block: _Block, x: float, y: float) -> None:
        ports = [(node["name"], port["rail"]) for node in block.nodes for port in node["ports"]]
        numbers = collections.Counter(rail for _node, rail in ports)
        failed = collections.Counter(rail for node, rail in ports if self._state(node, rail) == "failed")
        drawing.group("%s: %s" % (block.title, block.note))
        drawing.box(x, y, self.width, self.height(block), "block", 8)
        drawing.text(x + 12, y + 20, block.title, 13, "strong", self.width - 24)
        drawing.text(x + 12, y + 36, block.note, 11, "soft", self.width - 24)
        drawing.text(x + 12, y + 52, _models(block.nodes), 11, "soft", self.width - 24)
        y += 16
        drawing.text(x + 12, y + 60, "leaves" if block.leaves else "rails", 10, "soft")
        drawing.text(x + 12, y + 93, "ports", 10, "soft")
        for at, rail in enumerate(self._rails):
            number, bad = numbers[rail.name], failed[rail.name]
            leaf = block.leaves.get(rail.name)
            if not number and not leaf:
                continue
            left = x + self._LABEL + at * self._COLUMN
            tip = "%srail %s: %s" % ("leaf %s, " % leaf["name"] if leaf else "", rail.name, count(number, "port"))
            drawing.line(left + self._COLUMN / 2, y + 66, y + 80, "wire s%d" % rail.paint, rail.dash)
            drawing.box(left + 2, y + 46, self._COLUMN - 4, 20, "cell s%d" % rail.paint, 3, tip, rail.dash)
            drawing.text(left + self._COLUMN / 2, y + 60, _short(rail.name), 10, "middle mono", self._COLUMN - 6)
            text, kind = ("✕{:,}".format(bad), "sign middle") if bad else ("{:,}".format(number), "middle")
            tip = "%s failed" % count(bad, "port") if bad else tip
            drawing.box(left + 2, y + 80, self._COLUMN - 4, 19, "bad" if bad else "row", 3, tip)
            drawing.text(left + self._COLUMN / 2, y + 93, text, 10, kind, self._COLUMN - 4)


def _short(name: str) -> str:
    """Return the part of a rail's name that distinguishes it: what follows the letters, such as ``01p2``."""
    rest = name.lstrip("abcdefghijklmnopqrstuvwxyz-_")
    return rest or name


def _draw(
    document: Document, rails: t.Sequence[_Rail], blocks: t.Sequence[_Block], sketch: _Sketch, name: str
) -> bytes:
    """Return the SVG file: head, legend and blocks."""
    fabric = document["fabric"]
    nodes = document["nodes"]
    numbers = [count(len(nodes), "node"), rails_of(document), count(sum(map(_gpus, nodes)), "GPU")]
    if document.get("units"):
        numbers.insert(0, count(len(document["units"]), "unit"))
    attachments = ", ".join(fabric.get("attachments") or [fabric.get("attachment") or ""])
    facts = [attachments, fabric.get("provider"), link_layers(document), "MTU %s" % fabric.get("mtu")]
    summed = "; ".join("%s: %s" % (block.title, block.note) for block in blocks[:16])
    more = "; and %d more" % (len(blocks) - 16) if len(blocks) > 16 else ""
    drawing = Drawing("Rails of fabric %s" % fabric["name"], "%s. %s%s." % (", ".join(numbers), summed, more), name)
    columns = _columns(blocks, sketch, len(rails) // max(1, len(blocks[0].rails)) if blocks else 1)
    line = "%s  ·  %s" % (", ".join(numbers), ", ".join(filter(None, facts)))
    width = max(columns * sketch.width + (columns - 1) * _GAP, length(line, 12))
    drawing.group()
    drawing.text(_MARGIN, 44, "fabric %s" % fabric["name"], 20, "strong", width)
    drawing.text(_MARGIN, 64, line, 12, "soft")
    y = _legend(drawing, rails, width) + 16
    notes = []
    if sketch.health:
        notes.append(sketch.marks)
    if len(nodes) > _NAMED_NODES:
        notes.append("addresses of ports: ports.csv")
    if notes:
        drawing.text(_MARGIN, y, "  ·  ".join(notes), 11, "soft", width)
        y += 16
    for at in range(0, len(blocks), columns):
        row = blocks[at : at + columns]
        for column, block in enumerate(row):
            sketch.draw(drawing, block, _MARGIN + column * (sketch.width + _GAP), y)
        y += max(map(sketch.height, row)) + _GAP
    return drawing.done(width + 2 * _MARGIN, y - _GAP + _MARGIN)


def _legend(drawing: Drawing, rails: t.Sequence[_Rail], width: float) -> float:
    """Draw the rails with their colours and subnets. Return the y coordinate below them."""
    size = 34 + max([length("%s  %s" % (rail.name, rail.subnet), 11, mono=True) for rail in rails] or [0])
    per_line = max(1, int(width // size))
    per_line = -(-len(rails) // -(-len(rails) // per_line)) or 1  # balance the lengths of the lines
    for at, rail in enumerate(rails):
        x, y = _MARGIN + at % per_line * size, 86 + at // per_line * 18
        style = "cell s%d" if rail.dash else "f%d"
        drawing.box(x, y - 9, 12, 11, style % rail.paint, 3, "rail %s" % rail.name, rail.dash)
        drawing.text(x + 18, y, ("%s  %s" % (rail.name, rail.subnet)).strip(), 11, "mono", size - 18)
    return 86.0 + (max(len(rails), 1) - 1) // per_line * 18


def _columns(blocks: t.Sequence[_Block], sketch: _Sketch, together: int) -> int:
    """Return the number of blocks side by side with which the picture comes closest to its aspect ratio.

    :param together: the number of consecutive blocks with the same nodes.
    """

    def off(columns: int) -> float:
        rows = [blocks[at : at + columns] for at in range(0, len(blocks), columns)]
        height = sum(max(map(sketch.height, row)) + _GAP for row in rows)
        empty = (len(rows) * columns - len(blocks)) / columns
        return abs(math.log(columns * (sketch.width + _GAP) / height / _SHAPE)) + empty / 4

    most = max(1, min(len(blocks), 24))
    return min([columns for columns in range(1, most + 1) if columns == 1 or columns % together == 0], key=off)
