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
  - Reads Kubernetes manifests of rails, also wrong ones, and writes an equivalent fabric file.
    Runs on the control node only and contacts no host.
  - Files may be YAML or JSON, or pages and scripts with manifests in fenced blocks, heredocs or indented text.
  - It reads Spiderpool's SpiderIPPool, SpiderMultusConfig, SpiderReservedIP, SpiderCoordinator and Helm values;
    the SR-IOV operator's SriovNetworkNodePolicy, SriovNetwork and SriovIBNetwork; the configuration of the RDMA shared
    device plugin and the SR-IOV device plugin; NetworkAttachmentDefinition; NVIDIA's NicClusterPolicy,
    NicConfigurationTemplate, MacvlanNetwork, HostDeviceNetwork, IPoIBNetwork, IPPool and CIDRPool; Helm values of the
    Network Operator; requests of pods; and the interfaces of nodes, from nmstate, netplan, ifcfg files, keyfiles of
    NetworkManager and systemd-networkd.
  - Mistakes are corrected if the intent is certain. Each value that is corrected, inferred, not understood or not
    imported is a finding with file, line, remedy and the written value. Findings that differ only in names and numbers
    are one finding. The codes of findings are in C(docs/import.md).
  - In the file, a comment C(CHECK) marks inferred values, and C(DECIDE) values that the manifests do not contain.
author:
  - Railyard contributors (@railyard)
extends_documentation_fragment:
  - railyard.fabric.controller
  - railyard.fabric.controller.new_fabric
options:
  paths:
    description:
      - The files, or directories of files. In a directory, all files with the extension of a manifest, page or script,
        and files that configure interfaces, are read.
      - A file that configures interfaces belongs to the node whose name it or one of its folders has.
    type: list
    elements: path
    required: true
  nodes:
    description:
      - The nodes, which manifests seldom name. A text or a list of names and ranges, such as V(ai-[01:16]), or a
        mapping in the form of C(nodes) of a fabric file, in which C(profile) is optional.
      - If omitted, the nodes that pools name. If pools do not name nodes, the section is empty, which lint reports.
    type: raw
  name:
    description: The fabric's name. If omitted, C(imported).
    type: str
  profile:
    description: The name of the profile.
    type: str
    default: server
  mtu:
    description:
      - The MTU that the switches of the rails support, in bytes. If omitted, the value in the manifests, else 1500, and
        2044 for InfiniBand.
    type: int
  provider:
    description:
      - The provider of the fabric file, if it is not the provider of the manifests.
      - With V(agent), the rail agent attaches pods to the rails. Slots get a part of the pools' addresses that no pod
        has. For this, give the objects as the cluster has them, such as from C(kubectl get spiderippools -o yaml).
        Patches that exclude these addresses from the pools are written into a directory beside the one of O(dest),
        such as C(inventories/prod-exclude-slots).
    type: str
    choices: [agent]
seealso:
  - module: railyard.fabric.fabric_findings
  - plugin: railyard.fabric.rails
    plugin_type: inventory
"""

EXAMPLES = r"""
- name: Create a fabric file from a directory of manifests
  railyard.fabric.fabric_import:
    paths: [manifests/]
    dest: inventories/prod/fabric.yml
    name: prod
    mtu: 4200
    nodes:
      "ai-[01:16]": {address: "10.1.16.[1:16]"}
  register: imported

- name: Show the findings
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
  description: The findings about corrected, inferred and not understood values, in the order of files and lines.
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
patches:
  description: Patches that exclude the addresses of slots from the pools of other address managers.
  returned: always
  type: list
  elements: dict
  sample:
    - path: inventories/prod-exclude-slots/spiderippools-gpu1-net11.yml
      text: "spec: {excludeIPs: [172.16.11.105-172.16.11.200]}"
      command: kubectl patch spiderippools.spiderpool.spidernet.io gpu1-net11 --type merge
        --patch-file inventories/prod-exclude-slots/spiderippools-gpu1-net11.yml
summary:
  description: The result as one line.
  returned: always
  type: str
  sample: "8 manifests read, 8 rails made; to decide: 3 (DECIDE and CHECK in the file); findings: 0 errors, 9 warnings"
"""
