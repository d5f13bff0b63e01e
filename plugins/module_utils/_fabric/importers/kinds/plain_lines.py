# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""Facts in single lines of any file: requests of pods, nodes, route tables, and port settings in scripts."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import shown
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base import import_rules, pool_ranges
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base.import_facts import (
    Ask,
    Facts,
    HostPort,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base.import_findings import Found, Place
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.kinds import object_shape
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.sources import lenient_json
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.sources.manifest_texts import (
    Text,
    report_duplicates,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.ip_integers import IPV4
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.name_syntax import NODE
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.yaml_source import Mapping, Sequence

_NETWORKS = re.compile(r"( *)(?:- )?[\"']?k8s\.v1\.cni\.cncf\.io/networks[\"']?\s*:\s*(.*)$")
_LIMITS = re.compile(r"( *)(?:- )?[\"']?(limits|requests)[\"']?\s*:\s*(#.*)?$")
_RESOURCE = re.compile(r"( *)[\"']?([a-z0-9][a-z0-9.-]*/[A-Za-z0-9_.-]+)[\"']?\s*:\s*[\"']?[0-9]+[\"']?\s*(#.*)?$")
# Resources that do not belong to a network.
_OTHERS = re.compile(r"(nvidia\.com/(gpu|mig-)|amd\.com/gpu|habana\.ai/|.*/(hugepages|ephemeral))")
_NAMED = re.compile(r"(?:([a-z0-9.-]+)/)?([A-Za-z0-9.-]+)(?:@[\w.-]+)?\Z")
_BLOCK = re.compile(r"[|>][-+0-9]*\s*(#.*)?$")
_ROUTE = re.compile(r"\s*([0-9.]+/[0-9]+) dev net([0-9]{1,2})\b")
_VIA = re.compile(r"\s*([0-9.]+/[0-9]+) via [0-9.]+ dev (?!net[0-9]|eth0\b|veth|cali|tunl)")
_HOSTNAME = re.compile(r"\s*(?:- )?(?:key:\s*)?[\"']?kubernetes\.io/hostname[\"']?\s*(?::\s*[\"']?([\w.-]+))?")
_ALLOCATABLE = re.compile(r"\s*\"name\"\s*:\s*\"([a-z0-9.-]+)\"")
_SCRIPT = re.compile(
    r"\b(INTERFACE|IPV4_IP|IPV4_GATEWAY|GATEWAY|MTU|ENABLE_POLICY_ROUTE|RDMA_CIDR|RDMA_SUBNET"
    r"|GPU_RDMA_PRIORITY|GPU_CNP_PRIORITY)=[\"']?([^\s\"'\\;$`]+)"
)
# Maximum number of lines of a command with its variables.
_SPREAD = 8


def scan(text: Text, facts: Facts, found: Found) -> None:
    """Read the facts in all lines."""
    for at, line in enumerate(text.lines):
        if line.lstrip().startswith("#"):
            continue
        networks = _NETWORKS.match(line)
        if networks:
            _networks(text, at, len(networks.group(1)), networks.group(2).strip(), facts, found)
        elif _LIMITS.match(line):
            _limits(text, at, facts)
        elif "kubernetes.io/hostname" in line:
            _hostnames(text, at, facts)
        elif text.prose:
            _page(text, at, line, facts)
    if text.prose:
        _scripts(text, facts, found)


def _networks(text: Text, at: int, indent: int, value: str, facts: Facts, found: Found) -> None:
    place = Place(text.file, at + 1, indent + 1, "k8s.v1.cni.cncf.io/networks")
    first = at
    if not value or _BLOCK.match(value):
        first, body = at + 1, []
        for line in text.lines[at + 1 :]:
            if line.strip() and len(line) - len(line.lstrip(" ")) <= indent:
                break
            body.append(line)
        value = "\n".join(body)
    value = value.strip("'\" \n") if not value.lstrip().startswith("[") else value
    ask = Ask(place)
    if value.lstrip().startswith("["):
        reading = lenient_json.read(value, first + 1)
        report_duplicates(text.file, reading, found)
        if not reading.whole:
            message = "the list of networks is not closed"
            found.add(import_rules.JSON, place, message, "close its brackets and quotes", "the networks that are there")
        if isinstance(reading.value, Sequence):
            for item in reading.value.items:
                name = object_shape.plain_text(object_shape.entry(item, "name")) if isinstance(item, Mapping) else ""
                if name:
                    ask.networks.append((object_shape.plain_text(object_shape.entry(item, "namespace")), name))
    else:
        for part in re.split(r"[,\s]+", value):
            named = _NAMED.match(part)
            if named:
                ask.networks.append((named.group(1) or "", named.group(2)))
            elif part:
                message = "%s names no network" % shown(part)
                found.add(import_rules.ANNOTATION, place, message, "write namespace/name, or a JSON list", "nothing")
    if ask.networks:
        facts.asks.append(ask)


def _limits(text: Text, at: int, facts: Facts) -> None:
    head = text.lines[at]
    indent = len(head) - len(head.lstrip(" -"))
    ask = Ask(Place(text.file, at + 1, indent + 1, "resources"))
    for line in text.lines[at + 1 :]:
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        if len(line) - len(line.lstrip(" ")) <= indent:
            break
        resource = _RESOURCE.match(line)
        if resource and not _OTHERS.match(resource.group(2)):
            ask.resources.append(resource.group(2))
    if ask.resources:
        facts.asks.append(ask)


def _hostnames(text: Text, at: int, facts: Facts) -> None:
    head = _HOSTNAME.match(text.lines[at])
    if not head:
        return
    if head.group(1):
        _mention(head.group(1), facts)
        return
    for line in text.lines[at + 1 : at + 40]:
        item = re.match(r"\s*-\s*[\"']?([\w.-]+)[\"']?\s*$", line)
        if item:
            _mention(item.group(1), facts)
        elif not re.match(r"\s*(operator|values)\s*:", line):
            return


def _mention(name: str, facts: Facts) -> None:
    if NODE.match(name) and name not in facts.mentioned:
        facts.mentioned.append(name)


def _page(text: Text, at: int, line: str, facts: Facts) -> None:
    route = _ROUTE.match(line)
    if route:
        net = pool_ranges.exact(route.group(1))
        if net and net.bits == IPV4 and net.prefix <= 30:
            facts.routes.setdefault(int(route.group(2)), net)
        return
    via = _VIA.match(line)
    if via:
        _supernet(via.group(1), facts)
        return
    name = _ALLOCATABLE.match(line)
    if name and any("alloca" in each or "alloco" in each for each in text.lines[at + 1 : at + 3]):
        _mention(name.group(1), facts)


def _supernet(text: str, facts: Facts) -> None:
    net = pool_ranges.exact(text)
    if net and net.bits == IPV4 and net.prefix <= 24 and net not in facts.supernets:
        facts.supernets.append(net)


def _scripts(text: Text, facts: Facts, found: Found) -> None:
    """Read commands such as ``INTERFACE=... IPV4_IP=... ./setNicAddr.sh``, on one or several lines."""
    current: dict[str, str] = {}
    began = 0
    for at, line in enumerate(text.lines + [""]):
        assignments = [] if line.lstrip().startswith("#") else _SCRIPT.findall(line)
        if current and (
            not line.strip() or at - began > _SPREAD or any(name == "INTERFACE" for name, _v in assignments)
        ):
            _host_port(text, began, current, facts, found)
            current = {}
        for name, value in assignments:
            if name in ("RDMA_CIDR", "RDMA_SUBNET"):
                _supernet(value, facts)
            elif name.startswith("GPU_") and re.match(r"[0-7]\Z", value):
                facts.qos["priority" if name == "GPU_RDMA_PRIORITY" else "cnp_priority"] = int(value)
            elif name == "INTERFACE":
                current, began = {name: value}, at
            elif current:
                current[name] = value


def _host_port(text: Text, at: int, variables: t.Mapping[str, str], facts: Facts, found: Found) -> None:
    place = Place(text.file, at + 1, 1, variables["INTERFACE"])
    port = HostPort(place, variables["INTERFACE"])
    parsed = pool_ranges.prefixed(variables.get("IPV4_IP", ""))
    if parsed and parsed[2] == IPV4:
        port.address, port.prefix = parsed[:2]
    gateway = pool_ranges.address(variables.get("IPV4_GATEWAY") or variables.get("GATEWAY") or "")
    port.gateway = gateway[0] if gateway and gateway[1] == IPV4 else None
    if re.match(r"[1-9][0-9]{2,4}\Z", variables.get("MTU", "")):
        port.mtu = int(variables["MTU"])
    if "IPV4_IP" in variables and port.address is None:
        message = "%s is not an address with a prefix length" % shown(variables["IPV4_IP"])
        found.add(import_rules.ADDRESS, place, message, "write it as 172.16.11.201/24", "no address")
    if port.gateway and variables.get("ENABLE_POLICY_ROUTE", "").lower() != "true":
        message = "without ENABLE_POLICY_ROUTE the node's own default route goes over %s" % shown(port.netdev)
        remedy = "remove the default route: it sends the node's other traffic over the rail"
        found.add(import_rules.DEFAULT_ROUTE, place, message, remedy, "a routing table of the rail's own")
    facts.host_ports.append(port)
