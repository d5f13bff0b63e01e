# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The observed state of GPUs, their driver, the RDMA core and the modules between them."""

from __future__ import annotations

import gzip
import os
import re
import typing as t
import zlib

from ansible_collections.railyard.fabric.plugins.module_utils._common import amd_gpudirect
from ansible_collections.railyard.fabric.plugins.module_utils._common import gpudirect_paths as choice
from ansible_collections.railyard.fabric.plugins.module_utils._nic_vendors.registry import vendor_drivers
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.readers import (
    amd_gpus,
    kernel_modules,
    network_namespaces,
    pci_functions,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.readers.kernel_modules import KernelModules

NVIDIA = "nvidia"
AMD = "amd"
AMDGPU = "amdgpu"
PEERMEM = "nvidia_peermem"
GDRDRV = "gdrdrv"
#: the predecessor of nvidia-peermem, a separate package
OLD_PEERMEM = "nv_peer_mem"
DEVICE = "/dev/gdrdrv"
DRIVER_CONTAINER = "/run/nvidia/driver/usr/bin"
DKMS = "/var/lib/dkms"
MEMORY_PEERS = "/sys/kernel/mm/memory_peers"
HOST = "host"
CONTAINER = "container"
Row = t.Dict[str, t.Any]


class GpuFacts(t.NamedTuple):
    """The observed state of the node. ``notices``: sentences for warnings. ``best``: the best possible path.

    ``of_amd``: whether the node has GPUs of AMD and none of NVIDIA. ``peer_memory``: whether amdkfd has registered with
    the peer memory interface.
    """

    inputs: choice.Inputs
    modules: KernelModules
    gpus: list[Row]
    driver: Row | None
    rdma: Row | None
    peermem: Row
    gdrdrv: Row
    notices: list[str]
    best: choice.Choice
    of_amd: bool = False
    peer_memory: bool = False


def look(system: System, cuda_dmabuf: bool | None = None, architecture: str | None = None) -> GpuFacts:
    """Read the facts that the choice depends on, without loading a module or accessing a GPU.

    :param cuda_dmabuf: CUDA's attribute of DMA-BUF support, if known.
    :param architecture: for tests; default: this machine's.
    """
    architecture = architecture or os.uname().machine
    modules = KernelModules(system, architecture)
    gpus = _gpus(system, NVIDIA)
    amd = [] if gpus else _gpus(system, AMD)
    driver = _amd_driver(modules) if amd else _driver(system, modules)
    rdma = _rdma(system, modules)
    at_boot = modules.at_boot()
    peermem = _peermem(system, modules, driver, rdma, at_boot)
    gdrdrv = _gdrdrv(system, modules, at_boot)
    configuration = _configuration(system, modules.release)
    inputs = choice.Inputs(
        generation=choice.oldest(gpu["generation"] for gpu in gpus),
        architecture=architecture,
        kernel=modules.release,
        shared_buffer=_shared_buffer(configuration),
        stack=rdma["stack"] if rdma else None,
        stack_version=rdma["version"] if rdma else None,
        core_dmabuf=rdma["imports_dmabuf"] if rdma else None,
        core_peermem=rdma["peer_memory"] if rdma else None,
        driver=driver["version"] if driver else None,
        flavour=driver["flavour"] if driver else None,
        cuda_dmabuf=cuda_dmabuf,
        module=peermem["module"],
        enforced=modules.signatures_enforced(),
        signed=peermem["signed"],
    )
    if amd:
        peer = amd_gpus.has_peer_memory(system)
        best = amd_gpudirect.choose(inputs, _missing_options(configuration), peer)
        return GpuFacts(inputs, modules, amd, driver, rdma, peermem, gdrdrv, [], best, True, peer)
    notices = _notices(system, modules, architecture, driver, rdma, peermem, gdrdrv) if gpus or driver else []
    return GpuFacts(inputs, modules, gpus, driver, rdma, peermem, gdrdrv, notices, choice.choose(inputs))


def _gpus(system: System, maker: str) -> list[Row]:
    """Return the GPUs of a maker. The generation of AMD's is unknown, and does not change the choice."""
    rows = []
    for function in pci_functions.gpu_functions(system):
        if pci_functions.GPU_VENDORS.get(pci_functions.hexadecimal(system, function, "vendor") or "") == maker:
            device = pci_functions.hexadecimal(system, function, "device") or "0"
            generation = choice.generation(int(device, 16)) if maker == NVIDIA else None
            rows.append({"pci": function, "device": device, "generation": generation})
    return rows


def _amd_driver(modules: KernelModules) -> Row | None:
    """Return amdgpu, as :func:`_driver` does. The kernel's amdgpu has no version of its own."""
    loaded = modules.loaded(AMDGPU)
    if not loaded and not modules.path(AMDGPU):
        return None
    on_disk = modules.info(AMDGPU).get("version")
    running = modules.attribute(AMDGPU, "version") if loaded else None
    return {
        "version": running or on_disk or "of the kernel %s" % modules.release,
        "flavour": None,
        "loaded": loaded,
        "on_disk": on_disk,
        "from": HOST,
    }


def _driver(system: System, modules: KernelModules) -> Row | None:
    """Return the running GPU driver, else the driver on disk, else None."""
    loaded = modules.loaded(NVIDIA)
    on_disk = modules.path(NVIDIA)
    if not loaded and not on_disk:
        return None
    info = modules.info(NVIDIA)
    text = (system.read("/proc/driver/nvidia/version") or "") if loaded else ""
    flavour = None
    if text:
        flavour = choice.OPEN if "Open Kernel Module" in text else choice.CLOSED
    elif info.get("license"):
        flavour = choice.CLOSED if info["license"].upper() == "NVIDIA" else choice.OPEN
    running = modules.attribute(NVIDIA, "version") if loaded else None
    in_container = loaded and (not on_disk or system.exists(DRIVER_CONTAINER))
    return {
        "version": running or info.get("version") or "0",
        "flavour": flavour,
        "loaded": loaded,
        "on_disk": info.get("version"),
        "from": CONTAINER if in_container else HOST,
    }


def _rdma(system: System, modules: KernelModules) -> Row | None:
    """Return the loaded RDMA core, else the RDMA core on disk, else None."""
    path = modules.path("ib_core")
    loaded = modules.loaded("ib_core")
    built_in = not path and (modules.built_in("ib_core") or system.exists("/sys/module/ib_core"))
    if not path and not loaded and not built_in:
        return None
    running = [driver for driver in vendor_drivers.DRIVERS if modules.loaded(driver.marker)]
    ofed_runs = bool(running)
    ofed_on_disk = bool(path) and "/kernel/drivers/" not in str(path)
    stack = choice.OFED if ofed_runs or (ofed_on_disk and not loaded) else choice.INBOX
    if loaded and ofed_runs != ofed_on_disk:
        # the running RDMA core came from a container, or OFED was installed but not started yet
        exported = _exported(system)
    elif path:
        exported = {
            symbol: modules.exporter(symbol) is not None for symbol in (choice.EXPORT_DMABUF, choice.EXPORT_PEERMEM)
        }
    else:
        exported = {}
    version = None
    for driver in (running or vendor_drivers.DRIVERS) if stack == choice.OFED else ():
        module = driver.module
        version = version or modules.attribute(module, "version") or modules.info(module).get("version")
    return {
        "stack": stack,
        "version": version,
        "loaded": loaded or built_in,
        "from": CONTAINER if ofed_runs and not ofed_on_disk else HOST,
        "on_disk": choice.OFED if ofed_on_disk else choice.INBOX if path else None,
        "imports_dmabuf": exported.get(choice.EXPORT_DMABUF),
        "peer_memory": exported.get(choice.EXPORT_PEERMEM),
    }


def _exported(system: System) -> dict[str, bool]:
    """Return symbol -> whether the running kernel exports it; empty if unknown. The list is long, so it is read only if
    the running modules are not those on disk.
    """
    text = system.read_file("/proc/kallsyms") or ""
    if not text:
        return {}
    return {
        symbol: re.search(r" [Tt] %s\b" % symbol, text) is not None
        for symbol in (choice.EXPORT_DMABUF, choice.EXPORT_PEERMEM)
    }


def _peermem(
    system: System, modules: KernelModules, driver: Row | None, rdma: Row | None, at_boot: t.Mapping[str, str]
) -> Row:
    loaded = next((name for name in (PEERMEM, OLD_PEERMEM) if modules.loaded(name)), None)
    path = modules.path(PEERMEM)
    against: list[str] = []
    if loaded:
        module = choice.LOADED
    elif driver and driver["from"] == CONTAINER:
        module = choice.CONTAINED
    elif not path:
        module = choice.ABSENT
    elif not {"ib_core", "ib_uverbs"}.intersection(modules.needs(PEERMEM)):
        module = choice.STUB
    else:
        module = choice.BUILT
        if rdma and rdma["peer_memory"] and rdma["from"] == HOST:
            differing = modules.disagreement(PEERMEM, choice.EXPORT_PEERMEM)
            if differing:
                module, against = choice.STALE, list(differing)
    info = modules.info(PEERMEM)
    barred = modules.barred(PEERMEM)
    return {
        "module": module,
        "loaded": loaded is not None,
        "name": loaded or PEERMEM,
        "file": path,
        "signed": _signed(info),
        "symbol_versions": against,
        "registered": [name for name in system.listdir(MEMORY_PEERS) if name.startswith("nv_mem")],
        "at_boot": at_boot.get(PEERMEM) or at_boot.get(OLD_PEERMEM),
        "barred": "%s: %s" % barred if barred else None,
    }


def _signed(info: t.Mapping[str, str]) -> bool | None:
    """Return whether modinfo reports a signature, possibly without the name of its key; None without modinfo."""
    return any(info.get(field) for field in ("signer", "sig_id", "signat")) if info else None


def _gdrdrv(system: System, modules: KernelModules, at_boot: t.Mapping[str, str]) -> Row:
    info = modules.info(GDRDRV)
    loaded = modules.loaded(GDRDRV)
    about = info.get("description", "")
    # since 2.5, the description names the flavour
    flavour = choice.CLOSED if "proprietary" in about else choice.OPEN if "built for" in about else None
    barred = modules.barred(GDRDRV)
    return {
        "installed": modules.path(GDRDRV) is not None,
        "loaded": loaded,
        "version": (modules.attribute(GDRDRV, "version") if loaded else None) or info.get("version"),
        "flavour": flavour,
        "device": system.exists(DEVICE),
        "at_boot": at_boot.get(GDRDRV),
        "barred": "%s: %s" % barred if barred else None,
    }


def _shared_buffer(configuration: str) -> bool | None:
    found = re.search(r"^CONFIG_DMA_SHARED_BUFFER=y$", configuration, re.MULTILINE)
    return found is not None if configuration else None


def _missing_options(configuration: str) -> list[str]:
    """Return the options for DMA-BUF of AMD that are off. An option that the kernel does not know is not reported."""
    off = re.findall(r"^# (\w+) is not set$", configuration, re.MULTILINE)
    return [name for name in amd_gpudirect.OPTIONS if name in off]


def _configuration(system: System, release: str) -> str:
    """Return the configuration of the kernel; empty if it cannot be read."""
    text = system.read_file("/boot/config-" + release) or system.read_file("/lib/modules/%s/config" % release)
    if not text:
        packed = system.read_bytes("/proc/config.gz")
        try:
            text = gzip.decompress(packed).decode("ascii", "replace") if packed else ""
        except (OSError, EOFError, zlib.error):
            text = ""
    return text


def in_use(system: System, modules: KernelModules, name: str) -> list[str]:
    """Return the users of nvidia-peermem as texts for an error.

    Its use count does not include registered memory, so each process with an open verbs file is reported.
    """
    users = modules.users(name)
    opened = network_namespaces.users_of_files(system, _is_verbs_file, network_namespaces.sees_all())
    first = {pid: path for path in sorted(opened, reverse=True) for pid in opened[path]}
    for pid, path in sorted(first.items()):
        users.append("%s pid %d has %s open" % (network_namespaces.command(system, pid), pid, path))
    return users


def _is_verbs_file(path: str) -> bool:
    return path.startswith("/dev/infiniband/uverbs")


# -- notices -----------------------------------------------------------------------------------------------------------


def _notices(
    system: System,
    modules: KernelModules,
    architecture: str,
    driver: Row | None,
    rdma: Row | None,
    peermem: Row,
    gdrdrv: Row,
) -> list[str]:
    notices = []
    if driver and driver["from"] == HOST and driver["on_disk"] not in (None, driver["version"]):
        notices.append(
            "The GPU driver %s is running, but %s is on disk. Remedy: reboot, or unload the old one, before other"
            " modules are loaded." % (driver["version"], driver["on_disk"])
        )
    live, disk = modules.attribute(PEERMEM, "srcversion"), modules.info(PEERMEM).get("srcversion")
    if peermem["loaded"] and live and disk and live != disk:
        notices.append(
            "The loaded nvidia_peermem (srcversion %s) differs from the one on disk (%s), which the next boot uses."
            % (live, disk)
        )
    if peermem["module"] == choice.BUILT and not peermem["symbol_versions"]:
        notices += _older(system, modules)
    notices += unbuilt(system, architecture, modules.release)
    if rdma and rdma["loaded"] and rdma["stack"] == choice.INBOX and rdma["on_disk"] == choice.OFED:
        notices.append("The inbox RDMA core is running, but OFED's is on disk. It is used from the next boot.")
    if rdma and rdma["on_disk"] == choice.OFED:
        notices += _inbox_in_other_kernels(system, modules, architecture)
    if gdrdrv["loaded"] and not gdrdrv["device"]:
        notices.append(
            "gdrdrv is loaded, but %s is missing. Remedy: enable gdrcopy.service, which creates it." % DEVICE
        )
    return notices


def _older(system: System, modules: KernelModules) -> list[str]:
    """Return a notice if nvidia-peermem is older than the module that it was built against, and symbol versions are not
    available.
    """
    exporter = modules.exporter(choice.EXPORT_PEERMEM)
    paths = [modules.path(PEERMEM), modules.path(exporter) if exporter else None]
    try:
        times = [os.stat(system.path(path)).st_mtime for path in paths if path]
    except OSError:
        return []
    if len(times) == 2 and times[0] < times[1] and "modversions" not in modules.info(PEERMEM).get("vermagic", ""):
        return [
            "nvidia-peermem was built before the installed %s. If it does not load (Invalid argument), rebuild the GPU"
            " driver's modules." % exporter
        ]
    return []


def unbuilt(system: System, architecture: str, running: str) -> list[str]:
    """Return a notice per DKMS module of the GPU driver, the NIC driver or gdrcopy that is missing for a kernel.

    :param running: release of the running kernel.
    """
    notices = []
    for name in system.listdir(DKMS):
        of_nic = any(driver.kernel_part.match(name) for driver in vendor_drivers.DRIVERS)
        if not of_nic and not re.match(r"(nvidia|gdrdrv)", name):
            continue
        versions = [
            entry
            for entry in system.listdir("%s/%s" % (DKMS, name))
            if not entry.startswith("kernel-") and system.exists("%s/%s/%s/source" % (DKMS, name, entry))
        ]
        for release in kernel_modules.releases(system):
            link = "%s/%s/kernel-%s-%s" % (DKMS, name, release, architecture)
            if versions and not system.exists(link):
                notices.append(
                    "DKMS has not built %s for the kernel %s%s. Remedy: dkms install %s/%s -k %s."
                    % (name, release, ", which is running" if release == running else "", name, versions[-1], release)
                )
    return notices


def _inbox_in_other_kernels(system: System, modules: KernelModules, architecture: str) -> list[str]:
    notices = []
    for release in kernel_modules.releases(system):
        if release == modules.release:
            continue
        other = KernelModules(system, architecture, release)
        path = other.path("ib_core")
        if path and "/kernel/drivers/" in path:
            notices.append(
                "The kernel %s has the inbox RDMA core, and the running kernel OFED's. Remedy: build OFED for it before"
                " it is booted." % release
            )
    return notices
