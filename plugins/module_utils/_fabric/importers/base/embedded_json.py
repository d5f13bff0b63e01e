# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""JSON in a text of a manifest, with the lines and columns of its file."""

from __future__ import annotations

import json
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import Report, shown
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base import import_rules
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base.import_findings import Found, Place
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base.manifest_values import Leaf, copied
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.yaml_source import (
    Mapping,
    Scalar,
    Sequence,
    Value,
    parse,
)

_REMEDY = "correct it: the plugins refuse it"
Collection = t.TypeVar("Collection", Mapping, Sequence)


def read(text: str, shape: type[Collection], place: Place, title: str, found: Found) -> Collection | None:
    """Return the object or list in a text. A text that is not valid JSON is reported, and nothing of it is returned.

    :param shape: ``Mapping`` for an object, ``Sequence`` for a list.
    :param place: where the text begins.
    :param title: what the text is, for messages.
    """
    text = " " * (place.column - 1) + text
    # Line of the text, what is wrong, and the remedy.
    errors: list[tuple[int, str, str]] = []
    value: Value | None = None
    try:
        json.loads(text)
    except (ValueError, RecursionError) as error:
        message = "not valid JSON: %s" % shown(str(getattr(error, "msg", error)))
        errors.append((getattr(error, "lineno", 1), message, _REMEDY))
    else:
        # YAML contains JSON, and its parser returns positions. The key is on a line before the text.
        report = Report()
        document = parse(('{"":\n%s}' % text).encode("utf-8", "replace"), report, place.line - 2)
        findings = report.findings(document.position if document else lambda _path: (1, 1))
        errors += [(each.line - 1, "not read: %s" % each.message, each.remedy) for each in findings]
        value = copied(document.root.entries[""][1], place.line - 2) if document else None
    if not errors and not isinstance(value, shape):
        errors.append((1, "not a JSON %s" % ("object" if shape is Mapping else "list"), _REMEDY))
    for line, message, remedy in errors:
        at = place._replace(line=place.line + line - 1)
        found.add(import_rules.JSON, at, "%s is %s" % (title, message), remedy, "nothing of it")
    return value if isinstance(value, shape) and not errors else None


def of_scalar(scalar: Scalar, shape: type[Collection], place: Place, title: str, found: Found) -> Collection | None:
    """Return the object or list in a scalar of a manifest, and mark the scalar as read.

    :param place: the scalar's place. The text of a block scalar begins on the line after its key.
    """
    begin = place._replace(line=scalar.line + ("\n" in scalar.text), column=scalar.column)
    value = read(scalar.text, shape, begin, title, found)
    if isinstance(scalar, Leaf):
        scalar.used = True
    if value is not None:
        found.trees.append((place.path, value))
    return value
