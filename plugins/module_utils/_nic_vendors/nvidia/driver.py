# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""MLNX_OFED, and DOCA-OFED, which contains it. Pure data.

A combination of release and distribution that is missing here may work. Sources:

- ``published`` was checked on 2026-11-21 and 2026-11-22: by the name of a published package or repository of that
  release, as public build scripts and instructions use them; Debian of 5.8 and 23.10 by the vendor's pages (General
  Support of MLNX_OFED 5.8-1.0.1.1, Changes and New Features of 23.10-3.2.1.1); Ubuntu 18.04 and RHEL 9 of 5.8, and
  RHEL 10 of 26.04, by its release notes of GPUDirect Storage (MLNX_OFED/DOCA and File System Requirements); RHEL 8 of
  25.01 to 25.10, Ubuntu 22.04, RHEL 8 and 9 of 26.04 by its list of driver images for each release
  (https://github.com/Mellanox/network-operator-docs, docs/advanced/images-sha256.rst).
- ``unconfirmed`` is from the vendor's lists (MLNX_OFED 24.04 and 24.07, DOCA 2.9 to 3.4), and no package was found on
  these days. Such a combination is accepted with a warning. The vendor's Changes and New Features of DOCA 2.9.4 limit
  Debian 10 with 24.10 to arm64 with a kernel 5.15.
- ``built_on_node``: the vendor's General Support page of DOCA 3.2.1.
"""

from __future__ import annotations

import re

from ansible_collections.railyard.fabric.plugins.module_utils._nic_vendors.protocol.vendor_driver import (
    DriverKind,
    Releases,
    VendorDriver,
)

# DOCA's release -> the OFED that it contains.
TRAINS = {
    "2.5": "23.10",
    "2.6": "24.01",
    "2.7": "24.04",
    "2.8": "24.07",
    "2.9": "24.10",
    "2.10": "25.01",
    "3.0": "25.04",
    "3.1": "25.07",
    "3.2": "25.10",
    "3.3": "26.01",
    "3.4": "26.04",
}
DOCA = DriverKind(
    "doca",
    ("doca-ofed",),
    re.compile(r"doca-(ofed|all|networking|roce|host-basic)$"),
    (".deb", ".rpm"),
    re.compile(
        r"doca-host[_-](?P<release>\d+\.\d+\.\d+)[-_][0-9]+[-_](\d+\.\d+)[-_](?P<distribution>[a-z]+[0-9]+)[._]"
        r"(?P<architecture>\w+)\.(?:deb|rpm)$"
    ),
    TRAINS,
)
MLNX = DriverKind(
    "mlnx",
    ("mlnx-ofed-all",),
    re.compile(r"mlnx-ofed-(all|basic|dpdk|guest|hpc|hypervisor|kernel-only|vma|eth-only|dkms-only)(-exact)?$"),
    (".iso", ".tgz", ".tar.gz"),
    re.compile(
        r"MLNX_OFED(?:_LINUX)?-(?P<release>\d+\.\d+-[0-9.]+)-(?P<distribution>[a-z]+[0-9.]+)[-.]?"
        r"(?P<architecture>[a-z0-9_]+)?(?:-ext)?\.(?:iso|tgz|tar\.gz)$"
    ),
)
# Modules that are compared with those on disk while they are loaded.
COMPARED = ("ib_core", "mlx5_core", "mlx5_ib", "ib_uverbs", "rdma_cm")


class Ofed(VendorDriver):
    stack = "ofed"
    title = "OFED"
    pci_vendor = "15b3"
    kinds = (DOCA, MLNX)
    # rdma-core 2410mlnx54-1.2410068, knem 1.1.4.90mlnx3-OFED.23.10.0.2.1.1 and ucx 1.18.0-1.2410068 are the vendor's.
    # The firmware tools (mft) do not belong to the driver.
    names = re.compile(r"(doca-|mlnx-|mlnx_|ofed-scripts$|kmod-mlnx)")
    marks = re.compile(r"mlnx\d|OFED|MLNX|[.-](?:2[3-9]\d{5}|58\d{5})(?:\D|$)")
    kernel_part = re.compile(r"(mlnx-ofed-kernel|kmod-mlnx-ofa_kernel|mlnx-ofa_kernel)")
    kernel_part_kind = "mlnx"
    module = "mlx5_core"
    marker = "mlx_compat"
    drivers = ("mlx5_core", "mlx4_core")
    compared = COMPARED
    modules = frozenset(
        (
            *COMPARED, "ib_cm", "iw_cm", "ib_umad", "ib_ucm", "rdma_ucm", "ib_ipoib", "mlx4_core", "mlx4_en", "mlx4_ib",
            "mlx5_vdpa", "mlx5_fwctl", "mlxdevm", "mlxfw", "mlx_compat", "knem", "mst_pci", "mst_pciconf",
        )
    )  # fmt: skip
    service = "openibd"
    # Without this, the package mlnx-fw-updater burns the firmware of cards while it is installed.
    environment = ("RUN_FW_UPDATER=no",)
    checked = "2026-11-22"
    published: Releases = {
        "5.8": frozenset(
            ("ubuntu18.04", "ubuntu20.04", "ubuntu22.04", "debian9", "debian10", "debian11", "rhel7", "rhel8", "rhel9")
        ),
        "23.10": frozenset(("ubuntu20.04", "ubuntu22.04", "debian12", "rhel8", "rhel9")),
        "24.01": frozenset(("ubuntu20.04", "ubuntu22.04", "rhel8", "rhel9")),
        "24.04": frozenset(("ubuntu22.04", "ubuntu24.04", "rhel9")),
        "24.07": frozenset(("ubuntu22.04", "ubuntu24.04", "rhel9")),
        "24.10": frozenset(("ubuntu20.04", "ubuntu22.04", "ubuntu24.04", "debian12", "rhel8", "rhel9")),
        "25.01": frozenset(("ubuntu22.04", "ubuntu24.04", "rhel8", "rhel9")),
        "25.04": frozenset(("ubuntu22.04", "ubuntu24.04", "rhel8", "rhel9")),
        "25.07": frozenset(("ubuntu20.04", "ubuntu22.04", "ubuntu24.04", "debian12", "rhel8", "rhel9", "rhel10")),
        "25.10": frozenset(("ubuntu22.04", "ubuntu24.04", "debian13", "rhel8", "rhel9", "rhel10")),
        "26.01": frozenset(("ubuntu22.04", "ubuntu24.04", "debian13", "rhel8", "rhel9", "rhel10")),
        "26.04": frozenset(("ubuntu22.04", "ubuntu24.04", "ubuntu26.04", "rhel8", "rhel9", "rhel10")),
    }
    unconfirmed: Releases = {
        "24.04": frozenset(("rhel8",)),
        "24.07": frozenset(("rhel8",)),
        "24.10": frozenset(("debian10",)),
        "25.01": frozenset(("debian12",)),
        "25.04": frozenset(("debian12",)),
        "25.10": frozenset(("debian12",)),
        "26.01": frozenset(("debian12",)),
        "26.04": frozenset(("debian12",)),
    }
    built_on_node = (25, 10)


OFED = Ofed()
