# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""One mistake on many rails is one finding, and its remedy shows what to write."""

from __future__ import annotations

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings import example_file
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import Finding
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.lint.lint_run import lint

_RAILS = 'rails: {count: 24, name: "gpu{n:02}", subnet: "172.16.{n+10}.0/24", hosts: .201-.250}\n'


def found(piece: str) -> list[Finding]:
    return lint(example_file.whole(piece + "\n").encode()).findings


def ports(words: str) -> str:
    return "profiles:\n  hgx:\n    ports:\n" + "".join(
        "      gpu%02d: {%s}\n" % (n, words.format(n=n, gpu=n % 8)) for n in range(1, 25)
    )


@pytest.mark.parametrize(
    ("words", "code", "place", "part"),
    [
        (
            "netdev: net{n:02}, rdma: hbl_gpu",
            "RY406",
            "profiles.hgx.ports.gpu02.rdma",
            "hbl_gpu is also the rdma of gpu01, and of 22 more rails",
        ),
        (
            "netdev: net{n:02}, port: 1",
            "RY418",
            "profiles.hgx.ports.gpu01.port",
            "does not identify a card (and 23 more ports)",
        ),
        (
            "netdev: net{n:02}, gpu: {gpu}",
            "RY901",
            "profiles.hgx.ports.gpu09.gpu",
            "GPU 1 is served by several rails: gpu01, gpu09, gpu17; also 7 other GPUs",
        ),
    ],
)
def test_a_mistake_on_24_rails_is_one_finding(words: str, code: str, place: str, part: str) -> None:
    (finding,) = found(_RAILS + ports(words) + "nodes: {ai-1: {profile: hgx}}")
    assert (finding.code, finding.place) == (code, place) and part in finding.message, finding.text()


def test_a_device_of_several_rails_has_a_way_out() -> None:
    """What the remedies say, done: the netdevs are named, and no RDMA device."""
    assert found(_RAILS + ports("netdev: net{n:02}") + "nodes: {ai-1: {profile: hgx}}") == []


def test_nodes_at_one_place_get_the_form_as_remedy_and_no_finding_about_leaf_ports() -> None:
    units = 'units: {"su[1:2]": {nodes: 36, leaf: "su{u}-r{n}", leaf_port: "swp{i}"}}\n'
    nodes = "nodes:\n  rack[1:2]-[01:18]: {profile: hgx, unit: su1%s}"
    texts = [each.text() for each in found(units + nodes % "")]
    assert len(texts) == 1 and "RY426" in texts[0] and 'such as place: "[1:36]"' in texts[0], texts
    assert found(units + nodes % ', place: "[1:36]"') == []


def test_a_containers_release_has_its_place() -> None:
    text = (
        "fabric: {name: ai, attachment: macvlan, provider: network-operator, mtu: 4200}\n"
        'profiles:\n  hgx:\n    driver: {kind: container, version: "24.10"}\n'
        "    ports: {gpu01: {netdev: nic1}, gpu02: {netdev: nic2}}"
    )
    (finding,) = [each for each in found(text) if each.code == "RY520"]
    assert "images.driver of kubernetes_options" in finding.remedy


def test_an_encrypted_file_is_reported_as_encrypted() -> None:
    (finding,) = found("$ANSIBLE_VAULT;1.1;AES256\n6231")
    assert (finding.code, finding.line) == ("RY119", 1) and "ansible-vault decrypt" in finding.remedy
