# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""Attaches devices to pods, one attach per OCI hook, and frees them by a sweep, as no event reports the end of a pod.

A device is free when the network namespace of its holder has ended. The kernel reports this: the ID of a namespace is
valid while it exists, and the alias of each interface names the device and the sandbox.
"""

from __future__ import annotations

import contextlib
import errno
import os
import threading
import time
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent import (
    cdi_files,
    host_links,
    pod_desired,
    pod_links,
    slot_state,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent.agent_spec import AgentSpec, Device
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent.attach_request import (
    AttachError,
    Pod,
    plain,
    read_pod,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent.slot_state import (
    ATTACHED,
    ATTACHING,
    Holder,
    SlotState,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.core import boot_lock
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink import rdma_netlink
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.codec import NetlinkError
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.in_namespace import in_namespace
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.link_messages import Link
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.rtnetlink import Rtnetlink

# Seconds to wait for the end of the last pod of a device.
PATIENCE = 20.0
# Seconds between two checks.
_PAUSE = 0.5


class PodAttach:
    """The devices of one node. Safe for several threads. Call :meth:`recover` first.

    ``spec`` may be replaced after the node file has changed. ``problems``: device -> why the last sweep could not free
    it. ``unrecorded``: messages of :meth:`recover` about interfaces that are not in the record. ``check_pod``: raises
    :class:`AttachError` if a pod may not get a device; it is not called for the pod that has the device.

    :param patience: seconds to wait for the end of the last pod of a device.
    """

    def __init__(self, system: System, spec: AgentSpec, state: SlotState, patience: float = PATIENCE) -> None:
        self._system = system
        self.spec = spec
        self.problems: dict[str, str] = {}
        self.unrecorded: list[str] = []
        self.check_pod: t.Callable[[str, Pod], None] = lambda _device, _pod: None
        self._state = state
        self._patience = patience
        self._locks: dict[str, threading.Lock] = {}
        self._locks_guard = threading.Lock()

    def attach(self, identity: str, oci_state: t.Any) -> Holder:
        """Attach a device to the pod of a container, and return the holder.

        If the pod's sandbox has the device already, missing parts are completed.

        :raises AttachError: if the pod does not get the device. The attach is undone.
        :raises RailyardError: if it cannot be recorded. The attach is undone.
        """
        # the service may replace self.spec during the attach
        spec = self.spec
        device = spec.device(identity)
        if device is None:
            raise AttachError("device", "device %s" % plain(identity))
        pod = read_pod(oci_state, "device %s" % device.id)
        # wait for an earlier attach that the runtime does not wait for any more
        lock, gate = self._device_lock(device.id, 3 * self._patience), self._no_changes(device, pod)
        with lock, gate, Rtnetlink() as host, contextlib.ExitStack() as stack:
            fd, home = self._open(stack, "/proc/%d/ns/net" % pod.pid, pod), self._open(stack, "/proc/self/ns/net", pod)
            # the agent is in the node's network namespace
            if os.path.samestat(os.fstat(fd), os.fstat(home)):
                raise AttachError("host-network", "device %s" % device.id, pod=pod)
            nsid = host.number_namespace(fd)
            held = self._state.holders().get(device.id)
            if held is None or (held.sandbox_id, held.nsid) != (pod.sandbox_id, nsid):
                self.check_pod(device.id, pod)
            before = self._await_free(host, device, pod, nsid)
            # an attached pod stays attached in the record: if the agent is killed, the next one must not undo it
            phase, since = (before.phase, before.since) if before else (ATTACHING, time.time())
            holder = Holder(device.id, *_pod_fields(pod), pod.pid, nsid, phase, since)
            jobs = self._jobs(host, spec, device, before)
            rows = tuple(pod_desired.row(job.rail, job.slot, None, job.source.rdma, job.source.host) for job in jobs)
            holder = holder._replace(interfaces=rows)
            self._state.take(holder)
            rdma = rdma_netlink.connect(self._system)
            if rdma is not None:
                stack.callback(rdma.close)
            work = pod_links.PodLinks(self._system, spec, holder, jobs, fd, home, host, rdma)
            try:
                holder = holder._replace(interfaces=tuple(in_namespace(fd, work.attach)), phase=ATTACHED)
                self._record(holder, before, fd, home)
            except BaseException:
                self._give_up(host, holder, before)
                raise
            return holder

    def detach(self, identity: str) -> bool:
        """Remove a device from a running pod, and free it. Return whether it is free.

        :raises RailyardError: if the kernel refuses it.
        """
        with self._device_lock(identity, self._patience), Rtnetlink() as host:
            holder = self._state.holders().get(identity)
            return holder is None or self._undo(host, holder)

    def recover(self) -> None:
        """Undo incomplete attaches of an agent that was killed, and free the devices of pods that have ended.

        Devices for which this fails stay held. Other pods are not affected.
        """
        for directory in (os.path.dirname(slot_state.FILE), cdi_files.DIRECTORY):
            with contextlib.suppress(RailyardError):
                self._system.remove_incomplete_files(directory)
        with contextlib.ExitStack() as stack, Rtnetlink() as host:
            # undone also if a run goes on changing devices; an agent that was killed has left the file of this lock
            with contextlib.suppress(boot_lock.Busy):
                stack.enter_context(boot_lock.attaching(self._system, self._patience))
            for holder in self._state.holders().values():
                if holder.phase == ATTACHING:
                    with contextlib.suppress(RailyardError):
                        self._undo(host, holder)
        self.sweep()
        self.unrecorded = host_links.unrecorded(self._system, self._state.holders().values())

    def sweep(self) -> list[str]:
        """Free the devices whose pods have ended, and return their ids. Errors are stored in ``problems``."""
        freed, problems = [], {}
        with Rtnetlink() as host:
            for holder in self._state.holders().values():
                try:
                    with self._device_lock(holder.device, 0):
                        if self._state.holders().get(holder.device) == holder and self._free(host, holder):
                            freed.append(holder.device)
                except RailyardError as error:
                    if getattr(error, "reason", "") != "busy":
                        problems[holder.device] = str(error)
        self.problems = problems
        return freed

    # -- holders ------------------------------------------------------------------------------------------------------

    def _await_free(self, host: Rtnetlink, device: Device, pod: Pod, nsid: int) -> Holder | None:
        """Wait until the device is free. Return the holder instead, if it is the pod's sandbox.

        :raises AttachError: reason ``held``.
        """
        addresses = {str(address.ip) for slot in device.slots.values() for address in slot.addresses}
        deadline = time.monotonic() + self._patience
        while True:
            holders = self._state.holders()
            # after a change of the plan, a pod may hold one of the addresses with another device
            others = [each for each in holders.values() if each.device != device.id and each.addresses & addresses]
            holder = holders.get(device.id) or next(iter(others), None)
            if holder is None:
                return None
            if holder.device == device.id and (holder.sandbox_id, holder.nsid) == (pod.sandbox_id, nsid):
                return holder
            if self._free(host, holder):
                continue
            if time.monotonic() > deadline:
                raise AttachError("held", "device %s" % device.id, pod=holder.pod)
            time.sleep(_PAUSE)

    def _free(self, host: Rtnetlink, holder: Holder) -> bool:
        """Free a device if its holder's interfaces were removed or returned to the node. Return whether it is free."""
        in_pod = any(link.alias in holder.aliases for link in _links(host, holder.nsid))
        if in_pod and holder.phase == ATTACHED:
            return False
        # after an interrupted attach, some ports may be in the pod and others on the node
        returned = host_links.restore(self._system, host, holder)
        if in_pod or not returned:
            return False
        self._state.release(holder.device)
        return True

    @contextlib.contextmanager
    def _device_lock(self, identity: str, patience: float) -> t.Iterator[None]:
        with self._locks_guard:
            lock = self._locks.setdefault(identity, threading.Lock())
        if not lock.acquire(timeout=patience):
            raise AttachError("busy", "device %s" % identity)
        try:
            yield
        finally:
            lock.release()

    @contextlib.contextmanager
    def _no_changes(self, device: Device, pod: Pod) -> t.Iterator[None]:
        """Keep modules and the boot program from changing devices of the node during the attach.

        :raises AttachError: reason ``node``, if one does not end in time.
        """
        with contextlib.ExitStack() as stack:
            try:
                stack.enter_context(boot_lock.attaching(self._system, self._patience))
            except boot_lock.Busy as error:
                raise AttachError("node", "device %s" % device.id, pod=pod, detail=error.message) from None
            yield

    # -- the attach ---------------------------------------------------------------------------------------------------

    def _open(self, stack: contextlib.ExitStack, path: str, pod: Pod) -> int:
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            raise AttachError("gone", "pod %s" % str(pod), pid=pod.pid) from None
        stack.callback(os.close, fd)
        return fd

    def _jobs(self, host: Rtnetlink, spec: AgentSpec, device: Device, before: Holder | None) -> list[pod_links.Job]:
        rows = {row["rail"]: row for row in before.interfaces} if before else {}
        jobs = []
        for name, slot in device.slots.items():
            rail = spec.rail(name)
            source = host_links.source(self._system, host, spec, rail, slot, rows.get(name))
            jobs.append(pod_links.Job(rail, slot, source))
        return jobs

    def _record(self, holder: Holder, before: Holder | None, fd: int, home: int) -> None:
        """Record a complete attach. If this fails, remove the interfaces, unless the pod had them before."""
        try:
            self._state.take(holder)
        except RailyardError:
            if before is None:
                in_namespace(fd, lambda: _remove(self._system, holder, home))
            raise

    def _give_up(self, host: Rtnetlink, holder: Holder, before: Holder | None) -> None:
        """Restore the record after a failed attach, whose interfaces are removed already. Errors are left to sweeps."""
        with contextlib.suppress(RailyardError):
            if before is not None:
                self._state.take(before)
            else:
                self._free(host, holder)

    def _undo(self, host: Rtnetlink, holder: Holder) -> bool:
        """Remove a holder's interfaces and free its device. Return whether it is free.

        The namespace can be entered only while a process of the container runs. Otherwise virtual interfaces are
        removed from the node's namespace, and interfaces of the node return when the pod's namespace ends.
        """
        with contextlib.ExitStack() as stack:
            fd, home = self._namespaces(stack, host, holder)
            if fd is not None:
                in_namespace(fd, lambda: _remove(self._system, holder, home))
            else:
                names = {pod_desired.temporary(row["interface"]) for row in holder.interfaces if not row.get("host")}
                aliases = [holder.alias(row["rail"]) for row in holder.interfaces if not row.get("host")]
                for link in _links(host, holder.nsid):
                    if link.alias in aliases or link.name in names:
                        host.delete_link(link.ifindex, holder.nsid)
        return self._free(host, holder)

    def _namespaces(self, stack: contextlib.ExitStack, host: Rtnetlink, holder: Holder) -> tuple[int | None, int]:
        """Open the holder's namespace, by its container's process, and the node's. Return the file descriptors; the
        first is None if the process has ended.
        """
        home = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        stack.callback(os.close, home)
        with contextlib.suppress(OSError):
            fd = os.open("/proc/%d/ns/net" % holder.pid, os.O_RDONLY | os.O_CLOEXEC)
            stack.callback(os.close, fd)
            # the process ID may have been reused
            if not os.path.samestat(os.fstat(fd), os.fstat(home)) and host.namespace_number(fd) == holder.nsid:
                return fd, home
        return None, home


def _pod_fields(pod: Pod) -> tuple[str, str, str, str, str]:
    return pod.uid, pod.name, pod.namespace, pod.container, pod.sandbox_id


def _links(host: Rtnetlink, nsid: int) -> list[Link]:
    """Return the interfaces of another namespace; empty if it has ended."""
    try:
        return host.links(namespace=nsid)
    except NetlinkError as error:
        if error.errno == errno.EINVAL:
            return []
        raise


def _remove(system: System, holder: Holder, home: int) -> None:
    with Rtnetlink() as pod:
        pod_links.remove(system, pod, holder, home)
