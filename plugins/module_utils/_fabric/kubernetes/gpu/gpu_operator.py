# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""The settings of NVIDIA's GPU operator that determine how GPU memory reaches the NIC."""

from __future__ import annotations

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.gpu import gpu_spec
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.view.object_options import Options
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.view.plan_view import Object, View
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.host_model import CONTAINER, HOST, PEERMEM
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.provider_facts import facts_of


def values(view: View, options: Options) -> Object:
    """Return the values of the chart ``gpu-operator`` that the rails need. The user sets all others.

    With DMA-BUF, the kernel exports GPU memory to the NIC, which needs the open kernel modules and no nvidia-peermem.
    With peermem, the module is built against the RDMA core of the NIC driver: the host's, or the container's. Hosts
    with their own GPU driver load the modules themselves, and the operator installs none.
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
        # Its chart contains Node Feature Discovery. A second one would overwrite its labels, and vice versa.
        made["nfd"] = {"enabled": False}
    return made
