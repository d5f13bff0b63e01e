# Copyright (c) 2026, Railyard contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


class ModuleDocFragment:
    """What the actions that bring a plan to a cluster have in common."""

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
  file:
    description:
      - The fabric file, or a directory that holds one. A relative path begins at the working directory.
      - Without it, the fabric file among the inventory's own sources.
    type: path
  kubernetes:
    description:
      - What a fabric file does not say, such as namespaces of operators, images and their registry; see
        C(docs/kubernetes-objects.md).
    type: dict
    default: {}
  kubeconfig:
    description:
      - The kubeconfig on the control node. Without it, that of E(K8S_AUTH_KUBECONFIG) or E(KUBECONFIG), else
        C(~/.kube/config), else the account of the pod in which Ansible runs.
      - A cluster that is reached through a jump host is named by the C(proxy-url) of a kubeconfig's cluster.
    type: path
  context:
    description: The kubeconfig's context. Without it, that of E(K8S_AUTH_CONTEXT), else its current one.
    type: str
  connections:
    description: How many requests are under way at the most.
    type: int
    default: 8
requirements:
  - kubernetes (the Python client, on the control node)
"""
