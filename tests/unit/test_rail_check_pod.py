# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The pod of docs/rail-check-pod.yml: it has only fields of Kubernetes, and it mounts what the check reads."""

from __future__ import annotations

import os
import typing as t

import kubernetes
import yaml

from ansible_collections.railyard.fabric.plugins.module_utils._node.health import health_state
from tests.playbook import ROOT

POD = ROOT / "docs" / "rail-check-pod.yml"


def check_fields(value: t.Any, kind: str, place: str = "") -> None:
    """Assert that all keys of a manifest are fields of this class of the Kubernetes client, also below."""
    if kind.startswith("list["):
        for number, each in enumerate(value):
            check_fields(each, kind[len("list[") : -1], "%s[%d]" % (place, number))
    elif hasattr(kubernetes.client, kind):
        made = getattr(kubernetes.client, kind)
        fields = {name: made.openapi_types[key] for key, name in made.attribute_map.items()}
        for key, each in value.items():
            assert key in fields, "%s.%s is not a field of %s" % (place, key, kind)
            check_fields(each, fields[key], "%s.%s" % (place, key))


def test_the_manifest_is_a_pod() -> None:
    pod = yaml.safe_load(POD.read_text())
    check_fields(pod, "V1Pod")
    (init,) = pod["spec"]["initContainers"]
    mounts = {mount["mountPath"]: mount for mount in init["volumeMounts"]}
    volumes = {volume["name"]: volume["hostPath"]["path"] for volume in pod["spec"]["volumes"]}
    # the directory, because the service replaces the file
    assert volumes[mounts[health_state.DIRECTORY]["name"]] == health_state.DIRECTORY
    program = init["command"][2]
    assert volumes[mounts[os.path.dirname(program)]["name"]] == "/usr/local/lib/railyard"
    assert all(mount["readOnly"] for mount in mounts.values())
