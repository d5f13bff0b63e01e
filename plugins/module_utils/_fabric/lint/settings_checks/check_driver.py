# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""RY52x to RY54x: the NIC driver, firmware parameters, IPoIB and partitions."""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.urls import masked
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import (
    Path,
    Report,
    shown,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.attachment_table import INFINIBAND
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.driver_model import REMOTE, Driver
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.fabric_model import Fabric, Firmware, Port
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.infiniband_model import (
    CONNECTED,
    NETDEV_MAX,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.provider_facts import facts_of
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.variants import Variants, ports_of
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.settings_catalog.driver_rules import (
    CHILD,
    CONTAINER_CONFLICT,
    FORM,
    HIDDEN,
    LAYER,
    MODE,
    NOT_DEPLOYED,
    NOT_PODS,
    PASSWORD,
    RELEASE,
    TWICE,
    UNSIGNED,
    UNUSED,
)
from ansible_collections.railyard.fabric.plugins.module_utils._nic_vendors.protocol.vendor_driver import CONTAINER
from ansible_collections.railyard.fabric.plugins.module_utils._nic_vendors.registry import vendor_firmwares
from ansible_collections.railyard.fabric.plugins.module_utils._nic_vendors.registry.vendor_drivers import (
    ENDINGS,
    INSTALLED,
)


def check(fabric: Fabric, variants: Variants, report: Report) -> None:
    checked: set[int] = set()
    for variant in variants.with_unused():
        for section in (variant.driver, variant.firmware):
            if section is None or id(section) in checked:
                continue
            checked.add(id(section))
            if isinstance(section, Driver):
                _driver(fabric, section, report)
            else:
                _parameters(section, report)
    _mixed_containers(fabric, variants, report)
    _infiniband(fabric, variants, report)


def _mixed_containers(fabric: Fabric, variants: Variants, report: Report) -> None:
    """Report nodes with a driver of the host if other nodes use the driver container, which runs on all nodes."""
    drivers = [variant.driver for variant in variants if variant.driver and variant.driver.kind]
    hosts = sorted({str(each.kind) for each in drivers if each.kind != CONTAINER})
    contained = next((each for each in drivers if each.kind == CONTAINER), None)
    if contained and hosts and facts_of(fabric.provider).driver_container:
        message = "other nodes have %s, but the container runs on all nodes" % ", ".join(hosts)
        report.add(
            CONTAINER_CONFLICT, contained.path + ("kind",), message, "set kind: container for all nodes, or for none"
        )


def _driver(fabric: Fabric, driver: Driver, report: Report) -> None:
    """Report settings of a driver that do not go together."""
    if driver.kind is None:
        return
    if driver.kind not in INSTALLED:
        for key in ("version", "source", "key", "packages"):
            if getattr(driver, key):
                message = "%s is set, but the driver %s is not installed from packages" % (key, driver.kind)
                remedy = "remove it, or set kind: %s" % " or ".join(INSTALLED)
                if driver.kind == CONTAINER:
                    remedy = "remove it; the container's release is images.driver of kubernetes_options"
                report.add(UNUSED, driver.path + (key,), message, remedy)
        if driver.kind == CONTAINER and not facts_of(fabric.provider).driver_container:
            message = "with the provider %s, no operator deploys the driver's container" % fabric.provider
            remedy = "deploy the container yourself, or set provider: network-operator"
            report.add(NOT_DEPLOYED, driver.path + ("kind",), message, remedy)
        return
    if driver.source is None:
        return
    path = driver.path + ("source",)
    ending = next((each for each in ENDINGS if driver.source.endswith(each)), None)
    if ending and driver.kind not in ENDINGS[ending]:
        message = "%s is not available as %s" % (driver.kind, ending)
        report.add(FORM, path, message, "set kind: %s, or use a repository as source" % ENDINGS[ending][0])
    elif ending and driver.version and driver.version not in driver.source:
        message = "%s does not name the release %s" % (shown(driver.source.rpartition("/")[2]), shown(driver.version))
        report.add(RELEASE, path, message, "write the version of the source, or use another source")
    source = masked(driver.source)
    if source != driver.source:
        remedy = (
            "remove user and password, and set the whole address as ofed_source in a file that ansible-vault encrypts"
        )
        report.add(PASSWORD, path, "%s contains a password, which reports would show" % shown(source), remedy)
    if driver.source.startswith(REMOTE) and not driver.key and not driver.unsigned:
        message = "the repository %s has no signing key" % shown(source)
        report.add(UNSIGNED, path, message, "set key to the path of the key file, or set unsigned: true")


def _parameters(firmware: Firmware, report: Report) -> None:
    """Report firmware parameters that are set twice, or hidden by others."""
    owners: dict[str, str] = {}
    parameters = [(name, vendor_firmwares.parameters_of(name)) for name in firmware.parameters]
    read = {name: (known, known.parameter(name)) for name, known in parameters if known}
    for name, (known, parameter) in read.items():
        path: Path = firmware.path + ("parameters", name)
        option = known.option(parameter)
        other = owners.setdefault(parameter, name)
        if option or other != name:
            message = "%s is already set by %s" % (parameter, option or other)
            report.add(TWICE, path, message, "remove it, and use %s" % (option or other))
    for name, (known, parameter) in read.items():
        if parameter in known.guarded and known.guard not in owners:
            message = "%s is available only while %s is in effect" % (parameter, known.guard)
            remedy = "add %s: true" % known.guard.lower()
            report.add(HIDDEN, firmware.path + ("parameters", name), message, remedy)


def _infiniband(fabric: Fabric, variants: Variants, report: Report) -> None:
    """Report InfiniBand settings that the link layer or the mode does not support."""
    if fabric.link_layer is None:
        return
    _partitions(fabric, variants, report)
    infiniband = fabric.infiniband
    if infiniband is None:
        return
    if fabric.link_layer != INFINIBAND:
        message = "the link layer is %s" % fabric.link_layer
        report.add(LAYER, infiniband.path, message, "remove infiniband, or set link_layer: infiniband")
        return
    if infiniband.ipoib_mode == CONNECTED:
        message = "the accelerated IPoIB of ConnectX-4 and later does not support connected mode"
        report.add(MODE, infiniband.path + ("ipoib_mode",), message, "write datagram")


def _partitions(fabric: Fabric, variants: Variants, report: Report) -> None:
    """Check the partition keys of each variant: its own, or the fabric's."""
    for variant in variants.with_unused():
        partitions = variant.partitions or fabric.infiniband
        if partitions is None:
            continue
        if fabric.link_layer != INFINIBAND:
            if partitions is variant.partitions:
                message = "the link layer is %s" % fabric.link_layer
                report.add(LAYER, partitions.path, message, "remove infiniband, or set link_layer: infiniband")
            continue
        if not partitions.pkeys:
            continue
        if variant.attachment == "ipoib":
            message = "nodes get an interface for each key, but pods on IPoIB have only the port's own key"
            remedy = "configure the pods' partition at index 0 of the ports in the subnet manager, or use ib-sriov"
            report.add(NOT_PODS, partitions.path + ("pkeys",), message, remedy)
        _children(variant.ports.values(), report)
        for node in variants.nodes_of(variant):
            if node.ports:
                _children(ports_of(node, variant).values(), report)


def _children(ports: t.Iterable[Port], report: Report) -> None:
    """Report netdevs whose names are too long for child interfaces."""
    for port in ports:
        if port.netdev is not None and len(port.netdev) > NETDEV_MAX:
            message = "%s has more than %d characters" % (shown(port.netdev), NETDEV_MAX)
            report.add(CHILD, port.path, message, "give the port a shorter name")
