# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The small fabric file into which the examples of all rules are merged, and sections that several examples share."""

from __future__ import annotations

import re

BASE = """\
plugin: railyard.fabric.rails
fabric:
  name: ai
  attachment: macvlan
  provider: spiderpool
  mtu: 4200
rails:
  gpu01: {subnet: 172.16.11.0/24, gateway: .254, pods: .1-.200, hosts: .201-.253}
  gpu02: {subnet: 172.16.12.0/24, gateway: .254, pods: .1-.200, hosts: .201-.253}
profiles:
  hgx:
    ports:
      gpu01: {netdev: enp11s0f0np0, pci: "0000:0b:00.0", gpu: 0}
      gpu02: {netdev: enp12s0f0np0, pci: "0000:0c:00.0", gpu: 1}
nodes:
  ai-[1:2]: {profile: hgx, address: "10.1.16.[1:2]"}
"""

# A file of one node with one rail.
ONE_RAIL = """
fabric: {name: ai, attachment: macvlan, provider: spiderpool, mtu: 4200}
rails:
  gpu01: {subnet: 172.16.11.0/24, hosts: .201-.253}
profiles:
  hgx:
    ports:
      gpu01: {netdev: enp11s0f0np0}
nodes:
  ai-1: {profile: hgx}
"""

_SECTIONS = "^(fabric|addresses|units|rails|profiles|groups|nodes|names|qos|health|lint):"


def fabric(more: str, mtu: int = 4200) -> str:
    """Return the fabric of :data:`BASE` with another MTU and further settings, each after a comma."""
    return "fabric: {name: ai, attachment: macvlan, provider: spiderpool, mtu: %d%s}" % (mtu, more)


def node_prefixes(addresses: str, more: str = "") -> str:
    """Return a fabric with further settings whose nodes have a prefix on each rail."""
    prefixes = "addresses: {mode: prefix, supernet: 172.16.0.0/12, rail_prefix: 16, %s}" % addresses
    return "%s\n%s\nrails: {gpu01: {}, gpu02: {}}" % (fabric(more), prefixes)


def rails(first: str) -> str:
    """Return the rails of :data:`BASE`, the first of them with these settings."""
    return (
        "rails:\n  gpu01: {%s}\n"
        "  gpu02: {subnet: 172.16.12.0/24, gateway: .254, pods: .1-.200, hosts: .201-.253}\n" % first
    )


RAILS = rails("subnet: 172.16.11.0/24, gateway: .254, pods: .1-.200, hosts: .201-.253")


NODES = 'nodes:\n  ai-[1:2]: {profile: hgx, address: "10.1.16.[1:2]"}\n'


def ports(first: str, second: str) -> str:
    """Return a profile with two ports, each as a line of YAML."""
    return "profiles:\n  hgx:\n    ports:\n      %s\n      %s\n" % (first, second)


PORTS = ports(
    'gpu01: {netdev: enp11s0f0np0, pci: "0000:0b:00.0"}', 'gpu02: {netdev: enp12s0f0np0, pci: "0000:0c:00.0"}'
)
RDMA_PORTS = ports(
    'gpu01: {netdev: enp11s0f0np0, pci: "0000:0b:00.0", rdma: mlx5_gpu01}',
    'gpu02: {netdev: enp12s0f0np0, pci: "0000:0c:00.0", rdma: mlx5_gpu02}',
)


def profile(settings: str) -> str:
    """Return a profile with these settings, a line of YAML, and two ports."""
    return PORTS.replace("  hgx:\n", "  hgx:\n    %s\n" % settings)


def whole(example: str) -> str:
    """Return a complete file: the sections of the example replace those of :data:`BASE`, unless it has ``plugin:``."""
    return "".join(all_sections(example).values())


def all_sections(example: str) -> dict[str, str]:
    """Return the sections of :func:`whole`: top-level key -> its lines."""
    ours = _sections(example)
    if re.search("^plugin:", example, re.MULTILINE) or not re.search(_SECTIONS, example, re.MULTILINE):
        return ours
    return {**_sections(BASE), **ours}


def _sections(text: str) -> dict[str, str]:
    """Return top-level key -> its lines. Lines before the first key belong to that key."""
    found: dict[str, str] = {}
    name = ""
    for line in text.splitlines(True):
        key = re.match(r"([A-Za-z_]+):", line)
        if key:
            before = found.pop("", "")
            name = key.group(1)
            found[name] = found.get(name, "") + before
        found[name] = found.get(name, "") + line
    return found
