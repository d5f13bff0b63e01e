# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""The interfaces of one device in one pod: made, checked, read back and removed, for all rails of the device together.

The code runs in the pod's network namespace (:mod:`in_namespace`), with the node's ``/sys``. Steps that wait (carrier,
answers of other hosts, GIDs) wait for all rails at the same time.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import time
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._node.agent import pod_desired
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent.agent_spec import (
    AgentSpec,
    RailSpec,
    SlotSpec,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent.attach_request import AttachError
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent.host_links import Source, port_name
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent.pod_desired import place
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent.slot_state import Holder, Row
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink import arp, rdma_netlink
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.codec import NetlinkError, NetlinkSocket
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.in_namespace import in_namespace
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.link_messages import Link
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.rtnetlink import IFA_F_NODAD, Rtnetlink
from ansible_collections.railyard.fabric.plugins.module_utils._node.readers import gids

# Seconds to wait for carrier and for GIDs.
PATIENCE = 10.0
# Seconds from the first probe for the pod's addresses to the second, and to the last answer that refuses an address.
# Later answers are heard by :mod:`.address_watch`, while the pod runs.
SECOND_PROBE, LAST_ANSWER = 0.2, 0.65
# Seconds for an answer of a gateway.
GATEWAY = 3.0
# Seconds between two checks.
_PAUSE = 0.05
# GIDs are first searched for this many seconds at the head of each table, up to this many consecutive empty entries.
_HEAD_SECONDS = 1.0
_GAP = 16


class Job(t.NamedTuple):
    """One rail of the device."""

    rail: RailSpec
    slot: SlotSpec
    source: Source

    @property
    def place(self) -> str:
        return place(self.rail, self.slot)


class PodLinks:
    """One attach.

    :param pod_fd: file descriptor of the pod's network namespace.
    :param node_fd: file descriptor of the node's network namespace.
    :param host: socket of the node's namespace.
    :param host_rdma: RDMA netlink socket of the node's namespace; None if the kernel does not have RDMA.
    """

    def __init__(
        self,
        system: System,
        spec: AgentSpec,
        holder: Holder,
        jobs: t.Sequence[Job],
        pod_fd: int,
        node_fd: int,
        host: Rtnetlink,
        host_rdma: NetlinkSocket | None,
    ) -> None:
        self._system = system
        self._spec = spec
        self._holder = holder
        self._jobs = jobs
        self._pod_fd, self._node_fd = pod_fd, node_fd
        self._host, self._host_rdma = host, host_rdma
        self._new_jobs: list[Job] = []
        # open until the caller closes them or listens on
        self.probes = arp.Probes({})

    def attach(self) -> list[Row]:
        """Make or complete all interfaces, and return their rows of the record.

        :raises AttachError: if an interface cannot be as planned. Interfaces that this call made are removed.
        """
        with Rtnetlink() as pod:
            try:
                links = self._make(pod)
                self._await_carrier(pod, links)
                first_probe = self._probe()
                # other hosts answer meanwhile
                devices = self._rdma()
                self._check_answers(first_probe)
                self._address(pod, links)
                self._await_gids(devices)
                self._read_back(pod)
            except BaseException:
                rows = [_row(job, None, None) for job in self._new_jobs]
                remove(self._system, pod, self._holder._replace(interfaces=tuple(rows)), self._node_fd)
                raise
            return [_row(job, links[job.rail.rail], devices[job.rail.rail]) for job in self._jobs]

    # -- interfaces ---------------------------------------------------------------------------------------------------

    def _make(self, pod: Rtnetlink) -> dict[str, Link]:
        """Make the missing interfaces, and configure all. Return rail -> interface."""
        existing = {link.name: link for link in pod.links()}
        for job in self._jobs:
            link = existing.get(job.rail.interface)
            if link is None:
                self._new_jobs.append(job)
            elif link.alias != self._alias(job):
                raise AttachError("interface", job.place, interface=job.rail.interface)
        for job in self._new_jobs:
            with _kernel_errors(job):
                incomplete = existing.get(pod_desired.temporary(job.rail.interface))
                if incomplete is not None and not self._spec.moved:
                    pod.delete_link(incomplete.ifindex)
                self._move(pod, job) if self._spec.moved else self._create(job)
                link = _existing(pod, job, pod_desired.temporary(job.rail.interface))
                pod.set_link(link.ifindex, name=job.rail.interface, alias=self._alias(job))
        links = {}
        for job in self._jobs:
            with _kernel_errors(job):
                link = _existing(pod, job, job.rail.interface)
                self._configure(pod, job, link)
                links[job.rail.rail] = _existing(pod, job, job.rail.interface)
        return links

    def _alias(self, job: Job) -> str:
        return self._holder.alias(job.rail.rail)

    def _create(self, job: Job) -> None:
        name, address = pod_desired.temporary(job.rail.interface), pod_desired.mac(job.slot)
        index = job.source.ifindex
        if index is None:
            raise AttachError("port", job.place, port=job.source.port)
        self._host.new_link(self._spec.attachment, name, index, self._pod_fd, job.rail.mtu, address)

    def _move(self, pod: Rtnetlink, job: Job) -> None:
        """Move an interface of the node to the pod. Its alias is set first, so that it is found in both namespaces."""
        name = pod_desired.temporary(job.rail.interface)
        index = job.source.ifindex
        if index is None:
            # an interrupted attach has moved it already
            link = next((candidate for candidate in pod.links() if candidate.alias == self._alias(job)), None)
            if link is None:
                raise AttachError("port", job.place, port=job.source.port)
            pod.set_link(link.ifindex, name=name)
            return
        unique = pod_desired.TEMPORARY + str(index)
        self._host.set_link(index, up=False, alias=self._alias(job))
        self._host.set_link(index, name=unique)
        self._host.set_link(index, namespace=self._pod_fd)
        pod.set_link(_existing(pod, job, unique).ifindex, name=name)

    def _configure(self, pod: Rtnetlink, job: Job, link: Link) -> None:
        address = pod_desired.mac(job.slot)
        if address is not None and link.address != address:
            pod.set_link(link.ifindex, address=address)
        if job.rail.mtu is not None and link.mtu != job.rail.mtu:
            pod.set_link(link.ifindex, mtu=job.rail.mtu)
        for path, value, must_exist in pod_desired.sysctls(job.rail, job.slot):
            if must_exist or self._system.exists(path):
                try:
                    self._system.write_attribute(path, value)
                except OSError as error:
                    raise AttachError("kernel", job.place, detail="%s: %s" % (path, error.strerror)) from None
        if not link.up:
            _retry_in_use(lambda: pod.set_link(link.ifindex, up=True))

    def _await_carrier(self, pod: Rtnetlink, links: dict[str, Link]) -> None:
        def without_carrier() -> list[Job]:
            return [job for job in self._jobs if not _existing(pod, job, links[job.rail.rail].ifindex).carrier]

        pending = _wait(without_carrier, PATIENCE)
        if pending:
            raise AttachError("carrier", pending[0].place, port=pending[0].source.port)

    # -- other hosts --------------------------------------------------------------------------------------------------

    def _probe(self) -> float:
        """Probe for the addresses of all interfaces. Return the time, by the monotonic clock."""
        if self._spec.conflict_check:
            addresses = [[str(address.ip) for address in job.slot.addresses] for job in self._jobs]
            self.probes = arp.Probes({job.rail.interface: each for job, each in zip(self._jobs, addresses)})
            if self._spec.attachment in ("macvlan", "ipvlan"):
                in_namespace(self._node_fd, lambda: self._listen_on_ports(addresses))
        self.probes.send()
        return time.monotonic()

    def _listen_on_ports(self, addresses: t.Sequence[t.Sequence[str]]) -> None:
        """Listen on the ports too, because the kernel does not give each claim to an interface on a port.

        macvlan omits broadcasts from the MAC of the interface, which are those of a clone. ipvlan gives an interface
        only unicast packets for its addresses; a reply to a probe is for 0.0.0.0 and the MAC of the port. Sources:
        ``macvlan_multicast_rx`` of the kernel's ``macvlan.c``, ``ipvlan_handle_mode_l2`` of its ``ipvlan_core.c``.
        """
        for job, each in zip(self._jobs, addresses):
            self.probes.listen_on(port_name(self._system, job.rail), each, job.rail.interface)

    def _check_answers(self, first_probe: float) -> None:
        """Refuse addresses that another host has, and gateways that do not answer. Only new interfaces are checked."""
        if self.probes.listeners and self._new_jobs:
            self.probes.listen(first_probe + SECOND_PROBE - time.monotonic(), self._has_conflict)
            if not self._has_conflict():
                self.probes.send()
                left = max(SECOND_PROBE, first_probe + LAST_ANSWER - time.monotonic())
                self.probes.listen(left, self._has_conflict)
            for job, address, macs in self._conflicts():
                raise AttachError("conflict", job.place, address=address, macs=", ".join(macs))
        if self._spec.gateway_check:
            self._probe_gateways()

    def _conflicts(self) -> t.Iterator[tuple[Job, str, list[str]]]:
        """Yield the addresses that another host has or probes for, with the hardware addresses of these hosts."""
        for job in self._new_jobs:
            for address in job.slot.addresses:
                key = job.rail.interface, str(address.ip)
                macs = [*self.probes.found.get(key, ()), *self.probes.probing.get(key, ())]
                if macs:
                    yield job, key[1], macs

    def _has_conflict(self) -> bool:
        return any(True for _conflict in self._conflicts())

    def _probe_gateways(self) -> None:
        queries: dict[str, list[str]] = {}
        for job in self._new_jobs:
            versions = {address.version for address in job.slot.addresses}
            queries[job.rail.interface] = [str(each) for each in job.rail.gateways if each.version in versions]
        # GATEWAY is the time of all rounds
        answers = arp.ask(queries, GATEWAY / arp.TRIES)
        for job in self._new_jobs:
            for gateway in queries[job.rail.interface]:
                if (job.rail.interface, gateway) not in answers:
                    raise AttachError("gateway", job.place, gateway=gateway)

    # -- addresses, routes, rules -------------------------------------------------------------------------------------

    def _address(self, pod: Rtnetlink, links: dict[str, Link]) -> None:
        for job in self._jobs:
            index = links[job.rail.rail].ifindex
            with _kernel_errors(job):
                for address in job.slot.addresses:
                    flags = IFA_F_NODAD if address.version == 6 else 0
                    _retry_in_use(functools.partial(pod.add_address, index, address, flags))
                for route in pod_desired.routes(job.rail, job.slot, index):
                    pod.add_route(route)
                # last, so that addresses use the table only when it is complete
                for rule in pod_desired.rules(job.rail, job.slot):
                    pod.add_rule(rule)

    def _read_back(self, pod: Rtnetlink) -> None:
        addresses = pod.addresses()
        routes = pod.routes(4) + pod.routes(6)
        rules = pod.rules(4) + pod.rules(6)
        for job in self._jobs:
            link = _existing(pod, job, job.rail.interface)
            missing = pod_desired.missing(job.rail, job.slot, link, addresses, routes, rules)
            if missing:
                raise AttachError("not-taken", job.place, missing=", ".join(missing))

    # -- RDMA ---------------------------------------------------------------------------------------------------------

    def _rdma(self) -> dict[str, str | None]:
        """Make soft RDMA devices, and in RDMA mode exclusive move devices to the pod.

        :return: rail -> RDMA device; None for a rail without RDMA.
        """
        devices: dict[str, str | None] = {job.rail.rail: None for job in self._jobs}
        rdma_jobs = [job for job in self._jobs if job.rail.soft or job.source.rdma]
        if not rdma_jobs:
            return devices
        if self._host_rdma is None:
            raise AttachError("rdma", rdma_jobs[0].place, rdma=rdma_jobs[0].source.rdma or rdma_jobs[0].rail.rdma_type)
        inside = NetlinkSocket(rdma_netlink.NETLINK_RDMA, "RDMA subsystem")
        try:
            devices.update(self._devices(inside, self._host_rdma, rdma_jobs))
        finally:
            inside.close()
        return devices

    def _devices(self, inside: NetlinkSocket, outside: NetlinkSocket, jobs: t.Sequence[Job]) -> dict[str, str]:
        """Return rail -> its device in the pod, after making or moving it.

        Listing all devices is expensive, so all rails share the lists.

        :param inside: socket of the pod's namespace.
        :param outside: socket of the node's namespace.
        """
        devices = {job.rail.rail: self._device_name(job) for job in jobs}
        in_pod, on_node = _indexes(inside), _indexes(outside)
        new = [job for job in jobs if job.rail.soft and devices[job.rail.rail] not in {**in_pod, **on_node}]
        for job in new:
            with _kernel_errors(job):
                rdma_netlink.new_link(inside, devices[job.rail.rail], job.rail.rdma_type, job.rail.interface)
        if self._spec.rdma_mode == "exclusive":
            # the kernel makes soft devices in the initial namespace
            on_node = _indexes(outside) if new else on_node
            for job in jobs:
                if devices[job.rail.rail] in on_node:
                    with _kernel_errors(job):
                        rdma_netlink.move(outside, on_node[devices[job.rail.rail]], self._pod_fd)
        in_pod = _indexes(inside)
        for job in jobs:
            if devices[job.rail.rail] not in in_pod:
                raise AttachError("rdma", job.place, rdma=devices[job.rail.rail])
        return devices

    def _device_name(self, job: Job) -> str:
        return pod_desired.soft_device(job.rail, self._holder.sandbox_id) if job.rail.soft else job.source.rdma or ""

    def _await_gids(self, devices: dict[str, str | None]) -> None:
        if self._spec.rdma_mode != "shared":
            # in mode exclusive, the node's /sys does not show a moved device
            return
        jobs = [job for job in self._jobs if devices[job.rail.rail]]
        # GIDs of InfiniBand are those of the port, without IP addresses
        jobs = [job for job in jobs if gids.ethernet(self._system, str(devices[job.rail.rail]))]

        def without_gids(gap: int | None) -> list[Job]:
            pending = []
            for job in jobs:
                addresses = [str(address.ip) for address in job.slot.addresses]
                if not gids.holds(self._system, str(devices[job.rail.rail]), addresses, gap):
                    pending.append(job)
            return pending

        # new GIDs are at the head of a table; a whole table may have 1,024 files
        pending = _wait(lambda: without_gids(_GAP), _HEAD_SECONDS) and _wait(lambda: without_gids(None), PATIENCE)
        if pending:
            addresses = ", ".join(str(address.ip) for address in pending[0].slot.addresses)
            raise AttachError("gid", pending[0].place, rdma=devices[pending[0].rail.rail], addresses=addresses)


def remove(system: System, pod: Rtnetlink, holder: Holder, node_fd: int) -> None:
    """Remove a holder's interfaces and rules from the pod's namespace, in which the caller runs.

    Interfaces and RDMA devices of the node are moved back. :func:`.host_links.restore` restores their names.

    :param node_fd: file descriptor of the node's network namespace.
    """
    for rule in [*pod.rules(4), *pod.rules(6)]:
        if rule.plain and rule.source is not None and str(rule.source.network_address) in holder.addresses:
            pod.delete_rule(rule)
    _return_rdma(system, {row["rdma"] for row in holder.interfaces if row.get("rdma")}, node_fd)
    links = pod.links()
    for row in holder.interfaces:
        for link in links:
            if holder.alias(row["rail"]) != link.alias and link.name != pod_desired.temporary(row["interface"]):
                continue
            if not row.get("host"):
                pod.delete_link(link.ifindex)
                continue
            pod.set_link(link.ifindex, up=False)
            pod.set_link(link.ifindex, name=pod_desired.TEMPORARY + str(link.ifindex))
            pod.set_link(link.ifindex, namespace=node_fd)


def _return_rdma(system: System, devices: set[str], node_fd: int) -> None:
    """Move RDMA devices back to the node. Nothing in RDMA mode shared, in which they were not moved."""
    inside = rdma_netlink.connect(system) if devices else None
    if inside is None:
        return
    try:
        if rdma_netlink.netns_mode(inside) == "exclusive":
            for name, index in _indexes(inside).items():
                if name in devices:
                    rdma_netlink.move(inside, index, node_fd)
    finally:
        inside.close()


def _row(job: Job, link: Link | None, rdma: str | None) -> Row:
    return pod_desired.row(job.rail, job.slot, link, rdma or job.source.rdma, job.source.host)


def _existing(pod: Rtnetlink, job: Job, which: int | str) -> Link:
    link = pod.link(which)
    if link is None:
        raise AttachError("not-taken", job.place, missing="the interface %s" % job.rail.interface)
    return link


def _indexes(sock: NetlinkSocket) -> dict[str, int]:
    """Return the RDMA devices of a socket's namespace: name -> index."""
    return {row["name"]: row["index"] for row in rdma_netlink.devices(sock)}


def _wait(pending_jobs: t.Callable[[], list[Job]], seconds: float) -> list[Job]:
    """Wait until ``pending_jobs`` returns an empty list. Return the pending jobs after ``seconds``."""
    deadline = time.monotonic() + seconds
    while True:
        pending = pending_jobs()
        if not pending or time.monotonic() > deadline:
            return pending
        time.sleep(_PAUSE)


def _retry_in_use(act: t.Callable[[], None]) -> None:
    """Call ``act`` again while the kernel answers EADDRINUSE, at most :data:`PATIENCE` seconds.

    The interface of the slot's last pod has the MAC (macvlan) or the address (ipvlan) until its namespace has ended.
    """
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            return act()
        except NetlinkError as error:
            if error.errno != errno.EADDRINUSE or time.monotonic() > deadline:
                raise
        time.sleep(_PAUSE)


@contextlib.contextmanager
def _kernel_errors(job: Job) -> t.Iterator[None]:
    """Raise errors of the kernel as errors of the slot."""
    try:
        yield
    except NetlinkError as error:
        raise AttachError("kernel", job.place, detail=error.message) from None
