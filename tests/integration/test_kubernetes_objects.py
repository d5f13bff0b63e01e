# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan's objects on a real API server: taken as they are by server-side apply, and unchanged by a second one."""

from __future__ import annotations

import functools
import typing as t
from pathlib import Path

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.objects import object_components
from tests.integration.cluster import Cluster, Object
from tests.unit.fabric.kubernetes import plans
from tests.unit.fabric.kubernetes.documents import combinations

ROOT = Path(__file__).resolve().parents[2]
OPTIONS = {
    "images": {"test": "registry.example/tools/rdma:1.2"},
    "registry": "registry.example",
    "pkey": "0x7fff",
    "ufm_secret": "ufm",
}
# What a server gives an object by itself, beyond what was applied.
SERVERS_OWN = ("creationTimestamp", "generation", "managedFields", "resourceVersion", "selfLink", "uid")


def cases() -> t.Iterator[t.Any]:
    for path in sorted(ROOT.glob("inventories/*/fabric.yml")):
        yield pytest.param(path.read_bytes, id=path.parent.name)
    for provider, attachment, mode in combinations():
        file = functools.partial(plans.fabric_file, provider, attachment, mode, (4, 6))
        yield pytest.param(file, id="%s-%s-%s" % (provider, attachment, mode))


Apply = t.Callable[[t.Sequence[Object]], t.List[Object]]


@pytest.fixture(scope="module", autouse=True)
def _no_deletion_goes_on(cluster: Cluster) -> None:
    """Namespaces that earlier tests have deleted are gone, and can be created."""
    cluster.clean(wait=True)


@pytest.fixture
def apply(cluster: Cluster) -> t.Iterator[Apply]:
    """Applies objects, and deletes them after the test: of a plan that shrinks more changes at the second apply.

    Where a whole mapping leaves an object and the CRD has a default below it, the server keeps the default, and takes
    the mapping out of our managed fields only when the object is applied again.
    """
    applied: dict[tuple[str, str], Object] = {}

    def all_of(things: t.Sequence[Object]) -> list[Object]:
        applied.update(((each["kind"], each["metadata"]["name"]), each) for each in things)
        return [cluster.apply(each) for each in things]

    yield all_of
    for each in applied.values():
        metadata = each["metadata"]
        cluster.resource(each).delete(name=metadata["name"], namespace=metadata.get("namespace"))


@pytest.mark.parametrize("case", list(cases()))
def test_applied_objects_do_not_change_a_second_time(
    cluster: Cluster, apply: Apply, case: t.Callable[[], t.Any]
) -> None:
    things = list(object_components.objects(plans.planned(case()), OPTIONS))
    if cluster.version < (1, 34) and any(each["apiVersion"] == "resource.k8s.io/v1" for each in things):
        pytest.skip("Kubernetes %d.%d has no resource.k8s.io/v1" % cluster.version)
    # Operators' namespaces come with their charts.
    for name in sorted({each["metadata"].get("namespace", "default") for each in things} - {"default", "kube-system"}):
        cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    taken = apply(things)
    for wanted, found in zip(things, taken):
        _is_held(wanted, found)
    again = apply(things)
    assert [_version(each) for each in again] == [_version(each) for each in taken]


def _version(found: Object) -> tuple[str, str, str]:
    """What an apply that changes nothing leaves alone. A DaemonSet's controller writes its status at any time."""
    metadata = found["metadata"]
    key = "generation" if found["kind"] == "DaemonSet" else "resourceVersion"
    return found["kind"], metadata["name"], str(metadata[key])


def _is_held(wanted: Object, found: Object) -> None:
    """All that was applied is there, value for value; the server may have added defaults."""
    for key in ("apiVersion", "kind"):
        assert found[key] == wanted[key]
    metadata = {key: value for key, value in found["metadata"].items() if key not in SERVERS_OWN}
    assert metadata["labels"] == wanted["metadata"]["labels"]
    for key in ("spec", "data"):
        if key in wanted:
            _holds(found.get(key, {}), wanted[key], "%s %s.%s" % (wanted["kind"], wanted["metadata"]["name"], key))


def _holds(found: t.Any, wanted: t.Any, place: str) -> None:
    if isinstance(wanted, dict):
        for key, value in wanted.items():
            assert key in found, "%s.%s was dropped" % (place, key)
            _holds(found[key], value, "%s.%s" % (place, key))
    elif isinstance(wanted, list):
        assert len(found) == len(wanted), place
        for at, value in enumerate(wanted):
            _holds(found[at], value, "%s[%d]" % (place, at))
    else:
        assert found == wanted, place
