# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The sentences of what a module has stored below /run/railyard/until_boot."""

from __future__ import annotations

import json

from ansible_collections.railyard.fabric.plugins.module_utils._node.core.staying import from_dict


def stored(text: str | None) -> list[str]:
    """The sentences of a file. Each of its entries must be one that the collection reads."""
    entries = [from_dict(each) for each in json.loads(text or "")]
    assert None not in entries
    return [entry.text for entry in entries if entry]
