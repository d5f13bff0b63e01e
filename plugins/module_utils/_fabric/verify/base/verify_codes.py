# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The registry of the codes of verify and drift."""

from __future__ import annotations

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.base.failure_codes import LAYERS, Code
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.base.node_codes import NODE_CODES
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.base.traffic_codes import TRAFFIC_CODES

CODES = {code.code: code for code in (*NODE_CODES, *TRAFFIC_CODES)}


def after(code: Code) -> tuple[str, ...]:
    """Return the layers that are not checked on a rail after a failure with this code."""
    return LAYERS[code.layer].after if code.after is None else code.after


def may_stop(code: Code, layer: str) -> bool:
    """Return whether a failure can be the reason why traffic of a layer fails on its rail.

    Then the traffic's failure is not reported.
    """
    return code.layer == "address" or layer in after(code)


def label(code: str) -> str:
    """Return a code as people see it. A code that is not in the registry, as in an older verdict, is unchanged."""
    return CODES[code].label if code in CODES else code
