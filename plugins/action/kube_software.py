# Copyright (c) 2026, Railyard contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.changes import as_diff
from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.objects import object_components
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.software import (
    chart_values,
    software_rules,
    upstream_manifests,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.view import software_versions
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.view.object_options import Options
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.view.plan_view import (
    FABRIC,
    MANAGED_BY,
    MANAGER,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.provider_facts import facts_of
from ansible_collections.railyard.fabric.plugins.module_utils._kube.api.api_server import Server
from ansible_collections.railyard.fabric.plugins.module_utils._kube.api.connect import for_helm
from ansible_collections.railyard.fabric.plugins.module_utils._kube.apply import helm_releases
from ansible_collections.railyard.fabric.plugins.module_utils._kube.apply.software_objects import (
    Ownership,
    SoftwareObjects,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils import _archives, _cluster_access, _helm, _planned
from ansible_collections.railyard.fabric.plugins.plugin_utils._controller_action import ControllerAction

_STATES = ("present", "started", "absent", "purged", "gathered")


class ActionModule(ControllerAction):
    """Installs software in a cluster, except charts; documented in ``plugins/modules/kube_software.py``."""

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
            raise RailyardError("is missing", "name", "use one of %s" % ", ".join(software_versions.PINS))
        run = SoftwareRun(options, document, check)
        failed: dict[str, t.Any] = {}
        try:
            getattr(run, options["state"])()
        except RailyardError as error:
            failed = error.as_result()
        changes = run.objects.changes if run.objects else []
        return {
            "changed": bool(changes),
            "changes": [change.as_dict() for change in changes],
            "diff": as_diff(changes) if self._task.diff else {},
            "release": run.release,
            "warnings": run.warnings + (run.objects.warnings if run.objects else []),
            "summary": "" if failed else run.summary(len(changes)),
            **failed,
        }


class SoftwareRun:
    """One piece of software on one server. It reads the files, and calls the functions that check and write."""

    def __init__(self, options: t.Mapping[str, t.Any], document: t.Mapping[str, t.Any], check: bool) -> None:
        self.options = options
        self.name: str = options["name"]
        self.pin = software_versions.PINS[self.name]
        self.check = check
        self.view = object_components.viewed(document)
        self.plain = Options.of(options["kubernetes"], document["fabric"])
        self.document = document
        self.release: dict[str, t.Any] = {}
        self.warnings: list[str] = []
        self.objects: SoftwareObjects | None = None
        self._ours = {MANAGED_BY: MANAGER, FABRIC: self.view.name}

    @property
    def writer(self) -> SoftwareObjects:
        """The connection to the server, created at its first use."""
        if self.objects is None:
            server = _cluster_access.server(self.options)
            _version = server.version
            own = Ownership(
                software_versions.labels(self.name),
                (software_versions.SOFTWARE, self.name),
                MANAGER,
                self.options["force"],
                software_rules.FORCE,
            )
            self.objects = SoftwareObjects(server, own, self.options["timeout"], self.check, _cluster_access.say)
        return self.objects

    @property
    def server(self) -> Server:
        return self.writer.server

    def summary(self, changes: int) -> str:
        what = "%d changes%s" % (changes, " (nothing is written in check mode)" if self.check else "")
        version = self.options["version"] or self.pin.version
        return "%s %s: %s" % (self.name, version, what if changes else "nothing differs")

    def present(self) -> None:
        method = self.options["method"] or next(iter(self.pin.files))
        files = software_versions.files(self.name, method, self.options["version"], self.options["checksums"])
        if self.pin.kind == software_versions.CHART:
            self._chart(files[0])
        else:
            self._manifest(method, files)

    def _chart(self, file: software_versions.File) -> None:
        program, environment = _helm.program(self.options["helm"]), self._environment()
        archive = _archives.found(self.name, self.options["source"], file, program)
        chart = _archives.chart(archive)
        software_rules.check_chart(self.name, chart, file.name, archive.path)
        planned = object_components.values(self.document, self.options["kubernetes"]).get(self.pin.chart, {})
        values, warnings = software_rules.values(
            self.name, chart, planned, self.options["values"], self.view, self.plain
        )
        self.warnings += warnings
        software_rules.check_server(chart, file.name, self.server.version, self.server.url)
        namespace = self._namespace()
        state = helm_releases.state(self.server, namespace, self.pin.chart)
        unfinished = helm_releases.unfinished(state, namespace, self.pin.chart)
        if unfinished:
            raise unfinished
        self.check_other_fabrics()
        self.writer.apply_definitions(chart_values.definitions(chart, values))
        # Pods that change nodes cannot start in a namespace with a restrictive policy.
        labels = {"pod-security.kubernetes.io/enforce": "privileged", **software_versions.labels(self.name)}
        self.writer.create_namespace(namespace, labels)
        again = state == helm_releases.FAILED
        self._set_release(program, environment, namespace, archive.path, chart.version, values, again)

    def _set_release(
        self,
        program: str,
        environment: dict[str, str],
        namespace: str,
        chart: str = "",
        version: str = "",
        values: t.Mapping[str, t.Any] | None = None,
        again: bool = False,
    ) -> None:
        self.release = {
            "name": self.pin.chart,
            "namespace": namespace,
            "chart": chart,
            "version": version,
            "values": values or {},
            "helm": program,
            "environment": environment,
            "again": again,
        }

    def check_other_fabrics(self) -> None:
        """Check that the operator does not serve another fabric.

        :raises Refused: if it does, and supports only one.
        """
        selector = "%s=%s,%s,%s!=%s" % (MANAGED_BY, MANAGER, FABRIC, FABRIC, self.view.name)
        names = self.writer.label_values(software_rules.fabric_kinds(self.name), selector, FABRIC)
        self.warnings += software_rules.other_fabrics(self.name, names, self.view, self.server.url)

    def _environment(self) -> dict[str, str]:
        return for_helm(self.options["kubeconfig"], self.options["context"])

    def _namespace(self) -> str:
        return software_rules.namespace(self.name, self.options["namespace"], self.view, self.plain)

    def _manifest(self, method: str, files: t.Iterable[software_versions.File]) -> None:
        settings = upstream_manifests.Settings.of(self.name, self.options["settings"])
        upstream_manifests.on_rails(self.name, settings, self.view)
        objects: list[dict[str, t.Any]] = []
        for file in files:
            archive = _archives.found(self.name, self.options["source"], file)
            if not archive.content:
                raise RailyardError("it is a chart", archive.path, "set the directory that contains %s" % file.name)
            objects += _archives.documents(archive.content, archive.path)
        version = self.options["version"] or self.pin.version
        definitions, rest = upstream_manifests.adjusted(
            self.name, method, objects, settings, self.plain.registry, version
        )
        self.writer.apply_manifest(definitions, rest, upstream_manifests.ORDER)

    def started(self) -> None:
        """Apply the objects for which an operator defines more kinds, and wait until the server has these kinds."""
        planned = object_components.objects(self.document, self.options["kubernetes"])
        objects, creates = software_rules.started_by(self.name, planned)
        if objects:
            # The operator accepts only one name, so an object of another fabric is read too.
            self.writer.start(objects, self._ours, _cluster_access.FAMILY, creates)

    def absent(self) -> None:
        """Delete the objects of a manifest, but not its definitions; for a chart, check that it can be removed."""
        self._check_unused()
        if not self.check:
            software_rules.check_consent(self.name, self.options["consent"])
        if self.pin.kind != software_versions.CHART:
            return self.writer.delete(upstream_manifests.ORDER)
        namespace = self._namespace()
        state = helm_releases.state(self.server, namespace, self.pin.chart)
        half_gone = helm_releases.half_gone(state, namespace, self.pin.chart)
        if half_gone:
            raise half_gone
        self._set_release(_helm.program(self.options["helm"]), self._environment(), namespace)
        return None

    def purged(self) -> None:
        """Delete the definitions, and so all objects of their kinds."""
        self._check_unused()
        self.writer.delete_definitions(software_rules.SHARED, self._ours)

    def _check_unused(self) -> None:
        """Check that no object of a fabric needs the software.

        :raises Refused: if one does.
        """
        kinds = software_rules.served_kinds(self.name)
        existing, deleted = self.writer.count(kinds, "%s=%s" % (MANAGED_BY, MANAGER), self._ours)
        self.warnings += software_rules.unused(self.name, existing, deleted, self.view, self.server.url)
