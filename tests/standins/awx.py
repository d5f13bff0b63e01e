# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A stand-in for AWX's REST API on the loopback, which keeps state and is stricter than AWX.

Endpoints, fields, defaults, what must be given and what is refused are those of AWX 24.6.1 (``awx/api/serializers.py``,
``awx/api/views``, ``awx/main/fields.py``, ``awx/main/notifications``), as far as they concern what we make. AWX passes
over fields that it does not know; here they are refused, as are filters. Secrets are given back as ``$encrypted$``.
"""

from __future__ import annotations

import json
import re
import threading
import typing as t
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, urlsplit

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
        }
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
            "notification_type": text(required=True, choices=("email", "slack", "webhook", "pagerduty", "mattermost")),
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
            **{"ask_%s_on_launch" % each: flag() for each in ASKS},
            **{key: flag() for key in ("force_handlers", "use_fact_cache", "survey_enabled", "become_enabled")},
            **{key: flag() for key in ("diff_mode", "allow_simultaneous", "prevent_instance_group_fallback")},
            "execution_environment": of("execution_environments"),
        },
        ("name", "organization"),
        {**OUTCOMES, "credentials": "credentials"},
    ),
    "workflow_job_templates": Kind(
        {
            **NAMED,
            "organization": of("organizations"),
            "inventory": of("inventories"),
            "extra_vars": Field("json", ""),
            **{key: text(None) for key in ("limit", "scm_branch", "job_tags", "skip_tags")},
            **{key: flag() for key in ("survey_enabled", "allow_simultaneous")},
            **{"ask_%s_on_launch" % each: flag() for each in ("variables", "inventory", "limit", "tags", "skip_tags")},
        },
        ("name", "organization"),
        {**OUTCOMES, "notification_templates_approvals": "notification_templates"},
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
    "workflow_approval_templates": Kind({**NAMED, "timeout": number()}, ("name", "workflow_node")),
}
UNIFIED = ("projects", "inventory_sources", "job_templates", "workflow_job_templates", "workflow_approval_templates")

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
    "pagerduty": {key: str for key in ("subdomain", "token", "service_key", "client_name")},
}
NOTIFICATION_SECRETS = ("password", "token")


class Refused(Exception):
    def __init__(self, status: int, body: t.Any) -> None:
        super().__init__(body)
        self.status = status
        self.body = body


def wrong(field: str, message: str) -> Refused:
    return Refused(400, {field: [message]})


class Awx:
    """The state, and what can be done to it. ``playbooks``: those that a project's update finds in the repository."""

    def __init__(self, playbooks: t.Collection[str], token: str = "secret-token") -> None:
        self.token = token
        self.playbooks = set(playbooks)
        self.tables: dict[str, dict[int, Data]] = {endpoint: {} for endpoint in KINDS}
        self.surveys: dict[tuple[str, int], Data] = {}
        self.links: dict[tuple[str, int, str], list[int]] = {}
        # method, path and data of every request
        self.requests: list[tuple[str, str, Data]] = []
        self._last = 0
        self._lock = threading.RLock()
        for name, (secrets, others, required) in MANAGED.items():
            fields: list[Data] = [{"id": each, "label": each, "type": "string", "secret": True} for each in secrets]
            kinds = {"verify_ssl": "boolean"}
            fields += [{"id": each, "label": each, "type": kinds.get(each, "string")} for each in others]
            inputs = {"fields": fields, "required": list(required)}
            self._keep("credential_types", {"name": name, "kind": "x", "managed": True, "inputs": inputs})

    # -- for tests

    def writes(self) -> list[tuple[str, str, Data]]:
        return [request for request in self.requests if request[0] not in ("GET", "HEAD")]

    def one(self, endpoint: str, name: str) -> Data:
        (found,) = [each for each in self.tables[endpoint].values() if each.get(KINDS[endpoint].name) == name]
        return found

    def names(self, endpoint: str) -> list[str]:
        return sorted(str(each[KINDS[endpoint].name]) for each in self.tables[endpoint].values())

    def linked(self, endpoint: str, name: str, association: str) -> list[str]:
        other = KINDS[endpoint].associations[association]
        ids = self.links.get((endpoint, self.one(endpoint, name)["id"], association), [])
        return sorted(self.tables[other][each][KINDS[other].name] for each in ids)

    # -- requests

    def handle(self, method: str, url: str, data: Data, token: str) -> tuple[int, t.Any]:
        split = urlsplit(url)
        query = dict(parse_qsl(split.query))
        with self._lock:
            self.requests.append((method, split.path, data))
            if token != "Bearer %s" % self.token:
                return 401, {"detail": "Authentication credentials were not provided."}
            parts = split.path.strip("/").split("/")
            if parts[:2] != ["api", "v2"] or not split.path.endswith("/"):
                return 404, {"detail": "Not found."}
            try:
                return self._route(method, parts[2:], query, data)
            except Refused as refused:
                return refused.status, refused.body

    def _route(self, method: str, parts: list[str], query: dict[str, str], data: Data) -> tuple[int, t.Any]:
        endpoint = parts[0]
        if endpoint == "project_updates" and len(parts) == 2:
            return 200, {"id": int(parts[1]), "status": "successful", "finished": "2026-01-01T00:00:00Z"}
        if endpoint not in (*KINDS, "unified_job_templates", "instance_groups"):
            raise Refused(404, {"detail": "Not found."})
        if len(parts) == 1:
            if method == "GET":
                return 200, self._list(endpoint, query)
            if method == "POST" and endpoint in KINDS:
                return 201, self._shown(endpoint, self._create(endpoint, data))
            raise Refused(405, {"detail": 'Method "%s" not allowed.' % method})
        item = self.tables[endpoint].get(int(parts[1])) if parts[1].isdigit() else None
        if item is None:
            raise Refused(404, {"detail": "Not found."})
        if len(parts) == 2:
            return self._detail(method, endpoint, item, data)
        return self._below(method, endpoint, item, parts[2], data)

    def _detail(self, method: str, endpoint: str, item: Data, data: Data) -> tuple[int, t.Any]:
        if method == "GET":
            return 200, self._shown(endpoint, item)
        if method == "PATCH":
            return 200, self._shown(endpoint, self._update(endpoint, item, data))
        if method == "DELETE":
            self._delete(endpoint, item["id"])
            return 204, None
        raise Refused(405, {"detail": 'Method "%s" not allowed.' % method})

    def _below(self, method: str, endpoint: str, item: Data, what: str, data: Data) -> tuple[int, t.Any]:
        if what == "survey_spec" and endpoint in ("job_templates", "workflow_job_templates"):
            return self._survey(method, (endpoint, item["id"]), data)
        if what == "create_approval_template" and method == "POST":
            if not set(data) <= {"name", "description", "timeout"} or not data.get("name"):
                raise Refused(400, {"__all__": ["fields of an approval: name, description, timeout"]})
            approval = self._keep("workflow_approval_templates", data)
            item["unified_job_template"] = approval["id"]
            return 201, {**self._shown("workflow_approval_templates", approval)}
        other = KINDS[endpoint].associations.get(what)
        if other is None:
            raise Refused(404, {"detail": "Not found."})
        linked = self.links.setdefault((endpoint, item["id"], what), [])
        if method == "GET":
            return 200, self._page([self._shown(other, self.tables[other][each]) for each in linked])
        if method != "POST" or not set(data) <= {"id", "disassociate"}:
            raise Refused(400, {"detail": "an association takes id and disassociate"})
        if data["id"] not in self.tables[other]:
            raise Refused(400, {"detail": "%s %s does not exist" % (other, data["id"])})
        if data.get("disassociate"):
            linked.remove(data["id"])
        elif data["id"] not in linked:
            linked.append(data["id"])
        return 204, None

    def _list(self, endpoint: str, query: dict[str, str]) -> Data:
        endpoints = UNIFIED if endpoint == "unified_job_templates" else (endpoint,)
        found = []
        for each in endpoints:
            for item in self.tables.get(each, {}).values():
                if self._matches(each, item, query):
                    found.append(self._shown(each, item))
        return self._page(found)

    def _matches(self, endpoint: str, item: Data, query: dict[str, str]) -> bool:
        either = []
        for key, wanted in query.items():
            if key in ("page", "page_size", "order_by"):
                continue
            if key.startswith("or__"):
                either.append(str(item.get(key[4:])) == wanted)
                continue
            field, _, below = key.partition("__")
            if field not in (*KINDS[endpoint].fields, "id") and field != "organization":
                raise Refused(400, {"detail": "%s has no field named '%s'" % (endpoint, field)})
            value = item.get(field)
            if below:
                value = self.tables[KINDS[endpoint].fields[field].kind].get(value, {}).get(below)
            if wanted != ("None" if value is None else str(value)):
                return False
        return not either or any(either)

    @staticmethod
    def _page(found: list[Data]) -> Data:
        return {"count": len(found), "next": None, "previous": None, "results": found}

    # -- objects

    def _keep(self, endpoint: str, values: Data) -> Data:
        self._last += 1
        fields = KINDS[endpoint].fields
        item = {"id": self._last, **{key: field.default for key, field in fields.items()}, **values}
        self.tables[endpoint][self._last] = item
        return item

    def _create(self, endpoint: str, data: Data) -> Data:
        for key, field in KINDS[endpoint].fields.items():
            if field.required and data.get(key) in (None, ""):
                raise wrong(key, "This field is required.")
        values = self._checked(endpoint, data, None)
        defaults = {key: field.default for key, field in KINDS[endpoint].fields.items()}
        self._unique(endpoint, {**defaults, **values}, None)
        self._rules(endpoint, {**defaults, **values}, values, None)
        item = self._keep(endpoint, values)
        if endpoint == "projects":
            item["_update"] = item["id"]
        return item

    def _update(self, endpoint: str, item: Data, data: Data) -> Data:
        if item.get("managed"):
            raise Refused(403, {"detail": "Modifications not allowed for managed credential types"})
        values = self._checked(endpoint, data, item)
        self._unique(endpoint, {**item, **values}, item)
        self._rules(endpoint, {**item, **values}, values, item)
        item.update(values)
        return item

    def _delete(self, endpoint: str, number: int) -> None:
        del self.tables[endpoint][number]
        for (of_endpoint, of_number, association), linked in list(self.links.items()):
            if (of_endpoint, of_number) == (endpoint, number):
                del self.links[of_endpoint, of_number, association]
            elif KINDS[of_endpoint].associations[association] == endpoint and number in linked:
                linked.remove(number)
        for other, kind in KINDS.items():
            for key, field in kind.fields.items():
                if field.kind == endpoint or (field.kind == "unified_job_templates" and endpoint in UNIFIED):
                    for item in self.tables[other].values():
                        item[key] = None if item[key] == number else item[key]

    def _checked(self, endpoint: str, data: Data, item: Data | None) -> Data:
        fields = KINDS[endpoint].fields
        values = {}
        for key, value in data.items():
            if key in READ_ONLY or (endpoint, key) == ("job_templates", "organization"):
                continue
            if key not in fields:
                raise wrong(key, "AWX has no such field in %s." % endpoint)
            self._check(key, fields[key], value)
            if item and fields[key].fixed and item[key] not in (None, value):
                raise wrong(key, "Cannot be changed.")
            values[key] = value
        if endpoint == "job_templates" and values.get("project"):  # inferred, and read-only
            values["organization"] = self.tables["projects"][values["project"]]["organization"]
        return values

    def _check(self, key: str, field: Field, value: t.Any) -> None:
        types = {"text": str, "number": int, "flag": bool, "object": dict, "json": str}
        if value is None:
            if field.required or (field.default is not None and field.kind in types and None not in field.choices):
                raise wrong(key, "This field may not be null.")
        elif field.kind in types:
            if type(value) is not types[field.kind]:
                raise wrong(key, "Not a valid %s: %r." % (field.kind, value))
            if field.choices and value not in field.choices:
                raise wrong(key, '"%s" is not a valid choice.' % value)
            if field.kind == "json" and value and not isinstance(json.loads(value), dict):
                raise wrong(key, "Cannot parse as an object.")
        else:
            endpoints = UNIFIED if field.kind == "unified_job_templates" else (field.kind,)
            if type(value) is not int or not any(value in self.tables.get(each, {}) for each in endpoints):
                raise wrong(key, 'Invalid pk "%s" - object does not exist.' % value)

    def _unique(self, endpoint: str, values: Data, item: Data | None) -> None:
        keys = KINDS[endpoint].unique
        for other in self.tables[endpoint].values():
            if other is not item and all(other.get(key) == values.get(key) for key in keys):
                raise Refused(400, {"__all__": ["%s with this %s already exists." % (endpoint, " and ".join(keys))]})

    # -- what AWX checks beyond fields

    def _rules(self, endpoint: str, whole: Data, given: Data, item: Data | None) -> None:
        check = getattr(self, "_%s_rules" % endpoint, None)
        if check:
            check(whole, given, item)

    def _credential_types_rules(self, whole: Data, given: Data, item: Data | None) -> None:
        inputs, injectors = whole["inputs"], whole["injectors"]
        if not set(inputs) <= {"fields", "required"} or not set(injectors) <= {"file", "env", "extra_vars"}:
            raise wrong("inputs", "Additional properties are not allowed")
        for field in inputs.get("fields", []):
            if (
                not {"id", "label"}
                <= set(field)
                <= {"id", "label", "type", "secret", "multiline", "help_text", "format"}
            ):
                raise wrong("inputs", "wrong properties of the field %s" % field)
            field.setdefault("type", "string")
        known = {field["id"] for field in inputs.get("fields", [])}
        for kind, entries in injectors.items():
            for key, template in entries.items():
                if kind == "env" and key.startswith("ANSIBLE_"):
                    raise wrong("injectors", "Environment variable %s is not allowed" % key)
                for name in re.findall(r"\{\{\s*([\w.]+)\s*\}\}", template) or [template]:
                    if name not in known and not (name == "tower.filename" and "template" in injectors.get("file", {})):
                        raise wrong("injectors", "%s uses an undefined field (%s)" % (key, name))

    def _credentials_rules(self, whole: Data, given: Data, item: Data | None) -> None:
        owners = [key for key in ("organization", "user", "team") if whole.get(key)]
        if len(owners) != 1:
            raise Refused(400, {"detail": "Missing 'user', 'team', or 'organization'."})
        kind = self.tables["credential_types"][whole["credential_type"]]["inputs"]
        known = {field["id"]: field for field in kind["fields"]}
        for key, value in whole["inputs"].items():
            if key not in known:
                raise Refused(400, {"inputs": {key: ["Additional properties are not allowed."]}})
            if type(value) is not (bool if known[key]["type"] == "boolean" else str):
                raise Refused(400, {"inputs": {key: ["wrong type"]}})
            if value == ENCRYPTED:
                if not item:
                    raise Refused(400, {"inputs": {key: ["$encrypted$ is a reserved keyword"]}})
                whole["inputs"][key] = item["inputs"][key]
        for key in kind.get("required", []):
            if not whole["inputs"].get(key):
                raise Refused(400, {"inputs": {key: ["required for the credential type"]}})

    def _execution_environments_rules(self, whole: Data, given: Data, item: Data | None) -> None:
        if given.get("credential"):
            credential = self.tables["credentials"][given["credential"]]
            if self.tables["credential_types"][credential["credential_type"]]["name"] != "Container Registry":
                raise wrong("credential", "Only Container Registry credentials can be associated")

    def _inventory_sources_rules(self, whole: Data, given: Data, item: Data | None) -> None:
        if whole["source"] == "scm" and not whole["source_project"]:
            raise wrong("source_project", "Project required for scm type sources.")
        if whole["source_project"] and not self.tables["projects"][whole["source_project"]]["scm_type"]:
            raise wrong("source_project", "Cannot use manual project for SCM-based inventory.")

    def _notification_templates_rules(self, whole: Data, given: Data, item: Data | None) -> None:
        known = NOTIFICATIONS[whole["notification_type"]]
        settings = whole["notification_configuration"]
        if set(settings) != set(known):
            raise Refused(400, {"__all__": ["fields of %s: %s" % (whole["notification_type"], ", ".join(known))]})
        for key, value in settings.items():
            if type(value) is not known[key] or (known[key] is list and not value):
                raise Refused(400, {"__all__": ["Configuration field '%s' incorrect type" % key]})
            if value == ENCRYPTED and item:
                settings[key] = item["notification_configuration"][key]

    def _job_templates_rules(self, whole: Data, given: Data, item: Data | None) -> None:
        if whole["playbook"] not in self.playbooks:
            raise wrong("playbook", "Playbook not found for project.")
        if not whole["inventory"] and not whole["ask_inventory_on_launch"]:
            raise wrong("inventory", "You must either set a default value or ask to prompt on launch.")

    def _workflow_job_template_nodes_rules(self, whole: Data, given: Data, item: Data | None) -> None:
        template = whole["unified_job_template"]
        if not whole["extra_data"]:
            return
        questions = {
            each["variable"]: each for each in self.surveys.get(("job_templates", template), {}).get("spec", [])
        }
        for key, value in whole["extra_data"].items():
            if key not in questions:
                raise wrong("extra_data", "Variables %s are not allowed on launch." % key)
            if questions[key]["choices"] and value not in questions[key]["choices"]:
                raise wrong("extra_data", "Value %s for '%s' expected to be one of the choices." % (value, key))

    def _schedules_rules(self, whole: Data, given: Data, item: Data | None) -> None:
        rule = whole["rrule"]
        if not re.match(r"DTSTART(;TZID=[\w/+-]+:\d{8}T\d{6}|:\d{8}T\d{6}Z) RRULE:[A-Z=;,0-9]+\Z", rule):
            raise wrong("rrule", "Valid DTSTART required in rrule.")
        if "INTERVAL=" not in rule:
            raise wrong("rrule", "INTERVAL required in rrule")

    def _survey(self, method: str, place: tuple[str, int], data: Data) -> tuple[int, t.Any]:
        if method == "GET":
            return 200, self.surveys.get(place, {})
        if method == "DELETE":
            self.surveys.pop(place, None)
            return 200, {}
        for key, kind in (("name", str), ("description", str), ("spec", list)):
            if not isinstance(data.get(key), kind):
                raise Refused(400, {"error": "Field '%s' is missing from survey spec." % key})
        if set(data) != {"name", "description", "spec"} or not data["spec"]:
            raise Refused(400, {"error": "'spec' doesn't contain any items."})
        seen = set()
        for index, question in enumerate(data["spec"]):
            problem = self._question(question)
            if question.get("variable") in seen:
                problem = "duplicated variable"
            if problem:
                raise Refused(400, {"error": "survey question %d: %s" % (index, problem)})
            seen.add(question["variable"])
        self.surveys[place] = data
        return 200, {}

    @staticmethod
    def _question(question: Data) -> str:
        kinds = {"text": str, "textarea": str, "integer": int, "float": float, "multiplechoice": str}
        kinds.update(multiselect=(str, list), password=str)  # type: ignore[arg-type]
        allowed = {"question_name", "question_description", "variable", "type", "required", "choices", "min", "max"}
        if not {"type", "question_name", "variable", "required"} <= set(question) <= allowed | {"default"}:
            return "wrong keys"
        if question["type"] not in kinds or type(question["required"]) is not bool:
            return "wrong type"
        for key in ("min", "max"):
            if question.get(key) is not None and type(question[key]) is not int:
                return "the limit %s is no integer" % key
        default = question.get("default", "")
        if default != "" and not isinstance(default, kinds[question["type"]]):
            return "wrong default"
        if question["type"].startswith("multi"):
            given = default.splitlines() if isinstance(default, str) else default
            if not question.get("choices") or any(each not in question["choices"] for each in given):
                return "Default choice must be answered from the choices listed."
        return ""

    # -- what is given back

    def _shown(self, endpoint: str, item: Data) -> Data:
        url = "/api/v2/%s/%d/" % (endpoint, item["id"])
        shown = {key: value for key, value in item.items() if not key.startswith("_")}
        shown.update(url=url, type=endpoint.rstrip("s"), related={}, summary_fields={})
        if endpoint == "inventories":
            shown["type"] = "inventory"
        if endpoint in ("job_templates", "workflow_job_templates"):
            shown["related"]["survey_spec"] = url + "survey_spec/"
        if endpoint == "workflow_job_template_nodes":
            workflow = self.tables["workflow_job_templates"][item["workflow_job_template"]]
            shown["summary_fields"]["workflow_job_template"] = {"id": workflow["id"], "name": workflow["name"]}
            template = item["unified_job_template"]
            if template in self.tables["workflow_approval_templates"]:
                shown["related"]["unified_job_template"] = "/api/v2/workflow_approval_templates/%d/" % template
        if item.pop("_update", None):  # its first update begins with it
            shown["summary_fields"]["current_update"] = {"id": item["id"]}
        if endpoint == "projects":
            shown["scm_revision"] = "0" * 40
        if endpoint == "credentials":
            kind = self.tables["credential_types"][item["credential_type"]]["inputs"]
            secrets = {field["id"] for field in kind["fields"] if field.get("secret")}
            shown["inputs"] = {key: ENCRYPTED if key in secrets else value for key, value in item["inputs"].items()}
        if endpoint == "notification_templates":
            shown["notification_configuration"] = {
                key: ENCRYPTED if key in NOTIFICATION_SECRETS and value else value
                for key, value in item["notification_configuration"].items()
            }
        return shown


def serve(awx: Awx) -> ThreadingHTTPServer:
    """A server on a free port of the loopback; ``shutdown`` and ``server_close`` end it."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _answer(self) -> None:
            size = int(self.headers.get("Content-Length") or 0)
            raw = self.rfile.read(size)
            data = json.loads(raw) if raw else {}
            status, body = awx.handle(self.command, self.path, data, self.headers.get("Authorization", ""))
            out = b"" if body is None else json.dumps(body).encode()
            self.send_response(status)
            self.send_header("X-API-Product-Name", "AWX")
            self.send_header("X-API-Product-Version", "24.6.1")
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(out)))
            self.end_headers()
            self.wfile.write(out)

        do_GET = do_POST = do_PATCH = do_DELETE = do_PUT = _answer

        def log_message(self, *args: t.Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server
