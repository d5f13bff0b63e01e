# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Compare two plan documents: values that are renumbered, renamed, changed, added and removed.

Every difference is one :class:`Change`. A node, rail or port that is added or removed as a whole is one change,
whatever it contains. A node with a new name at the same place, and a rail or unit with a new name and the same number,
are renamed, and their contents are compared.
"""

from __future__ import annotations

import json
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.ip_integers import (
    bits_of,
    network_of,
    parse_range,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.playbook_names import playbook
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.text_table import WIDTH, count, table

Document = t.Mapping[str, t.Any]

RENUMBERED, REMOVED, RENAMED, CHANGED, ADDED = "renumbered", "removed", "renamed", "changed", "added"
# The worst first: values that running pods and switches use, and lose.
KINDS = (RENUMBERED, REMOVED, RENAMED, CHANGED, ADDED)
FORMAT = 1

# Attributes (by their last word) whose change is a renumbering: addresses, and numbers that hosts use.
_NUMBERS = frozenset(
    (
        "address",
        "gateway",
        "subnet",
        "aggregate",
        "first",
        "last",
        "ranges",
        "pods",
        "hosts",
        "to",
        "via",
        "index",
        "number",
    )
    + ("unit_number", "place", "nic", "plane", "table", "rule_priority", "mac", "node_guid", "port_guid")
)
_NAMES = frozenset(
    (
        *("name", "netdev", "parent", "resource", "network", "pool", "policy", "interface", "base", "unit"),
        *("namespace", "fabric"),
    )
)
# List -> what an item is called, and the key that identifies it.
_LISTS = {
    "rails": ("rail", "name"),
    "networks": ("network", "attachment"),
    "units": ("unit", "name"),
    "leaves": ("leaf", "rail"),
    "nodes": ("node", "name"),
    "ports": ("port", "rail"),
    "other_ports": ("other port", "name"),
    "attributes": ("VF", "index"),
    "routes": ("route", "to"),
    "slots": ("slot", "number"),
    "functions": ("function", "pci"),
    "planes": ("plane", "plane"),
}
# List -> keys whose values identify an item that has a new name.
_NUMBER_KEYS = {"rails": ("number",), "units": ("number",), "nodes": ("index", "unit_number", "place")}
# Examples that the table shows of each group.
_EXAMPLES = 3


class Change(t.NamedTuple):
    """One difference.

    ``what``: fabric, rail, unit, leaf, node, port, ...; ``subject``: its names, such as ``ai-1 gpu01``. ``attribute``
    is empty if the subject is added, removed or renamed as a whole.
    """

    kind: str
    what: str
    subject: str
    attribute: str
    before: t.Any
    after: t.Any

    def as_dict(self) -> dict[str, t.Any]:
        return dict(self._asdict())


def load(raw: bytes, file: str) -> dict[str, t.Any]:
    """Return the plan document in the bytes of an earlier ``plan.json``.

    :raises RailyardError: if the bytes are not a plan of this format.
    """
    remedy = "name the plan.json that %s wrote with -e report_dir=DIR" % playbook("plan")
    try:
        document = json.loads(raw.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise RailyardError("this is not JSON: %s" % error, file, remedy) from None
    if not isinstance(document, dict) or "format" not in document:
        raise RailyardError("this is not a plan", file, remedy)
    if document["format"] != FORMAT:
        number = json.dumps(document["format"])
        raise RailyardError("the plan's format is %s, and this compares format %d" % (number, FORMAT), file, remedy)
    wrong = [key for key in ("rails", "nodes") if not isinstance(document.get(key), list)]
    if not isinstance(document.get("fabric"), dict):
        wrong.insert(0, "fabric")
    if wrong:
        raise RailyardError("the plan has no %s" % ", ".join(wrong), file, remedy)
    return document


def diff(old: Document, new: Document) -> list[Change]:
    """Return all differences: the worst kinds first, each kind in the order of the plan."""
    walk = _Comparison(_renames(old, new, "rails"), _renames(old, new, "units"))
    walk.mapping("fabric", "", "", _comparable(old), _comparable(new))
    order = {kind: at for at, kind in enumerate(KINDS)}
    return sorted(walk.changes, key=lambda change: order[change.kind])


def _comparable(document: Document) -> dict[str, t.Any]:
    """Return the document with the keys of its fabric as ``fabric.KEY``, without values that repeat names and networks
    of rails."""
    fabric = dict(document["fabric"])
    fabric.pop("subnets", None)
    if fabric.get("rails") == [_name(rail) for rail in document["rails"]]:
        del fabric["rails"]
    rest = {key: value for key, value in document.items() if key not in ("fabric", "format")}
    rest["nodes"] = [_with_slots(node) if isinstance(node, dict) else node for node in rest["nodes"]]
    return {**{"fabric." + key: value for key, value in fabric.items()}, **rest}


def _with_slots(node: Document) -> Document:
    """Return the node with the slots at its ports, and without the agent's spec, which repeats other values of the
    ports."""
    rest = {key: value for key, value in node.items() if key != "agent"}
    agent = node.get("agent")
    if isinstance(agent, dict) and _listed(agent.get("rails")) and _listed(node.get("ports")):
        slots = {rail.get("rail"): rail.get("slots") for rail in agent["rails"] or () if isinstance(rail, dict)}
        rest["ports"] = [
            dict(port, slots=slots.get(port.get("rail"))) if isinstance(port, dict) else port
            for port in node["ports"] or ()
        ]
    return rest


def _name(item: t.Any) -> t.Any:
    name = item.get("name") if isinstance(item, dict) else None
    return name if _hashable(name) else None


def _renames(old: Document, new: Document, key: str) -> dict[t.Any, t.Any]:
    """Return old name -> new name of items whose numbers are the same."""
    before, after = _by_name(old.get(key)), _by_name(new.get(key))
    removed = _by_number(before, after, key)
    added = _by_number(after, before, key)
    return {removed[number]: added[number] for number in removed if number in added}


def _by_name(items: t.Any) -> dict[t.Any, Document]:
    return {_name(item): item for item in items if isinstance(item, dict)} if isinstance(items, list) else {}


def _by_number(items: t.Mapping[t.Any, Document], others: t.Mapping[t.Any, Document], key: str) -> dict[str, t.Any]:
    """Return numbers (as JSON) -> name of the items that ``others`` does not have. Numbers of several items are left
    out."""
    found: dict[str, list[t.Any]] = {}
    for name, item in items.items():
        numbers = [item.get(each) for each in _NUMBER_KEYS[key]]
        if name not in others and any(number is not None for number in numbers):
            found.setdefault(json.dumps(numbers, sort_keys=True), []).append(name)
    return {numbers: names[0] for numbers, names in found.items() if len(names) == 1}


class _Comparison:
    """Compares two documents recursively and collects the changes."""

    def __init__(self, rails: t.Mapping[t.Any, t.Any], units: t.Mapping[t.Any, t.Any]) -> None:
        self.changes: list[Change] = []
        self._rails = rails
        self._units = units

    def mapping(self, what: str, subject: str, prefix: str, old: Document, new: Document) -> None:
        """Compare two mappings. ``prefix``: the path of their keys in ``attribute``."""
        for six in ("", "6"):
            if "ranges" + six in old or "ranges" + six in new:
                # A pool with one range has only first and last, so both pools are compared as lists of ranges.
                old, new = _with_ranges(old, six), _with_ranges(new, six)
        widened = {end + six for six in ("", "6") if _widened(old, new, six) for end in ("first", "last")}
        for key in [*new, *(key for key in old if key not in new)]:
            before, after = old.get(key), new.get(key)
            if before == after:
                continue
            name = prefix + key
            items = "planes" if name == "planes.ports" else key
            if items in _LISTS and _listed(before) and _listed(after):
                self._items(items, subject, before or [], after or [])
            elif isinstance(before, dict) and isinstance(after, dict):
                self.mapping(what, subject, name + ".", before, after)
            elif not self._only_renamed(key, before, after):
                self._add(what, subject, name, before, after, CHANGED if key in widened else "")

    def _only_renamed(self, key: str, before: t.Any, after: t.Any) -> bool:
        """Return whether a value changed only because a rail or unit was renamed."""
        renames = self._rails if key == "rail" else self._units if key == "unit" else {}
        return _hashable(before) and before in renames and renames[before] == after

    def _add(self, what: str, subject: str, attribute: str, before: t.Any, after: t.Any, kind: str) -> None:
        if before in (None, [], {}) and after in (None, [], {}):
            return  # plans of an earlier version may not have keys that are empty here
        if before in (None, [], {}):
            kind = ADDED
        elif after in (None, [], {}):
            kind = REMOVED
        else:
            kind = kind or _kind(attribute, before, after)
        attribute = attribute[len("fabric.") :] if attribute.startswith("fabric.") else attribute
        self.changes.append(Change(kind, what, subject, attribute, before, after))

    def _items(self, key: str, subject: str, before: t.Sequence[t.Any], after: t.Sequence[t.Any]) -> None:
        """Compare two lists whose items have an identifying key."""
        what, id_key = _LISTS[key]
        old, new = _index(before, id_key), _index(after, id_key)
        renames = self._renamed(key, before, after)
        old_names = {name: old_name for old_name, name in renames.items()}
        for name, item in new.items():
            full_subject = ("%s %s" % (subject, name)).strip()
            old_name = old_names.get(name, name)
            if old_name not in old:
                self.changes.append(Change(ADDED, what, full_subject, "", None, _place(item)))
            elif isinstance(item, dict) and isinstance(old[old_name], dict):
                if old_name != name and id_key == "name":
                    self.changes.append(Change(RENAMED, what, full_subject, "", old_name, name))
                self.mapping(what, full_subject, "", {**old[old_name], id_key: None}, {**item, id_key: None})
            elif item != old[old_name]:
                self.changes.append(Change(CHANGED, what, full_subject, "", old[old_name], item))
        for name, item in old.items():
            if renames.get(name, name) not in new:
                self.changes.append(Change(REMOVED, what, ("%s %s" % (subject, name)).strip(), "", _place(item), None))

    def _renamed(self, key: str, before: t.Sequence[t.Any], after: t.Sequence[t.Any]) -> t.Mapping[t.Any, t.Any]:
        """Return old name -> new name of the renamed items of a list."""
        if key == "rails":
            return self._rails
        if key == "units":
            return self._units
        if key == "nodes":
            return _renames({key: before}, {key: after}, key)
        if key in ("ports", "leaves"):
            old_rails = {item.get("rail") for item in before if isinstance(item, dict) and _hashable(item.get("rail"))}
            return {old_name: name for old_name, name in self._rails.items() if old_name in old_rails}
        return {}


def _hashable(value: t.Any) -> bool:
    return isinstance(value, (str, int, type(None)))


def _listed(value: t.Any) -> bool:
    return value is None or isinstance(value, list)


def _index(items: t.Sequence[t.Any], id_key: str) -> dict[t.Any, t.Any]:
    """Return identity -> item. Items without an identity, or with one that is in use, are identified by position."""
    found: dict[t.Any, t.Any] = {}
    for position, item in enumerate(items):
        key = item.get(id_key) if isinstance(item, dict) else None
        found[key if key is not None and _hashable(key) and key not in found else "#%d" % position] = item
    return found


def _place(item: t.Any) -> t.Any:
    """Return the part of an added or removed item that reports show: its place and addresses."""
    if not isinstance(item, dict):
        return item
    keys = ("index", "unit", "place", "number", "subnet", "address", "address6", "aggregate", "network", "via")
    return {key: item[key] for key in keys if item.get(key) is not None} or None


def _kind(attribute: str, before: t.Any, after: t.Any) -> str:
    """Return the kind of a change of an attribute that both plans have."""
    parts = [part.rstrip("6") for part in attribute.split(".")]
    if parts[-1] in _NUMBERS and not {"capacity", "reserved"}.intersection(parts):
        return CHANGED if _stays_valid(before, after) else RENUMBERED
    return RENAMED if parts[-1] in _NAMES else CHANGED


def _stays_valid(before: t.Any, after: t.Any) -> bool:
    """Return whether addresses in use stay valid: only the prefix length changed, or the new ranges contain the old."""
    if not isinstance(before, str) or not isinstance(after, str):
        return False
    if "/" in before and before.partition("/")[0] == after.partition("/")[0]:
        return True
    several = ", " in before + after
    old, new = _ranges(before, several), _ranges(after, several)
    return bool(old and new) and all(any(_contains(new_range, old_range) for new_range in new) for old_range in old)


def _with_ranges(pods: Document, six: str) -> Document:
    """Return a pool with all of its ranges as one text under ``ranges``, even if it has only one range."""
    first, last = pods.get("first" + six), pods.get("last" + six)
    ranges = pods.get("ranges" + six) or (["%s-%s" % (first, last)] if first else [])
    return dict(pods, **{"ranges" + six: ", ".join(ranges) or None})


def _widened(old: Document, new: Document, six: str) -> bool:
    """Return whether the new range ``first`` to ``last`` contains the old one."""
    texts = ["%s-%s" % (each.get("first" + six), each.get("last" + six)) for each in (old, new)]
    return _stays_valid(*texts)


def _ranges(text: str, several: bool) -> list[tuple[int, int, int]]:
    """Return the ranges of a text as (family, first, last); empty if one is invalid.

    :param several: accept single addresses as ranges.
    """
    texts = text.split(", ")
    found = [_range("%s-%s" % (each, each) if several and "-" not in each else each) for each in texts]
    return [each for each in found if each] if all(found) else []


def _range(text: str) -> tuple[int, int, int] | None:
    """Return (family, first, last) of a range or network; None for other texts, such as a single address."""
    bits = bits_of(text)
    found = parse_range(text, bits=bits) if "-" in text else None
    if found is None and "/" in text:
        net = network_of(text, exact=True)
        found = (net.first, net.last) if net else None
    return (bits, *found) if found else None


def _contains(new: t.Any, old: t.Any) -> bool:
    """Return whether the new range contains the old one."""
    return new[0] == old[0] and new[1] <= old[1] and old[2] <= new[2]


def counts(changes: t.Sequence[Change]) -> dict[str, int]:
    """Return kind -> number of changes."""
    return {kind: sum(change.kind == kind for change in changes) for kind in KINDS}


def as_data(changes: t.Sequence[Change], against: str) -> dict[str, t.Any]:
    """Return the contents of ``diff.json``. ``against``: the name of the older plan."""
    return {
        "format": FORMAT,
        "against": against,
        "counts": counts(changes),
        "changes": [change.as_dict() for change in changes],
    }


def as_json(changes: t.Sequence[Change], against: str) -> bytes:
    """Return ``diff.json``, with one line per change."""
    data = as_data(changes, against)
    listed = ",\n  ".join(json.dumps(change, ensure_ascii=False) for change in data.pop("changes"))
    text = ",\n ".join("%s: %s" % (json.dumps(key), json.dumps(value)) for key, value in data.items())
    return ('{\n %s,\n "changes": [\n  %s\n ]\n}\n' % (text, listed)).encode("utf-8")


def summary(changes: t.Sequence[Change], against: str) -> str:
    """Return one line: the number of changes of each kind."""
    numbers = [count(number, kind, kind) for kind, number in counts(changes).items() if number]
    return "against %s: %s" % (against, ", ".join(numbers) if numbers else "the plans are the same")


def as_table(changes: t.Sequence[Change], against: str, width: int = WIDTH) -> str:
    """Return groups of similar changes with their number and the first few examples. Renumbered values come first,
    after a warning."""
    lines = []
    renumbered = [change for change in changes if change.kind == RENUMBERED]
    if renumbered:
        subjects = len({(change.what, change.subject) for change in renumbered})
        counts = count(len(renumbered), "value"), count(subjects, "object")
        lines.append("!!! RENUMBERED: %s of %s. What runs on them loses them. !!!" % counts)
    groups: dict[tuple[str, str, str], list[Change]] = {}
    for change in changes:
        groups.setdefault((change.kind, change.what, change.attribute), []).append(change)
    rows = []
    for (kind, what, attribute), found in groups.items():
        title = kind.upper() if kind == RENUMBERED else kind
        label = ("%s %s" % (what, attribute)).strip()
        for at, change in enumerate(found[:_EXAMPLES]):
            first = (title, "{:,}".format(len(found)), label) if not at else ("", "", "")
            rows.append((*first, change.subject, _text(change.before), _text(change.after)))
        if len(found) > _EXAMPLES:
            rows.append(("", "", "", "... %s more" % "{:,}".format(len(found) - _EXAMPLES), "", ""))
    lines.extend(table(("kind", "count", "what", "of", "before", "after"), rows, width))
    return "\n".join([*lines, "", summary(changes, against)] if lines else [summary(changes, against)])


def _text(value: t.Any) -> str:
    if value is None:
        return ""
    if isinstance(value, dict):
        return ", ".join("%s %s" % (key, _text(each)) for key, each in value.items())
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
