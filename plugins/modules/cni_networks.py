#!/usr/bin/python
# Copyright (c) 2026, Railyard contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: cni_networks
short_description: Configure the CNI networks of a node, and install their plugins
version_added: 0.2.0
description:
  - Writes the configurations that Multus uses for NetworkAttachmentDefinitions with an empty C(spec), one file per
    network, C(railyard-NETWORK.conflist). Files of an earlier run for other networks are removed; all other files stay.
  - An existing file at the path of a network is refused, unless this module wrote it or its content is as planned.
  - Installs C(railyard-rail), the plugin that configures ARP settings and the rail's routing table in a pod, and, from
    O(source), plugins of the networks that are missing on the node. An installed plugin is never replaced, unless this
    module installed it and it was not changed since.
  - Before anything is written, all problems are reported at once - a plugin that is missing or supports another version
    of the CNI specification, a netdev that is missing or has a smaller MTU, another file with a network of the same
    name, or a file of another program at the path of a network.
  - Running pods are not changed.
author:
  - Railyard contributors (@railyard)
extends_documentation_fragment:
  - railyard.fabric.node
  - railyard.fabric.node.management
options:
  networks:
    description:
      - CNI configurations with their chains of plugins. M(railyard.fabric.rail_host) and the role C(cni) derive them
        from the plan.
      - An empty list removes those of an earlier run.
    type: list
    elements: dict
    default: []
  directory:
    description:
      - Multus's C(confDir). If omitted, the value in its configuration on the node, else C(/etc/cni/multus/net.d).
    type: path
  plugin_directory:
    description:
      - The plugin directory of the node's runtime. If omitted, the directory of K3s on K3s, or the value in Multus's
        configuration, else C(/opt/cni/bin), which kubeadm and RKE2 use.
    type: path
  source:
    description:
      - Directories on the node, such as a package's C(/usr/lib/cni), or tar archives in the layout of the CNI project's
        releases. Missing plugins are copied from the first that exists. If omitted, only C(railyard-rail) is installed.
    type: list
    elements: path
    default: []
  checksum:
    description: The SHA-256 that an archive in O(source) must have.
    type: str
  state:
    description:
      - V(absent) removes the files of all runs, C(railyard-rail), and plugins that a run installed. Pods that still
        have one of these networks should be deleted before.
      - V(gathered) only reads.
    type: str
    choices: [present, absent, gathered]
    default: present
notes:
  - Assigned addresses are stored under C(/run/railyard/cni) and are free again after a reboot.
seealso:
  - module: railyard.fabric.rail_ports
  - module: railyard.fabric.sriov_vfs
"""

EXAMPLES = r"""
- name: Configure the planned networks
  railyard.fabric.rail_host:
    layers: [cni]

- name: Configure networks of your own, with the plugins of Debian's package
  railyard.fabric.cni_networks:
    networks: "{{ networks }}"
    source: [/usr/lib/cni, /usr/libexec/cni]

- name: Configure networks of your own, with plugins from a released archive
  railyard.fabric.cni_networks:
    networks: "{{ networks }}"
    source: [/var/cache/railyard/cni-plugins.tgz]
    checksum: "{{ cni_checksum }}"

- name: Remove the node's networks
  railyard.fabric.cni_networks:
    state: absent
"""

RETURN = r"""
changes:
  description: What was changed, or in check mode would be.
  returned: always
  type: list
  elements: dict
  sample:
    - subject: /etc/cni/multus/net.d/railyard-gpu01-macvlan.conflist
      attribute: network
      before: null
      after: {cniVersion: 1.0.0, name: gpu01-macvlan, plugins: [{type: macvlan, master: enp11s0f0np0}]}
missing:
  description: The missing plugins that a package of the distribution has.
  returned: success
  type: list
  elements: str
  version_added: 0.2.0
  sample: [macvlan]
gathered:
  description: The state after.
  returned: success
  type: dict
  contains:
    directory:
      description: The directory of the networks' files.
      type: str
      sample: /etc/cni/multus/net.d
    plugin_directory:
      description: The directory of the plugins.
      type: str
      sample: /opt/cni/bin
    networks:
      description: The configured networks, from their files.
      type: list
      elements: dict
      sample: [{cniVersion: 1.0.0, name: gpu01-macvlan, plugins: [{type: macvlan, master: enp11s0f0np0}]}]
    plugins:
      description:
        - The plugins that O(networks) name. C(path) is null if the plugin is missing; C(source) is then the source that
          has it. C(ours) is whether this module installed it, C(versions) are the versions of the CNI specification
          that it supports.
      type: list
      elements: dict
      sample:
        - {name: macvlan, path: /opt/cni/bin/macvlan, source: null, ours: false, versions: ["0.4.0", "1.0.0"]}
errors:
  description: The errors, each with C(place), C(message) and C(remedy).
  returned: failure
  type: list
  elements: dict
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.railyard.fabric.plugins.module_utils._node.cni.node_networks import LAYER
from ansible_collections.railyard.fabric.plugins.module_utils._node.core import module_runner


def main() -> None:
    module = AnsibleModule(LAYER.spec, required_if=LAYER.required_if, supports_check_mode=True)
    module_runner.run(module, LAYER.build)


if __name__ == "__main__":
    main()
