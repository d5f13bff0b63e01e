# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""What discovery is unsure of: each doubt with its place in the fabric file, its nodes, and what to do."""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import (
    ERROR,
    MAX_TEXT,
    WARNING,
    Path,
    dotted,
    shown,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.playbook_names import (
    named as named_playbooks,
)

# The word that marks a doubt in the file.
WORDS = {ERROR: "DECIDE", WARNING: "CHECK"}

# Code -> severity and title. Codes are for good. docs/discover.md has the same table.
CODES: dict[str, tuple[str, str]] = {
    "DS101": (ERROR, "A node could not be read"),
    "DS102": (WARNING, "A NIC shows no netdev"),
    "DS103": (WARNING, "A function has several netdevs"),
    "DS201": (ERROR, "A node has no NIC that can be a rail port"),
    "DS202": (ERROR, "GPUs and NICs do not match in number"),
    "DS203": (WARNING, "NICs and GPUs are equally near to one another"),
    "DS204": (ERROR, "No NIC is nearer to any GPU than another"),
    "DS205": (WARNING, "A node has no GPU"),
    "DS206": (WARNING, "What a port is for was concluded"),
    "DS207": (WARNING, "Servers differ in a few ports"),
    "DS208": (WARNING, "Rails of different server models were matched by their order"),
    "DS209": (WARNING, "The rails' order is not that of the GPUs"),
    "DS210": (WARNING, "LLDP does not agree with the rails"),
    "DS211": (WARNING, "A slot's label does not agree"),
    "DS212": (WARNING, "A rail port has no carrier"),
    "DS301": (ERROR, "A rail has no addresses"),
    "DS302": (ERROR, "An address is not where the plan puts it"),
    "DS303": (WARNING, "A port has several addresses of one family"),
    "DS304": (ERROR, "The ports of a rail have different kinds of addresses"),
    "DS305": (ERROR, "Two nodes have one address or one place"),
    "DS306": (WARNING, "Pods' addresses are what is left"),
    "DS307": (ERROR, "Gateways of a rail differ"),
    "DS308": (WARNING, "Routing tables or rules do not follow from the rails"),
    "DS309": (ERROR, "A rail's address is in another rail's network"),
    "DS310": (ERROR, "Nodes have blocks of pods' addresses, and nothing says how large"),
    "DS311": (WARNING, "A port has no address where others of its rail have one"),
    "DS312": (WARNING, "A rail port was given an address for a time"),
    "DS401": (WARNING, "MTUs of a rail's ports differ"),
    "DS402": (WARNING, "A rail port has no RDMA device"),
    "DS403": (WARNING, "VFs of a rail's ports differ"),
    "DS404": (WARNING, "VFs have other MAC addresses or GUIDs than would follow"),
    "DS405": (WARNING, "Names of netdevs or RDMA devices differ between nodes"),
    "DS406": (WARNING, "A soft RDMA device has another name than would follow"),
    "DS407": (WARNING, "The rdma mode is not the attachment's"),
    "DS501": (WARNING, "The fabric's name was not said"),
    "DS502": (WARNING, "The attachment was concluded"),
    "DS503": (WARNING, "The provider was not said"),
}


class Doubt(t.NamedTuple):
    """``place``: where in the fabric file; ``nodes``: those that it is about, where not all."""

    code: str
    severity: str
    place: Path
    nodes: tuple[str, ...]
    message: str
    remedy: str

    def as_dict(self) -> dict[str, t.Any]:
        return {
            "code": self.code,
            "severity": self.severity,
            "place": dotted(self.place),
            "nodes": list(self.nodes),
            "message": self.message,
            "remedy": self.remedy,
        }

    @property
    def comment(self) -> str:
        about = " (%s)" % named(self.nodes) if self.nodes else ""
        return "%s %s: %s%s; %s" % (WORDS[self.severity], self.code, self.message, about, self.remedy)


class Doubts:
    """Collects them. The same code says the same thing of one place once, with all nodes that it is about."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, Path, str], tuple[list[str], str]] = {}

    def add(self, code: str, place: Path, message: str, remedy: str, nodes: t.Iterable[str] = ()) -> None:
        """Texts end without a full stop."""
        key = (code, place, shown(message, MAX_TEXT))
        held = self._found.setdefault(key, ([], named_playbooks(shown(remedy, MAX_TEXT))))[0]
        held.extend(node for node in nodes if node not in held)

    @property
    def all(self) -> list[Doubt]:
        """In the order of codes, then of finding."""
        found = [
            Doubt(code, CODES[code][0], place, tuple(nodes), message, remedy)
            for (code, place, message), (nodes, remedy) in self._found.items()
        ]
        return sorted(found, key=lambda doubt: doubt.code)


def named(names: t.Sequence[str], most: int = 4) -> str:
    """A few names, and how many more there are."""
    more = ", and %d more" % (len(names) - most) if len(names) > most else ""
    return ", ".join(names[:most]) + more
