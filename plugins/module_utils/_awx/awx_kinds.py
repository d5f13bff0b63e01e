# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Fields of AWX's types of credentials and notifications, and which of them are secrets.

Sources: AWX 24.6.1, its credential types (``awx_plugins.credentials``) and ``init_parameters`` of
``awx/main/notifications/*_backend.py``.
"""

from __future__ import annotations

import typing as t

TEXT = "text"
NUMBER = "number"
FLAG = "flag"
TEXTS = "texts"
PAIRS = "pairs"


class Field(t.NamedTuple):
    """``default`` None: required. AWX sets the other defaults; they are sent too, because a second run would report a
    difference otherwise."""

    kind: str
    default: t.Any = None


class CredentialType(t.NamedTuple):
    """``name``: AWX's name; None for the type that Railyard creates. ``inputs``: field -> kind; ``required``: required
    fields."""

    name: str | None
    inputs: t.Mapping[str, str]
    secrets: tuple[str, ...]
    required: tuple[str, ...] = ()


KUBECONFIG = "kubeconfig"
CREDENTIALS: t.Mapping[str, CredentialType] = {
    "machine": CredentialType(
        "Machine",
        {"username": TEXT, "ssh_public_key_data": TEXT, "become_method": TEXT, "become_username": TEXT},
        ("password", "ssh_key_data", "ssh_key_unlock", "become_password"),
    ),
    "source-control": CredentialType(
        "Source Control", {"username": TEXT}, ("password", "ssh_key_data", "ssh_key_unlock")
    ),
    "registry": CredentialType(
        "Container Registry", {"host": TEXT, "username": TEXT, "verify_ssl": FLAG}, ("password",), ("host",)
    ),
    "vault": CredentialType("Vault", {"vault_id": TEXT}, ("vault_password",)),
    "bearer-token": CredentialType(
        "OpenShift or Kubernetes API Bearer Token",
        {"host": TEXT, "verify_ssl": FLAG},
        ("bearer_token", "ssl_ca_cert"),
        ("host",),
    ),
    KUBECONFIG: CredentialType(None, {}, (KUBECONFIG,)),
}
# Types of credentials for a cluster.
CLUSTER = (KUBECONFIG, "bearer-token")

# The kubeconfig is a file, so that every authentication method works.
KUBECONFIG_TYPE: t.Mapping[str, t.Any] = {
    "kind": "cloud",
    "inputs": {
        "fields": [{"id": KUBECONFIG, "label": "kubeconfig", "type": "string", "secret": True, "multiline": True}],
        "required": [KUBECONFIG],
    },
    "injectors": {
        "file": {"template": "{{ kubeconfig }}"},
        # KUBECONFIG is for other programs, the variable selects this cluster for the job
        "env": {"KUBECONFIG": "{{ tower.filename }}", "K8S_AUTH_KUBECONFIG": "{{ tower.filename }}"},
    },
}


class NotificationType(t.NamedTuple):
    """The fields of a type of notification."""

    fields: t.Mapping[str, Field]
    # secret -> its default; None: required
    secrets: t.Mapping[str, str | None]


NOTIFICATIONS: t.Mapping[str, NotificationType] = {
    "email": NotificationType(
        {
            "host": Field(TEXT),
            "port": Field(NUMBER),
            "username": Field(TEXT, ""),
            "use_tls": Field(FLAG, False),
            "use_ssl": Field(FLAG, False),
            "sender": Field(TEXT),
            "recipients": Field(TEXTS),
            "timeout": Field(NUMBER, 30),
        },
        {"password": ""},
    ),
    "slack": NotificationType({"channels": Field(TEXTS)}, {"token": None}),
    "webhook": NotificationType(
        {
            "url": Field(TEXT),
            "http_method": Field(TEXT, "POST"),
            "disable_ssl_verification": Field(FLAG, False),
            "username": Field(TEXT, ""),
            "headers": Field(PAIRS, {}),
        },
        {"password": ""},
    ),
    "mattermost": NotificationType({"mattermost_url": Field(TEXT), "mattermost_no_verify_ssl": Field(FLAG, False)}, {}),
    "pagerduty": NotificationType(
        {"subdomain": Field(TEXT), "service_key": Field(TEXT), "client_name": Field(TEXT)}, {"token": None}
    ),
    "rocketchat": NotificationType({"rocketchat_url": Field(TEXT), "rocketchat_no_verify_ssl": Field(FLAG, False)}, {}),
}
# Settings that can be secrets: anyone with such a URL can write to the channel.
URLS = ("url", "mattermost_url", "rocketchat_url")
# Events of notifications; approvals are those of workflows.
EVENTS = ("started", "success", "error", "approval")
