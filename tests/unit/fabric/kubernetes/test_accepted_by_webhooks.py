# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Objects of valid files are accepted by Spiderpool's webhooks unchanged, and lint reports those that are not."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import ERROR, Finding
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.objects import (
    derived_names,
    object_components,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.lint.lint_run import lint
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan.fabric_plan import Plan
from tests.standins.spiderpool import Object, Settings

from . import webhooks

OPTIONS = {"registry": "registry.example", "images": {"test": "registry.example/tools/rdma:1.2"}}
FABRIC = "fabric: {name: ai, attachment: macvlan, provider: spiderpool, mtu: 4200}"
FOUR = 'subnet: "172.16.{n+10}.0/24", gateway: .254, pods: .20-.200, hosts: .201-.250'
SIX = 'subnet6: "fd00:{n}::/64", hosts6: "::100-::1ff"'
POD6 = 'pods6: "::1000-::1fff"'
NODES = 'nodes: {"ai-[1:2]": {profile: hgx, address: "10.1.16.[1:2]"}}'


def rails(*words: str) -> str:
    return 'rails: {count: 2, name: "gpu{n:02}", %s}' % ", ".join(words)


def profile(name: str = "hgx", netdev: str = "eth", attachment: str = "", count: int = 2) -> str:
    """A profile with as many ports; each PCI address and netdev has its number in it."""
    ports = ", ".join(
        'gpu%02d: {netdev: %s%02d, pci: "0000:%02x:00.0"}' % (n, netdev, n, n) for n in range(1, count + 1)
    )
    return "%s: {%sports: {%s}}" % (name, "attachment: %s, " % attachment if attachment else "", ports)


def file(*sections: str, fabric: str = FABRIC, profiles: t.Sequence[str] = (), nodes: str = NODES) -> bytes:
    parts = ["plugin: railyard.fabric.rails", fabric, *sections, "profiles:"]
    parts += ["  " + each for each in profiles or [profile()]]
    return "\n".join([*parts, nodes, ""]).encode()


def planned(raw: bytes) -> Plan:
    outcome = lint(raw)
    assert outcome.plan, [each.text() for each in outcome.errors]
    return outcome.plan


def errors(raw: bytes) -> list[Finding]:
    return [each for each in lint(raw).findings if each.severity == ERROR]


def taken_up(plan: Plan) -> list[Object]:
    """The plan's objects, which webhooks with the plan's own values take and leave as they are."""
    document = plan.document()
    things = list(object_components.objects(document, OPTIONS))
    values = object_components.values(document, OPTIONS)
    assert webhooks.problems(things, Settings.of(values["spiderpool"])) == []
    return things


def spec_of(things: t.Iterable[Object], kind: str, name: str) -> Object:
    (found,) = [each["spec"] for each in things if (each["kind"], each["metadata"]["name"]) == (kind, name)]
    return t.cast(Object, found)


@pytest.mark.parametrize(
    ("taken", "ips"),
    [
        ("switches: .5-.9, routers: .1-.4", ["172.16.11.1-172.16.11.9"]),
        ("b: .9-.9, a: .1, c: .3-.4", ["172.16.11.1", "172.16.11.3-172.16.11.4", "172.16.11.9"]),
        ("a: .7-.7", ["172.16.11.7"]),
    ],
)
def test_taken_ranges_are_as_the_webhook_leaves_them(taken: str, ips: list[str]) -> None:
    things = taken_up(planned(file(rails(FOUR, "taken: {%s}" % taken))))
    assert spec_of(things, "SpiderReservedIP", "ai-gpu01-taken")["ips"] == ips


@pytest.mark.parametrize(
    ("words", "versions"),
    [
        ((FOUR, SIX), {4}),
        ((SIX, POD6, 'subnet: "172.16.{n+10}.0/24", hosts: .201-.250'), {6}),
        ((FOUR, SIX, POD6), {4, 6}),
        ((SIX, 'subnet: "172.16.{n+10}.0/24", hosts: .201-.250'), set()),
    ],
)
def test_only_families_with_pools_have_taken_addresses(words: tuple[str, ...], versions: set[int]) -> None:
    plan = planned(file(rails(*words, 'taken: {a: .1-.4, b: "::1-::f"}')))
    things = taken_up(plan)
    assert {each["spec"]["ipVersion"] for each in things if each["kind"] == "SpiderReservedIP"} == versions
    ipam = object_components.values(plan.document(), OPTIONS)["spiderpool"]["ipam"]
    # with both disabled, the chart's first pod gets no rights and the installation fails
    assert {4 * ipam["enableIPv4"], 6 * ipam["enableIPv6"]} - {0} == (versions or {4})


LONG = "fabric: {name: customer-a-training-cluster-east-2026, attachment: macvlan, provider: spiderpool, mtu: 4200}"


def test_groups_are_no_longer_than_a_label() -> None:
    names = 'names: {network: "{rail}-{profile}", resource: "{rail}_{profile}"}'
    profiles = [profile("hgx-h200-sxm-8way-rev-b", "eth"), profile("hgx-b200-sxm-8way-rev-b", "ens")]
    nodes = "nodes: {ai-1: {profile: hgx-h200-sxm-8way-rev-b}, ai-2: {profile: hgx-b200-sxm-8way-rev-b}}"
    things = taken_up(planned(file(rails(FOUR), names, fabric=LONG, profiles=profiles, nodes=nodes)))
    groups: dict[str, list[str]] = {}
    for each in things:
        for group in (each["metadata"].get("annotations") or {}).values():
            groups.setdefault(group, []).append(each["metadata"]["name"])
    assert max(map(len, groups)) == 63
    # all rails of two profiles, and each of their two rails alone
    assert sorted(len(members) for members in groups.values()) == [1, 1, 1, 1, 2, 2]


def test_a_copy_with_another_networks_name_is_reported() -> None:
    rails_of = "rails: {a: {%s}, a-1x1: {%s}}" % tuple(FOUR.replace("{n+10}", str(n)) for n in (11, 12))
    ports = "profiles: {hgx: {ports: {a: {netdev: eth1}, a-1x1: {netdev: eth2}}}}"
    raw = "plugin: railyard.fabric.rails\n%s\n%s\n%s\n%s" % (FABRIC, rails_of, ports, NODES)
    assert errors((raw + '\nnames: {network: "{rail}-net"}\n').encode()) == []
    (found,) = errors((raw + '\nnames: {network: "{rail}"}\n').encode())
    assert (found.code, found.place) == ("RY807", "names.network")
    assert "SpiderMultusConfig a-1x1" in found.message


@pytest.mark.parametrize(
    ("pool", "rail", "nodes", "codes"),
    [
        ("{rail}-{node}", "a-b", ("n", "b-n"), ["RY807"]),
        ("{rail}-{node}", "a-b", ("n", "c-n"), []),
        ("{node}-{rail}", "b-a", ("n", "n-b"), ["RY807"]),
        ("{rail}{i}", "a1", ("n1", "n11"), ["RY807"]),
        ("{rail}.{i}", "a1", ("n1", "n11"), []),
        ("{rail}-{i}", "a1", ("n1", "n11"), []),
    ],
)
def test_pools_of_other_nodes_on_other_rails_with_one_name_are_reported(
    pool: str, rail: str, nodes: tuple[str, str], codes: list[str]
) -> None:
    """Beside the rail ``a``: {rail}-{node} is a-b-n for the rail a on the node b-n, and for the rail a-b on n."""
    sections = [
        "addresses: {mode: prefix, node_prefix: 27, supernet: 172.16.0.0/12, rail_prefix: 16}",
        "rails: {a: {}, %s: {}}" % rail,
        'names: {pool: "%s"}' % pool,
        "profiles: {hgx: {ports: {a: {netdev: eth1}, %s: {netdev: eth2}}}}" % rail,
        "nodes: {%s}"
        % ", ".join("%s: {profile: hgx, index: %d}" % (node, 10 * at + 1) for at, node in enumerate(nodes)),
    ]
    raw = "\n".join(["plugin: railyard.fabric.rails", FABRIC, *sections, ""]).encode()
    found = errors(raw)
    assert [each.code for each in found if each.code != "RY203"] == codes, [each.text() for each in found]


def test_many_taken_addresses_are_reported_with_spiderpool_alone() -> None:
    large = 'taken: {a: "::2:0:0-::2:ffff:ffff", b: "::3:0:0-::3:ffff:ffff"}'
    (found,) = errors(file(rails(SIX, POD6, large)))
    assert (found.code, found.place) == ("RY821", "rails.taken.a")
    other = "fabric: {name: ai, attachment: macvlan, provider: network-operator, mtu: 4200, pods_per_node: 4}"
    begins_first = SIX.replace("::100-::1ff", "::2000-::20ff"), 'pods6: "::1-::fff"', large
    assert errors(file(rails(*begins_first), fabric=other)) == []
    # each rail's few, and together too many
    few = 'taken: {a: "::2:0000-::b:ffff"}'
    assert [each.code for each in errors(file(rails(SIX, POD6, few)))] == ["RY821"]


def test_lint_reports_what_the_renderer_refuses() -> None:
    nodes = "nodes: {ai-1: {profile: hgx}, ai-2: {profile: dgx}}"
    both = [profile(), profile("dgx", attachment="ipvlan")]
    (found,) = errors(file(rails(FOUR), profiles=both, nodes=nodes))
    assert (found.code, found.place) == ("RY820", "profiles.hgx.ports.gpu01")
    assert "eth01 is a netdev of the resource gpu01_macvlan" in found.message
    # a node with ports of its own does not represent the others of its profile
    first = "ai-1: {profile: dgx, ports: {gpu02: null}}, ai-2: {profile: hgx, ports: {gpu01: null}}"
    rest = "nodes: {%s, ai-3: {profile: dgx}, ai-4: {profile: hgx}}" % first
    assert [each.code for each in errors(file(rails(FOUR), profiles=both, nodes=rest))] == ["RY820"]
    apart = [profile(), profile("dgx", "ens", attachment="ipvlan")]
    taken_up(planned(file(rails(FOUR), profiles=apart, nodes=nodes)))


@pytest.mark.parametrize(
    ("words", "codes"), [("node_prefix6: 80, gateway6: last", ["RY820"]), ("node_prefix6: 80", [])]
)
def test_addresses_that_nv_ipam_cannot_count_are_reported(words: str, codes: list[str]) -> None:
    operator = "fabric: {name: ai, attachment: macvlan, provider: network-operator, mtu: 4200}"
    mode = "addresses: {mode: prefix, supernet6: 'fd00::/32', rail_prefix6: 64, %s}" % words
    raw = file(mode, "rails: {gpu01: {}, gpu02: {}}", fabric=operator)
    found = errors(raw)
    assert [(each.code, each.place) for each in found] == [(code, "addresses.node_prefix6") for code in codes]


@pytest.mark.parametrize("provider", ["spiderpool", "network-operator", "cni"])
def test_names_keep_to_the_limits_of_what_others_make_of_them(provider: str) -> None:
    """With names as long as each may be, all that is derived fits; one more, and lint reports it."""
    fabric = "fabric: {name: %s, attachment: sriov, provider: %s, mtu: 4200, vfs: {count: 4}, pods_per_node: 4}"
    prefix = {"spiderpool": "spidernet.io", "network-operator": "nvidia.com", "cni": "rdma"}[provider]
    mode = "addresses: {mode: prefix, node_prefix: 27, supernet: 172.16.0.0/12, rail_prefix: 16}"
    longest = derived_names.SOCKET.limit - len("%s/%s_.sock" % (derived_names.SOCKETS, prefix))

    def with_resource(size: int) -> bytes:
        names = 'names: {resource: "%s{rail}", network: "%s{rail}"}' % ("r" * (size - 5), "n" * 58)
        long = fabric % ("f" * 40, provider)
        return file(mode, "rails: {gpu01: {}, gpu02: {}}", names, fabric=long, profiles=[profile()])

    plan = planned(with_resource(min(longest, 63)))
    for made in object_components.objects(plan.document(), OPTIONS):
        assert list(derived_names.too_long(derived_names.of_object(made))) == []
    if longest < 63:
        (found,) = errors(with_resource(longest + 1))
        assert (found.code, found.place) == ("RY822", "names.resource")


def test_the_documentation_has_every_limit() -> None:
    page = (Path(__file__).resolve().parents[4] / "docs" / "kubernetes-objects.md").read_text(encoding="utf-8")
    for each in derived_names.TABLE:
        assert "| %s | %s | %s | %d |" % each in page
