# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Secrets that controllers read: whether they have what is read."""

from __future__ import annotations

import json
import typing as t

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.providers.partition_keys import (
    UFM_KEYS,
    Secret,
)
from ansible_collections.railyard.fabric.plugins.module_utils._kube.api.api_server import Server
from ansible_collections.railyard.fabric.plugins.module_utils._kube.apply import preflight

WANTED = Secret("operator", "ufm", UFM_KEYS)
WHOLE = {key: "eA==" for key in UFM_KEYS}


def shown(status: int, data: dict[str, str] | None) -> list[str]:
    def send(method: str, url: str, _headers: t.Any, _body: t.Any) -> tuple[int, bytes]:
        assert (method, url) == ("GET", "https://far:6443/api/v1/namespaces/operator/secrets/ufm")
        return status, json.dumps({"data": data} if status < 400 else {"kind": "Status", "code": status}).encode()

    server = Server("https://far:6443", send, dict, 1, lambda _text: None)
    return [str(error) for error in preflight.missing_secrets(server, [WANTED])]


def test_a_whole_secret_and_one_that_may_not_be_seen_say_nothing() -> None:
    assert shown(200, WHOLE) == [] and shown(403, None) == []


@pytest.mark.parametrize(
    ("status", "data", "words"),
    [
        (404, None, "secret operator/ufm: does not exist"),
        (200, {"UFM_USER": "eA==", "UFM_PASSWORD": "eA==", "UFM_ADDRESS": "eA=="}, "has no UFM_USERNAME. Remedy"),
        (200, dict(WHOLE, UFM_ADDRESS="", UFM_PASSWORD=""), "has no UFM_PASSWORD and no UFM_ADDRESS. Remedy"),
        (200, None, "has no UFM_USERNAME and no UFM_PASSWORD and no UFM_ADDRESS"),
    ],
)
def test_missing_keys_are_named_and_no_value_is_shown(status: int, data: dict[str, str] | None, words: str) -> None:
    (line,) = shown(status, data)
    assert words in line and "eA==" not in line
    assert "kubectl create secret generic ufm -n operator --from-literal=UFM_USERNAME=..." in line
