# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The choice of the path from GPU memory to the NIC: DMA-BUF, nvidia-peermem or none. Pure functions.

DMA-BUF is an interface of the Linux kernel, which NVIDIA recommends: the GPU driver exports memory (only with its open
kernel modules, because ``dma_buf_export`` is for GPL modules), and the RDMA core imports it (Linux 5.12 and later).
nvidia-peermem registers with the RDMA core's peer memory interface of DOCA-OFED, MLNX_OFED and some distributions'
kernels, which must exist when the module is built. Sources: the kernel's
``drivers/infiniband/core/umem_dmabuf.c``, NVIDIA's ``kernel-open/nvidia-peermem/nvidia-peermem.c`` and
``conftest.sh``, CUDA's GPUDirect RDMA guide.
"""

from __future__ import annotations

import re
import typing as t

DMABUF = "dmabuf"
PEERMEM = "peermem"
NONE = "none"
AUTO = "auto"
WORDS = {DMABUF: "DMA-BUF", PEERMEM: "nvidia-peermem", NONE: "no GPUDirect RDMA"}

OPEN = "open"
CLOSED = "proprietary"
INBOX = "inbox"
OFED = "ofed"

# States of the module nvidia-peermem.
ABSENT = "absent"
STUB = "stub"
STALE = "stale"
BUILT = "built"
LOADED = "loaded"
CONTAINED = "contained"

#: GPU generations in the order of their release.
GENERATIONS = (
    "kepler",
    "maxwell",
    "pascal",
    "volta",
    "turing",
    "ampere",
    "ada",
    "hopper",
    "blackwell",
    "later",
)
# The open kernel modules support Turing and later; Blackwell and later require them.
FIRST_OPEN = "turing"
OPEN_ONLY = "blackwell"
# First PCI device number of each range; lower ones are Kepler or older.
_DEVICES = (
    (0x1340, "maxwell"),
    (0x15F0, "pascal"),
    (0x1600, "maxwell"),
    (0x1B00, "pascal"),
    (0x1D80, "volta"),
    (0x1E00, "turing"),
    (0x2080, "ampere"),
    (0x2100, "turing"),
    (0x2200, "ampere"),
    (0x2300, "hopper"),
    (0x2400, "ampere"),
    (0x2600, "ada"),
    (0x2900, "blackwell"),
    (0x3200, "later"),
)

KERNEL_DMABUF = (5, 12)
DRIVER_DMABUF = (515,)
DRIVER_PEERMEM = (470,)
DMABUF_ARCHITECTURES = ("x86_64", "aarch64")
PEERMEM_ARCHITECTURES = ("x86_64", "aarch64", "ppc64le")
EXPORT_DMABUF = "ib_umem_dmabuf_get"
EXPORT_PEERMEM = "ib_register_peer_memory_client"


class Inputs(t.NamedTuple):
    """The facts that the choice depends on."""

    #: of the node's oldest GPU; None without an NVIDIA GPU
    generation: str | None
    #: as ``uname -m`` prints it
    architecture: str
    #: the running kernel's release
    kernel: str
    #: ``CONFIG_DMA_SHARED_BUFFER``; None if the configuration is not readable
    shared_buffer: bool | None
    #: the origin of the RDMA core: ``inbox``, ``ofed`` (MLNX_OFED and DOCA-OFED); None without one
    stack: str | None
    #: its version, for messages
    stack_version: str | None
    #: whether it exports the function with which NIC drivers import DMA-BUF; None if unknown
    core_dmabuf: bool | None
    #: whether it exports the peer memory interface; None if unknown
    core_peermem: bool | None
    #: the GPU driver's version; None without one
    driver: str | None
    #: its kernel modules: ``open`` or ``proprietary``; None if unknown
    flavour: str | None
    #: CUDA's attribute CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED; None if unknown
    cuda_dmabuf: bool | None
    #: the module nvidia-peermem: ``absent``, ``stub``, ``stale``, ``built``, ``loaded``, or ``contained``: not loaded,
    #: and only available in the GPU driver's container
    module: str
    #: whether the kernel requires signed modules (Secure Boot's lockdown, ``module.sig_enforce``)
    enforced: bool
    #: whether nvidia-peermem is signed; None if unknown
    signed: bool | None


class Obstacle(t.NamedTuple):
    """A reason why a path is not possible, and its remedy. ``final``: software cannot remove it."""

    message: str
    remedy: str
    final: bool = False


class Choice(t.NamedTuple):
    """The best possible path. ``remedy``: empty if a path is possible."""

    path: str
    reason: str
    remedy: str
    #: the obstacles of ``dmabuf`` and of ``peermem``; empty for a possible path
    obstacles: t.Mapping[str, t.Sequence[Obstacle]]


def generation(device: int) -> str:
    """Return the generation of a GPU by its PCI device number."""
    last = GENERATIONS[0]
    for first, name in _DEVICES:
        if device >= first:
            last = name
    return last


def oldest(generations: t.Iterable[str]) -> str | None:
    """Return the oldest generation of a node's GPUs, which share one driver; None without GPUs."""
    return min(generations, key=GENERATIONS.index, default=None)


def version(text: str) -> tuple[int, ...]:
    """Return the leading numbers of a version: (5, 15, 0) for ``5.15.0-84-generic``."""
    match = re.match(r"\d+(?:\.\d+)*", text.strip())
    return tuple(int(part) for part in match.group().split(".")) if match else ()


def choose(inputs: Inputs) -> Choice:
    """Return DMA-BUF if possible, else nvidia-peermem if possible, else none. Without a path, the remedy is that of the
    path with the fewest obstacles.
    """
    obstacles = {DMABUF: dmabuf_obstacles(inputs), PEERMEM: peermem_obstacles(inputs)}
    if not obstacles[DMABUF]:
        return Choice(DMABUF, _why_dmabuf(inputs), "", obstacles)
    if not obstacles[PEERMEM]:
        reason = "%s; DMA-BUF is not possible: %s" % (_why_peermem(inputs), _messages(obstacles[DMABUF]))
        return Choice(PEERMEM, reason, "", obstacles)
    if obstacles[DMABUF] == obstacles[PEERMEM]:
        return Choice(NONE, _messages(obstacles[DMABUF]), _remedies(obstacles[DMABUF]), obstacles)

    def distance(path: str) -> tuple[bool, int]:
        return any(obstacle.final for obstacle in obstacles[path]), len(obstacles[path])

    nearest = min((DMABUF, PEERMEM), key=distance)
    reason = "; ".join(
        "%s is not possible: %s" % (WORDS[path], _messages(obstacles[path])) for path in (DMABUF, PEERMEM)
    )
    return Choice(NONE, reason, _remedies(obstacles[nearest]), obstacles)


def dmabuf_obstacles(inputs: Inputs) -> list[Obstacle]:
    """Return the reasons why DMA-BUF is not possible; empty if it is."""
    missing = _missing(inputs)
    if missing or inputs.driver is None or inputs.generation is None:
        return missing
    found = _architecture(inputs, "open kernel modules", DMABUF_ARCHITECTURES)
    if not found and _before(inputs.generation, FIRST_OPEN):
        message = "only the open kernel modules export DMA-BUF; they need Turing or later, and a GPU here is %s"
        found.append(Obstacle(message % inputs.generation.capitalize(), "use nvidia-peermem, or newer GPUs", True))
    elif not found:
        found += _driver_obstacles(inputs, inputs.driver)
    return found + kernel_obstacles(inputs)


def kernel_obstacles(inputs: Inputs) -> list[Obstacle]:
    """Return the reasons why the kernel and its RDMA core cannot import DMA-BUF."""
    found = []
    if inputs.shared_buffer is False:
        message = "the kernel %s is built without CONFIG_DMA_SHARED_BUFFER" % inputs.kernel
        found.append(Obstacle(message, "boot a kernel that has it, such as the distribution's own"))
    if inputs.core_dmabuf is False:
        message = "%s does not export %s, so NIC drivers cannot import DMA-BUF" % (core(inputs), EXPORT_DMABUF)
        remedy = "boot Linux 5.12 or later, or a distribution's kernel that has it, with the NIC driver built for it"
        found.append(Obstacle(message, remedy))
    elif inputs.core_dmabuf is None and version(inputs.kernel) < KERNEL_DMABUF:
        message = "the kernel %s is older than 5.12, the first with DMA-BUF for RDMA" % inputs.kernel
        found.append(Obstacle(message, "boot Linux 5.12 or later"))
    return found


def _driver_obstacles(inputs: Inputs, driver: str) -> list[Obstacle]:
    """Return the obstacles of the driver for GPUs that the open kernel modules support."""
    if version(driver) < DRIVER_DMABUF:
        message = "the GPU driver %s is older than 515 (CUDA 11.7), the first that exports DMA-BUF" % driver
        return [Obstacle(message, "install a driver of 515 or later with its open kernel modules")]
    if inputs.flavour == CLOSED:
        return [_closed(inputs)]
    if inputs.flavour is None:
        message = "whether the GPU driver %s has the open kernel modules is unknown" % driver
        return [Obstacle(message, "load the driver (modprobe nvidia), or install the tool modinfo (kmod)")]
    if inputs.cuda_dmabuf is False:
        message = "CUDA does not export DMA-BUF (CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED is 0)"
        return [Obstacle(message, "install libcuda and the kernel modules from one release of the driver, %s" % driver)]
    return []


def peermem_obstacles(inputs: Inputs) -> list[Obstacle]:
    """Return the reasons why nvidia-peermem is not possible; empty if it is."""
    missing = _missing(inputs)
    if missing or inputs.driver is None or inputs.generation is None:
        return missing
    found = _architecture(inputs, "nvidia-peermem", PEERMEM_ARCHITECTURES)
    if version(inputs.driver) < DRIVER_PEERMEM:
        message = "the GPU driver %s is older than 470, the first with nvidia-peermem" % inputs.driver
        found.append(Obstacle(message, "install a driver of 470 or later"))
    elif inputs.flavour == CLOSED and not _before(inputs.generation, OPEN_ONLY):
        found.append(_closed(inputs))
    if inputs.module == LOADED:
        return found
    if inputs.core_peermem is False or (inputs.core_peermem is None and inputs.stack == INBOX):
        # other obstacles of the module are not reported: it must be rebuilt after this one
        message = "%s does not export %s" % (core(inputs), EXPORT_PEERMEM)
        remedy = "install DOCA-OFED for the kernel %s, then the GPU driver again: nvidia-peermem is built against it"
        found.append(Obstacle(message, remedy % inputs.kernel))
    elif inputs.module == CONTAINED:
        message = "the GPU driver comes from a container, and its nvidia-peermem is not loaded"
        found.append(Obstacle(message, "set the GPU Operator's driver.rdma.enabled: true"))
    elif inputs.module in _MODULE:
        found.append(Obstacle(_MODULE[inputs.module] % inputs.kernel, _REBUILD % inputs.driver))
    if inputs.enforced and inputs.signed is False and inputs.module not in (ABSENT, CONTAINED):
        remedy = "sign the modules with an enrolled key (mokutil --import), as DKMS does with mok_signing_key, "
        remedy += "or use the distribution's signed modules"
        message = "the kernel requires signed modules (Secure Boot), and nvidia-peermem is not signed"
        found.append(Obstacle(message, remedy))
    return found


def _architecture(inputs: Inputs, product: str, supported: t.Sequence[str]) -> list[Obstacle]:
    if inputs.architecture in supported:
        return []
    message = "NVIDIA does not provide %s for %s" % (product, inputs.architecture)
    return [Obstacle(message, "use a server with one of %s" % ", ".join(supported), True)]


_MODULE = {
    ABSENT: "nvidia-peermem is missing for the kernel %s",
    STUB: "nvidia-peermem for the kernel %s was built without a peer memory interface, and only refuses to load"
    " (Invalid argument)",
    STALE: "nvidia-peermem for the kernel %s was built against another RDMA core than the installed one, so the kernel"
    " refuses it (Invalid argument)",
}
_REBUILD = (
    "rebuild the GPU driver's modules after the NIC driver: dkms remove and dkms install nvidia/%s, or reinstall its"
    " package"
)


def _missing(inputs: Inputs) -> list[Obstacle]:
    """Return the missing requirements of both paths. If any is missing, other obstacles are not reported."""
    if inputs.generation is None:
        return [Obstacle("the node does not have an NVIDIA GPU", "set path none for a node without GPUs")]
    found = []
    if inputs.driver is None:
        found.append(Obstacle("the NVIDIA driver is not installed", "install it, or use the GPU Operator"))
    return found + missing_core(inputs)


def missing_core(inputs: Inputs) -> list[Obstacle]:
    """Return the missing RDMA core; empty if it exists."""
    found = []
    if inputs.stack is None:
        message = "the RDMA core (ib_core) is missing for the kernel %s" % inputs.kernel
        remedy = "install the NIC driver, or the distribution's package with its InfiniBand modules"
        found.append(Obstacle(message, remedy))
    return found


def _closed(inputs: Inputs) -> Obstacle:
    if inputs.generation and not _before(inputs.generation, OPEN_ONLY):
        message = "GPUs from Blackwell on require the open kernel modules, and those of the driver %s are proprietary"
    else:
        message = "the proprietary kernel modules of the GPU driver %s cannot export DMA-BUF"
    return Obstacle(message % inputs.driver, "install the open kernel modules of the same driver")


def _before(generation: str, limit: str) -> bool:
    return GENERATIONS.index(generation) < GENERATIONS.index(limit)


def core(inputs: Inputs) -> str:
    """Return the name of the RDMA core for messages."""
    if inputs.stack == OFED:
        return "the RDMA core of OFED%s" % (" " + inputs.stack_version if inputs.stack_version else "")
    return "the inbox RDMA core of the kernel %s" % inputs.kernel


def _why_dmabuf(inputs: Inputs) -> str:
    return "the open kernel modules of the GPU driver %s export DMA-BUF, and %s imports it" % (
        inputs.driver,
        core(inputs),
    )


def _why_peermem(inputs: Inputs) -> str:
    if inputs.module == LOADED:
        return "nvidia-peermem is loaded"
    return "%s has the peer memory interface, and nvidia-peermem is built against it" % core(inputs)


def _messages(obstacles: t.Sequence[Obstacle]) -> str:
    return "; ".join(each.message for each in obstacles)


def _remedies(obstacles: t.Sequence[Obstacle]) -> str:
    return "; ".join(each.remedy for each in obstacles)
