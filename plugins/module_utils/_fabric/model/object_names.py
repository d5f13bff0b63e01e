# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Names of Kubernetes objects, from templates, valid for every provider.

The name of a resource is also that of a socket and of a metric, so it has no hyphen (k8s-rdma-shared-dev-plugin and the
SR-IOV operator accept ``[a-zA-Z0-9_]``). Annotations of pods contain the names of networks, as labels without dots.
"""

from __future__ import annotations

import re
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.allocate.address_schemes import SUBNET
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.fabric_model import Rail
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.provider_facts import facts_of
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.ip_integers import IPV4, IPV6
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.name_syntax import RailTemplates, Template

_RAIL = ("rail", "fabric", "attachment")
# Kind -> the fields for numbers and for texts that are valid in its template.
FIELDS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "resource_prefix": ((), ()),
    "resource": (("n", "c", "p", "k"), _RAIL + ("profile",)),
    "network": (("n", "c", "p", "k"), _RAIL + ("profile",)),
    "namespace": ((), ("fabric",)),
    "pool": (("n", "c", "p", "k", "i"), _RAIL + ("profile", "node")),
    "pool6": (("n", "c", "p", "k", "i"), _RAIL + ("profile", "node")),
    "policy": (("n", "c", "p", "k"), _RAIL + ("profile",)),
    "interface": (("n", "c", "p", "k"), ()),
}

_LABEL = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
# Kubernetes limits the length of the name, not that of the parts between dots.
_PART = r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?"
_SUBDOMAIN = (
    re.compile(r"(?=.{1,253}\Z)%s(?:\.%s)*\Z" % (_PART, _PART)),
    "at most 253 lower-case letters, digits, hyphens and dots, with a letter or digit at both ends and beside each dot",
)
# Kind -> pattern of valid names, and its description in words.
SHAPES: dict[str, tuple[t.Pattern[str], str]] = {
    "resource_prefix": (
        # Kubernetes adds the prefix requests. for quotas, and reserves names that end with kubernetes.io.
        re.compile(r"(?!requests\.)(?!.*kubernetes\.io\Z)(?=.{1,244}\Z)%s(?:\.%s)*\Z" % (_LABEL, _LABEL)),
        "a DNS name of at most 244 lower-case letters, digits, hyphens and dots, not beginning with requests. and not"
        " ending with kubernetes.io",
    ),
    "resource": (
        re.compile(r"[a-z0-9](?:[a-z0-9_]{0,61}[a-z0-9])?\Z"),
        "at most 63 lower-case letters, digits and underscores, with a letter or digit at both ends",
    ),
    "network": (re.compile(_LABEL + r"\Z"), "at most 63 lower-case letters, digits and hyphens, no dots"),
    "namespace": (re.compile(_LABEL + r"\Z"), "at most 63 lower-case letters, digits and hyphens, no dots"),
    "pool": _SUBDOMAIN,
    "pool6": _SUBDOMAIN,
    "policy": _SUBDOMAIN,
    "interface": (
        re.compile(r"(?!eth0\Z|lo\Z)[a-z0-9](?:[a-z0-9_.-]{0,14})\Z"),
        "at most 15 lower-case letters, digits, hyphens, dots and underscores; not eth0 or lo, which pods have already",
    ),
}


def default(kind: str, provider: str | None, mode: str | None = None) -> str:
    """Return the default template of a kind. ``mode``: the address mode, for pools."""
    if kind == "resource_prefix":
        return facts_of(provider).resource_prefix
    if kind == "namespace":
        return facts_of(provider).namespace
    if kind == "pool":
        per_node = mode not in (None, SUBNET) and facts_of(provider).pool_per_node
        return "{fabric}-{rail}-{node}" if per_node else "{fabric}-{rail}"
    return {
        "resource": "{rail}_{attachment}",
        "network": "{rail}-{attachment}",
        "policy": "{fabric}-{rail}-{profile}",
        "interface": "net{k}",
    }[kind]


class Naming:
    """The names of a fabric's objects.

    :param templates: kind -> its template in the file, or its templates by rail.
    """

    def __init__(
        self, fabric: str | None, provider: str | None, templates: t.Mapping[str, Template | RailTemplates]
    ) -> None:
        self._fabric = fabric or ""
        self._provider = provider
        self._file_templates = templates
        self._templates: dict[tuple[str, str | None], Template | RailTemplates] = {}

    def template(self, kind: str, mode: str | None = None) -> Template | RailTemplates:
        """Return the template of a kind. ``mode``: the address mode, for pools."""
        if kind in self._file_templates:
            return self._file_templates[kind]
        key = (kind, mode if kind in ("pool", "pool6") else None)
        if key not in self._templates:
            numbers, texts = FIELDS[kind]
            # A prefix, so that a wildcard for the IPv4 pools of a rail, such as ai-gpu01-*, does not match the pool.
            text = self.template("pool", mode).text if kind == "pool6" else default(kind, self._provider, mode)
            prefix = "v6-" if kind == "pool6" else ""
            if isinstance(text, str):
                self._templates[key] = Template(prefix + text, numbers, texts)
            else:
                by_rail = {rail: Template(prefix + own, numbers, texts) for rail, own in text.items()}
                self._templates[key] = RailTemplates(by_rail)
        return self._templates[key]

    def pools(self, families: t.Collection[int]) -> list[str]:
        """Return the kinds of pools of a rail with these families."""
        return [kind for bits, kind in ((IPV4, "pool"), (IPV6, "pool6")) if bits in families]

    def own_pools(self, kind: str, mode: str | None) -> bool:
        """Return whether the template makes a pool for each node."""
        return bool(self.template(kind, mode).fields & {"node", "i"})

    def common(self, kind: str) -> str:
        """Return a name that all rails share: ``resource_prefix`` or ``namespace``."""
        return self.template(kind).fill({"fabric": self._fabric})

    def values(self, rail: Rail, attachment: str, profile: str) -> dict[str, t.Any]:
        """Return the values for templates of a port. Those of a pool need also ``node`` and ``i``, the node's index."""
        return {
            "rail": rail.name,
            "n": rail.base_number,
            "k": rail.number,
            "c": rail.nic,
            "p": rail.plane,
            "fabric": self._fabric,
            "attachment": attachment,
            "profile": profile,
        }

    def name(self, kind: str, values: t.Mapping[str, t.Any], mode: str | None = None) -> str:
        """Return the name of an object of this kind. ``mode``: the address mode, for pools."""
        if kind == "resource":
            # Values can have hyphens, which are invalid in a resource. Hyphens of the template itself are a finding.
            values = {key: text.replace("-", "_") if isinstance(text, str) else text for key, text in values.items()}
        return self.template(kind, mode).fill(values)
