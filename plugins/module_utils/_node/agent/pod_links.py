# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

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

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent import host_links, pod_desired
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent.agent_spec import (
    AgentSpec,
    RailSpec,
    SlotSpec,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent.attach_request import AttachError
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent.host_links import NodeSide, Source, port_name
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent.pod_desired import place
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent.slot_state import ATTACHED, Holder, Row
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink import arp, rdma_netlink
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.codec import NetlinkError, NetlinkSocket
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.in_namespace import in_namespace
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.link_messages import (
    Link,
    hardware_address,
    identity,
)
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
    """One rail of the device.

    ``ifindex``: of the interface in the pod, chosen before it is made. ``link``: the interface, if the pod has it.
    ``identity``: what is known of its :func:`.link_messages.identity`. ``rdma_index``: of the RDMA device of the node
    that is moved.
    """

    rail: RailSpec
    slot: SlotSpec
    source: Source
    ifindex: int = 0
    link: Link | None = None
    identity: t.Mapping[str, t.Any] = {}
    rdma_index: int | None = None

    @property
    def place(self) -> str:
        return place(self.rail, self.slot)

    def row(self, link: Link | None = None, rdma: str | None = None) -> Row:
        """Return the row of :attr:`.Holder.interfaces`: before the interface is made, with what is known of it, and
        then with the interface. ``rdma``: its RDMA device, if the pod has one already.
        """
        return {
            "rail": self.rail.rail,
            "slot": self.slot.number,
            "interface": self.rail.interface,
            "address": self.slot.address and str(self.slot.address),
            "address6": self.slot.address6 and str(self.slot.address6),
            "mac": (link and hardware_address(link.address)) or self.slot.mac,
            "rdma": rdma or self.source.rdma,
            "rdma_index": self.rdma_index,
            "host": self.source.host,
            "ifindex": self.ifindex,
            "identity": dict(identity(link) if link else self.identity),
        }


class PodLinks:
    """One attach.

    :param node: with an RDMA socket, unless the kernel does not have RDMA.
    :param pod_fd: file descriptor of the pod's network namespace.
    """

    def __init__(self, node: NodeSide, spec: AgentSpec, holder: Holder, jobs: t.Sequence[Job], pod_fd: int) -> None:
        self._node = node
        self._system = node.system
        self._spec = spec
        self._holder = holder
        self._jobs = jobs
        self._pod_fd = pod_fd
        self._new_jobs = [job for job in jobs if job.link is None]
        # open until the caller closes them or listens on
        self.probes = arp.Probes({})

    def attach(self, record: t.Callable[[Holder], None]) -> Holder:
        """Make or complete all interfaces, record them, and return the holder. If this fails, the interfaces that this
        call made are removed.

        :raises AttachError: if an interface cannot be as planned.
        :raises RailyardError: if ``record`` raises it.
        """
        with Rtnetlink() as pod:
            try:
                self._make(pod)
                self._await_carrier(pod)
                first_probe = self._probe()
                # other hosts answer meanwhile
                devices = self._rdma()
                self._check_answers(first_probe)
                self._address(pod)
                self._await_gids(devices)
                self._read_back(pod)
                found = [(job, _existing(self._node.kernel, job, self._holder.nsid)) for job in self._jobs]
                rows = tuple(job.row(link, devices[job.rail.rail]) for job, link in found)
                attached = self._holder._replace(interfaces=rows, phase=ATTACHED)
                record(attached)
            except BaseException:
                rails = {job.rail.rail for job in self._new_jobs}
                rows = tuple(row for row in self._holder.interfaces if row["rail"] in rails)
                host_links.remove(pod, self._node, self._spec, self._holder._replace(interfaces=rows))
                raise
            return attached

    @contextlib.contextmanager
    def _bounded(self) -> t.Iterator[None]:
        """Raise the error of a table that is too long, or changes all the time, as an error of the pod."""
        try:
            yield
        except AttachError:
            raise
        except RailyardError as error:
            raise AttachError("size", self._jobs[0].place, detail=error.message) from None

    # -- interfaces ---------------------------------------------------------------------------------------------------

    def _make(self, pod: Rtnetlink) -> None:
        """Make the missing interfaces, and configure all."""
        self._refuse_names(pod)
        self._rename(pod)
        for job in self._new_jobs:
            with _kernel_errors(job):
                self._move(job) if job.rail.moved else self._create(job)
                pod.set_link(job.ifindex, alias=self._alias(job))
        for job in self._jobs:
            with _kernel_errors(job):
                self._configure(pod, job, _existing(pod, job))

    def _alias(self, job: Job) -> str:
        return self._holder.alias(job.rail.rail)

    def _refuse_names(self, pod: Rtnetlink) -> None:
        """Refuse a pod that has an interface with a name or alias of the agent that the record does not have."""
        own = {job.ifindex for job in self._jobs if job.link}
        # interfaces that have another name, or are made
        names = {job.rail.interface: job for job in self._jobs if not job.link or job.link.name != job.rail.interface}
        if own:
            found = [link for link in map(pod.link, names) if link is not None]
        else:
            with self._bounded():
                found = pod.links(most=host_links.MOST)
        prefix = "%s %s " % (host_links.ALIAS, self._holder.device)
        foreign = {link.name: link.alias or "" for link in found if link.ifindex not in own}
        taken = [job for name, job in names.items() if name in foreign]
        if taken:
            raise AttachError("interface", taken[0].place, interface=taken[0].rail.interface)
        for name, alias in foreign.items():
            if alias.startswith(prefix):
                raise AttachError("interface", self._jobs[0].place, interface=name)

    def _rename(self, pod: Rtnetlink) -> None:
        """Give interfaces that the pod has renamed their names. They may have each other's."""
        renamed = [job for job in self._jobs if job.link and job.link.name != job.rail.interface]
        for temporary in (True, False):
            for job in renamed:
                with _kernel_errors(job):
                    pod.set_link(job.ifindex, up=False)
                    pod.set_link(job.ifindex, name=host_links.temporary() if temporary else job.rail.interface)

    def _create(self, job: Job) -> None:
        parent = job.source.ifindex
        if parent is None:
            raise AttachError("port", job.place, port=job.source.port)
        mac, name = pod_desired.mac(job.slot), job.rail.interface
        self._node.kernel.new_link(job.rail.attachment, name, parent, self._pod_fd, job.rail.mtu, mac, job.ifindex)

    def _move(self, job: Job) -> None:
        """Move an interface of the node to the pod, in one step of the kernel, which the pod cannot interrupt."""
        index = job.source.ifindex
        if index is None:
            raise AttachError("port", job.place, port=job.source.port)
        self._node.kernel.set_link(index, up=False)
        name, alias = job.rail.interface, self._alias(job)
        self._node.kernel.set_link(index, namespace=self._pod_fd, new_index=job.ifindex, name=name, alias=alias)

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

    def _await_carrier(self, pod: Rtnetlink) -> None:
        def without_carrier() -> list[Job]:
            return [job for job in self._jobs if not _existing(pod, job).carrier]

        pending = _wait(without_carrier, PATIENCE)
        if pending:
            raise AttachError("carrier", pending[0].place, port=pending[0].source.port)

    # -- other hosts --------------------------------------------------------------------------------------------------

    def _probe(self) -> float:
        """Probe for the addresses of all interfaces. Return the time, by the monotonic clock."""
        if self._spec.conflict_check:
            addresses = [[str(address.ip) for address in job.slot.addresses] for job in self._jobs]
            self.probes = arp.Probes({job.rail.interface: each for job, each in zip(self._jobs, addresses)})
            made = [pair for pair in zip(self._jobs, addresses) if pair[0].rail.attachment in ("macvlan", "ipvlan")]
            if made:
                in_namespace(self._node.fd, lambda: self._listen_on_ports(made))
        self.probes.send()
        return time.monotonic()

    def _listen_on_ports(self, made: t.Sequence[tuple[Job, t.Sequence[str]]]) -> None:
        """Listen on the ports too, because the kernel does not give each claim to an interface on a port.

        macvlan omits broadcasts from the MAC of the interface, which are those of a clone. ipvlan gives an interface
        only unicast packets for its addresses; a reply to a probe is for 0.0.0.0 and the MAC of the port. Sources:
        ``macvlan_multicast_rx`` of the kernel's ``macvlan.c``, ``ipvlan_handle_mode_l2`` of its ``ipvlan_core.c``.
        """
        for job, each in made:
            self.probes.listen_on(port_name(self._system, job.rail), each, job.rail.interface)

    def _check_answers(self, first_probe: float) -> None:
        """Refuse addresses that another host has, and gateways that do not answer. Only new interfaces are checked."""
        if self.probes.listeners and self._new_jobs:
            self.probes.listen(first_probe + SECOND_PROBE - time.monotonic(), self._conflict)
            if not self._conflict():
                self.probes.send()
                left = max(SECOND_PROBE, first_probe + LAST_ANSWER - time.monotonic())
                self.probes.listen(left, self._conflict)
            conflict = self._conflict()
            if conflict:
                raise conflict
        if self._spec.gateway_check:
            self._probe_gateways()

    def _conflict(self) -> AttachError | None:
        """Return the error of the first address that another host has or probes for; None without one."""
        for job in self._new_jobs:
            for address in job.slot.addresses:
                key = job.rail.interface, str(address.ip)
                macs = [*self.probes.found.get(key, ()), *self.probes.probing.get(key, ())]
                if macs:
                    return AttachError("conflict", job.place, address=key[1], macs=", ".join(macs))
        return None

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

    def _address(self, pod: Rtnetlink) -> None:
        for job in self._jobs:
            with _kernel_errors(job):
                for address in job.slot.addresses:
                    flags = IFA_F_NODAD if address.version == 6 else 0
                    _retry_in_use(functools.partial(pod.add_address, job.ifindex, address, flags))
                for route in pod_desired.routes(job.rail, job.slot, job.ifindex):
                    pod.add_route(route)
                # last, so that addresses use the table only when it is complete
                for rule in pod_desired.rules(job.rail, job.slot):
                    pod.add_rule(rule)

    def _read_back(self, pod: Rtnetlink) -> None:
        most = host_links.MOST
        with self._bounded():
            addresses = pod.addresses(most)
            routes = pod.routes(4, most) + pod.routes(6, most)
            rules = pod.rules(4, most) + pod.rules(6, most)
        for job in self._jobs:
            link = _existing(pod, job)
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
        if self._node.rdma is None:
            raise AttachError("rdma", rdma_jobs[0].place, rdma=rdma_jobs[0].source.rdma or rdma_jobs[0].rail.rdma_type)
        inside = NetlinkSocket(rdma_netlink.NETLINK_RDMA, "RDMA subsystem")
        try:
            devices.update(self._devices(inside, self._node.rdma, rdma_jobs))
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
        in_pod, on_node = host_links.rdma_indexes(inside), host_links.rdma_indexes(outside)
        new = [job for job in jobs if job.rail.soft and devices[job.rail.rail] not in {**in_pod, **on_node}]
        for job in new:
            with _kernel_errors(job):
                rdma_netlink.new_link(inside, devices[job.rail.rail], job.rail.rdma_type, job.rail.interface)
        if self._spec.rdma_mode == "exclusive":
            # the kernel makes soft devices in the initial namespace
            on_node = host_links.rdma_indexes(outside) if new else on_node
            for job in jobs:
                # rails may share a device
                index = on_node.pop(devices[job.rail.rail], None)
                if index is not None:
                    with _kernel_errors(job):
                        rdma_netlink.move(outside, index, self._pod_fd)
        in_pod = host_links.rdma_indexes(inside)
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


def _existing(kernel: Rtnetlink, job: Job, namespace: int | None = None) -> Link:
    """Return the interface of a job. ``namespace``: number of the pod's namespace, if it is not that of ``kernel``."""
    link = kernel.link(job.ifindex, namespace=namespace)
    if link is None:
        raise AttachError("not-taken", job.place, missing="the interface %s" % job.rail.interface)
    return link


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
