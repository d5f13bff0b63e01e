# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The import: from manifests, pages and scripts to the text of a fabric file and findings, also as tables."""

from __future__ import annotations

import functools
import re
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.file.yaml_layout import render
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import (
    ERROR,
    WARNING,
    Finding,
    shown,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base import (
    claimed_addresses,
    import_rules,
    manifest_texts,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base.import_facts import (
    Claim,
    Facts,
    Options,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base.import_findings import (
    Found,
    ImportFinding,
    Place,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base.manifest_values import unread
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base.neutral_fields import (
    STATE,
    neutral,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.infer import correlate
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.kinds import (
    device_plugin_kinds,
    helm_values,
    host_files,
    host_interfaces,
    ipam_kinds,
    network_kinds,
    nic_configuration_kinds,
    object_shape,
    plain_lines,
    spiderpool_kinds,
    sriov_kinds,
    whereabouts_kinds,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.output import pool_exclusions
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.output.import_build import (
    LEFT_OUT,
    Builder,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.lint.lint_run import lint
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text import undecided_values
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.ip_ranges import single
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.name_syntax import (
    did_you_mean,
    expanded,
    nearest,
    trailing_number,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.text_table import WIDTH, count, table
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.yaml_source import Mapping, Sequence

_MARK = re.compile(r"^ *# (?:DECIDE|CHECK): ", re.MULTILINE)
_HEAD = ("line", "rule", "severity", "what is wrong", "remedy", "written")


def as_table(findings: t.Sequence[ImportFinding], width: int = WIDTH) -> str:
    """Return one table per file, in the order of lines."""
    lines: list[str] = []
    for file in dict.fromkeys(each.file for each in findings):
        of_file = [each for each in findings if each.file == file]
        rows = [
            (
                each.finding.line,
                each.finding.label,
                each.finding.severity,
                each.finding.message,
                each.finding.remedy,
                each.written,
            )
            for each in of_file
        ]
        lines.extend([file, *table(_HEAD, rows, width, "  "), ""])
    return "\n".join(lines).rstrip("\n")


def counts(findings: t.Sequence[ImportFinding]) -> dict[str, int]:
    """Return the number of findings per severity."""
    return {severity: sum(each.finding.severity == severity for each in findings) for severity in (ERROR, WARNING)}


def summary(outcome: Outcome) -> str:
    """Return the result on one line."""
    numbers = counts(outcome.findings)
    left_out = ", ".join("%s (%s)" % (LEFT_OUT[key], key) for key in outcome.left_out)
    text = "%s read, %s made; to decide: %d (DECIDE and CHECK in the file); findings: %s, %s" % (
        count(outcome.manifests, "manifest"),
        count(outcome.rails, "rail"),
        len(_MARK.findall(outcome.text)),
        count(numbers[ERROR], "error"),
        count(numbers[WARNING], "warning"),
    )
    return text + ("; not added: %s, set its key in fabric.objects to true to add it" % left_out if left_out else "")


Reader = t.Callable[[manifest_texts.Manifest, Facts, Found], None]


# API group -> kind -> reader, or None for a known kind that is not imported.
_READERS: dict[str, dict[str, Reader | None]] = {
    spiderpool_kinds.GROUP: {
        "SpiderIPPool": spiderpool_kinds.pool,
        "SpiderMultusConfig": spiderpool_kinds.network,
        "SpiderReservedIP": spiderpool_kinds.reserved,
        "SpiderCoordinator": spiderpool_kinds.coordinator,
        "SpiderSubnet": None,
        "SpiderEndpoint": None,
    },
    sriov_kinds.GROUP: {
        "SriovNetworkNodePolicy": sriov_kinds.policy,
        "SriovNetwork": functools.partial(sriov_kinds.network, "sriov"),
        "SriovIBNetwork": functools.partial(sriov_kinds.network, "ib-sriov"),
        "SriovNetworkNodeState": host_interfaces.sriov_state,
        "SriovNetworkPoolConfig": None,
        "SriovOperatorConfig": None,
        "OVSNetwork": None,
    },
    "k8s.cni.cncf.io": {"NetworkAttachmentDefinition": network_kinds.definition},
    "mellanox.com": {
        "MacvlanNetwork": functools.partial(network_kinds.operators, "MacvlanNetwork"),
        "HostDeviceNetwork": functools.partial(network_kinds.operators, "HostDeviceNetwork"),
        "IPoIBNetwork": functools.partial(network_kinds.operators, "IPoIBNetwork"),
        "NicClusterPolicy": device_plugin_kinds.cluster_policy,
        "NicNodePolicy": device_plugin_kinds.cluster_policy,
    },
    nic_configuration_kinds.GROUP: {
        "NicConfigurationTemplate": nic_configuration_kinds.template,
        "NicInterfaceNameTemplate": host_interfaces.name_template,
        "NicDevice": None,
    },
    ipam_kinds.GROUP: {"IPPool": ipam_kinds.ip_pool, "CIDRPool": ipam_kinds.cidr_pool},
    whereabouts_kinds.GROUP: {
        "IPPool": whereabouts_kinds.ip_pool,
        "OverlappingRangeIPReservation": whereabouts_kinds.reservation,
        "NodeSlicePool": None,
    },
    host_interfaces.GROUP: {
        "NodeNetworkConfigurationPolicy": host_interfaces.policy,
        "NodeNetworkState": host_interfaces.state,
    },
    "": {"ConfigMap": device_plugin_kinds.config_map},
}


class Outcome(t.NamedTuple):
    """The result of an import. ``text``: the fabric file, empty if no rail was found.

    ``lint``: its lint findings except its marks, which :func:`summary` counts. ``patches``: of pools, which must not
    give the addresses of slots to pods.
    """

    text: str
    findings: list[ImportFinding]
    lint: list[Finding]
    manifests: int
    rails: int
    patches: t.Sequence[pool_exclusions.Patch] = ()
    # keys of ``objects`` that are off
    left_out: t.Sequence[str] = ()


def run(files: t.Sequence[tuple[str, bytes]], options: Options) -> Outcome:
    """Import files.

    :param files: (name, content) of each file. Any content gives findings and no exception.
    """
    found = Found()
    facts = Facts()
    for pattern, keys in (options.nodes or {}).items():
        names = expanded(pattern)
        indexes = expanded(str((keys or {}).get("index", "")))
        for at, node in enumerate(names):
            given = indexes[at] if len(indexes) == len(names) else ""
            facts.node_indexes[node] = int(given) if given.isdecimal() else trailing_number(node)
    for name, raw in files:
        before = facts.manifests
        text = manifest_texts.decode(name, raw, found)
        if host_files.read(text, facts):
            continue
        for manifest in manifest_texts.manifests(text, found):
            _read(manifest, facts, found)
        asks_before = len(facts.asks)
        plain_lines.scan(text, facts, found)
        if facts.manifests == before and len(facts.asks) == asks_before:
            message = "no manifest was found in this file"
            remedy = "give files that contain Kubernetes manifests, or pages and scripts with manifests"
            found.add(import_rules.NO_MANIFEST, Place(name), message, remedy, "nothing")
    for interface in facts.interfaces:
        facts.claims.extend(
            Claim(single(each, bits), "interface %s" % interface.name) for each, _prefix, bits in interface.addresses
        )
    for pool in facts.pools:
        facts.claims.extend(claimed_addresses.of_pool(pool))
    drafts = correlate.drafts(facts, found)
    if not drafts:
        message = "nothing in %s describes a rail" % ("this file" if len(files) == 1 else "these %d files" % len(files))
        remedy = "give the manifests of pools, networks, policies or device plugins"
        found.add(import_rules.NOTHING, Place(files[0][0] if files else "-"), message, remedy, "no fabric file")
        return Outcome("", found.all, [], facts.manifests, 0)
    builder = Builder(facts, drafts, options, found)
    sections = builder.build()
    sections.comments[()] = _head(files, found)
    fabric_file = render(sections.data, sections.comments)
    findings = undecided_values.without(lint(fabric_file.encode("utf-8")).findings)
    patches = pool_exclusions.patches(builder.exclusions)
    left_out = list(sections.data["fabric"]["objects"])
    return Outcome(fabric_file, found.all, findings, facts.manifests, len(drafts), patches, left_out)


def _head(files: t.Sequence[tuple[str, bytes]], found: Found) -> list[str]:
    names = [shown(name.rpartition("/")[2], 40) for name, _raw in files]
    more = " and %d more" % (len(names) - 3) if len(names) > 3 else ""
    lines = [
        "Imported from %s%s. DECIDE marks what no manifest contains, CHECK what was inferred."
        % (", ".join(names[:3]), more)
    ]
    count = len(found.all)
    if count:
        lines.append(
            "The import had %d finding%s about the manifests; see its table." % (count, "" if count == 1 else "s")
        )
    return lines


def _read(manifest: manifest_texts.Manifest, facts: Facts, found: Found) -> None:
    root = manifest.root
    kind = object_shape.text_at(root, "kind")
    version = object_shape.text_at(root, "apiVersion")
    items = object_shape.entry(root, "items")
    if isinstance(items, Sequence) and (kind.endswith("List") or not kind):
        for item in items.items:
            if isinstance(item, Mapping):
                _read(manifest_texts.Manifest(manifest.file, item.line, item), facts, found)
        return
    found.begin(kind, object_shape.name_of(manifest)[1])
    facts.kinds.add(kind)
    group = version.rpartition("/")[0]
    reader = _reader_of(manifest, group, kind, found) if kind else _kindless
    before = facts.manifests
    if kind == "DaemonSet":
        # the rest of it is not imported
        device_plugin_kinds.daemon_set(manifest, facts, found)
    if reader is not None:
        facts.manifests += 1
        reader(manifest, facts, found)
    _report_unread(manifest, kind, facts.manifests > before, found)
    facts.claims.extend(claimed_addresses.of_object(kind, found.name, [("", manifest.root), *found.trees]))
    found.begin("", "")


def _kindless(manifest: manifest_texts.Manifest, facts: Facts, found: Found) -> None:
    """Read a document without a kind: the configuration of a device plugin, or Helm values."""
    root = manifest.root
    if object_shape.entry(root, "configList") is not None or object_shape.entry(root, "resourceList") is not None:
        found.kind = "the device plugin's configuration"
        device_plugin_kinds.configuration(manifest, root, facts, found)
    elif host_interfaces.kindless(manifest, facts):
        found.kind, found.name = "the network configuration", manifest.file.rpartition("/")[2]
    elif not helm_values.read(manifest, facts, found):
        facts.manifests -= 1


def _report_unread(manifest: manifest_texts.Manifest, kind: str, read: bool, found: Found) -> None:
    """Report every value of the object that was not read and is not neutral."""
    if not read:
        if kind not in STATE:
            place = Place(manifest.file, manifest.line, 1, "kind")
            found.kind = found.kind or "a document without a kind"
            found.name = found.name or ", ".join(list(manifest.root.entries)[:4])
            remedy = "apply it in addition to the planned objects, if you still need it"
            found.add_not_imported(import_rules.KIND_LOST, place, "", "", remedy)
        return
    for path, tree in [("", manifest.root), *found.trees]:
        for each in unread(tree, path, lambda at, leaf: neutral(kind, at, leaf)):
            place = object_shape.place_at(manifest, each.value, each.path)
            remedy = "keep it in your own manifest if you need it: a fabric file has no key for it"
            found.add_not_imported(import_rules.FIELD_LOST, place, each.path, each.text, remedy)


def _reader_of(manifest: manifest_texts.Manifest, group: str, kind: str, found: Found) -> Reader | None:
    """Return the reader of a kind, or None. Report a misspelt kind or group."""
    if kind in _READERS.get(group, {}):
        return _READERS[group][kind]
    place = Place(manifest.file, manifest.line, 1, "kind")
    groups = [name for name, kinds in _READERS.items() if kind in kinds and name]
    if groups and group not in _READERS:
        message = "%s is of the group %s, not of %s" % (shown(kind), groups[0], shown(group) or "the core")
        found.add(import_rules.WRONG_KIND, place, message, "write apiVersion: %s/..." % groups[0], "it as such")
        return _READERS[groups[0]][kind]
    if group not in _READERS or not group:
        return None
    close = next((each for each in _READERS[group] if each.lower() == kind.lower()), None)
    close = close or nearest(kind, [each for each in _READERS[group] if len(each) > len(kind) - 3])
    if close is None:
        return None
    message = "%s is not a kind of %s%s" % (shown(kind), group, did_you_mean(close))
    found.add(import_rules.WRONG_KIND, place, message, "write %s" % close, close)
    return _READERS[group][close]
