# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""The one file that says what AWX is to hold, read and checked key by key (docs/awx.md)."""

from __future__ import annotations

import datetime
import re
import typing as t
from dataclasses import dataclass, field

from ansible_collections.railyard.fabric.plugins.module_utils.errors import RailyardError, raise_all
from ansible_collections.railyard.fabric.plugins.module_utils.fabric import source
from ansible_collections.railyard.fabric.plugins.module_utils.fabric.awx import kinds
from ansible_collections.railyard.fabric.plugins.module_utils.fabric.awx.templates import TEMPLATES, Template
from ansible_collections.railyard.fabric.plugins.module_utils.fabric.finding import Path, Report, shown
from ansible_collections.railyard.fabric.plugins.module_utils.fabric.names import did_you_mean, nearest
from ansible_collections.railyard.fabric.plugins.module_utils.fabric.rules import file as rules
from ansible_collections.railyard.fabric.plugins.module_utils.fabric.section import Section
from ansible_collections.railyard.fabric.plugins.module_utils.urls import HIDDEN, masked

# What AWX takes for names of 512 characters, less what we put before and after.
_MAX_NAME = 400
_DAY = 24 * 60 * 60
_PULL = ("always", "missing", "never")
_WEEK = ("mo", "tu", "we", "th", "fr", "sa", "su")


@dataclass(frozen=True)
class Project:
    url: str
    branch: str
    credential: str | None
    playbooks: str
    update_on_launch: bool


@dataclass(frozen=True)
class Environment:
    image: str
    pull: str
    credential: str | None


@dataclass(frozen=True)
class Credential:
    """``existing``: the name of one that AWX has and that is left as it is; ``type`` is then its type, or None."""

    type: str | None
    inputs: t.Mapping[str, t.Any]
    existing: str | None = None


@dataclass(frozen=True)
class Drift:
    at: str
    timezone: str
    days: tuple[str, ...]


@dataclass(frozen=True)
class Fabric:
    """``credentials`` go to every template that logs in to nodes, ``cluster`` to those that reach the cluster.

    ``reports``: a directory that outlasts jobs, because AWX shows the same one to all of them.
    """

    file: str
    credentials: tuple[str, ...]
    cluster: str | None
    drift: Drift | None
    reports: str = ""


@dataclass(frozen=True)
class Settings:
    """What a template is told beside what it has; None: AWX's own."""

    enabled: bool = True
    forks: int | None = None
    timeout: int | None = None
    verbosity: int | None = None
    limit: str | None = None
    extra_vars: t.Mapping[str, t.Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Notification:
    type: str
    on: tuple[str, ...]
    settings: t.Mapping[str, t.Any]


@dataclass(frozen=True)
class Data:
    organization: str
    prefix: str
    project: Project
    environment: Environment
    credentials: t.Mapping[str, Credential]
    fabrics: t.Mapping[str, Fabric]
    templates: t.Mapping[str, Settings]
    notifications: t.Mapping[str, Notification]


def read(raw: bytes, name: str, secrets: t.Mapping[str, t.Collection[str]]) -> Data:
    """Read and check the file ``name``.

    :param secrets: name of a credential or notification -> the names of the secret fields that are at hand for it.
    :raises RailyardError: all that is wrong, each with its line and its remedy.
    """
    report = Report()
    document = source.parse(raw, report)
    data = _Reader(document, report, secrets).data() if document else None
    place = document.position if document else lambda _path: (1, 1)
    raise_all([_error(finding, name) for finding in report.findings(place)])
    if data is None:
        raise AssertionError("without findings there is a document, and everything in it was read")
    return data


def _error(finding: t.Any, name: str) -> RailyardError:
    where = "%s:%d" % (name, finding.line)
    if not finding.place:  # what the reader of fabric files says of a whole file is about fabric files
        remedy = finding.remedy if finding.code in (rules.SYNTAX.code, rules.TEXT.code) else "see docs/awx.md"
        return RailyardError(finding.message, where, remedy)
    return RailyardError("%s: %s" % (finding.place, finding.message), where, finding.remedy)


class _Reader:
    def __init__(self, document: source.Document, report: Report, secrets: t.Mapping[str, t.Collection[str]]) -> None:
        self._report = report
        self._secrets = secrets
        self._top = Section(document.root, (), report)

    def data(self) -> Data | None:
        """The data, or None, reported, where something that everything else needs is wrong."""
        top = self._top
        organization = top.text("organization", "write organization: NAME, the one that shall own it all")
        prefix = top.text("prefix") if top.has("prefix") else "Railyard"
        self._name(prefix, ("prefix",))
        credentials = self._credentials()
        project = self._project(credentials)
        environment = self._environment(credentials)
        fabrics = self._fabrics(credentials)
        templates = self._templates()
        notifications = self._notifications()
        top.done()
        self._unknown_secrets(credentials, notifications)
        if self._report.failed or not (organization and prefix and project and environment):
            return None
        return Data(organization, prefix, project, environment, credentials, fabrics, templates, notifications)

    def _name(self, text: str | None, path: Path) -> None:
        # '++' would make AWX's collection take the name for a named URL
        if text and ("++" in text or len(text) > _MAX_NAME):
            message = "%s is no name for objects of AWX" % shown(text)
            self._report.add(rules.KIND, path, message, "use at most %d characters, and no ++" % _MAX_NAME)

    def _credentials(self) -> dict[str, Credential]:
        section = self._top.section("credentials")
        found = {}
        for name, part in section.sections() if section else ():
            self._name(name, part.path)
            credential = self._credential(name, part)
            if credential:
                found[name] = credential
        return found

    def _credential(self, name: str, part: Section) -> Credential | None:
        existing = part.text("existing")
        chosen = part.choice(
            "type", list(kinds.CREDENTIALS), "" if existing else "write type: machine, or another, or existing: NAME"
        )
        if existing:
            part.done()
            return Credential(chosen, {}, existing)
        known = kinds.CREDENTIALS[chosen] if chosen else None
        inputs = self._inputs(part, known) if known else {}
        part.value("inputs")  # where the type is wrong, its inputs are not judged
        part.done()
        if known and not set(self._secrets.get(name, ())) & set(known.secrets):
            self._report.add(
                rules.MISSING,
                part.path,
                "there is no secret for it",
                "give awx_secrets.%s one of %s, or take one that AWX has, with existing: NAME"
                % (name, ", ".join(known.secrets)),
            )
        return Credential(chosen, inputs) if known else None

    def _inputs(self, part: Section, known: kinds.CredentialType) -> dict[str, t.Any]:
        missing = "write %s" % ", ".join("%s: ..." % each for each in known.required) if known.required else ""
        inputs = part.section("inputs", missing)
        if not inputs:
            return {}
        self._no_secrets(inputs, known.secrets)
        found = {}
        for key, kind in known.inputs.items():
            needed = "write %s" % key if key in known.required else ""
            value = inputs.flag(key) if kind == kinds.FLAG else inputs.text(key, needed)
            if value is not None:
                found[key] = value
        inputs.done()
        return found

    def _no_secrets(self, section: Section, secrets: t.Iterable[str]) -> None:
        for key in secrets:
            if section.value(key) is not None:
                self._report.add(
                    rules.UNKNOWN,
                    section.path + (key,),
                    "%s is a secret" % key,
                    "give it as awx_secrets.%s.%s, in a file that ansible-vault has encrypted" % (section.path[1], key),
                )

    def _credential_at(
        self,
        section: Section,
        key: str,
        credentials: t.Mapping[str, Credential],
        types: t.Collection[str] = tuple(kinds.CREDENTIALS),
    ) -> str | None:
        name = section.text(key)
        if name is not None:
            self._refer(name, section.path + (key,), credentials, types)
        return name

    def _refer(self, name: str, path: Path, credentials: t.Mapping[str, Credential], types: t.Collection[str]) -> None:
        declared = self._top.mapping.entries.get("credentials")
        if name in credentials:
            kind = credentials[name].type
            if kind is not None and kind not in types:
                message = "%s is of type %s" % (shown(name), kind)
                self._report.add(rules.CHOICE, path, message, "name one of type %s" % " or ".join(types))
        elif not (declared and isinstance(declared[1], source.Mapping) and name in declared[1].entries):
            near = nearest(name, list(credentials))
            message = "%s is none of the credentials%s" % (shown(name), did_you_mean(near))
            self._report.add(rules.CHOICE, path, message, "write %s" % near if near else "add it to credentials")

    def _project(self, credentials: t.Mapping[str, Credential]) -> Project | None:
        part = self._top.section("project", "write project: {url: ...}, the repository that holds the fabric files")
        if not part:
            return None
        url = part.text("url", "write url: and the repository's address")
        if url and ":%s@" % HIDDEN in masked(url):
            remedy = "take it out, and name a credential of type source-control that has it"
            message = "%s holds a password, which AWX would show" % shown(masked(url))
            self._report.add(rules.UNKNOWN, part.path + ("url",), message, remedy)
        branch = part.text("branch") or ""
        credential = self._credential_at(part, "credential", credentials, ("source-control",))
        playbooks = (part.text("playbooks") or "playbooks").strip("/")
        update = part.flag("update_on_launch")
        part.done()
        return Project(url, branch, credential, playbooks, update is not False) if url else None

    def _environment(self, credentials: t.Mapping[str, Credential]) -> Environment | None:
        part = self._top.section("execution_environment", "write execution_environment: {image: ...} (docs/awx.md)")
        if not part:
            return None
        image = part.text("image", "write image: and the name under which the environment can be pulled")
        pull = part.choice("pull", _PULL) or "missing"
        credential = self._credential_at(part, "credential", credentials, ("registry",))
        part.done()
        return Environment(image, pull, credential) if image else None

    def _fabrics(self, credentials: t.Mapping[str, Credential]) -> dict[str, Fabric]:
        section = self._top.section("fabrics", "write fabrics: {NAME: {file: inventories/NAME/fabric.yml}}")
        if section and not section.mapping.entries:
            self._report.add(rules.EMPTY, section.path, "fabrics is empty", "describe at least one")
        found = {}
        for name, part in section.sections() if section else ():
            self._name(name, part.path)
            file = part.text("file", "write file: and the path of the fabric file in the project")
            if file and (file.startswith("/") or ".." in file.split("/")):
                message = "%s leads out of the project" % shown(file)
                self._report.add(rules.KIND, part.path + ("file",), message, "write it from the project's top")
            names = part.texts("credentials")
            for index, each in enumerate(names):
                self._refer(each, part.path + ("credentials", index), credentials, ("machine", "vault"))
            cluster = self._credential_at(part, "cluster", credentials, kinds.CLUSTER)
            drift = self._drift(part)
            reports = part.text("reports") or ""
            if reports and not reports.startswith("/"):
                message = "%s goes with the job that writes it" % shown(reports)
                self._report.add(
                    rules.KIND,
                    part.path + ("reports",),
                    message,
                    "write the path of a directory that AWX shows to its jobs, such as /var/lib/railyard/%s" % name,
                )
            part.done()
            if file:
                found[name] = Fabric(file, tuple(names), cluster, drift, reports)
        return found

    def _drift(self, part: Section) -> Drift | None:
        value = part.value("drift")
        if value is None or (isinstance(value, source.Scalar) and value.text == "false"):
            return None
        section = part.section("drift")
        if not section:
            return None
        at = section.text("at", 'write at: "03:00"') or ""
        if section.has("at") and not re.match(r"([01][0-9]|2[0-3]):[0-5][0-9]\Z", at):
            message = "%s is no time of day" % shown(at)
            self._report.add(rules.KIND, section.path + ("at",), message, 'write hours and minutes, such as "03:00"')
        timezone = section.text("timezone") or "UTC"
        if not re.match(r"[A-Za-z][A-Za-z0-9_+/-]*\Z", timezone):
            message = "%s is no time zone" % shown(timezone)
            self._report.add(rules.KIND, section.path + ("timezone",), message, "write UTC, or Europe/Amsterdam")
        days = section.texts("days")
        for index, day in enumerate(days):
            if day not in _WEEK:
                message = "%s is none of %s" % (shown(day), ", ".join(_WEEK))
                self._report.add(rules.CHOICE, section.path + ("days", index), message, "write one of them")
        section.done()
        return Drift(at, timezone, tuple(day for day in _WEEK if day in days))

    def _templates(self) -> dict[str, Settings]:
        section = self._top.section("templates")
        found = {}
        for name in TEMPLATES:
            part = section.section(name) if section else None
            if part:
                found[name] = Settings(
                    part.flag("enabled") is not False,
                    part.number("forks", 1, 10000),
                    part.number("timeout", 0, 7 * _DAY, "seconds"),
                    part.number("verbosity", 0, 4),
                    part.text("limit"),
                    self._variables(part, TEMPLATES[name]),
                )
                part.done()
        if section:
            section.done()
        return found

    def _variables(self, part: Section, template: Template) -> dict[str, t.Any]:
        section = part.section("extra_vars")
        if not section:
            return {}
        try:
            values: dict[str, t.Any] = source.plain(section.mapping)
        except ValueError as error:
            self._report.add(rules.KIND, section.path, str(error), "put it into quotes")
            return {}
        for key in values:
            if not key.isidentifier():
                message = "%s is no name of a variable" % shown(key)
                self._report.add(rules.KIND, section.path + (key,), message, "use letters, digits and underscores")
        for question in template.questions:
            value = values.get(question.variable)
            try:
                if value is not None:
                    question.answered(value)
            except ValueError as error:
                message = "%s is no answer to the survey's question" % shown(str(value))
                self._report.add(rules.CHOICE, section.path + (question.variable,), message, "write %s" % error)
        return values

    def _notifications(self) -> dict[str, Notification]:
        section = self._top.section("notifications")
        found = {}
        for name, part in section.sections() if section else ():
            self._name(name, part.path)
            chosen = part.choice("type", list(kinds.NOTIFICATIONS), "write type: email, or another")
            events = part.texts("on")
            if not part.has("on"):
                self._report.add(rules.MISSING, part.path + ("on",), "on is missing", "write on: [error, approval]")
            for index, each in enumerate(events):
                if each not in kinds.EVENTS:
                    message = "%s is none of %s" % (shown(each), ", ".join(kinds.EVENTS))
                    self._report.add(rules.CHOICE, part.path + ("on", index), message, "write one of them")
            settings = self._settings(name, part, kinds.NOTIFICATIONS[chosen]) if chosen else {}
            part.value("settings")
            part.done()
            if chosen:
                found[name] = Notification(chosen, tuple(events), settings)
        return found

    def _settings(self, name: str, part: Section, known: kinds.NotificationType) -> dict[str, t.Any]:
        needed = [key for key, each in known.fields.items() if each.default is None]
        section = part.section("settings", "write %s" % ", ".join("%s: ..." % key for key in needed))
        if not section:
            return {}
        self._no_secrets(section, known.secrets)
        found: dict[str, t.Any] = {}
        for key, (kind, default) in known.fields.items():
            remedy = "write %s: ..." % key if default is None else ""
            value: t.Any
            if kind == kinds.NUMBER:
                value = section.number(key, 1, 65535, required=remedy)
            elif kind == kinds.FLAG:
                value = section.flag(key)
            elif kind == kinds.TEXTS:
                section.value(key, remedy)
                value = section.texts(key) or None
            elif kind == kinds.PAIRS:
                pairs = section.section(key)
                value = {each: pairs.text(each) or "" for each in pairs.mapping.entries} if pairs else None
            else:
                value = section.text(key, remedy)
            found[key] = default if value is None else value
        section.done()
        for key in known.secrets:
            if known.secrets[key] is None and key not in self._secrets.get(name, ()):
                self._report.add(
                    rules.MISSING, part.path, "there is no %s for it" % key, "give awx_secrets.%s.%s" % (name, key)
                )
        return found

    def _unknown_secrets(
        self, credentials: t.Mapping[str, Credential], notifications: t.Mapping[str, Notification]
    ) -> None:
        """Secrets that nothing takes: a misspelt name would else leave a credential without its secret, unsaid."""
        for name, fields in self._secrets.items():
            place: Path = ("awx_secrets", name)
            known: t.Collection[str] = ()
            if name in credentials and credentials[name].type and not credentials[name].existing:
                known = kinds.CREDENTIALS[credentials[name].type or ""].secrets
            elif name in notifications:
                known = tuple(kinds.NOTIFICATIONS[notifications[name].type].secrets)
            elif not self._report.failed:
                names = [*credentials, *notifications]
                message = "no credential and no notification has that name%s" % did_you_mean(nearest(name, names))
                self._report.add(rules.UNKNOWN, place, message, "name it as the file does, or take it out", (1, 1))
                continue
            for key in fields if known else ():
                if key not in known:
                    message = "%s is no secret of it%s" % (shown(key), did_you_mean(nearest(key, list(known))))
                    self._report.add(rules.UNKNOWN, place, message, "give %s" % " or ".join(known), (1, 1))


def rrule(drift: Drift) -> str:
    """The schedule as AWX keeps it. It begins on a day that is past, for a second run must find it as it is."""
    at = datetime.datetime.strptime(drift.at, "%H:%M")
    start = "DTSTART;TZID=%s:20260101T%s" % (drift.timezone, at.strftime("%H%M%S"))
    if not drift.days:
        return start + " RRULE:FREQ=DAILY;INTERVAL=1"
    return start + " RRULE:FREQ=WEEKLY;INTERVAL=1;BYDAY=%s" % ",".join(drift.days).upper()
