# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The states that the health services of lab nodes have written."""

from __future__ import annotations

import json
import time
import typing as t

from tests.integration.conftest import Node
from tests.integration.modules import Row

STATE = "/run/railyard/health/state.json"


class HealthStates:
    """Nodes on which the health service runs."""

    def __init__(self, nodes: t.Mapping[str, Node]) -> None:
        self.nodes = dict(nodes)

    def state(self, name: str) -> Row:
        """Return the state that the service of a node has written, when it has read everything once."""
        row: Row = json.loads(self.nodes[name].until("grep -q '\"ready\": *true' %s && cat %s" % (STATE, STATE)))
        return row

    def rails(self, name: str) -> dict[str, Row]:
        return {row["rail"]: row for row in self.state(name)["rails"]}

    def wait(self, condition: t.Callable[[], bool], what: str) -> float:
        """Wait some minutes until a condition is true. Return the seconds that it took."""
        began = time.monotonic()
        while not condition():
            seconds = time.monotonic() - began
            assert seconds < 600, "%s: %s" % (what, self.lines())
            time.sleep(0.5)
        return time.monotonic() - began

    def lines(self) -> list[str]:
        """Return the rails that are not healthy, with their findings."""
        rows = [(name, row) for name in self.nodes for row in self.rails(name).values()]
        return [
            "%s %s %s: %s"
            % (name, row["rail"], row["state"], [(f["code"], f["found"], f["peer"]) for f in row["findings"]])
            for name, row in rows
            if row["state"] != "pass" or row["degraded"] or row["findings"]
        ]

    def healthy(self) -> bool:
        return not self.lines()
