# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Every provider by its name."""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.providers.network_operator import (
    NetworkOperator,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.providers.plain_cni import PlainCni
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.providers.provider import Provider
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.providers.rail_agent import RailAgent
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.providers.spiderpool import Spiderpool
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.provider_facts import NO_KUBERNETES


class NoKubernetes(Provider):
    """Nodes without Kubernetes: no objects, no charts, no pods."""

    facts = NO_KUBERNETES


_ALL: tuple[Provider, ...] = (Spiderpool(), NetworkOperator(), PlainCni(), RailAgent(), NoKubernetes())
PROVIDERS: t.Mapping[str, Provider] = {each.facts.name: each for each in _ALL}
