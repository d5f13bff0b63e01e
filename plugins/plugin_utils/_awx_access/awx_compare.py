# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Compare objects of AWX with the desired ones, and add secrets to requests."""

from __future__ import annotations

import json
import typing as t

import yaml

from ansible_collections.railyard.fabric.plugins.module_utils._awx import awx_kinds
from ansible_collections.railyard.fabric.plugins.module_utils._awx.awx_objects import Object
from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.name_syntax import did_you_mean, nearest
from ansible_collections.railyard.fabric.plugins.plugin_utils._awx_access.awx_server import Data, Server

# AWX returns this in place of a secret. If it is sent, AWX keeps the secret.
ENCRYPTED = "$encrypted$"
_HIDDEN = "(secret)"
# Fields that AWX stores as text.
_AS_TEXT = ("extra_vars", "variables")
# Kind -> the field that contains its secrets.
_FIELDS = {"credentials": "inputs", "notification_templates": "notification_configuration"}


def meant(name: str, known: t.Iterable[str]) -> str | None:
    """Return the existing name of which ``name`` is probably a misspelling, also in another case; None without one."""
    lower = {each.lower(): each for each in known}
    return lower.get(nearest(name, lower) or "")


def unknown(name: str, what: str, kind: str, server: Server, otherwise: str = "", **query: t.Any) -> RailyardError:
    """Return the error for a name that AWX does not have, with a suggestion."""
    near = meant(name, [str(each["name"]) for each in server.all(kind, **query)])
    remedy = "write %s" % near if near else "use a name that exists in AWX, or give this user the right to use it there"
    message = "AWX has no %s %s%s, or this user has no permission to see it" % (what, name, did_you_mean(near))
    return RailyardError(message, what, "%s; %s" % (remedy, otherwise) if otherwise else remedy)


def differing(item: Data, body: Data) -> Data:
    """Return the fields of ``body`` that differ. Fields that an older AWX does not have are ignored."""
    return {key: value for key, value in body.items() if key in item and not _same(key, item[key], value)}


def _same(key: str, now: t.Any, wanted: t.Any) -> bool:
    if key not in _AS_TEXT:
        return bool(now == wanted)
    try:  # text that a user has typed in AWX may have another format
        return bool((yaml.safe_load(now or "") or {}) == wanted)
    except yaml.YAMLError:
        return False


def sent(body: Data) -> Data:
    """Return the fields in the form that AWX accepts."""
    return {key: json.dumps(value) if key in _AS_TEXT else value for key, value in body.items()}


def hidden(each: Object, fields: t.Mapping[str, t.Any]) -> Data:
    """Return the fields for output: without secrets, and with names instead of ids."""
    shown = {}
    for key, value in fields.items():
        if key == _FIELDS.get(each.kind) and isinstance(value, dict):
            secret = (*_secrets(each), ENCRYPTED)
            value = {name: _HIDDEN if name in secret or text == ENCRYPTED else text for name, text in value.items()}
        shown[key] = getattr(value, "name", value)
    return shown


def _secrets(each: Object) -> tuple[str, ...]:
    if each.kind == "notification_templates":
        known = awx_kinds.NOTIFICATIONS[each.fields["notification_type"]]
        return (*known.secrets, *awx_kinds.URLS)
    return tuple(key for known in awx_kinds.CREDENTIALS.values() for key in known.secrets)


class Secrets:
    """The secrets by credential or notification and field. ``update``: send secrets again that AWX has already."""

    def __init__(self, given: t.Mapping[str, t.Mapping[str, str]], update: bool) -> None:
        self._given = given
        self._update = update

    def masked(self, text: str) -> str:
        """Return the text without the secrets in it."""
        for fields in self._given.values():
            for secret in fields.values():
                if len(secret) > 3:
                    text = text.replace(secret, _HIDDEN)
        return text

    def whole(self, each: Object, body: Data) -> Data:
        """Return the fields of a new object, with its secrets."""
        field = _FIELDS.get(each.kind)
        if field:
            body = {**body, field: {**body[field], **self._given.get(each.secrets, {})}}
        return sent(body)

    def differing(self, each: Object, item: Data, changed: Data) -> Data:
        """Return ``changed`` with the secrets of the object, if they must be sent: AWX never returns secrets."""
        field = _FIELDS.get(each.kind)
        if not field:
            return changed
        wanted, now, given = each.fields[field], item.get(field) or {}, self._given.get(each.secrets, {})
        changed = {key: value for key, value in changed.items() if key != field}
        readable = {key for key in given if key in awx_kinds.URLS}
        kept = {key for key, value in now.items() if value == ENCRYPTED}
        if "notification_type" in changed or "credential_type" in changed:
            return {**changed, field: {**wanted, **given}}
        same = (
            all(now.get(key) == value for key, value in wanted.items() if key not in kept)
            and all(now.get(key) == given[key] for key in readable)
            and all(key in kept for key in given if key not in readable)
            and not (self._update and given)
            and not any(value for key, value in now.items() if key not in wanted and key not in kept | readable)
        )
        if same:
            return changed
        old = {key: ENCRYPTED for key in kept if not (self._update and key in given)}
        new = {key: value for key, value in given.items() if key not in old}
        return {**changed, field: {**wanted, **old, **new}}
