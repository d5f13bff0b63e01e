# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The value of ``NCCL_IB_HCA``: ports of RDMA devices, with rail and plane.

Source: NCCL 2.30.7, docs/userguide/source/env.rst (NCCL_IB_HCA), src/misc/utils.cc (parseStringList) and
src/misc/param.cc (setEnvFile), read on 2026-11-29.
"""

from __future__ import annotations

import typing as t

VARIABLE = "NCCL_IB_HCA"
# The first version with rail and plane in an entry, and with the merge policy.
RAIL_VERSION = (2, 30, 5)
# Bytes of a value in /etc/nccl.conf. NCCL ignores the rest of a longer value.
MAX_VALUE = 1023


class HcaPort(t.NamedTuple):
    """A port of an RDMA device. ``port``: its number; None: every port of the device. ``rail``, ``plane``: numbers from
    0; None: not assigned.
    """

    device: str
    port: int | None = None
    rail: int | None = None
    plane: int | None = None

    @property
    def entry(self) -> str:
        """The entry of the port: the device, and as many fields as are set. A field before a set one can be empty."""
        fields = ["" if number is None else "%d" % number for number in self[1:]]
        return ":".join([self.device, *fields]).rstrip(":")


def settings(ports: t.Sequence[HcaPort], vfs: bool = False) -> dict[str, str]:
    """Return NCCL's settings for exactly these ports, in their order. Without ports, NCCL selects them itself.

    :param vfs: the devices are VFs. NCCL connects the planes of two merged devices by the order of their PCI addresses,
        which for VFs can differ between nodes (NVIDIA/nccl pull request 2244). It never connects planes that are
        devices of their own.
    """
    if not ports:
        return {}
    # Without "=", NCCL would compare prefixes: mlx5_1 would select mlx5_10 as well.
    found = {VARIABLE: "=" + ",".join(dict.fromkeys(port.entry for port in ports))}
    if any(port.rail is not None for port in ports):
        found["NCCL_NET_MERGE_POLICY"] = "RAIL"
    if vfs and any(port.plane is not None for port in ports):
        found["NCCL_IB_MERGE_NICS"] = "0"
    return found


def read(text: str) -> list[HcaPort]:
    """Return the ports of a value as NCCL from 2.30.5 reads them; empty for a value that does not name devices exactly.

    A field that is not a number is None.
    """
    if not text.startswith("="):
        return []
    found = []
    for entry in text[1:].split(","):
        device, *fields = entry.split(":")
        if device:
            numbers = [int(field) if field.isascii() and field.isdigit() else None for field in fields[:3]]
            found.append(HcaPort(device, *numbers))
    return found
