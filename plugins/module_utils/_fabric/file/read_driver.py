# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Readers of ``driver`` and ``firmware`` of profiles and groups, and of ``infiniband``."""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.file.read_values import MAX_VFS
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings import example_file
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import Report, rule, shown
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.driver_model import Driver
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.fabric_model import Firmware
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.infiniband_model import (
    MODES,
    REPORTED,
    REQUIRED,
    Infiniband,
    Partitions,
    pkey,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.file_section import Section
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.name_syntax import (
    did_you_mean,
    nearest,
    remedy_of,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.yaml_source import Sequence
from ansible_collections.railyard.fabric.plugins.module_utils._nic_vendors.registry import vendor_firmwares
from ansible_collections.railyard.fabric.plugins.module_utils._nic_vendors.registry.vendor_drivers import (
    INSTALLED,
    KINDS,
)


def read_driver(section: Section) -> Driver | None:
    """Return the driver of a profile or group; None if it has none."""
    own = section.section("driver", "")
    if not own:
        return None
    kind = own.choice("kind", KINDS, "set the kind of driver: %s" % ", ".join(KINDS))
    installed = kind in INSTALLED
    driver = Driver(
        path=own.path,
        kind=kind,
        version=own.text(
            "version", "set the release, such as 2.9.3 of DOCA or 24.10-1.1.4.0 of MLNX_OFED" if installed else ""
        ),
        source=own.text(
            "source", "set the place of the packages: a repository, or a path on the node" if installed else ""
        ),
        key=own.text("key"),
        unsigned=own.flag("unsigned"),
        packages=tuple(own.texts("packages")),
        allow_unlisted=own.flag("allow_unlisted"),
    )
    own.done()
    return driver


def read_firmware(section: Section, report: Report) -> Firmware | None:
    """Return the firmware settings of a profile or group; None if it has none."""
    own = section.section("firmware")
    if not own:
        return None
    firmware = Firmware(
        own.choice("link_type", ("eth", "ib")),
        own.flag("sriov_en"),
        own.number("num_of_vfs", 0, MAX_VFS, "VFs"),
        own.path,
        own.text("version"),
        _parameters(own, report),
    )
    own.done()
    return firmware


_PKEYS = (
    "fabric: {name: ai, provider: network-operator, attachment: host-device, link_layer: infiniband, mtu: 4092,"
    " infiniband: {pkeys: [%s]}}\n"
    + example_file.ports('gpu01: {netdev: ibs1, pci: "0000:0b:00.0"}', 'gpu02: {netdev: ibs2, pci: "0000:0c:00.0"}')
)

PARAMETER_NAME = rule(
    "RY530 firmware-parameter-name: Invalid firmware parameter name",
    example_file.profile("firmware: {parameters: {relaxed-ordering: true}}"),
    example_file.profile("firmware: {parameters: {relaxed_ordering: true}}"),
)

PARAMETER_VALUE = rule(
    "RY531 firmware-parameter-value: Invalid firmware parameter value",
    example_file.profile("firmware: {parameters: {cnp_dscp: 64}}"),
    example_file.profile("firmware: {parameters: {cnp_dscp: 48}}"),
)


def _parameters(section: Section, report: Report) -> dict[str, t.Any]:
    """Return the valid firmware parameters, as they are written."""
    own = section.section("parameters")
    parameters: dict[str, t.Any] = {}
    for name, (_key, value) in own.mapping.entries.items() if own else ():
        path = section.path + ("parameters", name)
        known = vendor_firmwares.parameters_of(name)
        if known is None:
            of_vendors = [each.parameters for each in vendor_firmwares.FIRMWARES]
            near = nearest(name.lower(), [alias for each in of_vendors for alias in each.aliases])
            forms = " or ".join("a name of %s: %s" % (each.program, each.forms) for each in of_vendors)
            message = "%s is not a firmware parameter%s" % (shown(name), did_you_mean(near))
            remedy = remedy_of(near, "use %s" % forms)
            report.add(PARAMETER_NAME, path, message, remedy)
            continue
        texts: t.Any = own.texts(name) if own and isinstance(value, Sequence) else own.text(name) if own else None
        if texts is None:
            continue
        try:
            known.value(name, texts)
        except ValueError as error:
            text = "[%s]" % ", ".join(texts) if isinstance(texts, list) else texts
            report.add(PARAMETER_VALUE, path, "%s is an invalid value" % shown(text), "write %s" % error)
            continue
        parameters[name] = texts
    return parameters


def read_infiniband(section: Section, report: Report, of_rail: bool = False) -> Infiniband | None:
    """Return the InfiniBand settings; None without them.

    :param of_rail: whether a rail has the section, which does not set the subnet manager.
    """
    own = section.section("infiniband")
    if not own:
        return None
    infiniband = Infiniband(
        own.path,
        own.choice("ipoib_mode", MODES),
        _pkeys(own, report),
        None if of_rail else own.choice("subnet_manager", (REPORTED, REQUIRED)),
    )
    own.done()
    return infiniband


def read_partitions(section: Section, report: Report) -> Partitions | None:
    """Return the partitions of a profile or group, its only InfiniBand setting; None if it has none."""
    own = section.section("infiniband")
    if not own:
        return None
    own.value("pkeys", "write the keys, such as pkeys: [0x8001]; other keys of infiniband belong in fabric")
    partitions = Partitions(own.path, _pkeys(own, report))
    own.done()
    return partitions


PKEY = rule(
    "RY540 invalid-partition-key: Invalid partition key",
    _PKEYS % "0xffff",
    _PKEYS % "0x8001",
    why="A key has 15 bits and the bit of full membership. 0 is invalid, and 0x7fff is the default partition.",
)


def _pkeys(own: Section, report: Report) -> tuple[int, ...]:
    keys: list[int] = []
    for at, text in enumerate(own.texts("pkeys")):
        key = pkey(text)
        if key is None or key in keys:
            message = "%s is %s" % (shown(text), "not a partition key" if key is None else "listed already")
            remedy = "write keys from 0x0001 to 0x7ffe, each once; the bit 0x8000 of full members is optional"
            report.add(PKEY, own.path + ("pkeys", at), message, remedy)
            continue
        keys.append(key)
    return tuple(keys)
