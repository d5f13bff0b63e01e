# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Send writes: kinds one after the other, objects of a kind concurrently; in check mode as a server-side dry run."""

from __future__ import annotations

import copy
import threading
import time
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import Errors, RailyardError, Refused
from ansible_collections.railyard.fabric.plugins.module_utils._kube.api.api_errors import (
    Conflict,
    Denied,
    Exists,
    Immutable,
    Refusal,
)
from ansible_collections.railyard.fabric.plugins.module_utils._kube.api.api_server import METADATA, Server
from ansible_collections.railyard.fabric.plugins.module_utils._kube.api.concurrency import (
    Pace,
    Say,
    each,
    raise_refused,
    repeated,
)
from ansible_collections.railyard.fabric.plugins.module_utils._kube.api.object_reference import (
    ADOPTED,
    APPLIED,
    Kind,
    Object,
    adopted,
    digest_of,
    selected,
    version_of,
)
from ansible_collections.railyard.fabric.plugins.module_utils._kube.apply.compare_objects import (
    differences,
    makers,
    released,
    shape,
    unkept,
)
from ansible_collections.railyard.fabric.plugins.module_utils._kube.apply.object_replacement import Arranged, arranged
from ansible_collections.railyard.fabric.plugins.module_utils._kube.apply.object_writes import (
    DesiredObjects,
    Live,
    Write,
    applied,
    decided,
    ending_of,
    ends,
    going,
    keeper,
    kept,
    observed,
    served,
    settler,
)

TRYING = "trying"
# Interval of checks of objects under deletion in seconds, and its minimum as a multiple of the duration of a check.
_LOOK = 1.0
_REST = 5.0
# How often the removal of an object is tried that others change at the same time, such as the status of a pool.
_REMOVALS = 5


class Apply:
    """One run. ``done``: writes so far (in check mode: writes that would be sent), also after an error."""

    def __init__(self, server: Server, desired: DesiredObjects, check: bool, say: Say) -> None:
        self.server = server
        self.desired = desired
        self.check = check
        self.say = say
        self.done: list[Write] = []
        self.warnings: list[str] = []
        self._lock = threading.Lock()
        self._total = 0

    def present(self, prune: bool, timeout: float = 120) -> None:
        """Bring the cluster to the desired state.

        :param timeout: seconds for replaced objects to disappear.
        :raises RailyardError: for all refusals.
        """
        resources = served(self.server, self.desired)
        live = observed(
            self.server,
            resources,
            self.desired.family,
            self.say,
            settler(self.desired),
            whole=frozenset(self.desired.rules),
        )
        writes, warnings = decided(self.desired, resources, live, prune)
        plan = arranged(self.desired, writes, live, prune)
        self.warnings.extend(warnings + plan.warnings)
        raise_refused(list(enumerate(plan.errors)))
        self._consent(plan)
        early = {id(write) for write in plan.early}
        writes = [write for write in writes if id(write) not in early]
        self._total = len(writes) + sum(not ends(write.live) for write in plan.early)
        if self.check:
            first = [write for write in plan.early if not ends(write.live)]
            return self._send(first + writes, lambda write: self._predict(write, plan), TRYING)
        if not self.server.strict:
            self._try(writes, plan)
        for batch in _batches(writes):
            if batch[0].wanted is not None:
                self._make_room(batch, [write for write in plan.early if write.key.type == batch[0].key.type], timeout)
            for step in sorted({write.step for write in batch}):
                self._send([write for write in batch if write.step == step], self._write, "applying")
        return None

    def absent(self, timeout: float) -> None:
        """Delete all objects with our labels in reverse order of application. Wait until the objects of each kind are
        gone.

        :param timeout: seconds for each kind.
        :raises RailyardError: for objects that do not disappear.
        """
        resources = self.server.resources(dict.fromkeys([*self.desired.kinds, *self.desired.own_kinds]))
        whole = frozenset(self.desired.rules)
        live = observed(self.server, resources, self.desired.family, self.say, keeper(self.desired), whole=whole)
        goes = going(self.desired, resources, live, by_users_too=True)
        writes = [write for write in goes if not ends(write.live)]
        self._total = len(writes)
        self.warnings += kept(self.desired, live)
        if self.check:
            self.warnings += ["%s: %s" % (write.key, ending_of(write.live or {})) for write in goes if ends(write.live)]
            return self._send(writes, self._write, TRYING)
        # Wait for objects under deletion in this order: their controllers need the objects after them.
        for batch in _batches(goes):
            self._send([write for write in batch if not ends(write.live)], self._write, "deleting")
            self._gone([write for write in batch if not write.releases], timeout)
        return None

    def _consent(self, plan: Arranged) -> None:
        """Check the consent to delete and create objects again. In check mode, add warnings instead.

        :raises Refused: without consent.
        """
        lines = plan.lines()
        if self.check:
            self.warnings += ["to be replaced: " + line for line in lines]
            if lines and not self.desired.replace:
                self.warnings.append("the run needs consent for that: -e kubernetes_replace=true")
        elif lines and not self.desired.replace:
            raise Errors(
                [
                    Refused(
                        line,
                        "replacement without consent",
                        "according to their status no pod uses their addresses; consent with"
                        " -e kubernetes_replace=true, and pods that start meanwhile wait",
                    )
                    for line in lines
                ]
            )

    def _make_room(self, batch: list[Write], early: list[Write], timeout: float) -> None:
        """Delete objects that conflict with the writes of this kind, and wait until they are gone."""
        goes = [*early, *(write for write in batch if write.replaces)]
        if goes:
            self._send([write for write in goes if not ends(write.live)], self._delete_unchanged, "deleting")
            self._gone(goes, timeout)

    def _send(self, writes: list[Write], do: t.Callable[[Write], None], doing: str) -> None:
        """Send objects of one kind. A dry run needs no order, so it has objects of all kinds, to report all refusals at
        once.

        Writes that a webhook denies are sent again as long as other writes succeed, because one of these may be the
        cause.
        """
        while writes:
            others, denied = self._send_once(writes, do, doing)
            if not denied or others or doing == TRYING or len(denied) == len(writes):
                errors = [*others, *(denied[id(write)] for write in writes if id(write) in denied)]
                return raise_refused(list(enumerate(errors)))
            writes = [write for write in writes if id(write) in denied]
        return None

    def _send_once(
        self, writes: list[Write], do: t.Callable[[Write], None], doing: str
    ) -> tuple[list[RailyardError], dict[int, RailyardError]]:
        """Send writes once. Return refusals, and the denials of webhooks by the ``id`` of the write."""
        denied: dict[int, RailyardError] = {}

        def one(write: Write) -> None:
            try:
                do(write)
            except Denied as error:
                denied[id(write)] = error

        subject = "objects" if doing == TRYING else writes[0].key.kind
        connections = self.server.connections
        try:
            each(one, writes, connections, self.say, "%s %s" % (doing, subject), Pace(connections))
        except RailyardError as error:
            if isinstance(error, Refusal) and error.general:
                if self.done and not self.check:
                    error.message += " (%d of %d objects were written before)" % (len(self.done), self._total)
                raise
            return error.errors, denied
        return [], denied

    def _try(self, writes: list[Write], plan: Arranged) -> None:
        """Send one dry run of each shape, for servers that silently drop unknown fields."""
        shapes: dict[t.Any, Write] = {}
        for write in sorted(writes, key=lambda write: write.replaces or write.step):
            if write.wanted is not None:
                shapes.setdefault((write.key.type, shape(write.wanted)), write)

        def one(write: Write) -> None:
            self._dry_run(write, plan)

        self._send(list(shapes.values()), one, TRYING)

    def _dry_run(self, write: Write, plan: Arranged) -> Object | None:
        """Return the answer to a dry run; None if the server can accept it only after other writes."""
        try:
            _created, got = self._put(write, True)
        except (Denied, Immutable):
            waits = write.replaces or write.step or any(each.key.type == write.key.type for each in plan.early)
            if not waits:
                raise
            return None
        _check_stored(write, got)
        return got

    def _predict(self, write: Write, plan: Arranged) -> None:
        if write.wanted is None or not (write.replaces or write.step or plan.early):
            return self._write(write)
        got = self._dry_run(write, plan)
        if write.replaces or got is None or write.live is None or _content(got) != _content(write.live):
            self._note(write)
        return None

    def _write(self, write: Write) -> None:
        if write.wanted is None:
            return self._remove(write)
        created, got = self._put(write, self.check)
        _check_stored(write, got)
        if not created and (write.live is None or not write.ours):
            self._adopt(write, got)
        if not self.check and differences(write.wanted, got, self.desired.manager):
            # a mapping that is removed as a whole is removed from our managed fields only by the second apply
            _created, got = self._put(write, False)
        if not write.replaces and write.live is not None and _content(got) == _content(write.live):
            return None
        return self._note(write)

    def _remove(self, write: Write) -> None:
        """Delete or release an object. One that changed since it was read is read again, and kept if it is not ours any
        more or if another run has applied it.
        """
        send = self._release if write.releases else self._delete
        live = write.live or {}
        for _again in range(_REMOVALS):
            if send(write, live):
                return self._note(write)
            listed = self.server.list(write.resource, fields="metadata.name=%s" % write.key.name)
            found = [each for each in listed if (each["metadata"].get("namespace") or "") == write.key.namespace]
            if not found or _uid(found[0]) != _uid(live):
                return self._note(write)
            if not self._still_goes(found[0], live):
                text = "%s changed since it was read, and is kept: run again, which reads it again" % str(write.key)
                with self._lock:
                    self.warnings.append(text)
                return None
            live = found[0]
        raise Refusal("it changes during each try to delete it", str(write.key), "find the program that changes it")

    def _still_goes(self, found: Object, before: Object) -> bool:
        """Return whether an object that changed is still ours to delete or to release, as it was before."""
        if not selected(found, self.desired.labels) or digest_of(found) != digest_of(before):
            return False
        if adopted(found) or adopted(before):
            return adopted(found) and adopted(before)
        return self.desired.by_hand(found) or applied(found, self.desired)

    def _delete_unchanged(self, write: Write) -> None:
        """Delete an object unless it changed since it was read."""
        if not self._delete(write, write.live or {}):
            raise Refusal("it changed since it was read", str(write.key), "run again, which reads it again")
        if write.wanted is None:
            self._note(write)

    def _adopt(self, write: Write, got: Object) -> None:
        """Mark an object that another manager created with the desired values, so that teardown keeps it."""
        others = makers(got, self.desired.manager)
        if not others:
            return  # it is ours, and was created during the run or had lost its labels
        write.adopts = True
        if not self.check:
            mark = {"metadata": {"annotations": {ADOPTED: ",".join(others)[:200]}}}
            self.server.merge(write.resource, write.key, mark, self.desired.manager, False)
        with self._lock:
            self.warnings.append(
                "%s existed before, created by %s: it is adopted, and teardown leaves it on the cluster"
                % (write.key, " and ".join(others))
            )

    def _delete(self, write: Write, live: Object) -> bool:
        """Delete an object as it was read. Return False if it changed since then."""
        return self.server.delete(write.resource, write.key, _uid(live), self.check, version_of(live))

    def _release(self, write: Write, live: Object) -> bool:
        """Remove our labels and annotations from an object that another manager created, as it was read. Return False
        if it changed since then."""
        manager = self.desired.manager
        patch = {"metadata": released(live, manager, (ADOPTED, APPLIED))}
        try:
            self.server.merge(write.resource, write.key, patch, manager, self.check, version_of(live))
        except Exists:
            return False
        return True

    def _put(self, write: Write, dry: bool) -> tuple[bool, Object]:
        """Apply an object. Return whether this created it, and the object after it."""
        server, manager, wanted = self.server, self.desired.manager, write.wanted or {}

        def put(force: bool) -> tuple[bool, Object]:
            # if a second run, for example, has created the object meanwhile, the next apply updates it
            return repeated(lambda: server.apply(write.resource, write.key, wanted, manager, force, dry))

        try:
            created, got = put(self.desired.force)
        except Conflict as conflict:
            if not self._drifted(write, conflict):
                raise Conflict(conflict.place, conflict.owners, self.desired.force_variable) from conflict
            created, got = put(True)
        got.update(apiVersion=write.key.api, kind=write.key.kind)
        return created, got

    def _drifted(self, write: Write, conflict: Conflict) -> bool:
        """Return whether fields were ours at the last apply and have been edited since, by a user or a program.

        A manager that applies these fields too intends to keep them; that is a conflict.
        """
        if write.live is None or write.wanted is None or digest_of(write.live) != digest_of(write.wanted):
            return False
        appliers = {
            entry.get("manager")
            for entry in write.live["metadata"].get("managedFields") or ()
            if entry.get("operation") == "Apply"
        }
        if any(manager in appliers for manager, _field in conflict.owners):
            return False
        with self._lock:
            for manager, field in conflict.owners:
                text = "%s: %s was changed by %s since it was applied, and is corrected" % (write.key, field, manager)
                if text not in self.warnings:
                    self.warnings.append(text)
        return True

    def _note(self, write: Write) -> None:
        with self._lock:
            self.done.append(write)

    def _gone(self, batch: list[Write], timeout: float) -> None:
        """Wait until deleted objects of one kind are gone.

        :raises RailyardError: for objects that still exist after ``timeout`` seconds.
        """
        end = time.monotonic() + timeout
        while batch:
            resources = {batch[0].key.type: batch[0].resource}
            waited = {write.key for write in batch}
            begun = time.monotonic()
            whole: frozenset[Kind] = frozenset(self.desired.rules)
            live: Live = observed(self.server, resources, self.desired.labels, self.say, accept=METADATA, whole=whole)
            batch = [write for write in batch if write.key in live and _uid(live[write.key]) == _uid(write.live)]
            if batch and time.monotonic() >= end:
                raise _hanging({write.key: live[write.key] for write in batch}, len(waited), timeout)
            if batch:
                # a list of thousands is expensive for the server
                time.sleep(max(_LOOK, _REST * (time.monotonic() - begun)))


def _hanging(live: Live, count: int, timeout: float) -> RailyardError:
    keys = list(live)
    more = " (and %d more of this kind)" % (len(keys) - 1) if len(keys) > 1 else ""
    return RailyardError(
        "%s%s; no controller removed them within %g s" % (ending_of(live[keys[0]]), more, timeout),
        str(keys[0]),
        "check that the controller that set the finalizer runs and that no pod uses the object, then run again;"
        " objects that were applied before it still exist for its controllers",
    )


def _check_stored(write: Write, got: Object) -> None:
    """Check that the server stored what was sent.

    :raises Refusal: if it did not.
    """
    lost = list(unkept(write.wanted, got))
    dropped = [each.path for each in lost if each.before is None]
    if dropped:
        raise Refusal(
            "the server drops %s" % ", ".join(dropped),
            str(write.key),
            "install the CustomResourceDefinition of %s of the release that this collection is made for"
            % write.resource.name,
        )
    if lost:
        raise Refusal(
            "%s was sent as %r and reads back as %r" % (lost[0].path, lost[0].after, lost[0].before),
            str(write.key),
            "see which webhook changes it (kubectl get mutatingwebhookconfigurations)",
        )


def _batches(writes: list[Write]) -> list[list[Write]]:
    """Divide writes into runs of one kind that are all deletions or all others."""
    found: list[list[Write]] = []
    for write in writes:
        if found and _same_batch(found[-1][-1], write):
            found[-1].append(write)
        else:
            found.append([write])
    return found


def _same_batch(one: Write, other: Write) -> bool:
    return one.key.type == other.key.type and (one.wanted is None) == (other.wanted is None)


def _content(found: Object) -> Object:
    """Return an object without fields that differ between two equal answers."""
    plain = {key: value for key, value in found.items() if key != "status"}
    metadata = dict(plain["metadata"])
    for key in ("resourceVersion", "generation", "selfLink"):
        metadata.pop(key, None)
    entries = copy.deepcopy(metadata.get("managedFields") or [])
    for entry in entries:
        entry.pop("time", None)
    metadata["managedFields"] = [entry for entry in entries if "f:status" not in (entry.get("fieldsV1") or {})]
    plain["metadata"] = metadata
    return plain


def _uid(found: t.Mapping[str, t.Any] | None) -> str:
    return str(found["metadata"]["uid"]) if found else ""
