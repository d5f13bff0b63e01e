# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the runs of parts leave for the run that gives the verdict: ``KIND-K-of-N.jsonl`` in one directory.

The first line of a file is its head (:class:`Written`). Each other line has a node (``node``) and its results
(``reported``). ``docs/verify.md`` describes the format.
"""

from __future__ import annotations

import json
import os
import statistics
import time
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError, raise_all
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.probing.node_parts import Part, cut, parse
from ansible_collections.railyard.fabric.plugins.plugin_utils import _fabric_files

Row = t.Dict[str, t.Any]
FORMAT = 1
# Older parts may be of an earlier run, and do not show the present state.
_HOURS = 12
_END = ".jsonl"
_AGAIN = "run %s.yml -e railyard_part=%s again"


class Written(t.NamedTuple):
    """A file of a part, and its head.

    Keys of ``head``: ``format``; ``kind``; ``part``, such as ``2/8``; ``began``, in seconds since 1970; ``made_by``,
    what must be the same in all parts; ``nodes``, their names; ``pairs`` and ``pod_pairs``, as ``[server, client]``;
    ``links``, the nodes that probe nodes of other parts, each with what its partners need of it.
    """

    path: str
    part: Part
    head: Row

    def rows(self) -> dict[str, Row]:
        """Return what each node reported, by its name."""
        lines = _lines(self.path)
        next(lines)
        return {row["node"]: row["reported"] for row in map(json.loads, lines)}

    def remove(self) -> None:
        os.unlink(self.path)


def write(directory: str, part: Part, head: Row, rows: t.Mapping[str, Row], check: bool) -> Row:
    """Write a part, and return its ``path``, ``size`` and whether it is ``changed``."""
    about = {"format": FORMAT, "part": str(part), **head}
    lines = [about, *({"node": node, "reported": row} for node, row in rows.items())]
    content = "".join(json.dumps(line, default=str) + "\n" for line in lines).encode()
    name = "%s-%d-of-%d%s" % (head["kind"], part.number, part.count, _END)
    return _fabric_files.write(directory, {name: content}, check, "verify_parts_dir")[0]


def read(directory: str, kind: str) -> list[Written]:
    """Return the heads of all parts of a directory, in their order.

    :raises RailyardError: for files that are not parts, parts that exist twice, that are too old, or that divide the
        nodes into different numbers of parts. Missing parts: see :func:`check_nodes`.
    """
    names = sorted(os.listdir(directory)) if os.path.isdir(directory) else []
    parts = [_head(os.path.join(directory, name)) for name in names if name.endswith(_END)]
    parts = sorted((each for each in parts if each.head["kind"] == kind), key=lambda each: each.part)
    if not parts:
        remedy = "run %s.yml -e railyard_part=1/N to N/N first, or name their directory with -e verify_parts_dir=DIR"
        place = _fabric_files.shown_path(directory)
        raise RailyardError("there are no parts of %s here" % kind, place, remedy % kind)
    count = statistics.mode(each.part.count for each in parts)
    others = [_fabric_files.shown_path(each.path) for each in parts if each.part.count != count]
    if others:
        message = "most files here are parts K/%d, and others are not" % count
        place = _fabric_files.shown_path(directory)
        raise RailyardError(message, place, "remove the parts of another run: %s" % ", ".join(others))
    errors = []
    for before, each in zip([None, *parts], parts):
        if before and before.part == each.part:
            first = _fabric_files.shown_path(before.path)
            errors.append(_error(each, "%s is the same part, %s" % (first, each.part), "remove one of the two files"))
        hours = (time.time() - each.head["began"]) / 3600
        if hours > _HOURS:
            message = "part %s began %.0f hours ago, and a part is valid for %d" % (each.part, hours, _HOURS)
            errors.append(_error(each, message, _AGAIN % (kind, each.part)))
    raise_all(errors)
    return parts


def check_nodes(parts: t.Sequence[Written], nodes: t.Sequence[str], directory: str) -> None:
    """Check that the parts together are exactly ``nodes``, in this order.

    :raises RailyardError: for missing parts, and for parts of other nodes.
    """
    found = {each.part.number: each for each in parts}
    count, kind = parts[0].part.count, parts[0].head["kind"]
    errors = []
    for part in (Part(number, count) for number in range(1, count + 1)):
        wanted, each = list(cut(nodes, part)), found.get(part.number)
        if each is None and wanted:
            remedy = "run %s.yml -e railyard_part=%s first" % (kind, part)
            errors.append(RailyardError("part %s is missing" % part, _fabric_files.shown_path(directory), remedy))
        elif each and each.head["nodes"] != wanted:
            remedy = "run all parts and this run with the same inventory and --limit"
            errors.append(_error(each, "part %s has other nodes than part %s of this run" % (part, part), remedy))
    raise_all(errors)


def check_made_by(parts: t.Sequence[Written], expected: Row) -> None:
    """Check that all parts are of the same plan, release, layers and rails as the verdict.

    :raises RailyardError: for each other part.
    """
    errors = []
    for each in parts:
        for key, value in expected.items():
            other = each.head["made_by"].get(key)
            if other != value:
                texts = map(_shown, (other, value))
                message = "part %s is of another run: %s is %s, and here %s" % (each.part, key, *texts)
                remedy = "use the same fabric file, release and options, and " + _AGAIN
                errors.append(_error(each, message, remedy % (each.head["kind"], each.part)))
                break
    raise_all(errors)


def _shown(value: t.Any) -> str:
    return ", ".join(value) or "all" if isinstance(value, list) else str(value)


def _head(path: str) -> Written:
    try:
        head = json.loads(next(_lines(path)))
        part = parse(head["part"])
        if head["format"] != FORMAT:
            raise ValueError("its format is %s, and this release reads format %d" % (head["format"], FORMAT))
        return Written(path, part, head)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, StopIteration) as error:
        remedy = "remove it, and run its part again"
        raise RailyardError("it is not a part of a run: %s" % error, _fabric_files.shown_path(path), remedy) from error


def _lines(path: str) -> t.Iterator[str]:
    with open(path, encoding="utf-8") as file:
        yield from file


def _error(each: Written, message: str, remedy: str) -> RailyardError:
    return RailyardError(message, _fabric_files.shown_path(each.path), remedy)
