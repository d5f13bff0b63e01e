# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""The keys ``driver`` and ``firmware`` of server models and groups, and ``infiniband`` of the fabric."""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common import firmware_parameters
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.file.read_values import MAX_VFS
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import Report, shown
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.driver_model import INSTALLED, KINDS, Driver
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.fabric_model import Firmware
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.infiniband_model import (
    MODES,
    REPORTED,
    REQUIRED,
    Infiniband,
    Partitions,
    pkey,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.settings_catalog import driver_rules as rules
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.file_section import Section
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.name_syntax import did_you_mean, nearest
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.yaml_source import Sequence


def read_driver(section: Section) -> Driver | None:
    own = section.section("driver", "")
    if not own:
        return None
    kind = own.choice("kind", KINDS, "say which driver: %s" % ", ".join(KINDS))
    installed = kind in INSTALLED
    found = Driver(
        path=own.path,
        kind=kind,
        version=own.text("version", "pin the release, such as 2.9.3 of DOCA or 24.10-1.1.4.0" if installed else ""),
        source=own.text(
            "source", "say where the packages are: a repository, or a path on the node" if installed else ""
        ),
        key=own.text("key"),
        unsigned=own.flag("unsigned"),
        packages=tuple(own.texts("packages")),
        allow_unlisted=own.flag("allow_unlisted"),
    )
    own.done()
    return found


def read_firmware(section: Section, report: Report) -> Firmware | None:
    own = section.section("firmware")
    if not own:
        return None
    found = Firmware(
        own.choice("link_type", ("eth", "ib")),
        own.flag("sriov_en"),
        own.number("num_of_vfs", 0, MAX_VFS, "VFs"),
        own.path,
        own.text("version"),
        _parameters(own, report),
    )
    own.done()
    return found


def _parameters(section: Section, report: Report) -> dict[str, t.Any]:
    own = section.section("parameters")
    found: dict[str, t.Any] = {}
    for name, (_key, value) in own.mapping.entries.items() if own else ():
        path = section.path + ("parameters", name)
        if not firmware_parameters.NAME.match(firmware_parameters.parameter(name)):
            near = nearest(name.lower(), firmware_parameters.ALIASES)
            message = "%s is not a firmware parameter%s" % (shown(name), did_you_mean(near))
            remedy = "write %s" % near if near else "write it as the tool does: %s" % firmware_parameters.FORMS
            report.add(rules.PARAMETER, path, message, remedy)
            continue
        given: t.Any = own.texts(name) if own and isinstance(value, Sequence) else own.text(name) if own else None
        if given is None:
            continue
        try:
            firmware_parameters.value(name, given)
        except ValueError as error:
            report.add(rules.PARAMETER_VALUE, path, "%s is an invalid value" % shown(_plain(given)), "write %s" % error)
            continue
        found[name] = given
    return found


def _plain(given: t.Any) -> str:
    return "[%s]" % ", ".join(given) if isinstance(given, list) else str(given)


def read_infiniband(section: Section, report: Report) -> Infiniband | None:
    own = section.section("infiniband")
    if not own:
        return None
    found = Infiniband(
        own.path,
        own.choice("ipoib_mode", MODES),
        _pkeys(own, report),
        own.choice("subnet_manager", (REPORTED, REQUIRED)),
    )
    own.done()
    return found


def read_partitions(section: Section, report: Report) -> Partitions | None:
    """What a profile or a group has of InfiniBand: the partitions of its nodes."""
    own = section.section("infiniband")
    if not own:
        return None
    own.value("pkeys", "write the keys, such as pkeys: [0x8001]; all else of infiniband belongs to fabric")
    found = Partitions(own.path, _pkeys(own, report))
    own.done()
    return found


def _pkeys(own: Section, report: Report) -> tuple[int, ...]:
    keys: list[int] = []
    for at, text in enumerate(own.texts("pkeys")):
        key = pkey(text)
        if key is None or key in keys:
            message = "%s is %s" % (shown(text), "not a partition key" if key is None else "listed already")
            remedy = "write keys from 0x0001 to 0x7ffe, with or without the bit 0x8000 of full members, each once"
            report.add(rules.PKEY, own.path + ("pkeys", at), message, remedy)
            continue
        keys.append(key)
    return tuple(keys)
