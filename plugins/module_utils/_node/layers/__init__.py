# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""The layers of a node: the run of all of them in one process, and of those with persistent options at boot.

May import: _common, _node.agent_service, _node.boot, _node.cni, _node.core, _node.gpu, _node.host, _node.nic,
_node.ports, _node.qos, _node.rdma, _node.readers, _node.sriov.
"""
