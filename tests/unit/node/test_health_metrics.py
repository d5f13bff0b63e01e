# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Metrics of a state of the health service: their names, labels and values are an interface."""

from __future__ import annotations

from ansible_collections.railyard.fabric.plugins.module_utils._node.health import health_metrics
from tests.unit.node.health_states import NOW, finding, rail, state

PLANES = [{"plane": 0, "state": "pass"}, {"plane": 1, "state": "fail"}]
PROBE = {"sent": 100, "received": 99, "loss": 0.01, "rtt_us": 12.5, "tail_us": 40, "peers": {}}


def test_the_samples_of_a_state() -> None:
    lost = [finding("RV422", name="plane-lost", plane=1), finding("RV422", name="plane-lost", plane=1)]
    document = state(
        rail(probe=PROBE),
        rail(2, degraded=True, planes=PLANES, findings=lost),
        rail(3, "fail", findings=[finding()]),
        rail(4, "unknown"),
        problems=["no LLDP socket"],
    )
    text = health_metrics.text(document)
    samples = [line.replace('fabric="ai",node="hgx-1"', "*") for line in text.splitlines() if line[0] != "#"]
    assert samples == [
        'railyard_health_info{*,version="0.2.0"} 1',
        "railyard_health_ready{*} 1",
        "railyard_health_updated_timestamp_seconds{*} %r" % (NOW - 2),
        "railyard_health_problems{*} 1",
        'railyard_health_rail_state{*,rail="gpu01"} 0',
        'railyard_health_rail_state{*,rail="gpu02"} 0',
        'railyard_health_rail_state{*,rail="gpu02",plane="0"} 0',
        'railyard_health_rail_state{*,rail="gpu02",plane="1"} 2',
        'railyard_health_rail_state{*,rail="gpu03"} 2',
        'railyard_health_rail_state{*,rail="gpu04"} 1',
        'railyard_health_rail_degraded{*,rail="gpu01"} 0',
        'railyard_health_rail_degraded{*,rail="gpu02"} 1',
        'railyard_health_rail_degraded{*,rail="gpu03"} 0',
        'railyard_health_rail_degraded{*,rail="gpu04"} 0',
        *(
            'railyard_health_rail_changed_timestamp_seconds{*,rail="gpu0%d"} %r' % (number, NOW - 60)
            for number in (1, 2, 3, 4)
        ),
        'railyard_health_probe_sent_total{*,rail="gpu01"} 100',
        'railyard_health_probe_received_total{*,rail="gpu01"} 99',
        'railyard_health_probe_loss_ratio{*,rail="gpu01"} 0.01',
        'railyard_health_probe_rtt_seconds{*,rail="gpu01"} 1.25e-05',
        'railyard_health_probe_tail_seconds{*,rail="gpu01"} 4e-05',
        'railyard_health_rail_finding{*,rail="gpu02",plane="1",code="RV422",name="plane-lost"} 1',
        'railyard_health_rail_finding{*,rail="gpu03",code="RV402",name="link-down"} 1',
    ]
    # one help and one type for each metric, whose samples follow together
    assert text.count("# HELP") == text.count("# TYPE") == len({line.partition("{")[0] for line in samples})
