# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Read and check the data file for AWX (docs/awx.md). All errors are reported at once."""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._awx import awx_kinds
from ansible_collections.railyard.fabric.plugins.module_utils._awx.awx_data import (
    Approval,
    Credential,
    Data,
    Environment,
    Fabric,
    Notification,
    Project,
    Settings,
)
from ansible_collections.railyard.fabric.plugins.module_utils._awx.awx_fabrics import DAY, FabricReader, WrongVariables
from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError, raise_all
from ansible_collections.railyard.fabric.plugins.module_utils._common.urls import HIDDEN, masked
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import Path, Report, shown
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text import file_rules as rules
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text import yaml_source
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.file_section import Section
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.name_syntax import did_you_mean, nearest

# AWX allows names of 512 characters; this leaves room for prefix and suffix.
_MAX_NAME = 400
_PULL = ("always", "missing", "never")


def read(
    raw: bytes,
    name: str,
    secrets: t.Mapping[str, t.Collection[str]],
    variables: WrongVariables = lambda _given: {},
) -> Data:
    """Read and check the data file ``name``.

    :param secrets: name of a credential or notification -> names of the secret fields that are given for it.
    :param variables: returns the errors of extra variables by name.
    :raises RailyardError: for all errors, each with its line and its remedy.
    """
    report = Report()
    document = yaml_source.parse(raw, report)
    data = _Reader(document, report, secrets, variables).data() if document else None
    place = document.position if document else lambda _path: (1, 1)
    raise_all([_error(finding, name) for finding in report.findings(place)])
    if data is None:
        raise AssertionError("without findings there is a document, and all of it was read")
    return data


def _error(finding: t.Any, name: str) -> RailyardError:
    where = "%s:%d" % (name, finding.line)
    if not finding.place:  # messages of findings about a whole file are written for fabric files
        remedy = finding.remedy if finding.code in (rules.SYNTAX.code, rules.TEXT.code) else "see docs/awx.md"
        return RailyardError(finding.message, where, remedy)
    return RailyardError("%s: %s" % (finding.place, finding.message), where, finding.remedy)


class _Reader:
    def __init__(
        self,
        document: yaml_source.Document,
        report: Report,
        secrets: t.Mapping[str, t.Collection[str]],
        variables: WrongVariables,
    ) -> None:
        self._report = report
        self._secrets = secrets
        self._variables = variables
        self._top = Section(document.root, (), report)

    def data(self) -> Data | None:
        """Return the data; None if a value is wrong on which others depend, which is reported."""
        top = self._top
        organization = top.text("organization", "write organization: NAME, an organization that AWX has")
        create = top.flag("create_organization") is True
        prefix = top.text("prefix") if top.has("prefix") else "Railyard"
        self._name(prefix, ("prefix",))
        credentials = self._credentials()
        project = self._project(credentials)
        environment = self._environment(credentials)
        notifications = self._notifications()
        fabrics = FabricReader(top, self._report, credentials, self._refer, self._name, self._variables)
        found = fabrics.fabrics()
        templates = fabrics.templates(top)
        self._check_clusters(found, templates)
        self._check_slices(found, templates)
        labels, groups, access = (
            fabrics.names(top, "labels"),
            fabrics.names(top, "instance_groups"),
            fabrics.access(top),
        )
        approval = self._approval()
        top.done()
        self._unknown_secrets(credentials, notifications)
        if self._report.failed or not (organization and prefix and project and environment):
            return None
        return Data(
            organization,
            create,
            prefix,
            project,
            environment,
            credentials,
            found,
            templates,
            notifications,
            approval,
            labels,
            groups,
            access,
        )

    def _check_clusters(self, fabrics: t.Mapping[str, Fabric], templates: t.Mapping[str, Settings]) -> None:
        """Report jobs that drain or cordon nodes of a fabric without a cluster."""
        for name, fabric in fabrics.items():
            for key, variable in (("hosts", "reboot_drain"), ("verify", "verify_cordon")):
                settings = fabric.templates.get(key, Settings()).over(templates.get(key, Settings()))
                given = settings.extra_vars
                named = fabric.cluster or given.get("kubernetes_kubeconfig") or given.get("kubernetes_context")
                if str(given.get(variable, "")).lower() == "true" and not named:
                    message = "%s sets %s, and the fabric has no cluster" % (key, variable)
                    remedy = "add cluster: to it, or %s: false to templates.%s.extra_vars of this fabric" % (
                        variable,
                        key,
                    )
                    self._report.add(rules.MISSING, ("fabrics", name), message, remedy)

    def _check_slices(self, fabrics: t.Mapping[str, Fabric], templates: t.Mapping[str, Settings]) -> None:
        """Report parts of verify that could not leave their results for the verdict."""
        for name, fabric in fabrics.items():
            settings = fabric.templates.get("verify", Settings()).over(templates.get("verify", Settings()))
            if (settings.slices or 1) > 1 and not fabric.reports:
                message = "verify has slices, and the fabric has no directory in which their jobs leave results"
                remedy = "add reports: and the path of a directory that AWX mounts in its jobs"
                self._report.add(rules.MISSING, ("fabrics", name), message, remedy)

    def _approval(self) -> Approval:
        part = self._top.section("approval")
        if not part:
            return Approval()
        found = Approval(part.number("timeout", 0, 30 * DAY, "seconds") or 0, part.text("description") or "")
        part.done()
        return found

    def _name(self, text: str | None, path: Path) -> None:
        if text and len(text) > _MAX_NAME:
            message = "%s is too long for a name in AWX" % shown(text)
            self._report.add(rules.KIND, path, message, "use at most %d characters" % _MAX_NAME)

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
            "type",
            list(awx_kinds.CREDENTIALS),
            "" if existing else "write type: machine, or another, or existing: NAME",
        )
        if existing:
            part.done()
            return Credential(chosen, {}, existing)
        known = awx_kinds.CREDENTIALS[chosen] if chosen else None
        inputs = self._inputs(part, known) if known else {}
        part.value("inputs")  # inputs of an invalid type are not checked
        part.done()
        if known and not set(self._secrets.get(name, ())) & set(known.secrets):
            self._report.add(
                rules.MISSING,
                part.path,
                "no secret is given for it",
                "give awx_secrets.%s one of %s, or use a credential that AWX has, with existing: NAME"
                % (name, ", ".join(known.secrets)),
            )
        return Credential(chosen, inputs) if known else None

    def _inputs(self, part: Section, known: awx_kinds.CredentialType) -> dict[str, t.Any]:
        missing = "write %s" % ", ".join("%s: ..." % each for each in known.required) if known.required else ""
        inputs = part.section("inputs", missing)
        if not inputs:
            return {}
        self._refuse_secrets(inputs, known.secrets)
        found = {}
        for key, kind in known.inputs.items():
            needed = "write %s" % key if key in known.required else ""
            value = inputs.flag(key) if kind == awx_kinds.FLAG else inputs.text(key, needed)
            if value is not None:
                found[key] = value
        inputs.done()
        return found

    def _refuse_secrets(self, section: Section, secrets: t.Iterable[str]) -> None:
        for key in secrets:
            if section.value(key) is not None:
                self._report.add(
                    rules.UNKNOWN,
                    section.path + (key,),
                    "%s is a secret, and this file is not encrypted" % key,
                    "give it as awx_secrets.%s.%s, in a file that ansible-vault has encrypted" % (section.path[1], key),
                )

    def _credential_at(
        self,
        section: Section,
        key: str,
        credentials: t.Mapping[str, Credential],
        types: t.Collection[str] = tuple(awx_kinds.CREDENTIALS),
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
        elif not (declared and isinstance(declared[1], yaml_source.Mapping) and name in declared[1].entries):
            near = nearest(name, list(credentials))
            message = "%s is not one of the credentials%s" % (shown(name), did_you_mean(near))
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
        cache = part.number("update_cache", 0, DAY, "seconds") or 0
        wait = part.number("sync_timeout", 1, DAY, "seconds") or 600
        part.done()
        return Project(url, branch, credential, playbooks, update is not False, cache, wait) if url else None

    def _environment(self, credentials: t.Mapping[str, Credential]) -> Environment | None:
        part = self._top.section("execution_environment", "write execution_environment: {image: ...} (docs/awx.md)")
        if not part:
            return None
        existing = part.text("existing")
        if existing:
            part.done()
            return Environment("", "", None, existing)
        image = part.text("image", "write image: and the name of the image, or existing: NAME")
        pull = part.choice("pull", _PULL) or "missing"
        credential = self._credential_at(part, "credential", credentials, ("registry",))
        part.done()
        return Environment(image, pull, credential) if image else None

    def _notifications(self) -> dict[str, Notification]:
        section = self._top.section("notifications")
        found = {}
        for name, part in section.sections() if section else ():
            self._name(name, part.path)
            chosen = part.choice("type", list(awx_kinds.NOTIFICATIONS), "write type: email, or another")
            events = part.texts("on")
            if not part.has("on"):
                self._report.add(rules.MISSING, part.path + ("on",), "on is missing", "write on: [error, approval]")
            for index, each in enumerate(events):
                if each not in awx_kinds.EVENTS:
                    message = "%s is not one of %s" % (shown(each), ", ".join(awx_kinds.EVENTS))
                    self._report.add(rules.CHOICE, part.path + ("on", index), message, "write one of them")
            settings = self._settings(name, part, awx_kinds.NOTIFICATIONS[chosen]) if chosen else {}
            part.value("settings")
            part.done()
            if chosen:
                found[name] = Notification(chosen, tuple(events), settings)
        return found

    def _settings(self, name: str, part: Section, known: awx_kinds.NotificationType) -> dict[str, t.Any]:
        given = self._secrets.get(name, ())
        needed = [key for key, each in known.fields.items() if each.default is None and key not in given]
        section = part.section("settings", "write %s" % ", ".join("%s: ..." % key for key in needed) if needed else "")
        if not section:
            return {key: default for key, (_kind, default) in known.fields.items() if default is not None}
        self._refuse_secrets(section, known.secrets)
        found: dict[str, t.Any] = {}
        for key, (kind, default) in known.fields.items():
            if key in given and key in awx_kinds.URLS:
                section.value(key)  # a URL that contains a token is one of the secrets
                continue
            remedy = "write %s: ..." % key if default is None else ""
            value: t.Any
            if kind == awx_kinds.NUMBER:
                value = section.number(key, 1, 65535, required=remedy)
            elif kind == awx_kinds.FLAG:
                value = section.flag(key)
            elif kind == awx_kinds.TEXTS:
                section.value(key, remedy)
                value = section.texts(key) or None
            elif kind == awx_kinds.PAIRS:
                pairs = section.section(key)
                value = {each: pairs.text(each) or "" for each in pairs.mapping.entries} if pairs else None
            else:
                value = section.text(key, remedy)
            found[key] = default if value is None else value
        section.done()
        for key in known.secrets:
            if known.secrets[key] is None and key not in self._secrets.get(name, ()):
                self._report.add(
                    rules.MISSING, part.path, "no %s is given for it" % key, "give awx_secrets.%s.%s" % (name, key)
                )
        return found

    def _unknown_secrets(
        self, credentials: t.Mapping[str, Credential], notifications: t.Mapping[str, Notification]
    ) -> None:
        """Report unused secrets: a misspelt name would leave a credential without its secret."""
        for name, fields in self._secrets.items():
            place: Path = ("awx_secrets", name)
            known: t.Collection[str] = ()
            if name in credentials and credentials[name].existing:
                message = "%s is a credential that AWX has (existing: %s), and takes no secrets from here" % (
                    shown(name),
                    credentials[name].existing,
                )
                self._report.add(rules.UNKNOWN, place, message, "remove awx_secrets.%s" % name, (1, 1))
                continue
            if name in credentials:
                known = awx_kinds.CREDENTIALS[credentials[name].type or ""].secrets
            elif name in notifications:
                kind = awx_kinds.NOTIFICATIONS[notifications[name].type]
                known = (*kind.secrets, *(key for key in kind.fields if key in awx_kinds.URLS))
            elif not self._report.failed:
                names = [*credentials, *notifications]
                message = "no credential and no notification has that name%s" % did_you_mean(nearest(name, names))
                self._report.add(rules.UNKNOWN, place, message, "name it as the file does, or take it out", (1, 1))
                continue
            for key in fields if known else ():
                if key not in known:
                    message = "%s is not one of its secrets%s" % (shown(key), did_you_mean(nearest(key, list(known))))
                    self._report.add(rules.UNKNOWN, place, message, "give %s" % " or ".join(known), (1, 1))
