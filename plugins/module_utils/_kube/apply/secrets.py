# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""Check secrets that users create and controllers read: whether they exist with the required keys. Values are never
shown."""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._kube.api.api_server import Server


class Wanted(t.Protocol):
    """A secret and the keys that must have a value in it."""

    @property
    def namespace(self) -> str: ...

    @property
    def name(self) -> str: ...

    @property
    def keys(self) -> t.Sequence[str]: ...


def problems(server: Server, wanted: t.Iterable[Wanted]) -> list[RailyardError]:
    """Return an error for each missing secret or key.

    Nothing is reported if the user may not read secrets; then the controller reports it.
    """
    found = []
    for each in wanted:
        status, answer = server.ask("GET", "/api/v1/namespaces/%s/secrets/%s" % (each.namespace, each.name))
        if status >= 400 and status != 404:
            continue
        values = (answer.get("data") or {}) if status < 400 else {}
        missing = [key for key in each.keys if not values.get(key)]
        if not missing:
            continue
        place = "secret %s/%s" % (each.namespace, each.name)
        words = " ".join("--from-literal=%s=..." % key for key in each.keys)
        remedy = "create it: kubectl create secret generic %s -n %s %s" % (each.name, each.namespace, words)
        what = "does not exist" if status == 404 else "has no %s" % " and no ".join(missing)
        found.append(RailyardError(what, place, remedy if status == 404 else "add the missing keys, or %s" % remedy))
    return found
