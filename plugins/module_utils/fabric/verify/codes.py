# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""What verify and drift can find: the layers on the way down, and a code for good for each thing that can be wrong."""

from __future__ import annotations

import typing as t


class Layer(t.NamedTuple):
    """One step of the way down. ``after``: the layers that are pointless on a rail where this one failed."""

    name: str
    title: str
    after: tuple[str, ...]


_TRAFFIC = ("reach", "rdma")
_ALL = ("firmware", "driver", "mode", "link", "address", "qos", "cabling", "reach", "rdma", "kubernetes")
LAYERS = {
    layer.name: layer
    for layer in (
        Layer("node", "Nodes answer", _ALL),
        Layer("firmware", "NIC firmware", ()),
        Layer("driver", "NICs, drivers and VFs", ("link", "address", "qos", "cabling", *_TRAFFIC, "kubernetes")),
        Layer("mode", "RDMA mode", ("kubernetes",)),
        Layer("link", "Links and RDMA devices", ("address", "qos", "cabling", *_TRAFFIC, "kubernetes")),
        Layer("address", "Addresses, routes and rules", _TRAFFIC),
        Layer("qos", "QoS and tuning", ()),
        Layer("cabling", "Cabling", _TRAFFIC),
        Layer("reach", "Reachability", ("rdma",)),
        Layer("rdma", "RDMA", ()),
        Layer("kubernetes", "Kubernetes", ()),
    )
}
# Those that are state of a node or of the cluster, and so can drift.
STATE = ("node", "firmware", "driver", "mode", "link", "address", "qos", "kubernetes")

HOSTS = "playbooks/hosts.yml"
KUBERNETES = "playbooks/kubernetes.yml"


class Code(t.NamedTuple):
    """One thing that can be wrong.

    :param cause: the likeliest one, where nothing seen says another.
    :param mends: the playbook that mends it; None where hands must.
    :param after: layers that it makes pointless on the same rail; None: those of its layer.
    :param drift: whether drift tells of it: what is no state of node or cluster is not.
    """

    code: str
    layer: str
    title: str
    cause: str
    remedy: str
    mends: str | None = HOSTS
    after: tuple[str, ...] | None = None
    drift: bool = True


_CODES = (
    Code(
        "RV001",
        "node",
        "the node does not answer",
        "it is down, or its management network or SSH is",
        "see its console, then run again",
        None,
        drift=True,
    ),
    Code(
        "RV002",
        "node",
        "the node cannot be read",
        "the task has no become, or Python is missing",
        "see the message, and run with become",
        None,
    ),
    Code(
        "RV003",
        "node",
        "the node's rail ports cannot be told apart",
        "a card or cable is in another place than the plan says",
        "compare the plan with what railyard.fabric.rail_info tells of the node's nics",
        None,
    ),
    Code(
        "RV004",
        "node",
        "what is kept for boot did not come up",
        "a device that it needs came late or not at all",
        "see 'systemctl status railyard-boot.service'",
        HOSTS,
        (),
    ),
    Code(
        "RV101",
        "firmware",
        "a firmware parameter is not as planned",
        "somebody set it, the card was replaced, or its firmware was reset to defaults",
        "set it, and reboot where that is asked for",
    ),
    Code(
        "RV102",
        "firmware",
        "the NIC's firmware cannot be read",
        "the tool for it is missing, or the card does not answer",
        "see the message",
        HOSTS,
    ),
    Code(
        "RV201",
        "driver",
        "there is no such NIC",
        "the card fell off the PCI bus, is in another slot, or is broken",
        "see 'lspci -D' and the kernel's messages (dmesg)",
        None,
    ),
    Code(
        "RV202",
        "driver",
        "the NIC has no driver",
        "the driver is not loaded, or refused the card",
        "load the driver, and see the kernel's messages (dmesg)",
        None,
    ),
    Code(
        "RV203",
        "driver",
        "the NIC has no network interface here",
        "somebody moved it into another network namespace, or the driver gave it none",
        "end the pod or namespace that has it",
        None,
    ),
    Code(
        "RV204",
        "driver",
        "the network interface has another name",
        "the .link file is gone, or the kernel or driver was upgraded",
        "name it as planned",
    ),
    Code(
        "RV205",
        "driver",
        "the number of VFs is not as planned",
        "somebody wrote sriov_numvfs, the driver was reloaded, or boot could not make them",
        "make them again",
        after=("kubernetes",),
    ),
    Code(
        "RV206",
        "driver",
        "a VF is not set as planned",
        "somebody set it (ip link set ... vf), or a pod's CNI left it so",
        "set it again",
        after=(),
    ),
    Code(
        "RV207",
        "driver",
        "the PCIe link is slower or narrower than planned",
        "the card is in a smaller slot, is not seated well, or trained down after errors",
        "reseat the card, or correct the profile's expectation",
        None,
        ("rdma",),
    ),
    Code(
        "RV208",
        "driver",
        "the GPU is further from the NIC than planned",
        "a card is in another slot",
        "move the card, or correct the profile's expectation",
        None,
        (),
    ),
    Code(
        "RV209",
        "driver",
        "there is no such GPU",
        "the GPU fell off the PCI bus, or is in another slot",
        "see the kernel's messages (dmesg) and nvidia-smi",
        None,
        (),
    ),
    Code(
        "RV210",
        "driver",
        "the NIC driver is not as planned",
        "a package was upgraded or removed, or another kernel was booted",
        "bring the planned driver, and reboot where that is asked for",
        after=(),
    ),
    Code(
        "RV301",
        "mode",
        "the RDMA mode is not as planned",
        "somebody switched it, or the module was loaded without its option",
        "set it",
    ),
    Code(
        "RV302",
        "mode",
        "the RDMA mode of the next boot is not as planned",
        "a file of modprobe.d or the kernel command line says otherwise",
        "set it for boot",
        after=(),
    ),
    Code(
        "RV401",
        "link",
        "the link is set down",
        "somebody set it down (ip link set ... down)",
        "set it up",
    ),
    Code(
        "RV402",
        "link",
        "there is no carrier",
        "the cable is out or broken, or the leaf's port is down",
        "see the cable, the transceivers and the leaf's port",
        None,
        drift=False,
    ),
    Code(
        "RV403",
        "link",
        "the link is slower than planned",
        "a transceiver or cable of another kind, bad lanes, or a speed that is set at the leaf",
        "see 'ethtool' of the port and the leaf's port",
        None,
        ("rdma",),
        drift=False,
    ),
    Code(
        "RV404",
        "link",
        "the MTU is not as planned",
        "somebody or another network service set it",
        "set it",
        after=_TRAFFIC,
    ),
    Code(
        "RV405",
        "link",
        "there is no RDMA device",
        "the driver's RDMA part is not loaded, or the soft link was taken away",
        "make it again",
        after=("rdma", "kubernetes"),
    ),
    Code(
        "RV406",
        "link",
        "the RDMA device has another name",
        "udev or the kernel named it after the last boot or driver reload",
        "name it as planned",
        after=("rdma",),
    ),
    Code(
        "RV407",
        "link",
        "the RDMA device is not ACTIVE",
        "the link has only just come up, or no subnet manager has seen it",
        "see 'rdma link', on InfiniBand the subnet manager",
        None,
        ("rdma", "kubernetes"),
        drift=False,
    ),
    Code(
        "RV408",
        "link",
        "IPoIB or a partition is not as planned",
        "somebody or another network service set it",
        "set it",
        after=_TRAFFIC,
    ),
    Code("RV501", "address", "the address is missing", "somebody or another network service took it away", "set it"),
    Code("RV502", "address", "the address has another prefix", "somebody set it by hand", "set it"),
    Code(
        "RV503",
        "address",
        "there is an address that is not planned",
        "somebody added it, or DHCP did",
        "take it away, or plan it",
        None,
        (),
    ),
    Code(
        "RV504",
        "address",
        "a route is missing or leads elsewhere",
        "somebody deleted it, or the link was down for a moment",
        "set it",
    ),
    Code("RV505", "address", "a policy rule is missing", "somebody deleted it (ip rule del)", "set it"),
    Code(
        "RV506",
        "address",
        "a sysctl of the port is not as planned",
        "somebody or a sysctl.d file of another package set it",
        "set it",
    ),
    Code(
        "RV507",
        "address",
        "the main table has a default route by the rail",
        "somebody added it, or DHCP or a router's advertisement did",
        "take it away ('ip route del default dev ...'): what is not the rail's leaves the node by it",
        None,
        (),
    ),
    Code(
        "RV508",
        "address",
        "a route leaks to the rail",
        "somebody added it, or another network service did",
        "take it away: it leads what is another rail's to this one",
        None,
        (),
    ),
    Code(
        "RV510",
        "address",
        "an address is there twice",
        "a node was set up by hand or from an older plan, or a pod's pool holds a host's address",
        "take it from the one that is not planned to have it",
        None,
    ),
    Code(
        "RV511",
        "address",
        "no GID for the address",
        "the RDMA device was made before the link came up, or its GID table is stale",
        "set the link down and up, or reload the driver",
        None,
        ("rdma",),
    ),
    Code(
        "RV550",
        "address",
        "what is kept for boot is not as planned",
        "somebody edited or deleted it",
        "lay it down again",
        after=(),
    ),
    Code("RV590", "address", "the node refuses what is planned", "see what was found", "see the message", after=()),
    Code(
        "RV601",
        "qos",
        "the quality of service is not as planned",
        "another tool (mlnx_qos, lldpad, a DCBX switch) set it, or the driver was reloaded",
        "set it",
        after=(),
    ),
    Code(
        "RV602",
        "qos",
        "the PCI tuning is not as planned",
        "the device was reset or the node's firmware set it",
        "set it",
        after=(),
    ),
    Code("RV603", "qos", "kernel arguments are not as planned", "the boot loader was rewritten", "set them", after=()),
    Code(
        "RV604", "qos", "limits of the node are not as planned", "somebody or a package set them", "set them", after=()
    ),
    Code(
        "RV605",
        "qos",
        "the way from GPU memory to the NIC is not as planned",
        "a driver was upgraded, or a module unloaded",
        "set it",
        after=(),
    ),
    Code(
        "RV701",
        "cabling",
        "the port is on another leaf than planned",
        "its cable is in another leaf",
        "plug it into the planned leaf, or correct the plan",
        None,
        drift=False,
    ),
    Code(
        "RV702",
        "cabling",
        "the cables of two rails have changed places",
        "both were plugged into each other's leaf, at the node or at the leaves",
        "exchange the two cables",
        None,
        drift=False,
    ),
    Code(
        "RV703",
        "cabling",
        "ports of one rail and unit are on different leaves",
        "a cable is in another leaf than its neighbours'",
        "plug it where the others of its rail are",
        None,
        drift=False,
    ),
    Code(
        "RV704",
        "cabling",
        "the port is on another port of its leaf than planned",
        "its cable is in the wrong port of the right leaf",
        "plug it as planned, or correct the plan",
        None,
        (),
        drift=False,
    ),
    Code(
        "RV801",
        "reach",
        "nothing comes back",
        "the two ports are not on the same rail's network: VLAN, leaf port, or a cable in another leaf",
        "see which leaf ports the two are on, and their VLANs",
        None,
        drift=False,
    ),
    Code(
        "RV802",
        "reach",
        "packets of the planned MTU do not pass",
        "a leaf port on the way has a smaller MTU",
        "raise the MTU of the leaf's ports",
        None,
        drift=False,
    ),
    Code(
        "RV803",
        "reach",
        "packets are lost",
        "a bad cable or transceiver",
        "see the error counters of both ports and of the leaf",
        None,
        drift=False,
    ),
    Code(
        "RV804",
        "reach",
        "a rail does not reach another that the plan opens to it",
        "the leaves do not route between the rails",
        "see the leaves' routes and filters (routing.cross_rail)",
        None,
        (),
        drift=False,
    ),
    Code(
        "RV805",
        "reach",
        "a rail reaches another that the plan closes to it",
        "the leaves route between the rails, or a node forwards",
        "see the leaves' routes and filters, and ip_forward",
        None,
        (),
        drift=False,
    ),
    Code(
        "RV851",
        "rdma",
        "the RDMA server does not start",
        "its device cannot be used",
        "see the message",
        None,
        drift=False,
    ),
    Code(
        "RV852",
        "rdma",
        "the RDMA transfer fails",
        "UDP port 4791 is filtered, GIDs are of different kinds, or a device is broken",
        "see the message, and the firewalls of both nodes",
        None,
        drift=False,
    ),
    Code(
        "RV853",
        "rdma",
        "RDMA is slower than the link",
        "congestion or pauses (QoS), a PCIe bottleneck (ACS, MaxReadReq), or a busy node",
        "see the counters, the QoS of both ends and of the leaf, and PCIe",
        None,
        drift=False,
    ),
    Code(
        "RV854",
        "rdma",
        "the latency is far above the others'",
        "a longer way through the network, power saving, or load",
        "see the counters and the cabling",
        None,
        drift=False,
    ),
    Code(
        "RV855",
        "rdma",
        "RDMA is far slower than the others",
        "congestion, or a busy node",
        "see the counters and run again",
        None,
        drift=False,
    ),
    Code(
        "RV861",
        "rdma",
        "error counters rose meanwhile",
        "a bad cable or transceiver, or a queue that overflows",
        "see the port's and the leaf's counters",
        None,
        drift=False,
    ),
    Code(
        "RV900",
        "kubernetes",
        "the cluster does not answer",
        "its API server is down, or the kubeconfig is another's",
        "see the message",
        None,
    ),
    Code(
        "RV901",
        "kubernetes",
        "a node of the cluster is not ready for pods",
        "its device plugin does not see the port",
        "see the reason",
        None,
    ),
    Code(
        "RV902",
        "kubernetes",
        "an object is not as planned",
        "somebody edited or deleted it, or the plan is newer than the cluster",
        "apply it again",
        KUBERNETES,
    ),
    Code(
        "RV903",
        "kubernetes",
        "an object was not taken up",
        "its controller does not run",
        "see the reason",
        None,
    ),
    Code(
        "RV904", "kubernetes", "an object is there that left the plan", "the plan changed since", "prune it", KUBERNETES
    ),
)
CODES = {code.code: code for code in _CODES}


def after(code: Code) -> tuple[str, ...]:
    """The layers that a failure makes pointless on its rail."""
    return LAYERS[code.layer].after if code.after is None else code.after
