# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""What check mode can say about a layer whose predecessors are refused or would change the node first.

A run would do their changes before it judges this layer. Check mode does not, so some errors are only consequences, and
a layer without changes is not always as planned.
"""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.layer import Result

Part = t.Mapping[str, t.Any]


class Need(t.NamedTuple):
    """What a module needs of an earlier one.

    :param what: for messages, ``the MTU``.
    :param attributes: the changes that provide it; empty: any change of the module.
    :param only_ports: whether only errors about ports can be consequences.
    :param decides: whether the module can be as planned now and have changes after the earlier module.
    """

    what: str
    attributes: t.Sequence[str] = ()
    only_ports: bool = True
    decides: bool = False


_DRIVER = Need("the driver", only_ports=False, decides=True)
_FIRMWARE = Need("the firmware settings", only_ports=False, decides=True)
_NETDEVS = Need("the interfaces", ("name", "interface", "netdevs loaded"))
_DEVICES = Need("the RDMA devices", ("name", "link", "module"))
_VFS = Need("the VFs", ("sriov_numvfs",))
NEEDS: t.Mapping[str, t.Mapping[str, Need]] = {
    "mlx_linktype": {"nic_driver": _DRIVER},
    "rdma_netns_mode": {"nic_driver": _DRIVER},
    "sriov_vfs": {"nic_driver": _DRIVER, "mlx_linktype": _FIRMWARE},
    "ib_ports": {"nic_driver": _DRIVER, "mlx_linktype": _FIRMWARE},
    "rail_ports": {
        "nic_driver": _DRIVER,
        "mlx_linktype": _FIRMWARE,
        "ib_ports": Need("the IPoIB mode", ("mode",), decides=True),
    },
    "rdma_link": {"nic_driver": _DRIVER, "rail_ports": _NETDEVS},
    "cni_networks": {"rail_ports": _NETDEVS},
    "rail_agent": {"sriov_vfs": _VFS, "rail_ports": _NETDEVS, "rdma_link": _DEVICES},
    "health_service": {"rail_ports": _NETDEVS, "rdma_link": _DEVICES},
    "rail_limits": {"rail_ports": _NETDEVS},
    "gpudirect": {"nic_driver": _DRIVER},
    "roce_qos": {
        "nic_driver": _DRIVER,
        "mlx_linktype": _FIRMWARE,
        # the driver divides the buffers of a port by its MTU
        "rail_ports": Need("the MTU", ("mtu", "name", "interface"), decides=True),
        "rdma_link": _DEVICES,
    },
    # the index of a GID follows from the address of its port
    "nccl_files": {"rail_ports": Need("the addresses", ("address", "name", "interface"), decides=True)},
}


def judged(module: str, part: Result, earlier: t.Mapping[str, Part]) -> Result:
    """Return the result of a module in check mode, as far as it can be judged.

    :param earlier: the results of the modules before it. If a part of the result could not be judged, ``not_judged``
        names what it needs, ``the MTU of rail_ports``. Errors that can be consequences are omitted then. So are the
        changes, if a module that it depends on is refused or not judged.
    """
    unmet: list[str] = []
    errors: list[t.Mapping[str, str]] = list(part.get("errors") or ())
    refused = False
    for before, need in NEEDS.get(module, {}).items():
        known = earlier.get(before)
        if known is None:
            continue
        stopped = bool(known.get("failed") or known.get("not_judged"))
        if not stopped and not _provides(need, known):
            continue
        left = [error for error in errors if need.only_ports and "port" not in error]
        if stopped or len(left) < len(errors) or (need.decides and not part["changes"] and not errors):
            unmet.append("%s of %s" % (need.what, before))
        errors, refused = left, refused or stopped
    if not unmet:
        return part
    if part.get("exception"):
        return part  # a bug is reported whatever its cause
    kept: Result = {"changed": False, "changes": []} if refused or part.get("failed") else dict(part)
    kept["not_judged"] = "needs " + " and ".join(unmet)
    if errors:
        texts = [str(RailyardError(each["message"], each["place"], each["remedy"])) for each in errors]
        kept.update(failed=True, errors=errors, msg="\n".join(texts))
    return kept


def _provides(need: Need, part: Part) -> bool:
    """Return whether a module would still provide what another needs."""
    return any(not need.attributes or change["attribute"] in need.attributes for change in part["changes"])
