# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Shared by actions on a cluster: the connection, and the desired objects of a plan."""

from __future__ import annotations

import contextlib
import importlib
import typing as t

from ansible.utils.display import Display

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.objects import object_components
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.objects.object_files import ON_DEMAND
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.objects.replacement_table import RULES
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.providers import partition_keys
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.view.object_kinds import KINDS
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.view.object_options import Options
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.view.plan_view import (
    COMPONENT,
    FABRIC,
    MANAGED_BY,
    MANAGER,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.provider_facts import facts_of
from ansible_collections.railyard.fabric.plugins.module_utils._kube.api.api_server import Server
from ansible_collections.railyard.fabric.plugins.module_utils._kube.api.connect import connect
from ansible_collections.railyard.fabric.plugins.module_utils._kube.apply.object_writes import DesiredObjects
from ansible_collections.railyard.fabric.plugins.plugin_utils import _planned

# Imported here, because Ansible loads this module once and then forks a process for each task. The import takes longer
# than a run without changes. connect() reports a missing client.
with contextlib.suppress(ImportError):
    importlib.import_module("kubernetes.config")

# Documented in plugins/doc_fragments/kube.py.
CONNECTION: dict[str, t.Any] = {
    "kubeconfig": {"type": "path"},
    "context": {"type": "str"},
    "connections": {"type": "int", "default": 8},
}
SPEC: dict[str, t.Any] = {
    **CONNECTION,
    "file": {"type": "path"},
    "kubernetes": {"type": "dict", "default": {}},
}
FAMILY = {MANAGED_BY: MANAGER}


def server(options: t.Mapping[str, t.Any]) -> Server:
    """Return the connection to the cluster of the options."""
    if options["connections"] < 1:
        raise RailyardError("%d is less than 1" % options["connections"], "connections", "use 1 or more")
    return connect(options["kubeconfig"], options["context"], options["connections"], say)


class Planned:
    """A plan with its Kubernetes objects."""

    def __init__(self, options: t.Mapping[str, t.Any]) -> None:
        self.document = _planned.document(options["file"])
        self.given: t.Mapping[str, t.Any] = options["kubernetes"]
        self.fabric: str = self.document["fabric"]["name"]
        known = Options.of(self.given, self.document["fabric"])
        self.objects = [
            made
            for component, made in object_components.components(self.document, self.given)
            if component not in ON_DEMAND or known.test_pods
        ]
        self.facts = facts_of(self.document["fabric"]["provider"])
        # If a rule of Node Feature Discovery sets these labels, nothing else must set them.
        self.labels_nodes = not known.node_feature_rule

    def desired(self, force: bool = False, replace: bool = False) -> DesiredObjects:
        """Return the desired state of the cluster. ``force``: take over fields; ``replace``: allow replacements."""
        return DesiredObjects(
            self.objects,
            dict(FAMILY, **{FABRIC: self.fabric}),
            FAMILY,
            list(KINDS),
            makers={kind: remedy for kind, remedy in KINDS.items() if remedy},
            started=[{COMPONENT: component} for component in ON_DEMAND],
            manager=MANAGER,
            force=force,
            rules=RULES,
            replace=replace,
        )

    def secrets(self) -> list[partition_keys.Secret]:
        """Return the secrets that must exist before anything is applied."""
        return object_components.secrets(self.document, self.given)

    def node_labels(self) -> dict[str, dict[str, str]]:
        """Return node -> its planned labels."""
        return object_components.node_labels(self.document, self.given)


def say(text: str) -> None:
    """Print a line of progress while a task runs."""
    Display().display("  " + text, color="dark gray")
