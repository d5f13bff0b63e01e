# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Slurm runs the check of rails: as its health check it drains and resumes the node, as its prolog it keeps jobs off.

slurmctld and a slurmd of Debian 13 run in namespaces of their own (tools/slurm unpacks them), with the packed program.
"""

from __future__ import annotations

import json
import subprocess
import typing as t
from pathlib import Path

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.report import slurm_check
from ansible_collections.railyard.fabric.plugins.module_utils._node.core import packed_program
from tests.functional.test_slurm import SLURM
from tests.functional.test_slurm import pytestmark as pytestmark
from tests.unit.node.health_states import finding, rail, state
from tests.unit.node.packed import reached

ENTRY = "_node.health.health_main"
NODE = "gpu-su1-01"
_CONF = """\
ClusterName=ai
SlurmctldHost=localhost(127.0.0.1)
SlurmUser=root
AuthType=auth/none
CredType=cred/none
StateSaveLocation=/tmp
SlurmctldPidFile=/tmp/slurmctld.pid
SlurmdPidFile=/tmp/slurmd.pid
SlurmdSpoolDir=/var/spool/slurmd
SchedulerType=sched/builtin
ProctrackType=proctrack/pgid
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
MailProg=/usr/bin/scontrol
SlurmdParameters=config_overrides
ReturnToService=2
%s=/etc/slurm/rail_check.sh
HealthCheckInterval=1
NodeName=gpu-su1-01 NodeHostname=localhost NodeAddr=127.0.0.1 CPUs=1 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES
"""
# $1: Slurm, $2: a folder with the configuration, states and steps. The steps end the namespace of processes.
_PROGRAM = r"""
set -eu
root=$1 work=$2
ip link set lo up
ip address add 192.0.2.1/32 dev lo
mount --bind /dev "$root/dev"
mount -t proc proc "$root/proc"
for place in var run usr/local; do
  mkdir -p "$root/$place"
  mount -t tmpfs -o mode=755 tmpfs "$root/$place"
done
mount --bind "$work/state" "$root/tmp"
mount --bind "$work/slurm" "$root/etc/slurm"
mount --bind "$work/hosts" "$root/etc/hosts"
mkdir -p "$root/usr/local/bin" "$root/var/lib" "$root/var/spool/slurmd" "$root/run/railyard/health"
cp "$work/health.pyz" "$root/usr/local/bin/health.pyz"
printf '#!/bin/sh\nexec /usr/bin/python3 -I /usr/local/bin/health.pyz "$@"\n' >"$root/usr/local/bin/railyard-health"
chmod 755 "$root/usr/local/bin/railyard-health"
inside() { chroot "$root" "$@"; }
node() { inside /usr/bin/scontrol --oneliner show node gpu-su1-01; }
put() {
  sed "s/\"BOOT\"/\"$(cat /proc/sys/kernel/random/boot_id)\"/; s/\"NOW\"/$(date +%s)/" "$work/$1.json" >"$work/put"
  cp "$work/put" "$root/run/railyard/health/new"
  mv "$root/run/railyard/health/new" "$root/run/railyard/health/state.json"
}
# until the command prints a line with the text, for at least 30 s
until_line() {
  text=$1
  shift
  for _ in $(seq 300); do
    "$@" >"$work/line" 2>&1 || true
    if grep -q -- "$text" "$work/line"; then return 0; fi
    sleep 0.1
  done
  echo "no '$text' in:" >&2
  cat "$work/line" "$work/slurmd.log" >&2
  exit 1
}
put pass
inside /usr/sbin/slurmctld -D -c -v >"$work/log" 2>&1 &
until_line "is UP" inside /usr/bin/scontrol ping
inside /usr/sbin/slurmd -D -N gpu-su1-01 -v >"$work/slurmd.log" 2>&1 &
until_line "State=IDLE " node
. "$work/steps"
echo "all steps are done"
"""
_HEALTH_CHECK = r"""
put fail
until_line "State=IDLE+DRAIN .*Reason=railyard: fail: node hgx-1: 1 of 2 rails pass, 1 of 2 rails fail" node
cat "$work/line"
put pass
until_line "State=IDLE " node
# an administrator's reason stays
put fail
until_line "State=IDLE+DRAIN " node
inside /usr/bin/scontrol update NodeName=gpu-su1-01 State=DRAIN Reason=replace
put pass
for _ in 1 2 3 4 5; do put pass; sleep 1; done
until_line "State=IDLE+DRAIN .*Reason=replace" node
[ ! -e "$root/var/lib/railyard/slurm-drained" ]
"""
_PROLOG = r"""
put pass
inside /usr/bin/srun --immediate=20 /usr/bin/true
put fail
number=$(inside /usr/bin/sbatch --parsable --requeue --output=/tmp/out --wrap "echo started")
until_line "State=IDLE+DRAIN .*Reason=Prolog error" node
until_line "JobState=PENDING Reason=launch_failed_requeued_held" inside /usr/bin/scontrol --oneliner show job "$number"
[ ! -e "$root/tmp/out" ]
put pass
inside /usr/bin/scontrol update NodeName=gpu-su1-01 State=RESUME
inside /usr/bin/scontrol release "$number"
inside /usr/bin/scontrol update "JobId=$number" StartTime=now
put pass
until_line "JobState=COMPLETED" inside /usr/bin/scontrol --oneliner show job "$number"
grep started "$root/tmp/out"
# without a state, jobs do not start
rm "$root/run/railyard/health/state.json"
inside /usr/bin/sbatch --requeue --output=/tmp/out2 --wrap "echo started"
until_line "State=IDLE+DRAIN .*Reason=Prolog error" node
[ ! -e "$root/tmp/out2" ]
"""


def states() -> dict[str, dict[str, t.Any]]:
    changing = {"boot_id": "BOOT", "updated": "NOW"}
    bad = rail(2, "fail", findings=[finding()])
    return {"pass": state(rail(), rail(2), **changing), "fail": state(rail(), bad, **changing)}


@pytest.mark.parametrize("steps, option", [(_HEALTH_CHECK, "HealthCheckProgram"), (_PROLOG, "Prolog")])
def test_slurm_follows_the_rails(tmp_path: Path, steps: str, option: str) -> None:
    for name in ("state", "slurm"):
        (tmp_path / name).mkdir()
    script = tmp_path / "slurm" / "rail_check.sh"
    document = {"fabric": {"name": "ai", "health": {"interval": 5}}, "nodes": [{"name": NODE}]}
    script.write_text(slurm_check.files(document)[slurm_check.FILE])
    script.chmod(0o755)
    (tmp_path / "slurm" / "slurm.conf").write_text(_CONF % option)
    (tmp_path / "slurm" / "cgroup.conf").write_text("CgroupPlugin=disabled\n")
    (tmp_path / "hosts").write_text("127.0.0.1 localhost %s\n" % NODE)
    (tmp_path / "health.pyz").write_bytes(packed_program.pack(sorted(reached(ENTRY)), ENTRY))
    (tmp_path / "steps").write_text(steps)
    for name, content in states().items():
        (tmp_path / (name + ".json")).write_text(json.dumps(content))
    alone = ["unshare", "--mount", "--net", "--uts", "--pid", "--fork", "--kill-child"]
    done = subprocess.run(
        [*alone, "bash", "-c", "hostname localhost\n" + _PROGRAM, "trial", str(SLURM), str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("all steps are done\n")


def test_fabrics_without_the_health_service_have_no_check() -> None:
    assert slurm_check.files({"fabric": {"name": "ai"}, "nodes": [{"name": NODE}]}) == {}
