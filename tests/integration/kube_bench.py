# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A fabric file, a real API server behind a proxy, and what the actions do with both; ``bench`` of kube_fixtures.py."""

from __future__ import annotations

import types
import typing as t
from pathlib import Path

import pytest
import yaml
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.view.plan_view import (
    FABRIC,
    LABEL,
    MANAGER,
)
from ansible_collections.railyard.fabric.plugins.module_utils._kube.api import api_server
from ansible_collections.railyard.fabric.plugins.module_utils._kube.api.connect import connect
from ansible_collections.railyard.fabric.plugins.module_utils._kube.apply.node_labels import Labelling
from ansible_collections.railyard.fabric.plugins.module_utils._kube.apply.object_writes import observed
from ansible_collections.railyard.fabric.plugins.module_utils._kube.apply.send_writes import Apply
from ansible_collections.railyard.fabric.plugins.plugin_utils._cluster_access import Planned
from ansible_collections.railyard.fabric.plugins.plugin_utils._controller_action import ControllerAction
from lab.cluster.proxy import Proxy
from tests.integration.cluster import Cluster, Object
from tests.unit.fabric.kubernetes import plans

# Everything in namespaces that any cluster has, and nothing of Prometheus', so that each test fills an empty cluster.
OPTIONS: Object = {"metrics": False, "registry": "registry.example"}


def quiet(_text: str) -> None:
    """Progress is not looked at."""


def kubeconfig(path: Path, url: str, user: Object | None = None, authority: Path | None = None) -> Path:
    cluster: Object = {"server": url}
    if authority:
        cluster["certificate-authority"] = str(authority)
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "it", "cluster": cluster}],
        "users": [{"name": "who", "user": user or {}}],
        "contexts": [{"name": "it", "context": {"cluster": "it", "user": "who"}}],
        "current-context": "it",
    }
    path.write_text(yaml.safe_dump(config))
    return path


def work(action: type[ControllerAction], options: Object, check: bool = False) -> Object:
    """Run an action plugin without a playbook, with options that Ansible has validated. Return its result."""
    validated = ArgumentSpecValidator(dict(action.SPEC)).validate(options)
    assert not validated.error_messages, validated.error_messages
    made = object.__new__(action)
    made._task = types.SimpleNamespace(diff=True)
    return made.work(validated.validated_parameters, check)


class Bench:
    """A fabric file, the cluster, and what the actions do with both."""

    def __init__(self, cluster: Cluster, proxy: Proxy, place: Path) -> None:
        self.cluster, self.proxy, self.place = cluster, proxy, place
        # The proxy has no TLS. Without an authority, each connection reads all authorities of the machine.
        self.kubeconfig = kubeconfig(place / "proxied", proxy.url, authority=cluster.running.pki / "ca.crt")

    def plan(
        self, provider: str = "spiderpool", attachment: str = "macvlan", mode: str = "subnet", **more: t.Any
    ) -> Planned:
        file = plans.fabric_file(provider, attachment, mode, (4,))
        file["nodes"] = {"node-[1:2]": {"profile": "hgx"}}
        for key, value in more.pop("options", OPTIONS).items():
            more.setdefault("kubernetes", {})[key] = value
        given = more.pop("kubernetes", {})
        file["fabric"].update(more.pop("fabric", {}))
        file["addresses"].update(more.pop("addresses", {}))
        file.update((key, more.pop(key)) for key in ("names", "nodes", "units") if key in more)
        for rail, values in more.pop("rails", {}).items():
            file["rails"][rail].update(values)
        for rail in more.pop("without", ()):
            del file["rails"][rail], file["profiles"]["hgx"]["ports"][rail]
        assert not more, more
        path = self.place / "fabric.yml"
        path.write_text(yaml.safe_dump(file, sort_keys=False))
        return Planned({"file": str(path), "kubernetes": given})

    def server(self, config: Path | None = None) -> api_server.Server:
        return connect(str(config or self.kubeconfig), None, 4)

    def apply(
        self,
        plan: Planned,
        check: bool = False,
        prune: bool = True,
        force: bool = False,
        config: Path | None = None,
        replace: bool = False,
        timeout: float = 120,
    ) -> Apply:
        self.proxy.seen.clear()
        run = Apply(self.server(config), plan.desired(force, replace), check, quiet)
        run.present(prune, timeout)
        return run

    def absent(self, plan: Planned, timeout: float = 120, check: bool = False) -> Apply:
        self.proxy.seen.clear()
        run = Apply(self.server(), plan.desired(), check, quiet)
        run.absent(timeout)
        return run

    def refused(self, plan: Planned, **how: t.Any) -> str:
        with pytest.raises(RailyardError) as error:
            self.apply(plan, **how)
        text = str(error.value)
        assert "Traceback" not in text and "object at 0x" not in text
        return text

    def live(self, plan: Planned) -> dict[str, Object]:
        """What carries the fabric's labels, by kind and name."""
        desired, made = plan.desired(), self.server()
        found = observed(made, made.resources(desired.kinds), desired.labels, quiet)
        return {"%s %s" % (key.kind, key.name): each for key, each in found.items()}


def made(cluster: Cluster, proxy: Proxy, place: Path, monkeypatch: pytest.MonkeyPatch) -> t.Iterator[Bench]:
    """The fixture ``bench``."""
    # an absent server is waited for as long as it takes to see that it is awaited
    monkeypatch.setattr(api_server, "_AGAIN", (0.05, 0.1))
    monkeypatch.setattr(api_server, "_AWAY", 0.3)
    found = Bench(cluster, proxy, place)
    yield found
    for name in ("ai", "other"):
        clean = Apply(
            connect(str(cluster.kubeconfig), None, 4), found.plan(fabric={"name": name}).desired(), False, quiet
        )
        clean.absent(120)
        Labelling(clean.server, {}, {FABRIC: name}, LABEL, MANAGER).run(False, quiet)


def names(run: Apply) -> list[str]:
    return sorted("%s %s" % (write.key.kind, write.key.name) for write in run.done)


def pool(name: str = "ai-gpu01") -> Object:
    return {
        "apiVersion": "spiderpool.spidernet.io/v2beta1",
        "kind": "SpiderIPPool",
        "metadata": {"name": name},
    }
