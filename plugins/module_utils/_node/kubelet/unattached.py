# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Running containers whose device was not attached, because the container runtime did not call the hook.

A runtime with CDI off starts containers without their devices, and no call reports it. So the devices that the kubelet
allocated are compared with those that pods hold. The container runtime reports which containers run, as others may wait
for their images. Source: ``api.proto`` of ``k8s.io/cri-api/pkg/apis/runtime/v1``.
"""

from __future__ import annotations

import contextlib
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.kubelet import unix_sockets
from ansible_collections.railyard.fabric.plugins.module_utils._node.kubelet.kubelet_messages import (
    WrongMessage,
    field,
    parts,
    text,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.kubelet.pod_resources import allocated_devices

# Of containerd, of the containerd of K3s and RKE2, and of CRI-O.
SOCKETS = ("/run/containerd/containerd.sock", "/run/k3s/containerd/containerd.sock", "/run/crio/crio.sock")
LIST = "/runtime.v1.RuntimeService/ListContainers"
RUNNING = 1
LABELS = ("io.kubernetes.pod.namespace", "io.kubernetes.pod.name", "io.kubernetes.container.name")
# Namespace, pod and container.
Container = t.Tuple[str, str, str]


class Unattached:
    """The comparison for one node. ``problems``: of the last two comparisons, a message per container and device."""

    def __init__(self, system: System) -> None:
        self._system = system
        self._allocated: set[str] | None = None
        self._suspected: set[tuple[Container, str]] = set()
        self.problems: list[str] = []

    def look(self, prefix: str, given: t.Iterable[str], holders: t.Callable[[], t.Mapping[str, str]]) -> None:
        """Compare, and set ``problems``. Without an answer of the kubelet or of the runtime, they stay as they are.

        The kubelet is called only if a device may be allocated that no pod holds.

        :param prefix: of the resources.
        :param given: the devices that the kubelet got since the last call.
        :param holders: returns device -> NAMESPACE/NAME of the pod that holds it.
        """
        held = holders()
        if self._allocated is not None:
            self._allocated.update(given, held)
            if self._allocated.issubset(held):
                self._suspected, self.problems = set(), []
                return
        with contextlib.suppress(RailyardError):
            rows = allocated_devices(self._system, prefix)
            running = running_containers(self._system)
            # after both lists: a container runs only after its device was recorded
            held = holders()
            self._allocated = {device for row in rows for device in row.devices}
            found = {
                ((row.namespace, row.pod, row.container), device)
                for row in rows
                for device in row.devices
                if (row.namespace, row.pod, row.container) in running
                and held.get(device) != "%s/%s" % (row.namespace, row.pod)
            }
            # twice, because a pod may have ended in the meantime
            self.problems = [_problem(*each) for each in sorted(found & self._suspected)]
            self._suspected = found


def _problem(container: Container, device: str) -> str:
    return (
        "device %s: container %s of pod %s/%s runs without it: the container runtime did not call the hook. Remedy:"
        " enable CDI in its configuration, restart the container runtime, and delete the pod."
        % (device, container[2], *container[:2])
    )


def running_containers(system: System) -> set[Container]:
    """Return the running containers of pods.

    :raises RailyardError: if the container runtime does not answer.
    """
    socket = next((path for path in SOCKETS if system.exists(path)), None)
    remedy = "run 'crictl ps' on the node"
    if socket is None:
        raise RailyardError("no container runtime serves one of these sockets", ", ".join(SOCKETS), remedy)
    grpc = unix_sockets.import_grpc()
    with contextlib.closing(unix_sockets.channel(system, socket)) as runtime:
        try:
            answer = runtime.unary_unary(LIST)(field(1, field(2, field(1, RUNNING))), timeout=unix_sockets.SECONDS)
        except grpc.RpcError as error:
            raise RailyardError("does not answer: %s" % unix_sockets.reason(error), socket, remedy) from None
    try:
        rows = [{text(pair, 1): text(pair, 2) for pair in parts(each, 8)} for each in parts(answer, 1)]
    except WrongMessage as error:
        raise RailyardError("its answer cannot be read: %s" % error, socket, remedy) from None
    return {(labels.get(LABELS[0], ""), labels.get(LABELS[1], ""), labels.get(LABELS[2], "")) for labels in rows}
