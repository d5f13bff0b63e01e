# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""Sends what differs: kinds one after the other, objects of a kind side by side; in check mode to the server too, as a
dry run.
"""

from __future__ import annotations

import copy
import threading
import time
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils.kube.answers import Conflict, Refusal
from ansible_collections.railyard.fabric.plugins.module_utils.kube.compare import differences, shape, unkept
from ansible_collections.railyard.fabric.plugins.module_utils.kube.decide import (
    Live,
    Wish,
    Write,
    decided,
    ending_of,
    ends,
    going,
    observed,
    served,
    settler,
)
from ansible_collections.railyard.fabric.plugins.module_utils.kube.objects import Object, digest_of
from ansible_collections.railyard.fabric.plugins.module_utils.kube.server import METADATA, Server
from ansible_collections.railyard.fabric.plugins.module_utils.kube.side_by_side import Say, each

TRYING = "trying"
# Seconds between two looks at what is going, and how many times as long as the look itself at the least.
_LOOK = 1.0
_REST = 5.0


class Apply:
    """One run. ``done`` is what was (or would be) written so far, also after an error."""

    def __init__(self, server: Server, wish: Wish, check: bool, say: Say) -> None:
        self.server = server
        self.wish = wish
        self.check = check
        self.say = say
        self.done: list[Write] = []
        self.warnings: list[str] = []
        self._lock = threading.Lock()

    def present(self, prune: bool) -> None:
        """Make the cluster hold the wish. :raises RailyardError: for all that is refused."""
        resources = served(self.server, self.wish)
        live = observed(self.server, resources, self.wish.family, self.say, settler(self.wish))
        writes, warnings = decided(self.wish, resources, live, prune)
        self.warnings.extend(warnings)
        if not self.check and not self.server.strict:
            self._try(writes)
        self._in_order(writes, self._write, TRYING if self.check else "applying")

    def absent(self, timeout: float) -> None:
        """Take away all that carries the wish's labels, the last applied first; wait until each kind is gone.

        :param timeout: seconds for each kind. :raises RailyardError: for what does not go, with its finalizers.
        """
        kinds = [*self.wish.kinds, *((each["apiVersion"], each["kind"]) for each in self.wish.objects)]
        resources = self.server.resources(dict.fromkeys(kinds))
        live = observed(self.server, resources, self.wish.labels, self.say)
        goes = going(self.wish, resources, live, all_of=True)
        writes = [write for write in goes if not ends(write.live)]
        if self.check:
            self.warnings += ["%s: %s" % (write.key, ending_of(write.live or {})) for write in goes if ends(write.live)]
            return self._in_order(writes, self._write, TRYING)
        # what was deleted before and hangs is waited for in its turn: its controller needs what comes after it too
        for batch in _batches(goes):
            self._in_order([write for write in batch if not ends(write.live)], self._write, "deleting")
            self._gone(batch, timeout)
        return None

    def _in_order(self, writes: list[Write], do: t.Callable[[Write], None], doing: str) -> None:
        # a dry run needs no order, and then says all that is refused at once
        for batch in [writes] if doing == TRYING and writes else _batches(writes):
            try:
                what = "objects" if doing == TRYING else batch[0].key.kind
                each(do, batch, self.server.connections, self.say, "%s %s" % (doing, what))
            except Refusal as error:
                if error.general and self.done and not self.check:
                    error.message += " (%d of %d objects were written before)" % (len(self.done), len(writes))
                raise

    def _try(self, writes: list[Write]) -> None:
        """One dry run of each shape, for servers that would drop what they do not know and say nothing."""
        shapes: dict[t.Any, Write] = {}
        for write in writes:
            if write.wanted is not None:
                shapes.setdefault((write.key.type, shape(write.wanted)), write)
        self._in_order(list(shapes.values()), lambda write: _kept(write, self._put(write, True)), TRYING)

    def _write(self, write: Write) -> None:
        if write.wanted is None:
            self.server.delete(write.resource, write.key, _uid(write.live), self.check)
            return self._note(write)
        got = self._put(write, self.check)
        _kept(write, got)
        if not self.check and differences(write.wanted, got, self.wish.manager):
            # what leaves an object as a whole mapping leaves our managed fields with the second apply alone
            got = self._put(write, False)
        if write.live is not None and _content(got) == _content(write.live):
            return None
        return self._note(write)

    def _put(self, write: Write, dry: bool) -> Object:
        server, manager, wanted = self.server, self.wish.manager, write.wanted or {}
        try:
            got = server.apply(write.resource, write.key, wanted, manager, self.wish.force, dry)
        except Conflict as conflict:
            if not self._drifted(write, conflict):
                raise
            got = server.apply(write.resource, write.key, wanted, manager, True, dry)
        got.update(apiVersion=write.key.api, kind=write.key.kind)
        return got

    def _drifted(self, write: Write, conflict: Conflict) -> bool:
        """Whether the fields were ours at the last apply, and somebody edited them since, by hand or by program.

        Someone who applies them as well means them to stay; that is a conflict.
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
                text = "%s: %s was changed by %s since it was applied, and is put right" % (write.key, field, manager)
                if text not in self.warnings:
                    self.warnings.append(text)
        return True

    def _note(self, write: Write) -> None:
        with self._lock:
            self.done.append(write)

    def _gone(self, batch: list[Write], timeout: float) -> None:
        end = time.monotonic() + timeout
        while batch:
            resources = {batch[0].key.type: batch[0].resource}
            waited = {write.key for write in batch}
            begun = time.monotonic()
            live: Live = observed(self.server, resources, self.wish.labels, self.say, accept=METADATA)
            batch = [write for write in batch if write.key in live and _uid(live[write.key]) == _uid(write.live)]
            if batch and time.monotonic() >= end:
                raise _hanging({write.key: live[write.key] for write in batch}, len(waited), timeout)
            if batch:
                # a look at thousands takes the server a while, and is not all that it has to do
                time.sleep(max(_LOOK, _REST * (time.monotonic() - begun)))


def _hanging(live: Live, count: int, timeout: float) -> RailyardError:
    keys = list(live)
    more = " (and %d more of this kind)" % (len(keys) - 1) if len(keys) > 1 else ""
    return RailyardError(
        "%s%s; nobody let it go within %g s" % (ending_of(live[keys[0]]), more, timeout),
        str(keys[0]),
        "see that the controller that set the finalizer runs and that no pod uses the object any more, then run again;"
        " what was applied before it is still there for its controllers",
    )


def _kept(write: Write, got: Object) -> None:
    """:raises Refusal: where what was sent did not come back."""
    lost = list(unkept(write.wanted, got))
    dropped = [each.path for each in lost if each.before is None]
    if dropped:
        raise Refusal(
            "the server drops %s" % ", ".join(dropped),
            str(write.key),
            "bring the CustomResourceDefinition of %s to the release that this collection is made for"
            % write.resource.name,
        )
    if lost:
        raise Refusal(
            "%s was sent as %r and reads back as %r" % (lost[0].path, lost[0].after, lost[0].before),
            str(write.key),
            "see which webhook changes it (kubectl get mutatingwebhookconfigurations)",
        )


def _batches(writes: list[Write]) -> list[list[Write]]:
    """Neighbours of one kind that all come or all go."""
    found: list[list[Write]] = []
    for write in writes:
        if found and _alike(found[-1][-1], write):
            found[-1].append(write)
        else:
            found.append([write])
    return found


def _alike(one: Write, other: Write) -> bool:
    return one.key.type == other.key.type and (one.wanted is None) == (other.wanted is None)


def _content(found: Object) -> Object:
    """An object without what differs between two answers that say the same."""
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
