#!/usr/bin/python
# Copyright (c) 2026, Railyard contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# The documentation of an action plugin, plugins/action/fabric_collectives.py, which does the work on the control node.

from __future__ import annotations

DOCUMENTATION = r"""
module: fabric_collectives
short_description: Prepare and judge collective tests
version_added: 0.2.0
description:
  - With O(part=prepare), returns the commands that run C(all_reduce_perf) and C(alltoall_perf) of nccl-tests or
    rccl-tests on the nodes of the play. With O(part=judge), compares their outputs with floors that follow from the
    plan, and writes C(collectives.json).
  - A test without complete results never passes. It fails, or is unknown, with cause and remedy.
  - Runs on the control node only. C(playbooks/collectives.yml) runs the commands.
author:
  - Railyard contributors (@railyard)
extends_documentation_fragment:
  - railyard.fabric.controller
  - railyard.fabric.controller.fabric_file
attributes:
  check_mode:
    description: Shows the commands or files. Writes nothing.
    support: full
  diff_mode:
    description: Nothing is changed.
    support: none
options:
  part:
    description: V(prepare) for the commands, V(judge) for the verdict.
    type: str
    choices: [prepare, judge]
    required: true
  launcher:
    description:
      - V(mpirun) starts the ranks with SSH, V(srun) with Slurm.
      - V(mpijob) writes an MPIJob of Kubeflow for each collective to O(report_dir), and runs nothing.
    type: str
    choices: [mpirun, srun, mpijob]
    default: mpirun
  memory:
    description: >-
      V(host) runs a program of this collection, which needs C(python3-mpi4py) on the nodes and no GPUs. It uses one
      rank on each node.
    type: str
    choices: [gpu, host]
    default: gpu
  operations:
    description: The collectives, V(all_reduce) and V(alltoall).
    type: list
    elements: str
    default: [all_reduce, alltoall]
  programs:
    description: The path of the program on the nodes, by collective.
    type: dict
    default: {}
  gpus:
    description: The number of ranks on each node. If omitted, the planned number of GPUs.
    type: int
  min_bytes:
    description: The smallest message in bytes. If omitted, an eighth of the largest.
    type: int
  max_bytes:
    description: The largest message in bytes. If omitted, 8 GiB, and 256 MiB with O(memory=host).
    type: int
  iterations:
    description: The number of measurements for each size.
    type: int
    default: 20
  environment:
    description: Variables of the ranks, such as C(NCCL_ALGO).
    type: dict
    default: {}
  arguments:
    description: Further arguments of the launcher.
    type: list
    elements: str
    default: []
  timeout:
    description: The number of seconds after which all processes of a test are ended.
    type: int
    default: 900
  floor:
    description: The bus bandwidth in GB/s that each collective must reach. If omitted, it follows from the plan.
    type: float
  ran:
    description: The results of M(ansible.builtin.command), with C(item), an element of RV(tests).
    type: list
    elements: dict
    default: []
  outputs:
    description: Files with outputs to judge instead, by collective.
    type: dict
    default: {}
  kubernetes:
    description: Settings of Kubernetes objects that a fabric file does not contain.
    type: dict
    default: {}
  image:
    description: The image of MPIJobs, with Open MPI, sshd and the programs. Required for V(mpijob).
    type: str
  resource:
    description: The resource of GPUs in Kubernetes.
    type: str
    default: nvidia.com/gpu
  unknown_allowed:
    description: Whether V(unknown) is accepted, see RV(bad).
    type: bool
    default: false
  report_dir:
    description: The directory on the control node to which C(collectives.json) is written.
    type: path
    default: reports
seealso:
  - module: railyard.fabric.fabric_verify
"""

EXAMPLES = r"""
- name: Judge an output of nccl-tests
  railyard.fabric.fabric_collectives:
    part: judge
    outputs:
      all_reduce: all_reduce.log
  run_once: true
"""

RETURN = r"""
tests:
  description: >-
    With O(part=prepare), C(operation) and C(argv) of each test. With O(part=judge), the verdict on each test.
  returned: success
  type: list
  elements: dict
bad:
  description: Whether the run should fail.
  returned: with O(part=judge)
  type: bool
  sample: false
state:
  description: V(pass), V(fail) or V(unknown).
  returned: with O(part=judge)
  type: str
  sample: pass
lines:
  description: The lines that were shown.
  returned: with O(part=judge) or O(launcher=mpijob), and in check mode
  type: list
  elements: str
file:
  description: The path of C(collectives.json).
  returned: with O(part=judge)
  type: str
  sample: reports/collectives.json
"""
