# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""One guest: the machine that QEMU makes of it.

Rail n's NIC is an igb physical function behind a root port in device slot n of the root bus. The firmware numbers buses
in the order of slots, so that function is always ``0000:0n:00.0`` (n in hexadecimal), however many rails there are.
"""

from __future__ import annotations

import shlex
import sys
import uuid
from pathlib import Path

from lab import process
from lab.image import Image
from lab.qemu import Qemu
from lab.qmp import monitor_socket
from lab.state import CLUSTER, Lab, node_name

LAN_SLOT, RNG_SLOT, DISK_SLOT, MANAGEMENT_SLOT = 0x1B, 0x1C, 0x1D, 0x1E
LAN_NETDEV = "enp0s27"
# For busy hosts. no_timer_check: an emulated timer fails the kernel's test of it at boot, and the guest stops there.
# event_timeout, in seconds: the default of 180 ends the events of slow guests, and their netdevs keep kernel names.
KERNEL_ARGUMENTS = (
    "root=/dev/vda ro console=ttyS0 quiet panic=10 mitigations=off apparmor=0 audit=0 tsc=reliable"
    " no_timer_check udev.event_timeout=900"
)
# Linux 7 watches memory accesses by itself, which takes a tenth of an emulated processor.
NODE_ARGUMENTS = " damon_stat.enabled=0 selinux=0"
API_ADDRESS, API_PORT, KUBELET_PORT = "10.0.2.100", 6443, 10250
PIPE = Path(__file__).resolve().parent / "cluster" / "pipe.py"


def rail_pci(rail: int) -> str:
    """The PCI address of a rail's physical function."""
    return "0000:%02x:00.0" % rail


def rail_netdev(rail: int) -> str:
    """The name that udev gives a rail's interface (it writes the bus in decimal)."""
    return "enp%ds0" % rail


def mac(node: int, rail: int) -> str:
    """The address of a rail port's NIC; rail 0 is management."""
    return "52:54:00:4c:%02x:%02x" % (node, rail)


def management_address(node: int) -> str:
    """The node's address inside its own closed user network, of which 10.0.2.2 is the gateway."""
    return "10.0.2.%d" % (10 + node)


def lan_address(node: int) -> str:
    """The node's address in the network of a cluster's nodes."""
    return "10.77.0.%d" % (10 + node)


# What an emulated processor leaves out: what is for guests of its own or very large machines, what a program takes for
# fast and is emulated byte by byte (AVX, "rep movsb"), and what every copy between kernel and program then pays for.
_SLOW = ("svm", "la57", "avx", "avx2", "xsave", "erms", "fsrm", "smap")


def processor(accel: str) -> list[str]:
    """Accelerator and processor model."""
    if accel == "kvm":
        return ["-accel", "kvm", "-cpu", "host"]
    return ["-accel", "tcg,thread=multi,tb-size=256", "-cpu", ",-".join(("max", *_SLOW))]


def command(lab: Lab, node: int, image: Image, qemu: Qemu) -> list[str]:
    """The command line of one guest; a pure function of the lab."""
    name = node_name(node)
    kernel = "%s systemd.hostname=%s systemd.machine_id=%s" % (
        KERNEL_ARGUMENTS + (NODE_ARGUMENTS if lab.cluster else ""),
        name,
        uuid.uuid5(uuid.NAMESPACE_DNS, "%s.%s.railyard.lab" % (name, lab.name)).hex,
    )
    argv = [
        qemu.system,
        *qemu.arguments,
        "-name",
        "guest=railyard-%s-%s" % (lab.name, name),
        "-nodefaults",
        "-no-user-config",
        "-display",
        "none",
        "-machine",
        "q35,sata=off,smbus=off",
        *processor(lab.accel),
        "-smp",
        str(lab.cpus),
        "-m",
        str(lab.memory),
        "-rtc",
        "base=utc",
        "-kernel",
        str(image.kernel),
        "-initrd",
        str(image.initrd),
        "-append",
        kernel,
        "-drive",
        "if=none,id=root,format=qcow2,cache=unsafe,discard=unmap,file=%s" % _escaped(lab.disk(node)),
        "-device",
        "virtio-blk-pci,drive=root,bus=pcie.0,addr=0x%x" % DISK_SLOT,
        "-device",
        "virtio-rng-pci,bus=pcie.0,addr=0x%x" % RNG_SLOT,
        # restrict=on: a guest reaches nothing beyond its own host-side process.
        "-netdev",
        ",".join(("user,id=management,restrict=on", *_management(lab, node))),
        "-device",
        "virtio-net-pci,netdev=management,bus=pcie.0,addr=0x%x,romfile=,mac=%s" % (MANAGEMENT_SLOT, mac(node, 0)),
        "-serial",
        "file:%s" % lab.console(node),
        "-qmp",
        "unix:%s,server=on,wait=off" % _escaped(monitor_socket(lab.run, node)),
    ]
    if lab.cluster:
        lan = "virtio-net-pci,netdev=rail%d,bus=pcie.0,addr=0x%x,romfile=,mac=%s"
        argv += ["-netdev", _cable(lab, node, lab.leaves)]
        argv += ["-device", lan % (lab.leaves, LAN_SLOT, mac(node, lab.leaves))]
    for rail in range(1, lab.rails + 1):
        argv += [
            "-netdev",
            _cable(lab, node, rail),
            "-device",
            "pcie-root-port,id=port%d,bus=pcie.0,addr=0x%x,chassis=%d,slot=%d" % (rail, rail, rail, rail),
            "-device",
            "igb,bus=port%d,netdev=rail%d,mac=%s" % (rail, rail, mac(node, rail)),
        ]
    return argv


def _management(lab: Lab, node: int) -> list[str]:
    """What passes between the host and the guest's closed user network: SSH, and for a cluster the two APIs."""
    address = management_address(node)
    forward = "hostfwd=tcp:127.0.0.1:%d-%s:%d"
    options = ["dhcpstart=" + address, forward % (lab.ports[node - 1], address, 22)]
    if lab.cluster:
        options.append(forward % (lab.kubelet_ports[node - 1], address, KUBELET_PORT))
        # a process per connection; it must not carry the mark of the guest, which would make it a guest
        pipe = ["/usr/bin/env", "-u", process.MARK, "-u", "LD_LIBRARY_PATH", sys.executable, "-ISE"]
        line = shlex.join([*pipe, str(PIPE), str(lab.directory / CLUSTER / "cluster.json")])
        options.append("guestfwd=tcp:%s:%d-cmd:%s" % (API_ADDRESS, API_PORT, line.replace(",", ",,")))
    return options


def _cable(lab: Lab, node: int, leaf: int) -> str:
    """The QEMU option of a NIC's other end: a pair of unix sockets of the leaf process."""
    nic, far = (_escaped(lab.run / ("n%dr%d.%s" % (node, leaf, end))) for end in ("nic", "leaf"))
    return "dgram,id=rail%d,local.type=unix,local.path=%s,remote.type=unix,remote.path=%s" % (leaf, nic, far)


def _escaped(place: Path) -> str:
    """A path inside a QEMU option, where a comma is written twice."""
    return str(place).replace(",", ",,")


def start(lab: Lab, node: int, image: Image, qemu: Qemu) -> process.Member:
    """Start the guest's machine, on the disk that it has or on a new one."""
    if not lab.disk(node).exists():
        qemu.create_overlay(image.root, lab.disk(node))
    monitor_socket(lab.run, node).unlink(missing_ok=True)
    name = node_name(node)
    return process.spawn(command(lab, node, image, qemu), lab.directory, name, lab.log(name), qemu.environment)
