# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A simulation of AWX's REST API on the loopback, which keeps state and is stricter than AWX.

Endpoints, fields, defaults, what must be given and what is refused are those of AWX 24.6.1 (``awx/api/serializers.py``,
``awx/api/views``, ``awx/main/fields.py``, ``awx/main/notifications``), as far as they concern what we make. AWX ignores
fields that it does not know; here they are refused, as are filters. Secrets are returned as ``$encrypted$``.
"""

from __future__ import annotations

import json
import re
import threading
import typing as t
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, urlsplit

from tests.standins.awx_kinds import (
    ENCRYPTED,
    KINDS,
    MANAGED,
    NOTIFICATION_SECRETS,
    READ_ONLY,
    ROLES,
    UNIFIED,
    Data,
    Field,
)
from tests.standins.awx_rules import ZONE_LINKS, ZONES, Refused, Rules, wrong
from tests.standins.awx_updates import TRIGGERS, UPDATES, Updates


class Trouble:
    """What happens to the next ``times`` requests of ``method`` whose path matches.

    An answer of ``status``, or, with 0, a connection that ends. ``after``: AWX has carried the request out.
    """

    def __init__(self, method: str, path: str, status: int = 0, times: int = 1, after: bool = False) -> None:
        self._method, self._path, self.status, self._times, self.after = method, path, status, times, after

    def meets(self, method: str, path: str) -> bool:
        if self._times and method == self._method and re.search(self._path, path):
            self._times -= 1
            return True
        return False


class Awx(Rules, Updates):
    """The state, and what can be done to it. ``playbooks``: those that a project's update finds in the repository.

    ``tokens`` are those of an administrator, of an administrator of organizations, of an auditor, who may read all,
    and of a member of an organization, who sees the organization alone (``awx/main/access.py``).
    """

    def __init__(self, playbooks: t.Collection[str], token: str = "secret-token") -> None:
        self.token = token
        self.tokens = {
            token: "admin",
            "token-org-admin": "org-admin",
            "token-auditor": "auditor",
            "token-member": "member",
        }
        self.begin(playbooks)
        # what to do with requests before they are answered: see :class:`Trouble`
        self.troubles: list[Trouble] = []
        self.prefix = "/api/v2/"
        self.page = ""  # what a web server that is not AWX answers
        self.object_roles: dict[int, tuple[str, int, str]] = {}
        self.team_roles: dict[int, set[int]] = {}
        # endpoint -> what a new object of it is refused with
        self.refusals: dict[str, Data] = {}
        # instance groups that an administrator of an organization may use: to others they do not exist
        self.usable: set[int] = set()
        # templates that have a running job
        self.busy: set[int] = set()
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

    def add(self, endpoint: str, **values: t.Any) -> Data:
        """An object that another user has made."""
        item = self._keep(endpoint, values)
        if endpoint == "projects":
            self.start("project", item)
        return item

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
            if self.page:
                return 200, self.page
            if not split.path.startswith(self.prefix) or not split.path.endswith("/"):
                return 404, {"detail": "The requested resource could not be found."}
            role = self.tokens.get(token.partition(" ")[2])
            if role is None:
                return 401, {"detail": "Authentication credentials were not provided."}
            parts = split.path[len(self.prefix) :].strip("/").split("/")
            try:
                self._permitted(role, method, parts[0])
                return self._route(method, parts, query, data, role)
            except Refused as refused:
                return refused.status, refused.body

    @staticmethod
    def _permitted(role: str, method: str, endpoint: str) -> None:
        wide = ("organizations", "credential_types")
        if method != "GET" and (role in ("auditor", "member") or (role == "org-admin" and endpoint in wide)):
            raise Refused(403, {"detail": "You do not have permission to perform this action."})

    def _route(self, method: str, parts: list[str], query: dict[str, str], data: Data, role: str) -> tuple[int, t.Any]:
        endpoint = parts[0]
        if endpoint in UPDATES and len(parts) > 1:
            return 200, self.update_of(int(parts[1]), parts[2:])
        if parts == ["schedules", "zoneinfo"]:
            return 200, {"zones": list(ZONES), "links": ZONE_LINKS}
        if endpoint not in (*KINDS, "unified_job_templates"):
            raise Refused(404, {"detail": "The requested resource could not be found."})
        if len(parts) == 1:
            if method == "GET":
                seen = role != "member" or endpoint in ("organizations", "credential_types")
                found = self._list(endpoint, query)["results"] if seen else []
                if (role, endpoint) == ("org-admin", "instance_groups"):
                    found = [each for each in found if each["id"] in self.usable]
                return 200, self._page(found)
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
            if item["id"] in self.busy:
                raise Refused(409, {"error": "Resource is being used by running jobs."})
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
        if what == "update" and method == "POST" and endpoint in ("projects", "inventory_sources"):
            return 202, self.start("project" if endpoint == "projects" else "inventory", item)
        if what == "playbooks" and endpoint == "projects":
            return 200, sorted(self.playbook_files.get(item["id"], ()))
        if what == "roles" and endpoint == "teams":
            return self._team_roles(method, item, data)
        other = KINDS[endpoint].associations.get(what)
        if other is None:
            raise Refused(404, {"detail": "Not found."})
        linked = self.links.setdefault((endpoint, item["id"], what), [])
        if method == "GET":
            return 200, self._page([self._shown(other, self.tables[other][each]) for each in linked])
        if other == "labels" and set(data) == {"name", "organization"}:  # awx/api/views/labels.py
            found = [each for each in self.tables["labels"].values() if data.items() <= each.items()]
            data = {"id": (found[0] if found else self._create("labels", data))["id"]}
        if method != "POST" or not set(data) <= {"id", "disassociate"}:
            raise Refused(400, {"detail": "an association takes id and disassociate"})
        if data["id"] not in self.tables[other]:
            raise Refused(400, {"detail": "%s %s does not exist" % (other, data["id"])})
        if data.get("disassociate"):
            if data["id"] in linked:
                linked.remove(data["id"])
            if other == "labels" and not any(
                data["id"] in ids for (_e, _i, kind), ids in self.links.items() if kind == "labels"
            ):
                self._delete("labels", data["id"])
        elif data["id"] not in linked or what == "credentials":  # AWX compares with all credentials, also with this one
            self._relation(endpoint, item, what, self.tables[other][data["id"]])
            linked.append(data["id"])
        return 204, None

    def _team_roles(self, method: str, team: Data, data: Data) -> tuple[int, t.Any]:
        held = self.team_roles.setdefault(team["id"], set())
        if method == "GET":
            return 200, self._page([{"id": each, "name": self.object_roles[each][2]} for each in sorted(held)])
        endpoint, number, _role = self.object_roles[data["id"]]
        if data.get("disassociate"):
            held.discard(data["id"])
            return 204, None
        if endpoint == "credentials" and self.tables[endpoint][number]["organization"] != team["organization"]:
            message = (
                "You cannot grant credential access to a team when the Organization field belongs to a different one"
            )
            raise Refused(400, {"msg": message})
        held.add(data["id"])
        return 204, None

    def granted(self, team: str) -> set[tuple[str, str]]:
        """The names of objects and roles that a team has."""
        held = [self.object_roles[each] for each in self.team_roles.get(self.one("teams", team)["id"], ())]
        return {(self.tables[endpoint][number]["name"], role) for endpoint, number, role in held}

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
            if not self._matched(endpoint, item, key.split("__"), wanted):
                return False
        return not either or any(either)

    def _matched(self, endpoint: str, item: Data, words: list[str], wanted: str) -> bool:
        """A filter such as ``inventory__organization`` or ``name__startswith``."""
        field = words[0]
        if field not in (*KINDS[endpoint].fields, "id", "organization"):
            raise Refused(400, {"detail": "%s has no field named '%s'" % (endpoint, field)})
        value = item.get(field)
        if words[1:] == ["startswith"]:
            return str(value).startswith(wanted)
        if len(words) == 1:
            return wanted == ("None" if value is None else str(value))
        others = UNIFIED if KINDS[endpoint].fields[field].kind == "unified_job_templates" else ()
        for other in others or (KINDS[endpoint].fields[field].kind,):
            if value in self.tables[other]:
                known = self.tables[other][value]
                below = (
                    known if "organization" in known or words[1] != "organization" else {**known, "organization": None}
                )
                if words[1] == "organization" and words[1] not in KINDS[other].fields:
                    return False
                return self._matched(other, below, words[1:], wanted)
        return False

    @staticmethod
    def _page(found: list[Data]) -> Data:
        return {"count": len(found), "next": None, "previous": None, "results": found}

    # -- objects

    def _keep(self, endpoint: str, values: Data) -> Data:
        self._last += 1
        fields = KINDS[endpoint].fields
        item = {"id": self._last, **{key: field.default for key, field in fields.items()}, **values}
        self.tables[endpoint][self._last] = item
        for role in ROLES.get(endpoint, ()):
            self._last += 1
            self.object_roles[self._last] = (endpoint, item["id"], role)
        return item

    def _create(self, endpoint: str, data: Data) -> Data:
        if endpoint in self.refusals:
            raise Refused(400, self.refusals[endpoint])
        for key, field in KINDS[endpoint].fields.items():
            if field.required and data.get(key) in (None, ""):
                raise wrong(key, "This field is required.")
        values = self._checked(endpoint, data, None)
        defaults = {key: field.default for key, field in KINDS[endpoint].fields.items()}
        self._unique(endpoint, {**defaults, **values}, None)
        self._rules(endpoint, {**defaults, **values}, values, None)
        item = self._keep(endpoint, values)
        if endpoint == "projects":
            self.start("project", item)
        return item

    def _update(self, endpoint: str, item: Data, data: Data) -> Data:
        if item.get("managed"):
            raise Refused(403, {"detail": "Modifications not allowed for managed credential types"})
        values = self._checked(endpoint, data, item)
        self._unique(endpoint, {**item, **values}, item)
        self._rules(endpoint, {**item, **values}, values, item)
        moved = endpoint == "projects" and any(values.get(key, item[key]) != item[key] for key in TRIGGERS)
        item.update(values)
        if moved:
            self.start("project", item)
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
        if endpoint == "projects":
            shown["scm_revision"] = "0" * 40
        if endpoint in ("projects", "inventory_sources"):
            shown["status"], shown["summary_fields"] = self.state_of(item)
        owner = self.tables["organizations"].get(item.get("organization"))
        if owner:
            shown["summary_fields"]["organization"] = {"id": owner["id"], "name": owner["name"]}
        roles = {
            role: {"id": key}
            for key, (kind, number, role) in self.object_roles.items()
            if (kind, number) == (endpoint, item["id"])
        }
        if roles:
            shown["summary_fields"]["object_roles"] = roles
        if endpoint == "credentials":
            kind = self.tables["credential_types"][item["credential_type"]]["inputs"]
            secrets = {field["id"] for field in kind["fields"] if field.get("secret")}
            shown["kind"] = {"Machine": "ssh", "Vault": "vault"}.get(
                self.tables["credential_types"][item["credential_type"]]["name"], ""
            )
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
        disable_nagle_algorithm = True

        def _answer(self) -> None:
            size = int(self.headers.get("Content-Length") or 0)
            raw = self.rfile.read(size)
            data = json.loads(raw) if raw else {}
            trouble = next((each for each in awx.troubles if each.meets(self.command, self.path)), None)
            if trouble and not trouble.after:
                return self._fail(trouble)
            status, body = awx.handle(self.command, self.path, data, self.headers.get("Authorization", ""))
            if trouble:
                return self._fail(trouble)
            out = b"" if body is None else body.encode() if isinstance(body, str) else json.dumps(body).encode()
            self.send_response(status)
            self.send_header("X-API-Product-Name", "AWX")
            self.send_header("X-API-Product-Version", "24.6.1")
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(out)))
            self.end_headers()
            self.wfile.write(out)

        def _fail(self, trouble: Trouble) -> None:
            self.close_connection = True
            if trouble.status:
                self.send_response(trouble.status)
                self.send_header("Content-Length", "0")
                self.end_headers()

        do_GET = do_POST = do_PATCH = do_DELETE = do_PUT = _answer

        def log_message(self, *args: t.Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server
