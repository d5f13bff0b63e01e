#!/usr/bin/python
# Copyright (c) 2026, Railyard contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later


# The documentation of an action plugin, plugins/action/kube_software.py, which does the work on the control node.

from __future__ import annotations

DOCUMENTATION = r"""
module: kube_software
short_description: What a fabric needs installed in a cluster, from archives that are held against their checksums
version_added: 0.2.0
description:
  - Finds the archive of a chart or the manifest of a release, fetches it where it is elsewhere, and holds it against
    its checksum before anything of it is used.
  - For a chart, gives the values that the plan decides with the user's over them, held against the keys that the chart
    reads, and brings the chart's CustomResourceDefinitions and the namespace, so that the module
    C(kubernetes.core.helm) can install the release that RV(release) describes.
  - For a manifest (Calico, Flannel, Multus), applies its objects by server-side apply under the field manager
    C(railyard), with what O(settings) say, and deletes what left it since the last release.
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
      - Nothing is written to the cluster; the server tries what differs as a dry run. Archives are fetched, because
        nothing could be said without them.
    support: full
  diff_mode:
    description: Shows the objects that come and go and the fields that differ.
    support: full
options:
  name:
    description: What is meant. Required but with O(state=gathered).
    type: str
    choices: [calico, flannel, multus, sriov-operator, spiderpool, network-operator, gpu-operator]
  state:
    description:
      - With V(present), the cluster has the manifest's objects, or all that a chart's release needs beforehand.
      - With V(started), an operator gets the object of the plan by which it brings further kinds, and these are waited
        for; NVIDIA's network operator brings nv-ipam's by the NicClusterPolicy. Others need no start.
      - With V(absent), a manifest's objects go, but for its CustomResourceDefinitions; a chart's release can go then.
        It is refused while objects of a fabric are there that nobody would let go without it.
      - With V(purged), the CustomResourceDefinitions that this module brought go too, with all objects of their kinds.
        It is refused while one of these has a finalizer, because it would hang for good.
      - With V(gathered), nothing is asked of the cluster, and RV(needed) says what the plan needs.
    type: str
    choices: [present, started, absent, purged, gathered]
    default: present
  method:
    description: How Calico is installed, V(manifests) or V(operator). Empty for the first.
    type: str
    default: ""
  source:
    description:
      - Where the file is. A directory of the control node, or a URL below which it lies (V(https://), or V(oci://) for
        a chart), under upstream's own name; or the file itself; or a folder with an unpacked chart.
    type: str
    default: ""
  version:
    description: Another release than the pinned one. Its checksums have to be given.
    type: str
    default: ""
  checksums:
    description: File name and SHA-256, where the file is another than the pinned one or no checksum of it is known.
    type: dict
    default: {}
  settings:
    description:
      - What a manifest is to have otherwise. Charts know none.
      - C(interface), the netdev between nodes, which must be no rail's; C(autodetection), Calico's own word for how it
        finds a node's address; C(mtu) of pods in bytes; C(pod_cidr); C(encapsulation); C(bin_dir) and C(conf_dir) of
        the kubelet's CNI.
      - Flannel takes all but C(autodetection), Multus the two directories.
    type: dict
    default: {}
  values:
    description: Values of a chart, over those of the plan. A key that the chart does not read is an error.
    type: dict
    default: {}
  namespace:
    description: Where a chart's release lives. Empty for that of the plan's options.
    type: str
    default: ""
  helm:
    description: Helm 3 on the control node. Empty for the one on the PATH.
    type: str
    default: ""
  force:
    description: Take over fields that other managers own, such as those of an installation by hand.
    type: bool
    default: false
  consent:
    description: The name again, as consent to take away Calico or Flannel, with which all pods lose their network.
    type: str
    default: ""
  timeout:
    description: Seconds for which each kind may take to go, or with V(started) to come.
    type: int
    default: 120
notes:
  - Fetched files are kept under C(~/.cache/railyard/archives) (E(XDG_CACHE_HOME)) by their checksum.
seealso:
  - module: railyard.fabric.kube_objects
"""

EXAMPLES = r"""
- name: Flannel on the interface between nodes
  railyard.fabric.kube_software:
    name: flannel
    source: /srv/archives
    settings:
      interface: eth0
      pod_cidr: 10.244.0.0/16

- name: What Spiderpool's release needs
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
  description: What differed, and was (or in check mode would be) written, a field or an object each.
  returned: unless state is gathered
  type: list
  elements: dict
release:
  description: What Helm is to install or to take away. Empty for a manifest.
  returned: unless state is gathered
  type: dict
  contains:
    name:
      description: Of the release, which is the chart's.
      type: str
    namespace:
      description: Where it lives.
      type: str
    chart:
      description: The archive on the control node.
      type: str
    version:
      description: Of the chart.
      type: str
    values:
      description: Those of the registry, the plan and the user.
      type: dict
    helm:
      description: Helm's path.
      type: str
    again:
      description: Whether Helm noted that the last thing that was done to it failed, so that it is to be done again.
      type: bool
    environment:
      description: Variables with which Helm's module goes to the same cluster, whatever else the environment names.
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
  description: One line on what was done.
  returned: always
  type: str
  sample: "multus v4.3.0: nothing differs"
"""
