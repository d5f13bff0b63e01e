# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Facts in single lines of any file: networks and resources that pods request, and names of nodes."""

from __future__ import annotations

import re

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import shown
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base import embedded_json, import_rules
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base.import_facts import Ask, Facts
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base.import_findings import Found, Place
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base.manifest_texts import Text
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.kinds import object_shape
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.name_syntax import NODE
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.yaml_source import Sequence

_NETWORKS = re.compile(r"( *)(?:- )?[\"']?k8s\.v1\.cni\.cncf\.io/networks[\"']?\s*:\s*(.*)$")
_LIMITS = re.compile(r"( *)(?:- )?[\"']?(limits|requests)[\"']?\s*:\s*(#.*)?$")
_RESOURCE = re.compile(r"( *)[\"']?([a-z0-9][a-z0-9.-]*/[A-Za-z0-9_.-]+)[\"']?\s*:\s*[\"']?[0-9]+[\"']?\s*(#.*)?$")
# Resources that do not belong to a network.
_OTHERS = re.compile(r"(nvidia\.com/(gpu|mig-)|amd\.com/gpu|habana\.ai/|.*/(hugepages|ephemeral))")
_NAMED = re.compile(r"(?:([a-z0-9.-]+)/)?([A-Za-z0-9.-]+)(?:@[\w.-]+)?\Z")
_BLOCK = re.compile(r"[|>][-+0-9]*\s*(#.*)?$")
_HOSTNAME = re.compile(r"\s*(?:- )?(?:key:\s*)?[\"']?kubernetes\.io/hostname[\"']?\s*(?::\s*[\"']?([\w.-]+))?")


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
        listed = embedded_json.read(
            value, Sequence, place._replace(line=first + 1, column=1), "the list of networks", found
        )
        for item in listed.items if listed else ():
            name = object_shape.text_at(item, "name")
            if name:
                ask.networks.append((object_shape.text_at(item, "namespace"), name))
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
