# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A good fabric file of each kind, and the table of wrong ones: each is a good one with one thing changed."""

from __future__ import annotations

import re
import typing as t

MACVLAN = """\
plugin: railyard.fabric.rails
fabric:
  name: ai-10-1-16
  attachment: macvlan
  provider: spiderpool
  link_layer: ethernet
  rdma_mode: shared
  mtu: 4200
  reserved:
    nodes: 10.1.16.0/24
    pods: 10.233.64.0/18
  routing: {first_table: 101, first_priority: 10001}
rails:
  gpu01: {subnet: 172.16.11.0/24, gateway: 172.16.11.254, pods: 172.16.11.1-172.16.11.200, hosts: .201-.253}
  gpu02: {subnet: 172.16.12.0/24, gateway: 172.16.12.254, pods: 172.16.12.1-172.16.12.200, hosts: .201-.253}
  gpu03:
    subnet: 172.16.13.0/24
    gateway: .254
    pods: .1-.200
    hosts: .201-.253
    mtu: 9000
profiles:
  hgx:
    soft_rdma: null
    firmware: {link_type: eth, num_of_vfs: 16, sriov_en: true}
    ports:
      gpu01: {netdev: enp11s0f0np0, pci: "0000:0b:00.0", rdma: mlx5_gpu01, gpu: 0}
      gpu02: {netdev: enp12s0f0np0, pci: "0000:0c:00.0", rdma: mlx5_gpu02, gpu: [1, 2]}
      gpu03: {netdev: enp13s0f0np0, pci: 0000:0d:00.0}
nodes:
  ai-[1:2]: {profile: hgx, address: "10.1.16.[1:2]", groups: [rack_1]}
  ai-3:
    profile: hgx
    address: ai-3.example.com
    vars: {bmc: 10.1.17.3, note: "{{ bmc }}"}
    ports:
      gpu03: null
  jupiter:
    profile: hgx
    index: 4
    ports:
      gpu02: {pci: "0000:0e:00.0"}
"""

SRIOV = """\
plugin: railyard.fabric.rails
fabric:
  name: ai
  attachment: sriov
  provider: network-operator
  mtu: 4200
  mac_seed: one
  vfs: {count: 4, trust: true, spoofchk: off, vlan: 100, qos: 3, link_state: auto, min_tx_rate: 10, max_tx_rate: 20}
rails: {count: 2, name: "gpu{n:02}", subnet: "172.16.{n+10}.0/24", gateway: .254, pods: .1-.200, hosts: .201-.253}
profiles:
  hgx:
    firmware: {num_of_vfs: 8}
    vfs: {count: 8}
    ports:
      gpu01: {netdev: enp11s0f0np0, pci: "0000:0b:00.0"}
      gpu02: {netdev: enp12s0f0np0, pci: "0000:0c:00.0"}
nodes:
  rack[1:2]-ai-[1:4]: {profile: hgx, index: "[1:8]"}
"""

INFINIBAND = """\
plugin: railyard.fabric.rails
fabric:
  name: ib
  attachment: ib-sriov
  provider: network-operator
  link_layer: infiniband
  mtu: 4092
  vfs: {count: 4, link_state: enable}
rails:
  gpu01: {}
  gpu02: {subnet: 172.16.12.0/24}
profiles:
  dgx:
    ports:
      gpu01: {netdev: ibp24s0, pci: "0000:18:00.0"}
      gpu02: {netdev: ibp42s0, pci: "0000:2a:00.0"}
nodes:
  dgx-[01:04]: {profile: dgx}
"""

PREFIX = """\
plugin: railyard.fabric.rails
fabric:
  name: big
  attachment: sriov
  provider: spiderpool
  mtu: 4200
  max_nodes: 24
  pods_per_node: 8
  vfs: {count: 8}
  routing: {mode: source, cross_rail: yes}
addresses:
  mode: prefix
  supernet: 172.16.0.0/12
  rail_prefix: 16
  node_prefix: 27
  gateway: first
  supernet6: fd00:172::/40
  rail_prefix6: 48
  node_prefix6: 112
  taken: {loops: .255.224-.255.255}
units:
  su[1:2]: {site: ams1, nodes: 16, leaf: "su{u}-r{n:02}p{p}", leaf_port: "swp{i}"}
  north: {number: 3, nodes: 16, leaves: {gpu02p2: odd}}
rails: {count: 2, name: "gpu{n:02}", planes: 2}
profiles:
  hgx:
    speed: 400
    pcie_gen: 5
    pcie_lanes: 16
    gpus: {0: "0000:1b:00.0", 1: "0000:43:00.0"}
    gpu_distance: PXB
    ports:
      gpu01p1: {slot: "4", port: 1, netdev: rail1a, gpu: 0}
      gpu01p2: {slot: "4", port: 2, netdev: rail1b, gpu: 0}
      gpu02p1: {pci: "0000:2a:00.0", netdev: rail2a, gpu: 1}
      gpu02p2: {pci: "0000:2a:00.1", netdev: rail2b, gpu: 1}
    other_ports:
      stor1: {role: storage, netdev: stor1, pci: "0000:49:00.0"}
groups:
  slow:
    vfs: {max_tx_rate: 100}
    ports: {gpu02p2: {speed: 200}}
    vars: {speed: slow}
nodes:
  n-su[1:2]-[01:04]: {profile: hgx, unit: "su[1:2]", rack: "k[1:2]"}
  odd-1: {profile: hgx, unit: north, place: 16, groups: [slow]}
  odd-2:
    profile: hgx
    unit: north
    ports:
      gpu01p1: {mac: "b8:3f:d2:00:00:01"}
names:
  network: "{rail}-{attachment}"
  interface: rail{k}
qos: {dscp: 26}
"""

COMMON = """\
plugin: railyard.fabric.rails
fabric: {name: two, attachment: macvlan, provider: spiderpool, mtu: 4200, max_nodes: 40, pods_per_node: 4}
addresses:
  mode: block
  block: 4
  gateway: last
  pods: .32-.200
  hosts: .201-.253
  pods6: "::1:0-::1:ff"
  hosts6: "::100-::1ff"
  gateway6: "::1"
  block6: 4
rails:
  gpu01: {subnet: 172.16.11.0/24, subnet6: "fd00:11::/64", taken: {switches: .1-.31}}
  gpu02:
    subnet: 172.16.12.0/24
    subnet6: "fd00:12::/64"
profiles:
  old:
    ports:
      gpu01: {netdev: nic1, serial: MT1, gpu: [0, 1]}
      gpu02: {netdev: nic2, gpu: [2, 3]}
    gpus: 4
nodes:
  o-1: {profile: old}
"""

GOOD = {"macvlan": MACVLAN, "sriov": SRIOV, "infiniband": INFINIBAND, "prefix": PREFIX, "common": COMMON}


class Wrong(t.NamedTuple):
    """``code`` at ``place``, on the first line that differs from the good file unless ``line`` is another."""

    title: str
    text: bytes
    code: str
    place: str
    line: int


def change(title: str, old: str, new: str, code: str, place: str, line: int = 0, base: str = MACVLAN) -> Wrong:
    assert base.count(old) == 1, "%s: %r is %d times in the good file" % (title, old, base.count(old))
    text = base.replace(old, new)
    if not line:
        pairs = zip(base.splitlines() + [""] * 99, text.splitlines())
        line = next(number for number, (was, now) in enumerate(pairs, 1) if was != now)
    return Wrong(title, text.encode("utf-8"), code, place, line)


def sriov(title: str, old: str, new: str, code: str, place: str, line: int = 0) -> Wrong:
    return change(title, old, new, code, place, line, SRIOV)


def infiniband(title: str, old: str, new: str, code: str, place: str, line: int = 0) -> Wrong:
    return change(title, old, new, code, place, line, INFINIBAND)


def prefix(title: str, old: str, new: str, code: str, place: str, line: int = 0) -> Wrong:
    return change(title, old, new, code, place, line, PREFIX)


def common(title: str, old: str, new: str, code: str, place: str, line: int = 0) -> Wrong:
    return change(title, old, new, code, place, line, COMMON)


WRONG = [
    # RY1xx: the file
    Wrong("nothing", b"", "RY104", "", 1),
    Wrong("only a comment", b"# soon\n---\n", "RY104", "", 1),
    Wrong("only blanks", b" \n\n ", "RY104", "", 1),
    Wrong("a word", b"fabric", "RY112", "", 1),
    Wrong("a list", b"- plugin: railyard.fabric.rails\n", "RY112", "", 1),
    Wrong("not text", b"plugin: railyard.fabric.rails\n\xff\xfe\x00", "RY102", "", 2),
    Wrong("utf-16", MACVLAN.encode("utf-16"), "RY102", "", 1),
    Wrong("an ELF file", b"\x7fELF\x02\x01\x01\x00" + bytes(64), "RY102", "", 1),
    Wrong("flow mappings without end", b"a: " + b"{a: " * 100000, "RY103", "a.a.a.a.a.a", 1),
    Wrong("block lists without end", b"- " * 5000, "RY103", "[0]" * 6, 1),
    change(
        "aliases deeper than Python goes",
        "vars: {bmc: 10.1.17.3,",
        "vars: {%s, bmc: 10.1.17.3,"
        % ", ".join(
            "a%d: &a%d %s%s%s" % (at, at, "[" * 30, "*a%d" % (at - 1) if at else "1", "]" * 30) for at in range(50)
        ),
        "RY103",
        "nodes.ai-3.vars.a1[0][0]",
    ),
    Wrong("too many bytes", b"# " + b"x" * (32 << 20), "RY103", "", 1),
    change("an escape character", "name: ai-10", "name: \x1bai-10", "RY102", ""),
    change("a tab as indentation", "  mtu: 4200", "\tmtu: 4200", "RY101", ""),
    change("two colons", "provider: spiderpool", "provider: spider: pool", "RY101", ""),
    change("wrong indentation", "    gateway: .254", "   gateway: .254", "RY101", ""),
    change("a percent sign", "rails:", "%rails:", "RY101", "", 13),
    change("a section twice", "nodes:\n", "rails: {}\nnodes:\n", "RY106", "rails"),
    change("a key twice", "mtu: 9000", "mtu: 9000\n    mtu: 4200", "RY106", "rails.gpu03.mtu"),
    change("a list as a key", "    mtu: 9000", "    [mtu]: 9000", "RY107", "rails.gpu03"),
    change("a Python object", "10.1.17.3", "!!python/object:os.system ls", "RY108", "nodes.ai-3.vars.bmc"),
    change("a tagged mapping", "  jupiter:", "  jupiter: !!omap", "RY108", "nodes.jupiter"),
    change("an alias without an anchor", "ai-3.example.com", "*host", "RY109", "nodes.ai-3.address"),
    change("an alias in its own anchor", "[rack_1]", "&g [rack_1, *g]", "RY109", "nodes.ai-[1:2].groups[1]"),
    change("a merge of a text", "    mtu: 9000", "    <<: gpu01", "RY109", "rails.gpu03.<<"),
    change("a misspelt section", "profiles:", "profile:", "RY110", "profile"),
    change("a misspelt required key", "  attachment: macvlan", "  attachement: macvlan", "RY110", "fabric.attachement"),
    change("a key that does not belong", "  routing:", "  colour: blue\n  routing:", "RY110", "fabric.colour"),
    change("a key in capitals", "    mtu: 9000", "    MTU: 9000", "RY110", "rails.gpu03.MTU"),
    change(
        "an unknown key of a port",
        "0000:0d:00.0}",
        "0000:0d:00.0, row: 1}",
        "RY110",
        "profiles.hgx.ports.gpu03.row",
    ),
    change("an unknown key of a node", "    index: 4", "    index: 4\n    row: 7", "RY110", "nodes.jupiter.row"),
    change("an unknown key of firmware", "sriov_en: true", "sriov: true", "RY110", "profiles.hgx.firmware.sriov"),
    change("an unknown key of routing", "first_table", "table", "RY110", "fabric.routing.table"),
    sriov("an unknown key of vfs", "trust: true", "trusted: true", "RY110", "fabric.vfs.trusted"),
    sriov("an unknown key of a generator", "count: 2,", "count: 2, start: 1,", "RY110", "rails.start"),
    change("no plugin", "plugin: railyard.fabric.rails\n", "", "RY111", "plugin", 1),
    Wrong("no rails", re.sub(r"(?s)rails:.*?profiles:", "profiles:", MACVLAN).encode("utf-8"), "RY111", "rails", 1),
    Wrong(
        "no ports beside other_ports",
        re.sub(r"    ports:\n(      gpu.*\n){4}", "", PREFIX).encode("utf-8"),
        "RY111",
        "profiles.hgx.ports",
        26,
    ),
    change("no name", "  name: ai-10-1-16\n", "", "RY111", "fabric.name", 2),
    change("no provider", "provider: spiderpool", "provider: ~", "RY111", "fabric.provider"),
    change("no MTU", "  mtu: 4200\n", "", "RY111", "fabric.mtu", 2),
    change("no subnet", "    subnet: 172.16.13.0/24\n", "", "RY111", "rails.gpu03.subnet", 16),
    change("a rail without a value", "profiles:\n", "  gpu04:\nprofiles:\n", "RY111", "rails.gpu04"),
    change(
        "nothing to know a port by",
        "netdev: enp13s0f0np0, pci: 0000:0d:00.0",
        "gpu: 3",
        "RY111",
        "profiles.hgx.ports.gpu03.netdev",
    ),
    change("no profile", "    profile: hgx\n    index: 4", "    index: 4", "RY111", "nodes.jupiter.profile", 38),
    change("a node without a value", "  jupiter:", "  saturn-9:\n  jupiter:", "RY111", "nodes.saturn-9"),
    sriov("no rail names", 'name: "gpu{n:02}", ', "", "RY111", "rails.name"),
    change("a fraction for a number", "mtu: 9000", "mtu: 4200.5", "RY112", "rails.gpu03.mtu"),
    change("an invalid date", "index: 4", "index: 4\n    vars: {a: 2021-99-99}", "RY112", "nodes.jupiter.vars.a"),
    change("leading zeros", "mtu: 9000", "mtu: 09000", "RY112", "rails.gpu03.mtu"),
    change("a list for a text", "ai-3.example.com", "[ai-3]", "RY112", "nodes.ai-3.address"),
    change("a mapping for a text", "provider: spiderpool", "provider: {a: b}", "RY112", "fabric.provider"),
    change(
        "a text for a section",
        '    vars: {bmc: 10.1.17.3, note: "{{ bmc }}"}',
        "    vars: x",
        "RY112",
        "nodes.ai-3.vars",
    ),
    change(
        "a list for a section",
        "  routing: {first_table: 101, first_priority: 10001}",
        "  routing: [1]",
        "RY112",
        "fabric.routing",
    ),
    change("a text for a port", "gpu03: null", "gpu03: none", "RY112", "nodes.ai-3.ports.gpu03"),
    change("a text for a truth", "sriov_en: true", "sriov_en: maybe", "RY112", "profiles.hgx.firmware.sriov_en"),
    change("an empty text", "name: ai-10-1-16", 'name: ""', "RY112", "fabric.name"),
    change("a null in a list", "[rack_1]", "[rack_1, ~]", "RY112", "nodes.ai-[1:2].groups[1]"),
    change("a negative MTU", "mtu: 9000", "mtu: -1", "RY113", "rails.gpu03.mtu"),
    change("a number of many digits", "mtu: 9000", "mtu: " + "9" * 5000, "RY113", "rails.gpu03.mtu"),
    change("table zero", "first_table: 101", "first_table: 0", "RY113", "fabric.routing.first_table"),
    change("an unreachable priority", "10001", "32766", "RY113", "fabric.routing.first_priority"),
    sriov("too many VFs", "{count: 8}", "{count: 128}", "RY113", "profiles.hgx.vfs.count"),
    sriov("VLAN 4095", "vlan: 100", "vlan: 4095", "RY113", "fabric.vfs.vlan"),
    sriov("priority 8", "qos: 3", "qos: 8", "RY113", "fabric.vfs.qos"),
    sriov("no rails by a generator", "{count: 2,", "{count: 0,", "RY113", "rails.count"),
    sriov("a hundred rails", "{count: 2,", "{count: 100,", "RY113", "rails.count"),
    change("an unknown attachment", "attachment: macvlan", "attachment: macvtap", "RY114", "fabric.attachment"),
    change("an unknown provider", "provider: spiderpool", "provider: multus", "RY114", "fabric.provider"),
    change("an unknown link layer", "link_layer: ethernet", "link_layer: roce", "RY114", "fabric.link_layer"),
    change("an unknown mode", "rdma_mode: shared", "rdma_mode: netns", "RY114", "fabric.rdma_mode"),
    change("unknown soft RDMA", "soft_rdma: null", "soft_rdma: iwarp", "RY114", "profiles.hgx.soft_rdma"),
    change("an unknown IMEX daemon", "mtu: 4200", "mtu: 4200\n  imex: {daemon: pod}", "RY114", "fabric.imex.daemon"),
    change("an unknown key of IMEX", "mtu: 4200", "mtu: 4200\n  imex: {deamon: host}", "RY110", "fabric.imex.deamon"),
    change(
        "a version of NCCL that YAML reads as a number",
        "mtu: 4200",
        "mtu: 4200\n  nccl: {version: 2.30}",
        "RY860",
        "fabric.nccl.version",
    ),
    change(
        "an unknown key of planes",
        "gpu01: {subnet",
        "gpu01: {planes: {count: 2, balance: hardware}, subnet",
        "RY110",
        "rails.gpu01.planes.balance",
    ),
    change(
        "firmware of a NIC without parameters",
        "soft_rdma: null\n    firmware: {link_type: eth",
        "nic: irdma\n    firmware: {link_type: ib",
        "RY550",
        "profiles.hgx.firmware",
        25,
    ),
    change("an unknown link type", "link_type: eth", "link_type: vpi", "RY114", "profiles.hgx.firmware.link_type"),
    sriov("an unknown link state", "link_state: auto", "link_state: up", "RY114", "fabric.vfs.link_state"),
    change("a template", "ai-3.example.com", '"{{ name }}"', "RY115", "nodes.ai-3.address"),
    sriov("an unknown field", "{n+10}", "{rail}", "RY115", "rails.subnet"),
    sriov("a field of code", "{n+10}", "{n*10}", "RY115", "rails.subnet"),
    sriov("a brace too many", "{n:02}", "{n:02}}", "RY115", "rails.name"),
    change("another plugin of ours", "plugin: railyard.fabric.rails", "plugin: rails", "RY116", "plugin"),
    # RY2xx: names
    change("capitals in the fabric's name", "name: ai-10-1-16", "name: AI", "RY201", "fabric.name"),
    change("a long name", "name: ai-10-1-16", "name: " + "a" * 41, "RY201", "fabric.name"),
    sriov("one name for all rails", "gpu{n:02}", "gpu01", "RY202", "rails.name"),
    change("a node named as a group", "  jupiter:", "  storage:\n    groups: [storage]", "RY205", "nodes.storage"),
    change("a node named as every group", "  jupiter:", "  all:", "RY205", "nodes.all"),
    change("capitals in a node's name", "jupiter:", "Jupiter:", "RY205", "nodes.Jupiter"),
    change("a space in a node's name", "jupiter:", "ju piter:", "RY205", "nodes.ju piter"),
    change("a long node name", "jupiter:", "j" * 64 + ":", "RY205", "nodes." + "j" * 60 + "..."),
    change("a range backwards", "  jupiter:", "  sun-[9:8]: {profile: hgx}\n  jupiter:", "RY206", "nodes.sun-[9:8]"),
    change("an open range", "  jupiter:", "  sun-[9:]: {profile: hgx}\n  jupiter:", "RY206", "nodes.sun-[9:]"),
    change(
        "a range of unequal digits",
        "  jupiter:",
        "  sun-[08:9]: {profile: hgx}\n  jupiter:",
        "RY206",
        "nodes.sun-[08:9]",
    ),
    change(
        "a range of both kinds", "  jupiter:", "  sun-[a:9]: {profile: hgx}\n  jupiter:", "RY206", "nodes.sun-[a:9]"
    ),
    change(
        "a range without steps", "  jupiter:", "  sun-[8:9:0]: {profile: hgx}\n  jupiter:", "RY206", "nodes.sun-[8:9:0]"
    ),
    change("a broken range in an address", "10.1.16.[1:2]", "10.1.16.[1-2]", "RY206", "nodes.ai-[1:2].address"),
    change(
        "a range beyond all counting",
        "groups: [rack_1]}",
        'rack: "r%s", groups: [rack_1]}' % ("[1:999999999]" * 3),
        "RY207",
        "nodes.ai-[1:2].rack",
    ),
    sriov("a shorter range of indexes", '"[1:8]"', '"[1:4]"', "RY207", "nodes.rack[1:2]-ai-[1:4].index"),
    change("a node in two ranges", "  ai-3:", "  ai-[2:2]: {profile: hgx}\n  ai-3:", "RY208", "nodes.ai-[2:2]"),
    change(
        "a long netdev", "netdev: enp13s0f0np0", "netdev: enp13s0f0np0.100", "RY209", "profiles.hgx.ports.gpu03.netdev"
    ),
    change(
        "a slash in a netdev", "netdev: enp13s0f0np0", "netdev: net/eth0", "RY209", "profiles.hgx.ports.gpu03.netdev"
    ),
    change(
        "a space in an RDMA device", "rdma: mlx5_gpu01", "rdma: mlx5 gpu01", "RY210", "profiles.hgx.ports.gpu01.rdma"
    ),
    change("the group all", "[rack_1]", "all", "RY212", "nodes.ai-[1:2].groups"),
    change("a group of ours", "[rack_1]", "[railyard_nodes]", "RY212", "nodes.ai-[1:2].groups"),
    change("a hyphen in a variable", "{bmc:", "{b-mc:", "RY213", "nodes.ai-3.vars.b-mc"),
    change("a variable of Ansible's", "{bmc:", "{hostvars:", "RY213", "nodes.ai-3.vars.hostvars"),
    change("the address twice", "{bmc:", "{ansible_host:", "RY213", "nodes.ai-3.vars.ansible_host"),
    # RY3xx: addresses
    change("an octet above 255", "gateway: .254", "gateway: .256", "RY301", "rails.gpu03.gateway"),
    change("a range of words", "    pods: .1-.200", "    pods: most", "RY301", "rails.gpu03.pods"),
    change("a range of three", "    pods: .1-.200", "    pods: .1-.9-.200", "RY301", "rails.gpu03.pods"),
    change("a prefix as a range", "    pods: .1-.200", "    pods: 172.16.13.0/25", "RY301", "rails.gpu03.pods"),
    infiniband("addresses without a subnet", "gpu01: {}", "gpu01: {hosts: .1-.9}", "RY111", "rails.gpu01.subnet"),
    change("a netmask", "172.16.13.0/24", "172.16.13.0/255.255.255.0", "RY302", "rails.gpu03.subnet"),
    change("a wrong reserved network", "10.1.16.0/24", "10.1.16/24", "RY302", "fabric.reserved.nodes"),
    change("host bits of a reserve", "10.1.16.0/24", "10.1.16.1/24", "RY303", "fabric.reserved.nodes"),
    change("IPv6", "172.16.13.0/24", "fd00::/64", "RY305", "rails.gpu03.subnet"),
    change("an IPv6 gateway", "gateway: .254", "gateway: fe80::1", "RY305", "rails.gpu03.gateway"),
    change(
        "pods elsewhere",
        "pods: 172.16.12.1-172.16.12.200",
        "pods: 172.16.13.1-172.16.13.200",
        "RY306",
        "rails.gpu02.pods",
    ),
    change(
        "hosts beyond the subnet",
        "    hosts: .201-.253",
        "    hosts: 172.16.13.201-172.16.14.1",
        "RY306",
        "rails.gpu03.hosts",
    ),
    change("the broadcast address as gateway", "gateway: .254", "gateway: .255", "RY307", "rails.gpu03.gateway"),
    change(
        "the broadcast address in hosts", "    hosts: .201-.253", "    hosts: .201-.255", "RY307", "rails.gpu03.hosts"
    ),
    change("pods and hosts overlap", "    pods: .1-.200", "    pods: .1-.201", "RY310", "rails.gpu03.hosts", 20),
    change("a rail among the nodes", "10.1.16.0/24", "172.16.13.0/26", "RY312", "rails.gpu03.subnet", 17),
    change("all rails among the pods", "10.233.64.0/18", "172.16.0.0/16", "RY312", "fabric.reserved.pods"),
    change("too few hosts", "    hosts: .201-.253", "    hosts: .201-.201", "RY313", "rails.gpu03.hosts"),
    change("too high an index", "index: 4", "index: 400", "RY313", "nodes.jupiter.index"),
    sriov("too few hosts on all rails", ".201-.253", ".201-.205", "RY313", "nodes.rack[1:2]-ai-[1:4].index", 18),
    change("half an address", "ai-3.example.com", "10.1.16", "RY315", "nodes.ai-3.address"),
    # RY4xx: rails, profiles, nodes
    change(
        "an unknown profile",
        "    profile: hgx\n    index: 4",
        "    profile: dgx\n    index: 4",
        "RY401",
        "nodes.jupiter.profile",
    ),
    infiniband(
        "a rail without a port",
        '      gpu02: {netdev: ibp42s0, pci: "0000:2a:00.0"}\n',
        "",
        "RY403",
        "profiles.dgx.ports",
        14,
    ),
    change("a PCI address without a function", "0000:0d:00.0", "0000:0d:00", "RY407", "profiles.hgx.ports.gpu03.pci"),
    change("function 8", "0000:0d:00.0", "0000:0d:00.8", "RY407", "profiles.hgx.ports.gpu03.pci"),
    change("a GPU by name", "gpu: 0", "gpu: first", "RY408", "profiles.hgx.ports.gpu01.gpu"),
    change("index zero", "index: 4", "index: 0", "RY411", "nodes.jupiter.index"),
    change("an index of letters", "index: 4", "index: four", "RY411", "nodes.jupiter.index"),
    sriov("one index for many", '"[1:8]"', "1", "RY411", "nodes.rack[1:2]-ai-[1:4].index"),
    change("an index twice", "index: 4", "index: 3", "RY412", "nodes.jupiter.index"),
    sriov(
        "an unused profile",
        "nodes:\n",
        "  dgx: {ports: {gpu01: {netdev: a}, gpu02: {netdev: b}}}\nnodes:\n",
        "RY413",
        "profiles.dgx",
    ),
    change(
        "too many nodes",
        "  jupiter:",
        "  sun-[1:99999999]: {profile: hgx}\n  jupiter:",
        "RY415",
        "nodes.sun-[1:99999999]",
    ),
    # RY5xx: rdma mode and attachment
    change("an attachment of InfiniBand", "attachment: macvlan", "attachment: ipoib", "RY503", "fabric.link_layer", 6),
    change("rxe named siww", "soft_rdma: null", "soft_rdma: siww", "RY114", "profiles.hgx.soft_rdma"),
    change(
        "a storage port without a PCI address beside managed firmware",
        "    ports:\n      gpu01: {netdev: enp11",
        "    other_ports: {stor1: {role: storage, netdev: stor1}}\n    ports:\n      gpu01: {netdev: enp11",
        "RY506",
        "profiles.hgx.other_ports.stor1",
    ),
    # RY6xx: SR-IOV
    infiniband("no VFs", "  vfs: {count: 4, link_state: enable}\n", "", "RY602", "fabric.vfs", 2),
    infiniband("a rate on InfiniBand", "link_state: enable", "max_tx_rate: 5", "RY605", "fabric.vfs.max_tx_rate"),
    # One mistake that others depend on
    change("misspelt hosts", "    hosts: .201-.253", "    host: .201-.253", "RY321", "rails.gpu03.host"),
    change(
        "a misspelt PCI address",
        ", pci: 0000:0d:00.0",
        ", pcie: 0000:0d:00.0",
        "RY110",
        "profiles.hgx.ports.gpu03.pcie",
    ),
    change("a misspelt index", "    index: 4", "    indx: 4", "RY110", "nodes.jupiter.indx"),
    sriov("a misspelt VLAN", "vlan: 100", "vlna: 100", "RY110", "fabric.vfs.vlna"),
    infiniband("a misspelt link layer", "link_layer", "linklayer", "RY110", "fabric.linklayer"),
    infiniband("a wrong link layer", "infiniband", "ib", "RY114", "fabric.link_layer"),
    infiniband("misspelt VFs", "  vfs:", "  vf:", "RY110", "fabric.vf"),
    infiniband("no fabric", "fabric:", "fabrik:", "RY110", "fabrik"),
    sriov("a generator without a count", "count: 2, ", "", "RY111", "rails.count"),
    sriov("a generator that counts a list", "count: 2", "count: [2]", "RY112", "rails.count"),
    change("a misspelt ports", "    ports:\n      gpu01", "    port:\n      gpu01", "RY110", "profiles.hgx.port"),
    change(
        "a port without keys",
        "gpu03: {netdev: enp13s0f0np0, pci: 0000:0d:00.0}",
        "gpu03:",
        "RY111",
        "profiles.hgx.ports.gpu03",
    ),
    change("a profile under another name", "  hgx:\n", "  h100:\n", "RY401", "nodes.ai-[1:2].profile", 31),
    # The sections addresses, units, groups, names, qos and lint
    prefix("a misspelt mode", "mode: prefix", "mode: prefixes", "RY114", "addresses.mode"),
    prefix("a misspelt supernet", "  supernet: ", "  supernett: ", "RY110", "addresses.supernett"),
    prefix("no prefix of a rail", "  rail_prefix: 16\n", "", "RY111", "addresses.rail_prefix", 11),
    prefix("no prefix of a node", "  node_prefix: 27\n", "", "RY111", "addresses.node_prefix", 11),
    prefix("a text for a prefix", "rail_prefix: 16", "rail_prefix: /20", "RY112", "addresses.rail_prefix"),
    prefix("a prefix beyond the family", "node_prefix: 27", "node_prefix: 33", "RY113", "addresses.node_prefix"),
    prefix("a rail larger than the supernet", "rail_prefix: 16", "rail_prefix: 8", "RY304", "addresses.rail_prefix"),
    prefix("a supernet too small", "172.16.0.0/12", "172.16.0.0/15", "RY327", "addresses.supernet"),
    prefix("host bits of a supernet", "172.16.0.0/12", "172.17.0.0/12", "RY303", "addresses.supernet"),
    prefix("a supernet of the other family", "172.16.0.0/12", "fd01::/40", "RY305", "addresses.supernet"),
    prefix("a supernet of the other family again", "fd00:172::/40", "10.0.0.0/8", "RY305", "addresses.supernet6"),
    prefix(
        "a node's prefix larger than its rail", "node_prefix: 27", "node_prefix: 15", "RY304", "addresses.node_prefix"
    ),
    prefix("a gateway for all nodes", "gateway: first", "gateway: .254", "RY328", "addresses.gateway"),
    prefix("a gateway that is a word", "gateway: first", "gateway: middle", "RY301", "addresses.gateway"),
    prefix("no gateway between prefixes", "gateway: first", "gateway: none", "RY330", "addresses.gateway"),
    prefix("a block in the mode prefix", "gateway: first", "gateway: first\n  block: 8", "RY321", "addresses.block"),
    prefix("pods in the mode prefix", "gateway: first", "gateway: first\n  pods: .1-.9", "RY321", "addresses.pods"),
    prefix(
        "a leaf's end in the mode prefix",
        "gateway: first",
        "gateway: first\n  leaf_end: first",
        "RY321",
        "addresses.leaf_end",
    ),
    prefix("taken among the nodes", ".255.224-.255.255", ".0.32-.0.63", "RY322", "addresses.taken.loops"),
    prefix("taken outside", ".255.224-.255.255", "10.0.0.1-10.0.0.9", "RY306", "addresses.taken.loops"),
    prefix("taken backwards", ".255.224-.255.255", ".255.255-.255.224", "RY308", "addresses.taken.loops"),
    prefix("too few units", "number: 3", "number: 200", "RY326", "addresses.taken.loops", 20),
    prefix("more pods than VFs", "pods_per_node: 8", "pods_per_node: 9", "RY610", "fabric.vfs.count", 9),
    prefix("no pods at all", "pods_per_node: 8", "pods_per_node: 0", "RY113", "fabric.pods_per_node"),
    prefix("an unknown way of routing", "mode: source", "mode: static", "RY114", "fabric.routing.mode"),
    prefix("an invalid flag", "cross_rail: yes", "cross_rail: some", "RY112", "fabric.routing.cross_rail"),
    prefix("an unknown key of units", "site: ams1", "sites: ams1", "RY110", "units.su[1:2].sites"),
    prefix("a unit without places", "number: 3, nodes: 16", "number: 3", "RY111", "units.north.nodes"),
    prefix("a unit's number twice", "number: 3", "number: 2", "RY421", "units.north"),
    prefix("one number for two units", "{site: ams1", "{number: 1, site: ams1", "RY421", "units.su[1:2].number"),
    prefix("units of different size", "number: 3, nodes: 16", "number: 3, nodes: 32", "RY422", "units.north.nodes"),
    prefix("a range of units backwards", "su[1:2]: {site", "su[2:1]: {site", "RY206", "units.su[2:1]"),
    prefix("a unit in capitals", "  north:", "  North: {number: 4, nodes: 16}\n  north:", "RY214", "units.North"),
    prefix("an unknown field of a leaf", "su{u}-r{n:02}p{p}", "su{u}-r{i}", "RY115", "units.su[1:2].leaf"),
    prefix("an unknown leaf's rail", "{gpu02p2: odd}", "{gpu02p3: odd}", "RY428", "units.north.leaves.gpu02p3"),
    prefix("one leaf for all rails", "su{u}-r{n:02}p{p}", "su{u}", "RY427", "units.su[1:2].leaf_port"),
    prefix("an unknown unit", "unit: north, place: 16", "unit: south, place: 16", "RY423", "nodes.odd-1.unit"),
    prefix("no unit", "unit: north, place: 16", "place: 16", "RY424", "nodes.odd-1"),
    prefix("a place beyond the unit", "place: 16", "place: 17", "RY425", "nodes.odd-1"),
    prefix("a place twice", "place: 16", "place: 2", "RY426", "nodes.odd-2", 47),
    prefix("a place of letters", "place: 16", "place: last", "RY411", "nodes.odd-1.place"),
    prefix("a range of units of another length", '"su[1:2]"', '"su[1:3]"', "RY207", "nodes.n-su[1:2]-[01:04].unit"),
    prefix("planes in words", "planes: 2", "planes: two", "RY419", "rails.planes"),
    prefix("a generator of many planes", "count: 2,", "count: 64,", "RY113", "rails"),
    prefix("a port on a rail of planes", "gpu02p2: {pci", "gpu02: {pci", "RY402", "profiles.hgx.ports.gpu02"),
    prefix("a slot and port twice", '"4", port: 2', '"4", port: 1', "RY417", "profiles.hgx.ports.gpu01p2.slot"),
    prefix("port zero", "port: 1,", "port: 0,", "RY113", "profiles.hgx.ports.gpu01p1.port"),
    prefix("a port in words", "port: 1,", "port: one,", "RY112", "profiles.hgx.ports.gpu01p1.port"),
    prefix(
        "a multicast MAC address", "b8:3f:d2:00:00:01", "b9:3f:d2:00:00:01", "RY416", "nodes.odd-2.ports.gpu01p1.mac"
    ),
    prefix("half a MAC address", "b8:3f:d2:00:00:01", "b8:3f:d2", "RY416", "nodes.odd-2.ports.gpu01p1.mac"),
    prefix("a speed in words", "speed: 400", "speed: 400G", "RY112", "profiles.hgx.speed"),
    prefix("an invalid distance", "PXB", "NEAR", "RY114", "profiles.hgx.gpu_distance"),
    prefix("a GPU at a port's address", "0000:43:00.0", "0000:2a:00.0", "RY904", "profiles.hgx.gpus.1"),
    prefix("an invalid PCI address of a GPU", "0000:43:00.0", "0000:43:00", "RY407", "profiles.hgx.gpus.1"),
    prefix("a GPU of the model by name", '1: "0000:43:00.0"', 'one: "0000:43:00.0"', "RY408", "profiles.hgx.gpus.one"),
    prefix("an invalid role", "role: storage", "role: compute", "RY114", "profiles.hgx.other_ports.stor1.role"),
    prefix("no role", "role: storage, ", "", "RY111", "profiles.hgx.other_ports.stor1.role"),
    change(
        "a node's rail on storage",
        "    ports:\n      gpu01: {netdev: enp11",
        "    other_ports: {stor1: {role: storage, netdev: stor1, pci: 0000:0e:00.0}}\n"
        "    ports:\n      gpu01: {netdev: enp11",
        "RY430",
        "nodes.jupiter.ports.gpu02.pci",
        43,
    ),
    change(
        "a node's rail on the card of storage",
        "    ports:\n      gpu01: {netdev: enp11",
        "    other_ports: {stor1: {role: storage, netdev: stor1, pci: 0000:0e:00.1}}\n"
        "    ports:\n      gpu01: {netdev: enp11",
        "RY431",
        "nodes.jupiter.ports.gpu02.pci",
        43,
    ),
    change(
        "a group's rail on storage",
        "    ports:\n      gpu01: {netdev: enp11",
        "    other_ports: {stor1: {role: storage, slot: PCIE_4, pci: 0000:4e:00.0}}\n"
        "    ports:\n      gpu01: {netdev: enp11",
        "RY430",
        "groups.rack_1.ports.gpu01.slot",
        31,
        MACVLAN.replace("nodes:\n  ai-", "groups: {rack_1: {ports: {gpu01: {slot: PCIE_4, port: 1}}}}\nnodes:\n  ai-"),
    ),
    change(
        "a node's port of a GPU that is not there",
        'gpu02: {pci: "0000:0e:00.0"}',
        'gpu02: {pci: "0000:0e:00.0", gpu: 9}',
        "RY903",
        "nodes.jupiter.ports.gpu02.gpu",
        0,
        MACVLAN.replace("    soft_rdma: null\n", "    gpus: 3\n"),
    ),
    prefix("storage on a rail", "0000:49:00.0", "0000:2a:00.0", "RY430", "profiles.hgx.other_ports.stor1.pci"),
    prefix("storage on a rail's card", "0000:49:00.0", "0000:2a:00.2", "RY431", "profiles.hgx.other_ports.stor1"),
    prefix(
        "an unknown key of a group", "    vars: {speed: slow}", "    var: {speed: slow}", "RY110", "groups.slow.var"
    ),
    prefix("a group without nodes", "groups: [slow]", "groups: [slower]", "RY433", "groups.slow", 40),
    prefix(
        "a group's rail that is not there",
        "ports: {gpu02p2: {speed",
        "ports: {gpu2p2: {speed",
        "RY402",
        "groups.slow.ports.gpu2p2",
    ),
    prefix(
        "a hyphen in a group's name", "groups:\n  slow:", "groups:\n  slow-1: {}\n  slow:", "RY212", "groups.slow-1", 40
    ),
    prefix("a hyphen in a variable of a group", "{speed: slow}", "{sp-eed: slow}", "RY213", "groups.slow.vars.sp-eed"),
    prefix("an unknown name", "  interface:", "  device: x\n  interface:", "RY110", "names.device"),
    prefix("an unknown field of a name", "rail{k}", "rail{i}", "RY115", "names.interface"),
    prefix("a long interface", "rail{k}", "interface-of-rail{k}", "RY806", "names.interface"),
    prefix("one interface for two planes", "rail{k}", "rail{n}", "RY807", "names.interface"),
    prefix("a network with a dot", "{rail}-{attachment}", "{rail}.{attachment}", "RY804", "names.network"),
    prefix("one network for all", "{rail}-{attachment}", "{attachment}", "RY807", "names.network"),
    prefix("a resource with a hyphen", "  interface:", "  resource: a-{rail}\n  interface:", "RY803", "names.resource"),
    change(
        "a pool of each node where all share one",
        "nodes:\n  ai-",
        'names: {pool: "p{i}-{rail}"}\nnodes:\n  ai-',
        "RY814",
        "names.pool",
    ),
    prefix("a pool in capitals", "  interface:", '  pool: "P{rail}{node}"\n  interface:', "RY805", "names.pool"),
    prefix(
        "a pool for all nodes",
        "  interface:",
        '  pool: "{rail}"\n  pool6: "x{rail}{node}"\n  interface:',
        "RY814",
        "names.pool",
    ),
    prefix("a namespace with a dot", "  interface:", "  namespace: a.b\n  interface:", "RY805", "names.namespace"),
    prefix("an unknown key of qos", "dscp: 26", "dcsp: 26", "RY110", "qos.dcsp"),
    prefix("a DSCP of seven bits", "dscp: 26", "dscp: 64", "RY113", "qos.dscp"),
    prefix("a text for qos", "qos: {dscp: 26}", "qos: lossless", "RY112", "qos"),
    prefix("a mapping for lint", "qos: {dscp: 26}", "lint: {rule: RY330}", "RY112", "lint"),
    prefix(
        "a lowering without a reason",
        "qos: {dscp: 26}",
        "lint: [{rule: RY330, place: addresses}]",
        "RY111",
        "lint[0].reason",
    ),
    prefix(
        "a lowering of no rule",
        "qos: {dscp: 26}",
        "lint: [{rule: RY999, place: fabric, reason: x}]",
        "RY117",
        "lint[0].rule",
    ),
    prefix(
        "a lowering of nothing",
        "qos: {dscp: 26}",
        "lint: [{rule: RY330, place: addresses, reason: x}]",
        "RY118",
        "lint[0]",
    ),
    prefix(
        "the provider's missing attachment",
        "attachment: sriov",
        "attachment: host-device",
        "RY801",
        "fabric.attachment",
    ),
    prefix(
        "an attachment of the other link layer",
        "attachment: sriov\n",
        "attachment: sriov\n  link_layer: infiniband\n",
        "RY503",
        "fabric.attachment",
        4,
    ),
    prefix(
        "Spiderpool's table", "mode: source,", "mode: source, first_table: 498,", "RY810", "fabric.routing.first_table"
    ),
    common("no block", "  block: 4\n", "", "RY111", "addresses.block", 3),
    common("a block of nothing", "block: 4", "block: 0", "RY113", "addresses.block"),
    common("a block larger than pods", "  block: 4", "  block: 200", "RY323", "addresses.block"),
    common("a block smaller than a node's pods", "  block: 4", "  block: 3", "RY323", "addresses.block"),
    common("growth beyond blocks", "max_nodes: 40", "max_nodes: 43", "RY325", "addresses.pods", 7),
    common("an IPv6 gateway among pods", 'gateway6: "::1"', 'gateway6: "::1:1"', "RY309", "addresses.pods6", 9),
    common("an IPv6 gateway elsewhere", 'gateway6: "::1"', 'gateway6: "fd00:13::1"', "RY306", "addresses.gateway6"),
    common("IPv6 pods and hosts overlap", '"::100-::1ff"', '"::1:80-::1:ff"', "RY310", "addresses.hosts6"),
    common("an IPv6 range backwards", '"::100-::1ff"', '"::1ff-::100"', "RY308", "addresses.hosts6"),
    common("an IPv4 range for IPv6", '"::100-::1ff"', "172.16.11.1-172.16.11.9", "RY305", "addresses.hosts6"),
    common(
        "two rails in one IPv6 subnet",
        '    subnet6: "fd00:12::/64"',
        '    subnet6: "fd00:11::/64"',
        "RY311",
        "rails.gpu02.subnet6",
    ),
    common("an address of a block is taken", ".1-.31", ".1-.32", "RY323", "rails.gpu01.taken"),
    common("a range in the list of another", ".1-.31", "[.1-.20, .20-.31]", "RY335", "rails.gpu01.taken.switches"),
    change("ranges in one list", "pods: .1-.200", "pods: [.1-.90, .90-.200]", "RY335", "rails.gpu03.pods"),
    change("a comma instead of a list", "pods: .1-.200", 'pods: ".1-.90, .91-.200"', "RY301", "rails.gpu03.pods"),
    change("an empty list of ranges", "pods: .1-.200", "pods: []", "RY104", "rails.gpu03.pods"),
    change("an offset outside", "pods: .1-.200", "pods: +256-+300", "RY306", "rails.gpu03.pods"),
    change("a wrong range of a list", "pods: .1-.200", "pods: [.1-.90, .91-]", "RY301", "rails.gpu03.pods[1]"),
    common(
        "a prefix in the mode block",
        "  mode: block",
        "  mode: block\n  node_prefix: 27",
        "RY321",
        "addresses.node_prefix",
    ),
    common("a serial number for two", "  o-1:", "  o-[1:2]:", "RY417", "profiles.old.ports.gpu01.serial", 21),
    common("an idle GPU", "gpu: [2, 3]", "gpu: 2", "RY902", "profiles.old.gpus", 23),
    # RY96x, RY97x: what nodes are given
    change(
        "an unknown key of limits",
        "mtu: 4200",
        "mtu: 4200\n  limits: {memlok: unlimited}",
        "RY110",
        "fabric.limits.memlok",
    ),
    change("an unknown way for ACS", "soft_rdma: null", "pci: {acs: enabled}", "RY114", "profiles.hgx.pci.acs"),
    change(
        "a read request of no size",
        "soft_rdma: null",
        "pci: {max_read_request: 4000}",
        "RY114",
        "profiles.hgx.pci.max_read_request",
    ),
    change("a PCI address for the bus", "soft_rdma: null", "pci: 0000:0b:00.0", "RY112", "profiles.hgx.pci"),
    change(
        "a quoted kernel argument",
        "soft_rdma: null",
        "pci: {kernel_arguments: ['a=\"b c\"']}",
        "RY961",
        "profiles.hgx.pci.kernel_arguments[0]",
    ),
    change(
        "hugepages by their bytes",
        "mtu: 4200",
        "mtu: 4200\n  limits: {hugepages: {2048kB: 8}}",
        "RY962",
        "fabric.limits.hugepages.2048kB",
    ),
    change(
        "half a hugepage",
        "mtu: 4200",
        "mtu: 4200\n  limits: {hugepages: {2M: 0.5}}",
        "RY112",
        "fabric.limits.hugepages.2M",
    ),
    change(
        "hugepages of one size twice",
        "mtu: 4200",
        "mtu: 4200\n  limits: {hugepages: {2M: 1024, 2048K: 512}}",
        "RY962",
        "fabric.limits.hugepages.2048K",
    ),
    change(
        "hugepages with an invalid digit",
        "mtu: 4200",
        "mtu: 4200\n  limits: {hugepages: {\u00b2M: 8}}",
        "RY962",
        "fabric.limits.hugepages.\u00b2M",
        9,
    ),
    change(
        "hugepages as a number", "mtu: 4200", "mtu: 4200\n  limits: {hugepages: 64}", "RY112", "fabric.limits.hugepages"
    ),
    change(
        "no neighbours",
        "mtu: 4200",
        "mtu: 4200\n  limits: {neighbours: {gc_thresh3: 0}}",
        "RY113",
        "fabric.limits.neighbours.gc_thresh3",
    ),
    change(
        "the IOMMU passed through and off",
        "soft_rdma: null",
        "pci: {iommu: passthrough, kernel_arguments: [amd_iommu=off]}",
        "RY965",
        "profiles.hgx.pci.kernel_arguments[0]",
    ),
    change(
        "GPUDirect of soft RDMA",
        "soft_rdma: null",
        "gpudirect: {}\n    soft_rdma: siw",
        "RY972",
        "profiles.hgx.gpudirect",
    ),
    change(
        "an unknown way to the GPU",
        "soft_rdma: null",
        "gpudirect: {path: dma-buf}",
        "RY114",
        "profiles.hgx.gpudirect.path",
    ),
    common("a gateway that is the broadcast address", "gateway: last", "gateway: .255", "RY307", "addresses.gateway"),
]
