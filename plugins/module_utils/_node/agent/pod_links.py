# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""The interfaces of one device in one pod: made, checked, read back and removed, all rails of the device together.

All of it runs in the pod's network namespace (:mod:`in_namespace`); only ``/sys`` is the node's. The steps that wait
(carrier, answers of other hosts, GIDs) wait for all rails at once.
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
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent.host_links import Source
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent.pod_desired import place
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent.slot_state import Holder, Row
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink import arp, rdma_netlink
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.codec import NetlinkError, NetlinkSocket
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.link_messages import Link, hardware_address
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.rtnetlink import IFA_F_NODAD, Rtnetlink
from ansible_collections.railyard.fabric.plugins.module_utils._node.readers import gids

# Seconds: for carrier and for GIDs; for each of two rounds of questions; for a gateway.
PATIENCE = 10.0
ANSWER = 0.2
GATEWAY = 3.0
_LOOK = 0.05
# How long only the heads of GID tables are read, each up to so many empty entries in a row.
_QUICKLY = 1.0
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
    """One attach. ``host`` and ``host_rdma`` are sockets of the node's namespace, ``fd`` is the pod's."""

    def __init__(
        self,
        system: System,
        spec: AgentSpec,
        holder: Holder,
        jobs: t.Sequence[Job],
        fd: int,
        home: int,
        host: Rtnetlink,
        host_rdma: NetlinkSocket | None,
    ) -> None:
        self._system = system
        self._spec = spec
        self._holder = holder
        self._jobs = jobs
        self._fd, self._home = fd, home
        self._host, self._host_rdma = host, host_rdma
        self._fresh: list[Job] = []

    def attach(self) -> list[Row]:
        """Make, or complete, all interfaces; the rows of the record. What this run made is undone if it fails.

        :raises AttachError: if one of them cannot be as planned.
        """
        with Rtnetlink() as pod:
            try:
                links = self._make(pod)
                self._await_carrier(pod, links)
                self._probe(links)
                self._address(pod, links)
                devices = self._rdma()
                self._read_back(pod)
            except BaseException:
                rows = [_row(job, None, None) for job in self._fresh]
                remove(self._system, pod, self._holder._replace(interfaces=tuple(rows)), self._home)
                raise
            return [_row(job, links[job.rail.rail], devices[job.rail.rail]) for job in self._jobs]

    # -- interfaces ---------------------------------------------------------------------------------------------------

    def _make(self, pod: Rtnetlink) -> dict[str, Link]:
        held = {link.name: link for link in pod.links()}
        for job in self._jobs:
            link = held.get(job.rail.interface)
            if link is None:
                self._fresh.append(job)
            elif link.alias != self._alias(job):
                raise AttachError("interface", job.place, interface=job.rail.interface)
        for job in self._fresh:
            with _of(job):
                half_made = held.get(pod_desired.temporary(job.rail.interface))
                if half_made is not None and not self._spec.moved:
                    pod.delete_link(half_made.ifindex)
                self._move(pod, job) if self._spec.moved else self._create(job)
                link = _existing(pod, job, pod_desired.temporary(job.rail.interface))
                pod.set_link(link.ifindex, name=job.rail.interface, alias=self._alias(job))
        links = {}
        for job in self._jobs:
            with _of(job):
                link = _existing(pod, job, job.rail.interface)
                self._set_up(pod, job, link)
                links[job.rail.rail] = _existing(pod, job, job.rail.interface)
        return links

    def _alias(self, job: Job) -> str:
        return self._holder.alias(job.rail.rail)

    def _create(self, job: Job) -> None:
        name, address = pod_desired.temporary(job.rail.interface), pod_desired.mac(job.slot)
        index = job.source.ifindex
        if index is None:
            raise AttachError("port", job.place, port=job.source.port)
        self._host.new_link(self._spec.attachment, name, index, self._fd, job.rail.mtu, address)

    def _move(self, pod: Rtnetlink, job: Job) -> None:
        """Bring an interface of the node. It is marked first, so that it is known wherever it is."""
        name = pod_desired.temporary(job.rail.interface)
        index = job.source.ifindex
        if index is None:
            # an attach that was interrupted has moved it already
            link = next((each for each in pod.links() if each.alias == self._alias(job)), None)
            if link is None:
                raise AttachError("port", job.place, port=job.source.port)
            pod.set_link(link.ifindex, name=name)
            return
        unique = pod_desired.TEMPORARY + str(index)
        self._host.set_link(index, up=False, alias=self._alias(job))
        self._host.set_link(index, name=unique)
        self._host.set_link(index, namespace=self._fd)
        pod.set_link(_existing(pod, job, unique).ifindex, name=name)

    def _set_up(self, pod: Rtnetlink, job: Job, link: Link) -> None:
        address = pod_desired.mac(job.slot)
        if address is not None and link.address != address:
            pod.set_link(link.ifindex, address=address)
        if job.rail.mtu is not None and link.mtu != job.rail.mtu:
            pod.set_link(link.ifindex, mtu=job.rail.mtu)
        for path, value, needed in pod_desired.sysctls(job.rail, job.slot):
            if needed or self._system.exists(path):
                try:
                    self._system.write_attribute(path, value)
                except OSError as error:
                    raise AttachError("kernel", job.place, detail="%s: %s" % (path, error.strerror)) from None
        if not link.up:
            _patiently(lambda: pod.set_link(link.ifindex, up=True))

    def _await_carrier(self, pod: Rtnetlink, links: dict[str, Link]) -> None:
        def without() -> list[Job]:
            return [job for job in self._jobs if not _existing(pod, job, links[job.rail.rail].ifindex).carrier]

        left = _wait(without)
        if left:
            raise AttachError("carrier", left[0].place, port=left[0].source.port)

    # -- other hosts --------------------------------------------------------------------------------------------------

    def _probe(self, links: dict[str, Link]) -> None:
        """Refuse addresses that another host has, and gateways that do not answer."""
        ours = {hardware_address(link.address) for link in links.values()}
        asked: dict[str, list[str]] = {}
        if self._spec.conflict_check:
            asked = {job.rail.interface: [str(each.ip) for each in job.slot.addresses] for job in self._fresh}
        answers = arp.ask(asked, ANSWER, ours) if asked else {}
        for job in self._fresh:
            for each in job.slot.addresses:
                macs = answers.get((job.rail.interface, str(each.ip)))
                if macs:
                    raise AttachError("conflict", job.place, address=each.ip, macs=", ".join(macs))
        if self._spec.gateway_check:
            self._probe_gateways()

    def _probe_gateways(self) -> None:
        asked = {
            job.rail.interface: [
                str(each) for each in job.rail.gateways if each.version in {own.version for own in job.slot.addresses}
            ]
            for job in self._fresh
        }
        # two rounds
        answers = arp.ask(asked, GATEWAY / arp.TRIES)
        for job in self._fresh:
            for gateway in asked[job.rail.interface]:
                if (job.rail.interface, gateway) not in answers:
                    raise AttachError("gateway", job.place, gateway=gateway)

    # -- addresses, routes, rules -------------------------------------------------------------------------------------

    def _address(self, pod: Rtnetlink, links: dict[str, Link]) -> None:
        for job in self._jobs:
            index = links[job.rail.rail].ifindex
            with _of(job):
                for each in job.slot.addresses:
                    flags = IFA_F_NODAD if each.version == 6 else 0
                    _patiently(functools.partial(pod.add_address, index, each, flags))
                for route in pod_desired.routes(job.rail, job.slot, index):
                    pod.add_route(route)
                # last: addresses use the table only when it is complete
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
                raise AttachError("not-taken", job.place, wanted=", ".join(missing))

    # -- RDMA ---------------------------------------------------------------------------------------------------------

    def _rdma(self) -> dict[str, str | None]:
        """The RDMA device of each rail: made if it is a soft one, in rdma mode exclusive moved, with its GIDs."""
        devices: dict[str, str | None] = {job.rail.rail: None for job in self._jobs}
        wanted = [job for job in self._jobs if job.rail.soft or job.source.rdma]
        if not wanted:
            return devices
        if self._host_rdma is None:
            raise AttachError("rdma", wanted[0].place, rdma=wanted[0].source.rdma or wanted[0].rail.rdma_type)
        inside = NetlinkSocket(rdma_netlink.NETLINK_RDMA, "RDMA subsystem")
        try:
            devices.update(self._devices(inside, self._host_rdma, wanted))
        finally:
            inside.close()
        if self._spec.rdma_mode == "shared":
            # in mode exclusive, the node's /sys does not show the device any more
            self._await_gids(wanted, devices)
        return devices

    def _devices(self, inside: NetlinkSocket, outside: NetlinkSocket, jobs: t.Sequence[Job]) -> dict[str, str]:
        """Rail -> its device in the pod. Lists of all devices are expensive, so there are few for all rails."""
        devices = {job.rail.rail: self._device_name(job) for job in jobs}
        seen, on_node = _indexes(inside), _indexes(outside)
        new = [job for job in jobs if job.rail.soft and devices[job.rail.rail] not in {**seen, **on_node}]
        for job in new:
            with _of(job):
                rdma_netlink.new_link(inside, devices[job.rail.rail], job.rail.rdma_type, job.rail.interface)
        if self._spec.rdma_mode == "exclusive":
            # the kernel makes soft devices in the first namespace
            on_node = _indexes(outside) if new else on_node
            for job in jobs:
                if devices[job.rail.rail] in on_node:
                    with _of(job):
                        rdma_netlink.move(outside, on_node[devices[job.rail.rail]], self._fd)
        seen = _indexes(inside)
        for job in jobs:
            if devices[job.rail.rail] not in seen:
                raise AttachError("rdma", job.place, rdma=devices[job.rail.rail])
        return devices

    def _device_name(self, job: Job) -> str:
        return pod_desired.soft_device(job.rail, self._holder.sandbox_id) if job.rail.soft else job.source.rdma or ""

    def _await_gids(self, jobs: t.Sequence[Job], devices: dict[str, str | None]) -> None:
        def without(gap: int | None) -> list[Job]:
            return [
                job
                for job in jobs
                if not gids.holds(
                    self._system, str(devices[job.rail.rail]), [str(each.ip) for each in job.slot.addresses], gap
                )
            ]

        # new GIDs are at the head of a table; whole tables are read only where they are not
        left = _wait(lambda: without(_GAP), _QUICKLY) and _wait(lambda: without(None))
        if left:
            addresses = ", ".join(str(each.ip) for each in left[0].slot.addresses)
            raise AttachError("gid", left[0].place, rdma=devices[left[0].rail.rail], addresses=addresses)


def remove(system: System, pod: Rtnetlink, holder: Holder, home: int) -> None:
    """Remove a holder's interfaces from the pod's namespace, which is the caller's, with their rules. What belongs to
    the node goes back to it, under a temporary name: :func:`.host_links.restore` gives it its own.
    """
    for rule in [*pod.rules(4), *pod.rules(6)]:
        if rule.plain and rule.source is not None and str(rule.source.network_address) in holder.addresses:
            pod.delete_rule(rule)
    _send_home(system, {row["rdma"] for row in holder.interfaces if row.get("rdma")}, home)
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
            pod.set_link(link.ifindex, namespace=home)


def _send_home(system: System, devices: set[str], home: int) -> None:
    """Move RDMA devices back to the node; nothing if the namespace does not have them to itself."""
    inside = rdma_netlink.connect(system) if devices else None
    if inside is None:
        return
    try:
        if rdma_netlink.netns_mode(inside) == "exclusive":
            for name, index in _indexes(inside).items():
                if name in devices:
                    rdma_netlink.move(inside, index, home)
    finally:
        inside.close()


def _row(job: Job, link: Link | None, rdma: str | None) -> Row:
    return pod_desired.row(job.rail, job.slot, link, rdma or job.source.rdma, job.source.host)


def _existing(pod: Rtnetlink, job: Job, which: int | str) -> Link:
    link = pod.link(which)
    if link is None:
        raise AttachError("not-taken", job.place, wanted="the interface %s" % job.rail.interface)
    return link


def _indexes(sock: NetlinkSocket) -> dict[str, int]:
    """The RDMA devices of a socket's namespace: name -> index."""
    return {row["name"]: row["index"] for row in rdma_netlink.devices(sock)}


def _wait(without: t.Callable[[], list[Job]], seconds: float = PATIENCE) -> list[Job]:
    """Wait until nothing is without; what is left after ``seconds``."""
    deadline = time.monotonic() + seconds
    while True:
        left = without()
        if not left or time.monotonic() > deadline:
            return left
        time.sleep(_LOOK)


def _patiently(act: t.Callable[[], None]) -> None:
    """Do what the kernel refuses while an interface of the slot's last pod, whose namespace is just ending, still has
    the MAC (macvlan) or the address (ipvlan).
    """
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            return act()
        except NetlinkError as error:
            if error.errno != errno.EADDRINUSE or time.monotonic() > deadline:
                raise
        time.sleep(_LOOK)


@contextlib.contextmanager
def _of(job: Job) -> t.Iterator[None]:
    """Errors of the kernel as errors of the slot."""
    try:
        yield
    except NetlinkError as error:
        raise AttachError("kernel", job.place, detail=error.message) from None
