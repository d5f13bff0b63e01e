# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""VLANs and partitions of single networks. A fabric file does not support them, so that each is reported."""

from __future__ import annotations

import re

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import shown
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base import import_rules
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base.import_facts import PodNetwork
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base.import_findings import Found, Place
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base.manifest_values import use
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.yaml_source import Scalar

# Kernel names of interfaces on top of a port: VLAN ID in decimal, partition key in hexadecimal.
_VLAN = re.compile(r"(.+)\.([0-9]{1,4})\Z")
_PARTITION = re.compile(r"(.+)\.([0-9a-f]{4})\Z")


def port_below(master: str, infiniband: bool, place: Place, found: Found) -> tuple[str, int | None]:
    """Return the port of a network's master, and the VLAN on top of it or None. Report a partition on top of it."""
    on_top = (_PARTITION if infiniband else _VLAN).match(master)
    if not on_top or (not infiniband and not 0 < int(on_top.group(2)) < 4095):
        return master, None
    port = on_top.group(1)
    if not infiniband:
        return port, int(on_top.group(2))
    message = "%s is the partition 0x%s on top of %s" % (shown(master), on_top.group(2), shown(port))
    remedy = "set fabric.infiniband.pkeys: [0x%s] for every port" % on_top.group(2)
    found.add(import_rules.NOT_KNOWN, place, message, remedy, "the port %s itself" % shown(port))
    return port, None


def take(network: PodNetwork, place: Place, found: Found) -> None:
    """Replace the masters of a network by the ports below them, and set its VLAN."""
    for at, master in enumerate(network.masters):
        network.masters[at], vlan = port_below(master, network.attachment == "ipoib", place, found)
        network.vlan = network.vlan or vlan


def report_partition(value: Scalar, place: Place, found: Found) -> None:
    use(value)
    text = value.text.strip()
    written = "nothing"
    try:
        key = int(text, 16) if text.lower().startswith("0x") else -1
    except ValueError:
        key = -1
    if 0 <= key <= 0x7FFF and not (value.plain and text.isdecimal()):
        message = "the partition key %s is for one network, but keys in a fabric file are for every port" % text
        remedy = 'say it for pods as kubernetes_options.pkey: "0x%04x"' % key
        if 0 < key < 0x7FFF:
            remedy += ", or for nodes and pods as fabric.infiniband.pkeys: [0x%04x]" % key
        found.add(import_rules.NOT_KNOWN, place, message, remedy, written)
        return
    remedy = 'write it as "0x..." of at most 0x7fff'
    if text.isdecimal() and len(text) < 6:
        remedy += ': "0x%x" where %s is decimal, "0x%s" where it is hexadecimal' % (int(text), text, text)
    found.add(import_rules.PKEY, place, "pkey %s is not a text of the form 0x..." % shown(text), remedy, written)
