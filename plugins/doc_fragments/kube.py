# Copyright (c) 2026, Railyard contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


class ModuleDocFragment:
    """Documentation that the actions that talk to a cluster share."""

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
      - The kubeconfig on the control node. If this and O(context) are omitted, the cluster that E(K8S_AUTH_HOST) names,
        which AWX's credential for Kubernetes sets. Its credentials are E(K8S_AUTH_API_KEY), or E(K8S_AUTH_CERT_FILE)
        and E(K8S_AUTH_KEY_FILE), with E(K8S_AUTH_SSL_CA_CERT), E(K8S_AUTH_VERIFY_SSL), E(K8S_AUTH_PROXY) and
        E(K8S_AUTH_NO_PROXY).
      - Without E(K8S_AUTH_HOST), the kubeconfig of E(K8S_AUTH_KUBECONFIG) or E(KUBECONFIG), else C(~/.kube/config),
        else the service account of the pod in which Ansible runs.
      - The C(proxy-url) of a kubeconfig's cluster names a proxy, such as a jump host; without it, E(HTTPS_PROXY) and
        E(NO_PROXY) are used, as in the Python client.
      - Secrets are read only from there. They are not options, so they are not logged.
    type: path
  context:
    description: The kubeconfig's context. If omitted, that of E(K8S_AUTH_CONTEXT), else the current context.
    type: str
  connections:
    description: The maximum number of requests at the same time.
    type: int
    default: 8
requirements:
  - kubernetes >= 22.6 (the Python client, on the control node)
"""

    # of actions that use a plan
    PLAN = r"""
options:
  kubernetes:
    description:
      - Settings that a fabric file does not have, such as namespaces of operators, images and their registry; see
        C(docs/kubernetes-objects.md).
    type: dict
    default: {}
"""

    # of actions that only read
    READS = r"""
attributes:
  check_mode:
    description: Changes nothing, so that it does the same in check mode.
    support: full
  diff_mode:
    description: Nothing is changed.
    support: none
"""
