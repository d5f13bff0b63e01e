#!/usr/bin/python
# Copyright (c) 2026, Railyard contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: rail_probe
short_description: Test that rails carry traffic between nodes
version_added: 0.1.0
description:
  - Starts a prober on a node (O(mode=start)), and collects its results (O(mode=collect)). In between, the probers of
    all nodes test their rails in pairs by themselves, round by round, as O(turns) defines.
  - In a turn, the probing node sends echo requests of exactly the planned MTU, not to be fragmented, over every rail at
    once, and then moves data by RDMA over each rail's own device and GID. A failed rail does not fail the task; see
    RV(results).
  - The GID of the rail port's address is looked up in each turn. Over InfiniBand, a port does not need an address. Then
    no echo requests are sent, and both ends exchange their connection data over O(ports[].meet).
  - The prober is a transient unit of systemd, C(railyard-probe-ID.scope), or a session on nodes without systemd. It
    ends when its results are collected, or at its O(deadline), with its servers and files. Probers of other runs are
    not changed.
  - Probers authenticate each other with O(token), and each of their messages.
author:
  - Railyard contributors (@railyard)
requirements:
  - perftest on both nodes
extends_documentation_fragment:
  - railyard.fabric.node.reads
options:
  mode:
    description:
      - V(start) starts the prober of O(run), instead of an earlier one of the same run, and returns when it listens.
      - V(collect) waits until the prober has ended its turns, and returns and removes its results. Call it when all
        nodes of the run were started. Probers then give up partners that they do not reach.
      - V(stop) ends the prober of O(run), or those of all runs without it.
    type: str
    choices: [start, collect, stop]
    default: start
    version_added: 0.2.0
  run:
    description: A unique name of this run. Required, except with O(mode=stop).
    type: str
    default: ""
    version_added: 0.2.0
  token:
    description: The secret that all nodes of the run have.
    type: str
    version_added: 0.2.0
  name:
    description: The name of this node, as in O(turns[].partner) of its partners. Required, except with O(mode=stop).
    type: str
    version_added: 0.2.0
  listen:
    description:
      - The TCP ports on which partners try to reach the prober. It listens on the first of them that is free.
      - Required with O(mode=start).
    type: list
    elements: int
    version_added: 0.2.0
  addresses:
    description: The IP addresses at which the prober listens. Addresses that the node does not have are ignored.
    type: list
    elements: str
    default: []
    version_added: 0.2.0
  turns:
    description: The turns of this node, in the order of the rounds.
    type: list
    elements: dict
    default: []
    version_added: 0.2.0
    suboptions: &turn
      turn:
        description: The number of the round. The same for both nodes of a pair.
        type: int
        required: true
      mode:
        description:
          - V(probe) probes O(turns[].targets) of the partner. V(serve) serves it O(ports).
          - V(write) writes to the partner on each of O(turns[].targets) while other nodes do so too. V(gather) is the
            other end of V(write), for all O(turns[].clients) at the same time.
        type: str
        choices: [probe, serve, gather, write]
        required: true
      partner:
        description: The name of the partner; empty with O(turns[].mode=gather).
        type: str
        required: true
      clients:
        description: With O(turns[].mode=gather), the partners, each with C(partner), C(ways) and C(listen) as a turn
          has them, and with the rails on which it writes (C(rails)).
        type: list
        elements: dict
        version_added: 0.2.0
      ways:
        description: The IP addresses at which the prober of the partner listens (C(address)), each with the own
          address from which to connect (C(source)), or null.
        type: list
        elements: dict
        default: []
      listen:
        description: As O(listen), of the partner.
        type: list
        elements: int
        default: []
      others:
        description:
          - The partner's addresses on its rails, each with C(rail) and C(address). If no echo reply arrives, ARP
            requests for those of other rails find swapped cables.
        type: list
        elements: dict
        default: []
      targets:
        description: What to probe, each rail once.
        type: list
        elements: dict
        default: []
        suboptions:
          rail:
            description: The rail's name.
            type: str
            required: true
          netdev:
            description: The rail port's netdev, from which packets are sent.
            type: str
          device:
            description:
              - The rail port's RDMA device; without it the one whose GID table contains the port's address, else that
                of its PCI function or netdev.
            type: str
          rdma_port:
            description:
              - The number of the port of the RDMA device. Without it, the port whose GID table contains
                O(turns[].targets[].source), or over InfiniBand that of the netdev.
            type: int
            version_added: 0.2.0
          tclass:
            description: The traffic class of packets with O(turns[].mode=write), if the installed perftest can set it.
            type: int
            version_added: 0.2.0
          ask_arp:
            description: Whether to return all MAC addresses that answer for O(turns[].targets[].address).
            type: bool
            version_added: 0.2.0
          pci:
            description: PCI address of the port, used to find its RDMA device if no address identifies it.
            type: str
          source:
            description: The rail port's own IP address, without prefix.
            type: str
          address:
            description: The partner's IP address on this rail. Without it, no packets are sent.
            type: str
          source6:
            description: The rail port's own IPv6 address, without prefix.
            type: str
          address6:
            description: The partner's IPv6 address on this rail, which then gets the same echo requests.
            type: str
          mtu:
            description: Size of the echo request as an IP packet, in bytes.
            type: int
            required: true
          gpu:
            description: PCI address of the GPU whose memory is used, if the partner uses GPU memory as well.
            type: str
          cross:
            description: An C(address) of the partner on another C(rail), to see whether rails reach each other.
            type: dict
  ports:
    description: The rail ports to serve.
    type: list
    elements: dict
    default: []
    suboptions: &ports
      rail:
        description: The rail's name.
        type: str
        required: true
      device:
        description:
          - The RDMA device; without it the one whose GID table contains O(ports[].address), else that of O(ports[].pci)
            or O(ports[].netdev). InfiniBand GID tables contain no addresses.
        type: str
      rdma_port:
        description:
          - The number of the port of the RDMA device. Without it, the port whose GID table contains O(ports[].address),
            or over InfiniBand that of the netdev.
        type: int
        version_added: 0.2.0
      address:
        description: The rail port's own IP address, without prefix. Optional over InfiniBand.
        type: str
      pci:
        description: PCI address of the port, used to find its RDMA device if no address identifies it.
        type: str
        version_added: 0.2.0
      netdev:
        description: The port's netdev, with the same use.
        type: str
        version_added: 0.2.0
      gpu:
        description:
          - PCI address of the GPU whose memory is used, if C(ib_write_bw) was built with CUDA. Otherwise the node's
            memory is used.
        type: str
        version_added: 0.2.0
      meet:
        description:
          - The IP address of this node at which the client connects to set up RDMA, instead of O(ports[].address).
        type: str
        version_added: 0.2.0
  pod:
    description:
      - A pod on this node that probes and serves after the node, with the programs of the node in the network of the
        pod, and its interfaces, addresses and RDMA devices.
      - The C(uid) of the pod, and C(addresses), C(turns) and C(ports) as O(addresses), O(turns) and O(ports).
    type: dict
    version_added: 0.2.0
    suboptions:
      uid:
        description: The uid of the pod.
        type: str
        required: true
      addresses:
        description: As O(addresses).
        type: list
        elements: str
        default: []
      turns:
        description: As O(turns).
        type: list
        elements: dict
        default: []
        suboptions: *turn
      ports:
        description: As O(ports).
        type: list
        elements: dict
        default: []
        suboptions: *ports
  tcp_ports:
    description:
      - The TCP ports that servers may use, as V(FIRST-LAST), one for each of O(ports), and with O(latency) another.
        Without it the kernel chooses.
    type: str
    version_added: 0.2.0
  counters:
    description: With O(mode=collect), the netdevs and RDMA devices whose counters to read.
    type: dict
    version_added: 0.2.0
    suboptions:
      netdevs:
        description: Names of netdevs.
        type: list
        elements: str
        default: []
      devices:
        description: Names of RDMA devices, or of one of their ports, as V(mlx5_0:3).
        type: list
        elements: str
        default: []
  watched:
    description:
      - The C(netdevs) and C(devices) of each rail, whose counters are read before and after the transfers of turns with
        O(turns[].mode=gather) and O(turns[].mode=write).
    type: dict
    version_added: 0.2.0
  group_seconds:
    description: Seconds of a transfer of these turns.
    type: int
    default: 6
    version_added: 0.2.0
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
      - A server waits that long for each transfer of its turn, and a minute more.
    type: int
    default: 60
  latency:
    description: Whether latencies are measured too, with C(ib_write_lat).
    type: bool
    default: false
    version_added: 0.2.0
  begin_seconds:
    description: Seconds after which no further turn begins; 0 without a limit.
    type: float
    default: 0
    version_added: 0.2.0
  soak_seconds:
    description: Seconds in which the turns of the node are repeated; 0 for one pass.
    type: float
    default: 0
    version_added: 0.2.0
  soak_turns:
    description: With O(soak_seconds), the number of rounds of the run, by which C(turn) is greater in each repetition.
    type: int
    default: 0
    version_added: 0.2.0
  silence:
    description:
      - Seconds without a message after which a partner is given up. Probers that wait or test send keepalives.
    type: float
    default: 60
    version_added: 0.2.0
  patience:
    description: Seconds in which a partner must have been started, unless O(mode=collect) is called first.
    type: float
    default: 300
    version_added: 0.2.0
  test_seconds:
    description: The longest time in seconds that the test of a turn takes.
    type: float
    default: 1800
    version_added: 0.2.0
  deadline:
    description: Seconds after which the prober ends, with its servers, and removes its files.
    type: float
    default: 7200
    version_added: 0.2.0
seealso:
  - module: railyard.fabric.rail_verify
  - module: railyard.fabric.rail_info
"""

EXAMPLES = r"""
- name: Start a prober that serves one rail to its partner
  railyard.fabric.rail_probe:
    mode: start
    run: example
    token: "{{ token }}"
    name: ai-10-1-16-1
    listen: [40100, 40101]
    addresses: [172.16.11.201]
    turns:
      - {turn: 0, mode: serve, partner: ai-10-1-16-2, ways: [{address: 172.16.11.202}], listen: [40100, 40101]}
    ports:
      - {rail: gpu01, device: mlx5_gpu01, address: 172.16.11.201}

- name: Collect the results of the prober
  railyard.fabric.rail_probe:
    mode: collect
    run: example
    name: ai-10-1-16-1

- name: End the probers of all runs
  railyard.fabric.rail_probe:
    mode: stop
"""

RETURN = r"""
port:
  description: The TCP port at which the prober listens; null if it does not, for which RV(refused) has the reason.
  returned: with O(mode=start)
  type: int
  sample: 40100
others:
  description:
    - Other runs that have tested on this node at the same time, each with C(run) and C(since), the start of its prober.
      The measured bandwidth may then be less than a rail can carry.
  returned: with O(mode=collect)
  type: list
  elements: dict
  sample: [{run: "anna@bastion (48213)", since: "2026-11-22T10:02:05Z"}]
counters:
  description: Counters of errors and congestion, in the form of M(railyard.fabric.rail_info).
  returned: with O(counters)
  type: dict
  sample: {netdevs: {enp11s0f0np0: {rx_errors: 0}}, devices: {mlx5_gpu01: {symbol_error: 0}}}
groups:
  description:
    - One entry per rail of each turn with O(turns[].mode=gather) and O(turns[].mode=write), with C(turn), C(rail),
      C(error) and C(counters), the increases of the counters of O(watched).
    - Of a server, C(clients) have written, and C(lost) are the others with the reason. Of a client, C(gbits) per second
      to C(peer), with C(remedy) for an error, and C(unmeasured) as in RV(results[].transfer).
  returned: with O(mode=collect)
  type: list
  elements: dict
  sample:
    - {turn: 8, rail: gpu01, clients: [ai-2, ai-3, ai-4, ai-5], lost: {}, error: "", counters: {np_cnp_sent: 12884}}
    - {turn: 9, rail: gpu01, peer: ai-2, gbits: 96.1, error: "", remedy: "", counters: {rp_cnp_handled: 3120}}
soak:
  description:
    - What happened after the first pass of the turns; null without O(soak_seconds).
    - C(seconds) and C(repetitions); C(pairs), each with C(rail), C(peer), the number of C(transfers) and of those that
      C(failed), the first C(error), C(least_gbits) and C(greatest_p99_us); C(increases) of the counters of O(watched),
      each with C(rail), C(name), C(increase) and how many C(times); the first C(events), each with C(time) in seconds
      since 1970, C(rail), C(peer) and C(text).
  returned: with O(mode=collect)
  type: dict
  sample:
    seconds: 1800.2
    repetitions: 41
    pairs:
      - {rail: gpu01, peer: ai-2, transfers: 41, failed: 0, error: "", least_gbits: 380.1, greatest_p99_us: 2.4}
    increases: []
    events: []
refused:
  description: Why the node could not probe or serve; empty if it could.
  returned: with O(mode=collect)
  type: str
  sample: "tcp_ports: 0 of the TCP ports 18515-18516 are free, and 16 are needed. Remedy: set a larger range."
pod_refused:
  description: As RV(refused), of the pod.
  returned: with O(mode=collect)
  type: str
pod_results:
  description: As RV(results), of the pod.
  returned: with O(mode=collect)
  type: list
  elements: dict
  sample: []
results:
  description: One entry per probed target, in the order of the turns. Turns that did not begin have none.
  returned: with O(mode=collect)
  type: list
  elements: dict
  contains:
    rail:
      description: The rail's name.
      type: str
      returned: always
      sample: gpu01
    peer:
      description: The partner's name.
      type: str
      returned: always
      sample: ai-10-1-16-1
    ok:
      description: Whether all packets were answered and the transfer succeeded.
      type: bool
      returned: always
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
      returned: always
      sample: {sent: 3, received: 3, rtt_ms: 0.21, error: ''}
    reach6:
      description: As RV(results[].reach), for IPv6; null without O(turns[].targets[].address6).
      type: dict
      returned: always
      sample: {sent: 3, received: 3, rtt_ms: 0.23, error: ''}
    transfer:
      description:
        - Average C(gbits) per second, the used C(gid_index), C(error) and C(remedy); null if there was no transfer.
        - C(gpu) is whether the data was in GPU memory.
        - C(latency_us) is the typical one-way latency in microseconds; null without O(latency). With it, C(p99_us) is
          the 99th percentile, and C(max_us) the greatest.
        - C(unmeasured) is why a successful transfer has no bandwidth or no latency; empty if it has.
        - C(size) and C(iterations) are the bytes of a message and the number of messages.
      type: dict
      returned: always
      sample:
        {gbits: 96.4, latency_us: 1.62, gid_index: 3, gpu: false, size: 65536, iterations: 1000, error: '', remedy: ''}
    found:
      description:
        - Facts about lost packets; null if none was lost. C(small) is whether packets of 96 bytes pass, C(path_mtu) the
          largest usual size in bytes that passes, C(answers) the partner's other rails for whose addresses a host
          answers on this rail.
      type: dict
      returned: always
      sample: {small: true, path_mtu: 1500, answers: []}
    macs:
      description:
        - The MAC addresses that answered ARP requests for the partner's address, sent from this rail's own address.
          More than one is ARP flux, or an address that two hosts have.
      type: list
      elements: str
      returned: with O(turns[].targets[].ask_arp)
      sample: ['02:00:00:00:00:07']
    cross:
      description:
        - Whether the C(rail) of O(turns[].targets[].cross) is reachable from this rail (C(open)); null without it.
      type: dict
      returned: always
      sample: {rail: gpu02, open: true}
"""

import typing as t

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._node.core import module_runner
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.probe import probe_unit

NAMES = {"type": "list", "elements": "str", "default": []}
ROWS = {"type": "list", "elements": "dict", "default": []}
TEXT = {"type": "str"}
RAIL = {"rail": {"type": "str", "required": True}}
PORT = {
    **RAIL,
    **{name: dict(TEXT) for name in ("device", "address", "pci", "netdev", "gpu", "meet")},
    "rdma_port": {"type": "int"},
}
TARGET = {
    **RAIL,
    **{name: dict(TEXT) for name in ("netdev", "device", "pci", "source", "address", "source6", "address6", "gpu")},
    "rdma_port": {"type": "int"},
    "tclass": {"type": "int"},
    "ask_arp": {"type": "bool"},
    "mtu": {"type": "int", "required": True},
    "cross": {"type": "dict"},
}
TURN = {
    "turn": {"type": "int", "required": True},
    "mode": {"type": "str", "choices": ["probe", "serve", "gather", "write"], "required": True},
    "partner": {"type": "str", "required": True},
    "clients": {"type": "list", "elements": "dict"},
    "ways": dict(ROWS),
    "listen": {"type": "list", "elements": "int", "default": []},
    "others": dict(ROWS),
    "targets": {**ROWS, "options": TARGET},
}
PART = {"addresses": dict(NAMES), "turns": {**ROWS, "options": TURN}, "ports": {**ROWS, "options": PORT}}
SPEC = {
    "mode": {"type": "str", "choices": ["start", "collect", "stop"], "default": "start"},
    "run": {"type": "str", "default": ""},
    "token": {"type": "str", "no_log": True},
    "name": dict(TEXT),
    "listen": {"type": "list", "elements": "int"},
    **PART,
    "pod": {"type": "dict", "options": {"uid": {"type": "str", "required": True}, **PART}},
    "tcp_ports": dict(TEXT),
    "counters": {"type": "dict", "options": {"netdevs": dict(NAMES), "devices": dict(NAMES)}},
    "watched": {"type": "dict"},
    "group_seconds": {"type": "int", "default": 6},
    "count": {"type": "int", "default": 3},
    "timeout": {"type": "float", "default": 2.0},
    "size": {"type": "int", "default": 65536},
    "iterations": {"type": "int", "default": 1000},
    "lifetime": {"type": "int", "default": 60},
    "latency": {"type": "bool", "default": False},
    "begin_seconds": {"type": "float", "default": 0},
    "soak_seconds": {"type": "float", "default": 0},
    "soak_turns": {"type": "int", "default": 0},
    "silence": {"type": "float", "default": 60},
    "patience": {"type": "float", "default": 300},
    "test_seconds": {"type": "float", "default": 1800},
    "deadline": {"type": "float", "default": 7200},
}
_MODES: t.Mapping[str, t.Callable[[t.Mapping[str, t.Any], System], dict[str, t.Any]]] = {
    "start": probe_unit.start,
    "collect": probe_unit.collect,
    "stop": probe_unit.stop,
}


def look(options: t.Mapping[str, t.Any], system: System) -> dict[str, t.Any]:
    """Return the result of a mode."""
    mode = options["mode"]
    if not options["run"] and mode != "stop":
        raise RailyardError("is required with mode=%s" % mode, "run", "give the run a name")
    return _MODES[mode](options, system)


def main() -> None:
    required = [("mode", "start", ["token", "name", "listen"]), ("mode", "collect", ["name"])]
    module = AnsibleModule(argument_spec=SPEC, required_if=required, supports_check_mode=True)
    module_runner.read(module, look)


if __name__ == "__main__":
    main()
