# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Read the fabrics and the settings of templates in the data file for AWX."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._awx import awx_kinds
from ansible_collections.railyard.fabric.plugins.module_utils._awx.awx_data import (
    CONTROL,
    Access,
    Credential,
    Fabric,
    Names,
    Schedule,
    Settings,
    Webhook,
)
from ansible_collections.railyard.fabric.plugins.module_utils._awx.awx_templates import (
    MAX_SLICES,
    NAMED,
    NIGHTLY,
    PARTS,
    SITE,
    TEMPLATES,
    Question,
    questions,
)
from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import Path, Report, shown
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text import file_rules as rules
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text import yaml_source
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.file_section import Section
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.name_syntax import did_you_mean, nearest

DAY = 24 * 60 * 60
_WEEK = ("mo", "tu", "we", "th", "fr", "sa", "su")
_RIGHTS = ("read", "launch", "approve", "use", "admin")
# Rights that a template can set.
_OF_TEMPLATES = ("read", "launch", "admin")
_WEBHOOKS = ("github", "gitlab", "bitbucket_dc")
_PLACES = ("reports", "manifests")
# Returns the errors of extra variables by name.
WrongVariables = t.Callable[[t.Mapping[str, t.Any]], t.Mapping[str, RailyardError]]


class FabricReader:
    """``refer`` checks the name of a credential, ``named`` the length of a name. Both report errors."""

    def __init__(
        self,
        top: Section,
        report: Report,
        credentials: t.Mapping[str, Credential],
        refer: t.Callable[[str, Path, t.Mapping[str, Credential], t.Collection[str]], None],
        named: t.Callable[[str | None, Path], None],
        variables: WrongVariables,
    ) -> None:
        self._top = top
        self._report = report
        self._credentials = credentials
        self._refer = refer
        self._named = named
        self._variables = variables

    def fabrics(self) -> dict[str, Fabric]:
        section = self._top.section("fabrics", "write fabrics: {NAME: {file: inventories/NAME/fabric.yml}}")
        if section and not section.mapping.entries:
            self._report.add(rules.EMPTY, section.path, "fabrics is empty", "describe at least one")
        found = {}
        for name, part in section.sections() if section else ():
            self._named(name, part.path)
            if name == CONTROL:
                message = "%s is the name of the inventory of the control node" % shown(name)
                self._report.add(rules.CHOICE, part.path, message, "write another name of the fabric")
            fabric = self._fabric(name, part)
            part.done()
            if fabric:
                found[name] = fabric
        return found

    def _fabric(self, name: str, part: Section) -> Fabric | None:
        file = part.text("file", "write file: and the path of the fabric file in the project")
        if file and (file.startswith("/") or ".." in file.split("/")):
            message = "%s is outside of the project" % shown(file)
            self._report.add(
                rules.KIND, part.path + ("file",), message, "write the path from the project's top directory"
            )
        credentials = self._logins(part)
        cluster = part.text("cluster")
        if cluster is not None:
            self._refer(cluster, part.path + ("cluster",), self._credentials, awx_kinds.CLUSTER)
        schedules = self._schedules(part)
        places = {key: self._place(name, part, key) for key in _PLACES}
        return (
            Fabric(
                file or "",
                tuple(credentials),
                cluster,
                schedules,
                inventory_cache=part.number("inventory_cache", 0, DAY, "seconds") or 0,
                webhook=self._webhook(part),
                labels=self.names(part, "labels"),
                instance_groups=self.names(part, "instance_groups"),
                access=self.access(part),
                templates=self.templates(part),
                **places,
            )
            if file
            else None
        )

    def _logins(self, part: Section) -> list[str]:
        """Return the credentials for nodes. AWX allows one of type machine per job, and one vault per vault_id."""
        names = part.texts("credentials")
        taken: dict[tuple[str, str], str] = {}
        for index, each in enumerate(names):
            path = part.path + ("credentials", index)
            self._refer(each, path, self._credentials, ("machine", "vault"))
            known = self._credentials.get(each)
            if known is None or known.type is None:
                continue
            kind = (known.type, str(known.inputs.get("vault_id", "")) if known.type == "vault" else "")
            if kind in taken and not known.existing:
                what = (
                    "type machine" if kind[0] == "machine" else "type vault with vault_id %s" % shown(kind[1] or "''")
                )
                message = "%s and %s are both of %s, and AWX takes one for a job" % (
                    shown(taken[kind]),
                    shown(each),
                    what,
                )
                self._report.add(rules.CHOICE, path, message, "keep one of them")
            taken.setdefault(kind, each)
        return names

    def _place(self, name: str, part: Section, key: str) -> str:
        place = part.text(key) or ""
        if place and not place.startswith("/"):
            message = "%s is removed with the job that writes it" % shown(place)
            remedy = "write the path of a directory that AWX mounts in its jobs, such as /var/lib/railyard/%s" % name
            self._report.add(rules.KIND, part.path + (key,), message, remedy)
        return place

    def _webhook(self, part: Section) -> Webhook | None:
        section = part.section("webhook")
        if not section:
            return None
        service = section.choice("service", _WEBHOOKS, "write service: github, gitlab or bitbucket_dc")
        template = section.choice("template", [*NAMED, SITE]) or "validate"
        section.done()
        return Webhook(service, template) if service else None

    # -- schedules

    def _schedules(self, part: Section) -> dict[str, Schedule]:
        found = {}
        value = part.value("drift")
        if value is not None and not (isinstance(value, yaml_source.Scalar) and value.text == "false"):
            section = part.section("drift")
            nightly = self._schedule(section, NIGHTLY) if section else None
            if nightly:
                found["nightly %s" % NIGHTLY] = nightly
        listed = part.section("schedules")
        for name, each in listed.sections() if listed else ():
            self._named(name, each.path)
            if name in found:
                self._report.add(rules.CHOICE, each.path, "drift: makes a schedule of this name", "choose another name")
            template = each.choice("template", [*NAMED, SITE], "write template: verify, or another")
            schedule = self._schedule(each, template) if template else None
            if schedule:
                found[name] = schedule
        return found

    def _schedule(self, section: Section, template: str) -> Schedule | None:
        at = section.text("at", 'write at: "03:00"') or ""
        if section.has("at") and not re.match(r"([01][0-9]|2[0-3]):[0-5][0-9]\Z", at):
            message = "%s is not a time of day" % shown(at)
            self._report.add(rules.KIND, section.path + ("at",), message, 'write hours and minutes, such as "03:00"')
        timezone = section.text("timezone") or "UTC"
        if not re.match(r"[A-Za-z][A-Za-z0-9_+/-]*\Z", timezone):
            message = "%s is not a time zone" % shown(timezone)
            self._report.add(rules.KIND, section.path + ("timezone",), message, "write UTC, or Europe/Amsterdam")
        days = section.texts("days")
        for index, day in enumerate(days):
            if day not in _WEEK:
                message = "%s is not one of %s" % (shown(day), ", ".join(_WEEK))
                self._report.add(rules.CHOICE, section.path + ("days", index), message, "write one of them")
        enabled = section.flag("enabled") is not False
        answers = self._answers(section, template)
        section.done()
        return Schedule(template, at, timezone, tuple(day for day in _WEEK if day in days), enabled, answers)

    def _answers(self, section: Section, template: str) -> dict[str, t.Any]:
        """Return the answers to the survey. AWX accepts no other variables in a schedule."""
        values, asked = self._values(section, "answers"), {each.variable: each for each in questions(template)}
        found = {}
        for key, value in values.items():
            path = section.path + ("answers", key)
            if key not in asked:
                near = nearest(key, list(asked))
                message = "%s is not asked by the survey of %s%s" % (shown(key), template, did_you_mean(near))
                remedy = (
                    "write %s" % near if near else "write one of %s" % (", ".join(asked) or "none: it has no survey")
                )
                self._report.add(rules.UNKNOWN, path, message, remedy)
                continue
            answer = self._answer(asked[key], value, path)
            if answer is not None:
                found[key] = answer
        return found

    def _answer(self, question: Question, value: t.Any, path: Path) -> t.Any:
        try:
            return question.answered(value).default
        except ValueError as error:
            message = "%s is not an answer to the survey's question" % shown(str(value))
            self._report.add(rules.CHOICE, path, message, "write %s" % error)
            return None

    # -- settings of templates

    def templates(self, at: Section) -> dict[str, Settings]:
        """Return template -> its settings, from the section ``templates`` of ``at``."""
        section = at.section("templates")
        found = {}
        for name in NAMED:
            part = section.section(name) if section else None
            if part:
                found[name] = Settings(
                    enabled=part.flag("enabled"),
                    forks=part.number("forks", 1, 10000),
                    timeout=part.number("timeout", 0, 7 * DAY, "seconds"),
                    verbosity=part.number("verbosity", 0, 4),
                    limit=part.text("limit"),
                    tags=self.names(part, "tags"),
                    skip_tags=self.names(part, "skip_tags"),
                    notify=part.flag("notify"),
                    instance_groups=self.names(part, "instance_groups"),
                    access=self.access(part, _OF_TEMPLATES),
                    slices=part.number("slices", 1, MAX_SLICES) if name in PARTS else None,
                    extra_vars=self._extra_vars(part, name),
                )
                part.done()
        if section:
            section.done()
        return found

    def _values(self, part: Section, key: str) -> dict[str, t.Any]:
        section = part.section(key)
        if not section:
            return {}
        try:
            values: dict[str, t.Any] = yaml_source.plain(section.mapping)
        except ValueError as error:
            self._report.add(rules.KIND, section.path, str(error), "put it into quotes")
            return {}
        return values

    def _extra_vars(self, part: Section, template: str) -> dict[str, t.Any]:
        values = self._values(part, "extra_vars")
        asked = {each.variable: each for each in TEMPLATES[template].questions}
        wrong = self._variables(values)
        for key, value in values.items():
            path = part.path + ("extra_vars", key)
            if not key.isidentifier():
                message = "%s is not a name for a variable" % shown(key)
                self._report.add(rules.KIND, path, message, "use letters, digits and underscores")
            elif key in asked and value is not None:
                self._answer(asked[key], value, path)
            elif key in wrong:
                self._report.add(rules.UNKNOWN, path, wrong[key].message, wrong[key].remedy)
        return values

    # -- lists and teams

    def names(self, part: Section, key: str) -> Names:
        """Return a complete list; None if the key is missing, which leaves AWX's list unchanged."""
        return tuple(dict.fromkeys(part.texts(key))) if part.value(key) is not None else None

    def access(self, part: Section, rights: t.Sequence[str] = _RIGHTS) -> Access:
        """Return team -> its rights; None if the key is missing, which leaves the roles in AWX unchanged."""
        if part.value("access") is None:
            return None
        section = part.section("access")
        found = {}
        for team in section.mapping.entries if section else ():
            chosen = section.texts(team) if section else []
            for index, right in enumerate(chosen):
                if right not in rights:
                    near = nearest(right, list(rights))
                    message = "%s is not one of %s%s" % (shown(right), ", ".join(rights), did_you_mean(near))
                    path = part.path + ("access", team, index)
                    self._report.add(rules.CHOICE, path, message, "write %s" % near if near else "write one of them")
            found[team] = tuple(chosen)
        return found
