# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Attaches devices to pods, one attach per OCI hook, and frees them by a sweep, as no event reports the end of a pod.

A device is free when the network namespace of its holder has ended and what was taken from the node is back. The kernel
reports the end: the ID of a namespace is valid while it exists. Nothing that the pod can write frees a device.
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
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent.agent_spec import AgentSpec, Device, RailSpec
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent.attach_request import (
    AttachError,
    Pod,
    open_files_error,
    plain,
    read_pod,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent.slot_state import (
    ATTACHED,
    ATTACHING,
    Holder,
    Namespace,
    Row,
    SlotState,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.core import boot_lock
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink import rdma_netlink
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.address_watch import AddressWatch, Conflict
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.codec import NetlinkError
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.in_namespace import cookie, in_namespace
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.link_messages import identity
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.namespace_entry import open_numbered
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.rtnetlink import Rtnetlink

# Seconds to wait for the end of the last pod of a device.
PATIENCE = 20.0
# Seconds between two checks, at first and at most.
_PAUSE, _PAUSE_MAX = 0.05, 0.5
# The index of lo in each network namespace.
_LOOPBACK = 1


class PodAttach:
    """The devices of one node. Safe for several threads. Call :meth:`recover` first.

    ``spec`` may be replaced after the node file has changed; a pod keeps the part with which it was attached until it
    ends. ``problems``: device -> why the last sweep could not free it, and interfaces of the node that no pod holds.
    ``unrecorded``: messages of :meth:`recover` about interfaces that are not in the record. ``check_pod``: raises
    :class:`AttachError` if a pod may not get a device; it is not called for the pod that has the device. ``watch``:
    listens whether other hosts have the addresses of pods, by device.

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
        # held from the check that no other device has the addresses until the holder is recorded
        self._take_lock = threading.Lock()
        self._sweep_lock = threading.Lock()
        self._sweeps = 0
        self.watch = AddressWatch()

    def attach(self, device_id: str, oci_state: t.Any) -> Holder:
        """Attach a device to the pod of a container, and return the holder.

        If the pod's sandbox has the device already, missing parts are completed.

        :raises AttachError: if the pod does not get the device. The attach is undone.
        :raises RailyardError: if it cannot be recorded. The attach is undone.
        """
        # the service may replace self.spec during the attach
        spec = self.spec
        if spec.device(device_id) is None and device_id not in self._state.holders():
            raise AttachError("device", "device %s" % plain(device_id))
        pod = read_pod(oci_state, "device %s" % device_id)
        # wait for an earlier attach that the runtime does not wait for any more
        lock, gate = self._device_lock(device_id, 3 * self._patience), self._no_changes(device_id, pod)
        with lock, gate, Rtnetlink() as host, contextlib.ExitStack() as stack:
            fd, home = self._open(stack, "/proc/%d/ns/net" % pod.pid, pod), self._open(stack, "/proc/self/ns/net", pod)
            # the agent is in the node's network namespace
            if os.path.samestat(os.fstat(fd), os.fstat(home)):
                raise AttachError("host-network", "device %s" % device_id, pod=pod)
            inside = Namespace(host.number_namespace(fd), os.fstat(fd).st_ino, in_namespace(fd, cookie))
            held = self._state.holders().get(device_id)
            if held is None or not inside.is_of(held, pod):
                self.check_pod(device_id, pod)
            elif held.plan is not None:
                # a changed plan is for the next pod: this one has addresses that no other pod may get
                spec = pod_desired.kept_spec(spec, held.plan)
            device = spec.device(device_id)
            if device is None:
                raise AttachError("device", "device %s" % device_id)
            cdi_files.check_device_files(self._system, spec, device, oci_state)
            before = self._await_free(host, device, pod, inside)
            rdma = rdma_netlink.connect(self._system)
            if rdma is not None:
                stack.callback(rdma.close)
            node = host_links.NodeSide(self._system, host, home, rdma)
            jobs = self._jobs(node, spec, device, before)
            # an attached pod stays attached in the record: if the agent is killed, the next one must not undo it
            phase, since = (before.phase, before.since) if before else (ATTACHING, time.time())
            holder = Holder(
                device.id,
                *(pod.uid, pod.name, pod.namespace, pod.container, pod.sandbox_id, pod.pid),
                *(inside.nsid, phase, since),
                tuple(job.row() for job in jobs),
                *(self._state.boot_id, inside.inode, inside.cookie),
                pod_desired.plan_of(spec, device),
            )
            self._take(holder)
            work = pod_links.PodLinks(node, spec, holder, jobs, fd)
            try:
                holder = in_namespace(fd, lambda: work.attach(self._state.take))
            except BaseException:
                work.probes.close()
                self._give_up(host, holder, before)
                raise
            self.watch.add(holder.device, work.probes, holder.pid, os.fstat(fd))
            return holder

    def detach(self, identity: str) -> bool:
        """Remove a device from a running pod, and free it. Return whether it is free.

        :raises RailyardError: if the kernel refuses it.
        """
        with self._device_lock(identity, self._patience), Rtnetlink() as host:
            holder = self._state.holders().get(identity)
            return holder is None or self._undo(host, holder)

    def recover(self) -> None:
        """Release the devices of earlier boots, undo incomplete attaches of an agent that was killed, and free the
        devices of pods that have ended.

        Devices for which this fails stay held. Other pods are not affected. Rows of an earlier release have no boot,
        namespace, identities and plan. They get those of the namespace that has the recorded number, if the recorded
        process or interfaces with their aliases are in it, and hold nothing otherwise.

        :raises RailyardError: if the record cannot be written.
        """
        self._state.release_earlier_boots()
        for directory in (os.path.dirname(slot_state.FILE), cdi_files.DIRECTORY):
            with contextlib.suppress(RailyardError):
                self._system.remove_incomplete_files(directory)
        with contextlib.ExitStack() as stack, Rtnetlink() as host:
            # undone also if a run goes on changing devices; an agent that was killed has left the file of this lock
            with contextlib.suppress(boot_lock.Busy):
                stack.enter_context(boot_lock.attaching(self._system, self._patience))
            for holder in self._state.holders().values():
                with contextlib.suppress(RailyardError):
                    if holder.inode is None:
                        holder = self._complete(host, holder)
                    if holder.phase == ATTACHING:
                        self._undo(host, holder)
        self.sweep()
        self.unrecorded = host_links.unrecorded(self._system, self._state.holders().values())

    def sweep(self, progress: t.Callable[[], object] = lambda: None) -> list[str]:
        """Free the devices whose pods have ended, and return their ids. Errors are stored in ``problems``.

        One sweep runs at a time. A call during a sweep waits for its end, and returns an empty list. The work for a
        holder does not depend on what its pod has made in its namespace.

        :param progress: called after each holder.
        """
        number = self._sweeps
        with self._sweep_lock:
            if self._sweeps != number:
                return []
            try:
                return self._sweep(progress)
            finally:
                self._sweeps += 1

    def _sweep(self, progress: t.Callable[[], object]) -> list[str]:
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
                progress()
            try:
                problems.update(host_links.without_holder(host, self._state.holders().values()))
            except RailyardError as error:
                problems["interfaces"] = str(error)
        self.problems = problems
        return freed

    def conflicts(self) -> list[dict[str, t.Any]]:
        """Return the addresses of attached pods that other hosts have too, as rows of :meth:`conflict_row`."""
        return [self.conflict_row(conflict) for conflict in self.watch.conflicts()]

    def conflict_row(self, conflict: Conflict) -> dict[str, t.Any]:
        """Return ``device``, ``pod``, ``rail``, ``address``, ``since`` in seconds since 1970, and ``error``."""
        holder = None
        # a damaged record is reported by sweeps
        with contextlib.suppress(RailyardError):
            holder = self._state.holders().get(conflict.owner)
        row = holder.row_of(conflict.netdev) if holder else None
        rail, pod, place = "", holder.pod if holder else "", "device %s" % conflict.owner
        if row:
            rail, place = str(row["rail"]), "pod %s, slot %s of rail %s" % (pod, row["slot"], row["rail"])
        error = str(AttachError("conflict", place, address=conflict.address, macs=", ".join(conflict.macs)))
        found = {"device": conflict.owner, "pod": pod, "rail": rail, "address": conflict.address}
        return dict(found, since=conflict.since, error=error)

    # -- holders ------------------------------------------------------------------------------------------------------

    def _await_free(self, host: Rtnetlink, device: Device, pod: Pod, inside: Namespace) -> Holder | None:
        """Wait until the device is free. Return the holder instead, if it is the pod's sandbox.

        :raises AttachError: reason ``held``.
        """
        addresses = {str(address.ip) for slot in device.slots.values() for address in slot.addresses}
        deadline, pause = time.monotonic() + self._patience, _PAUSE
        while True:
            holder = self._holder_of(device.id, addresses)
            if holder is None:
                return None
            if holder.device == device.id and inside.is_of(holder, pod):
                return holder
            # after a change of the plan, it may be the holder of another device, which another thread may free
            other = self._device_lock(holder.device, 0) if holder.device != device.id else contextlib.nullcontext()
            with contextlib.suppress(AttachError), other:
                if self._state.holders().get(holder.device) == holder and self._free(host, holder):
                    continue
            if time.monotonic() > deadline:
                raise AttachError("held", "device %s" % device.id, pod=holder.pod)
            time.sleep(pause)
            pause = min(2 * pause, _PAUSE_MAX)

    def _holder_of(self, device: str, addresses: set[str]) -> Holder | None:
        """Return a holder of another device that has one of the addresses, or else the holder of the device."""
        holders = self._state.holders()
        others = [each for each in holders.values() if each.device != device and each.addresses & addresses]
        return next(iter(others), None) or holders.get(device)

    def _take(self, holder: Holder) -> None:
        """Record a holder before its interfaces are made.

        :raises AttachError: reason ``held``, if another device has got one of the addresses in the meantime.
        """
        with self._take_lock:
            other = self._holder_of(holder.device, holder.addresses)
            if other is not None and other.device != holder.device:
                raise AttachError("held", "device %s" % holder.device, pod=other.pod)
            self._state.take(holder)

    def _free(self, host: Rtnetlink, holder: Holder) -> bool:
        """Free a device whose pod has ended, or whose attach is undone. Return whether it is free.

        :raises RailyardError: if what was taken from the node cannot be set back. The device stays held.
        """
        self.watch.close_ended(holder.device)
        lives = self._lives(host, holder)
        if holder.phase == ATTACHED and lives:
            return False
        in_pod = any(host_links.interface_in_pod(host, holder, row) for row in holder.interfaces)
        # after an interrupted attach, some ports may be in the pod and others on the node
        returned = host_links.restore(self._system, host, holder, lives)
        if in_pod or not returned:
            return False
        self._state.release(holder.device)
        return True

    def _lives(self, host: Rtnetlink, holder: Holder) -> bool:
        """Return whether the network namespace of a holder exists.

        Its number may belong to another namespace now. This is decided without a search if an interface of the holder
        is there. If nothing shows which namespace has the number, it counts as the holder's.
        """
        try:
            host.link(_LOOPBACK, namespace=holder.nsid)
        except NetlinkError as error:
            if error.errno == errno.EINVAL:
                return False
            raise
        if any(host_links.interface_in_pod(host, holder, row) for row in holder.interfaces):
            return True
        fd = open_numbered(self._system, host, holder.nsid, holder.pid)
        if fd is None:
            return True
        try:
            if holder.inode is None:
                # the row of an earlier release, whose interfaces and process are not there, see recover()
                return False
            return (os.fstat(fd).st_ino, in_namespace(fd, cookie)) == (holder.inode, holder.cookie)
        finally:
            os.close(fd)

    def _complete(self, host: Rtnetlink, holder: Holder) -> Holder:
        """Add to a row of an earlier release what the kernel shows of the pod, if its process or interfaces exist."""
        with contextlib.ExitStack() as stack:
            fd, _home = self._namespaces(stack, host, holder)
            rows = [self._complete_row(host, holder, row, fd is not None) for row in holder.interfaces]
            if fd is None and any("identity" in row for row in rows):
                fd = open_numbered(self._system, host, holder.nsid, holder.pid)
                if fd is not None:
                    stack.callback(os.close, fd)
            if fd is None:
                return holder
            inside = Namespace(holder.nsid, os.fstat(fd).st_ino, in_namespace(fd, cookie))
        spec = pod_desired.recorded_spec(self.spec, holder.interfaces)
        device = spec.device(holder.device)
        holder = holder._replace(
            interfaces=tuple(rows),
            boot_id=self._state.boot_id,
            inode=inside.inode,
            cookie=inside.cookie,
            plan=device and pod_desired.plan_of(spec, device),
        )
        self._state.take(holder)
        return holder

    def _complete_row(self, host: Rtnetlink, holder: Holder, row: Row, certain: bool) -> Row:
        """Return a row with the identity of its interface. ``certain``: whether the namespace is the holder's."""
        link = host_links.interface_in_pod(host, holder, row)
        if link is None and certain and not row.get("host"):
            # the pod may have changed its alias
            link = host.link(row["interface"], namespace=holder.nsid)
            link = link if link and link.kind == self.spec.attachment else None
        if link is None:
            return row
        host_row = row.get("host")
        if host_row:
            # of a link below, the number of its namespace may differ on the node
            known = {key: value for key, value in identity(link).items() if key != "below_namespace"}
            host_row = dict(host_row, identity=known)
        return dict(row, ifindex=link.ifindex, identity=identity(link), host=host_row)

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
    def _no_changes(self, device_id: str, pod: Pod) -> t.Iterator[None]:
        """Keep modules and the boot program from changing devices of the node during the attach.

        :raises AttachError: reason ``node``, if one does not end in time.
        """
        with contextlib.ExitStack() as stack:
            try:
                stack.enter_context(boot_lock.attaching(self._system, self._patience))
            except boot_lock.Busy as error:
                raise AttachError("node", "device %s" % device_id, pod=pod, detail=error.message) from None
            yield

    # -- the attach ---------------------------------------------------------------------------------------------------

    def _open(self, stack: contextlib.ExitStack, path: str, pod: Pod) -> int:
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            place = "pod %s" % str(pod)
            if error.errno in (errno.ENOENT, errno.ESRCH):
                raise AttachError("gone", place, pid=pod.pid) from None
            files = open_files_error(error, place)
            raise (files or AttachError("access", place, pid=pod.pid, detail=error.strerror)) from None
        stack.callback(os.close, fd)
        return fd

    def _jobs(
        self, node: host_links.NodeSide, spec: AgentSpec, device: Device, before: Holder | None
    ) -> list[pod_links.Job]:
        rows = {row["rail"]: row for row in before.interfaces} if before else {}
        moved_rdma: dict[str, int] = {}
        if node.rdma is not None and spec.rdma_mode == "exclusive":
            moved_rdma = host_links.rdma_indexes(node.rdma)
        jobs = []
        for name, slot in device.slots.items():
            rail, row = spec.rail(name), rows.get(name, {})
            link = host_links.interface_in_pod(node.kernel, before, row) if before and row else None
            source = host_links.source(self._system, node.kernel, rail, slot, row)
            index = _new_index() if link is None else link.ifindex
            rdma_index = moved_rdma.get(source.rdma or "", row.get("rdma_index"))
            known = _expected(rail, source) if link is None else identity(link)
            jobs.append(pod_links.Job(rail, slot, source, index, link, known, rdma_index))
        return jobs

    def _give_up(self, host: Rtnetlink, holder: Holder, before: Holder | None) -> None:
        """Restore the record after a failed attach, whose interfaces are removed already. Errors are left to sweeps."""
        with contextlib.suppress(RailyardError):
            if before is not None:
                self._state.take(before)
            else:
                self._free(host, holder._replace(phase=ATTACHING))

    def _undo(self, host: Rtnetlink, holder: Holder) -> bool:
        """Remove a holder's interfaces and free its device. Return whether it is free.

        The namespace can be entered only while a process of the container runs. Otherwise virtual interfaces are
        removed from the node's namespace, and interfaces of the node return when the pod's namespace ends.
        """
        self.watch.end(holder.device)
        if holder.phase != ATTACHING:
            # if the agent is killed, the next one continues
            holder = holder._replace(phase=ATTACHING)
            self._state.take(holder)
        with contextlib.ExitStack() as stack:
            fd, home = self._namespaces(stack, host, holder)
            if fd is not None:
                spec = self.spec if holder.plan is None else pod_desired.kept_spec(self.spec, holder.plan)
                node = host_links.NodeSide(self._system, host, home)
                in_namespace(fd, lambda: _remove(node, spec, holder))
            else:
                for row in holder.interfaces:
                    link = None if row.get("host") else host_links.interface_in_pod(host, holder, row)
                    if link is not None:
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
            # the process ID may have been reused, and so may the number of the namespace
            if os.path.samestat(os.fstat(fd), os.fstat(home)) or host.namespace_number(fd) != holder.nsid:
                return None, home
            if holder.inode in (None, os.fstat(fd).st_ino):
                return fd, home
        return None, home


def _expected(rail: RailSpec, source: host_links.Source) -> dict[str, t.Any]:
    """Return the part of the identity of an interface that is known before it is made."""
    if source.host:
        # the number of the namespace of a link below may differ
        taken: dict[str, t.Any] = source.host.get("identity", {"parent": source.host["pci"]})
        return {key: value for key, value in taken.items() if key != "below_namespace"}
    return {"kind": rail.attachment, "below": source.ifindex}


def _new_index() -> int:
    """Return a random index for an interface in a pod, far above those that the kernel gives."""
    return (1 << 24) + int.from_bytes(os.urandom(3), "little")


def _remove(node: host_links.NodeSide, spec: AgentSpec, holder: Holder) -> None:
    with Rtnetlink() as pod:
        host_links.remove(pod, node, spec, holder)
