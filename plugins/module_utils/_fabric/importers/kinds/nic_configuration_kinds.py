# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""NVIDIA's NIC configuration operator: settings of a NicConfigurationTemplate that have a key in the fabric file.

Other settings stay unread and are reported.
"""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base import import_rules
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base.import_facts import Facts
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base.import_findings import Found
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base.manifest_texts import Manifest
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base.manifest_values import use
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.kinds import object_shape
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.qos_profiles import LOSSY
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.yaml_source import Value

GROUP = "configuration.net.nvidia.com"
_LINKS = {"ethernet": "eth", "infiniband": "ib"}
_READ_REQUESTS = ("128", "256", "512", "1024", "2048", "4096")


def template(manifest: Manifest, facts: Facts, found: Found) -> None:
    """Read a NicConfigurationTemplate."""
    body = object_shape.entry(manifest.root, "spec", "template")
    if body is None:
        return
    count = object_shape.entry(body, "numVfs")
    _take(count, facts.firmware, "num_of_vfs", lambda text: int(text) if text.isdecimal() and len(text) < 4 else None)
    link = object_shape.entry(body, "linkType")
    if object_shape.peek(link).lower() in _LINKS:
        facts.links.add(_LINKS[object_shape.plain_text(link).lower()])
    pci = object_shape.entry(body, "pciPerformanceOptimized")
    if _enabled(pci):
        request = object_shape.entry(pci, "maxReadRequest")
        _take(request, facts.pci, "max_read_request", lambda text: int(text) if text in _READ_REQUESTS else None)
        if facts.pci:
            use(object_shape.entry(pci, "enabled"))
    roce = object_shape.entry(body, "roceOptimized")
    if _enabled(roce):
        use(object_shape.entry(roce, "enabled"))
        _qos(object_shape.entry(roce, "qos"), facts)
        place = object_shape.place_at(manifest, body, "spec.template.roceOptimized")
        message = "RoCE is optimized by a NicConfigurationTemplate"
        remedy = "compare qos of the fabric file with the switches"
        text = ", ".join("%s: %s" % each for each in facts.qos.items())
        found.add(import_rules.QOS, place, message, remedy, "qos: {%s}" % text)


def _enabled(section: Value | None) -> bool:
    return object_shape.peek(object_shape.entry(section, "enabled")).lower() == "true"


def _qos(qos: Value | None, facts: Facts) -> None:
    """Read priority and DSCP of RoCE. The first template is used; different values of others stay unread."""
    pfc = object_shape.entry(qos, "pfc")
    bits = [word.strip() for word in object_shape.peek(pfc).split(",")]
    lossless = [at for at, word in enumerate(bits) if word == "1"]
    if bits == ["0"] * 8 and "priority" not in facts.qos:
        facts.qos["profile"] = LOSSY
        use(pfc)
    elif "profile" not in facts.qos:
        facts.qos.setdefault("priority", 3)
        if lossless and "pfc" not in facts.qos:
            facts.qos.update({"priority": lossless[0], "pfc": lossless})
        if lossless == facts.qos.get("pfc"):
            use(pfc)
    _take(object_shape.entry(qos, "trust"), facts.qos, "trust", lambda text: text if text in ("dscp", "pcp") else None)
    # the type of service consists of the DSCP and two bits of congestion notification
    _take(object_shape.entry(qos, "tos"), facts.qos, "dscp", _dscp)


def _dscp(text: str) -> int | None:
    return int(text) >> 2 if text.isdecimal() and len(text) < 4 and 0 < int(text) < 256 else None


def _take(
    value: Value | None, settings: dict[str, t.Any], key: str, convert: t.Callable[[str], int | str | None]
) -> None:
    """Use a valid value that agrees with other templates."""
    converted = convert(object_shape.peek(value).lower())
    if converted is not None and settings.setdefault(key, converted) == converted:
        use(value)
