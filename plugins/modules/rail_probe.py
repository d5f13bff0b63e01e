#!/usr/bin/python
# Copyright (c) 2026, Railyard contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: rail_probe
short_description: Test that rails carry traffic between two nodes
version_added: 0.1.0
description:
  - Sends echo requests of exactly the planned MTU, not to be fragmented, over every rail at once, and then moves data
    by RDMA over each rail's own device and GID.
  - One node serves (O(mode=serve)), its partner probes (O(mode=probe)). A failed rail does not fail the task; see
    RV(results).
  - The GID of the rail port's address is looked up in each run. Over InfiniBand, a port does not need an address. Then
    no echo requests are sent, and both ends exchange their connection data over O(meet).
author:
  - Railyard contributors (@railyard)
requirements:
  - perftest on both nodes
extends_documentation_fragment:
  - railyard.fabric.node.reads
options:
  mode:
    description:
      - V(serve) starts one C(ib_write_bw) server per port and returns; each ends after one transfer, or
        some time after its client should have connected (see O(lifetime)).
      - V(probe) probes each of O(targets), and then serves O(ports).
      - V(stop) ends waiting servers, those of O(run) if it is given, else all.
    type: str
    choices: [serve, probe, stop]
    default: probe
  pod:
    description:
      - The uid of a pod on this node. The module then uses the pod's network, with its interfaces, addresses and RDMA
        devices. The programs are the node's.
    type: str
    version_added: 0.2.0
  run:
    description:
      - A unique name of this run. Servers of other runs are not changed; RV(others) lists them.
      - Servers of an interrupted run end by themselves, see O(lifetime).
    type: str
    default: ""
    version_added: 0.2.0
  meet:
    description:
      - With O(mode=serve), the IP address of this node at which clients connect to all servers. The measured traffic
        does not use it.
      - Without it, clients connect to O(ports[].address), or to the node's management address if the port has none.
        That is the local address of this connection, else an address of the interface with the default route, never a
        rail's.
    type: str
    version_added: 0.2.0
  tcp_ports:
    description:
      - With O(mode=serve), the TCP ports that servers may use, as V(FIRST-LAST), one for each of O(ports), and with
        O(latency) another. Without it the kernel chooses.
    type: str
    version_added: 0.2.0
  stop:
    description: With O(mode=probe), whether to end waiting servers of O(run) after the probes, as O(mode=stop) does.
    type: bool
    default: false
    version_added: 0.2.0
  counters:
    description: With O(mode=stop) or O(stop), the netdevs and RDMA devices whose counters to read at the end.
    type: dict
    version_added: 0.2.0
    suboptions:
      netdevs:
        description: Names of netdevs.
        type: list
        elements: str
        default: []
      devices:
        description: Names of RDMA devices.
        type: list
        elements: str
        default: []
  ports:
    description:
      - The rail ports to serve. With O(mode=probe), they are served after the probes, and RV(served) has the servers.
        So a node that probes in one round and serves in the next needs one module execution.
    type: list
    elements: dict
    default: []
    suboptions:
      rail:
        description: The rail's name.
        type: str
        required: true
      device:
        description:
          - The RDMA device; without it the one whose GID table contains O(ports[].address), else that of O(ports[].pci)
            or O(ports[].netdev). InfiniBand GID tables contain no addresses.
        type: str
      address:
        description: The rail port's own IP address, without prefix. Optional over InfiniBand.
        type: str
      pci:
        description: PCI address of the port, used to find its RDMA device if no address identifies it.
        type: str
        version_added: 0.2.0
      netdev:
        description: The port's netdev, with the same use; its addresses are never used as the management address.
        type: str
        version_added: 0.2.0
      gpu:
        description:
          - PCI address of the GPU whose memory is used, if C(ib_write_bw) was built with CUDA. Otherwise the node's
            memory is used.
        type: str
        version_added: 0.2.0
  targets:
    description: With O(mode=probe), what to probe, each rail and peer once.
    type: list
    elements: dict
    default: []
    suboptions:
      rail:
        description: The rail's name.
        type: str
        required: true
      peer:
        description: The partner node's name, for the result.
        type: str
        required: true
      netdev:
        description: The rail port's netdev, from which packets are sent.
        type: str
      device:
        description:
          - The rail port's RDMA device; without it the one whose GID table contains O(targets[].source), else that of
            O(targets[].pci) or O(targets[].netdev).
        type: str
      pci:
        description: PCI address of the port, used to find its RDMA device if no address identifies it.
        type: str
        version_added: 0.2.0
      source:
        description: The rail port's own IP address, without prefix. Given together with O(targets[].address).
        type: str
      address:
        description:
          - The partner's IP address on this rail. Without it no packets are sent, and RDMA needs O(targets[].meet).
        type: str
      meet:
        description: IP address at which the partner's server accepts connections, from the result of O(mode=serve).
        type: str
        version_added: 0.2.0
      gpu:
        description: As O(ports[].gpu), if the partner uses GPU memory as well.
        type: str
        version_added: 0.2.0
      source6:
        description: The rail port's own IPv6 address, without prefix. Given together with O(targets[].address6).
        type: str
        version_added: 0.2.0
      address6:
        description: The partner's IPv6 address on this rail, which then gets the same echo requests.
        type: str
        version_added: 0.2.0
      mtu:
        description: Size of the echo request as an IP packet, in bytes.
        type: int
        required: true
      port:
        description:
          - TCP port of the partner's server, from the result of O(mode=serve).
          - Without it RDMA is not tested and the rail fails.
        type: int
      error:
        description: Why the partner has no server, from the result of O(mode=serve).
        type: str
        default: ''
      remedy:
        description: What to do about O(targets[].error), from the result of O(mode=serve).
        type: str
        default: ''
      latency_port:
        description: TCP port of the partner's server for latency, from the result of O(mode=serve).
        type: int
        version_added: 0.2.0
      others:
        description:
          - The partner's addresses on its other rails. If no echo reply arrives, ARP requests for these addresses find
            swapped cables.
        type: list
        elements: dict
        default: []
        version_added: 0.2.0
        suboptions:
          rail:
            description: The rail's name.
            type: str
            required: true
          address:
            description: The partner's IP address on it.
            type: str
            required: true
      cross:
        description: An address of the partner on another rail, to see whether rails reach each other.
        type: dict
        version_added: 0.2.0
        suboptions:
          rail:
            description: The other rail's name.
            type: str
            required: true
          address:
            description: The partner's IP address on it.
            type: str
            required: true
  count:
    description: Echo requests per target. All must be answered.
    type: int
    default: 3
  timeout:
    description:
      - Seconds to wait for the answer to one echo request.
      - A target that answered a request may take O(count) times as long for the others.
    type: float
    default: 2.0
  size:
    description: Bytes of one RDMA write.
    type: int
    default: 65536
  iterations:
    description: RDMA writes per transfer.
    type: int
    default: 1000
  lifetime:
    description:
      - Seconds after which a transfer is aborted.
      - A server waits that long for each transfer of its round, and a minute more.
    type: int
    default: 60
  latency:
    description: With O(mode=serve), also start one C(ib_write_lat) server per port.
    type: bool
    default: false
    version_added: 0.2.0
seealso:
  - module: railyard.fabric.rail_info
  - module: railyard.fabric.rdma_link
"""

EXAMPLES = r"""
- name: Serve every rail on one node
  railyard.fabric.rail_probe:
    mode: serve
    ports:
      - {rail: gpu01, device: mlx5_gpu01, address: 172.16.11.201}
      - {rail: gpu02, device: mlx5_gpu02, address: 172.16.12.201}
  register: servers

- name: Probe one rail from its partner
  railyard.fabric.rail_probe:
    targets:
      - rail: gpu01
        peer: ai-10-1-16-1
        netdev: enp11s0f0np0
        device: mlx5_gpu01
        source: 172.16.11.202
        address: 172.16.11.201
        mtu: 4200
        port: "{{ servers.results[0].port }}"

- name: Serve an InfiniBand port without an address; the result has the address at which its partner connects
  railyard.fabric.rail_probe:
    mode: serve
    ports:
      - {rail: gpu01, pci: "0000:18:00.0"}
  register: servers
"""

RETURN = r"""
others:
  description:
    - Other runs that have probed on this node since the first call with O(run), each with C(run) and C(since), the time
      of its first call. The measured bandwidth may then be less than a rail can carry.
    - Always empty without O(run).
  returned: success
  type: list
  elements: dict
  sample: [{run: "anna@bastion (48213)", since: "2026-11-22T10:02:05Z"}]
counters:
  description: Counters of errors and congestion, in the form of M(railyard.fabric.rail_info).
  returned: with O(counters)
  type: dict
  sample: {netdevs: {enp11s0f0np0: {rx_errors: 0}}, devices: {mlx5_gpu01: {symbol_error: 0}}}
served:
  description: The servers, in the form of RV(results) with O(mode=serve).
  returned: O(mode=probe) with O(ports)
  type: list
  elements: dict
  sample: [{rail: gpu01, port: 40123, latency_port: null, error: '', remedy: '', gpu: false, meet: null}]
serve_error:
  description: Why O(ports) are not served. The probes have then ended without this error.
  returned: O(mode=probe) with O(ports), if no server could be started
  type: str
  sample: "tcp_ports: 18515-18516 has too few free ports. Remedy: give 16 ports."
results:
  description: One entry per port or target, in the order of the option.
  returned: success
  type: list
  elements: dict
  contains:
    rail:
      description: The rail's name.
      type: str
      returned: always
      sample: gpu01
    peer:
      description: The partner node's name.
      type: str
      returned: O(mode=probe)
      sample: ai-10-1-16-1
    port:
      description: TCP port on which the server listens; null if it could not be started.
      type: int
      returned: O(mode=serve)
      sample: 40123
    ok:
      description: Whether all packets were answered and the transfer succeeded.
      type: bool
      returned: O(mode=probe)
    error:
      description: The error; empty after a success.
      type: str
      returned: always
      sample: 0 of 3 packets of 4200 bytes came back
    remedy:
      description: What to do about RV(results[].error).
      type: str
      returned: always
    reach:
      description:
        - Echo requests C(sent) and answers C(received), the least round trip C(rtt_ms) in milliseconds, and the
          kernel's C(error); null if the rail does not have addresses.
      type: dict
      returned: O(mode=probe)
      sample: {sent: 3, received: 3, rtt_ms: 0.21, error: ''}
    reach6:
      description: As RV(results[].reach), for IPv6; null without O(targets[].address6).
      type: dict
      returned: O(mode=probe)
      sample: {sent: 3, received: 3, rtt_ms: 0.23, error: ''}
    transfer:
      description:
        - Average C(gbits) per second, the used C(gid_index), C(error) and C(remedy); null if there was no transfer.
        - C(gpu) is whether the data was in GPU memory.
        - C(latency_us) is the typical one-way latency in microseconds; null without a latency server.
      type: dict
      returned: O(mode=probe)
      sample: {gbits: 96.4, latency_us: 1.62, gid_index: 3, gpu: false, error: '', remedy: ''}
    gpu:
      description: Whether the server's data is in GPU memory.
      type: bool
      returned: O(mode=serve)
    meet:
      description: IP address at which clients connect to the server; null for the rail port's address.
      type: str
      returned: O(mode=serve)
      sample: 10.2.1.1
    latency_port:
      description: TCP port on which the latency server listens; null without one.
      type: int
      returned: O(mode=serve)
      sample: 40124
    found:
      description:
        - Facts about lost packets; null if none was lost. C(small) is whether packets of 96 bytes pass, C(path_mtu) the
          largest usual size in bytes that passes, C(answers) the partner's other rails for whose addresses a host
          answers on this rail.
      type: dict
      returned: O(mode=probe)
      sample: {small: true, path_mtu: 1500, answers: []}
    cross:
      description: Whether the C(rail) of O(targets[].cross) is reachable from this rail (C(open)); null without it.
      type: dict
      returned: O(mode=probe)
      sample: {rail: gpu02, open: true}
"""

import typing as t

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._node.core import module_runner
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink import namespace_entry
from ansible_collections.railyard.fabric.plugins.module_utils._node.probe import probe_runs, rail_probe
from ansible_collections.railyard.fabric.plugins.module_utils._node.readers import counters, pod_processes

RAIL = {
    "rail": {"type": "str", "required": True},
    "device": {"type": "str"},
    "address": {"type": "str"},
    "pci": {"type": "str"},
    "netdev": {"type": "str"},
    "gpu": {"type": "str"},
}
NAMES = {"type": "list", "elements": "str", "default": []}


def look(options: t.Mapping[str, t.Any], system: System) -> dict[str, t.Any]:
    """Return the results of the module and the other runs."""
    if options["pod"] and options["mode"] != "stop":
        namespace_entry.move(system, pod_processes.namespace(system, options["pod"]))
    run = options["run"]
    with probe_runs.in_turn(system, run):
        others = probe_runs.others(system, run, options["mode"] == "probe")
        if options["mode"] == "serve":
            return {"results": rail_probe.serve(options, system), "others": others}
        if options["mode"] == "stop":
            return {"results": [], "others": others, **_ended(options, system)}
    result: dict[str, t.Any] = {"results": rail_probe.probe(options, system)}
    with probe_runs.in_turn(system, run):
        result["others"] = probe_runs.others(system, run)
        if options["ports"]:
            try:
                result["served"] = rail_probe.serve(options, system)
            except RailyardError as error:
                result.update(served=[], serve_error=str(error))
        elif options["stop"]:
            result.update(_ended(options, system))
    return result


def _ended(options: t.Mapping[str, t.Any], system: System) -> dict[str, t.Any]:
    """End the servers of the run, or of all runs without a name. Return the counters, if they are requested."""
    probe_runs.stop(system, options["run"] or None)
    names = options["counters"]
    return {"counters": counters.look(system, names["netdevs"], names["devices"])} if names else {}


def main() -> None:
    other = {"rail": {"type": "str", "required": True}, "address": {"type": "str", "required": True}}
    target = {
        "peer": {"type": "str", "required": True},
        "source": {"type": "str"},
        "meet": {"type": "str"},
        "source6": {"type": "str"},
        "address6": {"type": "str"},
        "mtu": {"type": "int", "required": True},
        "port": {"type": "int"},
        "error": {"type": "str", "default": ""},
        "remedy": {"type": "str", "default": ""},
        "latency_port": {"type": "int"},
        "others": {"type": "list", "elements": "dict", "options": dict(other), "default": []},
        "cross": {"type": "dict", "options": dict(other)},
    }
    spec = {
        "mode": {"type": "str", "choices": ["serve", "probe", "stop"], "default": "probe"},
        "pod": {"type": "str"},
        "run": {"type": "str", "default": ""},
        "meet": {"type": "str"},
        "tcp_ports": {"type": "str"},
        "stop": {"type": "bool", "default": False},
        "counters": {"type": "dict", "options": {"netdevs": dict(NAMES), "devices": dict(NAMES)}},
        "ports": {"type": "list", "elements": "dict", "options": RAIL, "default": []},
        "targets": {"type": "list", "elements": "dict", "options": dict(RAIL, **target), "default": []},
        "count": {"type": "int", "default": 3},
        "timeout": {"type": "float", "default": 2.0},
        "size": {"type": "int", "default": 65536},
        "iterations": {"type": "int", "default": 1000},
        "lifetime": {"type": "int", "default": 60},
        "latency": {"type": "bool", "default": False},
    }
    module_runner.read(AnsibleModule(argument_spec=spec, supports_check_mode=True), look)


if __name__ == "__main__":
    main()
