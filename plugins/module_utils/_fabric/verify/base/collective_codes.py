# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Codes of the verdict on collective tests."""

from __future__ import annotations

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.base.failure_codes import Code

COLLECTIVE_CODES = {
    code.code: code
    for code in (
        Code(
            *("RV871", "collective-not-started", "rdma", "the collective test did not start"),
            cause="the launcher or the program is missing, a node is not reached, or no nodes were allocated",
            remedy="see the message of the launcher, and start the command by hand",
            playbook=None,
            drift=False,
        ),
        Code(
            *("RV872", "collective-wrong-results", "rdma", "a collective gives wrong results"),
            cause="a GPU, a NIC or PCIe corrupts data, or the library has a defect",
            remedy="test each node alone, then the nodes in halves, and replace what gives wrong results",
            playbook=None,
            drift=False,
        ),
        Code(
            *("RV873", "collective-too-slow", "rdma", "a collective is slower than its floor"),
            cause="a slow rail or node, a GPU that does not use its nearest NIC, or congestion",
            remedy="find the slow pair with playbooks/verify.yml, and the NICs that NCCL uses with NCCL_DEBUG=INFO",
            playbook=None,
            drift=False,
        ),
        Code(
            *("RV874", "collective-aborted", "rdma", "the collective test began, and did not end"),
            cause="a rank ended with an error, or a rail carries no traffic, so that all ranks wait",
            remedy="see the message, and run playbooks/verify.yml",
            playbook=None,
            drift=False,
        ),
        Code(
            *("RV875", "collective-ranks-mismatch", "rdma", "the collective ran on other GPUs or nodes than planned"),
            cause="the launcher placed the ranks otherwise, or a node has fewer GPUs than planned",
            remedy="compare the ranks in the output with the plan, and check nvidia-smi -L or rocm-smi on the nodes",
            playbook=None,
            drift=False,
        ),
        Code(
            *("RV876", "collective-not-judged", "rdma", "no floor applies to the result of the collective"),
            cause="see the message",
            remedy="name the bandwidth in GB/s that you expect, with -e collectives_floor=GB/S",
            playbook=None,
            drift=False,
        ),
    )
}
