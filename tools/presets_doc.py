#!/usr/bin/env python3
# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write the generated part of docs/presets.md from the presets. With --check, only report whether it is up to date."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DOC = ROOT / "docs" / "presets.md"
sys.path[:0] = [str(ROOT), str(ROOT / "collections")]

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.presets.catalog import ALL  # noqa: E402
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.presets.preset import Preset  # noqa: E402
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.report import preset_tables  # noqa: E402
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.text_table import markdown  # noqa: E402
from tools import generated  # noqa: E402

BEGIN = "<!-- presets: written by tools/presets_doc.py -->\n"


def page() -> str:
    """Return the page: its written part, and the presets."""
    head, begin, _rest = DOC.read_text(encoding="utf-8").partition(BEGIN)
    if not begin:
        raise SystemExit("%s has no line %r" % (DOC.relative_to(ROOT), BEGIN))
    return head + begin + "\n" + "\n".join(["\n".join(_entry(preset)) + "\n" for preset in ALL])


def _entry(preset: Preset) -> list[str]:
    rows = preset_tables.ports(preset)
    used = [at for at in range(len(preset_tables.PORTS)) if any(row[at] not in (None, []) for row in rows)]
    head = [preset_tables.PORTS[at] for at in used]
    lines = ["### %s" % ", ".join(preset.names), "", preset.title + ".", ""]
    lines += markdown(head, [[row[at] for at in used] for row in rows])
    return [*lines, "", *["- %s" % fact for fact in preset_tables.facts(preset)]]


if __name__ == "__main__":
    sys.exit(generated.main("tools/presets_doc.py", __doc__, lambda: {DOC: page()}))
