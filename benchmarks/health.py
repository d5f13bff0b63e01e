# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The health service on a healthy node: memory and processor time; on this machine's kernel, no guests.

The rails are veth pairs, and the partners of probes are addresses at their other ends. The RDMA devices are files with
the names of those of a ConnectX-7: a real driver also asks its firmware for hardware counters, which costs the service
a system call each.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

from ansible_collections.railyard.fabric.plugins.module_utils._common.health_thresholds import RDMA, THRESHOLDS
from ansible_collections.railyard.fabric.plugins.module_utils._node.core import packed_program
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.health import health_main, health_spec, health_state
from benchmarks.agent_idle import processor_seconds, resident
from benchmarks.figures import say
from tests.functional.node.own_namespace import LiveNode, in_own_namespace, ip
from tests.waiting import wait_for

SECONDS = int(os.environ.get("RAILYARD_BENCH_IDLE", "60"))
RAILS, PARTNERS = 8, 8
ROOT = Path("/run/root")


def main() -> int:
    in_own_namespace(_measure)()
    return 0


def _measure(live: LiveNode) -> None:
    rails = [_rail(live, number) for number in range(1, RAILS + 1)]
    (ROOT / "proc").symlink_to("/proc")
    (ROOT / "sys/class/net").symlink_to("/sys/class/net")
    (ROOT / "etc/railyard").mkdir(parents=True)
    probe = {
        "rate_bits": health_spec.RATE_BITS,
        "partners": {str(rail["rail"]): _partners(live, rail) for rail in rails},
    }
    document = {"format": 1, "fabric": "ai", "node": "n1", "rails": rails, "probe": probe}
    (ROOT / "etc/railyard/health.json").write_text(json.dumps(document))
    entry = health_main.__name__[len(packed_program.PACKAGE) + 1 :]
    program = ROOT / "health.pyz"
    program.write_bytes(packed_program.pack(packed_program.imported(entry), entry, compiled=True))
    command = [sys.executable, "-I", str(program), "--root", str(ROOT), "run"]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    live.at_end(process.kill)
    wait_for(lambda: (ROOT / health_state.FILE.lstrip("/")).exists())
    # the start is not part of the figures
    time.sleep(10)
    begun, sent = processor_seconds(process.pid), _sent()
    time.sleep(SECONDS)
    used, sent = processor_seconds(process.pid) - begun, _sent() - sent
    state = health_state.read_state(System(str(ROOT)))
    assert [rail.state for rail in state.rails] == ["pass"] * RAILS, state
    say("the health service, %d healthy rails: resident memory (goal: at most 60 MB)" % RAILS, resident(process.pid))
    share = "%.2f s, %.2f %% of a processor" % (used, 100 * used / SECONDS)
    say("  processor time in %d s (goal: at most 0.5 %%)" % SECONDS, share)
    # veth counts frames without their checksum of 4 bytes
    say(
        "  requests of a rail, as its interface counts them (goal: half of 10 kb/s)",
        "%.1f kb/s" % (sent / SECONDS / 1000),
    )


def _sent() -> float:
    """Return the bits that a rail has sent."""
    counters = [Path("/sys/class/net/rail%d/statistics" % number) for number in range(1, RAILS + 1)]
    frames = sum(
        8 * int((each / "tx_bytes").read_text()) + 32 * int((each / "tx_packets").read_text()) for each in counters
    )
    return frames / RAILS


def _partners(live: LiveNode, rail: dict[str, object]) -> list[dict[str, str]]:
    """Add the addresses of partners to the other end of a rail."""
    number = str(rail["netdev"])[len("rail") :]
    addresses = ["10.0.%s.%d" % (number, place) for place in range(101, 101 + PARTNERS)]
    for address in addresses:
        live.leaf("ip", "address", "add", address + "/24", "dev", "leaf" + number)
    return [{"node": "n%s" % address.rpartition(".")[2], "address": address} for address in addresses]


def _rail(live: LiveNode, number: int) -> dict[str, object]:
    """Add a rail port with an address, and the files of its RDMA device. Return the rail in the spec."""
    netdev, device, address = live.rail(number), "mlx5_%d" % number, "10.0.%d.1" % number
    ip("link", "set", netdev, "up")
    ip("address", "add", address + "/24", "dev", netdev)
    port = ROOT / "sys/class/infiniband" / device / "ports/1"
    gid = "0000:0000:0000:0000:0000:ffff:0a00:%02x01" % number
    names = [row.counters[0] for row in THRESHOLDS.values() if row.where == RDMA]
    files = {
        "state": "4: ACTIVE",
        "phys_state": "5: LinkUp",
        "rate": "400 Gb/sec (4X NDR)",
        "link_layer": "Ethernet",
        **{"counters/" + name: "0" for name in names[: len(names) // 2]},
        **{"hw_counters/" + name: "0" for name in names[len(names) // 2 :]},
        **{"gids/%d" % index: "0000:" * 7 + "0000" for index in range(256)},
        "gids/3": gid,
        "gid_attrs/types/3": "RoCE v2",
        "gid_attrs/ndevs/0": netdev,
        "gid_attrs/ndevs/3": netdev,
    }
    for name, text in files.items():
        (port / name).parent.mkdir(parents=True, exist_ok=True)
        (port / name).write_text(text + "\n")
    leaf = {"name": "leaf-%d" % number, "port": None}
    row = {"rail": "gpu%02d" % number, "netdev": netdev, "rdma": device, "mtu": 1500, "leaf": leaf}
    return dict(row, address=address + "/24")
