# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""The import: texts of manifests, pages and scripts in; a fabric file's text and findings out."""

from __future__ import annotations

import functools
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils.fabric.finding import Finding, shown
from ansible_collections.railyard.fabric.plugins.module_utils.fabric.imports import (
    claims,
    devices,
    ipam,
    lines,
    networks,
    nic,
    rules,
    shape,
    spiderpool,
    sriov,
    texts,
    weave,
)
from ansible_collections.railyard.fabric.plugins.module_utils.fabric.imports.build import Builder, Options
from ansible_collections.railyard.fabric.plugins.module_utils.fabric.imports.facts import Facts
from ansible_collections.railyard.fabric.plugins.module_utils.fabric.imports.found import Found, Mended, Place
from ansible_collections.railyard.fabric.plugins.module_utils.fabric.imports.leaves import unread
from ansible_collections.railyard.fabric.plugins.module_utils.fabric.imports.neutral import STATE, neutral
from ansible_collections.railyard.fabric.plugins.module_utils.fabric.lint import lint
from ansible_collections.railyard.fabric.plugins.module_utils.fabric.names import did_you_mean, nearest
from ansible_collections.railyard.fabric.plugins.module_utils.fabric.render import render
from ansible_collections.railyard.fabric.plugins.module_utils.fabric.source import Mapping, Sequence

Reader = t.Callable[[texts.Manifest, Facts, Found], None]


# API group -> kind -> what reads it; None: it exists, and is not carried over.
_READERS: dict[str, dict[str, Reader | None]] = {
    spiderpool.GROUP: {
        "SpiderIPPool": spiderpool.pool,
        "SpiderMultusConfig": spiderpool.network,
        "SpiderReservedIP": spiderpool.reserved,
        "SpiderCoordinator": spiderpool.coordinator,
        "SpiderSubnet": None,
        "SpiderEndpoint": None,
    },
    sriov.GROUP: {
        "SriovNetworkNodePolicy": sriov.policy,
        "SriovNetwork": functools.partial(sriov.network, "sriov"),
        "SriovIBNetwork": functools.partial(sriov.network, "ib-sriov"),
        "SriovNetworkNodeState": None,
        "SriovNetworkPoolConfig": None,
        "SriovOperatorConfig": None,
        "OVSNetwork": None,
    },
    "k8s.cni.cncf.io": {"NetworkAttachmentDefinition": networks.definition},
    "mellanox.com": {
        "MacvlanNetwork": functools.partial(networks.operators, "MacvlanNetwork"),
        "HostDeviceNetwork": functools.partial(networks.operators, "HostDeviceNetwork"),
        "IPoIBNetwork": functools.partial(networks.operators, "IPoIBNetwork"),
        "NicClusterPolicy": devices.cluster_policy,
        "NicNodePolicy": devices.cluster_policy,
    },
    nic.GROUP: {"NicConfigurationTemplate": nic.template, "NicInterfaceNameTemplate": None, "NicDevice": None},
    ipam.GROUP: {"IPPool": ipam.ip_pool, "CIDRPool": ipam.cidr_pool},
    "": {"ConfigMap": devices.config_map},
}


class Outcome(t.NamedTuple):
    """``text``: the fabric file, empty where nothing was found to make one of. ``lint``: what lint says of it."""

    text: str
    findings: list[Mended]
    lint: list[Finding]
    manifests: int
    rails: int


def run(files: t.Sequence[tuple[str, bytes]], options: Options) -> Outcome:
    """Read files by name and content. Never raises for anything that they hold."""
    found = Found()
    facts = Facts()
    for name, raw in files:
        before = facts.manifests
        text = texts.decode(name, raw, found)
        for manifest in texts.manifests(text, found):
            _read(manifest, facts, found)
        asked = len(facts.asks) + len(facts.host_ports)
        lines.scan(text, facts, found)
        if facts.manifests == before and len(facts.asks) + len(facts.host_ports) == asked:
            message = "no manifest was found in this file"
            remedy = "give files with Kubernetes manifests, or pages and scripts that hold them"
            found.add(rules.NO_MANIFEST, Place(name), message, remedy, "nothing of it")
    for pool in facts.pools:
        facts.claims.extend(claims.of_pool(pool))
    drafts = weave.drafts(facts, found)
    if not drafts:
        message = "nothing in %s says what a rail is" % (
            "this file" if len(files) == 1 else "these %d files" % len(files)
        )
        remedy = "give the manifests of pools, networks, policies or device plugins"
        found.add(rules.NOTHING, Place(files[0][0] if files else "-"), message, remedy, "no fabric file")
        return Outcome("", found.all, [], facts.manifests, 0)
    sections = Builder(facts, drafts, options, found).build()
    sections.comments[()] = _head(files, found)
    written = render(sections.data, sections.comments)
    return Outcome(written, found.all, lint(written.encode("utf-8")).findings, facts.manifests, len(drafts))


def _head(files: t.Sequence[tuple[str, bytes]], found: Found) -> list[str]:
    names = [shown(name.rpartition("/")[2], 40) for name, _raw in files]
    more = " and %d more" % (len(names) - 3) if len(names) > 3 else ""
    lines_ = [
        "Imported from %s%s. DECIDE marks what no manifest says, CHECK what was concluded."
        % (", ".join(names[:3]), more)
    ]
    count = len(found.all)
    if count:
        lines_.append(
            "The import had %d finding%s about the manifests; see its table." % (count, "" if count == 1 else "s")
        )
    return lines_


def _read(manifest: texts.Manifest, facts: Facts, found: Found) -> None:
    root = manifest.root
    kind = shape.plain_text(shape.entry(root, "kind"))
    version = shape.plain_text(shape.entry(root, "apiVersion"))
    items = shape.entry(root, "items")
    if isinstance(items, Sequence) and (kind.endswith("List") or not kind):
        for item in items.items:
            if isinstance(item, Mapping):
                _read(texts.Manifest(manifest.file, item.line, item), facts, found)
        return
    found.begin(kind, shape.name_of(manifest)[1])
    group = version.rpartition("/")[0]
    reader = _meant(manifest, group, kind, found) if kind else _kindless
    before = facts.manifests
    if reader is not None:
        facts.manifests += 1
        reader(manifest, facts, found)
    _say_unread(manifest, kind, facts.manifests > before, found)
    facts.claims.extend(claims.of_object(kind, found.name, [("", manifest.root), *found.trees]))
    found.begin("", "")


def _kindless(manifest: texts.Manifest, facts: Facts, found: Found) -> None:
    """A device plugin's configuration, or values of a Helm chart."""
    root = manifest.root
    if shape.entry(root, "configList") is not None or shape.entry(root, "resourceList") is not None:
        found.kind = "the device plugin's configuration"
        devices.configuration(manifest, root, facts, found)
    elif devices.values(manifest, facts, found):
        found.kind = "the Helm values"
    else:
        facts.manifests -= 1


def _say_unread(manifest: texts.Manifest, kind: str, read: bool, found: Found) -> None:
    """Name every value of the object that nothing has read and that is neither the API server's nor neutral."""
    if not read:
        if kind not in STATE:
            place = Place(manifest.file, manifest.line, 1, "kind")
            found.kind = found.kind or "a document without a kind"
            found.name = found.name or ", ".join(list(manifest.root.entries)[:4])
            remedy = "apply it beside what the plan makes, where it is still wanted"
            found.lose(rules.KIND_LOST, place, "", "", remedy)
        return
    for path, tree in [("", manifest.root), *found.trees]:
        for each in unread(tree, path, lambda at, leaf: neutral(kind, at, leaf)):
            place = shape.place_at(manifest, each.value, each.path)
            remedy = "keep it in a manifest of your own where it matters: no key of a fabric file is for it"
            found.lose(rules.FIELD_LOST, place, each.path, each.text, remedy)


def _meant(manifest: texts.Manifest, group: str, kind: str, found: Found) -> Reader | None:
    """The reader of a kind. Of a misspelt kind or group a finding tells."""
    if kind in _READERS.get(group, {}):
        return _READERS[group][kind]
    place = Place(manifest.file, manifest.line, 1, "kind")
    homes = [name for name, kinds in _READERS.items() if kind in kinds and name]
    if homes and group not in _READERS:
        message = "%s is of the group %s, not of %s" % (shown(kind), homes[0], shown(group) or "the core")
        found.add(rules.WRONG_KIND, place, message, "write apiVersion: %s/..." % homes[0], "it as such")
        return _READERS[homes[0]][kind]
    if group not in _READERS or not group:
        return None
    close = next((each for each in _READERS[group] if each.lower() == kind.lower()), None)
    close = close or nearest(kind, [each for each in _READERS[group] if len(each) > len(kind) - 3])
    if close is None:
        return None
    message = "%s is not a kind of %s%s" % (shown(kind), group, did_you_mean(close))
    found.add(rules.WRONG_KIND, place, message, "write %s" % close, "it as %s" % close)
    return _READERS[group][close]
