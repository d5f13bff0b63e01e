# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The kubelet's list of devices that it allocated to containers (PodResources v1, Kubernetes 1.20 or later)."""

from __future__ import annotations

import contextlib

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.kubelet import unix_sockets
from ansible_collections.railyard.fabric.plugins.module_utils._node.kubelet.kubelet_messages import (
    PodDevices,
    WrongMessage,
    pod_resources,
)

SOCKET = "/var/lib/kubelet/pod-resources/kubelet.sock"
REMEDY = "start kubelet, or read its log: journalctl -u kubelet"


def allocated_devices(system: System, prefix: str) -> list[PodDevices]:
    """Return the allocated devices of resources with this prefix, a row per container and resource.

    :raises RailyardError: if the kubelet does not answer.
    """
    if not system.exists(SOCKET):
        raise RailyardError("kubelet does not serve its list of pod resources", SOCKET, REMEDY)
    grpc = unix_sockets.import_grpc()
    with contextlib.closing(unix_sockets.channel(system, SOCKET)) as kubelet:
        try:
            answer = kubelet.unary_unary("/v1.PodResourcesLister/List")(b"", timeout=unix_sockets.SECONDS)
        except grpc.RpcError as error:
            raise RailyardError("kubelet did not answer: %s" % unix_sockets.reason(error), SOCKET, REMEDY) from None
    try:
        listed = pod_resources(answer)
    except WrongMessage as error:
        raise RailyardError("kubelet's answer cannot be read: %s" % error, SOCKET, REMEDY) from None
    return [each for each in listed if each.resource.startswith(prefix + "/")]
