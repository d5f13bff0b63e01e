# Copyright (c) 2026, Railyard contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


class ModuleDocFragment:
    """What the actions that talk to a cluster have in common."""

    DOCUMENTATION = r"""
attributes:
  action:
    description: Runs on the control node, over the connection that the kubeconfig names.
    support: full
  platform:
    description: Target system of the control node.
    platforms: posix
    support: full
options:
  kubeconfig:
    description:
      - The kubeconfig on the control node. Without it and O(context), the cluster that E(K8S_AUTH_HOST) names, as
        AWX's credential for Kubernetes does; it asks with E(K8S_AUTH_API_KEY), or E(K8S_AUTH_CERT_FILE) and
        E(K8S_AUTH_KEY_FILE), and E(K8S_AUTH_SSL_CA_CERT), E(K8S_AUTH_VERIFY_SSL), E(K8S_AUTH_PROXY) and
        E(K8S_AUTH_NO_PROXY).
      - Else that of E(K8S_AUTH_KUBECONFIG) or E(KUBECONFIG), else C(~/.kube/config), else the pod's account in which
        Ansible runs.
      - A cluster that is reached through a jump host is named by the C(proxy-url) of a kubeconfig's cluster; else
        E(HTTPS_PROXY) and E(NO_PROXY) count, as in the Python client.
      - Secrets are read from there alone. They are not options, so no log has them.
    type: path
  context:
    description: The kubeconfig's context. Without it, that of E(K8S_AUTH_CONTEXT), else its current one.
    type: str
  connections:
    description: How many requests are under way at the most.
    type: int
    default: 8
requirements:
  - kubernetes >= 22.6 (the Python client, on the control node)
"""

    # those that go by a plan
    PLAN = r"""
options:
  kubernetes:
    description:
      - What a fabric file does not contain, such as namespaces of operators, images and their registry; see
        C(docs/kubernetes-objects.md).
    type: dict
    default: {}
"""

    # those that only look
    READS = r"""
attributes:
  check_mode:
    description: Changes nothing, so that it does the same in check mode.
    support: full
  diff_mode:
    description: There is nothing to differ.
    support: none
"""
