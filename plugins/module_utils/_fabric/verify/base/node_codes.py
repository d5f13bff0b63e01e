# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Codes of the layers of a node: nodes, firmware, driver, RDMA mode, link, address, QoS."""

from __future__ import annotations

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.base.failure_codes import TRAFFIC, Code

NODE_CODES = (
    Code(
        *("RV001", "node-unreachable", "node", "the node does not answer"),
        cause="the node is down, or its management network or SSH does not work",
        remedy="check the node's console, then run again",
        playbook=None,
    ),
    Code(
        *("RV002", "node-unreadable", "node", "the state of the node cannot be read"),
        cause="the task runs without become, or Python is missing on the node",
        remedy="check the message; run with become (-b)",
        playbook=None,
    ),
    Code(
        *("RV003", "rail-ports-ambiguous", "node", "the rail ports of the node cannot be identified"),
        cause="a card or cable is in another slot than planned",
        remedy="compare the profile in fabric.yml with the result 'nics' of railyard.fabric.rail_info",
        playbook=None,
    ),
    Code(
        *("RV004", "boot-service-failed", "node", "persistent settings were not applied at boot"),
        cause="a required device appeared late or not at all",
        remedy="run 'systemctl status railyard-boot.service' on the node",
        after=(),
    ),
    Code(
        *("RV005", "rail-agent-mismatch", "node", "the rail agent does not run as planned"),
        cause="it was stopped or disabled by hand, or it ended with an error",
        remedy="run 'journalctl -u railyard-agent' on the node, and start it",
        after=("kubernetes",),
    ),
    Code(
        *("RV101", "firmware-parameter-mismatch", "firmware", "a firmware parameter is not as planned"),
        cause="it was changed by hand, the card was replaced, or its firmware was reset to defaults",
        remedy="set it, and reboot where the run requires it",
    ),
    Code(
        *("RV102", "firmware-unreadable", "firmware", "the firmware of the NIC cannot be read"),
        cause="the firmware tool is missing, or the card does not answer",
        remedy="check the message; install mstflint where it is missing",
    ),
    Code(
        *("RV201", "nic-missing", "driver", "the NIC was not found"),
        cause="the card is no longer on the PCI bus, is in another slot, or is broken",
        remedy="run 'lspci -D' and 'dmesg' on the node",
        playbook=None,
    ),
    Code(
        *("RV202", "nic-driver-missing", "driver", "the NIC has no driver"),
        cause="the driver is not loaded, or failed to initialize the card",
        remedy="load the driver, and check 'dmesg' on the node",
        playbook=None,
    ),
    Code(
        *("RV203", "netdev-missing", "driver", "the NIC has no network interface on the host"),
        cause="it was moved into another network namespace, or the driver created none",
        remedy="delete the pod or network namespace that holds it",
        playbook=None,
    ),
    Code(
        *("RV204", "netdev-name-mismatch", "driver", "the network interface has another name than planned"),
        cause="the .link file is missing, or the kernel or driver was upgraded",
        remedy="rename the interface",
    ),
    Code(
        *("RV205", "vf-count-mismatch", "driver", "the number of VFs is not as planned"),
        cause="sriov_numvfs was changed by hand, the driver was reloaded, or the VFs were not created at boot",
        remedy="create the VFs again",
        after=("kubernetes",),
    ),
    Code(
        *("RV206", "vf-attribute-mismatch", "driver", "an attribute of a VF is not as planned"),
        cause="it was changed by hand (ip link set ... vf), or the CNI plugin of a pod did not restore it",
        remedy="set it again",
        after=(),
    ),
    Code(
        *("RV207", "pcie-link-degraded", "driver", "the PCIe link is slower or narrower than planned"),
        cause="the card is in a smaller slot, is not seated correctly, or trained down after errors",
        remedy="reseat the card, or correct pcie_gen and pcie_lanes of the profile in fabric.yml",
        playbook=None,
        after=("rdma",),
    ),
    Code(
        *("RV208", "gpu-too-far", "driver", "the GPU is farther from the NIC than planned"),
        cause="a card is in another slot",
        remedy="move the card, or correct gpu_distance of the profile in fabric.yml",
        playbook=None,
        after=(),
    ),
    Code(
        *("RV209", "gpu-missing", "driver", "the GPU was not found"),
        cause="the GPU is no longer on the PCI bus, or is in another slot",
        remedy="run 'dmesg' and 'nvidia-smi' on the node",
        playbook=None,
        after=(),
    ),
    Code(
        *("RV210", "nic-driver-mismatch", "driver", "the NIC driver is not as planned"),
        cause="a package was upgraded or removed, or another kernel was booted",
        remedy="install the planned driver, and reboot where the run requires it",
        after=(),
    ),
    Code(
        *("RV301", "rdma-mode-mismatch", "mode", "the RDMA mode is not as planned"),
        cause="it was changed by hand, or the module was loaded without its option",
        remedy="set the RDMA mode",
    ),
    Code(
        *("RV302", "rdma-mode-next-boot-mismatch", "mode", "the RDMA mode of the next boot is not as planned"),
        cause="a file in modprobe.d or the kernel command line sets another mode",
        remedy="make the RDMA mode persistent",
        after=(),
    ),
    Code(
        *("RV401", "link-disabled", "link", "the link is administratively down"),
        cause="it was set down by hand (ip link set ... down)",
        remedy="set the link up",
    ),
    Code(
        *("RV402", "rail-link-down", "link", "the link has no carrier"),
        cause="the cable is unplugged or broken, or the port of the leaf is down",
        remedy="check the cable, the transceivers and the port of the leaf",
        playbook=None,
        drift=False,
    ),
    Code(
        *("RV403", "link-speed-too-low", "link", "the link is slower than planned"),
        cause="a transceiver or cable of another type, bad lanes, or a speed that is fixed at the leaf",
        remedy="run 'ethtool' for the interface, and check the port of the leaf",
        playbook=None,
        after=("rdma",),
        drift=False,
    ),
    Code(
        *("RV404", "mtu-mismatch", "link", "the MTU is not as planned"),
        cause="it was changed by hand or by another network service",
        remedy="set the MTU",
        after=TRAFFIC,
    ),
    Code(
        *("RV405", "rdma-device-missing", "link", "the RDMA device was not found"),
        cause="the RDMA module of the driver is not loaded, or the soft RDMA link was deleted",
        remedy="create the RDMA device again",
        after=("rdma", "kubernetes"),
    ),
    Code(
        *("RV406", "rdma-device-name-mismatch", "link", "the RDMA device has another name than planned"),
        cause="udev or the kernel named it after the last boot or driver reload",
        remedy="rename the RDMA device",
        after=("rdma",),
    ),
    Code(
        *("RV407", "rdma-device-inactive", "link", "the RDMA device is not ACTIVE"),
        cause="the link came up only recently, or no subnet manager has configured the port",
        remedy="run 'rdma link' on the node; on InfiniBand check the subnet manager",
        playbook=None,
        after=("rdma", "kubernetes"),
        drift=False,
    ),
    Code(
        *("RV408", "ipoib-mismatch", "link", "IPoIB or a partition is not as planned"),
        cause="it was changed by hand or by another network service",
        remedy="set the IPoIB mode and the partitions",
        after=TRAFFIC,
    ),
    Code(
        *("RV501", "address-missing", "address", "the address is missing"),
        cause="it was removed by hand or by another network service",
        remedy="set the address",
    ),
    Code(
        *("RV502", "address-prefix-mismatch", "address", "the address has another prefix length than planned"),
        cause="it was set by hand",
        remedy="set the address with the planned prefix length",
    ),
    Code(
        *("RV503", "address-unplanned", "address", "the interface has an address that is not planned"),
        cause="it was added by hand or by DHCP",
        remedy="remove it with 'ip address del', or add it to fabric.yml",
        playbook=None,
        after=(),
    ),
    Code(
        *("RV504", "route-mismatch", "address", "a route is missing or has another next hop"),
        cause="it was deleted by hand, or the link was down for a moment",
        remedy="set the route",
    ),
    Code(
        *("RV505", "rule-missing", "address", "a policy rule is missing"),
        cause="it was deleted by hand (ip rule del)",
        remedy="set the rule",
    ),
    Code(
        *("RV506", "sysctl-mismatch", "address", "a sysctl of the port is not as planned"),
        cause="it was changed by hand or by a sysctl.d file of another package",
        remedy="set the sysctl",
    ),
    Code(
        *("RV507", "default-route-on-rail", "address", "the main table has a default route over the rail"),
        cause="it was added by hand, by DHCP or by a router advertisement",
        remedy="remove it ('ip route del default dev ...'): traffic that is not for the rail leaves the node over it",
        playbook=None,
        after=(),
    ),
    Code(
        *("RV508", "route-leak", "address", "a route sends traffic of another network over the rail"),
        cause="it was added by hand or by another network service",
        remedy="remove it with 'ip route del': it sends traffic of another rail over this one",
        playbook=None,
        after=(),
    ),
    Code(
        *("RV510", "address-duplicate", "address", "an address is in use twice"),
        cause="a node was configured by hand or from an older plan, or a pool of pods contains the address of a host",
        remedy="remove it where it is not planned",
        playbook=None,
    ),
    Code(
        *("RV511", "gid-missing", "address", "the address has no GID"),
        cause="the RDMA device was created before the link came up, or its GID table is stale",
        remedy="set the link down and up, or reload the driver",
        playbook=None,
        after=("rdma",),
    ),
    Code(
        *("RV550", "persistent-file-mismatch", "address", "persistent configuration is not as planned"),
        cause="a file was edited or deleted by hand",
        remedy="write the files again",
        after=(),
    ),
    Code(
        *("RV590", "setting-refused", "address", "a planned setting is refused on the node"),
        cause="see the message",
        remedy="check the message",
        after=(),
    ),
    Code(
        *("RV601", "qos-mismatch", "qos", "the QoS settings are not as planned"),
        cause="another tool (mlnx_qos, lldpad, a DCBX switch) set them, or the driver was reloaded",
        remedy="set QoS",
        after=(),
    ),
    Code(
        *("RV602", "pci-tuning-mismatch", "qos", "the PCI tuning is not as planned"),
        cause="the device was reset, or the firmware of the server set it",
        remedy="set the PCI tuning",
        after=(),
    ),
    Code(
        *("RV603", "kernel-arguments-mismatch", "qos", "the kernel arguments are not as planned"),
        cause="the configuration of the boot loader was rewritten",
        remedy="set the kernel arguments, and reboot",
        after=(),
    ),
    Code(
        *("RV604", "limits-mismatch", "qos", "the limits of the node are not as planned"),
        cause="they were changed by hand or by a package",
        remedy="set the limits",
        after=(),
    ),
    Code(
        *("RV605", "gpudirect-mismatch", "qos", "the path from GPU memory to the NIC is not as planned"),
        cause="a driver was upgraded, or a module was unloaded",
        remedy="set up GPUDirect RDMA",
        after=(),
    ),
)
