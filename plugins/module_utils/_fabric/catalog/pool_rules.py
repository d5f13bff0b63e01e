# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""RY3xx: rails without addresses for ports or for pods."""

from __future__ import annotations

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import (
    WARNING,
    rule,
)

_GOOD = """\
rails:
  gpu01: {subnet: 172.16.11.0/24, gateway: .254, pods: .1-.200, hosts: .201-.253}
  gpu02: {subnet: 172.16.12.0/24, gateway: .254, pods: .1-.200, hosts: .201-.253}
"""

_PODS = "fabric: {name: ai, attachment: macvlan, provider: spiderpool, mtu: 4200, pods_per_node: 8}\n"

NO_HOSTS = rule(
    "RY314 no-host-addresses: Rail without host addresses, which cannot be verified",
    _GOOD.replace(", hosts: .201-.253", "", 1),
    _GOOD,
    WARNING,
)

NO_PODS = rule(
    "RY329 no-pod-addresses: Rail without pod addresses although pods need them",
    _PODS + _GOOD.replace(" pods: .1-.200,", "", 1),
    _PODS + _GOOD,
)
