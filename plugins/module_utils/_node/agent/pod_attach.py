# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""Pods get devices and lose them: one attach for each OCI hook, and a sweep, as no program reports the end of a pod.

A device is free when the network namespace of its holder has ended. The kernel answers that: it knows the namespace by
a number which ends with it, and each interface by an alias which names the device and the sandbox.
"""

from __future__ import annotations

import contextlib
import errno
import os
import threading
import time
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent import host_links, pod_desired, pod_links
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
    Row,
    SlotState,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink import rdma_netlink
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.codec import NetlinkError
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.in_namespace import in_namespace
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.link_messages import Link
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.rtnetlink import Rtnetlink

# Seconds to wait for the end of the pod that held a device before.
PATIENCE = 20.0
_LOOK = 0.5


class PodAttach:
    """The devices of one node. Safe for several threads; :meth:`recover` comes before all else.

    ``spec`` may be replaced after the node file has changed. ``problems``: device -> why the last sweep left it.
    ``unrecorded``: pods found at the start that have interfaces of the agent, and are not in the record.
    """

    def __init__(self, system: System, spec: AgentSpec, state: SlotState, patience: float = PATIENCE) -> None:
        self._system = system
        self.spec = spec
        self.problems: dict[str, str] = {}
        self.unrecorded: list[str] = []
        self._state = state
        self._patience = patience
        self._turns: dict[str, threading.Lock] = {}
        self._turn_lock = threading.Lock()

    def attach(self, identity: str, oci_state: t.Any) -> Holder:
        """Give a device to the pod of a container. The same sandbox again: what is missing is completed.

        :raises AttachError: the pod does not get it, and nothing of it is left.
        :raises RailyardError: it cannot be recorded, and nothing of it is left.
        """
        # the service may replace it meanwhile
        spec = self.spec
        device = spec.device(identity)
        if device is None:
            raise AttachError("device", "device %s" % plain(identity))
        pod = read_pod(oci_state, "device %s" % device.id)
        # an attach that its runtime gave up waiting for comes to its end first
        with self._turn(device.id, 3 * self._patience), Rtnetlink() as host, contextlib.ExitStack() as stack:
            fd, home = self._open(stack, "/proc/%d/ns/net" % pod.pid, pod), self._open(stack, "/proc/self/ns/net", pod)
            # the agent is a service of the node, and so in its namespace
            if os.path.samestat(os.fstat(fd), os.fstat(home)):
                raise AttachError("host-network", "device %s" % device.id, pod=pod)
            nsid = host.number_namespace(fd)
            before = self._await_free(host, device, pod, nsid)
            # an agent that is killed while it completes what a pod has leaves the pod what it has
            phase, since = (before.phase, before.since) if before else (ATTACHING, time.time())
            holder = Holder(device.id, *_names(pod), pod.pid, nsid, phase, since)
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
        """Take a device from a pod that still runs, and free it. False if its namespace cannot be entered."""
        with self._turn(identity, self._patience), Rtnetlink() as host:
            holder = self._state.holders().get(identity)
            return holder is None or self._undo(host, holder)

    def recover(self) -> None:
        """Undo, when the agent starts, what an agent that was killed has left half made. What the kernel does not undo
        stays held, and does not keep the agent from its other pods.
        """
        with Rtnetlink() as host:
            for holder in self._state.holders().values():
                if holder.phase == ATTACHING:
                    with contextlib.suppress(RailyardError):
                        self._undo(host, holder)
        self.sweep()
        self.unrecorded = host_links.unrecorded(self._system, self._state.holders().values())

    def sweep(self) -> list[str]:
        """Free the devices whose pods have ended; their ids. What cannot be freed now is left for the next sweep."""
        freed, problems = [], {}
        with Rtnetlink() as host:
            for holder in self._state.holders().values():
                try:
                    with self._turn(holder.device, 0):
                        if self._state.holders().get(holder.device) == holder and self._free(host, holder):
                            freed.append(holder.device)
                except RailyardError as error:
                    if getattr(error, "reason", "") != "busy":
                        problems[holder.device] = str(error)
        self.problems = problems
        return freed

    def observe(self) -> list[Row]:
        """The holders, after a sweep, in the order of their devices."""
        self.sweep()
        return [holder.as_dict() for _device, holder in sorted(self._state.holders().items())]

    # -- who holds it -------------------------------------------------------------------------------------------------

    def _await_free(self, host: Rtnetlink, device: Device, pod: Pod, nsid: int) -> Holder | None:
        """The record of the same sandbox, if it has the device already."""
        addresses = {str(each.ip) for slot in device.slots.values() for each in slot.addresses}
        deadline = time.monotonic() + self._patience
        while True:
            found = self._state.holders()
            # after the plan has changed, a pod may hold an address by a device of another id
            others = [each for each in found.values() if each.device != device.id and each.addresses & addresses]
            holder = found.get(device.id) or next(iter(others), None)
            if holder is None:
                return None
            if holder.device == device.id and (holder.sandbox_id, holder.nsid) == (pod.sandbox_id, nsid):
                return holder
            if self._free(host, holder):
                continue
            if time.monotonic() > deadline:
                raise AttachError("held", "device %s" % device.id, pod=holder.pod)
            time.sleep(_LOOK)

    def _free(self, host: Rtnetlink, holder: Holder) -> bool:
        """Free a device if its holder's interfaces exist no more, or are back on the node."""
        lives = any(link.alias in holder.aliases for link in _links(host, holder.nsid))
        if lives and holder.phase == ATTACHED:
            return False
        # of an attach that was interrupted, some ports may be in the pod and others on the node
        returned = host_links.restore(self._system, host, holder)
        if lives or not returned:
            return False
        self._state.release(holder.device)
        return True

    @contextlib.contextmanager
    def _turn(self, identity: str, patience: float) -> t.Iterator[None]:
        with self._turn_lock:
            lock = self._turns.setdefault(identity, threading.Lock())
        if not lock.acquire(timeout=patience):
            raise AttachError("busy", "device %s" % identity)
        try:
            yield
        finally:
            lock.release()

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
        """Record that it is complete; undone if that is not possible, unless the pod had it before."""
        try:
            self._state.take(holder)
        except RailyardError:
            if before is None:
                in_namespace(fd, lambda: _remove(self._system, holder, home))
            raise

    def _give_up(self, host: Rtnetlink, holder: Holder, before: Holder | None) -> None:
        """After a failure whose links are removed. What fails here is left to the next sweep."""
        with contextlib.suppress(RailyardError):
            if before is not None:
                self._state.take(before)
            else:
                self._free(host, holder)

    def _undo(self, host: Rtnetlink, holder: Holder) -> bool:
        """Remove a holder's interfaces and free its device. A namespace without a process of the container cannot be
        entered: virtual interfaces are removed from here, those of the node come back when it ends.
        """
        with contextlib.ExitStack() as stack:
            fd, home = self._way_in(stack, host, holder)
            if fd is not None:
                in_namespace(fd, lambda: _remove(self._system, holder, home))
            else:
                names = {pod_desired.temporary(row["interface"]) for row in holder.interfaces if not row.get("host")}
                aliases = [holder.alias(row["rail"]) for row in holder.interfaces if not row.get("host")]
                for link in _links(host, holder.nsid):
                    if link.alias in aliases or link.name in names:
                        host.delete_link(link.ifindex, holder.nsid)
        return self._free(host, holder)

    def _way_in(self, stack: contextlib.ExitStack, host: Rtnetlink, holder: Holder) -> tuple[int | None, int]:
        """Descriptors of the holder's namespace, by its container's process, and of the node's."""
        home = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        stack.callback(os.close, home)
        with contextlib.suppress(OSError):
            fd = os.open("/proc/%d/ns/net" % holder.pid, os.O_RDONLY | os.O_CLOEXEC)
            stack.callback(os.close, fd)
            # the process may be another's by now
            if not os.path.samestat(os.fstat(fd), os.fstat(home)) and host.namespace_number(fd) == holder.nsid:
                return fd, home
        return None, home


def _names(pod: Pod) -> tuple[str, str, str, str, str]:
    return pod.uid, pod.name, pod.namespace, pod.container, pod.sandbox_id


def _links(host: Rtnetlink, nsid: int) -> list[Link]:
    """The interfaces of another namespace; none if it has ended."""
    try:
        return host.links(namespace=nsid)
    except NetlinkError as error:
        if error.errno == errno.EINVAL:
            return []
        raise


def _remove(system: System, holder: Holder, home: int) -> None:
    with Rtnetlink() as pod:
        pod_links.remove(system, pod, holder, home)
