#!/usr/bin/python
# Copyright (c) 2026, Railyard contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# The documentation of an action plugin, plugins/action/fabric_import.py, which does the work on the control node.

from __future__ import annotations

DOCUMENTATION = r"""
module: fabric_import
short_description: Create a fabric file from the manifests of a cluster
version_added: 0.2.0
description:
  - Reads Kubernetes manifests of rails as they are found in the field, and writes an equivalent fabric file.
    Runs on the control node only and contacts no host.
  - Files may be YAML or JSON, or pages and scripts with manifests in fenced blocks, heredocs or indented text.
  - It reads Spiderpool's SpiderIPPool, SpiderMultusConfig, SpiderReservedIP, SpiderCoordinator and Helm values;
    the SR-IOV operator's SriovNetworkNodePolicy, SriovNetwork and SriovIBNetwork; the configuration of the RDMA shared
    device plugin and the SR-IOV device plugin; NetworkAttachmentDefinition; NVIDIA's NicClusterPolicy,
    NicConfigurationTemplate, MacvlanNetwork, HostDeviceNetwork, IPoIBNetwork, IPPool and CIDRPool; requests of pods;
    and lines of scripts that give ports their addresses.
  - Mistakes are corrected if the intent is certain. Everything that is corrected, inferred, not understood
    or not imported is a finding with its file, its line, its remedy and what was written. Findings that differ
    only in names and numbers are one finding. The findings' codes are in C(docs/import.md).
  - In the file a comment C(CHECK) marks what was inferred, and C(DECIDE) what no manifest contains.
author:
  - Railyard contributors (@railyard)
extends_documentation_fragment:
  - railyard.fabric.controller
  - railyard.fabric.controller.new_fabric
options:
  paths:
    description:
      - The files, or directories of files. Of a directory, all files are read that end as manifests, pages and scripts
        do.
    type: list
    elements: path
    required: true
  nodes:
    description:
      - The nodes, which manifests seldom name. A text or a list of names and ranges, such as V(ai-[01:16]), or a
        mapping as the C(nodes) of a fabric file, in which C(profile) is optional.
      - Without it, the nodes that pools name. Without these, the section is empty, which lint reports.
    type: raw
  name:
    description: The fabric's name. Without it, C(imported).
    type: str
  profile:
    description: The name of the profile.
    type: str
    default: server
  mtu:
    description:
      - What the switches of the rails carry, in bytes. Without it, what the manifests say; where they say nothing,
        1500, and 2044 for InfiniBand.
    type: int
  provider:
    description:
      - The provider of the fabric file, if the cluster is to have another one than its manifests.
      - With V(agent), the rail agent gives pods their rails. The addresses of pods stay, and their slots use them.
    type: str
    choices: [agent]
seealso:
  - module: railyard.fabric.fabric_findings
  - plugin: railyard.fabric.rails
    plugin_type: inventory
"""

EXAMPLES = r"""
- name: Make a fabric file of a directory of manifests
  railyard.fabric.fabric_import:
    paths: [manifests/]
    dest: inventories/prod/fabric.yml
    name: prod
    mtu: 4200
    nodes:
      "ai-[01:16]": {address: "10.1.16.[1:16]"}
  register: imported

- name: Show what was found
  ansible.builtin.debug:
    msg: "{{ imported.table }}"
"""

RETURN = r"""
text:
  description: The fabric file.
  returned: always
  type: str
dest:
  description: The path of the written file.
  returned: when O(dest) is given
  type: str
findings:
  description: What was corrected, inferred or not understood, in the order of files and lines.
  returned: always
  type: list
  elements: dict
  sample:
    - file: manifests/pools.yml
      line: 7
      column: 3
      place: spec.subnet
      code: IM301
      name: subnet-host-bits
      severity: warning
      message: "172.16.11.0/16 has host bits: the address is not the first of a /16"
      remedy: "write 172.16.11.0/24, in which the ranges and the gateway are; a /16 is 172.16.0.0/16"
      written: 172.16.11.0/24
      also: []
counts:
  description: The number of findings of each severity.
  returned: always
  type: dict
  sample: {error: 0, warning: 3}
table:
  description: The findings as a table, at most 120 characters wide.
  returned: always
  type: str
lint:
  description: Lint findings of the fabric file, one line each.
  returned: always
  type: list
  elements: str
summary:
  description: The result as one line.
  returned: always
  type: str
  sample: "8 manifests read, 8 rails made; to decide: 3 (DECIDE and CHECK in the file); findings: 0 errors, 9 warnings"
"""
