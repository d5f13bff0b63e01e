# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The Prometheus text format.

Source: https://prometheus.io/docs/instrumenting/exposition_formats/.
"""

from __future__ import annotations

import typing as t

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
Labels = t.Mapping[str, str]


class Exposition:
    """Collects samples of metrics, and writes them as text."""

    def __init__(self) -> None:
        self._metrics: dict[str, tuple[str, str, list[str]]] = {}

    def add(self, name: str, kind: str, help_text: str, value: float, labels: Labels | None = None) -> None:
        """Add a sample. ``kind``: ``gauge`` or ``counter``. Kind and help are those of the metric's first sample."""
        pairs = ",".join('%s="%s"' % (key, _escaped(text)) for key, text in (labels or {}).items())
        number = repr(value) if isinstance(value, float) else str(value)
        sample = "%s%s %s\n" % (name, "{%s}" % pairs if pairs else "", number)
        self._metrics.setdefault(name, (kind, help_text, []))[2].append(sample)

    def text(self) -> str:
        return "".join(
            "# HELP %s %s\n# TYPE %s %s\n%s" % (name, help_text, name, kind, "".join(samples))
            for name, (kind, help_text, samples) in self._metrics.items()
        )


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
