# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""From the data file to the objects that AWX is to hold, in the order in which they can be made.

Every object has ``name``, and ``needs``: the objects, as ``ENDPOINT/NAME``, without which AWX cannot make it.
"""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils.fabric.awx import kinds
from ansible_collections.railyard.fabric.plugins.module_utils.fabric.awx.data import Data, Fabric, Settings, rrule
from ansible_collections.railyard.fabric.plugins.module_utils.fabric.awx.templates import (
    NEEDS,
    NIGHTLY,
    REPORT,
    TEMPLATES,
    WORKFLOW,
    Step,
    Template,
)

Object = t.Dict[str, t.Any]
_OUTCOMES = ("started", "success", "error")


def objects(data: Data) -> dict[str, t.Any]:
    """All objects by kind; under ``absent`` the names of those that are not to be there."""
    return _Maker(data).made()


class _Maker:
    def __init__(self, data: Data) -> None:
        self._data = data
        self._organization = "organizations/%s" % data.organization
        self._project = data.prefix
        self._environment = data.prefix

    def made(self) -> dict[str, t.Any]:
        wanted = {name: self._wanted(fabric) for name, fabric in self._data.fabrics.items()}
        steps = {name: _steps(templates) for name, templates in wanted.items()}
        return {
            "organization": self._data.organization,
            "environment": self._environment,
            "project": self._project,
            "credential_types": self._credential_types(),
            "credentials": [self._credential(key) for key, each in self._data.credentials.items() if not each.existing],
            "execution_environments": [self._execution_environment()],
            "projects": [self._the_project()],
            "notifications": [self._notification(key) for key in self._data.notifications],
            "inventories": [self._inventory(name) for name in self._data.fabrics],
            "job_templates": [self._template(name, key) for name in wanted for key in wanted[name]],
            "workflows": [self._workflow(name) for name in steps if steps[name]],
            # the last first: a step names those that follow it
            "steps": [self._step(name, key, step) for name in steps for key, step in list(steps[name].items())[::-1]],
            "schedules": [
                self._schedule(name, fabric)
                for name, fabric in self._data.fabrics.items()
                if fabric.drift and NIGHTLY in wanted[name]
            ],
            "absent": {
                "schedules": [
                    {"name": self._named(name, "nightly %s" % NIGHTLY), "template": self._named(name, NIGHTLY)}
                    for name, fabric in self._data.fabrics.items()
                    if not fabric.drift and NIGHTLY in wanted[name]
                ],
                "steps": [
                    {"name": key, "workflow": self._named(name, "site")}
                    for name in steps
                    for key in WORKFLOW
                    if steps[name] and key not in steps[name]
                ],
                "job_templates": [
                    self._named(name, key) for name in wanted for key in TEMPLATES if key not in wanted[name]
                ],
            },
        }

    # -- names

    def _named(self, fabric: str, what: str) -> str:
        """Unlike for every fabric and kind, for AWX looks templates up by name among projects and sources too."""
        return "%s %s: %s" % (self._data.prefix, fabric, what)

    def _inventory_name(self, fabric: str) -> str:
        return "%s %s" % (self._data.prefix, fabric)

    def _credential_name(self, key: str) -> str:
        existing = self._data.credentials[key].existing
        return existing if existing else "%s %s" % (self._data.prefix, key)

    def _notification_name(self, key: str) -> str:
        return "%s %s" % (self._data.prefix, key)

    def _type_name(self) -> str:
        return "%s %s" % (self._data.prefix, kinds.KUBECONFIG)

    def _needed(self, *keys: str | None) -> list[str]:
        return ["credentials/%s" % self._credential_name(key) for key in keys if key]

    # -- what all fabrics share

    def _credential_types(self) -> list[Object]:
        used = any(each.type == kinds.KUBECONFIG and not each.existing for each in self._data.credentials.values())
        about = "A kubeconfig, as a file that KUBECONFIG names"
        return [{"name": self._type_name(), "description": about, "needs": [], **kinds.KUBECONFIG_TYPE}] if used else []

    def _credential(self, key: str) -> Object:
        credential = self._data.credentials[key]
        known = kinds.CREDENTIALS[credential.type or ""]
        kind = known.name or self._type_name()
        needs = [self._organization] + ([] if known.name else ["credential_types/%s" % kind])
        return {
            "key": key,
            "name": self._credential_name(key),
            "type": kind,
            "inputs": dict(credential.inputs),
            "needs": needs,
        }

    def _execution_environment(self) -> Object:
        environment = self._data.environment
        return {
            "name": self._environment,
            "image": environment.image,
            "pull": environment.pull,
            "credential": self._credential_name(environment.credential) if environment.credential else "",
            "needs": [self._organization, *self._needed(environment.credential)],
        }

    def _the_project(self) -> Object:
        project = self._data.project
        return {
            "name": self._project,
            "url": project.url,
            "branch": project.branch,
            "credential": self._credential_name(project.credential) if project.credential else "",
            "update_on_launch": project.update_on_launch,
            "needs": [
                self._organization,
                "execution_environments/%s" % self._environment,
                *self._needed(project.credential),
            ],
        }

    def _notification(self, key: str) -> Object:
        notification = self._data.notifications[key]
        return {
            "key": key,
            "name": self._notification_name(key),
            "type": notification.type,
            "settings": dict(notification.settings),
            "secrets": {
                field: default
                for field, default in kinds.NOTIFICATIONS[notification.type].secrets.items()
                if default is not None
            },
            "needs": [self._organization],
        }

    def _told(self, event: str) -> list[str]:
        return [self._notification_name(key) for key, each in self._data.notifications.items() if event in each.on]

    def _all_told(self) -> list[str]:
        return ["notification_templates/%s" % self._notification_name(key) for key in self._data.notifications]

    # -- what each fabric has

    def _wanted(self, fabric: Fabric) -> list[str]:
        return [
            key
            for key, template in TEMPLATES.items()
            if self._settings(key).enabled
            and (template.cluster != NEEDS or fabric.cluster)
            and (key != REPORT or fabric.reports)
        ]

    def _settings(self, key: str) -> Settings:
        return self._data.templates.get(key, Settings())

    def _inventory(self, name: str) -> Object:
        return {
            "name": self._inventory_name(name),
            "source": self._named(name, "fabric file"),
            "file": self._data.fabrics[name].file,
            "needs": [self._organization],
            "source_needs": [
                "inventories/%s" % self._inventory_name(name),
                "projects/%s" % self._project,
                "execution_environments/%s" % self._environment,
            ],
        }

    def _template(self, name: str, key: str) -> Object:
        fabric, template, settings = self._data.fabrics[name], TEMPLATES[key], self._settings(key)
        logins = fabric.credentials if template.nodes else ()
        cluster = fabric.cluster if template.cluster else None
        used = [each for each in (*logins, cluster) if each]
        asked = {each.variable for each in template.questions}
        told = {each: value for each, value in settings.extra_vars.items() if each not in asked}
        given = {"fabric_file": fabric.file} if template.file else {}
        if template.reports and fabric.reports:
            given[template.reports] = fabric.reports
        return {
            "name": self._named(name, key),
            "description": template.about,
            "inventory": self._inventory_name(name),
            "playbook": "%s/%s" % (self._data.project.playbooks, template.playbook),
            "credentials": [self._credential_name(each) for each in used],
            "extra_vars": {**given, **told},
            "forks": settings.forks or 0,
            "limit": settings.limit or "",
            "timeout": settings.timeout or 0,
            "verbosity": settings.verbosity or 0,
            "ask_limit": template.nodes,
            "ask_job_type": template.check,
            "ask_diff_mode": template.check,
            "survey": _survey(template, self._named(name, key), settings.extra_vars),
            **{event: self._told(event) for event in _OUTCOMES},
            "needs": [
                self._organization,
                "inventories/%s" % self._inventory_name(name),
                "projects/%s" % self._project,
                "execution_environments/%s" % self._environment,
                *self._needed(*used),
                *self._all_told(),
            ],
        }

    def _workflow(self, name: str) -> Object:
        return {
            "name": self._named(name, "site"),
            "inventory": self._inventory_name(name),
            "approval": self._told("approval"),
            **{event: self._told(event) for event in _OUTCOMES},
            "needs": [self._organization, "inventories/%s" % self._inventory_name(name), *self._all_told()],
        }

    def _step(self, name: str, key: str, step: Step) -> Object:
        workflow = self._named(name, "site")
        followers = ["workflow_job_template_nodes/%s/%s" % (workflow, each) for each in (*step.success, *step.failure)]
        template = self._named(name, step.template) if step.template else ""
        return {
            "name": key,
            "workflow": workflow,
            "template": template,
            "approval": "" if template else "%s: reboot the nodes that %s named" % (name, self._named(name, "hosts")),
            "answers": dict(step.answers),
            "success": list(step.success),
            "failure": list(step.failure),
            "needs": [
                "workflow_job_templates/%s" % workflow,
                *(["job_templates/%s" % template] if template else []),
                *followers,
            ],
        }

    def _schedule(self, name: str, fabric: Fabric) -> Object:
        if not fabric.drift:
            raise AssertionError("asked before")
        return {
            "name": self._named(name, "nightly %s" % NIGHTLY),
            "template": self._named(name, NIGHTLY),
            "rrule": rrule(fabric.drift),
            "needs": ["job_templates/%s" % self._named(name, NIGHTLY)],
        }


def _survey(template: Template, name: str, answers: t.Mapping[str, t.Any]) -> Object:
    """``answers`` go into the questions: the default of a question would be put over an extra variable."""
    if not template.questions:
        return {}
    questions = (
        each.answered(answers[each.variable]) if answers.get(each.variable) is not None else each
        for each in template.questions
    )
    return {"name": name, "description": template.about, "spec": [each.spec() for each in questions]}


def _steps(wanted: t.Collection[str]) -> dict[str, Step]:
    """The workflow's steps for the templates that there are; what came after another comes after those before it."""
    there = {key: step for key, step in WORKFLOW.items() if step.template is None or step.template in wanted}
    if "hosts" not in wanted or "reboots" not in wanted:
        there = {key: step for key, step in there.items() if key not in ("reboots", "approval", "hosts-with-reboots")}

    def bridged(names: t.Iterable[str]) -> tuple[str, ...]:
        found: list[str] = []
        for each in names:
            found.extend([each] if each in there else bridged(WORKFLOW[each].success))
        return tuple(found)

    return {
        key: step._replace(success=bridged(step.success), failure=tuple(each for each in step.failure if each in there))
        for key, step in there.items()
    }
