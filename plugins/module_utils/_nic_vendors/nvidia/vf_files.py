# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""VF attributes in the directory ``sriov/N`` that NVIDIA's driver packages add to a PF in sysfs.

The file ``config`` shows attributes in lines of the form ``KEY : VALUE``. On InfiniBand, some attributes also have a
file that sets them. Source: mlx5's ``sriov_sysfs.c``.
"""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common import vf_attributes
from ansible_collections.railyard.fabric.plugins.module_utils._common.vf_attributes import VfAttribute, guid
from ansible_collections.railyard.fabric.plugins.module_utils._nic_vendors.protocol.nic_vendor import Node, Row, VfFiles

# The keys in the file config.
KEYS = {
    "mac": "MAC",
    "vlan": "VLAN",
    "qos": "QoS",
    "min_tx_rate": "MinTxRate",
    "max_tx_rate": "MaxTxRate",
    "spoofchk": "SpoofCheck",
    "trust": "Trust",
    "link_state": "LinkState",
}
# The files of single attributes.
FILES = {"node_guid": "node", "port_guid": "port", "link_state": "policy"}
_CHOICES = {"Follow": "auto", "Up": "enable", "Down": "disable"}


class Mlx5VfFiles(VfFiles):
    """The directory ``sriov`` of a PF."""

    def exist(self, node: Node, pf: str) -> bool:
        # without VFs, the older name of sriov_numvfs shows that the directory will appear
        return node.exists(pf + "/sriov") or node.exists(pf + "/mlx5_num_vfs")

    def attributes(self, node: Node, pf: str, index: int, link_layer: str, known: bool) -> Row:
        place = "%s/sriov/%d" % (pf, index)
        found = {} if known else _attributes_in(node.read(place + "/config") or "", link_layer)
        for name, file in FILES.items() if link_layer == vf_attributes.INFINIBAND else ():
            text = node.read("%s/%s" % (place, file))
            if text:
                found[name] = _decoded(vf_attributes.BY_NAME[name], text)
        return found

    def setting(
        self, node: Node, pf: str, index: int, link_layer: str, values: t.Mapping[str, t.Any]
    ) -> tuple[str, str, str] | None:
        for name, file in FILES.items() if link_layer == vf_attributes.INFINIBAND else ():
            path = "%s/sriov/%d/%s" % (pf, index, file)
            if name in values and node.exists(path):
                return name, path, _encoded(vf_attributes.BY_NAME[name], values[name])
        return None


def _attributes_in(config: str, link_layer: str) -> Row:
    """Return the attributes that the text of the file ``config`` contains for a VF of this link layer."""
    lines = {key.strip(): value.strip() for key, _colon, value in (line.partition(":") for line in config.split("\n"))}
    known = ((vf_attributes.BY_NAME[name], key) for name, key in KEYS.items() if key in lines)
    return {attribute.name: _decoded(attribute, lines[key]) for attribute, key in known if attribute.fits(link_layer)}


def _decoded(attribute: VfAttribute, text: str) -> t.Any:
    """Return the value of an attribute from the driver's text; None if the text is not a value."""
    if attribute.kind == vf_attributes.NUMBER:
        return int(text) if text.isdigit() else None
    if attribute.kind == vf_attributes.FLAG:
        return text == "ON"
    if attribute.kind == vf_attributes.CHOICE:
        return _CHOICES.get(text)
    return guid(text) if attribute.kind == vf_attributes.GUID else text.lower()


def _encoded(attribute: VfAttribute, value: t.Any) -> str:
    """Return the text with which the file of an attribute sets the value."""
    texts = {choice: text for text, choice in _CHOICES.items()}
    return texts[value] if attribute.kind == vf_attributes.CHOICE else str(value)
