# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Check what AWX would refuse during a run, and report all problems before anything is written."""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._awx import awx_kinds
from ansible_collections.railyard.fabric.plugins.module_utils._awx.awx_objects import Ref, Wanted
from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError, raise_all
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.name_syntax import did_you_mean
from ansible_collections.railyard.fabric.plugins.plugin_utils._awx_access.awx_compare import meant, unknown
from ansible_collections.railyard.fabric.plugins.plugin_utils._awx_access.awx_server import ApiError, Data, Server


class Checks:
    """Checks before a run. ``run`` returns the objects of AWX to which the file refers without describing them."""

    def __init__(self, server: Server, wanted: Wanted, organization: int) -> None:
        self._server = server
        self._wanted = wanted
        self._data = wanted.data
        self._organization = organization
        self._errors: list[RailyardError] = []
        self._items: dict[Ref, Data] = {}

    def run(self) -> dict[Ref, Data]:
        """Return the objects of AWX to which the file refers. Raise all problems at once."""
        self._environment()
        for key, each in self._data.credentials.items():
            if each.existing:
                self._credential(key, each.existing, each.type)
        self._credentials_of_fabrics()
        self._instance_groups()
        self._teams()
        self._timezones()
        raise_all(self._errors)
        return self._items

    def _wrong(self, message: str, place: str, remedy: str) -> None:
        self._errors.append(RailyardError(message, place, remedy))

    def _environment(self) -> None:
        name = self._data.environment.existing or self._data.prefix
        found = self._server.all("execution_environments", name=name)
        if self._data.environment.existing:
            if found:
                self._items[Ref("execution_environments", name, existing=True)] = found[0]
            else:
                self._errors.append(unknown(name, "execution environment", "execution_environments", self._server))
        elif found and found[0].get("organization") != self._organization:
            owner = found[0].get("summary_fields", {}).get("organization", {}).get("name")
            message = "AWX has an execution environment %s %s, and these names are unique in all of AWX" % (
                name,
                "of the organization %s" % owner if owner else "that belongs to no organization",
            )
            remedy = "choose another prefix, or use that one with execution_environment: {existing: %s}" % name
            self._wrong(message, "prefix", remedy)

    def _credential(self, key: str, name: str, kind: str | None) -> None:
        query = {"name": name}
        if kind:
            query["credential_type__name"] = awx_kinds.CREDENTIALS[kind].name or "%s %s" % (self._data.prefix, kind)
        found = self._server.all("credentials", **query)
        own = [each for each in found if each.get("organization") == self._organization]
        place = "credentials.%s.existing" % key
        if len(own or found) == 1:
            self._items[Ref("credentials", name, existing=True)] = (own or found)[0]
        elif found:
            message = "AWX has %d credentials %s" % (len(own or found), name)
            self._wrong(
                message, place, "rename one of them in AWX" if kind else "write its type: too, or rename one in AWX"
            )
        else:
            what = "credential" if not kind else "credential of type %s" % kind
            error = unknown(name, what, "credentials", self._server)
            self._wrong(error.message, place, error.remedy)

    def _credentials_of_fabrics(self) -> None:
        """Report fabrics with several credentials of a type, or vaults with one vault_id: a job can have only one."""
        for fabric, each in self._data.fabrics.items():
            taken: dict[tuple[t.Any, ...], str] = {}
            for key in filter(None, (*each.credentials, each.cluster)):
                existing = self._data.credentials[key].existing
                item = self._items.get(Ref("credentials", existing or "", existing=True)) if existing else None
                if item is not None:
                    vault = item.get("inputs", {}).get("vault_id", "") if item.get("kind") == "vault" else ""
                    kind: tuple[t.Any, ...] = (item["credential_type"], vault)
                else:
                    kind = self._declared(key)
                if kind in taken:
                    message = "%s and %s have the same type, and a job can have only one of a type" % (taken[kind], key)
                    self._wrong(message, "fabrics.%s.credentials" % fabric, "keep one of them")
                taken.setdefault(kind, key)

    def _declared(self, key: str) -> tuple[t.Any, ...]:
        """Return the type of a credential of the file, in the form of AWX."""
        known = self._data.credentials[key]
        if known.existing or not known.type:
            return (key,)
        name = awx_kinds.CREDENTIALS[known.type].name
        found = self._server.all("credential_types", name=name) if name else []
        return (found[0]["id"] if found else known.type, known.inputs.get("vault_id", ""))

    def _refs(self, kind: str) -> t.Iterator[Ref]:
        refs = (ref for each in self._wanted.objects for links in each.links.values() for ref in links or ())
        return (ref for ref in dict.fromkeys(refs) if ref.kind == kind)

    def _instance_groups(self) -> None:
        for ref in self._refs("instance_groups"):
            found = self._server.all("instance_groups", name=ref.name)
            if found:
                self._items[ref] = found[0]
            else:
                error = unknown(ref.name, "instance group or container group", "instance_groups", self._server)
                self._wrong(error.message, "instance_groups", error.remedy)

    def _teams(self) -> None:
        access = [roles for each in self._wanted.objects for roles in (each.access or {}).values()]
        wanted = sorted({team for teams in access for team in teams})
        if not wanted:
            return
        query = {"organization": self._organization}
        there = {each["name"] for each in self._server.all("teams", **query)} if self._organization > 0 else set()
        for team in wanted:
            if team not in there:
                near = meant(team, sorted(there))
                message = "the organization %s has no team %s%s" % (self._data.organization, team, did_you_mean(near))
                self._wrong(
                    message, "access", "write %s" % near if near else "create the team in AWX, or remove it here"
                )

    def _timezones(self) -> None:
        zones = {each.timezone for fabric in self._data.fabrics.values() for each in fabric.schedules.values()} - {
            "UTC"
        }
        if not zones:
            return
        try:
            answer = self._server.get("schedules/zoneinfo")
        except ApiError as error:
            if error.status != 404:
                raise
            return  # older releases check each schedule when it is written
        known = {*answer.get("zones", ()), *answer.get("links", {}), *answer.get("results", ())}
        for zone in sorted(zones - known):
            near = meant(zone, sorted(known))
            message = "AWX has no time zone %s%s" % (zone, did_you_mean(near))
            self._wrong(message, "timezone", "write %s" % near if near else "write UTC, or Europe/Amsterdam")
