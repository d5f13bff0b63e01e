# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Findings of discovery: each with its place in the fabric file, its nodes, and a remedy."""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import (
    ERROR,
    MAX_TEXT,
    WARNING,
    Path,
    dotted,
    label,
    shown,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.playbook_names import (
    named as named_playbooks,
)

# The word that marks a finding in the file.
WORDS = {ERROR: "DECIDE", WARNING: "CHECK"}

# Code -> name, severity and title. Codes and names are permanent. docs/discover.md has the same table.
CODES: dict[str, tuple[str, str, str]] = {
    "DS101": ("unreadable-node", ERROR, "Node that could not be read"),
    "DS102": ("missing-netdev", WARNING, "NIC without a netdev"),
    "DS103": ("several-netdevs", WARNING, "PCI function with several netdevs"),
    "DS201": ("no-rail-port", ERROR, "Node without a NIC that can be a rail port"),
    "DS202": ("gpu-nic-count-mismatch", ERROR, "GPUs and NICs that do not match in number"),
    "DS203": ("ambiguous-gpu-affinity", WARNING, "NICs and GPUs that are equally near to one another"),
    "DS204": ("no-gpu-affinity", ERROR, "No NIC nearer to any GPU than the others"),
    "DS205": ("no-gpu", WARNING, "Node without a GPU"),
    "DS206": ("inferred-port-role", WARNING, "Inferred role of a port"),
    "DS207": ("similar-servers", WARNING, "Servers that differ in a few ports"),
    "DS208": ("rails-matched-by-order", WARNING, "Rails of different server models matched by their order"),
    "DS209": ("rail-gpu-order", WARNING, "Rails in another order than their GPUs"),
    "DS210": ("lldp-mismatch", WARNING, "LLDP neighbour of another rail"),
    "DS211": ("slot-mismatch", WARNING, "Inconsistent slot label"),
    "DS212": ("no-carrier", WARNING, "Rail port without carrier"),
    "DS213": ("unsupported-interface", ERROR, "Rail port below an interface that cannot be that of a rail"),
    "DS214": ("interface-of-others", WARNING, "Bond or VLAN that Railyard did not make"),
    "DS215": ("further-vlan", WARNING, "Further VLAN on a port"),
    "DS216": ("inferred-storage-rail", WARNING, "Inferred storage rail"),
    "DS301": ("rail-without-addresses", ERROR, "Rail without addresses"),
    "DS302": ("unexpected-address", ERROR, "Address that the plan cannot reproduce"),
    "DS303": ("several-addresses", WARNING, "Port with several addresses of one family"),
    "DS304": ("mixed-addressing", ERROR, "Ports of a rail with different kinds of addresses"),
    "DS305": ("duplicate-address", ERROR, "Two nodes with one address or index"),
    "DS306": ("inferred-pod-addresses", WARNING, "Inferred pod addresses"),
    "DS307": ("gateway-mismatch", ERROR, "Different gateways on one rail"),
    "DS308": ("irregular-routing", WARNING, "Routing tables or rules that do not follow from the rails"),
    "DS309": ("address-of-another-rail", ERROR, "Address in another rail's network"),
    "DS310": ("unknown-block-size", ERROR, "Unknown size of the nodes' blocks of pod addresses"),
    "DS311": ("missing-address", WARNING, "Port without an address on an addressed rail"),
    "DS312": ("temporary-address", WARNING, "Rail port with a temporary address"),
    "DS313": ("undecided-balancing", ERROR, "Planes whose balancing nodes do not show"),
    "DS314": ("bond-or-planes", WARNING, "Bond of a NIC that can balance over planes in hardware"),
    "DS315": ("inferred-nics-per-rail", WARNING, "Several NICs inferred as the NICs of one rail"),
    "DS316": ("planes-not-visible", WARNING, "NIC that may have planes which the node does not show"),
    "DS320": ("preset-found", WARNING, "Server model of a preset"),
    "DS321": ("preset-differs", WARNING, "Server model that differs from a preset in a few ports"),
    "DS322": ("preset-resembled", WARNING, "Server model with the ports of a preset on other rails"),
    "DS401": ("mtu-mismatch", WARNING, "Different MTUs on one rail"),
    "DS402": ("missing-rdma-device", WARNING, "Rail port without an RDMA device"),
    "DS403": ("vf-mismatch", WARNING, "Different VFs on one rail"),
    "DS404": ("vf-identity-mismatch", WARNING, "VFs with other MAC addresses or GUIDs than planned"),
    "DS405": ("device-name-mismatch", WARNING, "Different names of netdevs or RDMA devices"),
    "DS406": ("soft-rdma-name", WARNING, "Soft RDMA device with another name than planned"),
    "DS407": ("rdma-mode-mismatch", WARNING, "RDMA mode that does not match the attachment"),
    "DS408": ("interface-mismatch", WARNING, "Different bonds on one rail"),
    "DS409": ("default-mtu", WARNING, "Default MTU of the kernel"),
    "DS501": ("default-fabric-name", WARNING, "Default fabric name"),
    "DS502": ("inferred-attachment", WARNING, "Inferred attachment"),
    "DS503": ("default-provider", WARNING, "Default provider"),
    "DS504": ("default-slots", WARNING, "Default number of slots"),
}


class DiscoverFinding(t.NamedTuple):
    """One finding. ``place``: in the fabric file. ``nodes``: the nodes concerned, empty for all."""

    code: str
    severity: str
    place: Path
    nodes: tuple[str, ...]
    message: str
    remedy: str

    def as_dict(self) -> dict[str, t.Any]:
        return {
            "code": self.code,
            "name": self.name,
            "severity": self.severity,
            "place": dotted(self.place),
            "nodes": list(self.nodes),
            "message": self.message,
            "remedy": self.remedy,
        }

    @property
    def name(self) -> str:
        return CODES[self.code][0]

    @property
    def label(self) -> str:
        """Return name and code as they are shown to people."""
        return label(self.name, self.code)

    @property
    def comment(self) -> str:
        """Return the text of a comment in the fabric file."""
        nodes = " (%s)" % named(self.nodes) if self.nodes else ""
        return "%s %s: %s%s; %s" % (WORDS[self.severity], self.label, self.message, nodes, self.remedy)


class Findings:
    """Collects findings. Findings of one code, place and message become one finding with all its nodes."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, Path, str], tuple[list[str], str]] = {}

    def add(self, code: str, place: Path, message: str, remedy: str, nodes: t.Iterable[str] = ()) -> None:
        """Add a finding. Texts end without a full stop."""
        key = (code, place, shown(message, MAX_TEXT))
        nodes_of = self._found.setdefault(key, ([], named_playbooks(shown(remedy, MAX_TEXT))))[0]
        nodes_of.extend(node for node in nodes if node not in nodes_of)

    @property
    def all(self) -> list[DiscoverFinding]:
        """Return the findings sorted by code, then in the order in which they were added."""
        findings = [
            DiscoverFinding(code, CODES[code][1], place, tuple(nodes), message, remedy)
            for (code, place, message), (nodes, remedy) in self._found.items()
        ]
        return sorted(findings, key=lambda finding: finding.code)


def named(names: t.Sequence[str], most: int = 4) -> str:
    """Return the first names, and how many more there are."""
    further = ", and %d more" % (len(names) - most) if len(names) > most else ""
    return ", ".join(names[:most]) + further
