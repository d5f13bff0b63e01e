# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""MAC addresses and GUIDs of VFs that differ from those of the plan."""

from __future__ import annotations

import itertools
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.discover.discover_findings import Findings
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.discover.server_models import Model
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model import vf_identity
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.fabric_model import Fabric


def report_vf_identities(
    fabric: Fabric, models: t.Sequence[Model], infiniband: t.Container[str], findings: Findings
) -> None:
    """Report VFs whose addresses are not those that the plan derives from the seed of the fabric."""
    seed = fabric.mac_seed or fabric.name or ""
    for model, guids in itertools.product(models, (False, True)):
        make, key = (vf_identity.guid, "port_guid") if guids else (vf_identity.mac, "mac")
        rails = {rail: port for rail, port in model.rails.items() if guids == (rail in infiniband)}
        odd = [
            node.name
            for node in model.nodes
            if any(
                vf.get(key) and vf[key] != make(seed, node.name, rail, at)
                for rail, port in rails.items()
                for at, vf in enumerate(node.nics[port].vfs)
            )
        ]
        if odd:
            message = "VFs have other %s than those derived from the seed %s" % (
                "GUIDs" if guids else "MAC addresses",
                seed,
            )
            remedy = "set the name or mac_seed that they were derived from, or let hosts.yml change them"
            findings.add("DS404", ("fabric",), message, remedy, odd)
