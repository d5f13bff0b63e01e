# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The host phase killed at random moments: the next run converges, and no node loses its connection.

RAILYARD_INTERRUPTIONS sets how often (`make soak` asks for 20); RAILYARD_SEED repeats a run's moments.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
import typing as t

import pytest

from tests.integration.conftest import LAB, Node
from tests.playbook import ROOT, kill, start

pytestmark = pytest.mark.lab

INVENTORY = "inventories/lab-sriov"
NODES = ("node-1", "node-2")
TIMES = int(os.environ.get("RAILYARD_INTERRUPTIONS", "1"))
SEED = int(os.environ.get("RAILYARD_SEED", str(random.randrange(10**6))))

# All that the host phase lays down, taken away with other tools than the collection's.
PRISTINE = """
systemctl disable -q railyard-boot.service 2>/dev/null
rm -rf /etc/railyard /var/lib/railyard /usr/local/lib/railyard /etc/systemd/system/railyard-boot.service
rm -f /etc/systemd/network/*railyard* /etc/sysctl.d/*railyard* /etc/modprobe.d/*railyard* /etc/modules-load.d/*railyard*
for link in $(ls /sys/class/infiniband); do rdma link delete "$link"; done
rdma system set netns shared
for n in 1 2 3 4 5 6 7 8; do
  echo 1 > /sys/bus/pci/devices/0000:0$n:00.0/sriov_drivers_autoprobe
  echo 0 > /sys/bus/pci/devices/0000:0$n:00.0/sriov_numvfs
  while ip rule del priority $((10000 + n)) 2>/dev/null; do :; done
  ip route flush table $((100 + n)) 2>/dev/null
  ip address flush dev enp${n}s0
  ip link set enp${n}s0 down mtu 1500
done
rm -f /etc/tmpfiles.d/*railyard*
echo 0 > /sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages
systemctl daemon-reload
networkctl reload
true
"""


def converge() -> str:
    run = start("playbooks/hosts.yml", INVENTORY, RAILYARD_LAB=LAB)
    out, _none = run.communicate(timeout=600)
    assert run.returncode == 0, out
    return out


def check_state() -> None:
    done = subprocess.run(
        [sys.executable, "molecule/shared/check_state.py", INVENTORY],
        cwd=ROOT,
        env=dict(os.environ, RAILYARD_LAB=LAB),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def duration(node: t.Callable[[str], Node]) -> t.Iterator[float]:
    """Seconds that the host phase takes from a pristine node; the nodes are left pristine."""
    for name in NODES:
        node(name).run(PRISTINE)
    begin = time.monotonic()
    converge()
    seconds = time.monotonic() - begin
    check_state()
    yield seconds
    for name in NODES:
        node(name).run(PRISTINE)


@pytest.mark.parametrize("number", range(TIMES))
def test_a_killed_run_is_fixed_by_the_next(node: t.Callable[[str], Node], duration: float, number: int) -> None:
    moment = random.Random(SEED + number).uniform(0.05, 0.95) * duration
    print("killed after %.1f of %.1f s; RAILYARD_SEED=%d" % (moment, duration, SEED))
    boots = {name: node(name).boot_id() for name in NODES}
    for name in NODES:
        node(name).run(PRISTINE)
    run = start("playbooks/hosts.yml", INVENTORY, RAILYARD_LAB=LAB)
    time.sleep(moment)
    kill(run)
    for name in NODES:
        node(name).run("pkill -9 -x python3; true")
        assert node(name).boot_id() == boots[name]
    converge()
    check_state()


def test_after_all_of_it_a_second_run_changes_nothing(duration: float) -> None:
    converge()
    out = converge()
    assert "changed=0" in out
    assert "changed=1" not in out
