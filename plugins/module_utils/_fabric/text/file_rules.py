# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""RY1xx: the file, its keys and the types of its values."""

from __future__ import annotations

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings import example_file
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import rule

# Examples without the mistake of a rule.
_FABRIC = """
fabric: {name: ai, attachment: macvlan, provider: spiderpool, mtu: 4200}
"""
_NODE = """
nodes:
  ai-1: {profile: hgx, address: 10.1.16.1}
"""

SYNTAX = rule(
    "RY101 invalid-yaml: Invalid YAML",
    """
rails:
  gpu01: {subnet: 172.16.11.0/24
nodes:
  ai-1: {profile: hgx}
""",
    example_file.ONE_RAIL,
)

TEXT = rule(
    "RY102 not-text: File that is not plain text",
    'fabric: {name: "ai\x07", attachment: macvlan, provider: spiderpool, mtu: 4200}',
    _FABRIC,
)

SIZE = rule(
    "RY103 too-large: File too large or nested too deep",
    "nodes: %s1%s" % ("[" * 50, "]" * 50),
    "nodes:\n  ai-[01:50]: {profile: hgx}",
)

EMPTY = rule(
    "RY104 empty-section: Empty file, or empty section that needs entries",
    """
nodes: {}
""",
    """
nodes:
  ai-[1:2]: {profile: hgx}
""",
)

DOCUMENTS = rule(
    "RY105 several-documents: More than one YAML document",
    """
nodes:
  ai-1: {profile: hgx}
---
nodes:
  ai-2: {profile: hgx}
""",
    """
nodes:
  ai-1: {profile: hgx}
  ai-2: {profile: hgx}
""",
)

DUPLICATE = rule(
    "RY106 duplicate-key: Duplicate key",
    """
nodes:
  ai-1: {profile: hgx, address: 10.1.16.1}
  ai-1: {profile: hgx, address: 10.1.16.2}
""",
    """
nodes:
  ai-1: {profile: hgx, address: 10.1.16.1}
  ai-2: {profile: hgx, address: 10.1.16.2}
""",
)

KEY = rule("RY107 invalid-key: Key that is not a single word", _NODE.replace("10.1.16.1", "{{ management }}"), _NODE)

TAG = rule("RY108 yaml-tag: Unsupported YAML tag", _NODE.replace("10.1.16.1", "!vault secret"), _NODE)

ALIAS = rule(
    "RY109 undefined-alias: Alias without an anchor",
    """
nodes:
  ai-1: {profile: hgx}
  ai-2: *same
""",
    """
nodes:
  ai-1: &same {profile: hgx}
  ai-2: *same
""",
)

UNKNOWN = rule(
    "RY110 unknown-key: Unknown key",
    """
rails:
  gpu01: {subnet: 172.16.11.0/24, gatway: .254, hosts: .201-.253}
  gpu02: {subnet: 172.16.12.0/24, gateway: .254, hosts: .201-.253}
""",
    """
rails:
  gpu01: {subnet: 172.16.11.0/24, gateway: .254, hosts: .201-.253}
  gpu02: {subnet: 172.16.12.0/24, gateway: .254, hosts: .201-.253}
""",
)

MISSING = rule("RY111 missing-key: Missing key", _FABRIC.replace("attachment: macvlan, ", ""), _FABRIC)

KIND = rule("RY112 wrong-type: Value of the wrong type", _FABRIC.replace("4200", "jumbo"), _FABRIC)

RANGE = rule("RY113 out-of-range: Number out of range", _FABRIC.replace("4200", "42000"), _FABRIC)

CHOICE = rule(
    "RY114 invalid-choice: Value that is not one of the choices", _FABRIC.replace("spiderpool", "spiderpod"), _FABRIC
)

TEMPLATE = rule(
    "RY115 invalid-template: Invalid template",
    """
rails: {count: 2, name: "gpu{i:02}", subnet: "172.16.{n+10}.0/24", hosts: .201-.253}
""",
    """
rails: {count: 2, name: "gpu{n:02}", subnet: "172.16.{n+10}.0/24", hosts: .201-.253}
""",
)

ENCRYPTED = rule(
    "RY119 encrypted-file: Encrypted file",
    """
$ANSIBLE_VAULT;1.1;AES256
62313365396662343061393464336163383764373764613633653634306231386433626436623361
""",
    _NODE,
    why="A fabric file contains no secrets, and lint, plan and reports read it without a password. Secrets belong in"
    " host_vars and group_vars beside it, where Ansible decrypts them.",
)
