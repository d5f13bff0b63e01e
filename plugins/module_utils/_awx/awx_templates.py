# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The job templates and the workflow of every fabric: their playbooks, surveys and dependencies."""

from __future__ import annotations

import typing as t

# The maximum length of an answer, as AWX's own page sets it.
_LENGTH = 1024


class Question(t.NamedTuple):
    """A question of a survey.

    The answer is text; one of ``choices``; with ``several``, some of them; or a number if ``default`` is one.
    """

    variable: str
    name: str
    about: str = ""
    default: t.Any = None
    choices: tuple[str, ...] = ()
    several: bool = False
    required: bool = False
    low: int | None = None
    high: int | None = None

    def spec(self) -> dict[str, t.Any]:
        """Return the question in AWX's format."""
        kind = "text"
        if self.choices:
            kind = "multiselect" if self.several else "multiplechoice"
        elif isinstance(self.default, int):
            kind = "integer"
        spec: dict[str, t.Any] = {
            "question_name": self.name,
            "question_description": self.about,
            "variable": self.variable,
            "type": kind,
            "required": self.required,
            "choices": list(self.choices),
            # limits of a text are lengths: to AWX, an empty text is an answer
            "min": 1 if self.required and kind == "text" else self.low,
            "max": _LENGTH if self.required and kind == "text" else self.high,
        }
        # AWX passes every default to the job; without one, the playbook's default applies
        if self.default is not None:
            spec["default"] = self.default
        return spec

    def answered(self, value: t.Any) -> Question:
        """Return the question with ``value`` as its default, in AWX's format.

        :raises ValueError: for a value that cannot be an answer; the message describes valid ones.
        """
        if isinstance(self.default, int):
            low, high = self.low, self.high
            whole = isinstance(value, int) and not isinstance(value, bool)
            if not whole or (low is not None and value < low) or (high is not None and value > high):
                raise ValueError("a whole number from %s%s" % (low, "" if high is None else " to %s" % high))
            return self._replace(default=value)
        text = ",".join(map(str, value)) if isinstance(value, list) else str(value)
        if isinstance(value, bool):
            text = text.lower()
        if self.choices and text not in self.choices:
            raise ValueError(" or ".join(self.choices))
        return self._replace(default=text)


def yes_or_no(variable: str, name: str, about: str = "", default: bool = False) -> Question:
    """Return a question with the answers true and false."""
    return Question(variable, name, about, "true" if default else "false", ("false", "true"))


NEEDS = "needs"
TAKES = "takes"


class Template(t.NamedTuple):
    """A job template.

    ``nodes``: it logs in to nodes, and a launch may limit it to some; ``file``: it gets the path of the fabric file.
    ``cluster``: it ``needs`` the Kubernetes cluster, or ``takes`` it if there is one. ``check``: a launch may ask for
    check mode; ``tags``: a launch may ask for tags, which are layers. ``directory``: the fabric's key of a directory
    that persists after jobs, and the variable for it; ``required``: without that directory, the template does not
    exist. ``hosts``: it reads the fabric's inventory. Other templates do not wait until AWX has updated it, so that
    they can report errors in the fabric file. ``part_of``: the template that has the same settings and runs on all
    nodes, where this one runs on a part of them; its jobs may run at the same time.
    """

    playbook: str
    about: str
    nodes: bool = False
    cluster: str = ""
    file: bool = False
    check: bool = False
    questions: tuple[Question, ...] = ()
    directory: tuple[str, str] = ("", "")
    required: bool = False
    hosts: bool = True
    tags: bool = False
    part_of: str = ""


_SELECTION = (
    Question("verify_layers", "Layers", "Separated by commas, such as link,rdma; all of them where it is empty"),
    Question("verify_rails", "Rails", "Separated by commas, such as gpu01; all of them where it is empty"),
)
_BUDGET = Question(
    "verify_budget", "Seconds", "After which no further pairs are tried; 0: all are", 0, low=0, high=86400
)
_PART = Question("railyard_part", "Part of the nodes", "Such as 2/8, the second of eight", required=True)
_REBOOT = (
    yes_or_no("reboot_drain", "Drain nodes before", "Evicts pods, as their disruption budgets allow"),
    Question("railyard_reboot_batch", "Nodes that reboot at once", "How many at the same time", 1, low=1, high=4096),
)
TEMPLATES: t.Mapping[str, Template] = {
    "validate": Template(
        "validate.yml",
        "Checks the fabric file; contacts no host",
        file=True,
        hosts=False,
        questions=(yes_or_no("strict", "Fail on warnings too"),),
    ),
    "plan": Template(
        "plan.yml",
        "Shows every name, address and number that the fabric file plans; contacts no host",
        file=True,
        hosts=False,
        questions=(Question("plan_rows", "Rows of a table", "The first rows are shown", 8, low=1, high=100000),),
    ),
    "hosts": Template(
        "hosts.yml",
        "Prepares the nodes: firmware, RDMA mode, VFs, names, addresses, routes, links",
        nodes=True,
        cluster=TAKES,
        check=True,
        tags=True,
        questions=(
            yes_or_no(
                "reboot_allowed", "Reboot nodes that need it", "Without consent they are listed and not rebooted"
            ),
            *_REBOOT,
        ),
    ),
    "hosts-part": Template(
        "hosts.yml",
        "Prepares a part of the nodes; reboots none of them",
        nodes=True,
        check=True,
        tags=True,
        questions=(_PART,),
        part_of="hosts",
    ),
    "reboots": Template(
        "reboots.yml",
        "Lists the nodes that need a reboot according to the previous job; fails if no node needs one",
        hosts=False,
    ),
    "kubernetes": Template(
        "kubernetes.yml",
        "Brings the rail networks to the cluster and waits until they run",
        cluster=NEEDS,
        file=True,
        check=True,
        questions=(
            yes_or_no("kubernetes_wait", "Wait until the networks run", default=True),
            yes_or_no("kubernetes_prune", "Delete what left the plan", default=True),
            yes_or_no("kubernetes_force", "Take over fields that others own"),
            yes_or_no("kubernetes_replace", "Delete and create again what cannot be changed in place"),
            Question("kubernetes_wait_timeout", "Seconds to wait", "", 600, low=1, high=86400),
        ),
    ),
    "cluster": Template(
        "cluster.yml",
        "Installs what the rail networks need in the cluster: the provider's operator or Multus, as planned",
        cluster=NEEDS,
        file=True,
        check=True,
        questions=(
            Question("cluster_archives", "Charts and manifests", "A directory or URL; each project's own where empty"),
            Question(
                "cluster_cni", "Pod network", "calico or flannel, to install it too; empty if the cluster has one"
            ),
            yes_or_no("cluster_gpu_operator", "NVIDIA GPU operator", "Install it too"),
            yes_or_no("cluster_wait", "Wait until it runs", default=True),
            Question("cluster_wait_timeout", "Seconds to wait", "", 600, low=1, high=86400),
        ),
    ),
    "render": Template(
        "render.yml",
        "Writes the Kubernetes objects of the fabric as files; contacts no host and no cluster",
        file=True,
        check=True,
        questions=(yes_or_no("render_nodes", "Files per node too"),),
        directory=("manifests", "render_dir"),
        required=True,
    ),
    "verify": Template(
        "verify.yml",
        "Verifies that every rail carries traffic, and reports each failure with its cause",
        nodes=True,
        cluster=TAKES,
        file=True,
        questions=(
            *_SELECTION,
            _BUDGET,
            yes_or_no("verify_cordon", "Cordon nodes with a bad rail"),
            yes_or_no("verify_unproven_allowed", "Accept rails that nothing has proven", "Such as one node's alone"),
            Question(
                "verify_baselines",
                "Baselines",
                "renew: replace those of the proven ports",
                "use",
                ("use", "renew", "off"),
            ),
            Question("railyard_part", "Parts", "judge: the verdict on what verify-part has left; empty: all nodes"),
        ),
        directory=("reports", "verify_report_dir"),
    ),
    "verify-part": Template(
        "verify.yml",
        "Verifies a part of the nodes and leaves the results for the verdict on all parts",
        nodes=True,
        cluster=TAKES,
        file=True,
        questions=(*_SELECTION, _BUDGET, _PART),
        directory=("reports", "verify_report_dir"),
        part_of="verify",
    ),
    "drift": Template(
        "drift.yml",
        "Reports what differs from the plan, on the nodes and in the cluster; changes nothing",
        nodes=True,
        cluster=TAKES,
        file=True,
        questions=_SELECTION,
        directory=("reports", "verify_report_dir"),
    ),
    "status": Template(
        "status.yml",
        "Shows nodes, ports, slots, agents and the last verdict on one screen; changes nothing",
        nodes=True,
        cluster=TAKES,
        directory=("reports", "verify_report_dir"),
    ),
    "report": Template(
        "report.yml",
        "Makes one page of what verify and drift have found so far; contacts no host",
        file=True,
        directory=("reports", "report_dir"),
        required=True,
    ),
    "discover": Template(
        "discover.yml",
        "Asks the nodes what they have, and shows the fabric file that plans just that; changes nothing",
        nodes=True,
        questions=(
            Question("discover_name", "Name of the fabric"),
            Question("discover_pods", "Addresses for pods", "Such as .1-.200"),
            Question("discover_rail_name", "Names of the rails", "Such as gpu{n:02}"),
        ),
    ),
    "teardown": Template(
        "teardown.yml",
        "Takes the rail networks away from the cluster, and hosts back where asked to; pods on rails lose them",
        nodes=True,
        cluster=NEEDS,
        file=True,
        check=True,
        tags=True,
        questions=(
            Question(
                "teardown_consent",
                "Name of the fabric",
                "Consent to remove its rail networks: fabric.name in the fabric file, not its name in AWX",
                required=True,
            ),
            yes_or_no("teardown_hosts", "Take the hosts back too", "All that hosts.yml set up but driver and firmware"),
            yes_or_no(
                "reboot_allowed", "Reboot nodes that need it", "Without consent they are listed and not rebooted"
            ),
        ),
    ),
}

# A template -> the template of its parts, which has no settings of its own in the data file.
PARTS = {each.part_of: key for key, each in TEMPLATES.items() if each.part_of}
NAMED = tuple(key for key, each in TEMPLATES.items() if not each.part_of)
MAX_SLICES = 32
# The template of the nightly schedule.
NIGHTLY = "drift"
# The key of the workflow, used like that of a template.
SITE = "site"
# The survey of the workflow. It must not contain reboot_allowed: answers go to every job, also to the first hosts job.
WORKFLOW_QUESTIONS = _REBOOT
# Templates that the right launch does not include, unless the template's own access has it.
GUARDED = ("teardown",)
# Templates whose jobs show the nodes that an approval reboots, and why.
APPROVED = ("hosts", "reboots")


def questions(key: str) -> tuple[Question, ...]:
    """Return the survey of a template, or of the workflow."""
    return WORKFLOW_QUESTIONS if key == SITE else TEMPLATES[key].questions


class Step(t.NamedTuple):
    """A node of the workflow. ``template`` None: an approval. Steps without a template in AWX are skipped.

    ``always``: steps that wait for the end of this step and of all others before them, whatever their results are.
    """

    template: str | None
    success: tuple[str, ...] = ()
    failure: tuple[str, ...] = ()
    answers: t.Mapping[str, str] = {}
    always: tuple[str, ...] = ()


# AWX branches only on success and failure. So hosts fails without consent to reboots, and the step reboots, which
# reads the state that hosts left, distinguishes that failure from others.
WORKFLOW: t.Mapping[str, Step] = {
    "validate": Step("validate", success=("hosts",)),
    "hosts": Step("hosts", success=("kubernetes",), failure=("reboots",)),
    "reboots": Step("reboots", success=("approval",)),
    "approval": Step(None, success=("hosts-with-reboots",)),
    "hosts-with-reboots": Step("hosts", success=("kubernetes",), answers={"reboot_allowed": "true"}),
    "kubernetes": Step("kubernetes", success=("verify",)),
    "verify": Step("verify"),
}
# What the step of a template answers after its parts. hosts then runs on all nodes, and finds those that need a reboot.
_AFTER_PARTS: t.Mapping[str, t.Mapping[str, str]] = {"hosts": {}, "verify": {"railyard_part": "judge"}}


def part_steps(template: str, slices: int) -> list[str]:
    """Return the keys of the steps that run a template on parts of the nodes; none with one slice."""
    return ["%s-%d" % (PARTS[template], number + 1) for number in range(slices if slices > 1 else 0)]


def sliced(steps: t.Mapping[str, Step], slices: t.Mapping[str, int]) -> dict[str, Step]:
    """Return the steps with those of parts before the steps that run on all nodes.

    :param slices: template -> the number of parts.
    """
    with_parts = dict(steps)
    for key in (each for each in PARTS if each in steps):
        parts = part_steps(key, slices.get(key, 1))
        if not parts:
            continue
        for name, step in with_parts.items():
            following = (parts if each == key else [each] for each in step.success)
            with_parts[name] = step._replace(success=tuple(each for names in following for each in names))
        for number, name in enumerate(parts):
            answers = {"railyard_part": "%d/%d" % (number + 1, len(parts))}
            with_parts[name] = Step(PARTS[key], always=(key,), answers=answers)
        answers = {**with_parts[key].answers, **_AFTER_PARTS[key]}
        with_parts[key] = with_parts[key]._replace(answers=answers)
    return with_parts
