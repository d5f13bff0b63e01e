# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""All presets by name."""

from __future__ import annotations

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.presets import (
    nvidia_dgx,
    nvidia_hgx,
    oracle_cloud,
    servers,
    virtual_machines,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.presets.preset import Preset

ALL: tuple[Preset, ...] = (
    *nvidia_dgx.PRESETS,
    *nvidia_hgx.PRESETS,
    *servers.PRESETS,
    *oracle_cloud.PRESETS,
    *virtual_machines.PRESETS,
)
# Name -> preset. Several names can have one preset.
PRESETS: dict[str, Preset] = {name: preset for preset in ALL for name in preset.names}
