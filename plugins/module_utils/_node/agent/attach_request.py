# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""The OCI state that the hook sends for a container, and the errors of an attach."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError

# Reason -> message and remedy. A reason is also a label of the agent's metrics.
TEXTS = {
    "state": ("the OCI state is wrong: {detail}", "use containerd or CRI-O as the container runtime"),
    "gone": ("process {pid} of the container does not exist", "read the log of the container runtime"),
    "host-network": (
        "pod {pod} has hostNetwork: true, and rails need a network namespace of the pod",
        "remove hostNetwork from the pod, or the rails from its limits",
    ),
    "device": ("the node file does not have it", "delete the pod, so that it gets another device"),
    "claim": (
        "no claim of pod {pod} is prepared with it",
        "request slots by claims or limits of the pod, and not by annotations that add devices",
    ),
    "node": ("{detail}", "wait for the end of that run; the kubelet starts the pod again"),
    "busy": ("another attach of it has not ended", "run journalctl -u railyard-agent"),
    "held": (
        "it is held by pod {pod}",
        "delete that pod, or wait for its end; if it has ended, end the process that keeps its network namespace"
        " (lsns -t net)",
    ),
    "port": ("{port} is not on the node", "run ip link and the playbook again"),
    "interface": (
        "the pod has an interface {interface} already",
        "request one device of each rail in a pod, and give other networks other interface names",
    ),
    "carrier": ("{port} has no carrier", "check its cable and the port of the leaf"),
    "conflict": ("the address {address} is in use by {macs}", "find the host with this MAC, and remove the address"),
    "gateway": ("the gateway {gateway} does not answer", "check the leaf and the cable of the port"),
    "rdma": ("the RDMA device {rdma} is not on the node", "run rdma link and the playbook again"),
    "gid": ("the RDMA device {rdma} does not get a GID of {addresses}", "run rdma link and the playbook again"),
    "not-taken": ("the kernel did not set {missing}", "run journalctl -k"),
    "kernel": ("the kernel refuses it: {detail}", "run journalctl -k"),
}
# Annotations: the name in containerd, and the name in CRI-O.
_SANDBOX = ("io.kubernetes.cri.sandbox-id", "io.kubernetes.cri-o.SandboxID")
_UID = ("io.kubernetes.cri.sandbox-uid", "io.kubernetes.pod.uid")
_NAME = ("io.kubernetes.cri.sandbox-name", "io.kubernetes.pod.name")
_NAMESPACE = ("io.kubernetes.cri.sandbox-namespace", "io.kubernetes.pod.namespace")
_CONTAINER = ("io.kubernetes.cri.container-name", "io.kubernetes.container.name")
# The longest name of a Kubernetes object, in characters.
_LENGTH = 253


class AttachError(RailyardError):
    """The error of a pod that does not get a device. ``reason``: a key of :data:`TEXTS`."""

    def __init__(self, reason: str, place: str, **values: t.Any) -> None:
        message, remedy = TEXTS[reason]
        super().__init__(message.format(**values), place, remedy)
        self.reason = reason


class Pod(t.NamedTuple):
    """The container of a hook, and its pod. ``pid``: the container's process, in the pod's network namespace."""

    pid: int
    uid: str
    name: str
    namespace: str
    container: str
    sandbox_id: str

    def __str__(self) -> str:
        return "%s/%s" % (self.namespace, self.name)


def read_pod(state: t.Any, place: str) -> Pod:
    """Return the pod of an OCI state. Characters that a name cannot have are replaced.

    :param place: place of the error.
    :raises AttachError: reason ``state``, if the state does not have a process ID or a sandbox.
    """
    if not isinstance(state, dict):
        raise AttachError("state", place, detail="it is not an object")
    pid = state.get("pid")
    if not isinstance(pid, int) or isinstance(pid, bool) or not 1 < pid < 2**31:
        raise AttachError("state", place, detail="pid is %s" % plain(pid))
    annotations = state.get("annotations")
    if not isinstance(annotations, dict):
        annotations = {}

    def annotation(names: t.Sequence[str]) -> str:
        return plain(next((annotations[name] for name in names if annotations.get(name)), ""))

    sandbox = annotation(_SANDBOX)
    if not re.fullmatch(r"[A-Za-z0-9_.-]{1,64}", sandbox):
        raise AttachError("state", place, detail="it does not name the pod's sandbox")
    return Pod(pid, annotation(_UID), annotation(_NAME), annotation(_NAMESPACE), annotation(_CONTAINER), sandbox)


def plain(value: t.Any) -> str:
    """Return a value as text without spaces, control and non-ASCII characters, of at most 253 characters."""
    return "".join(character if " " < character <= "~" else "?" for character in str(value)[:_LENGTH])
