# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The layer of pods: the interfaces of the test pods on each rail, and the traffic between them."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.attachment_table import ETHERNET
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.provider_facts import facts_of
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan.module_options import bare
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan.port_view import attachment_of, link_layer_of
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.playbook_names import named
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.base.live_node import ROCE, other_gids
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.base.verify_run import NodeReport, Row, Run
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.layers import cluster_layer
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.layers.pod_spec import (
    NEXT_TABLE,
    RailSpec,
    of_share,
    pod_name,
    pod_specs,
    transfers,
    view_of,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.layers.probe_results import (
    NOT_SENT,
    RUN_AGAIN,
    Probe,
    blamed,
    carried,
    lost,
    path_mtu_text,
    received_text,
    sent,
)

LAYER = "pods"
# Why a pod that is as planned does not answer, by the type of its interface.
_FILTERED = {
    "ipvlan": "the leaf or a filter on the node accepts only the address of the node",
    "sriov": "the VF's spoof check or VLAN, or its link state",
    "ib-sriov": "the GUID or partition of the VF is unknown to the subnet manager",
    "ipoib": "the partition or the multicast group is unknown to the subnet manager",
    "host-device": "the port is on another leaf or VLAN than its rail",
}
# Causes in pods of the agent, which read everything back before the container started.
_AGENT_CAUSES = {
    "RV921": "it was changed in the pod after the agent had attached it",
    "RV922": "it was changed in the pod after the agent had attached it, or the pod is older than the plan",
    "RV924": "it was deleted in the pod after the agent had attached it, or the pod is older than the plan",
    "RV925": "it was deleted, or taken out of the pod, after the agent had attached it",
}


class Pod(t.NamedTuple):
    """A running pod as the API server (``kube_pods``) and its node (``rail_pods``) report it."""

    report: NodeReport
    seen: Row
    found: Row

    @property
    def name(self) -> str:
        """Return the pod as messages name it."""
        return pod_name(self.seen)

    def link(self, interface: str) -> Row | None:
        """Return the row of an interface; None if the pod does not have it."""
        return next((row for row in self.found["links"] if row["netdev"] == interface), None)

    def addresses(self, interface: str) -> list[str]:
        """Return the addresses of an interface, with their prefix lengths."""
        return [row["address"] for row in self.found["addresses"] if row["netdev"] == interface]


def pods(run: Run, seen: t.Mapping[str, t.Any] | None, planned: t.Sequence[t.Sequence[str]]) -> None:
    """Check that every test pod has its rails as planned, and that they carry traffic between pods.

    :param seen: the observed cluster; ``pods`` in it is the result of ``kube_pods``, or ``{error}``.
    :param planned: the pairs of nodes whose pods probe each other, as [server, client].
    """
    workload = (seen or {}).get("pods")
    if workload is None:
        run.why_not[LAYER] = (
            run.why_not.get("kubernetes") or named("verify.yml checks them") + " with -e kubernetes_enabled=true"
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
    view = view_of(run.fabric, [each.report.plan for each in running])
    wanted = {pod.seen["uid"]: pod_specs(view, pod.report.plan, pod.found) for pod in running}
    twice = _duplicates(running, wanted)
    for pod in running:
        for spec in wanted[pod.seen["uid"]]:
            if spec.rail in run.rails and run.look(LAYER, pod.report.name, spec.rail):
                _rail(run, pod, spec, twice)
    _traffic(run, planned)


def _running(run: Run, workload: Row) -> list[Pod]:
    """Return the pods that can be inspected, and report the others."""
    rails = cluster_layer.rails_by_name(run)
    by_node: dict[str, list[Row]] = {}
    for row in workload["pods"]:
        if not row["leaving"]:
            by_node.setdefault(row["node"] or row["wanted"] or "", []).append(row)
    inspected: list[Pod] = []
    for report in run.nodes():
        rows = by_node.get(report.name, [])
        if run.blocked(LAYER, report.name, None) or (not rows and report.name not in workload["nodes"]):
            continue
        if not rows:
            run.fail("RV911", report.name, None, "test pod", expected="one", found="none")
        for row in rows:
            if not row["running"]:
                _still(run, report, row, rails)
                continue
            inside = report.pod(row["uid"]) or {"why": _unknown(report)}
            if inside.get("why"):
                found = inside["why"]
                run.fail("RV912", report.name, None, pod_name(row), expected="its network namespace", found=found)
            else:
                inspected.append(Pod(report, row, inside))
    return inspected


def _still(run: Run, report: NodeReport, row: Row, rails: t.Mapping[str, str]) -> None:
    """Report a pod that does not run, with the rail that its reason names."""
    rail = _rail_named(row["why"], rails)
    # missing resources of the node are reported by the layer kubernetes
    if not run.covers(rail) or run.blocked(LAYER, report.name, rail) or run.has("RV901", report.name, None):
        return
    found = "%s: %s" % (row["phase"], row["why"])
    run.fail("RV910", report.name, rail, pod_name(row), expected="Running", found=found)


def _rail_named(why: str, rails: t.Mapping[str, str]) -> str | None:
    """Return the rail whose resource or network Kubernetes names in the reason why a pod does not run."""
    return next((rails[word] for word in re.split(r"[\s,:/()]+", why) if word in rails), None)


def _unknown(report: NodeReport) -> str:
    """Return why a node has no row of a pod."""
    if report.inside is None:
        return report.inside_why or "the pods of the node were not read"
    return "the node did not report it"


# -- one rail of one pod -----------------------------------------------------------------------------------------------


def _rail(run: Run, pod: Pod, spec: RailSpec, twice: t.Mapping[tuple[str, str], Pod]) -> None:
    """Check a rail of a pod from the interface up, and stop at the first failure that explains the rest."""
    node, rail = pod.report.name, spec.rail
    link = pod.link(spec.interface)
    if spec.storage and link is None and spec.slot is None and not _attached(pod, spec):
        return  # the pod does not request the rail
    if spec.slot is None and _by_agent(run):
        interfaces = "none recorded by the agent; interfaces: %s" % _names(pod)
        run.fail("RV927", node, rail, "slot of %s" % pod.name, expected="one", found=interfaces)
        return
    if link is None or not link["up"]:
        _no_link(run, pod, spec, link)
        return
    if spec.mtus and link["mtu"] not in spec.mtus:
        what = "%s of %s: MTU" % (spec.interface, pod.name)
        mtus = " or ".join(map(str, spec.mtus))
        run.fail("RV921", node, rail, what, expected=mtus, found=link["mtu"], cause=_cause(run, "RV921"))
    addresses = pod.addresses(spec.interface)
    if not _addresses(run, pod, spec, addresses):
        return
    for address in addresses:
        owner = twice.get((pod.seen["uid"], address))
        if owner is not None:
            what = "%s of %s: address %s" % (spec.interface, pod.name, bare(address))
            peer = owner.report.name if owner.report.name != node else None
            run.fail("RV923", node, rail, what, expected="only in this pod", found="also in %s" % owner.name, peer=peer)
            return
    for address in addresses:
        if _source(run, pod, spec, address):
            break
    _main(run, pod, spec, addresses)
    _rdma(run, pod, spec, link, addresses)


def _no_link(run: Run, pod: Pod, spec: RailSpec, link: Row | None) -> None:
    """Report an interface that is missing or down."""
    attached = _attached(pod, spec)
    cause = None
    if link is None and attached:
        cause = "it was attached (%s) and removed afterwards" % attached[0]["network"]
    elif link is None and spec.slot:
        cause = "the agent attached it as slot %d, and it was removed afterwards" % spec.slot["slot"]
    elif link is not None:
        cause = "it was set down in the pod"
    found = "down" if link is not None else "%d interfaces: %s" % (len(pod.found["links"]), _names(pod))
    what = "%s of %s" % (spec.interface, pod.name)
    run.fail("RV920", pod.report.name, spec.rail, what, expected="present and up", found=found, cause=cause)


def _attached(pod: Pod, spec: RailSpec) -> list[Row]:
    """Return the network of the rail that Multus reports; empty if it has not attached the pod to the rail."""
    return [row for row in pod.seen["networks"] if row["interface"] == spec.interface]


def _names(pod: Pod) -> str:
    return ", ".join(row["netdev"] for row in pod.found["links"]) or "none"


def _by_agent(run: Run) -> bool:
    """Return whether the agent attaches pods to rails."""
    return facts_of(run.fabric["provider"]).slots


def _cause(run: Run, code: str) -> str | None:
    """Return the cause of a failure in a pod of the agent, which has no pool and no plugin; None for the usual one."""
    return _AGENT_CAUSES.get(code) if _by_agent(run) else None


def _addresses(run: Run, pod: Pod, spec: RailSpec, addresses: t.Sequence[str]) -> bool:
    """Report a family without a planned address. Return whether all families have one."""
    for share in spec.shares:
        of_family = [each for each in addresses if (":" in each) == (share.version == 6)]
        if not any(of_share(each, spec.shares) for each in of_family):
            what = "%s of %s: address" % (spec.interface, pod.name)
            found = ", ".join(of_family) or "none"
            expected = share.ips[0] if spec.slot else "one of %s" % ", ".join(share.ips)
            about = {"expected": expected, "found": found, "cause": _cause(run, "RV922")}
            run.fail("RV922", pod.report.name, spec.rail, what, **about)
            return False
    return True


def _duplicates(running: t.Sequence[Pod], wanted: t.Mapping[str, t.Sequence[RailSpec]]) -> dict[tuple[str, str], Pod]:
    """Return (uid, address) of addresses that an earlier pod also has -> that pod."""
    owners: dict[str, Pod] = {}
    duplicates: dict[tuple[str, str], Pod] = {}
    for pod in running:
        for spec in wanted[pod.seen["uid"]]:
            for address in pod.addresses(spec.interface):
                owner = owners.setdefault(bare(address), pod)
                if owner is not pod:
                    duplicates[pod.seen["uid"], address] = owner
    return duplicates


def _source(run: Run, pod: Pod, spec: RailSpec, address: str) -> bool:
    """Report a missing rule of an address or a missing route of its table. Return whether one was reported."""
    version = 6 if ":" in address else 4
    if version not in spec.sourced or not of_share(address, spec.shares):
        return False
    node, rail, plain = pod.report.name, spec.rail, bare(address)
    host = "%s/%d" % (plain, 128 if version == 6 else 32)
    rules = [row for row in pod.found["rules"] if row["from"] == host]
    fitting = [row for row in rules if _planned_table(row, spec)]
    if not fitting:
        wanted = "its own table" if spec.table is None else "table %d at %s" % (spec.table, spec.priority)
        found = "table %d at %d" % (rules[0]["table"], rules[0]["priority"]) if rules else "no rule"
        what = "%s of %s: rule from %s" % (spec.interface, pod.name, plain)
        run.fail("RV924", node, rail, what, expected=wanted, found=found, cause=_cause(run, "RV924"))
        return True
    table = fitting[0]["table"]
    return _routes(run, pod, spec, table, [way for way in spec.table_routes if (":" in way[0]) == (version == 6)])


def _planned_table(rule: Row, spec: RailSpec) -> bool:
    """Return whether a rule selects a table of the plan, or any table if the provider chooses it."""
    if spec.table is None:
        return True
    return rule["priority"] == spec.priority and (rule["table"] - spec.table) % NEXT_TABLE == 0


def _routes(run: Run, pod: Pod, spec: RailSpec, table: int | None, ways: t.Iterable[tuple[str, str | None]]) -> bool:
    """Report the first planned route that is missing or differs. Return whether one was reported."""
    rows = [row for row in pod.found["routes"] if row["table"] == table]
    for to, via in ways:
        live = [row for row in rows if row["to"] == to]
        if any((row["netdev"], row["via"]) == (spec.interface, via) for row in live):
            continue
        found = "via %s dev %s" % (live[0]["via"], live[0]["netdev"]) if live else "none"
        what = "%s of %s: route to %s in table %s" % (spec.interface, pod.name, to, table or "main")
        expected = "%sdev %s" % ("via %s " % via if via else "", spec.interface)
        about = {"expected": expected, "found": found, "cause": _cause(run, "RV924")}
        run.fail("RV924", pod.report.name, spec.rail, what, **about)
        return True
    return False


def _main(run: Run, pod: Pod, spec: RailSpec, addresses: t.Sequence[str]) -> None:
    """Check the routes of the main table, unless a rule or route of the rail already failed."""
    families = {":" in address for address in addresses}
    ways = [way for way in spec.main_routes if (":" in way[0]) in families]
    if not run.has("RV924", pod.report.name, spec.rail):
        _routes(run, pod, spec, None, ways)


def _rdma(run: Run, pod: Pod, spec: RailSpec, link: Row, addresses: t.Sequence[str]) -> None:
    """Check the RDMA device of a rail in a pod, and the GIDs of its addresses."""
    port = run.port(pod.report.name, spec.rail)
    soft, node = port["rdma"]["type"] != "hardware", pod.report.name
    devices = None
    if spec.isolated:
        if soft and not spec.slot:
            return  # a soft RDMA device of the node cannot be moved into a pod
        devices = own_devices(pod.found, link)
    elif spec.slot and spec.slot["rdma"]:
        devices = [row["device"] for row in pod.found["rdma"] if row["device"] == spec.slot["rdma"]]
    if devices == []:
        names = ", ".join(row["device"] for row in pod.found["rdma"]) or "none"
        what = "%s of %s: RDMA device" % (spec.interface, pod.name)
        expected = (spec.slot or {}).get("rdma") or "its own"
        run.fail("RV925", node, spec.rail, what, expected=expected, found=names, cause=_cause(run, "RV925"))
        return
    if link_layer_of(run.fabric, port) != ETHERNET or port["rdma"]["type"] == "siw":
        return  # GIDs do not contain addresses there
    for address in addresses:
        if not of_share(address, spec.shares):
            continue
        gids = [row for row in pod.found["gids"] if devices is None or row["device"] in devices]
        found = other_gids(gids, bare(address))
        if found:
            what = "%s of %s: GID" % (spec.interface, pod.name)
            run.fail("RV926", node, spec.rail, what, expected="%s for %s" % (ROCE, bare(address)), found=found)
            return


def own_devices(found: t.Mapping[str, t.Any], link: t.Mapping[str, t.Any]) -> list[str]:
    """Return the RDMA devices in a pod that belong to an interface, by netdev or PCI function."""
    return [
        row["device"]
        for row in found["rdma"]
        if row["netdev"] == link["netdev"] or (row["pci"] and row["pci"] == link["pci"])
    ]


# -- from pod to pod ---------------------------------------------------------------------------------------------------


def _traffic(run: Run, planned: t.Sequence[t.Sequence[str]]) -> None:
    """Check the traffic between the pods of the pairs, on rails where both are as planned."""
    for report in run.nodes():
        if report.pod_refused and not _ill(run, report.name, None):
            texts = {"found": report.pod_refused, "cause": "the pod ended during the run, or see the message"}
            run.fail("RV932", report.name, None, "probe in the pod", expected="it runs", **texts)
    _unprobed(run, planned)
    probed = []
    for probe in _probes(run, planned):
        if not _worth(run, probe):
            continue
        if sent(probe):
            probed.append(probe)
        else:
            what = "packets between pods, with %s" % probe.server
            run.unknown(LAYER, probe.client, probe.rail, what, NOT_SENT, RUN_AGAIN)
    unanswered = [probe for probe in probed if _lost(probe)]
    answered = [probe for probe in probed if not _lost(probe)]
    for probe, node, peer in blamed(unanswered, answered):
        if not any(_ill(run, each, probe.rail) for each in (node, peer) if each):
            _failure(run, probe, node, peer)
    tried = [probe for probe in answered if not probe.soft and _equipped(run, probe)]
    failed = [probe for probe in tried if probe.result["error"]]
    successful = [probe for probe in tried if not probe.result["error"]]
    run.carried[LAYER].update(carried(successful))
    for probe, node, peer in blamed(failed, successful):
        if not any(_ill(run, each, probe.rail) for each in (node, peer) if each):
            about = {"found": probe.result["error"], "peer": peer, "remedy": probe.result["remedy"] or None}
            run.fail("RV932", node, probe.rail, "RDMA between pods", expected="success", **about)


def _unprobed(run: Run, planned: t.Sequence[t.Sequence[str]]) -> None:
    """Note the pairs without a result, unless a failure of one of the nodes or pods explains it."""
    for pair in planned:
        reports = [run.reports[name] for name in pair if name in run.reports]
        rails = [{port["rail"] for port in each.plan["ports"] if port["pods"]} for each in reports]
        if (
            len(reports) < len(pair)
            or not rails[0].intersection(rails[1], run.rails)
            or any(
                each.info is None
                or each.pod_refused
                or run.blocked(LAYER, each.name, None)
                or _ill(run, each.name, None)
                for each in reports
            )
        ):
            continue
        server, client = pair
        if not any(row["peer"] == server for row in run.reports[client].pod_probed):
            why = "no round with the pair began, or its results are missing"
            run.unknown(LAYER, client, None, "packets between pods, with %s" % server, why, RUN_AGAIN)


def _probes(run: Run, planned: t.Sequence[t.Sequence[str]]) -> list[Probe]:
    probes: list[Probe] = []
    for server, client in planned:
        if server not in run.reports or client not in run.reports:
            continue
        soft = {port["rail"]: not transfers(run.fabric, port) for port in run.reports[client].plan["ports"]}
        for row in run.reports[client].pod_probed:
            if row["peer"] == server and row["rail"] in run.rails and row["rail"] in soft:
                probes.append(Probe(row["rail"], client, server, row, soft[row["rail"]]))
    return probes


def _worth(run: Run, probe: Probe) -> bool:
    """Return whether neither end of a probe has a failure that makes the probe meaningless."""
    return not any(run.blocked(LAYER, node, probe.rail) or _ill(run, node, probe.rail) for node in probe.nodes)


def _ill(run: Run, node: str, rail: str | None) -> bool:
    """Return whether the node has a failure of this layer on the rail or on the pod as a whole."""
    return any(
        each.layer == LAYER and (not each.rails or rail is None or rail in each.rails) for each in run.failures_of(node)
    )


def _equipped(run: Run, probe: Probe) -> bool:
    """Return whether both nodes have perftest. The layer rdma reports if it is missing."""
    return all("perftest" in run.reports[node].live.info.get("tools", ("perftest",)) for node in probe.nodes)


def _lost(probe: Probe) -> int:
    """Return the number of packets of both families without a reply."""
    return lost(probe) + lost(probe, "reach6")


def _failure(run: Run, probe: Probe, node: str, peer: str | None) -> None:
    cause = _FILTERED.get(attachment_of(run.reports[node].plan, run.port(node, probe.rail)))
    answer, found, over = probe.result["reach"], probe.found, ""
    if answer["received"] == answer["sent"]:
        answer, over, cause = probe.result["reach6"], " over IPv6", "the leaf filters IPv6 or its neighbour discovery"
    elif found.get("small"):
        mtu = run.port(node, probe.rail)["mtu"]
        run.fail("RV931", node, probe.rail, "MTU between pods", expected=mtu, found=path_mtu_text(found), peer=peer)
        return
    received = received_text(answer, over)
    run.fail("RV930", node, probe.rail, "pod to pod", expected="answers", found=received, peer=peer, cause=cause)
