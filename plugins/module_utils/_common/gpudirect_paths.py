# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""How GPU memory can reach the NIC: DMA-BUF, nvidia-peermem or not at all, and why. Values in, values out.

DMA-BUF is the kernel's own way and the one that NVIDIA recommends: the GPU driver exports memory (its open kernel
modules alone can, because ``dma_buf_export`` is for GPL modules), and the RDMA core imports it (Linux 5.12 and later).
nvidia-peermem registers with the RDMA core's peer memory interface, which DOCA-OFED, MLNX_OFED and some distributions'
kernels have, and which the driver must find when the module is built. Sources: the kernel's
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

# What became of the module nvidia-peermem.
ABSENT = "absent"
STUB = "stub"
STALE = "stale"
BUILT = "built"
LOADED = "loaded"
CONTAINED = "contained"

#: GPU generations in the order of their coming, told by PCI device number.
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
# Turing is the first whose firmware the open kernel modules can talk to; Blackwell the first that only they can.
FIRST_OPEN = "turing"
OPEN_ONLY = "blackwell"
# First PCI device number of each run of numbers; what is below the first is Kepler or older.
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
    """What the choice is made from."""

    #: of the node's oldest GPU; None where there is no NVIDIA GPU
    generation: str | None
    #: as ``uname -m`` says it
    architecture: str
    #: the running kernel's release
    kernel: str
    #: ``CONFIG_DMA_SHARED_BUFFER``; None where no configuration is at hand
    shared_buffer: bool | None
    #: whose RDMA core it is: ``inbox``, ``ofed`` (MLNX_OFED and DOCA-OFED); None where there is none
    stack: str | None
    #: its version, for people
    stack_version: str | None
    #: whether it exports what NIC drivers import DMA-BUF with; None where nothing says so
    core_dmabuf: bool | None
    #: whether it exports the peer memory interface; None where nothing says so
    core_peermem: bool | None
    #: the GPU driver's version; None where there is none
    driver: str | None
    #: its kernel modules: ``open`` or ``proprietary``; None where nothing says which
    flavour: str | None
    #: what CUDA says of DMA-BUF (CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED); None where nobody asked
    cuda_dmabuf: bool | None
    #: the module nvidia-peermem: ``absent``, ``stub``, ``stale``, ``built``, ``loaded``, or ``contained``: not loaded,
    #: and, as the GPU driver is in a container, out of the host's reach
    module: str
    #: whether the kernel loads signed modules alone (Secure Boot's lockdown, ``module.sig_enforce``)
    enforced: bool
    #: whether nvidia-peermem is signed; None where nothing says so
    signed: bool | None


class Obstacle(t.NamedTuple):
    """What stands in one way, and what takes it out of the way; ``final`` where no software does."""

    message: str
    remedy: str
    final: bool = False


class Choice(t.NamedTuple):
    """``path`` is possible, unless it is ``none``; ``remedy`` is empty where there is nothing to mend."""

    path: str
    reason: str
    remedy: str
    #: what stands in the way of ``dmabuf`` and of ``peermem``; empty for a way that is open
    obstacles: t.Mapping[str, t.Sequence[Obstacle]]


def generation(device: int) -> str:
    """A GPU's generation by its PCI device number."""
    found = GENERATIONS[0]
    for first, name in _DEVICES:
        if device >= first:
            found = name
    return found


def oldest(generations: t.Iterable[str]) -> str | None:
    """The oldest of a node's GPUs: one driver serves them all."""
    return min(generations, key=GENERATIONS.index, default=None)


def version(text: str) -> tuple[int, ...]:
    """The numbers that a version begins with: ``5.15.0-84-generic`` is (5, 15, 0)."""
    match = re.match(r"\d+(?:\.\d+)*", text.strip())
    return tuple(int(part) for part in match.group().split(".")) if match else ()


def choose(inputs: Inputs) -> Choice:
    """DMA-BUF where it can be, else nvidia-peermem where it can be, else none."""
    found = {DMABUF: dmabuf_obstacles(inputs), PEERMEM: peermem_obstacles(inputs)}
    if not found[DMABUF]:
        return Choice(DMABUF, _why_dmabuf(inputs), "", found)
    if not found[PEERMEM]:
        reason = "%s; DMA-BUF is not possible: %s" % (_why_peermem(inputs), _messages(found[DMABUF]))
        return Choice(PEERMEM, reason, "", found)
    nearer = min((DMABUF, PEERMEM), key=lambda way: (any(each.final for each in found[way]), len(found[way])))
    if found[DMABUF] == found[PEERMEM]:
        return Choice(NONE, _messages(found[DMABUF]), _remedies(found[DMABUF]), found)
    reason = "; ".join("%s is not possible: %s" % (WORDS[way], _messages(found[way])) for way in (DMABUF, PEERMEM))
    return Choice(NONE, reason, _remedies(found[nearer]), found)


def dmabuf_obstacles(inputs: Inputs) -> list[Obstacle]:
    """What stands in the way of DMA-BUF."""
    missing = _missing(inputs)
    if missing or inputs.driver is None or inputs.generation is None:
        return missing
    found = []
    if inputs.architecture not in DMABUF_ARCHITECTURES:
        found.append(
            Obstacle(
                "NVIDIA has no open kernel modules for %s" % inputs.architecture,
                "use a server with one of %s" % ", ".join(DMABUF_ARCHITECTURES),
                True,
            )
        )
    elif _before(inputs.generation, FIRST_OPEN):
        found.append(
            Obstacle(
                "the open kernel modules, which alone export DMA-BUF, begin with Turing, and a GPU here is %s"
                % inputs.generation.capitalize(),
                "take nvidia-peermem, or newer GPUs",
                True,
            )
        )
    else:
        found += _driver_obstacles(inputs)
    if inputs.shared_buffer is False:
        found.append(
            Obstacle(
                "the kernel %s is built without CONFIG_DMA_SHARED_BUFFER" % inputs.kernel,
                "boot a kernel that has it, such as the distribution's own",
            )
        )
    if inputs.core_dmabuf is False:
        found.append(
            Obstacle(
                "%s exports no %s, so no NIC driver can import DMA-BUF" % (_core(inputs), EXPORT_DMABUF),
                "boot Linux 5.12 or later, or a distribution's kernel that has it, with the NIC driver built for it",
            )
        )
    elif inputs.core_dmabuf is None and version(inputs.kernel) < KERNEL_DMABUF:
        found.append(
            Obstacle(
                "the kernel %s is older than 5.12, with which DMA-BUF came to RDMA" % inputs.kernel,
                "boot Linux 5.12 or later",
            )
        )
    return found


def _driver_obstacles(inputs: Inputs) -> list[Obstacle]:
    """For GPUs that the open kernel modules serve."""
    driver = str(inputs.driver)
    if version(driver) < DRIVER_DMABUF:
        return [
            Obstacle(
                "the GPU driver %s is older than 515 (CUDA 11.7), which first exports DMA-BUF" % driver,
                "install a driver of 515 or later with its open kernel modules",
            )
        ]
    if inputs.flavour == CLOSED:
        return [_closed(inputs)]
    if inputs.flavour is None:
        return [
            Obstacle(
                "whether the kernel modules of the GPU driver %s are the open ones cannot be told" % driver,
                "load the driver (modprobe nvidia), or install the tool modinfo (kmod)",
            )
        ]
    if inputs.cuda_dmabuf is False:
        return [
            Obstacle(
                "CUDA says that it exports no DMA-BUF (CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED is 0)",
                "have libcuda and the kernel modules from one release of the driver, %s" % driver,
            )
        ]
    return []


def peermem_obstacles(inputs: Inputs) -> list[Obstacle]:
    """What stands in the way of nvidia-peermem."""
    missing = _missing(inputs)
    if missing or inputs.driver is None or inputs.generation is None:
        return missing
    found = []
    if inputs.architecture not in PEERMEM_ARCHITECTURES:
        found.append(
            Obstacle(
                "NVIDIA has no nvidia-peermem for %s" % inputs.architecture,
                "use a server with one of %s" % ", ".join(PEERMEM_ARCHITECTURES),
                True,
            )
        )
    if version(inputs.driver) < DRIVER_PEERMEM:
        found.append(
            Obstacle(
                "the GPU driver %s is older than 470, with which nvidia-peermem came" % inputs.driver,
                "install a driver of 470 or later",
            )
        )
    elif inputs.flavour == CLOSED and not _before(inputs.generation, OPEN_ONLY):
        found.append(_closed(inputs))
    if inputs.module == LOADED:
        return found
    if inputs.core_peermem is False or (inputs.core_peermem is None and inputs.stack == INBOX):
        # also where the module was built for none or for another: it must be built anew in any case
        found.append(
            Obstacle(
                "%s exports no %s" % (_core(inputs), EXPORT_PEERMEM),
                "install DOCA-OFED for the kernel %s, then the GPU driver again: nvidia-peermem is built against it"
                % inputs.kernel,
            )
        )
    elif inputs.module == CONTAINED:
        found.append(
            Obstacle(
                "the GPU driver comes from a container, and nvidia-peermem with it is not loaded",
                "set the GPU Operator's driver.rdma.enabled: true",
            )
        )
    elif inputs.module in _MODULE:
        found.append(Obstacle(_MODULE[inputs.module] % inputs.kernel, _REBUILD % inputs.driver))
    if inputs.enforced and inputs.signed is False and inputs.module not in (ABSENT, CONTAINED):
        found.append(
            Obstacle(
                "the kernel loads signed modules alone (Secure Boot), and nvidia-peermem is not signed",
                "sign the driver's modules with a key that is enrolled (mokutil --import), as DKMS does with"
                " mok_signing_key, or take the distribution's signed ones",
            )
        )
    return found


_MODULE = {
    ABSENT: "nvidia-peermem is not there for the kernel %s",
    STUB: "nvidia-peermem for the kernel %s was built where no peer memory interface was found, and does nothing but"
    " refuse to load (Invalid argument)",
    STALE: "nvidia-peermem for the kernel %s was built against another RDMA core than the one installed, and the"
    " kernel refuses it (Invalid argument)",
}
_REBUILD = (
    "build the GPU driver's modules anew after the NIC driver: dkms remove and dkms install nvidia/%s, or its package"
    " again"
)


def _missing(inputs: Inputs) -> list[Obstacle]:
    """What neither way can do without; then there is nothing more to say."""
    if inputs.generation is None:
        return [Obstacle("there is no NVIDIA GPU", "want path none where a node has no GPU")]
    found = []
    if inputs.driver is None:
        found.append(Obstacle("the NVIDIA driver is not installed", "install it, or have the GPU Operator do so"))
    if inputs.stack is None:
        found.append(
            Obstacle(
                "there is no RDMA core (ib_core) for the kernel %s" % inputs.kernel,
                "install the NIC driver, or the distribution's package with its InfiniBand modules",
            )
        )
    return found


def _closed(inputs: Inputs) -> Obstacle:
    if inputs.generation and not _before(inputs.generation, OPEN_ONLY):
        message = "GPUs from Blackwell on work with the open kernel modules alone, and those of the driver %s are not"
    else:
        message = "the proprietary kernel modules of the GPU driver %s cannot export DMA-BUF"
    return Obstacle(message % inputs.driver, "install the open kernel modules of the same driver")


def _before(one: str, other: str) -> bool:
    return GENERATIONS.index(one) < GENERATIONS.index(other)


def _core(inputs: Inputs) -> str:
    if inputs.stack == OFED:
        return "the RDMA core of OFED%s" % (" " + inputs.stack_version if inputs.stack_version else "")
    return "the inbox RDMA core of the kernel %s" % inputs.kernel


def _why_dmabuf(inputs: Inputs) -> str:
    return "the open kernel modules of the GPU driver %s export DMA-BUF, and %s imports it" % (
        inputs.driver,
        _core(inputs),
    )


def _why_peermem(inputs: Inputs) -> str:
    if inputs.module == LOADED:
        return "nvidia-peermem is loaded"
    return "%s has the peer memory interface, and nvidia-peermem is built against it" % _core(inputs)


def _messages(obstacles: t.Sequence[Obstacle]) -> str:
    return "; ".join(each.message for each in obstacles)


def _remedies(obstacles: t.Sequence[Obstacle]) -> str:
    return "; ".join(each.remedy for each in obstacles)
