# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plans that cannot exist are findings, and remedies that propose a value are true."""

from __future__ import annotations

import re
import typing as t

import pytest
import yaml

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings import example_file
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import RULES
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.lint.lint_run import lint
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.report import slurm_files


def fabric(general: str, rails: str, ports: str, more: str = "") -> str:
    text = "plugin: railyard.fabric.rails\nfabric: {name: hpc, %s}\n%srails: {%s}\n"
    text += "profiles: {h200: {%s}}\nnodes:\n  gpu-[1:4]: {profile: h200}\n"
    return text % (general, more, rails, ports)


def found(text: str) -> list[tuple[str, str, str]]:
    return [(each.code, each.place, each.severity) for each in lint(text.encode()).findings]


PORTS = 'ports: {ib1: {netdev: a1, pci: "0000:18:00.0"}, ib2: {netdev: a2, pci: "0000:2a:00.0"}}'
RAILS = "ib1: {}, ib2: {}"


@pytest.mark.parametrize(
    ("general", "more", "codes"),
    [
        ("provider: none, link_layer: infiniband, mtu: 4092", "", []),
        ("provider: none, link_layer: infiniband, mtu: 9000", "", [("RY508", "fabric.mtu", "warning")]),
        ("provider: none, link_layer: infiniband, mtu: 65520, infiniband: {ipoib_mode: connected}", "", ["RY543"]),
        ("provider: none, link_layer: infiniband, mtu: 4093, infiniband: {ipoib_mode: datagram}", "", ["RY508"]),
        (
            "provider: none, link_layer: infiniband, mtu: 4092",
            "addresses: {mode: link, supernet: 172.20.0.0/16, rail_prefix: 24}\n",
            [("RY546", "addresses.mode", "error")],
        ),
        (
            "provider: none, link_layer: infiniband, mtu: 2044",
            'addresses: {mode: link, supernet6: "fd00::/32", rail_prefix6: 48}\n',
            ["RY546"],
        ),
        (
            "provider: network-operator, attachment: host-device, link_layer: infiniband, mtu: 4092",
            "addresses: {mode: link, supernet: 172.20.0.0/16, rail_prefix: 24}\n",
            ["RY547"],
        ),
        (
            "provider: none, link_layer: ethernet, mtu: 9000",
            "addresses: {mode: link, supernet: 172.20.0.0/16, rail_prefix: 24}\n",
            [],
        ),
    ],
)
def test_infiniband_has_no_links_and_limits_the_mtu(general: str, more: str, codes: list[t.Any]) -> None:
    got = found(fabric(general, RAILS, PORTS, more))
    assert [one if isinstance(want, tuple) else one[0] for one, want in zip(got, codes)] == codes == codes[: len(got)]


@pytest.mark.parametrize(
    ("gpus", "more", "code"),
    [
        ((1, 2), "", ["RY908"]),
        ((0, 1), "", []),
        ((4, 5), "", []),
        ((2, 1), "", ["RY908"]),
        ((1, 2), "gpus: {1: '0000:19:00.0', 2: '0000:2b:00.0'}, ", []),
        ((1, 2), "gpus: 2, ", ["RY903"]),
        ((1, None), "", []),
    ],
)
def test_gpus_are_counted_from_0(gpus: tuple[int | None, ...], more: str, code: list[str]) -> None:
    ports = ", ".join(
        "ib%d: {netdev: a%d%s}" % (at, at, "" if gpu is None else ", gpu: %d" % gpu) for at, gpu in enumerate(gpus, 1)
    )
    rails = "ib1: {subnet: 10.1.0.0/24, hosts: .1-.9}, ib2: {subnet: 10.2.0.0/24, hosts: .1-.9}"
    assert (
        sorted({each[0] for each in found(fabric("provider: none, mtu: 4200", rails, more + "ports: {%s}" % ports))})
        == code
    )


@pytest.mark.parametrize(
    ("key", "value", "rail"),
    [("netdev", "ib1", "ib1"), ("netdev", "eth0", "eth0"), ("netdev", "eth0", "gpu01"), ("rdma", "mlx5_0", "0")],
)
def test_a_proposed_name_is_not_the_refused_one(key: str, value: str, rail: str) -> None:
    general = "provider: none, link_layer: infiniband, mtu: 4092"
    keys = {"netdev": "a1", "pci": "0000:18:00.0", key: value}

    def text(keys: dict[str, str]) -> str:
        return fabric(
            general, '"%s": {}' % rail, "ports: {'%s': %s}" % (rail, yaml.safe_dump(keys, default_flow_style=True))
        )

    (finding,) = [each for each in lint(text(keys).encode()).findings if each.place.endswith(key)]
    proposed = finding.remedy.rpartition("such as ")[2]
    assert proposed != value
    keys[key] = proposed
    assert [each.text() for each in lint(text(keys).encode()).findings if each.place.endswith(key)] == []


def test_a_guess_is_a_question() -> None:
    text = fabric(
        "provider: none, mtu: 4200, cni: cilium",
        "ib1: {subnet: 10.1.0.0/24, hosts: .1-.9}",
        "ports: {ib1: {netdev: a1}}",
    )
    (finding,) = lint(text.encode()).findings
    assert finding.code == "RY110" and finding.remedy == "if you mean pci, write that; otherwise remove it"


@pytest.mark.parametrize("nic", ["efa2", "mlx6", "xyz"])
def test_an_unknown_family_of_nics_can_be_left_out(nic: str) -> None:
    text = fabric(
        "provider: none, mtu: 4200",
        "ib1: {subnet: 10.1.0.0/24, hosts: .1-.9}",
        "nic: %s, ports: {ib1: {netdev: a1}}" % nic,
    )
    (finding,) = lint(text.encode()).findings
    assert finding.code == "RY114" and finding.remedy.endswith("write one of them, or remove nic")
    assert found(text.replace("nic: %s, " % nic, "")) == []


def test_the_model_of_gpus_is_their_type_in_slurm() -> None:
    text = fabric(
        "provider: none, mtu: 4200",
        "ib1: {subnet: 10.1.0.0/24, hosts: .1-.9}",
        "%sgpus: 1, ports: {ib1: {netdev: a1, gpu: 0}}",
    )
    for more, kind in (("", "h200"), ("gpu_model: h100, ", "h100")):
        plan = lint((text % more).encode()).plan
        assert plan and " Type=%s File=" % kind in slurm_files.gres(plan.document())
    assert [each[:2] for each in found(text % "gpu_model: 'H 100', ")] == [("RY112", "profiles.h200.gpu_model")]


# A value that a remedy proposes. An example in it comes before a description.
_VALUES = (
    r"if you mean ([^ ,]+), write that",
    r"such as ([A-Za-z0-9_.:/-]*[A-Za-z0-9])(?=$|[,;] | or )",
    r"(?:write|set it to|lower it to|use|raise it to) (?:a (?=/))?([A-Za-z0-9_.:/-]*[A-Za-z0-9])(?=$|[,;] | or | if )",
)
# Findings about a key, whose value is its new name: RY532 reports a key that another one replaces.
_KEYS = ("RY110", "RY428", "RY530", "RY962")
_OTHER = ("RY532",)


def _replaced(whole: t.Any, place: str, value: t.Any, key: bool = False) -> bool:
    """Set the single value at a place of a file, or the key of that place."""
    *path, last = [
        int(part[1:-1]) if part[0] == "[" else part for part in re.findall(r"\[\d+\]|[^.\[]+(?:\[\d+:\d+\])?", place)
    ]
    for part in path:
        if not isinstance(whole, (dict, list)) or (isinstance(whole, dict) and part not in whole):
            return False
        whole = whole[part]
    if key and isinstance(whole, dict) and last in whole:
        whole[value] = whole.pop(last)
        return True
    if not isinstance(whole, dict) or isinstance(whole.get(last, {}), (dict, list)):
        return False
    whole[last] = value
    return True


def _proposals() -> dict[str, tuple[str, str]]:
    """Return code -> place and value, for rules whose remedy of their example proposes one value."""
    proposals = {}
    for code, rule in RULES.items():
        for finding in lint(example_file.whole(rule.bad).encode("utf-8", "replace")).findings:
            given = next(filter(None, (re.search(each, finding.remedy) for each in _VALUES)), None)
            if given and finding.code == code and code not in _OTHER:
                proposals[code] = (finding.place, given.group(1))
    return proposals


PROPOSALS = _proposals()


@pytest.mark.parametrize("code", PROPOSALS)
def test_the_value_of_a_remedy_removes_its_finding(code: str) -> None:
    place, value = PROPOSALS[code]
    try:
        whole = yaml.load(example_file.whole(RULES[code].bad), yaml.BaseLoader)
    except yaml.YAMLError:
        return
    if not _replaced(whole, place, value, code in _KEYS):
        return
    after = [each for each in lint(yaml.safe_dump(whole).encode()).findings if (each.code, each.place) == (code, place)]
    assert [each.text() for each in after] == [], value


def test_most_remedies_with_a_value_are_tried() -> None:
    tried = 0
    for code, (place, value) in PROPOSALS.items():
        try:
            whole = yaml.load(example_file.whole(RULES[code].bad), yaml.BaseLoader)
        except yaml.YAMLError:
            continue
        tried += _replaced(whole, place, value, code in _KEYS)
    assert tried > 25


WIDE = """
plugin: railyard.fabric.rails
fabric: {name: east, attachment: macvlan, provider: agent, mtu: 4200, pods_per_node: 16}
%srails: {count: 2, name: "gpu{n:02}", %s}
profiles: {hgx: {ports: {gpu01: {netdev: rail01}, gpu02: {netdev: rail02}}}}
nodes:
  hgx-[1:32]: {profile: hgx}
"""
SUPERNET = "addresses: {supernet: 172.20.0.0/16, rail_prefix: %d}\n"


@pytest.mark.parametrize(
    ("rails", "code", "remedy"),
    [
        (
            'subnet: "172.16.{n+10}.0/24", pods: .1-.200, hosts: .201-.253',
            "RY324",
            "use a /22 for each rail, with supernet",
        ),
        ('subnet: "172.20.{n*4}.0/22", pods: .1-.200', "RY115", "write addresses.supernet with rail_prefix"),
        ('subnet: "172.20.{n}.0/22", pods: .1-.200', "RY303", "write addresses.supernet, with rail_prefix: 22"),
        ('subnet: "172.16.{n+10}.0/24", pods: .1-.512', "RY301", "+1-+512"),
    ],
)
def test_wide_ranges_are_proposed_with_a_supernet(rails: str, code: str, remedy: str) -> None:
    remedies = {each.code: each.remedy for each in lint((WIDE % ("", rails)).encode()).findings}
    assert remedy in remedies[code]


@pytest.mark.parametrize("pods", [256, 4096])
def test_no_network_is_proposed_that_rails_cannot_have(pods: int) -> None:
    text = WIDE.replace("pods_per_node: 16", "pods_per_node: %d, max_nodes: 65536" % pods)
    rails = 'subnet: "172.16.{n+10}.0/24", pods: .1-.200, hosts: .201-.253'
    remedies = {each.code: each.remedy for each in lint((text % ("", rails)).encode()).findings}
    assert remedies["RY324"] == "lower pods_per_node"


@pytest.mark.parametrize(
    ("prefix", "ranges", "first"),
    [
        (22, "pods: .0.1-.2.254, hosts: .3.1-.3.253", ("172.20.0.1", "172.20.4.1")),
        (20, "pods: .0.1-.7.254, hosts: .8.1-.15.254", ("172.20.0.1", "172.20.16.1")),
        (22, "pods: +1-+700, hosts: +701-+900", ("172.20.0.1", "172.20.4.1")),
    ],
)
def test_wide_ranges_are_the_same_part_of_each_rail(prefix: int, ranges: str, first: tuple[str, str]) -> None:
    outcome = lint((WIDE % (SUPERNET % prefix, ranges)).encode())
    assert outcome.plan, [each.text() for each in outcome.findings]
    rails = outcome.plan.document()["nodes"][0]["agent"]["rails"]
    assert tuple(rail["slots"][0]["address"].partition("/")[0] for rail in rails) == first
