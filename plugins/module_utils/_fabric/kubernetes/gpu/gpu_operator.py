# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""What the fabric asks of NVIDIA's GPU operator: how GPU memory reaches the NIC."""

from __future__ import annotations

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.gpu import gpu_spec
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.view.object_options import Options
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.view.plan_view import Object, View
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.host_model import CONTAINER, HOST, PEERMEM
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.provider_facts import facts_of


def values(view: View, options: Options) -> Object:
    """Values of the chart ``gpu-operator`` that belong to the rails; the rest is the user's.

    With DMA-BUF the kernel hands GPU memory to the NIC, which needs the open kernel module and no nvidia-peermem.
    With peermem the
    module is built against the NIC driver's RDMA core: the host's, or the container's. Hosts that have a GPU driver of
    their own load the modules themselves, and the operator brings none.
    """
    spec = gpu_spec.wanted(view, options)
    peermem = spec.path == PEERMEM and spec.gpu_driver != HOST
    driver: Object = {
        "kernelModuleType": gpu_spec.kind(spec),
        "rdma": {"enabled": peermem, "useHostMofed": peermem and spec.nic_driver != CONTAINER},
    }
    if spec.gpu_driver:
        driver["enabled"] = spec.gpu_driver == CONTAINER
    made: Object = {
        "driver": driver,
        "gdrcopy": {"enabled": spec.gdrcopy},
        # What changes them comes before the chart, as with all charts here.
        "operator": {"upgradeCRD": False},
    }
    if facts_of(view.provider).node_features:
        # Its chart brings Node Feature Discovery; a second one would fight with it over labels.
        made["nfd"] = {"enabled": False}
    return made
