#!/usr/bin/python
# Copyright (c) 2026, Railyard contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later


# The documentation of an action plugin, plugins/action/kube_software.py, which does the work on the control node.

from __future__ import annotations

DOCUMENTATION = r"""
module: kube_software
short_description: Install the software that a fabric needs in a cluster, from archives with known checksums
version_added: 0.2.0
description:
  - Finds the archive of a chart or the manifest of a release, downloads it from a URL, and verifies its checksum before
    using it.
  - For a chart, returns the values of the plan, overridden by the user's and checked against the keys that the chart
    reads, and creates the chart's CustomResourceDefinitions and the namespace, so that the module
    C(kubernetes.core.helm) can install the release that RV(release) describes.
  - For a manifest (Calico, Flannel, Multus), applies its objects by server-side apply under the field manager
    C(railyard), with O(settings), and deletes objects of the last release that this release does not have.
  - Versions and checksums are in one place, C(plugins/module_utils/_fabric/kubernetes/view/software_versions.py).
author:
  - Railyard contributors (@railyard)
extends_documentation_fragment:
  - railyard.fabric.kube
  - railyard.fabric.controller.fabric_file
  - railyard.fabric.kube.plan
attributes:
  check_mode:
    description:
      - Nothing is written to the cluster; differences are sent to the server as a dry run. Archives are downloaded,
        because the changes cannot be predicted without them.
    support: full
  diff_mode:
    description: Shows the objects that are created or deleted and the fields that differ.
    support: full
options:
  name:
    description: The software. Required unless O(state=gathered).
    type: str
    choices: [calico, flannel, multus, sriov-operator, spiderpool, network-operator, gpu-operator]
  state:
    description:
      - With V(present), the cluster has the manifest's objects, or everything that a chart's release requires.
      - With V(started), the object of the plan by which an operator defines more kinds is applied, and these are waited
        for; NVIDIA's network operator defines nv-ipam's after the NicClusterPolicy. Others need no start.
      - With V(absent), a manifest's objects are deleted, but not its CustomResourceDefinitions; a chart's release may
        be removed then. It is refused while objects of a fabric exist whose finalizers only this software removes.
      - With V(purged), the CustomResourceDefinitions that this module created are deleted, with all objects of their
        kinds. It is refused while one of these has a finalizer, because it would never be removed.
      - With V(gathered), the cluster is not contacted, and RV(needed) lists what the plan needs.
    type: str
    choices: [present, started, absent, purged, gathered]
    default: present
  method:
    description: How Calico is installed, V(manifests) or V(operator). Empty for the first.
    type: str
    default: ""
  source:
    description:
      - Where the file is. A directory of the control node or a URL (V(https://), or V(oci://) for a chart) that
        contains it under upstream's own name, or the file itself, or a directory with an unpacked chart.
    type: str
    default: ""
  version:
    description: Another release than the pinned one. Its checksums are required.
    type: str
    default: ""
  checksums:
    description: File name and SHA-256, if the file is not the pinned one or its checksum is not known.
    type: dict
    default: {}
  settings:
    description:
      - What to change in a manifest. Charts have no settings.
      - C(interface), the netdev between nodes, which must not be a rail port; C(autodetection), how Calico finds a
        node's address, as Calico spells it; C(mtu) of pods in bytes; C(pod_cidr); C(encapsulation);
        C(bin_dir) and C(conf_dir) of the kubelet's CNI.
      - Flannel has all but C(autodetection), Multus the two directories.
    type: dict
    default: {}
  values:
    description: Values of a chart, which override those of the plan.
    type: dict
    default: {}
  namespace:
    description: The namespace of a chart's release. If empty, that of the plan's options.
    type: str
    default: ""
  helm:
    description: The path of Helm 3 on the control node. If empty, helm on the PATH.
    type: str
    default: ""
  force:
    description: Take over fields that other managers own, such as those of a manual installation.
    type: bool
    default: false
  consent:
    description: The name again, as consent to remove Calico or Flannel, with which all pods lose their network.
    type: str
    default: ""
  timeout:
    description: Seconds for the objects of each kind to disappear, or with V(started) for the kinds to be served.
    type: int
    default: 120
notes:
  - Fetched files are kept under C(~/.cache/railyard/archives) (E(XDG_CACHE_HOME)) by their checksum.
seealso:
  - module: railyard.fabric.kube_objects
"""

EXAMPLES = r"""
- name: Install Flannel on the interface between nodes
  railyard.fabric.kube_software:
    name: flannel
    source: /srv/archives
    settings:
      interface: eth0
      pod_cidr: 10.244.0.0/16

- name: Prepare the release of Spiderpool
  railyard.fabric.kube_software:
    name: spiderpool
    source: https://archives.example.org/charts
    values:
      spiderpoolAgent:
        tuneSysctlConfig: false
  register: spiderpool
"""

RETURN = r"""
changes:
  description: What was written, or in check mode would be, one item per field or object.
  returned: unless state is gathered
  type: list
  elements: dict
release:
  description: What Helm must install or remove. Empty for a manifest.
  returned: unless state is gathered
  type: dict
  contains:
    name:
      description: The name of the release, which is the chart's.
      type: str
    namespace:
      description: Its namespace.
      type: str
    chart:
      description: The archive on the control node.
      type: str
    version:
      description: The chart's version.
      type: str
    values:
      description: Those of the registry, the plan and the user.
      type: dict
    helm:
      description: Helm's path.
      type: str
    again:
      description: Whether the last action on the release failed according to Helm, so that it must be repeated.
      type: bool
    environment:
      description: Environment variables that make Helm's module use the same cluster.
      type: dict
fabric:
  description: The name of the fabric.
  returned: when state is gathered
  type: str
kubernetes:
  description: Whether the fabric has a Kubernetes side. It has none with C(provider=none).
  returned: when state is gathered
  type: bool
needed:
  description: What the plan needs, in the order of installation.
  returned: when state is gathered
  type: list
  elements: str
  sample: [spiderpool]
versions:
  description: The pinned versions.
  returned: when state is gathered
  type: dict
summary:
  description: The result in one line.
  returned: always
  type: str
  sample: "multus v4.3.0: nothing differs"
"""
