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
# For busy hosts and emulated guests. rcu_expedited: without it, creating VFs takes a quarter more processor time.
# no_timer_check: an emulated timer may fail the kernel's test at boot, and the guest would stop there.
# event_timeout, in seconds: with the default of 180, slow guests lose events, and their netdevs keep kernel names.
# From init_on_alloc on: hardening and statistics, without which processes start with a tenth less processor time.
KERNEL_ARGUMENTS = (
    "root=/dev/vda ro console=ttyS0 quiet panic=10 mitigations=off apparmor=0 selinux=0 audit=0 tsc=reliable"
    " no_timer_check nokaslr rcupdate.rcu_expedited=1 udev.event_timeout=900"
    " init_on_alloc=0 hardened_usercopy=off randomize_kstack_offset=off psi=0"
)
# Linux 7 monitors memory accesses by default, which takes a tenth of an emulated processor.
NODE_ARGUMENTS = " damon_stat.enabled=0"
API_ADDRESS, API_PORT, KUBELET_PORT = "10.0.2.100", 6443, 10250
PIPE = Path(__file__).resolve().parent / "cluster" / "pipe.py"
# The files of a stored guest; see lab/booted.py
STORED_MEMORY, STORED_DISK = "memory", "disk.qcow2"


def rail_pci(rail: int) -> str:
    """Return the PCI address of a rail's physical function."""
    return "0000:%02x:00.0" % rail


def rail_netdev(rail: int) -> str:
    """Return the name that udev gives a rail's interface, with the bus number in decimal."""
    return "enp%ds0" % rail


def mac(node: int, rail: int) -> str:
    """Return the MAC address of a rail port's NIC. Rail 0 is management."""
    return "52:54:00:4c:%02x:%02x" % (node, rail)


def management_address(node: int) -> str:
    """Return the node's address in its closed user network, whose gateway is 10.0.2.2."""
    return "10.0.2.%d" % (10 + node)


def lan_address(node: int) -> str:
    """Return the node's address in the network of a cluster's nodes."""
    return "10.77.0.%d" % (10 + node)


# Features that an emulated processor does not have: those for nested guests and very large machines, those that
# programs use for speed but that are slow under emulation (AVX, "rep movsb"), and smap, which slows down system calls.
_SLOW = ("svm", "la57", "avx", "avx2", "xsave", "erms", "fsrm", "smap")


def processor(accel: str) -> list[str]:
    """Return the QEMU options of accelerator and processor model."""
    if accel == "kvm":
        return ["-accel", "kvm", "-cpu", "host"]
    return ["-accel", "tcg,thread=multi,tb-size=256", "-cpu", ",-".join(("max", *_SLOW))]


def command(lab: Lab, node: int, image: Image, qemu: Qemu) -> list[str]:
    """Return the command line of a guest, as a pure function of the lab."""
    name = node_name(node)
    kernel = "%s systemd.hostname=%s systemd.machine_id=%s" % (
        KERNEL_ARGUMENTS + (NODE_ARGUMENTS if lab.cluster else ""),
        name,
        uuid.uuid5(uuid.NAMESPACE_DNS, "%s.railyard.lab" % name).hex,
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
        # restrict=on: a guest can only reach its process on the host.
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
    """Return the options of connections between the host and the guest's closed user network.

    They are for SSH, and for a cluster the APIs of kubelet and API server.
    """
    address = management_address(node)
    forward = "hostfwd=tcp:127.0.0.1:%d-%s:%d"
    options = ["dhcpstart=" + address, forward % (lab.ports[node - 1], address, 22)]
    if lab.cluster:
        options.append(forward % (lab.kubelet_ports[node - 1], address, KUBELET_PORT))
        # QEMU starts a process per connection. Without the mark, so that it is not counted as the guest's machine.
        pipe = ["/usr/bin/env", "-u", process.MARK, "-u", "LD_LIBRARY_PATH", sys.executable, "-ISE"]
        line = shlex.join([*pipe, str(PIPE), str(lab.directory / CLUSTER / "cluster.json")])
        options.append("guestfwd=tcp:%s:%d-cmd:%s" % (API_ADDRESS, API_PORT, line.replace(",", ",,")))
    return options


def _cable(lab: Lab, node: int, leaf: int) -> str:
    """Return the QEMU option of a NIC's other end: a pair of unix sockets of the leaf process."""
    nic, far = (_escaped(lab.run / ("n%dr%d.%s" % (node, leaf, end))) for end in ("nic", "leaf"))
    return "dgram,id=rail%d,local.type=unix,local.path=%s,remote.type=unix,remote.path=%s" % (leaf, nic, far)


def _escaped(place: Path) -> str:
    """Return a path for a QEMU option, in which a comma is written twice."""
    return str(place).replace(",", ",,")


def start(lab: Lab, node: int, image: Image, qemu: Qemu, stored: Path | None = None) -> process.Member:
    """Start the guest's machine, with its existing disk or a new one.

    :param stored: the directory of a stored guest, whose memory and disk the new guest gets. It waits for ``cont``.
    """
    incoming = []
    if stored:
        qemu.create_overlay(stored / STORED_DISK, lab.disk(node), "qcow2")
        incoming = ["-incoming", "file:%s" % (stored / STORED_MEMORY)]
    elif not lab.disk(node).exists():
        qemu.create_overlay(image.root, lab.disk(node))
    monitor_socket(lab.run, node).unlink(missing_ok=True)
    name = node_name(node)
    argv = [*command(lab, node, image, qemu), *incoming]
    return process.spawn(argv, lab.directory, name, lab.log(name), qemu.environment)
