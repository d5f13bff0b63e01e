# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Presets as tables: all of them, and one with its ports, GPUs and document."""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.presets.catalog import ALL, PRESETS
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.presets.preset import Preset
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.name_syntax import did_you_mean, nearest
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.text_table import table

Rows = t.List[t.Tuple[t.Any, ...]]
LISTED = ("preset", "server", "ports", "GPUs")
_WIDTH = 80
PORTS = ("rail", "PCI", "GPU", "Ethernet", "InfiniBand", "RDMA", "cage")


def listed() -> Rows:
    """Return a row of each preset, for :data:`LISTED`."""
    return [(", ".join(preset.names), preset.title, len(preset.ports), len(preset.gpus) or None) for preset in ALL]


def ports(preset: Preset) -> Rows:
    """Return a row of each port, for :data:`PORTS`. ``rail``: the number of the rail, planes counted."""
    return [
        (number, port.pci, list(port.gpus), port.ethernet, port.infiniband, port.rdma, port.cage)
        for number, port in enumerate(preset.ports, 1)
    ]


def facts(preset: Preset) -> list[str]:
    """Return the other facts and the document of a preset, one sentence each."""
    document = preset.document
    found = []
    if preset.link_layer:
        found.append("Link layer: %s." % preset.link_layer)
    if any(preset.gpus.values()):
        found.append("GPUs: %s." % ", ".join("%d at %s" % item for item in sorted(preset.gpus.items())))
    if preset.gpu_distance:
        found.append("Distance between a port and its GPUs: %s." % preset.gpu_distance)
    if preset.other_ports is None:
        found.append("Other ports: not in the document.")
    else:
        others = ", ".join("%s (%s)" % (other.name, other.pci) for other in preset.other_ports)
        found.append("Other ports: %s." % others)
    found.append("Document: %s, %s. %s" % (document.title, document.place, document.address))
    found.append("Version: %s. Compared on %s." % (document.version, document.read))
    return found


def text(name: str = "") -> str:
    """Return all presets as a table, or one preset in detail.

    :raises RailyardError: if no preset has this name.
    """
    if not name:
        return "\n".join(table(LISTED, listed(), _WIDTH))
    if name not in PRESETS:
        near = nearest(name, PRESETS)
        remedy = "write %s" % near if near else "list the presets with show_presets=true"
        raise RailyardError("the preset %s does not exist%s" % (name, did_you_mean(near)), "show_presets", remedy)
    preset = PRESETS[name]
    return "\n".join(["%s: %s" % (name, preset.title), "", *table(PORTS, ports(preset)), "", *facts(preset)])
