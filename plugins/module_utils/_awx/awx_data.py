# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The data file for AWX as values (docs/awx.md). ``awx_reader`` reads a file, ``awx_objects`` converts the values."""

from __future__ import annotations

import datetime
import typing as t
from dataclasses import dataclass, field, replace

# Team -> its rights; None if the file does not have the key: then AWX's settings are not changed.
Access = t.Optional[t.Mapping[str, t.Tuple[str, ...]]]
# A complete list; None if the file does not have the key.
Names = t.Optional[t.Tuple[str, ...]]
# Suffix of the name of the control node's inventory, where those of fabrics have the fabric's name.
CONTROL = "control node"


@dataclass(frozen=True)
class Project:
    """``update_cache``: seconds for which an update is current; ``sync_timeout``: seconds to wait for an update."""

    url: str
    branch: str
    credential: str | None
    playbooks: str
    update_on_launch: bool
    update_cache: int = 0
    sync_timeout: int = 600


@dataclass(frozen=True)
class Environment:
    """``existing``: the name of an environment in AWX that is used and not changed."""

    image: str
    pull: str
    credential: str | None
    existing: str = ""


@dataclass(frozen=True)
class Credential:
    """``existing``: the name of a credential in AWX that is not changed; then ``type`` is its type, or None."""

    type: str | None
    inputs: t.Mapping[str, t.Any]
    existing: str | None = None


@dataclass(frozen=True)
class Schedule:
    """``template``: the key of a job template, or ``site`` for the workflow. ``days``: empty for every day."""

    template: str
    at: str
    timezone: str = "UTC"
    days: tuple[str, ...] = ()
    enabled: bool = True
    answers: t.Mapping[str, t.Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Approval:
    """The approval before nodes reboot. ``timeout``: seconds; 0: none."""

    timeout: int = 0
    description: str = ""


@dataclass(frozen=True)
class Webhook:
    """A webhook that launches a template. ``service``: such as github."""

    service: str
    template: str


@dataclass(frozen=True)
class Settings:
    """Settings of a template in the data file. None: not set there. ``slices``: parts of the nodes in the workflow."""

    enabled: bool | None = None
    forks: int | None = None
    timeout: int | None = None
    verbosity: int | None = None
    limit: str | None = None
    tags: tuple[str, ...] | None = None
    skip_tags: tuple[str, ...] | None = None
    notify: bool | None = None
    instance_groups: Names = None
    access: Access = None
    slices: int | None = None
    extra_vars: t.Mapping[str, t.Any] = field(default_factory=dict)

    def over(self, base: Settings) -> Settings:
        """Return these settings, with those of ``base`` for what is not set. Extra variables are merged."""
        given = {key: value for key, value in vars(self).items() if value is not None and key != "extra_vars"}
        return replace(base, extra_vars={**base.extra_vars, **self.extra_vars}, **given)


@dataclass(frozen=True)
class Fabric:
    """A fabric in the data file.

    ``credentials``: for every template that logs in to nodes; ``cluster``: for those that use the cluster. ``reports``
    and ``manifests``: directories that persist after jobs, because AWX mounts the same ones in all of them.
    """

    file: str
    credentials: tuple[str, ...]
    cluster: str | None
    schedules: t.Mapping[str, Schedule] = field(default_factory=dict)
    reports: str = ""
    manifests: str = ""
    inventory_cache: int = 0
    webhook: Webhook | None = None
    labels: Names = None
    instance_groups: Names = None
    access: Access = None
    templates: t.Mapping[str, Settings] = field(default_factory=dict)


@dataclass(frozen=True)
class Notification:
    """A notification. ``on``: the events for which it is sent."""

    type: str
    on: tuple[str, ...]
    settings: t.Mapping[str, t.Any]


@dataclass(frozen=True)
class Data:
    """The contents of the data file."""

    organization: str
    create_organization: bool
    prefix: str
    project: Project
    environment: Environment
    credentials: t.Mapping[str, Credential]
    fabrics: t.Mapping[str, Fabric]
    templates: t.Mapping[str, Settings]
    notifications: t.Mapping[str, Notification]
    approval: Approval = field(default_factory=Approval)
    labels: Names = None
    instance_groups: Names = None
    access: Access = None

    def settings(self, fabric: str, template: str) -> Settings:
        """Return the settings of a template for a fabric: the fabric's own override those for all fabrics."""
        own = self.fabrics[fabric].templates.get(template, Settings())
        return own.over(self.templates.get(template, Settings()))


def rrule(schedule: Schedule) -> str:
    """Return the schedule in AWX's format. It starts on a past day, so that a second run finds it unchanged."""
    at = datetime.datetime.strptime(schedule.at, "%H:%M")
    start = "DTSTART;TZID=%s:20260101T%s" % (schedule.timezone, at.strftime("%H%M%S"))
    if not schedule.days:
        return start + " RRULE:FREQ=DAILY;INTERVAL=1"
    return start + " RRULE:FREQ=WEEKLY;INTERVAL=1;BYDAY=%s" % ",".join(schedule.days).upper()
