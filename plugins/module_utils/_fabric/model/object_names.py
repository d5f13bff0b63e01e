# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""The names of Kubernetes objects: decided here once, from templates, and safe for every provider at once.

A resource's name is a socket's and a metric's too, so it has no hyphen (k8s-rdma-shared-dev-plugin and the SR-IOV
operator take ``[a-zA-Z0-9_]``); a network's is in pods' annotations, which take labels without dots.
"""

from __future__ import annotations

import re
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.allocate.address_planner import SUBNET
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.fabric_model import Rail
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.provider_facts import facts_of
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.name_syntax import RailTemplates, Template

_RAIL = ("rail", "fabric", "attachment")
# Kind -> the numbers and the texts that its template may have.
FIELDS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "resource_prefix": ((), ()),
    "resource": (("n", "p", "k"), _RAIL + ("profile",)),
    "network": (("n", "p", "k"), _RAIL + ("profile",)),
    "namespace": ((), ("fabric",)),
    "pool": (("n", "p", "k", "i"), _RAIL + ("profile", "node")),
    "pool6": (("n", "p", "k", "i"), _RAIL + ("profile", "node")),
    "policy": (("n", "p", "k"), _RAIL + ("profile",)),
    "interface": (("n", "p", "k"), ()),
}

_LABEL = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
# Kubernetes limits the whole name, and not what is between its dots.
_PART = r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?"
_SUBDOMAIN = (
    re.compile(r"(?=.{1,253}\Z)%s(?:\.%s)*\Z" % (_PART, _PART)),
    "at most 253 lower-case letters, digits, hyphens and dots, a letter or digit first and last and beside each dot",
)
# Kind -> what it may look like, and how to say that.
SHAPES: dict[str, tuple[t.Pattern[str], str]] = {
    "resource_prefix": (
        # Kubernetes puts requests. before it for quotas, and takes what ends with kubernetes.io for its own
        re.compile(r"(?!requests\.)(?!.*kubernetes\.io\Z)(?=.{1,244}\Z)%s(?:\.%s)*\Z" % (_LABEL, _LABEL)),
        "a DNS name of at most 244 lower-case letters, digits, hyphens and dots, not beginning with requests. and not"
        " ending with kubernetes.io",
    ),
    "resource": (
        re.compile(r"[a-z0-9](?:[a-z0-9_]{0,61}[a-z0-9])?\Z"),
        "at most 63 lower-case letters, digits and underscores, a letter or digit first and last",
    ),
    "network": (re.compile(_LABEL + r"\Z"), "at most 63 lower-case letters, digits and hyphens, no dots"),
    "namespace": (re.compile(_LABEL + r"\Z"), "at most 63 lower-case letters, digits and hyphens, no dots"),
    "pool": _SUBDOMAIN,
    "pool6": _SUBDOMAIN,
    "policy": _SUBDOMAIN,
    "interface": (
        re.compile(r"(?!eth0\Z|lo\Z)[a-z0-9](?:[a-z0-9_.-]{0,14})\Z"),
        "at most 15 lower-case letters, digits, hyphens, dots and underscores; not eth0, which pods have",
    ),
}


def default(kind: str, provider: str | None, mode: str | None = None) -> str:
    """The template of a kind that the file does not name."""
    if kind == "resource_prefix":
        return facts_of(provider).resource_prefix
    if kind == "namespace":
        return facts_of(provider).namespace
    if kind == "pool":
        own = mode not in (None, SUBNET) and facts_of(provider).pool_per_node
        return "{fabric}-{rail}-{node}" if own else "{fabric}-{rail}"
    return {
        "resource": "{rail}_{attachment}",
        "network": "{rail}-{attachment}",
        "policy": "{fabric}-{rail}-{profile}",
        "interface": "net{k}",
    }[kind]


class Naming:
    """The names of one fabric's objects.

    :param templates: kind -> the template in the file, or those by rail.
    """

    def __init__(
        self, fabric: str | None, provider: str | None, templates: t.Mapping[str, Template | RailTemplates]
    ) -> None:
        self._fabric = fabric or ""
        self._provider = provider
        self._given = templates
        self._templates: dict[tuple[str, str | None], Template | RailTemplates] = {}

    def template(self, kind: str, mode: str | None = None) -> Template | RailTemplates:
        """The template of a kind, for pools that of an address mode."""
        if kind in self._given:
            return self._given[kind]
        key = (kind, mode if kind in ("pool", "pool6") else None)
        if key not in self._templates:
            numbers, texts = FIELDS[kind]
            # A prefix: a wildcard over the IPv4 pools of a rail, such as ai-gpu01-*, must not catch it.
            text = self.template("pool", mode).text if kind == "pool6" else default(kind, self._provider, mode)
            prefix = "v6-" if kind == "pool6" else ""
            if isinstance(text, str):
                self._templates[key] = Template(prefix + text, numbers, texts)
            else:
                own = {rail: Template(prefix + each, numbers, texts) for rail, each in text.items()}
                self._templates[key] = RailTemplates(own)
        return self._templates[key]

    def pools(self, families: t.Collection[int]) -> list[str]:
        """The kinds of pools that a rail with these families has."""
        return [kind for bits, kind in ((32, "pool"), (128, "pool6")) if bits in families]

    def own_pools(self, kind: str, mode: str | None) -> bool:
        """Whether each node has a pool of its own by the template."""
        return bool(self.template(kind, mode).fields & {"node", "i"})

    def common(self, kind: str) -> str:
        """A name that the whole fabric has: ``resource_prefix`` or ``namespace``."""
        return self.template(kind).fill({"fabric": self._fabric})

    def values(self, rail: Rail, attachment: str, profile: str) -> dict[str, t.Any]:
        """What templates of a port are filled with; a pool's has ``node`` and ``i``, the node's index, besides."""
        return {
            "rail": rail.name,
            "n": rail.base_number,
            "k": rail.number,
            "p": rail.plane,
            "fabric": self._fabric,
            "attachment": attachment,
            "profile": profile,
        }

    def name(self, kind: str, values: t.Mapping[str, t.Any], mode: str | None = None) -> str:
        if kind == "resource":
            # What is filled in may have hyphens, which a resource may not; the template's own are its author's.
            values = {key: each.replace("-", "_") if isinstance(each, str) else each for key, each in values.items()}
        return self.template(kind, mode).fill(values)
