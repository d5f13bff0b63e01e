# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""States of the health service, as documents of its state file."""

from __future__ import annotations

import json
import time
import typing as t
from pathlib import Path

from ansible_collections.railyard.fabric.plugins.module_utils._node.health import health_check, health_state

BOOT = "0b1d6f0e-6a57-4b5c-9a53-6f6a8f0f2a11"
NOW = 1_795_000_000.0
Row = t.Dict[str, t.Any]


def finding(code: str = "RV402", **changed: t.Any) -> Row:
    row = {"code": code, "name": "link-down", "title": "The link is down", "what": "rail1", "since": NOW - 60}
    row.update(expected="carrier", found="no carrier", plane=None, peer=None, cause="a cable", remedy="look at leaf1")
    return dict(row, **changed)


def rail(number: int = 1, state: str = "pass", **changed: t.Any) -> Row:
    row = {"rail": "gpu%02d" % number, "state": state, "degraded": False, "since": NOW - 60, "findings": []}
    return {**row, "planes": [], "probe": None, **changed}


def state(*rails: Row, **changed: t.Any) -> Row:
    row = {"format": 1, "version": "0.2.0", "fabric": "ai", "node": "hgx-1", "boot_id": BOOT, "began": NOW - 900}
    row.update(updated=NOW - 2, ready=True, rails=list(rails), problems=[])
    return dict(row, **changed)


def put(root: Path, document: t.Any, now: float | None = None) -> Path:
    """Write a state below ``root``, with the boot ID of this machine if ``now`` is None, and its age of 2 s."""
    if now is None:
        boot = Path(health_check.BOOT_ID).read_text().strip()
        document = dict(document, updated=time.time() - 2, boot_id=boot)
    target = root / health_state.FILE.lstrip("/")
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(document if isinstance(document, str) else json.dumps(document))
    return target
