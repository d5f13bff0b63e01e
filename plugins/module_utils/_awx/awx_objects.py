# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Convert the data file to AWX objects, in the order in which they can be created."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field

from ansible_collections.railyard.fabric.plugins.module_utils._awx import awx_kinds
from ansible_collections.railyard.fabric.plugins.module_utils._awx.awx_data import (
    CONTROL,
    Access,
    Data,
    Names,
    Schedule,
    Settings,
    rrule,
)
from ansible_collections.railyard.fabric.plugins.module_utils._awx.awx_templates import (
    APPROVED,
    GUARDED,
    MAX_SLICES,
    NEEDS,
    PARTS,
    SITE,
    TEMPLATES,
    WORKFLOW,
    WORKFLOW_QUESTIONS,
    Question,
    Step,
    part_steps,
    questions,
    sliced,
)

# kind of object -> right -> role in AWX
ROLES: t.Mapping[str, t.Mapping[str, str]] = {
    "job_templates": {"read": "read_role", "launch": "execute_role", "admin": "admin_role"},
    "workflow_job_templates": {
        "read": "read_role",
        "launch": "execute_role",
        "approve": "approval_role",
        "admin": "admin_role",
    },
    "inventories": {"read": "read_role", "launch": "read_role", "use": "use_role", "admin": "admin_role"},
    "projects": {"read": "read_role", "launch": "read_role", "use": "use_role", "admin": "admin_role"},
    "credentials": {"use": "use_role", "admin": "admin_role"},
}


def _roles_of(
    kind: str, access: Access, template: str = "", own: Access = None
) -> t.Mapping[str, frozenset[str]] | None:
    """Return all roles of an object with their teams; None if no access is set.

    :param template: the key of the job template, if it is one.
    :param own: the template's own access, which replaces ``access``. Teams that approve read what they approve.
    """
    granted = access if own is None else own
    if granted is None:
        return None
    found: dict[str, set[str]] = {role: set() for role in ROLES[kind].values()}
    for team, rights in granted.items():
        for right in rights:
            role = ROLES[kind].get(right)
            if role and not (own is None and right == "launch" and template in GUARDED):
                found[role].add(team)
    if template in APPROVED:
        found["read_role"] |= {team for team, rights in (access or {}).items() if "approve" in rights}
    return {role: frozenset(teams) for role, teams in found.items()}


_OUTCOMES = ("started", "success", "error")
# Fields that would change a job from what the file describes. They are always sent.
_FIXED: t.Mapping[str, t.Any] = {
    "job_type": "run",
    "job_slice_count": 1,
    "allow_simultaneous": False,
    "use_fact_cache": False,
    "become_enabled": False,
    "diff_mode": False,
    "force_handlers": False,
    "scm_branch": "",
    "start_at_task": "",
    "ask_job_slice_count_on_launch": False,
    # with these prompts, a launch could run other code, on other nodes, or with a consent that was not approved
    "ask_variables_on_launch": False,
    "ask_inventory_on_launch": False,
    "ask_credential_on_launch": False,
    "ask_scm_branch_on_launch": False,
}


class Ref(t.NamedTuple):
    """A reference to another object, in place of its id. ``parent``: the workflow of a step. ``existing``: Railyard did
    not create it."""

    kind: str
    name: str
    parent: str = ""
    existing: bool = False


@dataclass(frozen=True)
class Object:
    """One object of AWX. ``kind`` is its endpoint; ``fields`` may contain a :class:`Ref` in place of an id.

    :param owner: the field and object within which the name is unique; None: in all of AWX.
    :param links: association -> its objects; None: it is not changed.
    :param survey: the survey; empty: none; None: the kind has no surveys.
    :param secrets: the key of the object's secrets.
    :param access: role of the object -> its teams; None: it is not changed.
    :param approval: for a step of a workflow, what a user approves.
    """

    kind: str
    name: str
    fields: t.Mapping[str, t.Any] = field(default_factory=dict)
    owner: tuple[str, Ref] | None = None
    links: t.Mapping[str, tuple[Ref, ...] | None] = field(default_factory=dict)
    survey: t.Mapping[str, t.Any] | None = None
    secrets: str = ""
    access: t.Mapping[str, frozenset[str]] | None = None
    approval: t.Mapping[str, t.Any] | None = None

    @property
    def ref(self) -> Ref:
        """The reference to this object."""
        parent = self.owner[1].name if self.owner and self.kind == "workflow_job_template_nodes" else ""
        return Ref(self.kind, self.name, parent)


@dataclass(frozen=True)
class Wanted:
    """``objects`` in the order of creation; ``absent``: objects to delete."""

    data: Data
    objects: tuple[Object, ...]
    absent: tuple[Object, ...]

    def of(self, kind: str) -> list[Object]:
        return [each for each in self.objects if each.kind == kind]


def objects(data: Data) -> Wanted:
    """Return all objects that the file describes, and those that must not exist."""
    return _Converter(data).wanted()


class _Converter:
    def __init__(self, data: Data) -> None:
        self._data = data
        self._organization = ("organization", Ref("organizations", data.organization))
        self._project = Ref("projects", data.prefix)
        existing = data.environment.existing
        self._environment = Ref("execution_environments", existing or data.prefix, existing=bool(existing))

    def wanted(self) -> Wanted:
        data = self._data
        keys = {name: self._keys(name) for name in data.fabrics}
        steps = {name: sliced(_steps(keys[name]), self._slices(name)) for name in keys}
        present = [
            *self._credential_type(),
            *(self._credential(key) for key, each in data.credentials.items() if not each.existing),
            *self._execution_environment(),
            self._the_project(),
            *(self._notification(key) for key in data.notifications),
            *self._control(),
        ]
        absent = []
        for name, fabric in data.fabrics.items():
            present += [self._inventory(name), self._source(name)]
            present += [self._template(name, key) for key in keys[name]]
            absent += [
                Object("job_templates", self._named(name, key), {"description": ""}, self._organization)
                for key in TEMPLATES
                if key not in keys[name]
            ]
            present += self._workflow(name, steps[name])
            absent += [
                Object("workflow_job_template_nodes", key, owner=("workflow_job_template", self._site(name)))
                for key in (*WORKFLOW, *(part for each in PARTS for part in part_steps(each, MAX_SLICES)))
                if steps[name] and key not in steps[name]
            ]
            present += [
                self._schedule(name, key, each)
                for key, each in fabric.schedules.items()
                if each.template in keys[name] or (each.template == SITE and steps[name])
            ]
        return Wanted(data, tuple(present), tuple(absent))

    # -- names

    def _named(self, fabric: str, what: str) -> str:
        return "%s %s: %s" % (self._data.prefix, fabric, what)

    def _prefixed(self, name: str) -> str:
        return "%s %s" % (self._data.prefix, name)

    def _site(self, fabric: str) -> Ref:
        return Ref("workflow_job_templates", self._named(fabric, SITE))

    def _credential_ref(self, key: str | None) -> Ref | None:
        if not key:
            return None
        existing = self._data.credentials[key].existing
        return Ref("credentials", existing or self._prefixed(key), existing=bool(existing))

    # -- what all fabrics share

    def _credential_type(self) -> list[Object]:
        if not any(each.type == awx_kinds.KUBECONFIG and not each.existing for each in self._data.credentials.values()):
            return []
        about = "A kubeconfig, as a file that KUBECONFIG names"
        fields = {"description": about, **awx_kinds.KUBECONFIG_TYPE}
        return [Object("credential_types", self._prefixed(awx_kinds.KUBECONFIG), fields)]

    def _credential(self, key: str) -> Object:
        credential = self._data.credentials[key]
        known = awx_kinds.CREDENTIALS[credential.type or ""]
        kind = Ref("credential_types", known.name or self._prefixed(awx_kinds.KUBECONFIG), existing=bool(known.name))
        fields = {"description": "%s of Railyard" % key, "credential_type": kind, "inputs": dict(credential.inputs)}
        access = _roles_of("credentials", self._data.access)
        return Object("credentials", self._prefixed(key), fields, self._organization, secrets=key, access=access)

    def _execution_environment(self) -> list[Object]:
        environment = self._data.environment
        if environment.existing:
            return []
        fields = {
            "description": "Where jobs of Railyard run",
            "organization": self._organization[1],
            "image": environment.image,
            "pull": environment.pull,
            "credential": self._credential_ref(environment.credential),
        }
        return [Object("execution_environments", self._environment.name, fields)]

    def _the_project(self) -> Object:
        project = self._data.project
        fields = {
            "description": "Fabric files and playbooks",
            "scm_type": "git",
            "scm_url": project.url,
            "scm_branch": project.branch,
            "scm_update_on_launch": project.update_on_launch,
            "scm_update_cache_timeout": project.update_cache,
            "credential": self._credential_ref(project.credential),
            "default_environment": self._environment,
        }
        access = _roles_of("projects", self._data.access)
        return Object("projects", self._project.name, fields, self._organization, access=access)

    def _notification(self, key: str) -> Object:
        notification = self._data.notifications[key]
        known = awx_kinds.NOTIFICATIONS[notification.type]
        defaults = {each: default for each, default in known.secrets.items() if default is not None}
        fields = {
            "description": "Sent on %s" % ", ".join(notification.on),
            "notification_type": notification.type,
            "notification_configuration": {**defaults, **notification.settings},
        }
        return Object("notification_templates", self._prefixed(key), fields, self._organization, secrets=key)

    def _on(self, event: str, wanted: bool = True) -> tuple[Ref, ...]:
        names = [self._prefixed(key) for key, each in self._data.notifications.items() if event in each.on and wanted]
        return tuple(Ref("notification_templates", name) for name in names)

    def _control(self) -> list[Object]:
        """Return an inventory with only the control node, so that a job does not wait for the update of a fabric's
        inventory."""
        about = "For jobs that read the fabric file alone"
        access = _roles_of("inventories", self._data.access)
        name = self._prefixed(CONTROL)
        inventory = Object("inventories", name, {"description": about}, self._organization, access=access)
        variables = {"ansible_connection": "local", "ansible_python_interpreter": "{{ ansible_playbook_python }}"}
        fields = {"description": "Where the job runs", "variables": variables}
        return [inventory, Object("hosts", "localhost", fields, ("inventory", inventory.ref))]

    # -- what each fabric has

    def _keys(self, name: str) -> list[str]:
        """Return the keys of a fabric's job templates."""
        fabric = self._data.fabrics[name]
        return [
            key
            for key, template in TEMPLATES.items()
            if self._settings(name, key).enabled is not False
            and (not template.part_of or self._slices(name)[template.part_of] > 1)
            and (template.cluster != NEEDS or fabric.cluster)
            and not (template.required and not getattr(fabric, template.directory[0]))
        ]

    def _settings(self, name: str, key: str) -> Settings:
        """Return the settings of a template; a template of parts has those of the template of all nodes."""
        template = TEMPLATES.get(key)
        return self._data.settings(name, template.part_of if template and template.part_of else key)

    def _slices(self, name: str) -> dict[str, int]:
        return {key: self._data.settings(name, key).slices or 1 for key in PARTS}

    def _labels(self, fabric: str) -> tuple[Ref, ...] | None:
        of_fabric = self._data.fabrics[fabric].labels
        return _refs("labels", self._data.labels if of_fabric is None else of_fabric)

    def _groups(self, fabric: str, of_template: Names = None) -> tuple[Ref, ...] | None:
        for each in (of_template, self._data.fabrics[fabric].instance_groups, self._data.instance_groups):
            if each is not None:
                return _refs("instance_groups", each)
        return None

    def _access(self, fabric: str, kind: str, key: str = "") -> t.Mapping[str, frozenset[str]] | None:
        base = self._data.fabrics[fabric].access
        return _roles_of(kind, self._data.access if base is None else base, key, self._settings(fabric, key).access)

    def _inventory(self, name: str) -> Object:
        about = "Nodes of %s" % self._data.fabrics[name].file
        return Object(
            "inventories",
            self._prefixed(name),
            {"description": about},
            self._organization,
            {"labels": self._labels(name), "instance_groups": self._groups(name)},
            access=self._access(name, "inventories"),
        )

    def _source(self, name: str) -> Object:
        inventory = Ref("inventories", self._prefixed(name))
        fields = {
            "description": "Read again before jobs that need the nodes",
            "source": "scm",
            "source_project": self._project,
            "source_path": self._data.fabrics[name].file,
            "execution_environment": self._environment,
            "update_on_launch": True,
            "update_cache_timeout": self._data.fabrics[name].inventory_cache,
            "overwrite": True,
            "overwrite_vars": True,
        }
        return Object("inventory_sources", self._named(name, "fabric file"), fields, ("inventory", inventory))

    def _template(self, name: str, key: str) -> Object:
        fabric, template, settings = self._data.fabrics[name], TEMPLATES[key], self._settings(name, key)
        used = [*(fabric.credentials if template.nodes else ()), fabric.cluster if template.cluster else None]
        # answers to questions of the template of all nodes are about other things than parts, such as reboots
        asked = {each.variable for each in (*template.questions, *questions(template.part_of or key))}
        given: dict[str, t.Any] = {"fabric_file": fabric.file} if template.file else {}
        if template.directory[0] and getattr(fabric, template.directory[0]):
            given[template.directory[1]] = getattr(fabric, template.directory[0])
        given.update({each: value for each, value in settings.extra_vars.items() if each not in asked})
        webhook = fabric.webhook.service if fabric.webhook and fabric.webhook.template == key else ""
        fields = {
            **_FIXED,
            "description": template.about,
            "inventory": Ref("inventories", self._prefixed(name if template.hosts else CONTROL)),
            "project": self._project,
            "playbook": "%s/%s" % (self._data.project.playbooks, template.playbook),
            "execution_environment": self._environment,
            "extra_vars": given,
            "forks": settings.forks or 0,
            "limit": settings.limit or "",
            "timeout": settings.timeout or 0,
            "verbosity": settings.verbosity or 0,
            "job_tags": ",".join(settings.tags or ()),
            "skip_tags": ",".join(settings.skip_tags or ()),
            "allow_simultaneous": bool(template.part_of),
            "ask_limit_on_launch": template.nodes,
            "ask_job_type_on_launch": template.check,
            "ask_diff_mode_on_launch": template.check,
            "ask_tags_on_launch": template.tags,
            "ask_skip_tags_on_launch": template.tags,
            "ask_verbosity_on_launch": template.nodes or bool(template.cluster),
            "survey_enabled": bool(template.questions),
            "webhook_service": webhook,
        }
        notify = self._notifies(name, key) if settings.notify is None else settings.notify
        links = {
            "credentials": tuple(each for each in map(self._credential_ref, used) if each),
            **{"notification_templates_%s" % event: self._on(event, notify) for event in _OUTCOMES},
            "labels": self._labels(name),
            "instance_groups": self._groups(name, settings.instance_groups),
        }
        survey = _survey(template.questions, self._named(name, key), template.about, settings.extra_vars)
        access = self._access(name, "job_templates", key)
        return Object("job_templates", self._named(name, key), fields, self._organization, links, survey, access=access)

    def _notifies(self, name: str, key: str) -> bool:
        """Return whether a template sends notifications.

        Steps of the workflow do not: a failed step would be reported twice, and a step that waits for consent as an
        error.
        """
        scheduled = any(each.template == key for each in self._data.fabrics[name].schedules.values())
        return scheduled or (TEMPLATES[key].part_of or key) not in {step.template for step in WORKFLOW.values()}

    # -- the workflow

    def _workflow(self, name: str, steps: t.Mapping[str, Step]) -> list[Object]:
        if not steps:
            return []
        answers = self._data.settings(name, "hosts").extra_vars
        fabric = self._data.fabrics[name]
        about = "Prepares the nodes and the cluster and proves the rails; asks before it reboots nodes"
        asked = WORKFLOW_QUESTIONS if "hosts" in steps else ()
        fields = {
            "description": about,
            "inventory": Ref("inventories", self._prefixed(name)),
            "ask_limit_on_launch": True,
            "ask_variables_on_launch": False,
            "ask_inventory_on_launch": False,
            "allow_simultaneous": False,
            "extra_vars": {},
            "survey_enabled": bool(asked),
            "webhook_service": fabric.webhook.service if fabric.webhook and fabric.webhook.template == SITE else "",
        }
        links = {
            **{"notification_templates_%s" % event: self._on(event) for event in _OUTCOMES},
            "notification_templates_approvals": self._on("approval"),
            "labels": self._labels(name),
        }
        survey = _survey(asked, self._named(name, SITE), about, answers)
        workflow = Object(
            "workflow_job_templates",
            self._named(name, SITE),
            fields,
            self._organization,
            links,
            survey,
            access=self._access(name, "workflow_job_templates"),
        )
        waiting = {each for step in steps.values() for each in step.always}
        return [workflow, *(self._step(name, key, step, key in waiting) for key, step in steps.items())]

    def _step(self, name: str, key: str, step: Step, after_parts: bool) -> Object:
        site = self._site(name)
        fields: dict[str, t.Any] = {"all_parents_must_converge": after_parts, "extra_data": dict(step.answers)}
        approval = None
        if step.template:
            fields["unified_job_template"] = Ref("job_templates", self._named(name, step.template))
        else:
            about = "%s: reboot the nodes that %s listed" % (name, self._named(name, "reboots"))
            approval = {
                "name": about,
                "description": self._data.approval.description,
                "timeout": self._data.approval.timeout,
            }
        links = {
            "%s_nodes" % event: tuple(Ref("workflow_job_template_nodes", each, site.name) for each in following)
            for event, following in (("success", step.success), ("failure", step.failure), ("always", step.always))
            if event != "always" or following
        }
        return Object(
            "workflow_job_template_nodes", key, fields, ("workflow_job_template", site), links, approval=approval
        )

    def _schedule(self, name: str, key: str, schedule: Schedule) -> Object:
        kind = "workflow_job_templates" if schedule.template == SITE else "job_templates"
        template = Ref(kind, self._named(name, schedule.template))
        fields = {
            "description": "Made by playbooks/awx.yml",
            "rrule": rrule(schedule),
            "enabled": schedule.enabled,
            "extra_data": dict(schedule.answers),
        }
        return Object("schedules", self._named(name, key), fields, ("unified_job_template", template))


def _refs(kind: str, names: Names) -> tuple[Ref, ...] | None:
    return None if names is None else tuple(Ref(kind, name, existing=kind != "labels") for name in names)


def _survey(questions: t.Iterable[Question], name: str, about: str, answers: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Return the survey. ``answers``: defaults of questions, because AWX gives these priority over extra variables."""
    asked = [
        each.answered(answers[each.variable]) if answers.get(each.variable) is not None else each for each in questions
    ]
    return {"name": name, "description": about, "spec": [each.spec() for each in asked]} if asked else {}


def _steps(wanted: t.Collection[str]) -> dict[str, Step]:
    """Return the workflow's steps for the existing templates. A step after a missing one follows its predecessors."""
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
