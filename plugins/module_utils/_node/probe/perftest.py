# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Programs of perftest: their arguments for a rail port.

RDMA is tested with ``ib_write_bw`` with the rail's device and the GID of the rail's address, whose index is read from
sysfs each time, because it is not fixed. InfiniBand ports do not need addresses: data is sent to LIDs, and the two ends
exchange the parameters of the connection at the nodes' management addresses (:mod:`probe_rendezvous`).
"""

from __future__ import annotations

import ipaddress
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.probe import probe_rendezvous
from ansible_collections.railyard.fabric.plugins.module_utils._node.readers import amd_gpus, pci_functions

PROGRAM = "ib_write_bw"
LATENCY = "ib_write_lat"
# Two bytes, which is the tool's default: the latency of the path without load.
LATENCY_SIZES = ("-s", "2", "-n", "1000")
# Time that a queue pair waits for an acknowledgement before each of 7 retries: 4.096 us * 2 ** 17 = 0.54 s. The tool's
# default of 67 ms fails on nodes that are busy for half a second. NCCL waits 4.3 s.
QP_TIMEOUT = ("-u", "17")
Options = t.Mapping[str, t.Any]


def port_numbers(system: System, device: str) -> list[int]:
    return sorted(int(name) for name in system.listdir("/sys/class/infiniband/%s/ports" % device) if name.isdigit())


def gid_place(system: System, device: str, address: str, number: int | None = None) -> tuple[int, int] | None:
    """Return the port number, and the index in its GID table, of the RoCE v2 GID of an address; None without one.

    Each port of a device has a table, with the GIDs of its netdev and of the VLANs and the bond above it.

    :param number: of the port whose table is read; None: those of all ports.
    """
    parsed = ipaddress.ip_address(address)
    ipv6 = parsed if parsed.version == 6 else ipaddress.ip_address("::ffff:%s" % address)
    # the form of sysfs; str() of Python 3.13 writes the last 32 bits of an IPv4-mapped address as an IPv4 address
    gid = ipv6.packed.hex(":", 2)
    for each in port_numbers(system, device) if number is None else [number]:
        port = "/sys/class/infiniband/%s/ports/%d" % (device, each)
        for index in sorted(int(name) for name in system.listdir(port + "/gids") if name.isdigit()):
            # the GID is read first, because the type of an empty entry cannot be read
            same = system.read("%s/gids/%d" % (port, index)) == gid
            if same and system.read("%s/gid_attrs/types/%d" % (port, index)) == "RoCE v2":
                return each, index
    return None


def device_with_address(system: System, address: str) -> str | None:
    """Return the RDMA device whose GID table has the address, or None."""
    for device in system.listdir("/sys/class/infiniband"):
        if gid_place(system, device, address):
            return device
    return None


def device_arguments(system: System, port: Options, address: str | None) -> list[str]:
    """Return the arguments of perftest that select the device, its port, and on Ethernet the GID.

    On a device with several ports, they select the planned port (``rdma_port``), or without it the port whose GID
    table has the address of the rail's netdev.

    :raises RailyardError: if the port does not have an RDMA device, or the device has neither this port nor the GID.
    """
    device = (
        port["device"] or (device_with_address(system, address) if address else None) or _device_of_port(system, port)
    )
    if device is None or not system.exists("/sys/class/infiniband/%s" % device):
        message = "there is no RDMA device %s" % device if device else "there is no RDMA device of the port"
        if not device and address:
            message = "no RDMA device has a GID for %s" % address
        raise RailyardError(message, str(port["rail"]), "run the hosts playbook first")
    planned, numbers = port.get("rdma_port"), port_numbers(system, device)
    if planned and planned not in numbers:
        found = ", ".join(map(str, numbers)) or "none"
        raise RailyardError(
            "%s has no port %d; its ports are: %s" % (device, planned, found),
            str(port["rail"]),
            "correct rdma of the port in the fabric file; 'rdma link show' lists the ports",
        )
    number = planned or _port_number(system, device, port)
    gid = None
    if system.read("/sys/class/infiniband/%s/ports/%d/link_layer" % (device, number)) != "InfiniBand":
        if not address:
            raise RailyardError(
                "%s is an Ethernet device, whose GIDs are made from addresses, and the port does not have one" % device,
                str(port["rail"]),
                "plan addresses for the rail's hosts",
            )
        gid = gid_place(system, device, address, planned)
        if gid is None:
            raise _no_gid(system, device, address, port)
        number = gid[0]
    arguments = ["-d", device, *(["-i", str(number)] if number != 1 else []), *(["-x", str(gid[1])] if gid else [])]
    return [*arguments, *QP_TIMEOUT]


def _no_gid(system: System, device: str, address: str, port: Options) -> RailyardError:
    message = "%s has no RoCE v2 GID for %s" % (device, address)
    remedy = "check with 'ip addr' that the device's netdev has the address and is up"
    if not port.get("rdma_port"):
        return RailyardError(message, str(port["rail"]), remedy)
    planned = int(port["rdma_port"])
    other = gid_place(system, device, address)
    message = "port %d of %s" % (planned, message)
    if other:
        message += "; its port %d has it" % other[0]
        remedy = "correct the port of rdma in the fabric file, or move the address to the netdev of port %d" % planned
    return RailyardError(message, str(port["rail"]), remedy)


def _device_of_port(system: System, port: Options) -> str | None:
    """Return the RDMA device of the port's PCI function or of its netdev's device, or None."""
    directories = []
    if port.get("pci"):
        directories.append("/sys/bus/pci/devices/%s/infiniband" % port["pci"])
    if port.get("netdev"):
        directories.append("/sys/class/net/%s/device/infiniband" % port["netdev"])
    return next((names[0] for names in map(system.listdir, directories) if names), None)


def _port_number(system: System, device: str, port: Options) -> int:
    """Return the number of a rail port on its RDMA device, from 1. The ``dev_port`` of an IPoIB netdev starts at 0."""
    numbers = port_numbers(system, device)
    port_number = system.read("/sys/class/net/%s/dev_port" % port["netdev"]) if port.get("netdev") else None
    number = int(port_number) + 1 if port_number and port_number.isdigit() else 1
    return number if number in numbers else 1


def program_path(system: System, name: str = PROGRAM) -> str:
    """Return the path of a program of perftest. Raises :class:`RailyardError` if it is not installed."""
    program = system.which(name)
    if program is None:
        raise RailyardError("%s is not installed" % name, "perftest", "install the package perftest on the node")
    return program


def gpu_memory(system: System, program: str, port: Options) -> list[str]:
    """Return the arguments of perftest for data in the memory of the port's GPU.

    Empty without a GPU, or if perftest was built without CUDA or, for GPUs of AMD, without ROCm or amdkfd. Without
    peer memory, DMA-BUF is used.
    """
    if not port.get("gpu"):
        return []
    known = probe_rendezvous.help_text(system, program)
    if pci_functions.hexadecimal(system, port["gpu"], "vendor") == pci_functions.AMD:
        number = amd_gpus.numbers(system).get(port["gpu"])
        if "--use_rocm=" not in known or number is None:
            return []
        dmabuf = "--use_rocm_dmabuf" in known and not amd_gpus.has_peer_memory(system)
        return ["--use_rocm=%d" % number, *(["--use_rocm_dmabuf"] if dmabuf else [])]
    if "--use_cuda_bus_id" not in known:
        return []
    dmabuf = "--use_cuda_dmabuf" in known and not system.exists("/sys/module/nvidia_peermem")
    return ["--use_cuda_bus_id=%s" % port["gpu"], *(["--use_cuda_dmabuf"] if dmabuf else [])]


def sizes(options: Options) -> list[str]:
    """Return the arguments for the size of a write, and for the number of writes or, with ``seconds``, their time."""
    length = ["-D", str(options["seconds"])] if options.get("seconds") else ["-n", str(options["iterations"])]
    return ["-s", str(options["size"]), *length]


def traffic_class(system: System, program: str, target: Options) -> list[str]:
    """Return the arguments that give packets the planned traffic class (``tclass``): DSCP and ECN bits."""
    known = target.get("tclass") is not None and "--tclass" in probe_rendezvous.help_text(system, program)
    return ["--tclass=%d" % target["tclass"]] if known else []
