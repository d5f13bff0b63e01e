# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A real API server for tests: fixtures ``cluster``, ``namespace`` and ``clean_cluster``.

Each test process has a cluster of its own, which it may fill and empty as it likes and which ends with it, so that
no user's own cluster is touched and processes side by side do not disturb each other. ``RAILYARD_CLUSTER=NAME`` takes
the cluster of that lab instead and leaves it up: quicker while one writes tests, but emptied by them.
"""

from __future__ import annotations

import os
import re
import secrets
import subprocess
import time
import typing as t
from pathlib import Path

import kubernetes
import pytest
from kubernetes.dynamic import DynamicClient
from kubernetes.dynamic.exceptions import NotFoundError

from lab.cluster import lifecycle, schemas, state, tools
from lab.cluster.api import Api, Refused
from lab.image import cache_directory

Object = t.Dict[str, t.Any]
NODES = ["node-1", "node-2"]
OURS = re.compile(r"pytest-(\d+)")
BUILT_IN = {"default", "kube-system", "kube-public", "kube-node-lease"}
# namespaces that the fixture ``namespace`` makes
ONCE = re.compile(r"test-[0-9a-f]{8}")
SECONDS = 180.0


class Cluster:
    """A running cluster: its kubeconfig, kubectl and helm, and objects through the dynamic client."""

    def __init__(self, running: state.Cluster, cache: Path) -> None:
        self.running = running
        self.kubeconfig = running.kubeconfig
        self.env = {**os.environ, "KUBECONFIG": str(running.kubeconfig), "K8S_AUTH_KUBECONFIG": str(running.kubeconfig)}
        configuration = kubernetes.client.Configuration()
        kubernetes.config.load_kube_config(str(running.kubeconfig), client_configuration=configuration)
        self._configuration, self._cache = configuration, cache
        self.client = self.client_as()

    def client_as(self, user: str | None = None) -> DynamicClient:
        """A client of the administrator, or of a user that the administrator impersonates."""
        client = kubernetes.client.ApiClient(self._configuration)
        if user:
            client.set_default_header("Impersonate-User", user)
        # its own file, or two clients would each write what they discovered over the other's
        return DynamicClient(client, cache_file=str(self._cache / ("discovery-%s" % secrets.token_hex(4))))

    @property
    def version(self) -> tuple[int, int]:
        return self.running.binaries.release

    def crds(self) -> dict[str, Object]:
        """The CRDs on the server by name."""
        with Api(self.running) as api:
            return {item["metadata"]["name"]: item for item in api.get(schemas.PATH)["items"]}

    def load_crds(self, *directories: Path) -> list[str]:
        """Bring the CRDs of these folders in, over others of the same name; the names of those that this changed."""
        with Api(self.running) as api:
            changed = schemas.apply(api, schemas.read(list(directories))[0])
        self.client = self.client_as()
        return changed

    def resource(self, wanted: Object, client: DynamicClient | None = None) -> t.Any:
        """The client for the kind of an object."""
        return (client or self.client).resources.get(api_version=wanted["apiVersion"], kind=wanted["kind"])

    def apply(
        self,
        wanted: Object,
        manager: str = "railyard",
        force: bool = False,
        dry_run: bool = False,
        client: DynamicClient | None = None,
    ) -> Object:
        """Server-side apply; the object as the server then has it. Raises ApiException when it refuses."""
        metadata = wanted["metadata"]
        applied = self.resource(wanted, client).server_side_apply(
            body=wanted,
            name=metadata["name"],
            namespace=metadata.get("namespace"),
            field_manager=manager,
            force_conflicts=force,
            **({"dry_run": "All"} if dry_run else {}),
        )
        found: Object = applied.to_dict()
        return found

    def get(self, wanted: Object) -> Object | None:
        """The object of the same kind, name and namespace as the server has it; None if it does not exist."""
        metadata = wanted["metadata"]
        try:
            found = self.resource(wanted).get(name=metadata["name"], namespace=metadata.get("namespace"))
        except NotFoundError:
            return None
        value: Object = found.to_dict()
        return value

    def kubectl(self, *words: str, text: str | None = None) -> str:
        """Run kubectl; its standard output. Raises AssertionError with both streams where it fails."""
        return self._run("kubectl", *words, text=text)

    def helm(self, *words: str) -> str:
        """Run helm 3, as :meth:`kubectl`."""
        return self._run("helm", *words)

    def _run(self, tool: str, *words: str, text: str | None = None) -> str:
        argv = [tools.ensure(tool, cache_directory()), *words]
        done = subprocess.run(argv, input=text or "", env=self.env, capture_output=True, text=True, timeout=600)
        if done.returncode:
            raise AssertionError("%s\n%s%s" % (" ".join(argv), done.stdout, done.stderr))
        return done.stdout

    def clean(self, wait: bool = False) -> None:
        """Take every custom resource and every namespace away but the server's own; finalizers are dropped.

        No controller of upstream runs here, so no other program would ever drop them. Namespaces end in the background;
        ``wait`` until those are gone that are not any test's own, which have names that come once.
        """
        with Api(self.running) as api:
            for item in self.crds().values():
                spec = item["spec"]
                version = next(one["name"] for one in spec["versions"] if one["served"])
                _delete_all(api, "/apis/%s/%s" % (spec["group"], version), spec["names"]["plural"])
            for one in api.get("/api/v1/namespaces")["items"]:
                if one["metadata"]["name"] not in BUILT_IN and one["status"]["phase"] == "Active":
                    self.delete_namespace(one["metadata"]["name"], wait=False)
            end = time.monotonic() + SECONDS
            while wait:
                names = [one["metadata"]["name"] for one in api.get("/api/v1/namespaces")["items"]]
                left = [name for name in names if name not in BUILT_IN and not ONCE.fullmatch(name)]
                wait = bool(left)
                assert not left or time.monotonic() < end, "these namespaces do not end: %s" % left
                time.sleep(0.1)

    def delete_namespace(self, name: str, wait: bool = True) -> None:
        """Delete a namespace and all in it; ``wait`` until it is gone, some five seconds."""
        path = "/api/v1/namespaces/%s" % name
        with Api(self.running) as api:
            end = time.monotonic() + SECONDS
            try:
                api.request("DELETE", path)
                if self.running.binaries.manager is None:
                    left = api.get(path)
                    left["spec"]["finalizers"] = []
                    api.request("PUT", path + "/finalize", left)
                while wait:
                    left = api.get(path)
                    assert time.monotonic() < end, "namespace %s does not end: %s" % (name, left["status"])
                    time.sleep(0.1)
            except Refused as error:
                if error.status not in (404, 409):  # it is gone, or another has deleted it already
                    raise


def _delete_all(api: Api, group: str, plural: str) -> None:
    """Delete all objects of a kind, in every namespace, with their finalizers."""
    for item in api.get("%s/%s" % (group, plural))["items"]:
        metadata = item["metadata"]
        place = "/namespaces/%s" % metadata["namespace"] if metadata.get("namespace") else ""
        path = "%s%s/%s/%s" % (group, place, plural, metadata["name"])
        try:
            if metadata.get("finalizers"):
                api.request("PATCH", path, {"metadata": {"finalizers": None}}, "application/merge-patch+json")
            api.request("DELETE", path)
        except Refused as error:
            if error.status != 404:  # the patch may have let go of one that was already being deleted
                raise


def _sweep() -> None:
    """End the clusters of test processes that were killed."""
    for name in state.names():
        owner = OURS.fullmatch(name)
        if owner and not Path("/proc/%s" % owner.group(1)).exists():
            lifecycle.down(name)


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> t.Iterator[Cluster]:
    """A cluster with upstream's CRDs and the Node objects node-1 and node-2."""
    own = os.environ.get("RAILYARD_CLUSTER")
    _sweep()
    name = own or "pytest-%d" % os.getpid()
    try:
        running, _done = lifecycle.up(lifecycle.Spec(name, nodes=NODES))
        yield Cluster(running, tmp_path_factory.mktemp("cluster"))
    finally:
        if not own:
            lifecycle.down(name)


@pytest.fixture
def namespace(cluster: Cluster) -> t.Iterator[str]:
    """A fresh namespace; after the test the server takes it away with all that is in it, while the next one runs."""
    name = "test-%s" % secrets.token_hex(4)
    assert ONCE.fullmatch(name)
    with Api(cluster.running) as api:
        api.request("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    yield name
    cluster.delete_namespace(name, wait=False)


@pytest.fixture
def clean_cluster(cluster: Cluster) -> t.Iterator[Cluster]:
    """The cluster without custom resources and without namespaces but the server's own, before and after the test."""
    cluster.clean(wait=True)
    yield cluster
    cluster.clean()
