# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Check whether the settings of the GPU Operator agree with the GPUDirect path of the nodes. It does no I/O.

Sources: the values of the chart ``gpu-operator``, and the start script of the driver container (NVIDIA/gpu-operator and
NVIDIA/gpu-driver-container): nvidia-peermem, gdrdrv and nvidia-fs are containers of the driver's DaemonSet, so they run
only where the operator installs the driver.
"""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common import gpudirect_paths as choice

CONTAINER = "container"
HOST = "host"
RDMA = "driver.rdma.enabled"
HOST_MOFED = "driver.rdma.useHostMofed"
TYPE = "driver.kernelModuleType"
GDRCOPY = "gdrcopy.enabled"
GDS = "gds.enabled"
_DEFAULTS: dict[str, t.Any] = {
    "driver.enabled": True,
    RDMA: False,
    HOST_MOFED: False,
    TYPE: "auto",
    GDRCOPY: False,
    GDS: False,
}


class Wanted(t.NamedTuple):
    """The planned settings of the nodes."""

    #: ``dmabuf``, ``peermem`` or ``none``
    path: str
    #: the NIC driver: ``inbox`` or ``ofed`` on the host, or ``container`` (the Network Operator's)
    nic_driver: str
    #: who installs the GPU driver: ``host`` or ``container`` (the GPU Operator); empty if it is not set
    gpu_driver: str
    #: whether pods get gdrcopy
    gdrcopy: bool
    #: generations of the GPUs; empty if unknown
    generations: tuple[str, ...] = ()
    #: the planned kernel modules, ``open`` or ``proprietary``; empty if the plan does not set them
    flavour: str = ""


class Disagreement(t.NamedTuple):
    """A value of the chart that contradicts the plan.

    ``key``: the value's path. ``fatal``: pods or GPUs would not work; otherwise the value only differs.
    """

    key: str
    message: str
    remedy: str
    fatal: bool


def disagreements(values: t.Mapping[str, t.Any], wanted: Wanted) -> list[Disagreement]:
    """Return all contradictions. ``values``: the chart's, nested; values equal to the default may be left out."""
    found: list[Disagreement] = []

    def add(key: str, message: str, remedy: str, fatal: bool = True) -> None:
        found.append(Disagreement(key, message, remedy, fatal))

    containers = bool(_value(values, "driver.enabled"))
    rdma = bool(_value(values, RDMA))
    host_mofed = bool(_value(values, HOST_MOFED))
    kind = str(_value(values, TYPE))
    if containers and wanted.gpu_driver == HOST:
        add(
            "driver.enabled",
            "the operator installs the GPU driver, but the hosts have one",
            "set driver.enabled: false, or remove the driver from the hosts",
            False,
        )
    elif not containers and wanted.gpu_driver == CONTAINER:
        add(
            "driver.enabled",
            "nothing installs the GPU driver",
            "set driver.enabled: true, or install the driver on the hosts",
        )
    if rdma and not containers:
        add(
            RDMA,
            "has no effect without the operator's driver: nvidia-peermem is loaded by the driver's DaemonSet",
            "set it to false; the role gpudirect loads nvidia-peermem on hosts with a driver of their own",
            False,
        )
    elif rdma and wanted.nic_driver == choice.INBOX:
        add(
            RDMA,
            "most inbox RDMA cores have no peer memory interface: nvidia-peermem would not load (Invalid argument)",
            "set it to false and use DMA-BUF, or install DOCA-OFED",
        )
    elif rdma and wanted.path != choice.PEERMEM:
        add(
            RDMA,
            "it loads nvidia-peermem, but the GPUDirect path is %s" % choice.WORDS[wanted.path],
            "set it to false, or plan the path peermem",
            False,
        )
    elif wanted.path == choice.PEERMEM and containers and not rdma:
        add(RDMA, "the GPUDirect path is peermem, but nothing loads nvidia-peermem", "set it to true")
    if rdma and containers and wanted.path == choice.PEERMEM and wanted.nic_driver != choice.INBOX:
        on_host = wanted.nic_driver == choice.OFED
        if host_mofed != on_host:
            add(
                HOST_MOFED,
                "is %s, and the NIC driver is %s: nvidia-peermem would wait for, or be built against, the wrong one"
                % (as_yaml(host_mofed), "the host's" if on_host else "a container's"),
                "set it to %s" % as_yaml(on_host),
            )
    if containers:
        found += _module_types(kind, bool(_value(values, GDS)), wanted)
    gdrcopy = bool(_value(values, GDRCOPY))
    if gdrcopy and not containers:
        add(
            GDRCOPY,
            "has no effect without the operator's driver",
            "set it to false; the role gpudirect loads gdrdrv on hosts with a driver of their own",
            False,
        )
    elif containers and gdrcopy != wanted.gdrcopy:
        message = "pods get gdrcopy, but nothing loads gdrdrv" if wanted.gdrcopy else "gdrcopy is not planned"
        add(GDRCOPY, message, "set it to %s" % as_yaml(wanted.gdrcopy), wanted.gdrcopy)
    return found


def _module_types(kind: str, gds: bool, wanted: Wanted) -> list[Disagreement]:
    """Return contradictions of ``driver.kernelModuleType``."""
    order = choice.GENERATIONS.index
    old = [each for each in wanted.generations if order(each) < order(choice.FIRST_OPEN)]
    new = [each for each in wanted.generations if order(each) >= order(choice.OPEN_ONLY)]
    found = []
    if kind == choice.OPEN and old:
        message = "the open kernel modules support GPUs from Turing on, and nodes have GPUs of %s" % ", ".join(old)
        found.append(Disagreement(TYPE, message, "set it to auto or proprietary, and the path to peermem", True))
    elif kind == choice.CLOSED and new:
        message = "GPUs from Blackwell on need the open kernel modules, and nodes have GPUs of %s" % ", ".join(new)
        found.append(Disagreement(TYPE, message, "set it to open", True))
    elif kind == choice.CLOSED and wanted.path == choice.DMABUF:
        message = "the proprietary kernel modules cannot export DMA-BUF"
        found.append(Disagreement(TYPE, message, "set it to open, or plan the path peermem", True))
    elif kind != choice.OPEN and old and wanted.path == choice.DMABUF:
        message = "GPUs of %s get the proprietary kernel modules, which cannot export DMA-BUF" % ", ".join(old)
        found.append(Disagreement(TYPE, message, "plan the path peermem for these nodes", True))
    elif wanted.flavour and kind not in (choice.AUTO, wanted.flavour):
        message = "is %s, and the plan has %s" % (kind, wanted.flavour)
        found.append(Disagreement(TYPE, message, "set it to %s" % wanted.flavour, False))
    if gds and (kind == choice.CLOSED or old):
        message = "GPUDirect Storage needs the open kernel modules"
        found.append(Disagreement(GDS, message, "set it to false, or use the open kernel modules", True))
    return found


def _value(values: t.Mapping[str, t.Any], key: str) -> t.Any:
    """Return a value of the chart, or its default."""
    found: t.Any = values
    for part in key.split("."):
        found = found.get(part) if isinstance(found, t.Mapping) else None
    if key == TYPE and found is None:
        # the key before 25.3
        driver = values.get("driver")
        known = driver.get("useOpenKernelModules") if isinstance(driver, t.Mapping) else None
        found = None if known is None else (choice.OPEN if known else choice.CLOSED)
    return _DEFAULTS[key] if found is None else found


def as_yaml(value: bool) -> str:
    """Return a boolean as YAML has it."""
    return "true" if value else "false"
