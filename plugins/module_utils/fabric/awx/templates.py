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
    """``nodes``: it logs in to nodes, of which a launch may say fewer; ``file``: it is told the fabric file.

    ``cluster``: whether it ``needs`` the Kubernetes cluster, or ``takes`` it where there is one. ``check``: a launch
    may ask for check mode. ``reports``: the variable that names the directory of reports.
    """

    playbook: str
    about: str
    nodes: bool = False
    cluster: str = ""
    file: bool = False
    check: bool = False
    questions: tuple[Question, ...] = ()
    reports: str = ""


_PART = (
    Question("verify_layers", "Layers", "Separated by commas, such as link,rdma; all of them where it is empty"),
    Question("verify_rails", "Rails", "Separated by commas, such as gpu01; all of them where it is empty"),
)
TEMPLATES: t.Mapping[str, Template] = {
    "validate": Template(
        "validate.yml",
        "Checks the fabric file; contacts no host",
        file=True,
        questions=(yes_or_no("strict", "Fail on warnings too"),),
    ),
    "plan": Template(
        "plan.yml",
        "Shows every name, address and number that the fabric file plans; contacts no host",
        file=True,
        questions=(Question("plan_rows", "Rows of a table", "What is longer is cut", 256, low=1, high=100000),),
    ),
    "hosts": Template(
        "hosts.yml",
        "Prepares the nodes: firmware, RDMA mode, VFs, names, addresses, routes, links",
        nodes=True,
        cluster=TAKES,
        check=True,
        questions=(
            yes_or_no("reboot_allowed", "Reboot nodes that need it", "Without consent they are named and left alone"),
            yes_or_no("reboot_drain", "Drain nodes before", "Of pods, as their disruption budgets allow"),
            Question("railyard_reboot_batch", "Nodes that reboot at once", "", 1, low=1, high=4096),
        ),
    ),
    "reboots": Template(
        "reboots.yml",
        "Says which nodes the job before it found to need a reboot; fails where there are none",
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
    "verify": Template(
        "verify.yml",
        "Proves that every rail carries traffic, and says what does not and why",
        nodes=True,
        cluster=TAKES,
        file=True,
        questions=(
            *_PART,
            Question("verify_budget", "Seconds", "After which no further pairs are tried; 0: all are", 0, low=0),
            yes_or_no("verify_cordon", "Cordon nodes with a bad rail"),
            yes_or_no("verify_unproven_allowed", "Accept rails that nothing has proven", "Such as one node's alone"),
        ),
        reports="verify_report_dir",
    ),
    "drift": Template(
        "drift.yml",
        "Says what differs from the plan, on the nodes and in the cluster; changes nothing",
        nodes=True,
        cluster=TAKES,
        file=True,
        questions=_PART,
        reports="verify_report_dir",
    ),
    "report": Template(
        "report.yml",
        "Makes one page of what verify and drift have found so far; contacts no host",
        file=True,
        reports="report_dir",
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
        questions=(
            Question("teardown_consent", "Name of the fabric", "Consent to take its rail networks away", required=True),
            yes_or_no("teardown_hosts", "Take the hosts back too", "All that hosts.yml set up but driver and firmware"),
            yes_or_no("reboot_allowed", "Reboot nodes that need it", "Without consent they are named and left alone"),
        ),
    ),
}

# The template that the nightly schedule runs.
NIGHTLY = "drift"
# The template that reads what other jobs have left.
REPORT = "report"


class Step(t.NamedTuple):
    """A node of the workflow. ``template`` None: an approval. Steps that are not there are passed over."""

    template: str | None
    success: tuple[str, ...] = ()
    failure: tuple[str, ...] = ()
    answers: t.Mapping[str, str] = {}


# AWX branches on success and failure alone. So hosts fails without consent to reboots, and reboots, which reads what
# hosts left behind, tells that failure from any other.
WORKFLOW: t.Mapping[str, Step] = {
    "validate": Step("validate", success=("hosts",)),
    "hosts": Step("hosts", success=("kubernetes",), failure=("reboots",)),
    "reboots": Step("reboots", success=("approval",)),
    "approval": Step(None, success=("hosts-with-reboots",)),
    "hosts-with-reboots": Step("hosts", success=("kubernetes",), answers={"reboot_allowed": "true"}),
    "kubernetes": Step("kubernetes", success=("verify",)),
    "verify": Step("verify"),
}
