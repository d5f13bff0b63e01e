# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The objects, definitions and namespaces of one piece of software, selected by its labels."""

from __future__ import annotations

import time
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.changes import Change
from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._kube.api.api_server import METADATA, Server
from ansible_collections.railyard.fabric.plugins.module_utils._kube.api.concurrency import Say
from ansible_collections.railyard.fabric.plugins.module_utils._kube.api.object_reference import (
    Key,
    Kind,
    Object,
    selected,
)
from ansible_collections.railyard.fabric.plugins.module_utils._kube.apply import namespaces
from ansible_collections.railyard.fabric.plugins.module_utils._kube.apply.crd_writes import Definitions
from ansible_collections.railyard.fabric.plugins.module_utils._kube.apply.object_writes import DesiredObjects
from ansible_collections.railyard.fabric.plugins.module_utils._kube.apply.send_writes import Apply

# Interval of checks, in seconds.
_LOOK = 2.0
_NAMESPACE = ("v1", "Namespace")
Objects = t.Sequence[Object]
Labels = t.Mapping[str, str]


class Ownership(t.NamedTuple):
    """``labels``: of the software's objects; ``owner``: label of its definitions. ``force``: take over fields of other
    managers, which ``force_variable`` allows."""

    labels: Labels
    owner: tuple[str, str]
    manager: str
    force: bool
    force_variable: str


class SoftwareObjects:
    """One run on one server. Each wait takes at most ``timeout`` seconds."""

    def __init__(self, server: Server, own: Ownership, timeout: float, check: bool, say: Say) -> None:
        self.server = server
        self.own = own
        self.timeout = timeout
        self.check = check
        self.say = say
        self._missing: dict[str, bool] = {}
        self._warnings: list[str] = []
        self._parts: list[Apply | Definitions | Change] = []

    @property
    def changes(self) -> list[Change]:
        """The changes so far (in check mode: those that would be made), also after an error."""
        found: list[Change] = []
        for part in self._parts:
            for each in [part] if isinstance(part, Change) else part.done:
                found += [each] if isinstance(each, Change) else each.changes()
        return found

    @property
    def warnings(self) -> list[str]:
        """The warnings of all writes so far."""
        return self._warnings + [text for part in self._parts if not isinstance(part, Change) for text in part.warnings]

    def apply(
        self,
        objects: Objects,
        kinds: t.Sequence[Kind],
        prune: bool,
        labels: Labels | None = None,
        family: Labels | None = None,
    ) -> None:
        """Apply objects.

        :param labels: of the objects with their ``family``, if they differ from the software's.
        """
        self._apply(objects, kinds, labels, family).present(prune)

    def apply_manifest(self, definitions: Objects, objects: Objects, order: t.Sequence[Kind]) -> None:
        """Apply definitions, then namespaces, then other objects. Delete objects that only an older release has."""
        self.apply_definitions(definitions)
        spaces = [each for each in objects if each["kind"] == "Namespace"]
        predicted = [each for each in spaces if self._misses(each["metadata"]["name"]) and self.check]
        self.apply(spaces, [_NAMESPACE], False)
        # the server cannot predict objects whose namespace or kind check mode did not create
        unknown = [each for each in objects if self.check and self._needs_missing(each, definitions)]
        self._predict(unknown)
        self.apply([each for each in objects if each not in unknown + predicted], order, not unknown)

    def apply_definitions(self, definitions: Objects) -> None:
        """Apply CustomResourceDefinitions."""
        self._definitions().present(definitions)

    def create_namespace(self, name: str, labels: Labels) -> None:
        """Create the namespace if it does not exist."""
        if self._misses(name):
            self.apply(
                [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}],
                [_NAMESPACE],
                False,
            )

    def start(self, objects: Objects, labels: Labels, family: Labels, creates: str) -> None:
        """Apply the objects by which an operator defines more kinds, and wait for these kinds.

        :param creates: group and version of these kinds; empty: do not wait.
        """
        kinds = [(each["apiVersion"], each["kind"]) for each in objects[:1]]
        if self.check and not self.server.resources(kinds):
            return self._predict(objects)
        self.apply(objects, kinds, False, labels, family)
        end = time.monotonic() + self.timeout
        while creates and not self.check and self.server.ask("GET", "/apis/" + creates)[0] == 404:
            if time.monotonic() >= end:
                raise RailyardError(
                    "%s does not define the kinds of %s within %d s" % (self.own.owner[1], creates, self.timeout),
                    str(Key.of(objects[0])),
                    "see its state (kubectl describe %s), and check that the operator's pod runs" % kinds[0][1].lower(),
                )
            time.sleep(_LOOK)
        return None

    def delete(self, kinds: t.Sequence[Kind]) -> None:
        """Delete the software's objects of these kinds, and wait until they are gone."""
        self._apply([], kinds).absent(self.timeout)

    def delete_definitions(self, shared: t.Container[str], before: Labels) -> None:
        """Delete the software's definitions.

        :param shared: definitions that stay while they have objects.
        :param before: see :class:`Definitions`.
        """
        self._definitions().absent(self.timeout, shared, before if self.check else None)

    def count(self, kinds: t.Iterable[Kind], selector: str, before: Labels) -> tuple[dict[str, int], dict[str, int]]:
        """Return kind -> number of selected objects, and kind -> number of those that check mode counts as deleted.

        :param before: the labels of objects that would be deleted first.
        """
        existing: dict[str, int] = {}
        deleted: dict[str, int] = {}
        for kind, resource in self.server.resources(kinds).items():
            for each in self.server.list(resource, selector, METADATA):
                counts = deleted if self.check and selected(each, before) else existing
                counts[kind[1]] = counts.get(kind[1], 0) + 1
        return existing, deleted

    def label_values(self, kinds: t.Iterable[Kind], selector: str, label: str) -> set[str]:
        """Return the values of a label of the selected objects."""
        return {
            str(each["metadata"]["labels"][label])
            for resource in self.server.resources(kinds).values()
            for each in self.server.list(resource, selector, METADATA)
        }

    def _apply(
        self, objects: Objects, kinds: t.Sequence[Kind], labels: Labels | None = None, family: Labels | None = None
    ) -> Apply:
        own = self.own
        desired = DesiredObjects(
            objects,
            labels or own.labels,
            family or own.labels,
            kinds,
            manager=own.manager,
            force=own.force,
            force_variable=own.force_variable,
        )
        part = Apply(self.server, desired, self.check, self.say)
        self._parts.append(part)
        return part

    def _definitions(self) -> Definitions:
        part = Definitions(self.server, self.own.owner, self.check, self.say)
        self._parts.append(part)
        return part

    def _predict(self, objects: Objects) -> None:
        self._parts += [Change(str(Key.of(each)), "object", None, "present", lambda: None) for each in objects]

    def _needs_missing(self, made: Object, definitions: Objects) -> bool:
        """Return whether the object needs a namespace or a definition that does not exist."""
        namespace = made["metadata"].get("namespace")
        if namespace and self._misses(namespace):
            return True
        kind = (made["apiVersion"], made["kind"])
        return kind not in self.server.resources([kind]) and any(
            (each["spec"]["group"], each["spec"]["names"]["kind"]) == (kind[0].partition("/")[0], kind[1])
            for each in definitions
        )

    def _misses(self, name: str) -> bool:
        """Return whether the namespace does not exist. Wait if it is being deleted, because it accepts no objects."""
        if name not in self._missing:
            found = namespaces.read(self.server, name)
            end = time.monotonic() + self.timeout
            while found and namespaces.ending(found) and not self.check:
                if time.monotonic() >= end:
                    raise namespaces.hanging(self.server, found, " since %d s" % self.timeout)
                self.say("waiting for namespace %s, which is being deleted" % name)
                time.sleep(_LOOK)
                found = namespaces.read(self.server, name)
            if namespaces.ending(found):
                self._warnings.append("the namespace %s is being deleted; outside check mode this is waited for" % name)
            self._missing[name] = found is None or namespaces.ending(found)
        return self._missing[name]
