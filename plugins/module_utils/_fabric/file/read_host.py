# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Readers of ``pci``, ``limits``, ``gpudirect``, ``nccl`` and ``imex`` of the fabric, of profiles and of groups."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import Report, rule, shown
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model import host_model, nvlink_model
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.fabric_model import HostSettings, Setting
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.file_section import Section

_ARGUMENT = re.compile(r"[^\s\"'`$\\]+\Z")
_MAX_PAGES = 1 << 24
_MAX_NEIGHBOURS = 2**31 - 1


def read_host(section: Section, report: Report) -> HostSettings:
    """Return the settings of each layer in the section. A key that could not be read has the value None."""
    settings: HostSettings = {}
    for layer, reader in _READERS.items():
        own = section.section(layer)
        if own is None:
            continue
        values = reader(own, report)
        written = [key for key in values if own.has(key) or own.misspelt(key)]
        own.done()
        settings[layer] = {key: Setting(values[key] if own.has(key) else None, own.path + (key,)) for key in written}
    return settings


_FABRIC = "fabric: {name: ai, provider: spiderpool, attachment: macvlan, mtu: 4200, %s}"

KERNEL_ARGUMENT = rule(
    "RY961 invalid-kernel-argument: Invalid kernel argument",
    _FABRIC % 'pci: {kernel_arguments: ["pci=realloc quiet"]}',
    _FABRIC % "pci: {kernel_arguments: [pci=realloc, quiet]}",
)


def _pci(section: Section, report: Report) -> dict[str, t.Any]:
    size = section.choice("max_read_request", tuple(str(request) for request in host_model.READ_REQUESTS))
    arguments = section.texts("kernel_arguments")
    for at, argument in enumerate(arguments):
        if not _ARGUMENT.match(argument):
            message = "%s is not one kernel argument" % shown(argument)
            remedy = "write each argument as a separate item, without quotes and white space"
            report.add(KERNEL_ARGUMENT, section.path + ("kernel_arguments", at), message, remedy)
    return {
        "acs": section.choice("acs", (host_model.LEAVE, host_model.DISABLED)),
        "max_read_request": None if size is None else int(size),
        "iommu": section.choice("iommu", (host_model.LEAVE, host_model.PASSTHROUGH)),
        "kernel_arguments": tuple(arguments),
    }


def _limits(section: Section, report: Report) -> dict[str, t.Any]:
    neighbours = section.section("neighbours")
    thresholds: dict[str, int] = {}
    if neighbours:
        numbers = {key: neighbours.number(key, 1, _MAX_NEIGHBOURS, "neighbours") for key in host_model.THRESHOLDS}
        neighbours.done()
        thresholds = {key: number for key, number in numbers.items() if number is not None}
    return {
        "memlock": section.choice("memlock", (host_model.LEAVE, host_model.UNLIMITED)),
        "hugepages": _hugepages(section, report),
        "neighbours": thresholds,
        "network_manager": section.choice("network_manager", (host_model.LEAVE, host_model.UNMANAGED)),
        "cloud_init": section.choice("cloud_init", (host_model.LEAVE, host_model.DISABLED)),
    }


PAGE_SIZE = rule(
    "RY962 invalid-hugepage-size: Invalid hugepage size",
    _FABRIC % "limits: {hugepages: {2048: 1024}}",
    _FABRIC % "limits: {hugepages: {2M: 1024}}",
)


def _hugepages(section: Section, report: Report) -> dict[int, int] | None:
    """Return size in kB -> number of pages; None if the file does not have the key."""
    own = section.section("hugepages")
    if own is None:
        return None
    pages: dict[int, int] = {}
    for key in own.mapping.entries:
        count = own.number(key, 0, _MAX_PAGES, "pages")
        size = host_model.size_kb(key)
        if size is None:
            message = "%s is not a hugepage size" % shown(key)
            report.add(PAGE_SIZE, own.path + (key,), message, "write a size of the kernel, such as 2M or 1G")
        elif size in pages:
            message = "the number of pages of %s is set twice: another key has the same size" % shown(key)
            report.add(PAGE_SIZE, own.path + (key,), message, "keep one of the two")
        elif count is not None:
            pages[size] = count
    return pages


def _gpudirect(section: Section, _report: Report) -> dict[str, t.Any]:
    return {
        "path": section.choice("path", (host_model.AUTO, host_model.DMABUF, host_model.PEERMEM, host_model.NONE)),
        "gdrcopy": section.flag("gdrcopy"),
        "gpu_driver": section.choice("gpu_driver", (host_model.HOST, host_model.CONTAINER)),
        "flavour": section.choice("flavour", (host_model.OPEN, host_model.PROPRIETARY)),
    }


NCCL_VERSION = rule(
    "RY860 invalid-nccl-version: Invalid version of NCCL",
    _FABRIC % "nccl: {version: 2.30.5-cuda13}",
    _FABRIC % 'nccl: {version: "2.30.5"}',
    why="YAML reads 2.30 and 2.3 as the same number.",
)


def _nccl(section: Section, report: Report) -> dict[str, t.Any]:
    version = section.text("version")
    if version is not None and host_model.version_numbers(version) is None:
        message = "%s is not a version of NCCL" % shown(version)
        remedy = 'write its three numbers, in quotes, such as "2.30.5"'
        report.add(NCCL_VERSION, section.path + ("version",), message, remedy)
        version = None
    return {"file": section.flag("file"), "ucx": section.flag("ucx"), "version": version}


def _imex(section: Section, _report: Report) -> dict[str, t.Any]:
    return {"daemon": section.choice("daemon", nvlink_model.DAEMONS)}


_READERS: dict[str, t.Callable[[Section, Report], dict[str, t.Any]]] = {
    host_model.PCI: _pci,
    host_model.LIMITS: _limits,
    host_model.GPUDIRECT: _gpudirect,
    host_model.NCCL: _nccl,
    host_model.IMEX: _imex,
}
