# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kinds of objects that AWX 24.6.1 has, their fields, defaults and associations (``awx/api/serializers.py``)."""

from __future__ import annotations

import typing as t

ENCRYPTED = "$encrypted$"
READ_ONLY = {"id", "type", "url", "related", "summary_fields", "created", "modified"}
Data = t.Dict[str, t.Any]


class Field(t.NamedTuple):
    """``kind``: text, number, flag, object, json (a text that holds an object), or the endpoint that an id is of."""

    kind: str
    default: t.Any = None
    required: bool = False
    choices: tuple[t.Any, ...] = ()
    fixed: bool = False  # cannot change once it is set


def text(default: t.Any = "", **more: t.Any) -> Field:
    return Field("text", default, **more)


def number(default: int | None = 0) -> Field:
    return Field("number", default)


def flag(default: bool | None = False) -> Field:
    return Field("flag", default)


def of(endpoint: str, **more: t.Any) -> Field:
    return Field(endpoint, None, **more)


class Kind(t.NamedTuple):
    fields: t.Mapping[str, Field]
    unique: tuple[str, ...] = ("name", "organization")
    associations: t.Mapping[str, str] = {}
    name: str = "name"


# The types that AWX brings: fields that are secret, others, those that must be given.
MANAGED = {
    "Machine": (
        ("password", "ssh_key_data", "ssh_key_unlock", "become_password"),
        ("username", "ssh_public_key_data", "become_method", "become_username"),
        (),
    ),
    "Source Control": (("password", "ssh_key_data", "ssh_key_unlock"), ("username",), ()),
    "Vault": (("vault_password",), ("vault_id",), ("vault_password",)),
    "Container Registry": (("password",), ("host", "username", "verify_ssl"), ("host",)),
    "OpenShift or Kubernetes API Bearer Token": (
        ("bearer_token", "ssl_ca_cert"),
        ("host", "verify_ssl"),
        ("host", "bearer_token"),
    ),
}
NOTIFICATIONS: t.Mapping[str, t.Mapping[str, type]] = {
    "email": {
        **{key: str for key in ("host", "username", "password", "sender")},
        **{"port": int, "timeout": int, "use_tls": bool, "use_ssl": bool, "recipients": list},
    },
    "slack": {"token": str, "channels": list},
    "webhook": {
        **{key: str for key in ("url", "http_method", "username", "password")},
        **{"disable_ssl_verification": bool, "headers": dict},
    },
    "mattermost": {"mattermost_url": str, "mattermost_no_verify_ssl": bool},
    "rocketchat": {"rocketchat_url": str, "rocketchat_no_verify_ssl": bool},
    "pagerduty": {key: str for key in ("subdomain", "token", "service_key", "client_name")},
}
NOTIFICATION_SECRETS = ("password", "token")
OUTCOMES = {"notification_templates_%s" % each: "notification_templates" for each in ("started", "success", "error")}
NAMED = {"name": text(required=True), "description": text()}
PROMPTS = {
    "inventory": of("inventories"),
    "scm_branch": text(None),
    "job_type": text(None, choices=(None, "", "run", "check")),
    "job_tags": text(None),
    "skip_tags": text(None),
    "limit": text(None),
    "diff_mode": flag(None),
    "verbosity": number(None),
    "execution_environment": of("execution_environments"),
    "forks": number(None),
    "job_slice_count": number(None),
    "timeout": number(None),
    "extra_data": Field("object", {}),
}
ASKS = ("diff_mode", "variables", "limit", "tags", "skip_tags", "job_type", "verbosity", "inventory", "credential")
MORE_ASKS = ("scm_branch", "execution_environment", "labels", "forks", "job_slice_count", "timeout", "instance_groups")
WEBHOOKS = ("", "github", "gitlab", "bitbucket_dc")
KINDS: t.Mapping[str, Kind] = {
    "organizations": Kind(
        {**NAMED, "max_hosts": number(), "default_environment": of("execution_environments")}, ("name",), OUTCOMES
    ),
    "credential_types": Kind(
        {
            **NAMED,
            "kind": text(required=True, choices=("cloud", "net")),
            "managed": flag(),
            "inputs": Field("object", {}),
            "injectors": Field("object", {}),
        },
        ("name",),
    ),
    "credentials": Kind(
        {
            **NAMED,
            "credential_type": of("credential_types", required=True),
            "organization": of("organizations"),
            "user": of("users"),
            "team": of("teams"),
            "inputs": Field("object", {}),
        },
        ("name", "organization", "credential_type"),
    ),
    "execution_environments": Kind(
        {
            **NAMED,
            "image": text(required=True),
            "organization": of("organizations", fixed=True),
            "credential": of("credentials"),
            "pull": text(choices=("", "always", "missing", "never")),
        },
        ("name",),
    ),
    "projects": Kind(
        {
            **NAMED,
            "organization": of("organizations"),
            "scm_type": text(choices=("", "git", "svn", "insights", "archive")),
            **{key: text() for key in ("local_path", "scm_url", "scm_branch", "scm_refspec")},
            **{key: flag() for key in ("scm_clean", "scm_delete_on_update", "scm_track_submodules")},
            "scm_update_on_launch": flag(),
            "scm_update_cache_timeout": number(),
            "allow_override": flag(),
            "timeout": number(),
            "credential": of("credentials"),
            "default_environment": of("execution_environments"),
            "signature_validation_credential": of("credentials"),
        },
        associations=OUTCOMES,
    ),
    "inventories": Kind(
        {
            **NAMED,
            "organization": of("organizations", required=True),
            "kind": text(choices=("", "smart", "constructed", None)),
            "host_filter": text(None),
            "variables": Field("json", ""),
            "prevent_instance_group_fallback": flag(),
        },
        associations={"labels": "labels", "instance_groups": "instance_groups"},
    ),
    "hosts": Kind(
        {**NAMED, "inventory": of("inventories", required=True), "enabled": flag(True), "variables": Field("json", "")},
        ("name", "inventory"),
    ),
    "inventory_sources": Kind(
        {
            **NAMED,
            "inventory": of("inventories", required=True, fixed=True),
            "source": text(required=True, choices=("scm", "ec2")),
            **{key: text() for key in ("source_path", "scm_branch", "enabled_var", "enabled_value")},
            **{key: text() for key in ("host_filter", "limit")},
            "source_vars": Field("json", ""),
            "source_project": of("projects"),
            "credential": of("credentials"),
            "execution_environment": of("execution_environments"),
            **{key: flag() for key in ("overwrite", "overwrite_vars", "update_on_launch")},
            "update_cache_timeout": number(),
            "timeout": number(),
            "verbosity": number(1),
        },
        ("name", "inventory"),
        OUTCOMES,
    ),
    "notification_templates": Kind(
        {
            **NAMED,
            "organization": of("organizations", required=True),
            "notification_type": text(required=True, choices=tuple(NOTIFICATIONS)),
            "notification_configuration": Field("object", {}),
            "messages": Field("object", None),
        }
    ),
    "job_templates": Kind(
        {
            **NAMED,
            "job_type": text("run", choices=("run", "check")),
            "organization": of("organizations"),
            "inventory": of("inventories"),
            "project": of("projects", required=True),
            "playbook": text(required=True),
            **{key: text() for key in ("scm_branch", "limit", "job_tags", "skip_tags", "start_at_task")},
            **{key: number() for key in ("forks", "timeout", "verbosity")},
            "job_slice_count": number(1),
            "extra_vars": Field("json", ""),
            **{"ask_%s_on_launch" % each: flag() for each in (*ASKS, *MORE_ASKS)},
            "webhook_service": text(choices=WEBHOOKS),
            **{key: flag() for key in ("force_handlers", "use_fact_cache", "survey_enabled", "become_enabled")},
            **{key: flag() for key in ("diff_mode", "allow_simultaneous", "prevent_instance_group_fallback")},
            "execution_environment": of("execution_environments"),
        },
        ("name", "organization"),
        {**OUTCOMES, "credentials": "credentials", "labels": "labels", "instance_groups": "instance_groups"},
    ),
    "workflow_job_templates": Kind(
        {
            **NAMED,
            "organization": of("organizations"),
            "inventory": of("inventories"),
            "extra_vars": Field("json", ""),
            **{key: text(None) for key in ("limit", "scm_branch", "job_tags", "skip_tags")},
            **{key: flag() for key in ("survey_enabled", "allow_simultaneous")},
            "webhook_service": text(choices=WEBHOOKS),
            **{"ask_%s_on_launch" % each: flag() for each in ("variables", "inventory", "limit", "tags", "skip_tags")},
        },
        ("name", "organization"),
        {**OUTCOMES, "notification_templates_approvals": "notification_templates", "labels": "labels"},
    ),
    "workflow_job_template_nodes": Kind(
        {
            **PROMPTS,
            "workflow_job_template": of("workflow_job_templates", required=True, fixed=True),
            "unified_job_template": of("unified_job_templates"),
            "identifier": text(required=True),
            "all_parents_must_converge": flag(),
        },
        ("identifier", "workflow_job_template"),
        {"%s_nodes" % each: "workflow_job_template_nodes" for each in ("success", "failure", "always")},
        "identifier",
    ),
    "schedules": Kind(
        {
            **NAMED,
            **PROMPTS,
            "unified_job_template": of("unified_job_templates", required=True),
            "enabled": flag(True),
            "rrule": text(required=True),
        },
        ("name", "unified_job_template"),
    ),
    "teams": Kind({**NAMED, "organization": of("organizations", required=True)}),
    "labels": Kind({"name": text(required=True), "organization": of("organizations", required=True)}),
    "instance_groups": Kind({"name": text(required=True), "is_container_group": flag()}, ("name",)),
    "workflow_approval_templates": Kind({**NAMED, "timeout": number()}, ("name", "workflow_node")),
}
UNIFIED = ("projects", "inventory_sources", "job_templates", "workflow_job_templates", "workflow_approval_templates")
# Kind -> the roles of its objects (``ImplicitRoleField`` in ``awx/main/models``).
ROLES: t.Mapping[str, tuple[str, ...]] = {
    "job_templates": ("admin_role", "execute_role", "read_role"),
    "workflow_job_templates": ("admin_role", "execute_role", "read_role", "approval_role"),
    "inventories": ("admin_role", "update_role", "adhoc_role", "use_role", "read_role"),
    "projects": ("admin_role", "use_role", "update_role", "read_role"),
    "credentials": ("admin_role", "use_role", "read_role"),
}
