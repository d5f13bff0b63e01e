# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""The rail agent as a DRA driver: the devices of the node file, published as ResourceSlices.

A claim's device is attached to a pod by its CDI device and the hook, like a device of a device plugin.
"""

from __future__ import annotations

import re
import threading
import time
import typing as t
from concurrent import futures

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent.agent_spec import (
    AgentSpec,
    Device,
    RailSpec,
    SlotSpec,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent.attach_request import AttachError, Pod
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
    Attribute,
    SliceDevice,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.dra.slice_publisher import (
    PublishThread,
    SlicePublisher,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.kubelet import dra_messages as messages
from ansible_collections.railyard.fabric.plugins.module_utils._node.kubelet.dra_server import DraServer
from ansible_collections.railyard.fabric.plugins.module_utils._node.kubelet.kubelet_messages import DeviceState
from ansible_collections.railyard.fabric.plugins.module_utils._node.readers.pci_functions import numa_node, path

MANAGER = "railyard-agent"
STANDARD = "resource.kubernetes.io/"
# Seconds between attempts to write the status of claims.
REPORT_SECONDS = 10.0


class DraFront:
    """One driver on one node. ``spec`` may be replaced by one with the same driver and node."""

    def __init__(
        self, system: System, spec: AgentSpec, pods: PodAttach, slots: SlotState, log: t.Callable[[str], None]
    ) -> None:
        self.spec = spec
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
        self.state = ClaimState(system)
        self.claims = PreparedClaims(self.state, self._api, self._offer, self._held_by, self._release, log)
        pods.check_pod = self.check_pod
        publisher = SlicePublisher(self._api, spec.resource_prefix, spec.node)
        self.slices = PublishThread(publisher, log)
        self._server = DraServer(
            system, spec.resource_prefix, self.claims.prepare, self.claims.unprepare, self.slices.registered, log
        )

    @property
    def names(self) -> tuple[str, str]:
        return self.spec.resource_prefix, self.spec.node

    @property
    def registered(self) -> bool:
        """Whether the kubelet has registered the driver."""
        return self._server.registrations > 0

    def keep(self) -> None:
        """Start or continue to serve the kubelet. Raises :class:`RailyardError` for a problem that is tried again."""
        self._server.keep()
        self._retry_reports()
        if self.slices.error:
            raise self.slices.error

    def update(self, states: t.Mapping[str, DeviceState]) -> None:
        """Publish the devices, and send their health to the kubelet. ``states``: by device."""
        self._server.health.publish(messages.health_response(self.spec.node, states.values(), int(time.time())))
        self.slices.update(slice_devices(self._system, self.spec, states))

    def attached(self, device: str) -> None:
        """Report the interfaces of a claim's device, and conflicts of their addresses, in the claim's status, in the
        background.
        """
        claim = self.state.of_device(device)
        if claim and self._may_report:
            self._reporter.submit(self._report, claim)

    def _retry_reports(self) -> None:
        if not self._unreported or time.monotonic() < self._retry_at:
            return
        self._retry_at = time.monotonic() + REPORT_SECONDS
        with self._unreported_lock:
            claims, self._unreported = list(self._unreported.values()), {}
        for claim in claims:
            if claim.uid in self.state.claims():
                self._reporter.submit(self._report, claim)

    def stop(self) -> None:
        """Stop serving and publishing. Prepared claims and slices stay."""
        self._pods.check_pod = lambda _device, _pod: None
        self._server.stop()
        self.slices.close()
        self._reporter.shutdown(wait=False)

    def check_pod(self, device: str, pod: Pod) -> None:
        """Raise :class:`AttachError` if no claim of the pod is prepared with the device.

        The kubelet names only devices of prepared claims. Plugins of container runtimes that add CDI devices by
        annotations of pods do not ask the kubelet.
        """
        claim = self.state.of_device(device)
        if claim is None or not _is_pod_of(claim, pod.uid, str(pod)):
            raise AttachError("claim", "device %s" % device, pod=pod)

    def _api(self) -> ApiServer:
        return ApiServer(self._system, self.spec.kubeconfig)

    def _offer(self) -> Offer:
        spec = self.spec
        devices = {
            device.id: (qualified_name(spec, device), tuple(device.slots))
            for devices in spec.resources().values()
            for device in devices
        }
        return Offer(spec.resource_prefix, spec.node, devices)

    def _held_by(self, device: str, claim: Claim) -> str | None:
        holder = self._slots.holders().get(device)
        if holder is None or _is_pod_of(claim, holder.pod_uid, holder.pod):
            return None
        self._pods.sweep()
        holder = self._slots.holders().get(device)
        return holder.pod if holder else None

    def _release(self, claim: Claim) -> None:
        """Remove the remaining interfaces of a pod whose containers have ended."""
        for device in claim.device_names:
            holder = self._slots.holders().get(device)
            if holder is not None and _is_pod_of(claim, holder.pod_uid, holder.pod):
                self._pods.detach(device)

    def _report(self, claim: Claim) -> None:
        # a server-side apply removes devices that the body does not have, so it has all attached devices of the claim
        holders = self._slots.holders()
        claimed = [holders[device] for device in claim.device_names if device in holders]
        attached = [
            holder for holder in claimed if holder.phase == ATTACHED and _is_pod_of(claim, holder.pod_uid, holder.pod)
        ]
        body = status_report(claim, attached, *self.names, self._pods.conflicts())
        path = "%s/status?fieldManager=%s&force=true" % (claim_path(claim.namespace, claim.name), MANAGER)
        try:
            self._api().request("PATCH", path, body, APPLY)
        except RailyardError as error:
            status = error.status if isinstance(error, ApiError) else None
            # the kubelet's credentials do not have this right
            self._may_report = status != 403
            # tried again: credentials may be renewed, and the API server may return; other errors are permanent
            if status is None or status == 401 or status >= 500:
                with self._unreported_lock:
                    self._unreported[claim.uid] = claim
            claim_name = "%s/%s" % (claim.namespace, claim.name)
            others = "" if self._may_report else ". The status of other claims is not written either"
            self._log("the status of claim %s is not written: %s%s" % (claim_name, error, others))


def _is_pod_of(claim: Claim, uid: str, name: str) -> bool:
    """Return whether a pod is the claim's pod. Without a uid, it is compared by NAMESPACE/NAME."""
    return claim.pod_uid == uid if uid else claim.pod == name


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
    return [
        SliceDevice(device.id, resource, _attributes(system, spec, device), _taint(states[device.id]))
        for resource, devices in spec.resources().items()
        for device in devices
        if device.id in states
    ]


def _taint(state: DeviceState) -> str:
    if state.healthy:
        return ""
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
            rdmaDevice=rail.rdma if not spec.has_vfs else None,
        )
        attributes.update(_pci_attributes(system, spec, rail, slot))
    return {key: value for key, value in attributes.items() if value is not None}


def _pci_attributes(system: System, spec: AgentSpec, rail: RailSpec, slot: SlotSpec) -> dict[str, t.Any]:
    """Return the PCI attributes of the slot's VF, or of its port."""
    pci = rail.pci
    if not pci and spec.attachment != "host-device":
        # not for host-device: the link does not exist while the port is in a pod, and slices must not change then
        pci = system.link_name("/sys/class/net/%s/device" % rail.netdev)
    if spec.has_vfs:
        pci = vf_pci(system, rail, slot) or pci
    if not pci:
        return {}
    root = next(iter(path(system, pci)), "")
    return {
        STANDARD + "pciBusID": pci,
        STANDARD + "pcieRoot": root if re.match("pci[0-9a-f]{4,}:", root) else None,
        "numaNode": numa_node(system, pci),
    }
