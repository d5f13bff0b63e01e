# Copyright (c) 2026, Railyard contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import time
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.changes import Change, as_diff
from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import (
    Errors,
    RailyardError,
    Refused,
    raise_all,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.objects import object_components
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.software import (
    chart_values,
    upstream_manifests,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.view import software_versions
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.view.object_kinds import KINDS
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.view.object_options import Options
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.view.plan_view import (
    FABRIC,
    MANAGED_BY,
    MANAGER,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.provider_facts import facts_of
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.playbook_names import playbook
from ansible_collections.railyard.fabric.plugins.module_utils._kube.api.api_server import METADATA, Server
from ansible_collections.railyard.fabric.plugins.module_utils._kube.api.connect import for_helm
from ansible_collections.railyard.fabric.plugins.module_utils._kube.api.object_reference import Key, Kind, selected
from ansible_collections.railyard.fabric.plugins.module_utils._kube.apply import helm_releases, namespaces
from ansible_collections.railyard.fabric.plugins.module_utils._kube.apply.crd_writes import Definitions
from ansible_collections.railyard.fabric.plugins.module_utils._kube.apply.object_writes import Wish
from ansible_collections.railyard.fabric.plugins.module_utils._kube.apply.send_writes import Apply
from ansible_collections.railyard.fabric.plugins.plugin_utils import _archives, _cluster_access, _helm, _planned
from ansible_collections.railyard.fabric.plugins.plugin_utils._controller_action import Door

# The default network of all pods: who takes it away says so by its name.
CONSENT = ("calico", "flannel")
# Software that serves kinds of our objects, by what a remedy of KINDS is told of: API groups.
_SERVES = {
    "spiderpool": ("spiderpool.spidernet.io",),
    "network-operator": ("mellanox.com", "nv-ipam.nvidia.com"),
    "sriov-operator": ("sriovnetwork.openshift.io",),
    "multus": ("k8s.cni.cncf.io",),
}
# What an operator brings further kinds of objects by: the kind that tells it to, and their group and version.
_STARTS = {"network-operator": ("NicClusterPolicy", "nv-ipam.nvidia.com/v1alpha1")}
_STATES = ("present", "started", "absent", "purged", "gathered")
# Definitions that several bring and users have objects of: they go when the last of these is gone.
_SHARED = ("network-attachment-definitions.k8s.cni.cncf.io", "nodefeaturerules.nfd.k8s-sigs.io")
# Seconds between two looks.
_LOOK = 2.0


class ActionModule(Door):
    """Brings software into a cluster, up to what Helm does; documented in ``plugins/modules/kube_software.py``."""

    SPEC: t.Mapping[str, t.Any] = {
        **_cluster_access.SPEC,
        "name": {"type": "str", "choices": list(software_versions.PINS)},
        "state": {"type": "str", "choices": list(_STATES), "default": "present"},
        "method": {"type": "str", "default": ""},
        "source": {"type": "str", "default": ""},
        "version": {"type": "str", "default": ""},
        "checksums": {"type": "dict", "default": {}},
        "settings": {"type": "dict", "default": {}},
        "values": {"type": "dict", "default": {}},
        "namespace": {"type": "str", "default": ""},
        "helm": {"type": "str", "default": ""},
        "force": {"type": "bool", "default": False},
        "consent": {"type": "str", "default": ""},
        "timeout": {"type": "int", "default": 120},
    }

    def work(self, options: t.Mapping[str, t.Any], check: bool) -> dict[str, t.Any]:
        document = _planned.document(options["file"])
        if options["state"] == "gathered":
            needed = object_components.software(document, options["kubernetes"])
            pins = {name: pin.version for name, pin in software_versions.PINS.items()}
            fabric = document["fabric"]
            return {
                "changed": False,
                "fabric": fabric["name"],
                "kubernetes": facts_of(fabric["provider"]).kubernetes,
                "needed": needed,
                "versions": pins,
                "summary": "needed: %s" % (", ".join(needed) or "nothing"),
            }
        if not options["name"]:
            raise RailyardError("is missing", "name", "take one of %s" % ", ".join(software_versions.PINS))
        run = _Run(options, document, check)
        failed: dict[str, t.Any] = {}
        try:
            getattr(run, options["state"])()
        except RailyardError as error:
            errors = error.errors if isinstance(error, Errors) else [error]
            for each in errors:
                # fields are taken over by another variable here than where the fabric's objects are applied
                each.remedy = each.remedy.replace("kubernetes_force=", "cluster_force=")
            failed = {"failed": True, "msg": str(error), "errors": [each.as_dict() for each in errors]}
        changes = run.changes()
        return {
            "changed": bool(changes),
            "changes": [change.as_dict() for change in changes],
            "diff": as_diff(changes) if self._task.diff else {},
            "release": run.release,
            "warnings": run.warnings,
            "summary": "" if failed else run.summary(len(changes)),
            **failed,
        }


class _Run:
    """One piece of software on one server."""

    def __init__(self, options: t.Mapping[str, t.Any], document: t.Mapping[str, t.Any], check: bool) -> None:
        self.options = options
        self.name: str = options["name"]
        self.pin = software_versions.PINS[self.name]
        self.version: str = options["version"] or self.pin.version
        self.check = check
        self.view = object_components.viewed(document)
        self.plain = Options.of(options["kubernetes"])
        self.document = document
        self.release: dict[str, t.Any] = {}
        self.warnings: list[str] = []
        self.done: list[Change] = []
        self._server: Server | None = None
        self._spaces: dict[str, bool] = {}
        self._parts: list[Apply | Definitions] = []

    @property
    def server(self) -> Server:
        if self._server is None:
            self._server = _cluster_access.server(self.options)
            _version = self._server.version
        return self._server

    def changes(self) -> list[Change]:
        found = list(self.done)
        for part in self._parts:
            found += [
                change for each in part.done for change in ([each] if isinstance(each, Change) else each.changes())
            ]
            self.warnings += part.warnings
        self._parts = []
        return found

    def summary(self, changes: int) -> str:
        what = "%d changes%s" % (changes, " (nothing is written in check mode)" if self.check else "")
        return "%s %s: %s" % (self.name, self.version, what if changes else "nothing differs")

    # -- installing

    def present(self) -> None:
        if self.pin.kind == software_versions.CHART:
            self._chart()
        else:
            self._manifest()

    def _files(self) -> tuple[software_versions.File, ...]:
        return software_versions.files(self.name, self._way(), self.options["version"], self.options["checksums"])

    def _way(self) -> str:
        ways = list(self.pin.files)
        return self.options["method"] or ways[0]

    def _chart(self) -> None:
        program, environment = _helm.program(self.options["helm"]), self._environment()
        (file,) = self._files()
        archive = _archives.found(self.name, self.options["source"], file, program)
        chart = _archives.chart(archive)
        if chart.name not in (self.pin.chart, file.name.rpartition("-")[0]):
            raise RailyardError(
                "it is the chart %s" % chart.name, archive.path, "name the chart %s" % file.name.rpartition("-")[0]
            )
        values = self._values(chart)
        older = chart.too_old(self.server.version)
        if older:
            raise RailyardError(
                "the server is Kubernetes %d.%d, and the chart %s asks for %s or later"
                % (*self.server.version, file.name, older),
                self.server.url,
                "bring the cluster to that release, or take an older chart with its checksum",
            )
        namespace = self._namespace()
        state = helm_releases.state(self.server, namespace, self.pin.chart)
        unfinished = helm_releases.unfinished(state, namespace, self.pin.chart)
        if unfinished:
            raise unfinished
        self._see_others()
        self._definitions(chart_values.definitions(chart, values))
        self._make(namespace)
        self.release = {
            "name": self.pin.chart,
            "namespace": namespace,
            "chart": archive.path,
            "version": chart.version,
            "values": values,
            "helm": program,
            "environment": environment,
            "again": state == helm_releases.FAILED,
        }

    def _see_others(self) -> None:
        """Of other fabrics that the release serves: it has the values of one plan.

        :raises Refused: where the operator itself serves one fabric alone, before its values are another's.
        """
        kinds = [kind for kind in KINDS if kind[0].partition("/")[0] in _SERVES.get(self.name, ())]
        selector = "%s=%s,%s,%s!=%s" % (MANAGED_BY, MANAGER, FABRIC, FABRIC, self.view.name)
        names = {
            str(each["metadata"]["labels"][FABRIC])
            for kind, resource in self.server.resources(kinds).items()
            # of pools there is one a node and rail, and networks say the same
            if not kind[1].endswith("Pool")
            for each in self.server.list(resource, selector, METADATA)
        }
        if not names:
            return
        others = " and ".join(sorted(names))
        if self.name in _STARTS:
            raise Refused(
                "it serves fabric %s already, and takes the %s of one fabric" % (others, _STARTS[self.name][0]),
                "%s of %s" % (self.name, self.server.url),
                "bring the nodes of both into one fabric file, or tear %s down first" % others,
            )
        self.warnings.append(
            "%s serves fabric %s too, and gets the values of %s: see that device plugins' lists and node selectors say"
            " those of all of them, with cluster_values" % (self.name, others, self.view.name)
        )

    def _values(self, chart: chart_values.Chart) -> dict[str, t.Any]:
        """Those of the registry, over them the plan's, over them the user's."""
        values = chart_values.mirrored(chart, self.plain.registry) if self.plain.registry else {}
        planned_values = object_components.values(self.document, self.options["kubernetes"]).get(self.pin.chart, {})
        values = chart_values.merged(chart_values.merged(values, planned_values), self.options["values"])
        found = chart_values.misfits(chart, values, self.view, self.plain)
        raise_all([each.error(self.name) for each in found if each.fatal])
        self.warnings += [str(each.error(self.name)) for each in found]
        return chart_values.restarting(chart, values)

    def _environment(self) -> dict[str, str]:
        return for_helm(self.options["kubeconfig"], self.options["context"])

    def _namespace(self) -> str:
        if self.options["namespace"]:
            return str(self.options["namespace"])
        if self.name == "sriov-operator":
            return self.plain.sriov_place(self.view.provider)
        return self.plain.operator(self.view.provider) if self.name == self.view.provider else self.pin.namespace

    def _make(self, namespace: str) -> None:
        """The namespace, open for what touches nodes: pods that do could not start where clusters restrict them."""
        if not self._missing_namespace(namespace):
            return
        labels = {"pod-security.kubernetes.io/enforce": "privileged", **software_versions.labels(self.name)}
        made = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace, "labels": labels}}
        self._apply([made], [("v1", "Namespace")], False)

    def _manifest(self) -> None:
        settings = upstream_manifests.Settings.of(self.name, self.options["settings"])
        upstream_manifests.on_rails(self.name, settings, self.view)
        objects: list[dict[str, t.Any]] = []
        for file in self._files():
            archive = _archives.found(self.name, self.options["source"], file)
            if not archive.content:
                raise RailyardError("it is a chart", archive.path, "name the directory that holds %s" % file.name)
            objects += _archives.documents(archive.content, archive.path)
        definitions, rest = upstream_manifests.adjusted(
            self.name, self._way(), objects, settings, self.plain.registry, self.version
        )
        self._definitions(definitions)
        spaces = [each for each in rest if each["kind"] == "Namespace"]
        for each in spaces:
            self._missing_namespace(each["metadata"]["name"])
        self._apply(spaces, [("v1", "Namespace")], False)
        # the server cannot try what lies in a namespace or is of a kind that check mode did not make
        absent = [] if not self.check else [each for each in rest if self._unmade(each, definitions)]
        for each in absent:
            self.done.append(Change(str(Key.of(each)), "object", None, "present", lambda: None))
        # what was made, or in check mode said, is not said again
        told = absent + [each for each in spaces if self.check and self._missing_namespace(each["metadata"]["name"])]
        self._apply([each for each in rest if each not in told], upstream_manifests.ORDER, not absent)

    def _unmade(self, made: t.Mapping[str, t.Any], definitions: t.Sequence[t.Mapping[str, t.Any]]) -> bool:
        """Whether the object needs a namespace or a definition that is not there yet."""
        namespace = made["metadata"].get("namespace")
        if namespace and self._missing_namespace(namespace):
            return True
        if made["kind"] == "Namespace":
            return False
        kind = (made["apiVersion"], made["kind"])
        own = any(
            (each["spec"]["group"], each["spec"]["names"]["kind"]) == (kind[0].partition("/")[0], kind[1])
            for each in definitions
        )
        return own and kind not in self.server.resources([kind])

    def _missing_namespace(self, name: str) -> bool:
        """Whether it is to be made. One that is being deleted takes nothing new, and so is waited for."""
        if name not in self._spaces:
            found = namespaces.read(self.server, name)
            end = time.monotonic() + self.options["timeout"]
            while found and namespaces.ending(found) and not self.check:
                if time.monotonic() >= end:
                    raise namespaces.hanging(self.server, found, " since %d s" % self.options["timeout"])
                _cluster_access.say("waiting for namespace %s, which is being deleted" % name)
                time.sleep(_LOOK)
                found = namespaces.read(self.server, name)
            if namespaces.ending(found):
                self.warnings.append("the namespace %s is being deleted; outside check mode this is waited for" % name)
            self._spaces[name] = found is None or namespaces.ending(found)
        return self._spaces[name]

    def _definitions(self, wanted: t.Sequence[dict[str, t.Any]]) -> None:
        part = Definitions(self.server, (software_versions.SOFTWARE, self.name), self.check, _cluster_access.say)
        self._parts.append(part)
        part.present(wanted)

    def _apply(self, objects: t.Sequence[dict[str, t.Any]], kinds: t.Sequence[Kind], prune: bool) -> None:
        part = Apply(self.server, self._wish(objects, kinds), self.check, _cluster_access.say)
        self._parts.append(part)
        part.present(prune)

    def _wish(self, objects: t.Sequence[dict[str, t.Any]], kinds: t.Sequence[Kind]) -> Wish:
        labels = software_versions.labels(self.name)
        return Wish(objects, labels, labels, kinds, manager=MANAGER, force=self.options["force"])

    def started(self) -> None:
        """Apply what an operator needs before it brings further kinds, and wait until the server has them."""
        begins, brings = _STARTS.get(self.name, ("", ""))
        made = object_components.objects(self.document, self.options["kubernetes"])
        wanted = [each for each in made if each["kind"] == begins]
        if not wanted:
            return
        labels = self._own()
        kinds = [(each["apiVersion"], each["kind"]) for each in wanted[:1]]
        if self.check and not self.server.resources(kinds):
            self.done += [Change(str(Key.of(each)), "object", None, "present", lambda: None) for each in wanted]
            return
        # another fabric's is seen too: it has the one name that the operator takes
        wish = Wish(wanted, labels, _cluster_access.FAMILY, kinds, manager=MANAGER, force=self.options["force"])
        part = Apply(self.server, wish, self.check, _cluster_access.say)
        self._parts.append(part)
        part.present(False)
        made = object_components.objects(self.document, self.options["kubernetes"])
        needed = any(each["apiVersion"] == brings for each in made)
        end = time.monotonic() + self.options["timeout"]
        while needed and not self.check and self.server.ask("GET", "/apis/" + brings)[0] == 404:
            if time.monotonic() >= end:
                raise RailyardError(
                    "%s does not bring the kinds of %s, after %d s" % (self.name, brings, self.options["timeout"]),
                    str(Key.of(wanted[0])),
                    "see its state (kubectl describe %s) and that the operator's pod runs" % begins.lower(),
                )
            time.sleep(_LOOK)

    # -- removing

    def absent(self) -> None:
        """What must go before a release does; for manifests, all but the definitions."""
        self._unused()
        if self.name in CONSENT and not self.check and self.options["consent"] != self.name:
            raise Refused(
                "nobody consented to take the network of all pods away",
                "consent",
                "see with --check what would go, then consent with %s" % self.name,
            )
        if self.pin.kind == software_versions.CHART:
            namespace = self._namespace()
            state = helm_releases.state(self.server, namespace, self.pin.chart)
            half_gone = helm_releases.half_gone(state, namespace, self.pin.chart)
            if half_gone:
                raise half_gone
            self.release = {
                "name": self.pin.chart,
                "namespace": namespace,
                "chart": "",
                "version": "",
                "values": {},
                "helm": _helm.program(self.options["helm"]),
                "environment": self._environment(),
                "again": False,
            }
            return
        part = Apply(self.server, self._wish([], upstream_manifests.ORDER), self.check, _cluster_access.say)
        self._parts.append(part)
        part.absent(self.options["timeout"])

    def purged(self) -> None:
        """The definitions too, and with them every object of theirs."""
        self._unused()
        part = Definitions(self.server, (software_versions.SOFTWARE, self.name), self.check, _cluster_access.say)
        self._parts.append(part)
        part.absent(self.options["timeout"], _SHARED, self._own() if self.check else None)

    def _unused(self) -> None:
        """:raises Refused: while objects of a fabric are served by it: their finalizers would hang without it."""
        groups = _SERVES.get(self.name, ())
        kinds = [kind for kind in KINDS if kind[0].partition("/")[0] in groups]
        selector = "%s=%s" % (MANAGED_BY, MANAGER)
        left: dict[str, int] = {}
        # playbooks/teardown.yml takes those of this fabric away before, which in check mode are still there
        first: dict[str, int] = {}
        for kind, resource in self.server.resources(kinds).items():
            found = self.server.list(resource, selector, METADATA)
            count = len([each for each in found if not self.check or not selected(each, self._own())])
            if count:
                left[kind[1]] = count
            if len(found) > count:
                first[kind[1]] = len(found) - count
        if first:
            self.warnings.append(
                "%s still serves %s of fabric %s; outside check mode it stays until these are gone"
                % (self.name, _counted(first), self.view.name)
            )
        if left:
            raise Refused(
                "it still serves %s" % _counted(left),
                "%s of %s" % (self.name, self.server.url),
                "take the rail networks away first, with %s: without it nobody lets them go" % playbook("teardown"),
            )

    def _own(self) -> dict[str, str]:
        """The labels of this fabric's objects."""
        return {MANAGED_BY: MANAGER, FABRIC: self.view.name}


def _counted(kinds: t.Mapping[str, int]) -> str:
    return ", ".join("%d %s" % (count, kind) for kind, count in sorted(kinds.items()))
