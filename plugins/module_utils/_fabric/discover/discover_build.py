# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""From observed nodes to a fabric, with every finding at its place."""

from __future__ import annotations

import functools
import typing as t
from collections import Counter
from dataclasses import replace

from ansible_collections.railyard.fabric.plugins.module_utils._common import vf_attributes
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.allocate.address_planner import planner
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.allocate.address_schemes import (
    BLOCK,
    NONE,
    SUBNET,
    Demand,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.discover.discover_addresses import (
    InferredAddresses,
    addressing,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.discover.discover_findings import Findings
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.discover.discover_planes import report_planes
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.discover.discover_ports import port_of
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.discover.discover_vfs import report_vf_identities
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.discover.observed_nodes import (
    ObservedNode,
    most_common,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.discover.observed_ports import Nic
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.discover.resembled_preset import with_preset
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.discover.server_models import (
    Model,
    Named,
    assign,
    assign_storage,
    by_base,
    models,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.discover.supernet_schemes import (
    PODS_PER_NODE,
    check_free,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.attachment_table import (
    ATTACHMENTS,
    DEFAULT_MTU,
    ETHERNET,
    HOST,
    INFINIBAND,
    SHARED,
    has_vfs,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.fabric_model import (
    COMPUTE,
    GPU_VENDORS,
    Fabric,
    Group,
    Node,
    OtherPort,
    Port,
    Profile,
    Rail,
    Setting,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.provider_facts import (
    PROVIDERS,
    SPIDERPOOL,
    facts_of,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.ip_integers import Network
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.name_syntax import trailing_number
from ansible_collections.railyard.fabric.plugins.module_utils._nic_vendors.nvidia.family import MLX5

# Bytes; the MTU of new ports.
_KERNEL_MTU = 1500


class Options(t.NamedTuple):
    """Facts that nodes do not show.

    :param rails: a template of rail names.
    :param given: ``pods``, ``gateway`` and the same with a 6, as short forms.
    :param lldp: node -> netdev -> neighbour.
    :param supernet: the network from which rails without addresses get theirs.
    """

    name: str | None = None
    attachment: str | None = None
    provider: str | None = None
    profile: str = "server"
    rails: str | None = None
    mtu: int | None = None
    given: t.Mapping[str, str] = {}
    lldp: t.Mapping[str, t.Mapping[str, t.Any]] = {}
    supernet: Network | None = None


class Builder:
    """Builds the fabric section by section."""

    def __init__(self, nodes: t.Sequence[ObservedNode], options: Options, findings: Findings) -> None:
        self._options = options
        self._findings = findings
        self.models = models(nodes, options.profile, findings)
        self.rails = assign(self.models, options.rails, findings)
        self.fabric = Fabric(name=options.name or "discovered")
        layers = (nic.layer for model in self.models for rail in model.rails for _node, nic in model.on(rail))
        self._layer = most_common(layers) or ETHERNET
        self.rails += assign_storage(self.models, self.rails, findings)
        self._compute = [rail.name for rail in self.rails if rail.role == COMPUTE]

    def build(self) -> Fabric:
        """Return the fabric, and add findings about what is uncertain."""
        fabric = self.fabric
        if self._options.name is None:
            remedy = "choose it before you prepare nodes, with -e discover_name=NAME"
            self._findings.add("DS501", ("fabric", "name"), "no name was given", remedy)
        addresses = self._addresses()
        self._attachments(addresses)
        fabric.link_layer = self._layer
        self._mtus()
        self._rails(addresses)
        self._routing(addresses)
        for model in self.models:
            fabric.profiles[model.name] = with_preset(fabric, self._profile(model), model, self._findings)
            report_planes(model, self._compute, self._findings)
        self._nodes(addresses)
        self._vfs()
        report_vf_identities(fabric, self.models, self._infiniband, self._findings)
        return fabric

    @functools.cached_property
    def _ports(self) -> dict[str, dict[str, Nic]]:
        """Return rail -> node -> its port."""
        return {
            rail.name: {
                node.name: nic for model in self.models if rail.name in model.rails for node, nic in model.on(rail.name)
            }
            for rail in self.rails
        }

    # -- addresses, MTU, routing

    def _addresses(self) -> InferredAddresses:
        numbers = {node.name: trailing_number(node.name) for model in self.models for node in model.nodes}
        options = self._options
        facts = facts_of(options.provider)
        rails = self.rails if facts.kubernetes else ()
        for_pods = {rail.name for rail in rails if rail.role == COMPUTE or self._vfs_on(rail.name)}
        if options.supernet:
            check_free(options.supernet, self.models)
        return addressing(
            self._ports,
            numbers,
            self._findings,
            options.given,
            () if options.supernet and options.attachment == "ipoib" else self._infiniband,
            for_pods,
            facts.cuts_blocks,
            options.supernet,
        )

    @functools.cached_property
    def _infiniband(self) -> set[str]:
        return {rail.name for rail in self.rails if self._layer_on(rail.name) == INFINIBAND}

    def _layer_on(self, rail: str) -> str:
        """Return the link layer of most ports of a rail."""
        return most_common(nic.layer for nic in self._ports[rail].values()) or self._layer

    def _vfs_on(self, rail: str) -> int:
        """Return the number of VFs of most ports of a rail."""
        return Counter(len(nic.vfs) for nic in self._ports[rail].values()).most_common(1)[0][0]

    def _mtus(self) -> None:
        mtus = (nic.mtu for ports in self._ports.values() for nic in ports.values())
        self.fabric.mtu = self._options.mtu or most_common(mtus) or DEFAULT_MTU[self._layer]
        if self._options.supernet and not self._options.mtu and self.fabric.mtu == _KERNEL_MTU:
            remedy = "if every switch of the rails supports 9000, set -e discover_mtu=9000, which is faster"
            self._findings.add("DS409", ("fabric", "mtu"), "the ports have the kernel's default MTU", remedy)

    def _rails(self, addresses: InferredAddresses) -> None:
        ports = self._ports
        planes = {base: len({rail.plane for rail in rails}) for base, rails in by_base(self.rails).items()}
        nics = {base: len({rail.nic for rail in rails}) for base, rails in by_base(self.rails).items()}
        bases = list(dict.fromkeys(rail.base for rail in self.rails))
        for number, named in enumerate(self.rails, 1):
            rail = Rail(named.name, number, ("rails", named.base), named.base, bases.index(named.base) + 1)
            rail.plane, rail.planes = named.plane or 1, planes[named.base]
            rail.nic, rail.nics = named.nic or 1, nics[named.base]
            rail.device_planes = most_common(nic.device_planes for nic in ports[named.name].values()) or 1
            self._kind(rail, named)
            rail.mode = addresses.modes.get(named.name)
            rail.schemes = addresses.schemes.get(named.name, {})
            mtus = [nic.mtu for nic in ports[named.name].values() if nic.mtu]
            common = most_common(mtus)
            if common not in (None, self.fabric.mtu) and not self._options.mtu:
                rail.mtu = common
            wanted = rail.mtu or self.fabric.mtu
            for mtu in sorted(set(mtus) - {wanted}):
                odd = [node for node, nic in ports[named.name].items() if nic.mtu == mtu]
                message = "a port has the MTU %d, but the plan has %d" % (mtu, wanted or 0)
                self._findings.add(
                    "DS401", ("rails", named.name), message, "run hosts.yml, which sets the planned value", odd
                )
            dark = [node for node, nic in ports[named.name].items() if nic.carrier is False]
            if dark:
                remedy = "check the cable, the transceiver and the leaf's port, or set the port up"
                self._findings.add("DS212", ("rails", named.name), "the port has no carrier", remedy, dark)
            self.fabric.rails.append(rail)

    def _kind(self, rail: Rail, named: Named) -> None:
        """Set what the rail has in another way than the compute rails."""
        if named.role == COMPUTE:
            return
        layer, vfs = self._layer_on(named.name), self._vfs_on(named.name)
        rail.role = named.role
        rail.link_layer = layer if layer != self._layer else None
        # Only VFs show that pods use the rail.
        rail.attachment = ("ib-sriov" if layer == INFINIBAND else "sriov") if vfs else HOST
        if rail.attachment == self.fabric.attachment:
            rail.attachment = None
        if vfs:
            rail.vfs = {"count": Setting(vfs, ("rails", named.name, "vfs", "count"))}

    def _routing(self, addresses: InferredAddresses) -> None:
        routing = self.fabric.routing
        if addresses.source is False:
            routing.mode = "destination"
        if addresses.cross_rail is False:
            routing.cross_rail = False
        ports = self._ports
        for key, attribute in (("first_table", "table"), ("first_priority", "priority")):
            starts = [
                (rail, node, getattr(nic, attribute) - number)
                for number, rail in enumerate(ports)
                for node, nic in ports[rail].items()
                if getattr(nic, attribute) is not None
            ]
            if not starts:
                continue
            first = Counter(start for _rail, _node, start in starts).most_common(1)[0][0]
            if first >= 1:
                setattr(routing, key, first)
            for rail, node, start in starts:
                if start != getattr(routing, key):
                    message = "the port's %s is %d, but the plan has %d" % (
                        "routing table" if attribute == "table" else "rule priority",
                        start + list(ports).index(rail),
                        getattr(routing, key) + list(ports).index(rail),
                    )
                    self._findings.add(
                        "DS308", ("rails", rail), message, "run hosts.yml, which sets the planned value", [node]
                    )

    # -- attachments

    def _attachments(self, addresses: InferredAddresses) -> None:
        fabric, options = self.fabric, self._options
        guesses = {model.name: self._attachment(model) for model in self.models}
        counts: Counter[str] = Counter()
        for model in self.models:
            counts[guesses[model.name]] += len(model.nodes)
        commonest = counts.most_common(1)[0][0] if counts else "macvlan"
        fabric.attachment = options.attachment or commonest
        if options.attachment is None and not has_vfs(fabric.attachment):
            message = (
                "nodes do not show how pods are attached to the rails; without VFs it may be %s" % fabric.attachment
            )
            remedy = "correct it, or set -e discover_attachment=NAME"
            self._findings.add("DS502", ("fabric", "attachment"), message, remedy)
        self._guesses = guesses
        modes = set(addresses.modes.values()) - {NONE}
        serving = [
            name
            for name, facts in PROVIDERS.items()
            if not facts.refused(fabric.attachment) and not any(map(facts.mode_refused, modes))
        ]
        fabric.provider = options.provider or (serving[0] if serving else SPIDERPOOL.name)
        if options.provider is None:
            remedy = "correct it, or set -e discover_provider=NAME"
            self._findings.add("DS503", ("fabric", "provider"), "nodes do not show the provider", remedy)
        self._blocks(addresses)
        self._slots(addresses)
        self._rdma_mode()

    def _blocks(self, addresses: InferredAddresses) -> None:
        """Give each node a block of pod addresses if the provider allocates on each node."""
        provider = self.fabric.provider or ""
        facts = facts_of(provider)
        if not facts.mode_refused(SUBNET) or facts.mode_refused(BLOCK):
            return
        for rail in [rail for rail in addresses.schemes if addresses.modes[rail] == SUBNET]:
            addresses.modes[rail] = BLOCK
            for bits, scheme in addresses.schemes[rail].items():
                share = scheme.pods.size // max(addresses.indexes.values()) if scheme.pods else 1
                block = min(1 << max(share.bit_length() - 1, 0), 16)
                addresses.schemes[rail][bits] = replace(scheme, mode=BLOCK, block=block)
            if self._options.supernet and not any(nic.addresses for nic in self._ports[rail].values()):
                continue  # the size follows from the supernet
            message = "with %s each node has a block of pod addresses, and its size is a guess" % provider
            self._findings.add(
                "DS310", ("rails",), message, "set block, and pods to the range that is divided into blocks"
            )

    def _slots(self, addresses: InferredAddresses) -> None:
        """Set the number of slots if the attachment does not determine it, and the size of blocks of pod addresses."""
        attachment, facts = ATTACHMENTS.get(self.fabric.attachment or ""), facts_of(self.fabric.provider)
        divides = facts.cuts_blocks and SUBNET in addresses.modes.values()
        if not (facts.slots or divides) or not (attachment and attachment.master):
            return
        most = PODS_PER_NODE
        for scheme in (scheme for schemes in addresses.schemes.values() for scheme in schemes.values()):
            share = planner(scheme).capacity(Demand()).share
            if share is None and scheme.pods:
                share = scheme.pods.size // max(addresses.indexes.values(), default=1)
            most = min(most, share or most)
        self.fabric.pods_per_node = max(most, 1)
        message = "nodes do not show how many %s" % ("pods a node has" if divides else "slots a port has")
        self._findings.add("DS504", ("fabric", "pods_per_node"), message, "correct it, or set slots")

    def _attachment(self, model: Model) -> str:
        """Return the attachment that VFs, link layer, RDMA mode and addresses of a model suggest."""
        rails = [rail for rail in model.rails if rail in self._compute]
        if any(nic.vfs for rail in rails for _node, nic in model.on(rail)):
            return "ib-sriov" if self._layer == INFINIBAND else "sriov"
        if self._layer == INFINIBAND:
            addressed = any(nic.addresses for rail in rails for _node, nic in model.on(rail))
            return "ipoib" if addressed else "host-device"
        modes = {node.rdma_mode for node in model.nodes}
        links = any(
            address.net.prefix == bits - 1
            for rail in rails
            for _node, nic in model.on(rail)
            for bits, address in nic.addresses.items()
        )
        return "host-device" if modes == {"exclusive"} or links else "macvlan"

    def _own(self, model: Model) -> str | None:
        """Return a model's attachment if it differs from the fabric's."""
        guess, common = self._guesses[model.name], self.fabric.attachment
        return guess if has_vfs(guess) != has_vfs(common) else None

    def _on_netdev(self, model: Model) -> bool:
        """Return whether networks of Kubernetes name the netdev of the model's ports."""
        attachment = ATTACHMENTS.get(self._own(model) or self.fabric.attachment or "")
        return bool(attachment and attachment.master)

    def _rdma_mode(self) -> None:
        """Set the RDMA mode of most nodes if the attachment supports it. Report other nodes."""
        fabric = self.fabric
        own = [node for model in self.models if self._own(model) is None for node in model.nodes]
        common = most_common(node.rdma_mode for node in own)
        if not common:
            return
        modes = facts_of(fabric.provider).rdma_modes(fabric.attachment, fabric.link_layer)
        follows = modes[0]
        if common != follows and common in modes:
            fabric.rdma_mode = common
            if common == SHARED:
                message = "the nodes' RDMA mode is %s, but %s uses %s" % (common, fabric.attachment, follows)
                remedy = "remove the line if hosts.yml must change it"
                self._findings.add("DS407", ("fabric", "rdma_mode"), message, remedy)
        wanted = fabric.rdma_mode or follows
        odd = [node.name for node in own if node.rdma_mode and node.rdma_mode != wanted]
        if odd:
            message = "the RDMA mode is not %s" % wanted
            self._findings.add("DS407", ("fabric",), message, "run hosts.yml, which sets it", odd)

    # -- profiles

    def _profile(self, model: Model) -> Profile:
        path = ("profiles", model.name)
        profile = Profile(model.name, path, attachment=self._own(model))
        nics = [model.nics[model.rails[rail]] for rail in self._compute if rail in model.rails]
        soft = {nic.soft for nic in nics}
        if len(soft) == 1:
            profile.soft_rdma = nics[0].soft
        # files without these keys are planned for NVIDIA
        families = {nic.family for nic in nics}
        if len(families) == 1 and families.isdisjoint({None, MLX5.name}):
            profile.nic = nics[0].family
        makers = {each.partition(":")[0] for each in model.nodes[0].models}
        if len(makers) == 1 and makers.issubset(GPU_VENDORS[1:]):
            profile.gpu_vendor = makers.pop()
        if model.nodes[0].gpus:
            profile.gpus = dict(model.nodes[0].gpus)
        profile.gpu_distance = model.choice.distance
        speeds = {nic.speed for nic in nics}
        if len(speeds) == 1 and nics[0].speed and not nics[0].soft:
            profile.expected["speed"] = nics[0].speed
        pcie = {nic.pcie for nic in nics}
        if len(pcie) == 1 and nics[0].pcie and model.nodes[0].gpus:
            profile.expected["pcie_gen"], profile.expected["pcie_lanes"] = nics[0].pcie
        for rail in self.rails:
            if rail.name in model.rails:
                port = port_of(model, rail.name, profile.soft_rdma, self._findings)
                speed = model.nics[model.rails[rail.name]].speed
                if rail.role != COMPUTE and speed != profile.expected.get("speed", speed):
                    port = port._replace(speed=speed)
                profile.ports[rail.name] = port
        for key, role in sorted(model.choice.others.items()):
            if model.nics[key].further:
                message = "%s is another VLAN with addresses on %s" % (model.nics[key].netdev, model.nics[key].parent)
                remedy = "add a rail with this VLAN if the plan must contain it; it stays as it is otherwise"
                self._findings.add("DS215", path, message, remedy)
                continue
            for nic in model.nics[key].members or model.nics[key].planes or (model.nics[key],):
                name = nic.function_netdev or "port-%s" % nic.pci.replace(":", "-").replace(".", "-")
                pci = None if nic.only_netdev else nic.pci
                port = Port(name, path + ("other_ports", name), netdev=nic.function_netdev, pci=pci)
                profile.other_ports[name] = OtherPort(name, port.path, role, port)
        return profile

    # -- nodes

    def _nodes(self, addresses: InferredAddresses) -> None:
        rows = [(addresses.indexes[node.name], node, model) for model in self.models for node in model.nodes]
        for index, node, model in sorted(rows, key=lambda row: row[0]):
            made_node = Node(node.name, ("nodes", node.name), index=index, profile=model.name)
            made_node.address = node.address if node.address != node.name else None
            profile = self.fabric.profiles[model.name]
            for rail, pci in model.rails.items():
                own = node.nics[pci].function_netdev
                common = profile.ports[rail].netdev
                if not own or own == common or model.nics[pci].obstacle:
                    continue
                message = "the port of %s is %s, but %s on most nodes" % (rail, own, common)
                if self._on_netdev(model):
                    # A network of Kubernetes names one netdev for all nodes.
                    remedy = "run hosts.yml, which sets the name of the others"
                else:
                    remedy = "remove the node's value, and run hosts.yml, which sets the name of the others"
                    made_node.ports[rail] = Port(rail, ("nodes", node.name, "ports", rail), netdev=own)
                self._findings.add("DS405", ("nodes", node.name), message, remedy, [node.name])
            self.fabric.nodes.append(made_node)

    # -- VFs

    def _vfs(self) -> None:
        fabric = self.fabric
        counts = {
            node.name: Counter(len(nic.vfs) for nic in self._compute_ports(model, node))
            for model in self.models
            if has_vfs(self._own(model) or fabric.attachment)
            for node in model.nodes
        }
        if not counts:
            return
        common = {node: counted.most_common(1)[0][0] for node, counted in counts.items()}
        count = Counter(common.values()).most_common(1)[0][0]
        fabric.vfs = {"count": Setting(count, ("fabric", "vfs", "count"))}
        for rail in fabric.rails:
            if rail.vfs and rail.vfs["count"] and rail.vfs["count"].value == count:
                rail.vfs = {}
        # default values are not written
        for attribute in vf_attributes.SETTINGS:
            key = attribute.name
            if not attribute.fits(self._layer):
                continue
            stated = {vf.get(key) for model in self.models for node in model.nodes for vf in self._of(model, node)}
            if len(stated) == 1 and not stated & {None, attribute.default}:
                fabric.vfs[key] = Setting(stated.pop(), ("fabric", "vfs", key))
            elif len(stated - {None}) > 1:
                shown = ", ".join(sorted(str(value) for value in stated))
                message = "VFs have different values of %s: %s" % (key, shown)
                self._findings.add("DS403", ("fabric", "vfs"), message, "set it for rails, profiles or groups")
        for model in self.models:
            own = {common[node.name] for node in model.nodes if node.name in common}
            if len(own) == 1 and own != {count}:
                self.fabric.profiles[model.name].vfs = {"count": Setting(own.pop(), ("profiles", model.name, "vfs"))}
            elif len(own) > 1:
                self._grouped(model, common, count)
        for node, counted in counts.items():
            if len(counted) > 1:
                message = "ports have %s VFs" % " and ".join(map(str, sorted(counted)))
                self._findings.add(
                    "DS403", ("fabric", "vfs"), message, "run hosts.yml, which sets the same value on all", [node]
                )

    def _compute_ports(self, model: Model, node: ObservedNode) -> list[Nic]:
        return [node.nics[model.rails[rail]] for rail in self._compute if rail in model.rails]

    def _of(self, model: Model, node: ObservedNode) -> t.Iterator[t.Mapping[str, t.Any]]:
        for nic in self._compute_ports(model, node):
            yield from nic.vfs

    def _grouped(self, model: Model, common: t.Mapping[str, int], count: int) -> None:
        """Make a group of the nodes of a model with another count, because nodes have no key for VFs."""
        members = {node.name for node in model.nodes}
        for node in self.fabric.nodes:
            own = common.get(node.name, count)
            if node.name in members and own != count:
                name = "vfs_%d" % own
                path = ("groups", name)
                self.fabric.groups.setdefault(name, Group(name, path, vfs={"count": Setting(own, path + ("vfs",))}))
                node.groups = node.groups + (name,)
