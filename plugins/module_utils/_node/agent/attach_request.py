# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The OCI state that the hook sends for a container, and the errors of an attach."""

from __future__ import annotations

import errno
import os
import re
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError

# Reason -> message and remedy. A reason is also a label of the agent's metrics.
TEXTS = {
    "state": ("the OCI state is wrong: {detail}", "use containerd or CRI-O as the container runtime"),
    "gone": ("process {pid} of the container does not exist", "read the log of the container runtime"),
    "access": (
        "the namespace of process {pid} of the container cannot be opened: {detail}",
        "start the agent by its unit, and read denials of SELinux or AppArmor with journalctl -k",
    ),
    "files": (
        "the agent cannot open more files: {detail}",
        "run systemctl restart railyard-agent; if it repeats, raise LimitNOFILE of the unit, or the sysctl fs.file-max",
    ),
    "host-network": (
        "pod {pod} has hostNetwork: true, and rails need a network namespace of the pod",
        "remove hostNetwork from the pod, or the rails from its limits and claims",
    ),
    "device": ("the node file does not have it", "delete the pod, so that it gets another device"),
    "claim": (
        "no claim of pod {pod} is prepared with it",
        "request slots by claims or limits of the pod, and not by annotations that add devices",
    ),
    "prepared": (
        "it is prepared for claim {claim} of pod {pod}",
        "delete that pod, or wait for its end",
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
    "identity": (
        "the kernel reports no parent device, permanent address or lower interface of {port}, by which the agent could"
        " identify it in the pod",
        "plan a port that is a PCI function",
    ),
    "size": (
        "the network namespace of the pod is too large to be read: {detail}",
        "let the pod create fewer interfaces, addresses, routes and rules",
    ),
    "stack": ("the port is not as planned: {detail}", "run the playbook again, which makes bonds and VLANs"),
    "carrier": ("{port} has no carrier", "check its cable and the port of the leaf"),
    "conflict": ("the address {address} is in use by {macs}", "find the host with this MAC, and remove the address"),
    "gateway": ("the gateway {gateway} does not answer", "check the leaf and the cable of the port"),
    "rdma": ("the RDMA device {rdma} is not on the node", "run rdma link and the playbook again"),
    "device-files": (
        "the container does not have these RDMA files of the kernel, or has them with other numbers: {files}",
        "wait until the kubelet starts the container again, which then has them (delete the pod if its restartPolicy is"
        " Never); if it fails again, run ls -l /sys/class/infiniband_verbs and railyard-agent status",
    ),
    "gid": ("the RDMA device {rdma} does not get a GID of {addresses}", "run rdma link and the playbook again"),
    "not-taken": ("the kernel did not set {missing}", "run journalctl -k"),
    "kernel": ("the kernel refuses it: {detail}", "run journalctl -k"),
}
# Runtime -> the annotations that it sets itself: of the sandbox, and of pod and container. Authors of pods can write
# those of the other runtime: CRI-O passes annotations of pods to its containers, and containerd can be set to do so.
_ANNOTATIONS = {
    "containerd": (
        "io.kubernetes.cri.sandbox-id",
        "io.kubernetes.cri.sandbox-uid",
        "io.kubernetes.cri.sandbox-name",
        "io.kubernetes.cri.sandbox-namespace",
        "io.kubernetes.cri.container-name",
    ),
    "CRI-O": (
        "io.kubernetes.cri-o.SandboxID",
        "io.kubernetes.pod.uid",
        "io.kubernetes.pod.name",
        "io.kubernetes.pod.namespace",
        "io.kubernetes.container.name",
    ),
}
# Runtime -> its place of bundles, which authors of pods cannot choose. Sources: containerd's plugin
# io.containerd.runtime.v2; the run directory of containers/storage.
_BUNDLES = {"containerd": re.compile(r"/io\.containerd\.runtime\.v\d+\.\w+/"), "CRI-O": re.compile(r"/userdata/?$")}
# The longest name of a Kubernetes object, in characters.
_LENGTH = 253


class AttachError(RailyardError):
    """The error of a pod that does not get a device. ``reason``: a key of :data:`TEXTS`."""

    def __init__(self, reason: str, place: str, **values: t.Any) -> None:
        message, remedy = TEXTS[reason]
        super().__init__(message.format(**values), place, remedy)
        self.reason = reason


def open_files_error(error: BaseException | None, place: str) -> AttachError | None:
    """Return the error of an attach that failed because too many files are open; None if it failed for another reason.

    :param error: the error of the attach. The kernel's error may be one of those during which it was raised.
    """
    while error is not None:
        number = getattr(error, "errno", None)
        if number in (errno.EMFILE, errno.ENFILE):
            return AttachError("files", place, detail=os.strerror(number))
        error = error.__context__
    return None


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
    """Return the pod of an OCI state. Characters that a name cannot have are replaced. Only annotations of the runtime
    that wrote the state are read.

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

    runtime = _runtime(state.get("bundle"), annotations, place)
    sandbox, uid, name, namespace, container = (plain(annotations.get(key) or "") for key in _ANNOTATIONS[runtime])
    if not re.fullmatch(r"[A-Za-z0-9_.-]{1,64}", sandbox):
        raise AttachError("state", place, detail="it does not name the pod's sandbox")
    return Pod(pid, uid, name, namespace, container, sandbox)


def _runtime(bundle: t.Any, annotations: t.Mapping[str, t.Any], place: str) -> str:
    """Return the runtime that wrote an OCI state: by its bundle, else by the only runtime whose sandbox is named.

    :raises AttachError: reason ``state``, if it is unknown.
    """
    for runtime, pattern in _BUNDLES.items():
        if isinstance(bundle, str) and pattern.search(bundle):
            return runtime
    named = [runtime for runtime, keys in _ANNOTATIONS.items() if keys[0] in annotations]
    if len(named) > 1:
        detail = "it has the sandboxes of %s, and its bundle %s is of neither" % (" and ".join(named), plain(bundle))
        raise AttachError("state", place, detail=detail)
    return named[0] if named else next(iter(_ANNOTATIONS))


def plain(value: t.Any) -> str:
    """Return a value as text without spaces, control and non-ASCII characters, of at most 253 characters."""
    return "".join(character if " " < character <= "~" else "?" for character in str(value)[:_LENGTH])
