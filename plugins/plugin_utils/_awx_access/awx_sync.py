# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Compare the objects of AWX with those of the data file, and write the differences."""

from __future__ import annotations

import contextlib
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._awx.awx_data import CONTROL
from ansible_collections.railyard.fabric.plugins.module_utils._awx.awx_objects import Object, Ref, Wanted
from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError, raise_all
from ansible_collections.railyard.fabric.plugins.plugin_utils._awx_access import awx_compare, awx_jobs
from ansible_collections.railyard.fabric.plugins.plugin_utils._awx_access.awx_checks import Checks
from ansible_collections.railyard.fabric.plugins.plugin_utils._awx_access.awx_server import ApiError, Data, Server

_NODES = "workflow_job_template_nodes"
_APPROVALS = "workflow_approval_templates"
# Associations whose order matters in AWX.
_ORDERED = ("instance_groups",)
Key = t.Tuple[str, str, t.Optional[int]]


class Change(t.NamedTuple):
    """A change of an object. ``before`` and ``after``: the fields that differ, without secrets."""

    action: str
    kind: str
    name: str
    before: Data
    after: Data

    def line(self) -> str:
        """The change as one line."""
        keys = sorted({*self.before, *self.after}) if self.action == "change" else []
        return "%s %s %s%s" % (self.action, singular(self.kind), self.name, ": " + ", ".join(keys) if keys else "")


def singular(kind: str) -> str:
    """Return the name of a kind for messages: ``job template`` for ``job_templates``."""
    words = {"inventories": "inventory", _NODES: "workflow step"}
    return words.get(kind, kind[:-1]).replace("_", " ")


class Sync:
    """A run. ``changes``: the changes that were made or, in check mode, would be made."""

    def __init__(
        self, server: Server, wanted: Wanted, secrets: awx_compare.Secrets, check: bool, pause: float = 1.0
    ) -> None:
        self.changes: list[Change] = []
        self._server = server
        self._wanted = wanted
        self._secrets = secrets
        self._check = check
        self._jobs = awx_jobs.Jobs(server, pause)
        self._found: dict[Key, Data] = {}
        self._items: dict[Ref, Data] = {}
        # Number of changes that AWX has accepted.
        self.written = 0
        self._planned = 0
        # Inventory sources whose fabric file AWX must read, and whether they are new or changed.
        self._sources: list[tuple[Object, bool]] = []

    def run(self) -> None:
        self._organization()
        self._load()
        checks = Checks(self._server, self._wanted, self._id(self._organization_ref))
        self._items.update(checks.run())
        for each in self._wanted.objects:
            self._ensure(each)
            if each.kind == "projects":
                self._project(each)
        self._schedules()
        self._absent(_NODES)
        for each in self._wanted.of(_NODES):
            self._links(each)
        self._absent("job_templates")
        self._access()
        self._read_sources()

    # -- what AWX has

    @property
    def _organization_ref(self) -> Ref:
        return Ref("organizations", self._wanted.data.organization)

    def _organization(self) -> None:
        ref, data = self._organization_ref, self._wanted.data
        found = self._server.all("organizations", name=ref.name)
        if found:
            self._items[ref] = found[0]
        elif data.create_organization:
            self._items[ref] = self._create(Object(*ref[:2], {"description": "Fabrics"}), {"description": "Fabrics"})
        else:
            raise awx_compare.unknown(
                ref.name, "organization", "organizations", self._server, "create_organization: true creates it"
            )

    def _load(self) -> None:
        """Read all our objects in AWX, with one list per kind."""
        organization = self._id(self._organization_ref)
        if organization < 0:
            return
        prefix = self._wanted.data.prefix
        ours = {"organization": organization, "name__startswith": prefix}
        inside = "workflow_job_template"
        queries: dict[str, Data] = {
            "credential_types": {},
            "execution_environments": {"name": prefix},
            "hosts": {"inventory__organization": organization, "inventory__name": "%s %s" % (prefix, CONTROL)},
            "inventory_sources": {"inventory__organization": organization, "name__startswith": prefix},
            _NODES: {inside + "__organization": organization, inside + "__name__startswith": prefix},
            "schedules": {"unified_job_template__organization": organization, "name__startswith": prefix},
        }
        owners = {each.kind: each.owner[0] for each in self._wanted.objects if each.owner}
        for kind in dict.fromkeys([*(each.kind for each in self._wanted.objects), "schedules"]):
            for item in self._server.all(kind, **queries.get(kind, ours)):
                owner = item.get(owners[kind]) if kind in owners else None
                self._found[kind, item["identifier" if kind == _NODES else "name"], owner] = item

    def _id(self, ref: Ref) -> int:
        if ref not in self._items and ref.kind == "credential_types":  # created by AWX itself
            own = self._found.get((ref.kind, ref.name, None))
            found = [own] if own else self._server.all(ref.kind, name=ref.name)
            if not found:
                raise awx_compare.unknown(ref.name, singular(ref.kind), ref.kind, self._server)
            self._items[ref] = found[0]
        return int(self._items[ref]["id"])

    def _key(self, each: Object) -> Key:
        return each.kind, each.name, self._id(each.owner[1]) if each.owner else None

    def _is_new(self, each: Object) -> bool:
        """Return whether this run created the object. Then it has no associations."""
        return self._key(each) not in self._found

    def _body(self, each: Object) -> Data:
        body = {key: self._id(value) if isinstance(value, Ref) else value for key, value in each.fields.items()}
        if each.owner and each.kind != "job_templates":  # that of a template is its project's
            body[each.owner[0]] = self._id(each.owner[1])
        return body

    # -- one object

    def _note(self, action: str, each: Object, before: Data, after: Data) -> None:
        self.changes.append(Change(action, each.kind, self._shown(each), before, after))

    @staticmethod
    def _shown(each: Object) -> str:
        return "%s / %s" % (each.owner[1].name, each.name) if each.owner and each.kind == _NODES else each.name

    def _ensure(self, each: Object) -> None:
        body = self._body(each)
        item = self._found.get(self._key(each))
        item = self._create(each, self._secrets.whole(each, body)) if item is None else self._update(each, item, body)
        self._items[each.ref] = item
        if each.survey is not None:
            self._survey(each, item)
        if each.approval is not None:
            self._approval(each, item)
        if each.kind != _NODES:
            self._links(each)

    def _create(self, each: Object, body: Data) -> Data:
        self._note("create", each, {}, awx_compare.hidden(each, each.fields))
        if each.kind == "inventory_sources":
            self._sources.append((each, True))
        if self._check:
            self._planned -= 1
            return {"id": self._planned}
        name = {"identifier" if each.kind == _NODES else "name": each.name}
        try:
            return self._accepted(self._server.post(each.kind, {**name, **body}))
        except ApiError as error:
            owner = {each.owner[0]: body[each.owner[0]]} if each.owner and each.owner[0] in body else {}
            found = self._server.all(each.kind, **name, **owner) if self._server.repeated else []
            if error.status == 400 and found:  # the answer to the first try was lost
                return self._accepted(found[0])
            raise self._placed(error, each) from None

    def _update(self, each: Object, item: Data, body: Data) -> Data:
        changed = self._secrets.differing(each, item, awx_compare.differing(item, body))
        if not changed:
            self._unread(each, item)
            return item
        before = {key: item.get(key) for key in changed}
        self._note("change", each, awx_compare.hidden(each, before), awx_compare.hidden(each, changed))
        if each.kind == "inventory_sources":
            self._sources.append((each, True))
        if self._check:
            return item
        with self._placing(each):
            return self._accepted(self._server.patch("%s/%d" % (each.kind, item["id"]), awx_compare.sent(changed)))

    def _unread(self, each: Object, item: Data) -> None:
        """Add an unchanged source that AWX has not read with success, or still reads."""
        status = awx_jobs.status_of(item) if each.kind == "inventory_sources" else "successful"
        if status == "failed":
            self._note("update", each, {}, {})
        if status != "successful":
            self._sources.append((each, False))

    @contextlib.contextmanager
    def _placing(self, each: Object) -> t.Iterator[None]:
        try:
            yield
        except ApiError as error:
            raise self._placed(error, each) from None

    def _placed(self, error: ApiError, each: Object) -> ApiError:
        """Return the error with the name of the object in place of the URL."""
        remedy = error.remedy
        if "already exists" in error.message or "must be unique" in error.message:
            remedy = "choose another prefix: another organization has an object of this name, or you cannot see it"
        if "credential type of the credential" in error.message or "Vault IDs cannot be changed" in error.message:
            remedy = "give the credential another name in the data file: AWX cannot change this field"
        if "Cycle detected" in error.message:
            remedy = "remove the links in AWX between your own steps and these that form a cycle"
        place = "%s %s" % (singular(each.kind), self._shown(each))
        return ApiError(self._secrets.masked(error.message), place, remedy, error.status)

    def _survey(self, each: Object, item: Data) -> None:
        path = "%s/%d/survey_spec" % (each.kind, item["id"])
        now = {} if self._is_new(each) else self._server.get(path)
        wanted = dict(each.survey or {})
        if now == wanted or (not now.get("spec") and not wanted):
            return
        if not self._is_new(each):
            self._note("change", each, {"survey": now}, {"survey": wanted})
        if self._check:
            return
        with self._placing(each):
            if wanted:
                self._server.post(path, wanted)
            else:
                self._server.delete(path)
        self._accepted({})

    def _approval(self, each: Object, item: Data) -> None:
        wanted = dict(each.approval or {})
        related = str(item.get("related", {}).get("unified_job_template", ""))
        if _APPROVALS in related:
            path = "%s/%d" % (_APPROVALS, item["unified_job_template"])
            changed = awx_compare.differing(self._server.get(path), wanted)
            if changed:
                self._note("change", each, {}, changed)
                if not self._check:
                    self._accepted(self._server.patch(path, changed))
            return
        if not self._is_new(each):
            self._note("change", each, {}, wanted)
        if not self._check:
            self._accepted(self._server.post("%s/%d/create_approval_template" % (each.kind, item["id"]), wanted))

    # -- associations

    def _links(self, each: Object) -> None:
        item = self._items[each.ref]
        for association, refs in each.links.items():
            if refs is None:
                continue
            now = self._linked(each, item, association)
            wanted = [ref.name for ref in refs]
            if list(now) == wanted or (association not in _ORDERED and set(now) == set(wanted)):
                continue
            if not self._is_new(each):
                self._note("change", each, {association: list(now)}, {association: wanted})
            if not self._check:
                self._link(each, "%s/%d/%s" % (each.kind, item["id"], association), now, refs)

    def _linked(self, each: Object, item: Data, association: str) -> dict[str, int]:
        """Return name -> id of associated objects. Of workflow steps only ours, so that links to other steps stay."""
        if self._is_new(each):
            return {}
        listed = self._server.all("%s/%d/%s" % (each.kind, item["id"], association))
        if each.kind != _NODES:
            return {entry["name"]: entry["id"] for entry in listed}
        ours = {self._id(node.ref) for node in self._wanted.of(_NODES)}
        return {entry["identifier"]: entry["id"] for entry in listed if entry["id"] in ours}

    def _link(self, each: Object, path: str, now: t.Mapping[str, int], refs: t.Sequence[Ref]) -> None:
        wanted = [ref.name for ref in refs]
        kept = {name for name in now if name in wanted}
        if refs and refs[0].kind in _ORDERED and [name for name in now if name in kept] != wanted[: len(kept)]:
            kept = set()
        with self._placing(each):
            for name, number in now.items():
                if name not in kept:
                    self._associate(path, number, {"id": number, "disassociate": True})
            for ref in refs:
                if ref.name not in kept:
                    self._associate(path, self._id(ref) if ref.kind != "labels" else None, self._reference(ref))
        self._accepted({})

    def _associate(self, path: str, number: int | None, data: Data) -> None:
        """Add an object to a list, or remove it. ``number``: its id; None for a label, which AWX finds by its name."""
        try:
            self._server.post(path, data)
        except ApiError as error:
            if error.status != 400 or not self._server.repeated or number is None:
                raise
            # The answer to the first try was lost: AWX refuses a second credential of a type, and the removal of a
            # label that was deleted with its last use.
            there = number in {entry["id"] for entry in self._server.all(path)}
            if there == bool(data.get("disassociate")):
                raise

    def _accepted(self, answer: Data) -> Data:
        """Count the changes so far as written, and return the answer."""
        self.written = len(self.changes)
        return answer

    def _reference(self, ref: Ref) -> Data:
        if ref.kind == "labels":  # AWX returns an existing label
            return {"name": ref.name, "organization": self._id(self._organization_ref)}
        return {"id": self._id(ref)}

    # -- the project and the fabric files

    def _project(self, project: Object) -> None:
        """Wait until AWX has fetched the repository: it refuses templates of unknown playbooks."""
        item, changed = self._items[project.ref], any(each.kind == "projects" for each in self.changes)
        playbooks = {each.fields["playbook"] for each in self._wanted.of("job_templates")}
        if self._check and (changed or item.get("status") != "successful"):
            if not changed:
                self._note("update", project, {}, {})
            return
        timeout = self._wanted.data.project.sync_timeout
        item = self._server.get("projects/%d" % item["id"])
        fresh = self._jobs.settle("projects", item, "project", changed, timeout)
        missing = self._jobs.missing(item["id"], playbooks)
        if missing and not fresh:
            self._note("update", project, {}, {})
            if self._check:
                return
            self._jobs.update("projects", item["id"], "project", timeout)
            missing = self._jobs.missing(item["id"], playbooks)
        if missing:
            data = self._wanted.data.project
            where = (
                "branch %s of %s" % (data.branch, data.url) if data.branch else "the default branch of %s" % data.url
            )
            message = "%s does not have %s" % (where, ", ".join(sorted(missing)))
            raise RailyardError(message, "project", "correct project.playbooks or project.branch, or push these files")

    def _read_sources(self) -> None:
        """Let AWX read fabric files that it has not read with success, so that this run and not a later job fails."""
        if self._check:
            return
        errors = []
        timeout = self._wanted.data.project.sync_timeout
        for each, changed in self._sources:
            try:
                if changed:
                    self._jobs.update("inventory_sources", self._id(each.ref), "inventory", timeout)
                else:
                    self._jobs.settle("inventory_sources", self._items[each.ref], "inventory", False, timeout)
            except RailyardError as error:
                place = "fabrics: %s" % each.fields["source_path"]
                errors.append(RailyardError(error.message, place, "correct the file or its path, and push it"))
        raise_all(errors)

    # -- what is not wanted

    def _absent(self, kind: str) -> None:
        for each in self._wanted.absent:
            if each.kind == kind and (each.owner is None or each.owner[1] in self._items):
                item = self._found.get(self._key(each))
                if item:
                    self._delete(each, item)

    def _schedules(self) -> None:
        """Delete our schedules that are not in the file. Schedules with other forms of names belong to users."""
        templates = {
            self._id(each.ref): each.name.rpartition(": ")[0]
            for each in self._wanted.objects
            if each.survey is not None
        }
        wanted = {self._key(each) for each in self._wanted.of("schedules")}
        for key, item in list(self._found.items()):
            if key[0] != "schedules" or (key[0], key[1], item["unified_job_template"]) in wanted:
                continue
            fabric = templates.get(item["unified_job_template"])
            if fabric and key[1].startswith(fabric + ": "):
                self._delete(Object("schedules", key[1]), item)

    def _delete(self, each: Object, item: Data) -> None:
        self._note("delete", each, {}, {})
        if self._check:
            return
        with self._placing(each):
            self._server.delete("%s/%d" % (each.kind, item["id"]))
        self._accepted({})

    # -- teams

    def _access(self) -> None:
        """Grant and revoke roles of teams for objects with ``access`` in the file. Roles of users are not changed."""
        described = [each for each in self._wanted.objects if each.access is not None]
        if not described:
            return
        roles: dict[int, tuple[Object, str, frozenset[str]]] = {}
        for each in described:
            known = self._items[each.ref].get("summary_fields", {}).get("object_roles", {})
            for role, teams in (each.access or {}).items():
                if role in known:
                    roles[known[role]["id"]] = (each, role, teams)
        for team in self._server.all("teams", organization=self._id(self._organization_ref)):
            path = "teams/%d/roles" % team["id"]
            held = {entry["id"] for entry in self._server.all(path)} if roles else set()
            for number, (each, role, teams) in roles.items():
                if (team["name"] in teams) != (number in held):
                    self._grant(each, role, team["name"], path, number, number not in held)

    def _grant(self, each: Object, role: str, team: str, path: str, number: int, grant: bool) -> None:
        right = {"%s of team %s" % (role, team): True}
        self._note("change", each, {} if grant else right, right if grant else {})
        if self._check:
            return
        with self._placing(each):
            self._accepted(self._server.post(path, {"id": number} if grant else {"id": number, "disassociate": True}))
