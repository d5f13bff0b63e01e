# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The servers by which the kubelet gets the devices of a node file: device plugins, or a DRA driver."""

from __future__ import annotations

import functools
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._node.agent.agent_socket import Attaches
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent.agent_spec import DRA, AgentSpec
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent.attach_request import AttachError, Pod
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent.dra_front import DraFront
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent.pod_attach import PodAttach
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent.slot_state import SlotState
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.service_process import Problems
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.dra.node_api import ApiServer
from ansible_collections.railyard.fabric.plugins.module_utils._node.dra.prepared_claims import Claim, ClaimState
from ansible_collections.railyard.fabric.plugins.module_utils._node.kubelet.device_plugin import (
    PluginServer,
    Resource,
    kubelet_identity,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.kubelet.kubelet_messages import DeviceState


class KubeletServers:
    """The servers of one node file, and drivers of earlier ones until their claims are unprepared.

    :param devices_changed: called when devices may be offered again.
    """

    def __init__(
        self,
        system: System,
        spec: AgentSpec,
        state: SlotState,
        attaches: Attaches,
        problems: Problems,
        devices_changed: t.Callable[[], None],
    ) -> None:
        self.claims = ClaimState(system)
        self._system = system
        self._spec = spec
        self._state = state
        self._attaches = attaches
        self._problems = problems
        self._devices_changed = devices_changed
        self._plugins: dict[str, PluginServer] = {}
        self._drivers: dict[str, DraFront] = {}

    @property
    def has_plugins(self) -> bool:
        return bool(self._plugins)

    @property
    def watched(self) -> bool:
        """Whether the kubelet listens to all device plugins."""
        return all(plugin.resource.stream.watched for plugin in self._plugins.values())

    @property
    def claim_errors(self) -> list[str]:
        return [text for driver in self._drivers.values() for text in driver.claims.errors.values()]

    def check(self, spec: AgentSpec, running: bool) -> ClaimState:
        """Raise :class:`.RailyardError` if a node file cannot be served. Return the record of claims to serve it with.

        :param running: whether another node file is served.
        """
        # without a driver, nothing in this process follows the file, and another release may have written it
        claims = self.claims if self._drivers else ClaimState(self._system)
        before = (self._spec.kubelet_plugin, self._spec.kubeconfig)
        if running and spec.kubelet_plugin == DRA and before != (DRA, spec.kubeconfig):
            ApiServer(self._system, spec.kubeconfig).check()
        return claims

    def follow(self, spec: AgentSpec, pods: PodAttach, claims: ClaimState) -> None:
        """Start and stop servers as a node file requires.

        A driver with prepared claims stays until they are unprepared.

        :param claims: of :meth:`check` for this node file.
        """
        self._spec = spec
        self.claims = claims
        plugins, log = {}, self._problems.log
        for name in spec.resources() if spec.kubelet_plugin != DRA else ():
            resource = Resource(spec.resource_prefix, name, self._state.holders)
            full_name = self.full_name(name)
            plugins[full_name] = self._plugins.get(full_name) or PluginServer(self._system, resource, log)
        ended = [(name, plugin) for name, plugin in self._plugins.items() if name not in plugins]
        self._plugins = plugins
        for name, plugin in ended:
            self._problems.attempt(name, plugin.stop)
            self._problems.forget(name)

        names = {claim.driver or spec.resource_prefix for claim in self.claims.claims().values()}
        names.update([spec.resource_prefix] if spec.kubelet_plugin == DRA else [])
        for name in sorted(names - set(self._drivers)):
            self._drivers[name] = DraFront(
                self._system, name, spec, pods, self._state, self.claims, self._released, log
            )
        # one that is not needed any more is removed by keep()
        for driver in self._drivers.values():
            driver.follow(spec)

    def full_name(self, resource: str) -> str:
        return "%s/%s" % (self._spec.resource_prefix, resource)

    def keep(self) -> None:
        """Keep all servers registered with the kubelet, and remove drivers that are not needed any more."""
        for name, driver in list(self._drivers.items()):
            if driver.drained:
                self._problems.attempt(name, driver.stop)
                del self._drivers[name]
                self._problems.forget("DRA driver " + name)
                self._problems.log("driver %s: all claims are unprepared, and it is removed" % name)
            else:
                self._problems.attempt("DRA driver " + name, driver.keep)
        if self._plugins:
            kubelet = kubelet_identity(self._system)
            for plugin in self._plugins.values():
                self._problems.attempt(plugin.resource.full_name, functools.partial(plugin.keep, kubelet))

    def update(self, states: t.Mapping[str, t.Sequence[DeviceState]]) -> None:
        """Offer devices. ``states``: by resource."""
        held = self.held_elsewhere()
        states = {
            name: [state._replace(held=state.id in held) for state in resource] for name, resource in states.items()
        }
        for driver in self._drivers.values():
            driver.update({state.id: state for resource in states.values() for state in resource})
        for name, resource in states.items() if self._plugins else ():
            self._plugins[self.full_name(name)].resource.update(resource)

    def registered(self, resource: str) -> bool:
        """Return whether the kubelet has a resource, by its full name."""
        plugin, driver = self._plugins.get(resource), self._drivers.get(self._spec.resource_prefix)
        if self._spec.kubelet_plugin == DRA:
            return bool(driver and driver.registered)
        return bool(plugin and plugin.registered)

    def take_allocated(self) -> set[str]:
        """Return the devices that the kubelet has allocated since the last call, and those of prepared claims."""
        allocated = {device for plugin in self._plugins.values() for device in plugin.resource.take_allocated()}
        return allocated.union(*(claim.device_names for claim in self.claims.claims().values()))

    def attached(self, device: str) -> None:
        """Report the interfaces of a device in the status of its claim, if it has one."""
        for driver in list(self._drivers.values()):
            driver.attached(device)

    def check_pod(self, device: str, pod: Pod) -> None:
        """Raise :class:`.AttachError` if a pod may not get a device.

        The kubelet names only devices that it allocated. Plugins of container runtimes that add CDI devices by
        annotations of pods do not ask the kubelet, so with DRA a prepared claim of the pod is required.
        """
        claim = self.claims.of_device(device)
        if claim is not None and claim.is_of(pod.uid, str(pod)):
            return
        if self._spec.kubelet_plugin == DRA:
            raise AttachError("claim", "device %s" % device, pod=pod)
        if claim is not None:
            raise AttachError("prepared", "device %s" % device, claim=claim.name, pod=claim.pod)

    def held_elsewhere(self) -> dict[str, str]:
        """Return the devices that pods have by the other of device plugin and DRA driver, each with a problem.

        They exist after the node file has changed while pods run. Such a device must not be offered again.
        """
        claims = self.claims.by_device()
        remedy = ". Remedy: drain the node, or wait for the end of that pod"
        if self._spec.kubelet_plugin != DRA:
            text = "device %s: claim %s of pod %s has it, by the DRA driver of an earlier node file" + remedy
            return {device: text % (device, claim.name, claim.pod) for device, claim in claims.items()}
        text = "device %s: pod %s holds it without a claim" + remedy
        return {
            device: text % (device, holder.pod)
            for device, holder in self._state.holders().items()
            if device not in claims or not claims[device].is_of(holder.pod_uid, holder.pod)
        }

    def stop(self) -> None:
        for driver in self._drivers.values():
            driver.stop()
        for plugin in self._plugins.values():
            plugin.stop()

    def _released(self, claim: Claim) -> None:
        """Forget the failed attaches of a claim's pod, and offer its devices again."""
        devices = claim.device_names
        self._attaches.end_failures(
            lambda failure: failure.device in devices and claim.is_of(failure.pod_uid, failure.pod)
        )
        self._devices_changed()
