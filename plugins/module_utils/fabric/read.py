# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""From the values of a fabric file to the fabric. What a value alone can have wrong is found here."""

from __future__ import annotations

import ipaddress
import re
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils.fabric import names
from ansible_collections.railyard.fabric.plugins.module_utils.fabric.addresses import (
    Network,
    Range,
    network,
    parse_address,
    parse_network,
    parse_range,
    show,
)
from ansible_collections.railyard.fabric.plugins.module_utils.fabric.finding import Path, Report, Rule, shown
from ansible_collections.railyard.fabric.plugins.module_utils.fabric.model import (
    ATTACHMENTS,
    ETHERNET,
    EXCLUSIVE,
    INFINIBAND,
    PROVIDERS,
    SHARED,
    Fabric,
    Firmware,
    Node,
    Port,
    Profile,
    Rail,
    Setting,
    VfSettings,
)
from ansible_collections.railyard.fabric.plugins.module_utils.fabric.rules import addresses as address_rules
from ansible_collections.railyard.fabric.plugins.module_utils.fabric.rules import file as file_rules
from ansible_collections.railyard.fabric.plugins.module_utils.fabric.rules import names as name_rules
from ansible_collections.railyard.fabric.plugins.module_utils.fabric.rules import rails as rail_rules
from ansible_collections.railyard.fabric.plugins.module_utils.fabric.section import Section, section_of
from ansible_collections.railyard.fabric.plugins.module_utils.fabric.source import Document, Scalar, Value, plain

PLUGIN = "railyard.fabric.rails"
MAX_LABEL = 40
MAX_RAILS = 64
# NVIDIA documents 127 as the most VFs a port can have.
MAX_VFS = 127
_MTU = {ETHERNET: (576, 9978), INFINIBAND: (576, 65520)}
# Where one of these has a single value, the rails are generated: a rail of that name would have a mapping.
_GENERATOR = ("count", "name", "subnet", "gateway", "pods", "hosts", "mtu")
_MAX_RATE = 1000 * 1000
_MAX_GPU = 63
# Ansible's own, which a variable of that name would break.
_MAGIC = frozenset(
    ("inventory_hostname", "inventory_hostname_short", "group_names", "groups", "hostvars", "omit", "vars")
)
_LABEL_REMEDY = "use lower-case letters, digits and hyphens, at most %d, a letter or digit first and last"


def read(document: Document, report: Report) -> Fabric:
    """The fabric, as far as it can be read; everything unreadable has gone to ``report``."""
    top = Section(document.root, (), report)
    plugin = top.text("plugin", "begin the file with plugin: %s" % PLUGIN)
    if plugin not in (None, PLUGIN):
        message = "%s is not %s" % (shown(plugin or ""), PLUGIN)
        report.add(file_rules.PLUGIN, ("plugin",), message, "begin the file with plugin: %s" % PLUGIN)
    fabric = Fabric()
    general = top.section("fabric", "describe it: name, attachment, provider, mtu")
    if general:
        _general(fabric, general, report)
    rails = top.section("rails", "describe each rail, such as gpu01: {subnet: 172.16.11.0/24, hosts: .201-.253}")
    if rails:
        _rails(fabric, rails, report)
    profiles = top.section("profiles", "describe a server model and its ports")
    if profiles and _filled(profiles, report, "a server model"):
        for name in profiles.mapping.entries:
            fabric.profiles[name] = _profile(name, profiles, report)
    nodes = top.section("nodes", "name the nodes, such as ai-[1:2]: {profile: hgx}")
    if nodes and _filled(nodes, report, "a node"):
        _nodes(fabric, nodes, report)
    top.done()
    return fabric


def _filled(section: Section, report: Report, what: str) -> bool:
    if not section.mapping.entries:
        report.add(file_rules.EMPTY, section.path, "%s is empty" % section.path[-1], "describe %s" % what)
    return bool(section.mapping.entries)


def _label(text: str, path: Path, rule: Rule, what: str, report: Report, limit: int = MAX_LABEL) -> None:
    if not names.label(text, limit):
        report.add(rule, path, "%s is no name for %s" % (shown(text), what), _LABEL_REMEDY % limit)


# -- fabric ----------------------------------------------------------------------------------------------------------


def _general(fabric: Fabric, section: Section, report: Report) -> None:
    fabric.name = section.text("name", "name the fabric")
    if fabric.name is not None:
        _label(fabric.name, section.path + ("name",), name_rules.FABRIC_NAME, "a fabric", report)
    fabric.attachment = section.choice("attachment", ATTACHMENTS, "say how pods get onto the rails: macvlan or sriov")
    fabric.provider = section.choice("provider", PROVIDERS, "say who serves the attachments: %s" % ", ".join(PROVIDERS))
    fabric.link_layer = section.choice("link_layer", (ETHERNET, INFINIBAND))
    if not section.has("link_layer") and not section.misspelt("link_layer"):
        fabric.link_layer = ETHERNET
    fabric.rdma_mode = section.choice("rdma_mode", (SHARED, EXCLUSIVE))
    fabric.mtu = _mtu(fabric, section, "say what every switch of the rails carries, such as mtu: 4200")
    fabric.mac_seed = section.text("mac_seed")
    reserved = section.section("reserved")
    if reserved:
        for name in reserved.mapping.entries:
            text = reserved.text(name)
            net = None if text is None else _network(text, reserved.path + (name,), report)
            if net:
                fabric.reserved[name] = net
    routing = section.section("routing")
    if routing:
        fabric.first_table = routing.number("first_table", 1, 2**32 - 1) or fabric.first_table
        fabric.first_priority = routing.number("first_priority", 1, 32765) or fabric.first_priority
        routing.done()
    fabric.vfs = _vfs(section)
    section.done()


def _mtu(fabric: Fabric, section: Section, required: str = "") -> int | None:
    low, high = _MTU[fabric.link_layer or INFINIBAND]
    return section.number("mtu", low, high, "bytes", required)


def _vfs(section: Section) -> VfSettings:
    vfs = section.section("vfs")
    if not vfs:
        return {}
    values = {
        "count": vfs.number("count", 0, MAX_VFS, "VFs"),
        "vlan": vfs.number("vlan", 0, 4094),
        "qos": vfs.number("qos", 0, 7),
        "trust": vfs.flag("trust"),
        "spoofchk": vfs.flag("spoofchk"),
        "link_state": vfs.choice("link_state", ("auto", "enable", "disable")),
        "min_tx_rate": vfs.number("min_tx_rate", 0, _MAX_RATE, "Mb/s"),
        "max_tx_rate": vfs.number("max_tx_rate", 0, _MAX_RATE, "Mb/s"),
    }
    vfs.done()
    return {key: Setting(value, vfs.path + (key,)) for key, value in values.items() if vfs.has(key)}


def _network(text: str, path: Path, report: Report) -> Network | None:
    found = parse_network(text)
    if found is None:
        if _six(text):
            report.add(address_rules.IPV6, path, "%s is IPv6, which is not yet supported" % shown(text), "use IPv4")
        else:
            message = "%s is no network" % shown(text)
            report.add(address_rules.NETWORK, path, message, "write it as address/prefix, such as 172.16.11.0/24")
        return None
    address, prefix = found
    net = network(address, prefix)
    if net.first != address:
        message = "%s is an address in %s, not a network" % (text, net)
        report.add(address_rules.HOST_BITS, path, message, "write %s" % net)
    return net


def _six(text: str) -> bool:
    return bool(re.match(r"[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*(/[0-9]+)?\Z", text))


# -- rails -----------------------------------------------------------------------------------------------------------


def _rails(fabric: Fabric, section: Section, report: Report) -> None:
    if not _filled(section, report, "each rail, or a generator with count"):
        return
    entries = section.mapping.entries
    if any(key in entries and isinstance(entries[key][1], Scalar) and section.has(key) for key in _GENERATOR):
        _generated_rails(fabric, section, report)
        return
    if len(section.mapping.entries) > MAX_RAILS:
        message = "%d rails; %d are the most" % (len(section.mapping.entries), MAX_RAILS)
        report.add(file_rules.RANGE, section.path, message, "describe one fabric a file")
        return
    for number, name in enumerate(section.mapping.entries, 1):
        path = section.path + (name,)
        _label(name, path, name_rules.RAIL_NAME, "a rail", report)
        rail = Rail(name, number, path)
        fabric.rails.append(rail)
        own = section.section(name, "describe the rail: {subnet: 172.16.11.0/24, hosts: .201-.253}")
        if own:
            _rail(fabric, rail, own, own.text, report)
            own.done()


def _generated_rails(fabric: Fabric, section: Section, report: Report) -> None:
    count = section.number("count", 1, MAX_RAILS, "rails", "say how many rails there are")
    template = section.text("name", "name the rails, such as name: gpu{n:02}, in quotes")
    for key in _GENERATOR:
        section.value(key)
    section.value("vfs")
    if count and template is not None:
        known: set[str] = set()
        for number in range(1, count + 1):

            def filled(key: str, required: str = "", number: int = number) -> str | None:
                text = section.text(key, required)
                if text is None:
                    return None
                try:
                    return names.fill(text, number)
                except names.BadTemplate as error:
                    message = "%s has a part that is no template" % shown(text)
                    remedy = "write {n}, {n+10} or {n:02}: the rail's number, from 1 (found %s)" % shown(str(error))
                    report.add(file_rules.TEMPLATE, section.path + (key,), message, remedy)
                    return None

            name = filled("name")
            if name is None:
                break
            if name in known:
                message = "rails %d and %d would both be %s" % (number - 1, number, shown(name))
                report.add(name_rules.RAIL_NAME, section.path + ("name",), message, "put {n:02} into the name")
                fabric.rails = []
                break
            known.add(name)
            _label(name, section.path + ("name",), name_rules.RAIL_NAME, "a rail", report)
            rail = Rail(name, number, section.path)
            fabric.rails.append(rail)
            _rail(fabric, rail, section, filled, report)
    section.done()


def _rail(fabric: Fabric, rail: Rail, section: Section, text: t.Callable[..., str | None], report: Report) -> None:
    """``text`` gives a key's text: as it stands, or filled in with the rail's number."""
    addresses = fabric.link_layer == ETHERNET or any(section.has(key) for key in ("gateway", "pods", "hosts"))
    subnet = text("subnet", "write it, such as subnet: 172.16.11.0/24" if addresses else "")
    if subnet is not None:
        net = _network(subnet, rail.path + ("subnet",), report)
        if net and net.prefix > 30:
            message = "%s has no room for a host beside network and broadcast address" % net
            report.add(address_rules.SUBNET_SIZE, rail.path + ("subnet",), message, "take a /30 or larger")
            net = None
        rail.subnet = net
    # Without its subnet nothing can be said of an address, and of the subnet enough has been said.
    known = rail.subnet is not None
    gateway = text("gateway")
    if gateway is not None and known:
        rail.gateway = _address(gateway, rail.path + ("gateway",), rail.subnet, report)
    for key in ("pods", "hosts"):
        held = text(key)
        if held is not None and known:
            setattr(rail, key, _range(held, rail.path + (key,), rail.subnet, report))
    rail.mtu = _mtu(fabric, section)
    rail.vfs = _vfs(section)


def _address(text: str, path: Path, subnet: Network | None, report: Report) -> int | None:
    address = parse_address(text, subnet)
    if address is None:
        _no_address(text, path, "an address, such as 172.16.11.254 or .254", report)
    return address


def _range(text: str, path: Path, subnet: Network | None, report: Report) -> Range | None:
    found = parse_range(text, subnet)
    if found is None:
        _no_address(text, path, "first-last, such as 172.16.11.1-172.16.11.200 or .1-.200", report)
        return None
    if found[0] > found[1]:
        message = "%s comes after %s" % (show(found[0]), show(found[1]))
        report.add(address_rules.BACKWARDS, path, message, "write %s" % Range(found[1], found[0]))
        return None
    return Range(*found)


def _no_address(text: str, path: Path, form: str, report: Report) -> None:
    if _six(text):
        report.add(address_rules.IPV6, path, "%s is IPv6, which is not yet supported" % shown(text), "use IPv4")
    else:
        report.add(address_rules.ADDRESS, path, "%s is not what belongs here" % shown(text), "write %s" % form)


# -- profiles --------------------------------------------------------------------------------------------------------


def _profile(name: str, parent: Section, report: Report) -> Profile:
    path = parent.path + (name,)
    _label(name, path, name_rules.PROFILE_NAME, "a profile", report)
    profile = Profile(name, path)
    section = parent.section(name, "describe its ports")
    if not section:
        return profile
    profile.soft_rdma = section.choice("soft_rdma", ("rxe", "siw"))
    firmware = section.section("firmware")
    if firmware:
        profile.firmware = Firmware(
            firmware.choice("link_type", ("eth", "ib")),
            firmware.flag("sriov_en"),
            firmware.number("num_of_vfs", 0, MAX_VFS, "VFs"),
            firmware.path,
        )
        firmware.done()
    profile.vfs = _vfs(section)
    ports = section.section("ports", "name its ports by rail, such as gpu01: {netdev: enp11s0f0np0}")
    if ports and _filled(ports, report, "at least one port"):
        for rail, own in ports.sections():
            texts = _port_texts(own, "say the port's netdev, such as enp11s0f0np0")
            profile.ports[rail] = _port(rail, own.path, texts, report)
    section.done()
    return profile


# Attribute -> (its text, where it stands); gpu has a list of them.
_Texts = t.Dict[str, t.List[t.Tuple[str, Path]]]


def _port_texts(section: Section, netdev: str = "") -> _Texts:
    texts: _Texts = {}
    for key in ("netdev", "pci", "rdma"):
        text = section.text(key, netdev if key == "netdev" else "")
        if text is not None:
            texts[key] = [(text, section.path + (key,))]
    if section.has("gpu"):
        listed = not isinstance(section.value("gpu"), Scalar)
        path = section.path + ("gpu",)
        texts["gpu"] = [(text, path + (at,) if listed else path) for at, text in enumerate(section.texts("gpu"))]
    else:
        section.value("gpu")
    section.done()
    return texts


def _port(rail: str, path: Path, texts: _Texts, report: Report) -> Port:
    port = Port(rail, path, paths={key: path + (key,) for key in texts})
    for text, place in texts.get("netdev", ()):
        port.netdev = text
        if not names.NETDEV.match(text):
            message = "%s is no name for a netdev" % shown(text)
            report.add(
                name_rules.NETDEV_NAME, place, message, "use at most 15 characters, without slash, colon and space"
            )
    for text, place in texts.get("pci", ()):
        port.pci = names.pci(text)
        if port.pci is None:
            message = "%s is no PCI address" % shown(text)
            report.add(rail_rules.PCI_ADDRESS, place, message, "write domain:bus:device.function, such as 0000:0b:00.0")
    for text, place in texts.get("rdma", ()):
        port.rdma = text
        if not names.RDMA.match(text):
            message = "%s is no name for an RDMA device" % shown(text)
            remedy = "use letters, digits, dots, hyphens and underscores, at most 63"
            report.add(name_rules.RDMA_NAME, place, message, remedy)
    gpus: list[int] = []
    for text, place in texts.get("gpu", ()):
        if not re.match(r"[0-9]{1,2}\Z", text) or int(text) > _MAX_GPU:
            message = "%s is no GPU" % shown(text)
            report.add(
                rail_rules.GPU, place, message, "write its number, from 0 to %d, or a list of numbers" % _MAX_GPU
            )
        elif int(text) in gpus:
            report.add(rail_rules.GPU, place, "GPU %s stands here twice" % text, "keep one")
        else:
            gpus.append(int(text))
    port.gpus = tuple(gpus)
    return port


# -- nodes -----------------------------------------------------------------------------------------------------------


def _nodes(fabric: Fabric, section: Section, report: Report) -> None:
    known: dict[str, str] = {}
    total = 0
    for pattern in section.mapping.entries:
        path = section.path + (pattern,)
        own = section.section(pattern, "say its profile, such as {profile: hgx}")
        try:
            spread = names.HostRange(pattern)
        except names.BadRange as error:
            _bad_range(pattern, path, error, report)
            continue
        total += len(spread)
        if total > rail_rules.MAX_NODES:
            message = "with %s there are %d nodes; %d are the most" % (shown(pattern), total, rail_rules.MAX_NODES)
            report.add(rail_rules.TOO_MANY_NODES, path, message, "correct the range, or describe one fabric a file")
            return
        if own:
            _pattern(fabric, pattern, spread, own, known, report)


def _bad_range(text: str, path: Path, error: names.BadRange, report: Report) -> None:
    message = "%s cannot be expanded: %s" % (shown(text), error)
    report.add(name_rules.HOST_RANGE, path, message, "write it as [1:16] or [01:16]")


def _pattern(
    fabric: Fabric, pattern: str, spread: names.HostRange, section: Section, known: dict[str, str], report: Report
) -> None:
    path = section.path
    count = len(spread)
    profile = section.text("profile", "say the node's server model, one of profiles")
    addresses = _along(section.text("address"), path + ("address",), count, report)
    indexes = _along(section.text("index"), path + ("index",), count, report)
    groups = _groups(section, report)
    variables = _variables(section, report)
    ports = _overrides(section, count, report)
    index_misspelt = section.misspelt("index")
    section.done()
    for at, (name, number) in enumerate(spread.numbered()):
        if name in known:
            message = "%s is in %s already" % (shown(name), shown(known[name]))
            report.add(name_rules.NODE_TWICE, path, message, "let each node stand in one entry")
            continue
        known[name] = pattern
        if not names.NODE.match(name):
            remedy = "use lower-case letters, digits, hyphens and dots, at most 63 between dots"
            report.add(name_rules.NODE_NAME, path, "%s is no host name" % shown(name), remedy)
        node = Node(name, path, profile=profile, groups=groups, vars=variables)
        node.ports = {rail: each[at] if len(each) > 1 else each[0] for rail, each in ports.items() if each}
        if addresses:
            node.address = _management(_at(addresses, at), path + ("address",), report)
        if indexes:
            node.index_path = path + ("index",)
            node.index = _index(indexes, at, node.index_path, count, report)
        elif not section.has("index") and not index_misspelt:
            node.index = _counted(name, number if spread.ranges == 1 else None, path, report)
        fabric.nodes.append(node)


def _at(values: t.Sequence[str], at: int) -> str:
    return values[at] if len(values) > 1 else values[0]


def _along(text: str | None, path: Path, count: int, report: Report) -> list[str]:
    """A text's expansions, one a node, or just one for all; empty for no text or a wrong one."""
    if text is None:
        return []
    try:
        spread = names.HostRange(text)
    except names.BadRange as error:
        _bad_range(text, path, error, report)
        return []
    if spread.ranges and len(spread) != count:
        message = "%s is %d values for %d nodes" % (shown(text), len(spread), count)
        report.add(name_rules.RANGE_LENGTH, path, message, "make both ranges equally long")
        return []
    return list(spread)


def _management(text: str, path: Path, report: Report) -> str | None:
    try:
        ipaddress.ip_address(text)
        return text
    except ValueError:
        pass
    if names.HOST.match(text) and not re.match(r"[0-9.]+\Z", text):
        return text
    message = "%s is neither an IP address nor a host name" % shown(text)
    report.add(address_rules.NODE_ADDRESS, path, message, "write the address by which Ansible reaches the node")
    return None


def _index(texts: t.Sequence[str], at: int, path: Path, count: int, report: Report) -> int | None:
    text = _at(texts, at)
    if len(texts) == 1 and count > 1:
        remedy = 'write a range, such as index: "[1:%d]"' % count
        report.add(rail_rules.INDEX, path, "%s is one index for %d nodes" % (shown(text), count), remedy)
        return None
    if not re.match(r"[0-9]{1,9}\Z", text) or int(text) < 1:
        message = "%s is no index" % shown(text)
        report.add(rail_rules.INDEX, path, message, "write a whole number from 1")
        return None
    return int(text)


def _counted(name: str, number: int | None, path: Path, report: Report) -> int | None:
    """The index that follows from the name."""
    index = names.trailing_number(name) if number is None else number
    if index is None:
        message = "%s has no number to be its index" % shown(name)
        report.add(rail_rules.NO_INDEX, path, message, "say index, a number that stays with the node for good")
    elif index < 1:
        message = "%s has the number 0, and indexes begin at 1" % shown(name)
        report.add(rail_rules.INDEX, path, message, 'say index, such as index: "[1:8]" for a range of nodes')
        return None
    return index


def _groups(section: Section, report: Report) -> tuple[str, ...]:
    groups = []
    for group in section.texts("groups"):
        if not names.IDENTIFIER.match(group) or group in ("all", "ungrouped") or group.startswith("railyard_"):
            message = "%s is no name for a group here" % shown(group)
            remedy = "use letters, digits and underscores; all, ungrouped and railyard_... are taken"
            report.add(name_rules.GROUP_NAME, section.path + ("groups",), message, remedy)
        groups.append(group)
    return tuple(groups)


def _variables(section: Section, report: Report) -> dict[str, t.Any]:
    own = section.section("vars")
    found: dict[str, t.Any] = {}
    if own is None:
        return found
    for name in own.mapping.entries:
        path = section.path + ("vars", name)
        taken = name in _MAGIC or name.startswith("railyard_") or (name == "ansible_host" and section.has("address"))
        if taken or not names.IDENTIFIER.match(name):
            why = (
                "is set by address" if name == "ansible_host" else "is taken" if taken else "is no name for a variable"
            )
            remedy = (
                "keep one of the two" if name == "ansible_host" else "use another name of letters, digits, underscores"
            )
            report.add(name_rules.VARIABLE_NAME, path, "%s %s" % (shown(name), why), remedy)
            continue
        try:
            found[name] = plain(own.mapping.entries[name][1])
        except ValueError as error:
            report.add(file_rules.KIND, path, str(error), "put it in quotes")
    return found


def _overrides(section: Section, count: int, report: Report) -> dict[str, list[Port | None]]:
    """Rail -> the ports of the pattern's nodes, or the one port of all of them."""
    own = section.section("ports")
    found: dict[str, list[Port | None]] = {}
    for rail, (_key, value) in own.mapping.entries.items() if own else ():
        path = section.path + ("ports", rail)
        if value.null:
            found[rail] = [None]
            continue
        found[rail] = _override(rail, path, value, count, report)
    return found


def _override(rail: str, path: Path, value: Value, count: int, report: Report) -> list[Port | None]:
    section = section_of(value, path, report)
    if section is None:
        return []
    texts = _port_texts(section)
    spread: dict[str, list[list[str]]] = {}
    for key, each in texts.items():
        spread[key] = [_along(text, place, count, report) for text, place in each]
    if any(not one for each in spread.values() for one in each):
        return []
    many = any(len(one) > 1 for each in spread.values() for one in each)
    ports: list[Port | None] = []
    for at in range(count if many else 1):
        mine = {key: [(_at(one, at), place) for one, (_text, place) in zip(spread[key], texts[key])] for key in texts}
        ports.append(_port(rail, path, mine, report))
    return ports
