# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Check the requirements of a run on a cluster before anything is changed, and report all that are missing at once."""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._kube.api.api_server import METADATA, Resource, Server
from ansible_collections.railyard.fabric.plugins.module_utils._kube.api.concurrency import Say, each
from ansible_collections.railyard.fabric.plugins.module_utils._kube.api.object_reference import Key, Kind, selected
from ansible_collections.railyard.fabric.plugins.module_utils._kube.apply import namespaces
from ansible_collections.railyard.fabric.plugins.module_utils._kube.apply.node_labels import NODES
from ansible_collections.railyard.fabric.plugins.module_utils._kube.apply.object_writes import (
    DesiredObjects,
    leaving,
    observed,
    reduced,
    served,
)

# Server-side apply of a new object needs both create and patch.
_WRITE = ("list", "create", "patch", "delete")
_NODES = ("list", "patch")
# The ConfigMap of Cilium's agents, in the namespace of its release.
_CILIUM = "cilium-config"


class Later(t.NamedTuple):
    """Later steps of the run.

    ``prune``: delete objects that left the plan; ``wait``: wait for nodes and objects; ``beside``: kinds without
    planned objects that are read for that.
    """

    prune: bool = True
    wait: bool = False
    beside: t.Collection[Kind] = ()


_AND_PRUNED = Later()


def problems(
    server: Server,
    desired: DesiredObjects,
    labels_nodes: bool,
    say: Say,
    read: t.Sequence[WantedSecret] = (),
    later: Later = _AND_PRUNED,
) -> list[RailyardError]:
    """Return missing kinds, namespaces, secrets that are ``read``, and permissions; empty if the run can start.

    :param later: later steps, whose permissions are checked too.
    :raises RailyardError: if the server cannot be reached, or is too old.
    """
    _version = server.version
    found: list[RailyardError] = []
    try:
        resources = served(server, desired)
    except RailyardError as error:
        found.extend(getattr(error, "errors", [error]))
        resources = server.resources([*desired.kinds, *desired.own_kinds])
    found.extend(_namespaces(server, desired, say))
    found.extend(missing_secrets(server, read))
    found.extend(_permissions(server, desired, resources, labels_nodes, say, later))
    return found


def overwritten(server: Server, desired: DesiredObjects, maker: str, made: Kind, say: Say) -> list[str]:
    """Return warnings for objects of users that a controller will overwrite and own once ours are applied.

    :param maker: our kind, from which the controller creates objects of the same name.
    :param made: the kind of these objects.
    """
    wanted = {Key.of(each, made) for each in desired.objects if each["kind"] == maker}
    resources = server.resources([made]) if wanted else {}
    live = observed(server, resources, {}, say, accept=METADATA)
    return [
        "%s was created by hand: its controller overwrites it when %s %s is applied, and teardown removes it. Remedy:"
        " save it (kubectl get %s -n %s %s -o yaml), or give the network another name in the fabric file (names)"
        % (key, maker, key.name, resources[made].plural, key.namespace, key.name)
        for key, found in sorted(live.items())
        if key in wanted and not found["metadata"].get("ownerReferences") and not selected(found, desired.family)
    ]


def cilium_renames_configurations(server: Server) -> list[str]:
    """Return a warning for each Cilium whose agent renames the CNI configurations of others, such as that of Multus.

    The agent does so with ``cni-exclusive: "true"`` in its ConfigMap. The values of its chart have that by default. A
    chained Cilium has no such key, and then renames no file. Nothing is returned if the user may not read ConfigMaps.
    """
    status, answer = server.ask("GET", "/api/v1/configmaps?fieldSelector=metadata.name%%3D%s" % _CILIUM)
    found = answer.get("items") or []
    if status >= 400:
        status, answer = server.ask("GET", "/api/v1/namespaces/kube-system/configmaps/%s" % _CILIUM)
        found = [answer] if status < 400 else []
    exclusive = sorted(
        each["metadata"]["namespace"]
        for each in found
        if str((each.get("data") or {}).get("cni-exclusive")).lower() == "true"
    )
    return [
        "ConfigMap %s/%s: cni-exclusive is true, so Cilium renames the CNI configuration of Multus in /etc/cni/net.d to"
        " *.cilium_bak, and new pods get no rail. Remedy: set it to false: helm upgrade cilium cilium/cilium -n %s"
        " --reuse-values --set cni.exclusive=false, then restart the pods of Cilium and of Multus"
        % (namespace, _CILIUM, namespace)
        for namespace in exclusive
    ]


def _namespaces(server: Server, desired: DesiredObjects, say: Say) -> list[RailyardError]:
    """Return an error for each missing namespace. Its operator is not installed either."""
    names = sorted({each["metadata"]["namespace"] for each in desired.objects if each["metadata"].get("namespace")})
    missing: list[str] = []
    going: dict[str, RailyardError] = {}

    def one(name: str) -> None:
        # without the permission to read it, a missing namespace is reported by the apply
        found = namespaces.read(server, name)
        if found is None:
            missing.append(name)
        elif namespaces.ending(found):
            going[name] = namespaces.hanging(server, found)

    each(one, names, server.connections, say, "reading namespaces")
    return [
        RailyardError(
            "the cluster has no namespace %s" % name,
            server.url,
            "install the operator that runs in it, name another with -e kubernetes_options, or create it: "
            "kubectl create namespace %s" % name,
        )
        for name in sorted(missing)
    ] + [error for _name, error in sorted(going.items())]


def _permissions(
    server: Server,
    desired: DesiredObjects,
    resources: t.Mapping[Kind, Resource],
    labels_nodes: bool,
    say: Say,
    later: Later,
) -> list[RailyardError]:
    """Return an error for each missing permission. Kinds that only an earlier plan had need only list, unless objects
    are deleted."""
    used = set(desired.own_kinds)
    asked = {(verb, each) for kind, each in resources.items() for verb in (_WRITE if kind in used else _WRITE[:1])}
    asked |= {(verb, NODES) for verb in _NODES if labels_nodes}
    if later.wait:
        asked |= {("list", each) for each in (NODES, *server.resources(later.beside).values())}
    denied: dict[str, list[str]] = {}

    def one(pair: tuple[str, Resource]) -> None:
        verb, resource = pair
        if not server.may(verb, resource):
            denied.setdefault(resource.name, []).append(verb)

    each(one, sorted(asked), server.connections, say, "checking permissions")
    unused = {kind: each for kind, each in resources.items() if kind not in used and each.name not in denied}
    if later.prune and unused:
        live = observed(server, unused, desired.labels, say, lambda found: reduced(found, desired), METADATA)
        going = {("delete", write.resource) for write in leaving(desired, unused, live)[0]}
        each(one, sorted(going), server.connections, say, "checking permissions")
    return [
        RailyardError(
            "the user may not %s %s" % (", ".join(sorted(verbs)), resource),
            server.url,
            "have a cluster administrator grant it, or name another context with -e kubernetes_context=NAME",
        )
        for resource, verbs in sorted(denied.items())
    ]


class WantedSecret(t.Protocol):
    """A secret and the keys that must have a value in it."""

    @property
    def namespace(self) -> str: ...

    @property
    def name(self) -> str: ...

    @property
    def keys(self) -> t.Sequence[str]: ...


def missing_secrets(server: Server, wanted: t.Iterable[WantedSecret]) -> list[RailyardError]:
    """Return an error for each missing secret or key that users create and controllers read. Values are never shown.

    Nothing is reported if the user may not read secrets; then the controller reports it.
    """
    found = []
    for secret in wanted:
        status, answer = server.ask("GET", "/api/v1/namespaces/%s/secrets/%s" % (secret.namespace, secret.name))
        if status >= 400 and status != 404:
            continue
        values = (answer.get("data") or {}) if status < 400 else {}
        missing = [key for key in secret.keys if not values.get(key)]
        if not missing:
            continue
        place = "secret %s/%s" % (secret.namespace, secret.name)
        words = " ".join("--from-literal=%s=..." % key for key in secret.keys)
        remedy = "create it: kubectl create secret generic %s -n %s %s" % (secret.name, secret.namespace, words)
        what = "does not exist" if status == 404 else "has no %s" % " and no ".join(missing)
        found.append(RailyardError(what, place, remedy if status == 404 else "add the missing keys, or %s" % remedy))
    return found
