# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""The layer of pods: what the test workload's pods have of each rail, and what they find of each other on it."""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan.module_options import bare
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.playbook_names import named
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.base.verify_run import Row, Run, Told
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.layers import cluster_layer
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.layers.pair_layers import Blame, Probe
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.layers.pod_spec import (
    NEXT_TABLE,
    Wish,
    of_share,
    view_of,
    wishes,
)

LAYER = "pods"
ROCE = "RoCE v2"
# Why nothing comes back from a pod that is otherwise as planned: by what its interface is.
_FILTERED = {
    "ipvlan": "the leaf, or a filter on the node, lets only the node's own address through",
    "sriov": "the VF's spoof check or VLAN, or its link state",
    "ib-sriov": "the VF's GUID or partition is not the subnet manager's",
    "ipoib": "the partition or the multicast group is not the subnet manager's",
    "host-device": "the port is on another leaf or VLAN than its rail",
}


class Pod(t.NamedTuple):
    """A running pod: what the API server tells of it (``kube_pods``), and what its node does (``rail_pods``)."""

    told: Told
    seen: Row
    found: Row

    @property
    def name(self) -> str:
        return "pod %s/%s" % (self.seen["namespace"], self.seen["name"])

    def link(self, interface: str) -> Row | None:
        return next((row for row in self.found["links"] if row["netdev"] == interface), None)

    def addresses(self, interface: str) -> list[str]:
        return [row["address"] for row in self.found["addresses"] if row["netdev"] == interface]


def pods(run: Run, seen: t.Mapping[str, t.Any] | None, planned: t.Sequence[t.Sequence[str]]) -> None:
    """Has every test pod its rails as planned, and do they carry traffic from pod to pod?

    :param seen: what was seen of the cluster; ``pods`` in it is what ``kube_pods`` told, or ``{error}``.
    :param planned: the pairs of nodes whose pods were to probe each other, as [server, client].
    """
    workload = (seen or {}).get("pods")
    if workload is None:
        run.why_not[LAYER] = (
            run.why_not.get("kubernetes") or named("verify.yml looks at them") + " with -e kubernetes_enabled=true"
        )
        return
    if workload.get("error"):
        run.fail("RV913", None, None, "test workload", expected="its pods", found=workload["error"])
        run.why_not[LAYER] = "the test workload cannot be read"
        return
    if not workload["there"]:
        run.why_not[LAYER] = "the test workload is not in the cluster: %s" % workload["remedy"]
        return
    running = _running(run, workload)
    view = view_of(run.fabric, [each.told.plan for each in running])
    wanted = {pod.seen["uid"]: wishes(view, pod.told.plan) for pod in running}
    twice = _twice(running, wanted)
    for pod in running:
        for wish in wanted[pod.seen["uid"]]:
            if wish.rail in run.rails and run.look(LAYER, pod.told.name, wish.rail):
                _rail(run, pod, wish, twice)
    _traffic(run, planned)


def _running(run: Run, workload: Row) -> list[Pod]:
    """The pods that can be looked into; of the others it is told why not."""
    rails = cluster_layer.rails_by_name(run)
    by_node: dict[str, list[Row]] = {}
    for row in workload["pods"]:
        if not row["leaving"]:
            by_node.setdefault(row["node"] or row["wanted"] or "", []).append(row)
    found: list[Pod] = []
    for told in run.nodes():
        rows = by_node.get(told.name, [])
        if run.blocked(LAYER, told.name, None) or (not rows and told.name not in workload["nodes"]):
            continue
        if not rows:
            run.fail("RV911", told.name, None, "test pod", expected="one", found="none")
        for row in rows:
            what = "pod %s/%s" % (row["namespace"], row["name"])
            if not row["running"]:
                _still(run, told, what, row, rails)
                continue
            inside = _inside(told, row["uid"])
            if inside.get("why"):
                run.fail("RV912", told.name, None, what, expected="its network namespace", found=inside["why"])
            else:
                found.append(Pod(told, row, inside))
    return found


def _still(run: Run, told: Told, what: str, row: Row, rails: t.Mapping[str, str]) -> None:
    rail = cluster_layer.rail_in(row["why"], rails)
    if rail is not None and (rail not in run.rails or run.blocked(LAYER, told.name, rail)):
        return
    # what the node does not offer to pods was told one layer down
    if run.has("RV901", told.name, None):
        return
    run.fail("RV910", told.name, rail, what, expected="Running", found="%s: %s" % (row["phase"], row["why"]))


def _inside(told: Told, uid: str) -> Row:
    if told.inside is None:
        return {"why": told.inside_why or "the node was not asked"}
    rows = [row for row in told.inside["pods"] if row["uid"] == uid]
    return rows[0] if rows else {"why": "the node was not asked for it"}


# -- one rail of one pod -----------------------------------------------------------------------------------------------


def _rail(run: Run, pod: Pod, wish: Wish, twice: t.Mapping[tuple[str, str], Pod]) -> None:
    """From the interface up: what lacks makes what stands on it pointless."""
    node, rail = pod.told.name, wish.rail
    link = pod.link(wish.interface)
    if link is None or not link["up"]:
        _no_link(run, pod, wish, link)
        return
    if wish.mtus and link["mtu"] not in wish.mtus:
        what = "%s of %s: MTU" % (wish.interface, pod.name)
        run.fail("RV921", node, rail, what, expected=" or ".join(map(str, wish.mtus)), found=link["mtu"])
    addresses = pod.addresses(wish.interface)
    if not _addresses(run, pod, wish, addresses):
        return
    for address in addresses:
        other = twice.get((pod.seen["uid"], address))
        if other is not None:
            what = "%s of %s: address %s" % (wish.interface, pod.name, bare(address))
            peer = other.told.name if other.told.name != node else None
            run.fail(
                "RV923", node, rail, what, expected="this pod's alone", found="%s has it too" % other.name, peer=peer
            )
            return
    for address in addresses:
        if _source(run, pod, wish, address):
            break
    _main(run, pod, wish, addresses)
    _rdma(run, pod, wish, link, addresses)


def _no_link(run: Run, pod: Pod, wish: Wish, link: Row | None) -> None:
    attached = [row for row in pod.seen["networks"] if row["interface"] == wish.interface]
    cause = None
    if link is None and attached:
        cause = "it was attached (%s), and something took it away since" % attached[0]["network"]
    elif link is not None:
        cause = "somebody set it down in the pod"
    rows = pod.found["links"]
    others = ", ".join(row["netdev"] for row in rows) or "none"
    found = "down" if link is not None else "%d interfaces: %s" % (len(rows), others)
    what = "%s of %s" % (wish.interface, pod.name)
    run.fail("RV920", pod.told.name, wish.rail, what, expected="there and up", found=found, cause=cause)


def _addresses(run: Run, pod: Pod, wish: Wish, addresses: t.Sequence[str]) -> bool:
    for share in wish.shares:
        mine = [each for each in addresses if (":" in each) == (share.version == 6)]
        if not any(of_share(each, wish.shares) for each in mine):
            what = "%s of %s: address" % (wish.interface, pod.name)
            found = ", ".join(mine) or "none"
            run.fail("RV922", pod.told.name, wish.rail, what, expected="one of %s" % ", ".join(share.ips), found=found)
            return False
    return True


def _twice(running: t.Sequence[Pod], wanted: t.Mapping[str, t.Sequence[Wish]]) -> dict[tuple[str, str], Pod]:
    """(uid, address) of each pod's address that an earlier pod has too -> that pod."""
    owners: dict[str, Pod] = {}
    found: dict[tuple[str, str], Pod] = {}
    for pod in running:
        for wish in wanted[pod.seen["uid"]]:
            for address in pod.addresses(wish.interface):
                owner = owners.setdefault(bare(address), pod)
                if owner is not pod:
                    found[pod.seen["uid"], address] = owner
    return found


def _source(run: Run, pod: Pod, wish: Wish, address: str) -> bool:
    """Whether the address lacks its rule, or the rule's table a route; it is told."""
    version = 6 if ":" in address else 4
    if version not in wish.sourced or not of_share(address, wish.shares):
        return False
    node, rail, plain = pod.told.name, wish.rail, bare(address)
    host = "%s/%d" % (plain, 128 if version == 6 else 32)
    rules = [row for row in pod.found["rules"] if row["from"] == host]
    fitting = [row for row in rules if _planned_table(row, wish)]
    if not fitting:
        wanted = "a table of its own" if wish.table is None else "table %d at %s" % (wish.table, wish.priority)
        found = "table %d at %d" % (rules[0]["table"], rules[0]["priority"]) if rules else "no rule"
        what = "%s of %s: rule from %s" % (wish.interface, pod.name, plain)
        run.fail("RV924", node, rail, what, expected=wanted, found=found)
        return True
    table = fitting[0]["table"]
    return _routes(run, pod, wish, table, [way for way in wish.table_routes if (":" in way[0]) == (version == 6)])


def _planned_table(rule: Row, wish: Wish) -> bool:
    if wish.table is None:
        return True
    return rule["priority"] == wish.priority and (rule["table"] - wish.table) % NEXT_TABLE == 0


def _routes(run: Run, pod: Pod, wish: Wish, table: int | None, ways: t.Iterable[tuple[str, str | None]]) -> bool:
    rows = [row for row in pod.found["routes"] if row["table"] == table]
    for to, via in ways:
        held = [row for row in rows if row["to"] == to]
        if any((row["netdev"], row["via"]) == (wish.interface, via) for row in held):
            continue
        found = "via %s dev %s" % (held[0]["via"], held[0]["netdev"]) if held else "none"
        what = "%s of %s: route to %s in table %s" % (wish.interface, pod.name, to, table or "main")
        expected = "%sdev %s" % ("via %s " % via if via else "", wish.interface)
        run.fail("RV924", pod.told.name, wish.rail, what, expected=expected, found=found)
        return True
    return False


def _main(run: Run, pod: Pod, wish: Wish, addresses: t.Sequence[str]) -> None:
    families = {":" in address for address in addresses}
    ways = [way for way in wish.main_routes if (":" in way[0]) in families]
    if not run.has("RV924", pod.told.name, wish.rail):
        _routes(run, pod, wish, None, ways)


def _rdma(run: Run, pod: Pod, wish: Wish, link: Row, addresses: t.Sequence[str]) -> None:
    port = next(each for each in pod.told.plan["ports"] if each["rail"] == wish.rail)
    soft, node = port["rdma"]["type"] != "hardware", pod.told.name
    devices = None
    if wish.isolated:
        if soft:
            return  # soft RDMA has no device that a pod could be given
        devices = own_devices(pod.found, link)
        if not devices:
            others = ", ".join(row["device"] for row in pod.found["rdma"]) or "none"
            what = "%s of %s: RDMA device" % (wish.interface, pod.name)
            run.fail("RV925", node, wish.rail, what, expected="one of its own", found=others)
            return
    if run.fabric["link_layer"] != "ethernet" or port["rdma"]["type"] == "siw":
        return  # no address stands for a GID there
    for address in addresses:
        if not of_share(address, wish.shares):
            continue
        held = [row for row in pod.found["gids"] if row["address"] == bare(address)]
        held = [row for row in held if devices is None or row["device"] in devices]
        if not any(row["type"] == ROCE for row in held):
            what = "%s of %s: GID" % (wish.interface, pod.name)
            found = "of type %s alone" % ", ".join(row["type"] for row in held) if held else "none"
            run.fail("RV926", node, wish.rail, what, expected="%s for %s" % (ROCE, bare(address)), found=found)
            return


def own_devices(found: t.Mapping[str, t.Any], link: t.Mapping[str, t.Any]) -> list[str]:
    """The RDMA devices in a pod that are an interface's: by the netdev that they name, or by PCI function."""
    return [
        row["device"]
        for row in found["rdma"]
        if row["netdev"] == link["netdev"] or (row["pci"] and row["pci"] == link["pci"])
    ]


# -- from pod to pod ---------------------------------------------------------------------------------------------------


def _traffic(run: Run, planned: t.Sequence[t.Sequence[str]]) -> None:
    """What pods of the pairs found of each other, on rails where both are as planned."""
    for told in run.nodes():
        if told.pod_refused and not _ill(run, told.name, None):
            said = {"found": told.pod_refused, "cause": "the pod ended meanwhile, or see what was found"}
            run.fail("RV932", told.name, None, "probe in the pod", expected="it runs", **said)
    seen = [probe for probe in _probes(run, planned) if _worth(run, probe)]
    lost = [probe for probe in seen if _silent(probe)]
    good = [probe for probe in seen if not _silent(probe)]
    blame = Blame(lost, good)
    for probe in lost:
        node, peer = blame.of(probe)
        if not any(_ill(run, each, probe.rail) for each in (node, peer) if each):
            _tell(run, probe, node, peer)
    # soft RDMA listens on the node's own addresses alone, in whatever namespace its programs are
    tried = [probe for probe in good if not probe.soft and _equipped(run, probe)]
    failed = [probe for probe in tried if (probe.result or {})["error"]]
    well = [probe for probe in tried if not (probe.result or {})["error"]]
    run.carried[LAYER].update((node, probe.rail) for probe in well for node in (probe.client, probe.server))
    blame = Blame(failed, well)
    for probe in failed:
        node, peer = blame.of(probe)
        if not any(_ill(run, each, probe.rail) for each in (node, peer) if each):
            result = probe.result or {}
            run.fail(
                *("RV932", node, probe.rail, "RDMA from pod to pod"),
                peer=peer,
                expected="it ends well",
                found=result["error"],
                remedy=result["remedy"] or None,
            )


def _probes(run: Run, planned: t.Sequence[t.Sequence[str]]) -> list[Probe]:
    """What was done of the pairs, on the rails that were asked for."""
    found: list[Probe] = []
    for server, client in planned:
        if server not in run.told or client not in run.told:
            continue
        types = {port["rail"]: port["rdma"]["type"] for port in run.told[client].plan["ports"]}
        for row in run.told[client].pod_probed:
            if row["peer"] == server and row["rail"] in run.rails and row["rail"] in types:
                found.append(Probe(row["rail"], client, server, row, types[row["rail"]] != "hardware"))
    return found


def _worth(run: Run, probe: Probe) -> bool:
    ends = (probe.client, probe.server)
    return not any(run.blocked(LAYER, node, probe.rail) or _ill(run, node, probe.rail) for node in ends)


def _ill(run: Run, node: str, rail: str | None) -> bool:
    """Whether something of this layer was told of the node's rail, or of its pod as a whole."""
    return any(
        each.layer == LAYER and (not each.rails or rail is None or rail in each.rails) for each in run.failures_of(node)
    )


def _equipped(run: Run, probe: Probe) -> bool:
    """Whether both nodes have the program; that one lacks it is told by the layer rdma."""
    infos = [run.told[node].info or {} for node in (probe.client, probe.server)]
    return all("perftest" in info.get("tools", ("perftest",)) for info in infos)


def _silent(probe: Probe) -> bool:
    answers = [(probe.result or {})["reach"], (probe.result or {}).get("reach6")]
    return any(each["received"] < each["sent"] for each in answers if each)


def _tell(run: Run, probe: Probe, node: str, peer: str | None) -> None:
    result = probe.result or {}
    attachment = run.told[node].plan["attachment"]
    cause = _FILTERED.get(attachment)
    answer, found = result["reach"], result.get("found") or {}
    over = ""
    if answer["received"] == answer["sent"]:
        answer, over, cause = result["reach6"], " over IPv6", "the leaf filters IPv6 or its neighbour discovery"
    elif found.get("small"):
        passes = "%d bytes pass" % found["path_mtu"] if found.get("path_mtu") else "small ones alone pass"
        mtu = next(port["mtu"] for port in run.told[node].plan["ports"] if port["rail"] == probe.rail)
        run.fail("RV931", node, probe.rail, "MTU from pod to pod", expected=mtu, found=passes, peer=peer)
        return
    said = "%s of %d packets%s" % (answer["received"] or "none", answer["sent"], over)
    said += " (%s)" % answer["error"] if answer["error"] else ""
    run.fail("RV930", node, probe.rail, "pod to pod", expected="answers", found=said, peer=peer, cause=cause)
