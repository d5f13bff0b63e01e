# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The fields of upstream's networks that set VF attributes.

Not here: ``link_state``, of which each kind allows other values.
"""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common import vf_attributes


class VfFields(t.NamedTuple):
    """The field of the CNI plugin sriov, of a SriovNetwork, and of a SpiderMultusConfig; empty if a kind has none."""

    plugin: str
    operator: str
    spiderpool: str = ""


VF_FIELDS = {
    "vlan": VfFields("vlan", "vlan", "vlanID"),
    "qos": VfFields("vlanQoS", "vlanQoS"),
    "min_tx_rate": VfFields("min_tx_rate", "minTxRate", "minTxRateMbps"),
    "max_tx_rate": VfFields("max_tx_rate", "maxTxRate", "maxTxRateMbps"),
    "trust": VfFields("trust", "trust"),
    "spoofchk": VfFields("spoofchk", "spoofChk"),
}
# Attributes that are numbers; the others are on or off.
NUMBERS = tuple(name for name in VF_FIELDS if vf_attributes.BY_NAME[name].kind == vf_attributes.NUMBER)
FLAGS = tuple(name for name in VF_FIELDS if name not in NUMBERS)
SWITCH = {"on": True, "off": False}
