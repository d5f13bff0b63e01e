# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""The options of the module roce_qos."""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._node.boot_service import boot_program
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.layer import MANAGEMENT, Layer

INTS = {"type": "list", "elements": "int"}
QOS = {
    "priority": {"type": "int"},
    "dscp": {"type": "int"},
    "trust": {"type": "str", "choices": ["dscp", "pcp"]},
    "pfc": INTS,
    "dscp2prio": {"type": "list", "elements": "list", "default": []},
    "tclass": {"type": "int"},
    "rdma_cm_tos": {"type": "int"},
    "roce_mode": {"type": "str", "choices": ["RoCE v2", "IB/RoCE v1"], "default": "RoCE v2"},
    "ecn": {
        "type": "dict",
        "options": {
            "enable": {"type": "bool", "default": True},
            "np": {"type": "list", "elements": "int", "default": []},
            "rp": {"type": "list", "elements": "int", "default": []},
            "cnp_dscp": {"type": "int", "default": 48},
            "cnp_priority": {"type": "int", "default": 6},
        },
    },
    "ets": {
        "type": "dict",
        "options": {
            "prio_tc": {"type": "list", "elements": "int", "required": True},
            "tc_bw": {"type": "list", "elements": "int", "required": True},
            "tc_tsa": {"type": "list", "elements": "str", "required": True},
        },
    },
    "buffers": {"type": "dict", "options": {"prio_buffer": INTS, "buffer_size": INTS, "cable_len": {"type": "int"}}},
    "global_pause": {"type": "bool"},
    "nccl": {"type": "dict"},
}

PORT: dict[str, t.Any] = {"netdev": {"type": "str"}, "pci": {"type": "str"}}

SPEC: dict[str, t.Any] = {
    **MANAGEMENT,
    "ports": {"type": "list", "elements": "dict", "default": [], "options": PORT},
    "qos": {"type": "dict", "options": QOS},
    "dcbx": {"type": "str", "choices": ["host", "any"], "default": "host"},
    "others": {"type": "str", "choices": ["refuse", "warn"], "default": "refuse"},
    "vfs": {"type": "bool", "default": True},
    "persist": {"type": "bool", "default": True},
    "state": {"type": "str", "choices": ["present", "absent", "gathered"], "default": "present"},
}

LAYER = Layer(SPEC, boot_program.builder("roce_qos"), required_if=[("state", "present", ["qos"])])
