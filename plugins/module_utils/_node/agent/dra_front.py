# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The rail agent as a DRA driver: the devices of the node file, published as ResourceSlices.

A claim's device is attached to a pod by its CDI device and the hook, like a device of a device plugin.

A driver that the node file does not have any more is drained: it stays registered without slices until its claims are
unprepared, because the kubelet does not end a pod whose claims it cannot unprepare.
"""

from __future__ import annotations

import contextlib
import re
import threading
import time
import typing as t
from concurrent import futures

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent.agent_spec import (
    DRA,
    AgentSpec,
    Device,
    RailSpec,
    SlotSpec,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent.cdi_files import qualified_name
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent.host_links import vf_pci
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent.pod_attach import PodAttach
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent.slot_state import ATTACHED, Holder, SlotState
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.dra.node_api import APPLY, ApiError, ApiServer
from ansible_collections.railyard.fabric.plugins.module_utils._node.dra.prepared_claims import (
    Claim,
    ClaimState,
    Offer,
    PreparedClaims,
    claim_path,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.dra.resource_slices import (
    API,
    CORDONED,
    DOWN,
    HELD,
    Attribute,
    SliceDevice,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.dra.slice_publisher import (
    PublishThread,
    SlicePublisher,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.health import device_faults
from ansible_collections.railyard.fabric.plugins.module_utils._node.kubelet import dra_messages as messages
from ansible_collections.railyard.fabric.plugins.module_utils._node.kubelet.dra_server import DraServer
from ansible_collections.railyard.fabric.plugins.module_utils._node.kubelet.kubelet_messages import DeviceState
from ansible_collections.railyard.fabric.plugins.module_utils._node.readers.pci_functions import numa_node, path

MANAGER = "railyard-agent"
STANDARD = "resource.kubernetes.io/"
# Seconds between attempts to write the status of claims.
REPORT_SECONDS = 10.0
# Seconds between checks whether claims without attached devices have ended in the API server.
ENDED_SECONDS = 60.0


class DraFront:
    """One driver on one node.

    :param driver: its name.
    :param state: the claims of all drivers.
    :param released: called after a claim of the driver was unprepared or removed.
    """

    def __init__(
        self,
        system: System,
        driver: str,
        spec: AgentSpec,
        pods: PodAttach,
        slots: SlotState,
        state: ClaimState,
        released: t.Callable[[Claim], None],
        log: t.Callable[[str], None],
    ) -> None:
        self._spec = spec
        self._driver = driver
        self._system = system
        self._pods = pods
        self._slots = slots
        self._log = log
        self._reporter = futures.ThreadPoolExecutor(1, "claim-status")
        self._may_report = True
        # claims whose status could not be written, and the time of the next attempt
        self._unreported: dict[str, Claim] = {}
        self._unreported_lock = threading.Lock()
        self._retry_at = 0.0
        self._ended_at = 0.0
        self._state = state
        self.claims = PreparedClaims(
            state, self._api, self._offer, self._held_by, self._release, log, released, self._is_attached
        )
        self.slices = PublishThread(SlicePublisher(self._api, driver, spec.node), log)
        self._server = DraServer(
            system, driver, self.claims.prepare, self.claims.unprepare, self.slices.registered, log
        )

    def follow(self, spec: AgentSpec) -> None:
        """Use another node file from now on."""
        if spec.node != self._spec.node:
            self.slices.publisher = SlicePublisher(self._api, self._driver, spec.node)
        self._spec = spec

    @property
    def draining(self) -> bool:
        """Whether the node file does not have the driver any more."""
        return self._spec.kubelet_plugin != DRA or self._spec.resource_prefix != self._driver

    @property
    def drained(self) -> bool:
        """Whether the kubelet does not need the driver any more."""
        return self.draining and not self._own_claims()

    @property
    def registered(self) -> bool:
        """Whether the kubelet has registered the driver."""
        return self._server.registrations > 0

    def keep(self) -> None:
        """Start or continue to serve the kubelet. Raises :class:`RailyardError` for a problem that is tried again."""
        self._server.keep()
        self._retry_reports()
        self._look_for_ended()
        if self.slices.error:
            raise self.slices.error

    def update(self, states: t.Mapping[str, DeviceState]) -> None:
        """Publish the devices, and send their health to the kubelet. ``states``: by device."""
        self._server.health.publish(messages.health_response(self._spec.node, states.values(), int(time.time())))
        self.slices.update([] if self.draining else slice_devices(self._system, self._spec, states))

    def attached(self, device: str) -> None:
        """Report the interfaces of a claim's device, and conflicts of their addresses, in the claim's status, in the
        background.
        """
        claim = self._own_claims().get(device)
        if claim and self._may_report:
            self._reporter.submit(self._report, claim)

    def _retry_reports(self) -> None:
        if not self._unreported or time.monotonic() < self._retry_at:
            return
        self._retry_at = time.monotonic() + REPORT_SECONDS
        with self._unreported_lock:
            claims, self._unreported = list(self._unreported.values()), {}
        for claim in claims:
            if claim.uid in self._state.claims():
                self._reporter.submit(self._report, claim)

    def stop(self) -> None:
        """Stop serving and publishing. Prepared claims and slices stay."""
        self._server.stop()
        self.slices.close()
        self._reporter.shutdown(wait=False)

    def _own_claims(self) -> dict[str, Claim]:
        """Return the claims of the driver by their devices. Rows of earlier releases do not have the driver."""
        claims = self._state.by_device()
        return {device: claim for device, claim in claims.items() if claim.driver in ("", self._driver)}

    def _is_attached(self, claim: Claim) -> bool:
        holders = self._slots.holders()
        held = [holders[device] for device in claim.device_names if device in holders]
        return any(claim.is_of(holder.pod_uid, holder.pod) for holder in held)

    def _look_for_ended(self) -> None:
        """Remove claims that have ended, in the background: at the start, and while claims are not attached."""
        if time.monotonic() >= self._ended_at and not all(map(self._is_attached, self._own_claims().values())):
            self._ended_at = time.monotonic() + ENDED_SECONDS
            self._reporter.submit(self._remove_ended)

    def _remove_ended(self) -> None:
        # an API server that does not answer is a problem of the slices already
        with contextlib.suppress(RailyardError):
            self.claims.remove_ended()

    def _api(self) -> ApiServer:
        return ApiServer(self._system, self._spec.kubeconfig)

    def _offer(self) -> Offer:
        spec = self._spec
        devices = {
            device.id: (qualified_name(spec, device), tuple(device.slots))
            for devices in spec.resources().values()
            for device in devices
        }
        return Offer(self._driver, spec.node, devices, self.draining)

    def _held_by(self, device: str, claim: Claim) -> str | None:
        holder = self._slots.holders().get(device)
        if holder is None or claim.is_of(holder.pod_uid, holder.pod):
            return None
        self._pods.sweep()
        holder = self._slots.holders().get(device)
        return holder.pod if holder else None

    def _release(self, claim: Claim) -> None:
        """Remove the remaining interfaces of a pod whose containers have ended."""
        for device in claim.device_names:
            holder = self._slots.holders().get(device)
            if holder is not None and claim.is_of(holder.pod_uid, holder.pod):
                self._pods.detach(device)

    def _report(self, claim: Claim) -> None:
        if not self._may_report:
            return
        # a server-side apply removes devices that the body does not have, so it has all attached devices of the claim
        holders = self._slots.holders()
        claimed = [holders[device] for device in claim.device_names if device in holders]
        attached = [
            holder for holder in claimed if holder.phase == ATTACHED and claim.is_of(holder.pod_uid, holder.pod)
        ]
        body = status_report(claim, attached, self._driver, claim.pool or self._spec.node, self._pods.conflicts())
        path = "%s/status?fieldManager=%s&force=true" % (claim_path(claim.namespace, claim.name), MANAGER)
        try:
            self._api().request("PATCH", path, body, APPLY)
        except RailyardError as error:
            status = error.status if isinstance(error, ApiError) else None
            if status == 403:
                self._may_report = False
                reason = "not possible with the kubelet's credentials; see slots.kubeconfig in docs/agent.md"
                if self._spec.kubeconfig:
                    reason = "the user of %s does not have the right; see docs/agent-rights.yml" % self._spec.kubeconfig
                self._log("the status of claims is not written: %s" % reason)
                return
            # tried again: credentials may be renewed, and the API server may return; other errors are permanent
            if status is None or status == 401 or status >= 500:
                with self._unreported_lock:
                    self._unreported[claim.uid] = claim
            self._log("the status of claim %s/%s is not written: %s" % (claim.namespace, claim.name, error))


def status_report(
    claim: Claim, holders: t.Sequence[Holder], driver: str, pool: str, conflicts: t.Sequence[t.Mapping[str, t.Any]] = ()
) -> dict[str, t.Any]:
    """Return the claim with the interfaces of its devices, for a server-side apply.

    :param conflicts: rows of :meth:`.PodAttach.conflicts`.
    """
    return {
        "apiVersion": API,
        "kind": "ResourceClaim",
        "metadata": {"name": claim.name, "namespace": claim.namespace, "uid": claim.uid},
        "status": {"devices": [_device_status(holder, driver, pool, conflicts) for holder in holders]},
    }


def _device_status(
    holder: Holder, driver: str, pool: str, conflicts: t.Sequence[t.Mapping[str, t.Any]]
) -> dict[str, t.Any]:
    """Return a row of ``status.devices``. ``networkData`` has one interface; several are in ``data``."""
    interfaces = [
        {
            "interfaceName": row["interface"],
            "ips": [row[key] for key in ("address", "address6") if row.get(key)],
            "hardwareAddress": row["mac"],
        }
        for row in holder.interfaces
    ]
    device: dict[str, t.Any] = {"driver": driver, "pool": pool, "device": holder.device}
    if len(interfaces) == 1:
        device["networkData"] = interfaces[0]
    else:
        rails = [row["rail"] for row in holder.interfaces]
        device["data"] = {"interfaces": [dict(interface, rail=rail) for rail, interface in zip(rails, interfaces)]}
    own = [conflict for conflict in conflicts if conflict["device"] == holder.device]
    if own:
        condition = {"type": "AddressConflict", "status": "True", "reason": "AddressInUse"}
        condition["message"] = "\n".join(conflict["error"] for conflict in own)
        since = time.gmtime(min(conflict["since"] for conflict in own))
        condition["lastTransitionTime"] = time.strftime("%Y-%m-%dT%H:%M:%SZ", since)
        device["conditions"] = [condition]
    return device


def slice_devices(system: System, spec: AgentSpec, states: t.Mapping[str, DeviceState]) -> list[SliceDevice]:
    """Return the devices of a node file with their attributes. ``states``: by device; others are omitted."""
    faults = device_faults.look(system)

    def found(device: Device) -> tuple[device_faults.Fault, ...]:
        of_rails = [faults[rail] for rail in device.slots if rail in faults]
        keys = dict.fromkeys(key for key, _value in of_rails)
        return tuple((key, device_faults.joined(value for each, value in of_rails if each == key)) for key in keys)

    return [
        SliceDevice(device.id, resource, _attributes(system, spec, device), _taint(states[device.id]), found(device))
        for resource, devices in spec.resources().items()
        for device in devices
        if device.id in states
    ]


def _taint(state: DeviceState) -> str:
    if state.healthy:
        return HELD if state.held else ""
    return CORDONED if state.cordoned else DOWN


def _attributes(system: System, spec: AgentSpec, device: Device) -> dict[str, Attribute]:
    attributes: dict[str, t.Any] = {"resource": device.resource, "slot": device.number, "rails": len(device.slots)}
    if len(device.slots) == 1:
        ((name, slot),) = device.slots.items()
        rail = spec.rail(name)
        attributes.update(
            rail=rail.rail,
            plane=rail.plane,
            leaf=rail.leaf,
            speed=rail.speed,
            interface=rail.interface,
            mac=slot.mac,
            address=slot.address and str(slot.address),
            address6=slot.address6 and str(slot.address6),
            rdmaDevice=rail.rdma if not rail.has_vfs else None,
        )
        attributes.update(_pci_attributes(system, spec, rail, slot))
    return {key: value for key, value in attributes.items() if value is not None}


def _pci_attributes(system: System, spec: AgentSpec, rail: RailSpec, slot: SlotSpec) -> dict[str, t.Any]:
    """Return the PCI attributes of the slot's VF, or of its port."""
    # one card has all functions of a bond
    pci = next(iter(rail.functions), None)
    if not pci and rail.attachment != "host-device":
        # not for host-device: the link does not exist while the port is in a pod, and slices must not change then
        pci = system.link_name("/sys/class/net/%s/device" % rail.netdev)
    if rail.has_vfs:
        pci = vf_pci(system, rail, slot) or pci
    if not pci:
        return {}
    root = next(iter(path(system, pci)), "")
    return {
        STANDARD + "pciBusID": pci,
        STANDARD + "pcieRoot": root if re.match("pci[0-9a-f]{4,}:", root) else None,
        "numaNode": numa_node(system, pci),
    }
