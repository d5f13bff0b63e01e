# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""The options of the modules of the layers, and the run of all of them in one process.

May import: _common, _nic_vendors.registry, _node.agent_service, _node.boot, _node.boot_service, _node.cni,
_node.core, _node.gpu, _node.host, _node.nic, _node.ports, _node.rdma, _node.readers.
"""
