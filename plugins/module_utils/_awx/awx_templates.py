# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""The job templates and the workflow of every fabric: which playbook each runs, what it asks, what follows what."""

from __future__ import annotations

import typing as t


class Question(t.NamedTuple):
    """A question of a survey, for a text; for one of ``choices``, or ``several``; a number where ``default`` is one."""

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
        """The question as AWX keeps it."""
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
            "min": self.low,
            "max": self.high,
        }
        # AWX hands every default to the job: a question without one leaves the playbook its own
        if self.default is not None:
            spec["default"] = self.default
        return spec

    def answered(self, value: t.Any) -> Question:
        """The question with ``value`` for its default, in the form that AWX keeps.

        :raises ValueError: what an answer would be, where ``value`` can be none.
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
    return Question(variable, name, about, "true" if default else "false", ("false", "true"))


NEEDS = "needs"
TAKES = "takes"


class Template(t.NamedTuple):
    """``nodes``: it logs in to nodes, and a launch may limit it to some; ``file``: it gets the path of the fabric file.

    ``cluster``: whether it ``needs`` the Kubernetes cluster, or ``takes`` it where there is one. ``check``: a launch
    may ask for check mode; ``tags``: for tags, which are layers. ``directory``: the fabric's key that names a directory
    which outlasts jobs, and the variable for it; ``required``: without that directory there is no such template.
    ``hosts``: whether it reads the fabric's inventory; the others do not wait until AWX has updated it, so that they
    can report what is wrong with the fabric file.
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


_PART = (
    Question("verify_layers", "Layers", "Separated by commas, such as link,rdma; all of them where it is empty"),
    Question("verify_rails", "Rails", "Separated by commas, such as gpu01; all of them where it is empty"),
)
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
            yes_or_no("reboot_allowed", "Reboot nodes that need it", "Without consent they are listed and left alone"),
            *_REBOOT,
        ),
    ),
    "reboots": Template(
        "reboots.yml",
        "Lists the nodes that the job before it found to need a reboot; fails if there are none",
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
            Question("cluster_cni", "Pod network", "calico or flannel, to install it too; empty where there is one"),
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
            *_PART,
            Question(
                "verify_budget", "Seconds", "After which no further pairs are tried; 0: all are", 0, low=0, high=86400
            ),
            yes_or_no("verify_cordon", "Cordon nodes with a bad rail"),
            yes_or_no("verify_unproven_allowed", "Accept rails that nothing has proven", "Such as one node's alone"),
        ),
        directory=("reports", "verify_report_dir"),
    ),
    "drift": Template(
        "drift.yml",
        "Reports what differs from the plan, on the nodes and in the cluster; changes nothing",
        nodes=True,
        cluster=TAKES,
        file=True,
        questions=_PART,
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
            yes_or_no("reboot_allowed", "Reboot nodes that need it", "Without consent they are listed and left alone"),
        ),
    ),
}

# The template that the nightly schedule runs.
NIGHTLY = "drift"
# The key of the workflow, where a template may be named.
SITE = "site"
# What a launch of the workflow asks. Never reboot_allowed: an answer goes to every job, and so to the first of hosts.
WORKFLOW_QUESTIONS = _REBOOT
# What a grant of launch leaves out, unless the template's own access has it.
GUARDED = ("teardown",)


def questions(key: str) -> tuple[Question, ...]:
    """The survey of a template, or of the workflow."""
    return WORKFLOW_QUESTIONS if key == SITE else TEMPLATES[key].questions


class Step(t.NamedTuple):
    """A node of the workflow. ``template`` None: an approval. Steps that are not there are passed over."""

    template: str | None
    success: tuple[str, ...] = ()
    failure: tuple[str, ...] = ()
    answers: t.Mapping[str, str] = {}


# AWX branches on success and failure alone. So hosts fails without consent to reboots, and reboots, which reads what
# hosts left behind, distinguishes that failure from any other.
WORKFLOW: t.Mapping[str, Step] = {
    "validate": Step("validate", success=("hosts",)),
    "hosts": Step("hosts", success=("kubernetes",), failure=("reboots",)),
    "reboots": Step("reboots", success=("approval",)),
    "approval": Step(None, success=("hosts-with-reboots",)),
    "hosts-with-reboots": Step("hosts", success=("kubernetes",), answers={"reboot_allowed": "true"}),
    "kubernetes": Step("kubernetes", success=("verify",)),
    "verify": Step("verify"),
}
