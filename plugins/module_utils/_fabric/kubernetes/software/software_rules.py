# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which software objects need, and when it may be installed or removed."""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError, Refused, raise_all
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.software import chart_values
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.view.object_kinds import KINDS
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.view.object_options import Options
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.view.plan_view import View
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.view.software_versions import PINS
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.playbook_names import playbook

# The variable of playbooks that allows a run to take over fields.
FORCE = "cluster_force"
# The first network of all pods, whose removal needs consent by its name.
_CONSENT = ("calico", "flannel")
# Software -> the API groups of our objects that it serves.
_SERVES = {
    "spiderpool": ("spiderpool.spidernet.io",),
    "network-operator": ("mellanox.com", "nv-ipam.nvidia.com"),
    "sriov-operator": ("sriovnetwork.openshift.io",),
    "multus": ("k8s.cni.cncf.io",),
}
# Operator -> the kind of our object by which it defines more kinds, and their group and version.
_STARTS = {"network-operator": ("NicClusterPolicy", "nv-ipam.nvidia.com/v1alpha1")}
# Definitions that several releases contain. They stay while users have objects of them.
SHARED = ("network-attachment-definitions.k8s.cni.cncf.io", "nodefeaturerules.nfd.k8s-sigs.io")
Object = t.Dict[str, t.Any]


def served_kinds(name: str) -> list[tuple[str, str]]:
    """Return the kinds of our objects that the software serves."""
    return [kind for kind in KINDS if kind[0].partition("/")[0] in _SERVES.get(name, ())]


def fabric_kinds(name: str) -> list[tuple[str, str]]:
    """Return the served kinds that show which fabrics use the software, without pools: there may be thousands."""
    return [kind for kind in served_kinds(name) if not kind[1].endswith("Pool")]


def started_by(name: str, objects: t.Iterable[Object]) -> tuple[list[Object], str]:
    """Return the objects by which an operator defines more kinds, and these kinds' group and version if planned."""
    kind, creates = _STARTS.get(name, ("", ""))
    made = list(objects)
    needed = creates and any(each["apiVersion"] == creates for each in made)
    return [each for each in made if each["kind"] == kind], creates if needed else ""


def namespace(name: str, given: str, view: View, options: Options) -> str:
    if given:
        return given
    if name == "sriov-operator":
        return options.sriov_place(view.provider)
    return options.operator(view.provider) if name == view.provider else PINS[name].namespace


def values(
    name: str, chart: chart_values.Chart, planned: Object, given: Object, view: View, options: Options
) -> tuple[Object, list[str]]:
    """Return the values of a release and warnings. The plan's values override the registry's, the user's override both.

    :raises RailyardError: for values that cannot work.
    """
    found = chart_values.mirrored(chart, options.registry) if options.registry else {}
    found = chart_values.merged(chart_values.merged(found, planned), given)
    mismatches = chart_values.mismatches(chart, found, view, options)
    raise_all([each.error(name) for each in mismatches if each.fatal])
    return chart_values.restarting(chart, found), [str(each.error(name)) for each in mismatches]


def check_chart(name: str, chart: chart_values.Chart, file: str, path: str) -> None:
    """Check that the archive contains this chart.

    :raises RailyardError: if it contains another one.
    """
    expected = file.rpartition("-")[0]
    if chart.name not in (PINS[name].chart, expected):
        raise RailyardError("it is the chart %s" % chart.name, path, "name the chart %s" % expected)


def check_server(chart: chart_values.Chart, file: str, version: tuple[int, int], url: str) -> None:
    """Check that the server supports the chart.

    :raises RailyardError: if the server is too old.
    """
    oldest = chart.too_old(version)
    if oldest:
        raise RailyardError(
            "the server is Kubernetes %d.%d, and the chart %s requires %s or later" % (*version, file, oldest),
            url,
            "upgrade the cluster to that release, or use an older chart with its checksum",
        )


def other_fabrics(name: str, names: t.Collection[str], view: View, url: str) -> list[str]:
    """Return warnings about other fabrics that the release serves, because it has the values of one plan.

    :raises Refused: if the operator itself serves only one fabric.
    """
    if not names:
        return []
    others = " and ".join(sorted(names))
    if name in _STARTS:
        raise Refused(
            "it serves fabric %s already, and supports the %s of one fabric only" % (others, _STARTS[name][0]),
            "%s of %s" % (name, url),
            "write the nodes of both into one fabric file, or tear down %s first" % others,
        )
    return [
        "%s serves fabric %s too, and gets the values of %s: check that lists of device plugins and node selectors"
        " contain those of all fabrics, and set them with cluster_values" % (name, others, view.name)
    ]


def unused(
    name: str, existing: t.Mapping[str, int], deleted: t.Mapping[str, int], view: View, url: str
) -> t.Sequence[str]:
    """Check that no object needs the software. Return warnings of check mode about objects deleted first.

    :raises Refused: while objects need it: without the software, their finalizers would never be removed.
    """
    if existing:
        raise Refused(
            "it still serves %s" % _counted(existing),
            "%s of %s" % (name, url),
            "remove the rail networks first, with %s: without it no controller removes their finalizers"
            % playbook("teardown"),
        )
    text = "%s still serves %s of fabric %s; outside check mode it stays until these are gone"
    return [text % (name, _counted(deleted), view.name)] if deleted else []


def check_consent(name: str, consent: str) -> None:
    """Check the consent to remove the pods' first network.

    :raises Refused: without consent.
    """
    if name in _CONSENT and consent != name:
        raise Refused(
            "removing the network of all pods needs consent",
            "consent",
            "see with --check what would be removed, then consent with %s" % name,
        )


def _counted(kinds: t.Mapping[str, int]) -> str:
    return ", ".join("%d %s" % (count, kind) for kind, count in sorted(kinds.items()))
