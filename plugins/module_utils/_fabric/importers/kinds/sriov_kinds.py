# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Kinds of the SR-IOV network operator, and the configuration of the SR-IOV device plugin."""

from __future__ import annotations

import re

from ansible_collections.railyard.fabric.plugins.module_utils._common import vf_attributes
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import shown
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base import (
    embedded_json,
    import_rules,
    layout_rules,
    node_selectors,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base.import_facts import (
    NETWORK_OPERATOR,
    Device,
    Facts,
    PodNetwork,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base.import_findings import Found
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base.manifest_texts import Manifest
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.kinds import ipam_kinds, object_shape
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.kinds.object_shape import (
    ANY,
    FLAG,
    NUMBER,
    TEXT,
    TEXTS,
    Fields,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.kinds.upstream_vf_fields import (
    FLAGS,
    NUMBERS,
    SWITCH,
    VF_FIELDS,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.name_syntax import pci
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.yaml_source import Mapping, Sequence, Value

GROUP = "sriovnetwork.openshift.io"

_SELECTORS: object_shape.Shape = {
    "vendor": TEXT,
    "deviceID": TEXT,
    "pfNames": TEXTS,
    "rootDevices": TEXTS,
    "netFilter": TEXT,
}
_POLICY: object_shape.Shape = {
    "resourceName": TEXT,
    "nodeSelector": ANY,
    "numVfs": NUMBER,
    "nicSelector": _SELECTORS,
    "priority": NUMBER,
    "deviceType": TEXT,
    "isRdma": FLAG,
    "linkType": TEXT,
    "mtu": NUMBER,
    "eSwitchMode": TEXT,
    "excludeTopology": FLAG,
    "externallyManaged": FLAG,
    "needVhostNet": FLAG,
    "vdpaType": TEXT,
    "bridge": ANY,
}
_NETWORK: object_shape.Shape = {
    "networkNamespace": TEXT,
    "resourceName": TEXT,
    "ipam": TEXT,
    "vlan": NUMBER,
    "vlanQoS": NUMBER,
    "vlanProto": TEXT,
    "spoofChk": TEXT,
    "trust": TEXT,
    "linkState": TEXT,
    "minTxRate": NUMBER,
    "maxTxRate": NUMBER,
    "capabilities": TEXT,
    "metaPlugins": TEXT,
    "logLevel": TEXT,
    "logFile": TEXT,
}
# Drivers that pass VFs on to virtual machines or user space.
_PASSED_ON = ("vfio-pci", "igb_uio", "uio_pci_generic")
# Valid names for the operator up to release 1.6.
_RESOURCE = re.compile(r"[a-zA-Z0-9_]+\Z")


def policy(manifest: Manifest, facts: Facts, found: Found) -> None:
    """Read a SriovNetworkNodePolicy. Its resource has the operator's prefix, which the manifest does not contain."""
    _namespace, name = object_shape.name_of(manifest)
    fields = object_shape.read_spec(manifest, _POLICY, found)
    resource = fields.text("resourceName") or ""
    if not _RESOURCE.match(resource):
        message = "the operator rejects the resource name %s" % (shown(resource) if resource else "that is missing")
        remedy = "use letters, digits and underscores"
        found.add(
            import_rules.RESOURCE_NAME, fields.place_of("resourceName"), message, remedy, "the fabric file's own names"
        )
    vfs = fields.number("numVfs")
    if not vfs:
        message = "the policy %s creates no VFs" % shown(name)
        found.add(
            import_rules.VFS, fields.place_of("numVfs"), message, "set numVfs, at most 127 for ConnectX", "no count"
        )
    driver = "vfio-pci" if fields.text("deviceType") == "vfio-pci" else "vdpa" if fields.text("vdpaType") else None
    if driver:
        pass  # reported with the ports, because another resource may have the other VFs of a port
    elif fields.flag("isRdma") is False:
        message = "isRdma is false: pods get VFs without RDMA"
        found.add(import_rules.NOT_KNOWN, fields.place_of("isRdma"), message, "write isRdma: true", "VFs with RDMA")
    link = (fields.text("linkType") or "").lower() or None
    if link not in (None, "eth", "ib"):
        message = "linkType %s is neither eth nor ib" % shown(fields.text("linkType") or "")
        found.add(
            import_rules.LINK, fields.place_of("linkType"), message, "write eth or ib", "the attachment's default"
        )
        link = None
    netdevs, vf_range = _pf_names(fields, "nicSelector.pfNames", found)
    device = Device(
        fields.place,
        resource,
        False,
        netdevs,
        _addresses(fields),
        vfs,
        fields.number("mtu"),
        link,
        vf_range,
        driver,
        node_selectors.read(fields.any("nodeSelector")),
        policy=name,
    )
    if not device.netdevs and not device.pci:
        message = "the policy %s selects no port by pfNames or rootDevices" % shown(name)
        remedy = "name the ports: a rail is one port of each node"
        found.add(import_rules.SELECTOR, fields.place_of("nicSelector"), message, remedy, "the resource without a port")
    facts.devices.append(device)


def _pf_names(fields: Fields, key: str, found: Found) -> tuple[list[str], str | None]:
    """Return the netdevs of the ports, and the range of their VFs, as in ``ens3f0#5-9``; None: all VFs."""
    names: list[str] = []
    runs: dict[tuple[int, int], None] = {}
    for name in fields.texts(key):
        port, part, text = name.partition("#")
        names.append(port)
        parsed = [vf_attributes.numbers(each, 0) for each in text.split(",")] if part else []
        if None in parsed:
            message = "%s selects no VFs" % shown(name)
            found.add(import_rules.RANGE, fields.place_of(key), message, "write first-last, such as #5-9", "all VFs")
        else:
            runs.update({(each[0], each[-1]): None for each in parsed if each})
    if not runs:
        return list(dict.fromkeys(names)), None
    first, last = max(runs, key=lambda run: run[1] - run[0])
    if len(runs) > 1:
        texts = " and ".join("%d-%d" % run for run in runs)
        message = "a resource selects the VFs %s, and a rail has one range of VFs" % texts
        remedy = "select one range, and the same of each port, or write vfs.range of each rail"
        found.add(layout_rules.OWNER, fields.place_of(key), message, remedy, "range: %d-%d" % (first, last))
    return list(dict.fromkeys(names)), "%d-%d" % (first, last)


def _addresses(fields: Fields) -> list[str]:
    found = [pci(text) for text in fields.texts("nicSelector.rootDevices")]
    return [address for address in found if address]


def network(attachment: str, manifest: Manifest, facts: Facts, found: Found) -> None:
    """Read a SriovNetwork (attachment ``sriov``) or SriovIBNetwork (``ib-sriov``)."""
    namespace, name = object_shape.name_of(manifest)
    spec = object_shape.spec_of(manifest)
    fields = object_shape.read(manifest, spec, _NETWORK, found)
    infiniband = attachment == "ib-sriov"
    facts.provider(NETWORK_OPERATOR)
    if not fields.text("resourceName"):
        message = "the network %s has no resourceName" % shown(name)
        found.add(
            import_rules.NO_RESOURCE, fields.place, message, "set the resource of its VFs", "the resource of the rail"
        )
    result = PodNetwork(
        fields.place,
        "SriovNetwork",
        fields.text("networkNamespace") or namespace,
        name,
        attachment,
        resource=fields.text("resourceName"),
        isolated="rdma" in _meta_plugins(fields, found),
    )
    if not infiniband:
        _on_ethernet(fields, result)
    states = ("auto", "disable") if infiniband else ("auto", "disable", "enable")
    if fields.peek("linkState") in states:
        result.vfs["link_state"] = fields.text("linkState")
    ipam_kinds.of_text(manifest, object_shape.entry(spec, "ipam"), result, facts, found)
    facts.networks.append(result)


def _meta_plugins(fields: Fields, found: Found) -> set[str]:
    """Return the types of chained plugins, which are JSON objects separated by commas."""
    place = fields.place_of("metaPlugins")
    plugins = embedded_json.read("[%s]" % (fields.text("metaPlugins") or ""), Sequence, place, "metaPlugins", found)
    if plugins is None:
        return set()
    found.trees.append(("spec.metaPlugins", plugins))
    return {object_shape.peek(object_shape.entry(each, "type")) for each in plugins.items}


def _on_ethernet(fields: Fields, result: PodNetwork) -> None:
    for name in NUMBERS:
        value = fields.number(VF_FIELDS[name].operator)
        if value:
            result.vfs[name] = value
    for name in FLAGS:
        key = VF_FIELDS[name].operator
        if (fields.peek(key) or "").lower() in SWITCH:
            result.vfs[name] = SWITCH[(fields.text(key) or "").lower()]


def resource_list(
    manifest: Manifest,
    root: Value | None,
    facts: Facts,
    found: Found,
    default_prefix: str,
    nodes: node_selectors.Selector = node_selectors.ALL,
) -> None:
    """Read the ``resourceList`` of the SR-IOV device plugin.

    :param default_prefix: prefix of resources without ``resourcePrefix``.
    :param nodes: the nodes of the plugin.
    """
    items = object_shape.entry(root, "resourceList")
    for item in getattr(items, "items", ()):
        if not isinstance(item, Mapping):
            continue
        known = {
            "resourceName": TEXT,
            "resourcePrefix": TEXT,
            "deviceType": TEXT,
            "excludeTopology": FLAG,
            "additionalInfo": ANY,
            "selectors": ANY,
        }
        fields = object_shape.read(manifest, item, known, found, path="resourceList[]")
        selectors = fields.any("selectors")
        if isinstance(selectors, Mapping):
            selected = [selectors]
        else:
            selected = [each for each in getattr(selectors, "items", ()) if isinstance(each, Mapping)]
        netdevs: list[str] = []
        addresses: list[str] = []
        links: list[str] = []
        drivers: list[str] = []
        vf_range = None
        for each in selected:
            selector = object_shape.read(
                manifest,
                each,
                {
                    "vendors": TEXTS,
                    "devices": TEXTS,
                    "drivers": TEXTS,
                    "pfNames": TEXTS,
                    "rootDevices": TEXTS,
                    "pciAddresses": TEXTS,
                    "acpiIndexes": TEXTS,
                    "linkTypes": TEXTS,
                    "isRdma": FLAG,
                    "needVhostNet": FLAG,
                    "ddpProfiles": TEXTS,
                    "vdpaType": TEXT,
                    "pKeys": TEXTS,
                },
                found,
                path="resourceList[].selectors",
            )
            names, part = _pf_names(selector, "pfNames", found)
            netdevs.extend(names)
            vf_range = vf_range or part
            links.extend(selector.texts("linkTypes"))
            drivers.extend(each for each in selector.texts("drivers") if each in _PASSED_ON)
            addresses.extend(filter(None, map(pci, selector.texts("rootDevices") + selector.texts("pciAddresses"))))
        prefix = fields.text("resourcePrefix") or default_prefix
        name = "%s/%s" % (prefix, fields.text("resourceName") or "")
        facts.devices.append(
            Device(
                fields.place,
                name,
                False,
                netdevs,
                addresses,
                link=object_shape.link_type(links),
                vf_range=vf_range,
                driver=drivers[0] if drivers else None,
                nodes=nodes,
            )
        )
