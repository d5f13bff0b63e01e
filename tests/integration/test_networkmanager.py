# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bonds and VLANs on a guest whose network is managed by NetworkManager: made, changed, refused, booted and removed.

``lab/lab up --network networkmanager`` first. NetworkManager itself corrects some drift of its bonds within a second.
Drift is therefore tested with systemd-networkd only.
"""

from __future__ import annotations

import pytest

from tests.integration.conftest import Node
from tests.integration.test_stacked_ports import (  # noqa: F401
    check_boot,
    guest,
    test_a_bond_of_others_is_adopted_or_refused,
    test_a_port_with_another_master_is_refused,
    test_a_vlan_beside_the_port_itself,
    test_a_vlan_on_a_bond_is_made_changed_and_removed,
    test_another_mode_is_set_only_while_no_pod_uses_the_bond,
)

pytestmark = pytest.mark.lab_node("node-2")


def test_a_boot_restores_bonds_and_vlans(guest: Node) -> None:  # noqa: F811
    check_boot(guest, "nmcli -t -f GENERAL.STATE device show bond0.100 | grep -q :100")
