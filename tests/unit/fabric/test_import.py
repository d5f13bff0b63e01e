# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The import: every defect is named at its line, what is written lints clean, and no bytes end in a traceback."""

from __future__ import annotations

import json
import random
import re
import subprocess
import sys
import typing as t
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import Report
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base import (
    embedded_json,
    layout_rules,
    name_counting,
    pool_ranges,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base.import_facts import Options
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base.import_findings import (
    Found,
    ImportFinding,
    Place,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base.import_rules import IMPORT_RULES
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.kinds import (
    device_plugin_kinds,
    ipam_kinds,
    network_kinds,
    spiderpool_kinds,
    sriov_kinds,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.output.import_run import Outcome, run
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.lint.lint_run import lint
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text import yaml_source
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.ip_integers import network
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.name_syntax import HostRange, natural
from tests import upstream, yaml_text

ROOT = Path(__file__).resolve().parents[3]
RECORDINGS = ROOT / "tests" / "recordings" / "manifests"
NODES = Options("ai", {"ai-[1:2]": {"address": "10.1.16.[1:2]"}}, mtu=4200)


def imported(name: str, options: Options = NODES) -> Outcome:
    return run([(name, (RECORDINGS / name).read_bytes())], options)


def of_text(text: str, options: Options = NODES) -> Outcome:
    return run([("example.txt", text.encode("utf-8", "surrogateescape"))], options)


def codes(outcome: Outcome) -> list[tuple[int, str]]:
    """Each place of each finding: findings that are alike are one, with all of their places."""
    places = [(line, each.finding.code) for each in outcome.findings for line in _lines(each)]
    return sorted(places)


def _lines(found: ImportFinding) -> list[int]:
    return [found.finding.line, *(place.line for place in found.also)]


def data(outcome: Outcome) -> t.Any:
    return yaml_text.load(outcome.text)


# -- the rules


@pytest.mark.parametrize("code", IMPORT_RULES)
def test_examples_of_the_rules_are_true(code: str) -> None:
    rule = IMPORT_RULES[code]
    options = Options(provider="agent" if rule in layout_rules.OF_SLOTS else None)
    bad, good = of_text(rule.bad, options), of_text(rule.good, options)
    assert code in [found.finding.code for found in bad.findings]
    assert code not in [found.finding.code for found in good.findings]
    for found in bad.findings + good.findings:
        assert found.finding.severity == IMPORT_RULES[found.finding.code].severity
        assert found.finding.remedy and found.written and "\n" not in found.text() and len(found.text()) < 900


def test_the_page_of_the_import_is_up_to_date() -> None:
    tool = ROOT / "tools" / "import_doc.py"
    done = subprocess.run([sys.executable, str(tool), "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


# -- manifests as they are found in the field

FOUND = {
    "macvlan-page.md": [
        (11, "IM504"),
        (33, "IM301"),
        (37, "IM319"),
        (37, "IM513"),
        (44, "IM201"),
        (47, "IM202"),
        (48, "IM201"),
        (61, "IM409"),
        (68, "IM401"),
    ],
    "copied-page.txt": [(16, "IM301"), (20, "IM319"), (27, "IM201")],
    "sriov-roce.md": [
        (25, "IM211"),
        (44, "IM211"),
        (64, "IM301"),
        (68, "IM319"),
        (68, "IM513"),
        (77, "IM202"),
        (78, "IM203"),
        (88, "IM301"),
        (92, "IM401"),
    ],
    "sriov-node-prefixes.sh": [
        (12, "IM205"),
        (15, "IM304"),
        (18, "IM206"),
        (26, "IM205"),
        (29, "IM304"),
        (37, "IM205"),
        (40, "IM304"),
        (48, "IM205"),
        (51, "IM304"),
        (56, "IM312"),
        (70, "IM201"),
        (81, "IM202"),
        (86, "IM201"),
    ],
    "rail-prefixes.sh": [(7, "IM321")],
    "ib-sriov.md": [(23, "IM513"), (32, "IM207")],
    "network-operator.yml": [(10, "IM211"), (11, "IM211"), (15, "IM321")],
    "host-device-links.yml": [],
    "plain-cni.yml": [(7, "IM319"), (7, "IM324")],
    "dual-stack.yml": [(26, "IM319"), (26, "IM513")],
    "nv-ipam-blocks.yml": [(4, "IM318"), (9, "IM318"), (21, "IM320"), (21, "IM517"), (26, "IM320")],
    "values.yaml": [
        (8, "IM210"),
        (8, "IM311"),
        (8, "IM513"),
        (9, "IM403"),
        (12, "IM205"),
        (13, "IM203"),
        (14, "IM311"),
        (14, "IM407"),
        (19, "IM202"),
    ],
}


@pytest.mark.parametrize("name", FOUND)
def test_every_defect_is_named_at_its_line(name: str) -> None:
    outcome = imported(name)
    assert codes(outcome) == FOUND[name], "\n".join(found.text() for found in outcome.findings)


# What lint finds in the files of these, and the error of the import that names the decision.
DECIDED = {
    "values.yaml": ("RY111", "IM311"),
    "sriov-node-prefixes.sh": ("RY111", "IM312"),
    "rail-prefixes.sh": ("RY314", "IM321"),
    "network-operator.yml": ("RY314", "IM321"),
    "nv-ipam-blocks.yml": ("RY314", "IM320"),
}


@pytest.mark.parametrize("name", FOUND)
def test_the_written_file_lints_clean_or_marks_decisions(name: str) -> None:
    outcome = imported(name, NODES._replace(mtu=4092) if name.startswith("ib-") else NODES)
    wrong = {finding.code for finding in outcome.lint if finding.severity != "note"}
    assert wrong == ({DECIDED[name][0]} if name in DECIDED else set()), outcome.text
    errors = {each.finding.code for each in outcome.findings if each.finding.severity == "error"}
    assert name not in DECIDED or (DECIDED[name][1] in errors and "# DECIDE: " in outcome.text)


def test_lint_points_at_what_no_manifest_defines() -> None:
    outcome = imported("values.yaml", Options("ai"))
    assert {finding.place for finding in outcome.lint} >= {"nodes", "rails.gpu01.subnet", "rails.gpu02.subnet"}
    assert outcome.text.count("# DECIDE: this rail's subnet") == 2


def test_a_page_with_one_rail_gives_all_of_them() -> None:
    got = data(imported("macvlan-page.md"))
    assert got["fabric"]["attachment"] == "macvlan" and got["fabric"]["provider"] == "spiderpool"
    assert list(got["rails"]) == ["gpu01", "gpu02", "gpu03", "gpu04"]
    assert got["rails"]["gpu03"] == {
        "subnet": "172.16.13.0/24",
        "gateway": "172.16.13.254",
        "pods": "172.16.13.1-172.16.13.200",
        "hosts": "172.16.13.201-172.16.13.253",
    }
    ports = got["profiles"]["server"]["ports"]
    assert [ports[rail]["netdev"] for rail in got["rails"]] == ["enp%ds0f0np0" % slot for slot in range(11, 15)]
    assert got["names"] == {
        "resource": "shared_gpu{n}",
        "network": "gpu{n}-macvlan",
        "namespace": "spiderpool",
        "pool": "gpu{n}-net{n+10}",
    }


def test_sriov_with_hosts_and_names() -> None:
    got = data(imported("sriov-roce.md"))
    assert got["fabric"]["vfs"] == {"count": 12, "max_tx_rate": 20000}
    assert got["rails"]["gpu02"]["hosts"] == "172.16.12.201-172.16.12.253"
    assert got["names"]["resource"] == "eno3np{n}" and got["names"]["pool"] == "gpu{n}-net{n+10}"
    assert {port["netdev"] for port in got["profiles"]["server"]["ports"].values()} == {"eno3np1", "eno3np2"}


def test_prefixes_that_a_leaf_can_aggregate_are_kept_with_the_nodes_own() -> None:
    got = data(imported("rail-prefixes.sh", Options("ai")))
    assert got["addresses"] == {"mode": "prefix", "node_prefix": 27, "gateway": "first", "host": "none"}
    assert [rail["subnet"] for rail in got["rails"].values()] == ["172.16.1.0/24", "172.16.2.0/24"]
    assert got["nodes"] == {"node[1:2]": {"profile": "server"}}


def _of_nodes(first: int, last: int, gateway: int) -> bytes:
    """Two rails with a /27 for each of two nodes; the addresses of each are counted from its network's."""
    text = ""
    for rail in (1, 2):
        text += "---\napiVersion: spiderpool.spidernet.io/v2beta1\nkind: SpiderMultusConfig\n"
        text += "metadata: {name: gpu%d-macvlan, namespace: spiderpool}\nspec:\n  cniType: macvlan\n" % rail
        text += "  macvlan: {master: [eth%d], mtu: 4200, ippools: {ipv4: [gpu%d-v4-*]}}\n" % (rail, rail)
        for node in (1, 2):
            at = "10.%d.0.%%d" % rail
            of = {
                name: at % (32 * (node - 1) + value)
                for name, value in {"net": 0, "first": first, "last": last, "gateway": gateway}.items()
            }
            text += "---\napiVersion: spiderpool.spidernet.io/v2beta1\nkind: SpiderIPPool\n"
            text += "metadata: {name: gpu%d-v4-ai-%d}\nspec:\n  nodeName: [ai-%d]\n" % (rail, node, node)
            text += "  subnet: %(net)s/27\n  gateway: %(gateway)s\n  ips: [%(first)s-%(last)s]\n" % of
    return text.encode()


@pytest.mark.parametrize(
    ("first", "last", "gateway", "host", "message"),
    [
        (3, 30, 1, None, False),
        (2, 29, 1, "last", False),
        (1, 28, 30, "last", False),
        # the pools can give every address to a pod, so that the port gets none
        (2, 30, 1, "none", True),
        (1, 29, 30, "none", True),
    ],
)
def test_a_port_gets_what_the_pools_of_its_prefix_leave(
    first: int, last: int, gateway: int, host: str | None, message: bool
) -> None:
    outcome = run([("pools.yml", _of_nodes(first, last, gateway))], Options("ai"))
    assert data(outcome)["addresses"].get("host") == host
    assert ["IM321"] * message == [each.finding.code for each in outcome.findings if each.finding.code == "IM321"]
    plan = lint(outcome.text.encode()).plan
    assert plan is not None
    (pods, *_rest) = [port["pods"] for node in plan.document()["nodes"] for port in node["ports"]]
    assert (pods["first"], pods["last"]) == ("10.1.0.%d" % first, "10.1.0.%d" % last)


def _pools(*pools_: tuple[str, str, str, str, str]) -> bytes:
    """A network on each of two rails, and pools: their name, subnet, addresses, gateway and nodes."""
    text = ""
    for rail in (1, 2):
        text += "---\napiVersion: spiderpool.spidernet.io/v2beta1\nkind: SpiderMultusConfig\n"
        text += "metadata: {name: gpu%d-macvlan, namespace: spiderpool}\nspec:\n  cniType: macvlan\n" % rail
        text += "  macvlan: {master: [eth%d], mtu: 4200, ippools: {ipv4: [gpu%d-*]}}\n" % (rail, rail)
        for each in pools_:
            name, subnet, ips, gateway, nodes = (word.replace("RAIL", str(rail)) for word in each)
            text += "---\napiVersion: spiderpool.spidernet.io/v2beta1\nkind: SpiderIPPool\n"
            text += "metadata: {name: gpu%d-%s}\nspec:\n  nodeName: [%s]\n" % (rail, name, nodes)
            text += '  subnet: "%s"\n  gateway: "%s"\n  ips: ["%s"]\n' % (subnet, gateway, ips)
    return text.encode()


def test_a_pool_for_several_nodes_is_one_subnet() -> None:
    got = data(
        run(
            [("a.yml", _pools(("net", "10.0.RAIL.0/24", "10.0.RAIL.1-10.0.RAIL.200", "10.0.RAIL.254", "ai-1, ai-2")))],
            Options("ai"),
        )
    )
    assert "addresses" not in got
    assert got["rails"]["gpu02"] == {
        "subnet": "10.0.2.0/24",
        "gateway": "10.0.2.254",
        "pods": "10.0.2.1-10.0.2.200",
        "hosts": "10.0.2.201-10.0.2.253",
    }


def test_pools_of_a_node_each_in_one_subnet_are_blocks() -> None:
    net, gateway = "10.0.RAIL.0/24", "10.0.RAIL.254"
    places = {"ai-1": 16, "ai-2": 48, "ai-4": 32}
    own = [(node, net, "10.0.RAIL.%d-10.0.RAIL.%d" % (at, at + 15), gateway, node) for node, at in places.items()]
    outcome = run([("a.yml", _pools(*own))], Options("ai"))
    assert data(outcome)["addresses"] == {"mode": "block", "block": 16}
    plan = lint(outcome.text.encode()).plan
    assert plan is not None
    for node in plan.document()["nodes"]:
        at = places[node["name"]]
        assert [(port["pods"]["first"], port["pods"]["last"]) for port in node["ports"]] == [
            ("10.0.%d.%d" % (rail, at), "10.0.%d.%d" % (rail, at + 15)) for rail in (1, 2)
        ]
    uneven = run([("a.yml", _pools(*own, ("ai-5", net, "10.0.RAIL.64-10.0.RAIL.70", gateway, "ai-5")))], Options("ai"))
    assert "addresses" not in data(uneven)
    assert "IM326" in [each.finding.code for each in uneven.findings]


def test_lost_ipv6_prefixes_of_nodes_are_reported() -> None:
    six = ("v6-1", "fd00:RAIL::/64", "fd00:RAIL::3-fd00:RAIL::ff", "fd00:RAIL::1", "ai-1")
    four = ("v4-1", "10.RAIL.0.0/27", "10.RAIL.0.3-10.RAIL.0.30", "10.RAIL.0.1", "ai-1")
    for given_ in ([six, four], [six]):
        outcome = run([("a.yml", _pools(*given_))], Options("ai"))
        message = [each.text() for each in outcome.findings if each.finding.code in ("IM311", "IM312")]
        assert [text for text in message if "IPv6 prefix of gpu1-v6-1, and of 2 pools" in text]


def test_a_gateway_of_ipv6_prefixes_is_ipv6s() -> None:
    pool = "apiVersion: nv-ipam.nvidia.com/v1alpha1\nkind: CIDRPool\nmetadata: {name: rail-1}\n"
    pool += "spec: {cidr: 'fd00:1::/56', gatewayIndex: 1, perNodeNetworkPrefix: 64}\n---\n"
    network = "apiVersion: mellanox.com/v1alpha1\nkind: HostDeviceNetwork\nmetadata: {name: rail-1}\nspec:\n"
    network += '  resourceName: rail1\n  ipam: \'{"type": "nv-ipam", "poolName": "rail-1", "poolType": "cidrpool"}\'\n'
    outcome = run([("a.yml", (pool + network).encode())], NODES)
    wanted = {"mode": "prefix", "node_prefix6": 64, "gateway6": "first", "host": "none"}
    assert data(outcome)["addresses"] == wanted
    assert "IM306" not in [each.finding.code for each in outcome.findings]
    assert {finding.place for finding in outcome.lint} == {"addresses.host", "profiles.server.ports.rail01.netdev"}


def test_prefixes_that_no_leaf_can_aggregate_are_to_be_decided() -> None:
    outcome = imported("sriov-node-prefixes.sh")
    # pods have addresses in any network that would be cut by rail
    assert data(outcome)["rails"] == {"rail01": {}, "rail02": {}}
    for net in ("172.16.0.0/17", "172.16.128.0/17"):
        assert "# DECIDE: subnet, such as %s; pods have addresses in it" % net in outcome.text


def test_infiniband_needs_no_addresses() -> None:
    got = data(imported("ib-sriov.md"))
    assert got["fabric"]["attachment"] == "ib-sriov" and got["fabric"]["vfs"]["count"] == 8
    assert got["addresses"] == {"mode": "none"} and got["rails"] == {"gpu01": {}, "gpu02": {}}


@pytest.mark.parametrize(("key", "partition"), [("0x1000", True), ("0x7fff", False)])
def test_where_a_partition_key_is_reported_instead(key: str, partition: bool) -> None:
    (message,) = (
        each
        for each in of_text(IMPORT_RULES["IM207"].good.replace("0x1000", key)).findings
        if "partition" in each.text()
    )
    assert message.finding.code == "IM209" and 'kubernetes_options.pkey: "%s"' % key in message.finding.remedy
    assert ("fabric.infiniband.pkeys: [%s]" % key in message.finding.remedy) is partition


def test_the_network_operators_kinds() -> None:
    got = data(imported("network-operator.yml"))
    assert got["fabric"]["provider"] == "network-operator"
    assert got["addresses"] == {"mode": "prefix", "node_prefix": 27, "gateway": "first", "host": "none"}
    names = {"resource": "rail_{n-1}", "network": "rail-{n-1}", "pool": "rail-{n-1}"}
    assert got["names"] == {"resource_prefix": "rdma", **names}
    links = data(imported("host-device-links.yml"))
    assert links["addresses"] == {"mode": "link", "leaf_end": "first"}
    assert links["profiles"]["server"]["ports"]["rail02"] == {"pci": "0000:3c:00.0"}


def test_both_families_and_addresses_that_no_pod_may_get() -> None:
    got = data(imported("dual-stack.yml"))
    assert got["rails"]["gpu02"] == {
        "subnet": "172.16.12.0/24",
        "gateway": "172.16.12.254",
        "pods": "172.16.12.10-172.16.12.200",
        "hosts": "172.16.12.201-172.16.12.253",
        "taken": {"switches": "172.16.12.1-172.16.12.9"},
        "subnet6": "fd00:12::/64",
        "gateway6": "fd00:12::fe",
        "pods6": "fd00:12::100-fd00:12::1ff",
    }
    assert got["names"]["pool"] == "gpu{n:02}-v4" and got["names"]["pool6"] == "gpu{n:02}-v6"


def test_blocks_of_nv_ipam_leave_no_address_for_the_ports() -> None:
    outcome = imported("nv-ipam-blocks.yml")
    got = data(outcome)
    assert got["fabric"]["pods_per_node"] == 4 and got["rails"]["rail02"]["vfs"] == {"count": 4}
    assert got["fabric"]["vfs"] == {"count": 8, "trust": True, "spoofchk": False, "link_state": "auto"}
    assert got["rails"]["rail01"]["pods"] == "192.168.1.1-192.168.1.253"
    assert "hosts" not in got["rails"]["rail01"]
    assert (
        "# DECIDE: the number of addresses in nv-ipam's blocks" in outcome.text and "# DECIDE: hosts; " in outcome.text
    )


def test_files_are_one_cluster_and_their_order_is_that_of_the_findings() -> None:
    names = ["network-operator.yml", "values.yaml"]
    outcome = run([(name, (RECORDINGS / name).read_bytes()) for name in names], NODES)
    files = [found.file for found in outcome.findings]
    assert files == ["values.yaml"] * (len(files) - 2) + ["network-operator.yml"] * 2
    assert outcome.manifests == 6


@pytest.mark.parametrize("name", ["network-operator.yml", "host-device-links.yml", "plain-cni.yml"])
def test_the_order_of_documents_does_not_matter(name: str) -> None:
    parts = (RECORDINGS / name).read_text(encoding="utf-8").split("---\n")
    wanted = data(imported(name))
    for seed in range(8):
        random.Random(seed).shuffle(parts)
        got = data(of_text("---\n".join(parts)))
        assert got == wanted


# -- pages


def test_a_page_on_the_agent_keeps_the_addresses_of_pods() -> None:
    outcome = imported("copied-page.txt", NODES._replace(provider="agent"))
    assert [finding.text() for finding in outcome.lint if finding.severity == "error"] == []
    got = data(outcome)
    assert (got["fabric"]["provider"], "names" in got, list(got["rails"])) == ("agent", False, ["rail01", "rail02"])
    plan = lint(outcome.text.encode()).plan
    assert plan
    for number, rails in enumerate(zip(*(node["agent"]["rails"] for node in plan.document()["nodes"])), 1):
        addresses = [slot["address"] for rail in rails for slot in rail["slots"]]
        # the upper half of the pool from its first address on, each address once
        low = int(got["rails"]["rail%02d" % number]["pods"].partition("-")[0].rpartition(".")[2])
        assert low == 51
        assert addresses == ["172.20.%d.%d/24" % (number, last) for last in range(low, low + len(addresses))]
        assert all(rail["slots"] for rail in rails)


def test_rails_that_a_page_leaves_out_are_to_be_completed() -> None:
    """The page has the manifests of one rail, and the networks that pods request of all."""
    page = (RECORDINGS / "copied-page.txt").read_text().replace("ens1np0", "enp11s0f0np0")
    first, _separator, _rest = page.partition("      name: rail2\n")
    pod = "kind: Pod\nmetadata:\n  name: a\n  annotations:\n    k8s.v1.cni.cncf.io/networks: %s\n"
    wanted = ",".join("spiderpool/rail%d" % number for number in (1, 2, 3))
    outcome = of_text(first.rpartition("    ---\n")[0] + "    EOF\n\n```yaml\napiVersion: v1\n%s```\n" % (pod % wanted))
    missing = [finding.place for finding in outcome.lint if finding.severity == "error"]
    assert missing == ["profiles.server.ports.rail%02d.netdev" % number for number in (2, 3)]
    subnets = [(name, rail["subnet"]) for name, rail in data(outcome)["rails"].items()]
    assert subnets == [("rail%02d" % number, "172.20.%d.0/24" % number) for number in (1, 2, 3)]


def test_a_page_without_manifests_is_reported_as_a_page() -> None:
    outcome = of_text("Rails\n\n  1. Look at the rules:\n\n    $ ip rule\n    0:  from all lookup local\n")
    assert codes(outcome) == [(1, "IM103"), (1, "IM104")] and outcome.text == ""


# -- the fields are those of upstream's schemas


def _properties(file: str, *path: str) -> dict[str, t.Any]:
    schema = upstream.SCHEMAS / file
    versions = yaml_text.load(schema.read_text(encoding="utf-8"))["spec"]["versions"]
    node = versions[-1]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    for key in path:
        node = node["properties"][key]
    return t.cast("dict[str, t.Any]", node["properties"])


_SMC = "spiderpool/spiderpool.spidernet.io_spidermultusconfigs.yaml"


@pytest.mark.parametrize(
    ("file", "path", "shape"),
    [
        ("spiderpool/spiderpool.spidernet.io_spiderippools.yaml", (), spiderpool_kinds._POOL),
        ("spiderpool/spiderpool.spidernet.io_spidercoordinators.yaml", (), spiderpool_kinds._COORDINATOR),
        *((_SMC, (section,), shape) for section, shape in spiderpool_kinds._SECTIONS.items()),
        (_SMC, ("macvlan", "ippools"), spiderpool_kinds._POOLS_OF),
        ("sriov-network-operator/sriovnetwork.openshift.io_sriovnetworknodepolicies.yaml", (), sriov_kinds._POLICY),
        (
            "sriov-network-operator/sriovnetwork.openshift.io_sriovnetworknodepolicies.yaml",
            ("nicSelector",),
            sriov_kinds._SELECTORS,
        ),
        ("sriov-network-operator/sriovnetwork.openshift.io_sriovnetworks.yaml", (), sriov_kinds._NETWORK),
        ("nv-ipam/nv-ipam.nvidia.com_ippools.yaml", (), ipam_kinds._IPPOOL),
        ("nv-ipam/nv-ipam.nvidia.com_cidrpools.yaml", (), ipam_kinds._CIDRPOOL),
        *(
            ("network-operator/mellanox.com_%ss.yaml" % kind.lower(), (), dict(own, networkNamespace=0, ipam=0))
            for kind, (_attachment, own) in network_kinds._OPERATORS.items()
        ),
    ],
)
def test_fields_are_those_of_upstreams_schemas(file: str, path: tuple[str, ...], shape: t.Mapping[str, t.Any]) -> None:
    assert set(shape) == set(_properties(file, *path))


def test_the_device_plugins_selectors_are_all_known() -> None:
    assert set(device_plugin_kinds._SELECTORS) == {"vendors", "deviceIDs", "drivers", "ifNames", "linkTypes"}


# -- whatever the bytes


def _reported(outcome: Outcome) -> None:
    for found in outcome.findings:
        assert found.text().isprintable() and found.finding.line >= 1 and found.finding.remedy and found.written
    if outcome.text:
        report = Report()
        assert yaml_source.parse(outcome.text.encode("utf-8"), report) is not None
        assert not report.failed, [finding.text() for finding in report.findings(lambda _path: (1, 1))]
    else:
        assert any(found.finding.severity == "error" for found in outcome.findings)


_CORPUS = {path.name: path.read_text(encoding="utf-8") for path in sorted(RECORDINGS.glob("*")) if path.name in FOUND}
_BITS = st.sampled_from(
    ["", "{", "[", "- ", ": ", "....", "null", "0", "-1", "999.1.1.1", "172.16.0.0/40", "fd00::/64", "a" * 300, "'",
     '"', "|", "&a", "*a", "<<: *a", "\t", "\u2028", "\x00", "spec: []", "metadata: x", "apiVersion: v1", "kind: List",
     "${X}", "EOF", "```", "---", "gpu99999999999", "99999999999999999999", "!!binary x", "{{ x }}", "ips: {a: b}"]
)  # fmt: skip


@given(
    st.sampled_from(sorted(_CORPUS)),
    st.lists(st.tuples(st.integers(0, 400), st.sampled_from(["drop", "double", "swap", "put", "value"]), _BITS)),
)
def test_no_change_of_manifests_ends_in_a_traceback(name: str, changes: list[tuple[int, str, str]]) -> None:
    lines = _CORPUS[name].splitlines()
    for at, how, bit in changes[:6]:
        at %= len(lines) or 1
        if how == "drop" and len(lines) > 1:
            del lines[at]
        elif how == "double":
            lines.insert(at, lines[at])
        elif how == "swap":
            lines[at], lines[-1] = lines[-1], lines[at]
        elif how == "put":
            lines.insert(at, " " * (at % 9) + bit)
        else:
            lines[at] = "%s: %s" % (lines[at].partition(":")[0], bit)
    raw = "\n".join(lines).encode("utf-8", "surrogatepass")
    _reported(run([(name, raw)], NODES))


_KEYS = sorted({key for text in _CORPUS.values() for key in re.findall(r"^[ -]*([A-Za-z0-9.]+):", text, re.MULTILINE)})
_SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.text(max_size=6),
    st.sampled_from(["4", "ipv4", "gpu1", "10.0.0.0/8", "eth"]),
)
_TREES = st.recursive(
    _SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(_KEYS + ["name", "ippools"]), inner, max_size=6)
    ),
    max_leaves=20,
)
_KINDS = [
    ("spiderpool.spidernet.io/v2beta1", "SpiderIPPool"),
    ("spiderpool.spidernet.io/v2beta1", "SpiderMultusConfig"),
    ("spiderpool.spidernet.io/v2beta1", "SpiderReservedIP"),
    ("spiderpool.spidernet.io/v2beta1", "SpiderCoordinator"),
    ("sriovnetwork.openshift.io/v1", "SriovNetworkNodePolicy"),
    ("sriovnetwork.openshift.io/v1", "SriovNetwork"),
    ("k8s.cni.cncf.io/v1", "NetworkAttachmentDefinition"),
    ("mellanox.com/v1alpha1", "NicClusterPolicy"),
    ("mellanox.com/v1alpha1", "MacvlanNetwork"),
    ("nv-ipam.nvidia.com/v1alpha1", "IPPool"),
    ("nv-ipam.nvidia.com/v1alpha1", "CIDRPool"),
    ("v1", "ConfigMap"),
]


@given(st.lists(st.tuples(st.sampled_from(_KINDS), _TREES, _TREES), min_size=1, max_size=3))
def test_any_manifest_gives_findings_and_no_traceback(objects: list[tuple[tuple[str, str], t.Any, t.Any]]) -> None:
    documents = [
        {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec, "data": spec}
        for (version, kind), metadata, spec in objects
    ]
    raw = yaml_text.dump_all(documents, allow_unicode=True).encode("utf-8", "replace")
    _reported(run([("any.yml", raw)], NODES))


@given(st.binary(max_size=300), st.sampled_from(["a.yml", "a.json", "a.md", "a"]))
@example(b"apiVersion: v1\nkind", "a.md")
@example(b'{"configList": [{', "a.md")
@example(b"k8s.v1.cni.cncf.io/networks: [[[[", "a.yml")
@example(b"apiVersion: mellanox.com/v1\nkind: MacvlanNetwrok\nspec: {master: ens1}", "a.yml")
@example(b"a: &a [*a]\nkind: x\napiVersion: y", "a.yml")
@example(b"limits:\n  a/b: 1", "a.yml")
def test_any_bytes_give_findings_and_no_traceback(raw: bytes, name: str) -> None:
    _reported(run([(name, raw)], Options()))


def test_a_large_file_takes_seconds() -> None:
    parts = (RECORDINGS / "plain-cni.yml").read_text(encoding="utf-8")
    outcome = run([("many.yml", ("---\n".join([parts] * 300)).encode("utf-8"))], NODES)
    assert outcome.rails == 2 and len(outcome.findings) < 10


# -- the small rooms

# YAML has no control characters
_TEXT = st.text(st.characters(exclude_categories=["Cs", "Cc", "Cn"]))
_JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), _TEXT),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(_TEXT, inner, max_size=4)),
    max_leaves=20,
)


def read_json(text: str, shape: t.Any = yaml_source.Mapping) -> tuple[t.Any, list[ImportFinding]]:
    found = Found()
    return embedded_json.read(text, shape, Place("x", 5, 3, "config"), "the configuration", found), found.all


@given(st.dictionaries(_TEXT, _JSON, max_size=4), st.sampled_from([None, 2]))
def test_json_is_read_as_it_is(value: t.Any, indent: int | None) -> None:
    read, findings = read_json(json.dumps(value, indent=indent, ensure_ascii=False))
    assert findings == [] and _shape(read) == _texts(value)


def _shape(value: yaml_source.Value) -> t.Any:
    if isinstance(value, yaml_source.Mapping):
        return {key: _shape(entry) for key, (_name, entry) in value.entries.items()}
    if isinstance(value, yaml_source.Sequence):
        return [_shape(item) for item in value.items]
    return value.text


def _texts(value: t.Any) -> t.Any:
    if isinstance(value, dict):
        return {key: _texts(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [_texts(item) for item in value]
    return value if isinstance(value, str) else json.dumps(value)


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ('{"a": [1,\n  ....\n 2]}', 6, "not valid JSON: Expecting value"),
        ('{"a": 1', 5, "not valid JSON: Expecting ',' delimiter"),
        ('{"a": 1,\n "b": {"a": 2},\n "a": 3}', 7, "not read: duplicate key a, first used on line 5"),
        ("[1]", 5, "not a JSON object"),
        ("[" * 100_000, 5, "not valid JSON: maximum recursion depth exceeded"),
        ('{"a": %s}' % ("[" * 60 + "]" * 60), 5, "not read: nested deeper than 40 levels"),
    ],
)
def test_invalid_json_is_reported_at_its_line_and_not_read(text: str, line: int, message: str) -> None:
    read, (finding, *more) = read_json(text)
    assert read is None and not more
    assert (finding.finding.code, finding.finding.line, finding.written) == ("IM109", line, "nothing of it")
    assert "the configuration is " + message in finding.text()


def test_a_duplicate_key_names_the_line_of_the_first_in_the_file() -> None:
    text = "kind: List\n---\nkind: SpiderIPPool\nspec: {}\nspec: {}\n"
    (found,) = [each for each in of_text(text).findings if each.finding.code == "IM102"]
    assert found.finding.line == 5
    assert found.finding.message == "duplicate key spec, first used on line 4"


@pytest.mark.parametrize(
    ("text", "members", "wanted"),
    [
        ("172.16.11.0/16", ["172.16.11.1", "172.16.11.254"], "172.16.11.0/24"),
        ("172.16.10.0/16", ["172.16.10.1", "172.16.10.200"], "172.16.10.0/24"),
        ("172.16.10.0/16", ["172.16.10.1", "172.16.11.200"], "172.16.10.0/23"),
        ("172.16.11.0/16", ["172.16.11.1", "172.16.90.200"], "172.16.0.0/16"),
        ("172.16.11.7/24", ["172.16.11.1", "172.16.11.200"], "172.16.11.0/24"),
        ("172.16.11.32/24", ["172.16.11.33", "172.16.11.64"], "172.16.11.32/27"),
        ("172.16.11.0/24", ["10.0.0.1"], "172.16.11.0/24"),
        ("fd00:11::5/64", ["fd00:11::6"], "fd00:11::/64"),
        ("fd00:11::/16", ["fd00:11::6"], "fd00:11::/32"),
    ],
)
def test_a_subnet_means_the_network_in_which_its_addresses_are(text: str, members: list[str], wanted: str) -> None:
    numbers = [parsed[0] for parsed in map(pool_ranges.address, members) if parsed]
    net = pool_ranges.subnet(text, numbers, Place("x"), Found())
    assert net is not None and str(net) == wanted


@given(
    st.integers(0, 9), st.integers(1, 3), st.integers(0, 9), st.integers(1, 8), st.sets(st.integers(1, 9), min_size=1)
)
def test_series_are_found_from_any_two_of_their_texts(
    start: int, growth: int, fixed: int, width: int, numbers: set[int]
) -> None:
    def text(number: int) -> str:
        return "cx%d_p%0*ds0f0" % (fixed, width, start + growth * number)

    # the first one shows by its zeros how wide all are
    series = name_counting.series({number: text(number) for number in {0, *numbers}})
    assert series is not None and [series.at(number) for number in range(30)] == [text(number) for number in range(30)]


@given(st.lists(st.from_regex(r"\A[a-c]{1,2}-?[0-9]{1,3}\Z"), unique=True))
def test_ranges_of_nodes_are_their_names(names: list[str]) -> None:
    names.sort(key=natural)
    expanded = [name for pattern in name_counting.ranged(names) for name in HostRange(pattern)]
    assert expanded == names


def test_texts_without_numbers_do_not_form_a_series() -> None:
    assert name_counting.series({1: "gpu1", 2: "gpu2", 3: "gpu5"}) is None
    assert name_counting.series({1: "gpu1-a", 2: "gpu2-b"}) is None
    template = name_counting.series({1: "gpu1-net11", 2: "gpu2-net12"})
    assert template is not None and template.template() == "gpu{n}-net{n+10}"
    padded = name_counting.series({1: "rail_00", 2: "rail_01"})
    assert padded is not None and padded.template() == "rail_{n-1:02}"


def test_every_overlap_of_rails_is_reported() -> None:
    pools = ("172.16.0.0/16", "172.16.11.0/24", "172.16.12.0/24")
    text = "---\n".join(
        "apiVersion: spiderpool.spidernet.io/v2beta1\nkind: SpiderIPPool\nmetadata: {name: gpu%d}\nspec: {subnet: %s}\n"
        "---\napiVersion: spiderpool.spidernet.io/v2beta1\nkind: SpiderMultusConfig\nmetadata: {name: gpu%d-macvlan}\n"
        "spec: {cniType: macvlan, macvlan: {master: [nic%d], ippools: {ipv4: [gpu%d]}}}\n"
        % (number, subnet, number, number, number)
        for number, subnet in enumerate(pools, 1)
    )
    messages = [each.finding.message for each in of_text(text).findings if each.finding.code == "IM310"]
    assert messages == [
        "172.16.11.0/24 of gpu2-macvlan overlaps 172.16.0.0/16 of gpu1-macvlan",
        "172.16.12.0/24 of gpu3-macvlan overlaps 172.16.0.0/16 of gpu1-macvlan",
    ]


@pytest.mark.parametrize(
    ("text", "code"), [("172.16.12.0", "IM305"), ("172.16.12.255", "IM305"), ("172.16.11.9-172.16.12.0", "IM304")]
)
def test_a_range_without_usable_addresses_is_not_imported(text: str, code: str) -> None:
    found, net = Found(), network(172 << 24 | 16 << 16 | 12 << 8, 24)
    listed = pool_ranges.ranges([text], Place("x"), found)
    assert pool_ranges.cut_to(net, listed, Place("x"), found) == []
    (reported,) = found.all
    assert (reported.finding.code, reported.written) == (code, "nothing")


@pytest.mark.parametrize(
    "text",
    [
        'config: \'{"type": "macvlan", "master": "eth1", "mtu": "²"}\'',
        'config: \'{"type": "sriov", "vlan": "²"}\'',
        'config: \'{"type": "macvlan", "master": "1²3"}\'',
    ],
)
def test_digits_other_than_ascii_raise_no_traceback(text: str) -> None:
    head = "apiVersion: k8s.cni.cncf.io/v1\nkind: NetworkAttachmentDefinition\nmetadata: {name: %s}\nspec:\n  %s\n"
    assert of_text("---\n".join(head % (name, text) for name in ("rail", "other"))).rails


def test_a_partition_key_of_digits_other_than_ascii_is_reported() -> None:
    outcome = of_text(IMPORT_RULES["IM207"].good.replace('"0x1000"', "²"))
    assert "IM207" in [each.finding.code for each in outcome.findings]


def _cut_pools(more: str) -> bytes:
    """A network on each of two rails, whose pools give each node a /27; ``more`` of each pool, a key a line."""
    text = ""
    for rail in (1, 2):
        text += (
            "---\napiVersion: nv-ipam.nvidia.com/v1alpha1\nkind: CIDRPool\nmetadata: {name: rail-%d}\nspec:\n" % rail
        )
        text += "  cidr: 10.10%d.0.0/16\n  perNodeNetworkPrefix: 27\n%s" % (rail, more.replace("RAIL", str(rail)))
        text += "---\napiVersion: mellanox.com/v1alpha1\nkind: MacvlanNetwork\nmetadata: {name: rail-%d}\n" % rail
        text += 'spec: {master: eth%d, mtu: 4200, ipam: \'{"type": "nv-ipam", "poolName": "rail-%d"}\'}\n' % (
            rail,
            rail,
        )
    return text.encode()


@pytest.mark.parametrize(
    ("gateway", "left_out", "host", "codes_", "pods"),
    [
        (1, "2-2", None, [], (3, 30)),
        (1, "30-30", "last", [], (2, 29)),
        (30, "29-29", "last", [], (1, 28)),
        (30, "1-1", None, [], (2, 29)),
        (1, "0-2", None, [], (3, 30)),
        (1, "", "none", ["IM321"], (2, 30)),
        (1, "10-12", "none", ["IM321", "IM327"], (2, 30)),
        (1, "25-30", "last", ["IM327"], (2, 29)),
    ],
)
def test_a_port_gets_what_a_pool_cut_by_node_keeps_from_pods(
    gateway: int, left_out: str, host: str | None, codes_: list[str], pods: tuple[int, int]
) -> None:
    more = "  gatewayIndex: %d\n" % gateway
    if left_out:
        more += "  perNodeExclusions: [{startIndex: %s, endIndex: %s}]\n" % tuple(left_out.split("-"))
    outcome = run([("a.yml", _cut_pools(more))], NODES)
    assert data(outcome)["addresses"].get("host") == host
    message = sorted(each.finding.code for each in outcome.findings if each.finding.code in ("IM321", "IM327"))
    assert message == codes_, [each.text() for each in outcome.findings]
    assert ("# DECIDE: the manifests keep addresses" in outcome.text) == ("IM327" in codes_)
    plan = lint(outcome.text.encode()).plan
    assert plan is not None
    given_ = plan.document()["nodes"][0]["ports"][0]["pods"]
    assert (given_["first"], given_["last"]) == ("10.101.0.%d" % pods[0], "10.101.0.%d" % pods[1])


def test_reserved_addresses_among_nodes_prefixes_are_reported() -> None:
    more = "  gatewayIndex: 1\n  perNodeExclusions: [{startIndex: 2, endIndex: 2}]\n  exclusions:\n"
    more += (
        "  - {startIP: 10.10RAIL.3.10, endIP: 10.10RAIL.3.20}\n  - {startIP: 10.10RAIL.3.33, endIP: 10.10RAIL.3.33}\n"
    )
    reserved = "---\napiVersion: spiderpool.spidernet.io/v2beta1\nkind: SpiderReservedIP\nmetadata: {name: vips}\n"
    reserved += "spec: {ips: [10.102.9.7]}\n"
    outcome = run([("a.yml", _cut_pools(more) + reserved.encode())], NODES)
    message = [each.finding.message for each in outcome.findings if each.finding.code == "IM209"]
    assert message == [
        "10.101.3.10-10.101.3.20 of rail-1 is reserved by rail-1",
        "10.102.3.10-10.102.3.20 of rail-2 is reserved by rail-2",
        "10.102.9.7 of rail-2 is reserved by vips",
    ]


def test_routes_to_no_rail_are_reported_and_their_routers_stay_reserved() -> None:
    pool = ("net", "10.0.RAIL.0/24", "10.0.RAIL.1-10.0.RAIL.200", "10.0.RAIL.254", "")
    routes_ = "  routes: [{dst: 10.0.0.0/16, gw: 10.0.%s.254}, {dst: 10.200.0.0/16, gw: 10.0.%s.253}]\n"
    texts_ = _pools(pool).decode()
    for rail in ("1", "2"):
        end = '["10.0.%s.1-10.0.%s.200"]\n' % (rail, rail)
        texts_ = texts_.replace(end, end + routes_ % (rail, rail))
    outcome = run([("a.yml", texts_.encode())], NODES)
    message = [each.finding.message for each in outcome.findings if each.finding.code == "IM209"]
    assert message == ["the route to 10.200.0.0/16 of gpu1-net and of gpu2-net does not lead to a rail"]
    rail = data(outcome)["rails"]["gpu02"]
    assert rail["hosts"] == "10.0.2.201-10.0.2.252" and rail["taken"] == {"routers": "10.0.2.253"}
    assert not [finding for finding in outcome.lint if finding.severity == "error"]


@pytest.mark.parametrize(
    "more",
    [
        "  gatewayIndex: 1\n  routes: [{dst: 10.200.0.0/16}, {dst: 10.101.0.0/16}]\n",
        "  gatewayIndex: 1\n  routes: [{dst: 0.0.0.0/0}]\n",
    ],
)
def test_routes_of_pools_cut_by_node_are_reported_too(more: str) -> None:
    outcome = run([("a.yml", _cut_pools(more))], NODES)
    message = [each.finding.message for each in outcome.findings if each.finding.code == "IM209"]
    to = "10.200.0.0/16" if "200" in more else "0.0.0.0/0"
    assert message == ["the route to %s of rail-1 and of rail-2 does not lead to a rail" % to]


def test_routes_of_plain_networks_are_reported_too() -> None:
    config = '{"type": "macvlan", "master": "eth1", "ipam": {"type": "whereabouts", "range": "10.1.0.0/24",'
    config += ' "gateway": "10.1.0.1", "routes": [{"dst": "10.200.0.0/16", "gw": "10.1.0.254"}]}}'
    text = "apiVersion: k8s.cni.cncf.io/v1\nkind: NetworkAttachmentDefinition\nmetadata: {name: rail1}\n"
    outcome = of_text(text + "spec: {config: '%s'}\n" % config)
    message = [each.finding.message for each in outcome.findings if each.finding.code == "IM209"]
    assert message == ["the route to 10.200.0.0/16 of rail1 does not lead to a rail"]


def _definition(config: str, name: str = "rail1") -> str:
    text = (
        "apiVersion: k8s.cni.cncf.io/v1\nkind: NetworkAttachmentDefinition\nmetadata: {name: %s, namespace: default}\n"
    )
    return text % name + "spec: {config: '%s'}\n" % config


def _lost(outcome: Outcome) -> list[str]:
    return [each.finding.message for each in outcome.findings if each.finding.code == "IM209"]


def test_a_partition_of_a_plain_network_is_reported() -> None:
    outcome = of_text(_definition('{"type": "ib-sriov", "pkey": "0x1234", "link_state": "auto"}'))
    assert _lost(outcome) == [
        "the partition key 0x1234 is for one network, but keys in a fabric file are for every port",
    ]
    assert data(outcome)["fabric"]["vfs"]["link_state"] == "auto"
    assert not _lost(of_text(_definition('{"type": "ib-sriov", "pkey": ""}')))


def test_vfs_of_plain_networks_keep_their_link_state() -> None:
    outcome = of_text(_definition('{"type": "sriov", "link_state": "enable"}'))
    assert data(outcome)["fabric"]["vfs"]["link_state"] == "enable"


@pytest.mark.parametrize(
    ("manifest", "message", "port"),
    [
        (
            "apiVersion: mellanox.com/v1alpha1\nkind: IPoIBNetwork\nmetadata: {name: rail1}\n"
            "spec: {master: ibs1.8001}\n",
            "ibs1.8001 is the partition 0x8001 on top of ibs1",
            "ibs1",
        ),
        (
            "apiVersion: spiderpool.spidernet.io/v2beta1\nkind: SpiderMultusConfig\nmetadata: {name: rail1}\n"
            "spec: {cniType: ipoib, ipoib: {master: ib0.8002}}\n",
            "ib0.8002 is the partition 0x8002 on top of ib0",
            "ib0",
        ),
    ],
)
def test_a_partition_on_top_of_a_port_does_not_become_a_rail_port(manifest: str, message: str, port: str) -> None:
    outcome = of_text(manifest)
    assert _lost(outcome) == [message]
    (own,) = data(outcome)["profiles"]["server"]["ports"].values()
    assert own["netdev"] == port


@pytest.mark.parametrize(("own", "prefix"), [("", None), ('"resourcePrefix": "intel.com", ', "intel.com")])
def test_the_network_operators_device_plugin_has_its_prefix(own: str, prefix: str | None) -> None:
    text = "apiVersion: mellanox.com/v1alpha1\nkind: NicClusterPolicy\nmetadata: {name: nic-cluster-policy}\nspec:\n"
    text += '  sriovDevicePlugin:\n    config: |\n      {"resourceList": [{%s"resourceName": "rail_1",' % own
    text += ' "selectors": {"pfNames": ["eth1#0,2-3"]}}]}\n---\n'
    text += "apiVersion: mellanox.com/v1alpha1\nkind: HostDeviceNetwork\nmetadata: {name: rail-1}\nspec:\n"
    outcome = of_text(text + "  resourceName: rail_1\n")
    assert data(outcome)["names"].get("resource_prefix") == prefix
    errors = [each.text() for each in outcome.findings if each.finding.code == "IM519"]
    assert any("selects the VFs 0-0 and 2-3" in text and "Written: range: 2-3." in text for text in errors)
    assert any("are VFs of eth1, and with host-device a pod gets the port itself" in text for text in errors)
    assert data(outcome)["profiles"]["server"]["ports"]["rail01"] == {"netdev": "eth1"}


def test_every_coordinators_networks_are_reserved() -> None:
    head = "---\napiVersion: spiderpool.spidernet.io/v2beta1\nkind: SpiderCoordinator\nmetadata: {name: c%d}\n"
    nets = ([1, "10.9.0.0/16"], [2, "10.8.0.0/16, 10.9.0.0/16"])
    text = "".join(head % number + "spec: {hijackCIDR: [%s]}\n" % net for number, net in nets)
    outcome = of_text(text + "---\n" + IMPORT_RULES["IM209"].good)
    assert data(outcome)["fabric"]["reserved"] == {"hijack-1": "10.9.0.0/16", "hijack-2": "10.8.0.0/16"}
