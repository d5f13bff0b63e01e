# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""``playbooks/collectives.yml`` with Open MPI: two ranks in two network namespaces, and what a user sees if it fails.

Open MPI and mpi4py of Debian 13 (``tools/mpi`` unpacks them) run over TCP. A script instead of ssh starts the daemon of
Open MPI in the namespace of the other node.
"""

from __future__ import annotations

import json
import os
import typing as t
from pathlib import Path

import pytest

from tests.playbook import PROGRAMS, Played, kill, play, start
from tests.upstream import ROOT
from tests.waiting import wait_for

LAB = ROOT / "inventories/lab"
MPI = ROOT / ".cache" / "mpi"  # by tools/mpi
pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(
        not (MPI / "usr/bin/mpirun").exists() or os.geteuid() != 0,
        reason="no Open MPI here: tools/mpi unpacks it, and root runs it",
    ),
]

# ROOT: Open MPI. FOLDER: of the test.
_MPIRUN = r"""#!/bin/bash
set -eu
[ "${INSIDE:-}" ] || INSIDE=1 exec unshare --mount --net --uts --pid --fork --kill-child --mount-proc \
  "$0" "$@"
root=ROOT folder=FOLDER
hostname node-1
for kind in dev proc sys; do mkdir -p "$root/$kind"; done
mount --bind /dev "$root/dev"
mount -t proc proc "$root/proc"
mount -t sysfs sysfs "$root/sys"
mount -t tmpfs tmpfs /run
ip netns add node-2
mount --bind /run/netns/node-2 "$folder/tmp/net"
mount --rbind "$folder/tmp" "$root/tmp"
mount --bind "$folder/hosts" "$root/etc/hosts"
ip link set lo up
ip link add rail type veth peer name rail netns node-2
ip address add 192.0.2.1/24 dev rail
ip link set rail up
ip -n node-2 address add 192.0.2.2/24 dev rail
ip -n node-2 link set lo up
ip -n node-2 link set rail up
exec chroot "$root" env TMPDIR=/tmp PATH=/usr/bin:/usr/sbin:/tmp /usr/bin/mpirun "$@"
"""
_SSH = r"""#!/bin/sh
while [ "${1#-}" != "$1" ]; do shift; done
host=$1
shift
if [ "$host" != node-2 ] || [ -e /tmp/off ]; then
  echo "ssh: connect to host $host port 22: No route to host" >&2
  exit 255
fi
exec nsenter --net=/tmp/net unshare --uts sh -c "hostname node-2; $*"
"""


class Cluster(t.NamedTuple):
    """Two nodes. ``folder`` has the scripts and the reports."""

    folder: Path

    def options(self, **given: t.Any) -> dict[str, t.Any]:
        """Return the variables of a run."""
        return {
            "ansible_connection": "local",
            "collectives_memory": "host",
            "collectives_min_bytes": 1 << 20,
            "collectives_max_bytes": 4 << 20,
            "collectives_iterations": 2,
            "collectives_arguments": ["--mca", "plm_rsh_agent", "/tmp/ssh"],
            "verify_report_dir": str(self.folder / "reports"),
            **given,
        }

    @property
    def env(self) -> dict[str, str]:
        path = "%s:%s:%s" % (PROGRAMS, self.folder, os.environ["PATH"])
        return {"PATH": path, "ANSIBLE_STDOUT_CALLBACK": "railyard.fabric.rails"}

    def run(self, **given: t.Any) -> tuple[Played, dict[str, t.Any]]:
        """Run the playbook, and return how it ended and ``collectives.json``."""
        done = play("playbooks/collectives.yml", inventory=LAB, given=self.options(**given), env=self.env)
        return done, json.loads((self.folder / "reports/collectives.json").read_text())


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    (tmp_path / "tmp").mkdir()
    (tmp_path / "tmp/net").touch()
    (tmp_path / "hosts").write_text("127.0.0.1 localhost\n192.0.2.1 node-1\n192.0.2.2 node-2\n")
    text = _MPIRUN.replace("ROOT", str(MPI)).replace("FOLDER", str(tmp_path))
    for path, script in ((tmp_path / "mpirun", text), (tmp_path / "tmp/ssh", _SSH)):
        path.write_text(script)
        path.chmod(0o755)
    return Cluster(tmp_path)


def codes(document: dict[str, t.Any]) -> list[tuple[str, str | None]]:
    return [(each["state"], each["code"]) for each in document["tests"]]


def running(folder: Path) -> list[str]:
    """Return the processes of a test."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found.append(entry.read_bytes().replace(b"\0", b" ").decode("utf-8", "replace"))
        except OSError:
            continue
    return [each for each in found if str(folder) in each or ("all_reduce" in each and "python3 -c" in each)]


def test_collectives_between_two_nodes_are_measured_and_judged(cluster: Cluster) -> None:
    done, document = cluster.run(collectives_floor=0.001)
    assert done.returncode == 0, done.text
    assert document["state"] == "pass" and codes(document) == [("pass", None)] * 2
    assert [each["operation"] for each in document["tests"]] == ["all_reduce", "alltoall"]
    assert all(each["busbw"] > 0.001 and each["ranks"] == 2 and each["size"] == 4 << 20 for each in document["tests"])
    assert "collectives on 2 nodes (node-[1-2]): pass" in done.text
    again, second = cluster.run(collectives_floor=10000, collectives_operations="alltoall")
    assert again.returncode == 2 and codes(second) == [("fail", "RV873")], again.text
    assert "found 0." in again.text and "next:    ansible-playbook" in again.text


def test_without_a_floor_the_run_fails_unless_this_is_accepted(cluster: Cluster) -> None:
    done, document = cluster.run(collectives_operations=["all_reduce"])
    assert done.returncode == 2 and codes(document) == [("unknown", "RV876")], done.text
    assert "processors limit collectives of host memory" in done.text
    done, document = cluster.run(collectives_operations=["all_reduce"], collectives_unknown_allowed=True)
    assert done.returncode == 0 and document["state"] == "unknown", done.text


def test_a_node_that_is_not_reached_and_a_missing_program_are_unknown(cluster: Cluster) -> None:
    (cluster.folder / "tmp/off").touch()
    done, document = cluster.run(collectives_operations=["all_reduce"])
    assert done.returncode == 2 and codes(document) == [("unknown", "RV871")], done.text
    assert "a node is not reached" in document["tests"][0]["cause"], document
    (cluster.folder / "tmp/off").unlink()
    done, document = cluster.run(
        collectives_memory="gpu", collectives_gpus=1, collectives_programs={"all_reduce": "/opt/none"}
    )
    assert codes(document) == [("unknown", "RV871")] * 2, document
    assert "the launcher or the program is missing" in document["tests"][0]["cause"], document
    (cluster.folder / "mpirun").unlink()
    done, document = cluster.run(collectives_operations=["all_reduce"])
    assert codes(document) == [("unknown", "RV871")] and "mpirun" in document["tests"][0]["cause"], document


def test_after_the_time_all_processes_are_ended(cluster: Cluster) -> None:
    done, document = cluster.run(
        collectives_operations=["all_reduce"], collectives_iterations=10**6, collectives_timeout=8
    )
    assert done.returncode == 2 and codes(document) == [("fail", "RV874")], done.text
    assert "did not end within 8 s" in done.text
    wait_for(lambda: not running(cluster.folder), "the processes end")


def test_after_an_interrupted_run_the_time_ends_all_processes(cluster: Cluster) -> None:
    given = cluster.options(collectives_operations=["all_reduce"], collectives_iterations=10**6, collectives_timeout=15)
    run = start("playbooks/collectives.yml", LAB, given, **cluster.env)
    wait_for(lambda: any("mpirun" in each for each in running(cluster.folder)), "the test begins")
    kill(run)
    assert not (cluster.folder / "reports").exists()
    wait_for(lambda: not running(cluster.folder), "the processes end")
    # the next run is not disturbed
    done, document = cluster.run(collectives_floor=0.001)
    assert done.returncode == 0 and document["state"] == "pass", done.text
