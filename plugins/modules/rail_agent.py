#!/usr/bin/python
# Copyright (c) 2026, Railyard contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: rail_agent
short_description: Install and run the rail agent of a node
version_added: 0.2.0
description:
  - Installs the rail agent, C(railyard-agent.service), which attaches pods to the rails without a CNI plugin, an
    operator or an image. Its programs are packed from the sources of this collection.
  - Starts the service, and restarts it only if its program, its spec or its unit has changed. Running pods keep their
    interfaces.
  - Before anything is written, the module checks that Python's C(grpc), with which the agent talks to the kubelet, is
    installed, and that the container runtime supports CDI.
  - Refuses to change the device plugin to a DRA driver or back, or the name of the driver or of its node, while pods
    hold slots or have prepared claims by it. The kubelet could not end these pods. Drain the node first.
author:
  - Railyard contributors (@railyard)
extends_documentation_fragment:
  - railyard.fabric.node
options:
  spec:
    description:
      - The rails of the node and their slots, from the inventory plugin's C(railyard_node.agent). It is written to
        C(/etc/railyard/agent.json).
      - Required with O(state=present).
    type: dict
  runtime_check:
    description:
      - Whether to require containerd with CDI enabled. CDI is a setting of containerd 1.7, and enabled by default since
        2.0.
      - Set V(false) for another container runtime that supports CDI.
    type: bool
    default: true
  force:
    description:
      - Whether O(state=absent) removes the agent of a node whose slots are held. The pods keep their interfaces until
        they end. Their containers cannot be restarted.
    type: bool
    default: false
  state:
    description:
      - V(absent) stops the service and removes all its files. It is an error if pods hold slots or have prepared
        claims, unless O(force=true).
      - V(gathered) only reads.
    type: str
    choices: [present, absent, gathered]
    default: present
notes:
  - Requires systemd, and C(grpc) for the Python that runs this module (the package C(python3-grpcio)).
seealso:
  - module: railyard.fabric.rail_ports
  - module: railyard.fabric.cni_networks
"""

EXAMPLES = r"""
- name: Install and start the agent
  railyard.fabric.rail_agent:
    spec: "{{ railyard_node.agent }}"

- name: Install the agent on a node with CRI-O
  railyard.fabric.rail_agent:
    spec: "{{ railyard_node.agent }}"
    runtime_check: false

- name: Read which pods hold slots
  railyard.fabric.rail_agent:
    state: gathered
  register: agent

- name: Remove the agent from a drained node
  railyard.fabric.rail_agent:
    state: absent
"""

RETURN = r"""
missing:
  description: V(grpc) if the node's Python does not have this module, which is in a package of the distribution.
  returned: success, if O(state) is not V(absent)
  type: list
  elements: str
  sample: []
changes:
  description: What was changed, or in check mode would be.
  returned: always
  type: list
  elements: dict
  sample:
    - {subject: /usr/local/lib/railyard/agent.pyz, attribute: program, before: null, after: as packed, kind: file}
    - {subject: railyard-agent.service, attribute: service, before: inactive, after: started, kind: step}
gathered:
  description: The state after, or now in check mode.
  returned: success
  type: dict
  contains:
    spec:
      description: The spec on the node; null without one.
      type: dict
    service:
      description: Whether the service starts at boot, and whether it runs.
      type: dict
      sample: {enabled: true, active: true}
    runtime:
      description:
        - The node's containerd; null without one, and with O(state=absent).
        - C(cdi) is null if containerd's configuration cannot be read.
        - C(restart) is true if the configuration was changed after containerd started.
      type: dict
      sample:
        program: /usr/bin/containerd
        version: 1.7.24
        config: /etc/containerd/config.toml
        cdi: true
        cdi_dirs: [/etc/cdi, /var/run/cdi]
        restart: false
    slots:
      description: The held slots and their containers.
      type: list
      elements: dict
      sample: [{device: rails-0, namespace: default, pod: train-0, container: main}]
    claims:
      description: With DRA, the prepared ResourceClaims, their pods and their devices.
      type: list
      elements: dict
      sample:
        - namespace: default
          claim: train-0-rails-x7k2p
          pod: train-0
          devices: [rails-0]
          driver: railyard.fabric
          pool: node-1
errors:
  description: The errors, each with C(place), C(message) and C(remedy).
  returned: failure
  type: list
  elements: dict
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.railyard.fabric.plugins.module_utils._node.agent_service.installed_agent import LAYER
from ansible_collections.railyard.fabric.plugins.module_utils._node.core import module_runner


def main() -> None:
    module = AnsibleModule(LAYER.spec, required_if=LAYER.required_if, supports_check_mode=True)
    module_runner.run(module, LAYER.build)


if __name__ == "__main__":
    main()
