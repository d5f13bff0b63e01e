# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Slurm itself reads the topology files: what ``scontrol show topology`` prints is compared with the plan.

A slurmctld of Debian 13 runs in namespaces of its own, without daemons on nodes (tools/slurm unpacks it).
"""

from __future__ import annotations

import os
import re
import subprocess
import typing as t
from pathlib import Path

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.lint.lint_run import lint
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.report import slurm_files
from tests.upstream import ROOT

SLURM = ROOT / ".cache" / "slurm"  # by tools/slurm
pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(
        not (SLURM / "usr/sbin/slurmctld").exists() or os.geteuid() != 0,
        reason="no Slurm here: tools/slurm unpacks it, and root runs it",
    ),
]
Document = t.Dict[str, t.Any]

_CONF = """\
ClusterName=ai
SlurmctldHost=localhost(127.0.0.1)
SlurmUser=root
AuthType=auth/none
CredType=cred/none
StateSaveLocation=/tmp
SlurmctldPidFile=/tmp/slurmctld.pid
SchedulerType=sched/builtin
ProctrackType=proctrack/pgid
MailProg=/usr/bin/scontrol
TopologyPlugin=topology/%s
%s
PartitionName=all Nodes=ALL Default=YES
"""
# $1: Slurm, $2: a folder with the configuration. An address that is not loopback, because Slurm resolves names only
# for families that the machine has.
_PROGRAM = r"""
set -eu
ip link set lo up
ip address add 192.0.2.1/32 dev lo
mount --bind /dev "$1/dev"
mount -t proc proc "$1/proc"
mount --bind "$2/state" "$1/tmp"
mount --bind "$2/slurm" "$1/etc/slurm"
mount --bind "$2/hosts" "$1/etc/hosts"
chroot "$1" /usr/sbin/slurmctld -D -c -v >"$2/log" 2>&1 &
until chroot "$1" /usr/bin/scontrol ping 2>/dev/null | grep -q "is UP"; do
  kill -0 $! || { cat "$2/log" >&2; exit 1; }
  sleep 0.1
done
chroot "$1" /usr/bin/scontrol show topology
"""


def trial(tmp_path: Path, plugin: str, topology: str, nodes: t.Sequence[str]) -> tuple[list[dict[str, str]], str]:
    """Return the rows of ``scontrol show topology``, and the log of slurmctld."""
    for name in ("state", "slurm"):
        (tmp_path / name).mkdir()
    names = "\n".join("NodeName=%s State=UNKNOWN" % node for node in nodes)
    (tmp_path / "slurm" / "slurm.conf").write_text(_CONF % (plugin, names))
    (tmp_path / "slurm" / "topology.conf").write_text(topology)
    (tmp_path / "hosts").write_text("127.0.0.1 localhost\n" + "".join("127.0.0.1 %s\n" % node for node in nodes))
    alone = ["unshare", "--mount", "--net", "--pid", "--fork", "--kill-child"]
    done = subprocess.run(
        [*alone, "bash", "-c", _PROGRAM, "trial", str(SLURM), str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    rows = [dict(word.split("=", 1) for word in line.split()) for line in done.stdout.splitlines()]
    return rows, (tmp_path / "log").read_text()


def expanded(hosts: str) -> set[str]:
    """Return the names of a hostlist."""
    found = set()
    for head, ranges, plain in re.findall(r"([^,\[]+)\[([^\]]+)\]|([^,\[]+)", hosts):
        if plain:
            found.add(plain)
        for each in ranges.split(",") if ranges else ():
            first, _dash, last = each.partition("-")
            found |= {head + str(number).zfill(len(first)) for number in range(int(first), int(last or first) + 1)}
    return found


def planned(places: t.Sequence[tuple[str | None, str | None, str | None]] = ()) -> Document:
    """Return the plan of inventories/slurm. ``places``: unit, NVLink domain and site of each node."""
    plan = lint((ROOT / "inventories/slurm/fabric.yml").read_bytes()).plan
    assert plan
    document = plan.document()
    for node, (unit, domain, site) in zip(document["nodes"], places):
        node.update(unit=unit, site=site)
        if domain:
            node["nvlink_domain"] = domain
    if places:
        sites = dict((unit, site) for unit, _domain, site in places if unit)
        document["units"] = [dict(document["units"][0], name=unit, site=site) for unit, site in sites.items()]
    return document


def names(document: Document) -> list[str]:
    return [node["name"] for node in document["nodes"]]


def members(document: Document, key: str) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for node in document["nodes"]:
        found.setdefault(node.get(key), set()).add(node["name"])
    found.pop(None, None)  # type: ignore[call-overload]
    return found


SITES = [*(("su1", None, "ams"),) * 3, *(("su2", None, "ams"),) * 3, *(("su3", None, "fra"),) * 2]
RACKS = [*(("su1", "r1", None),) * 3, *(("su1", "r2", None),) * 2, *(("su2", "r3", None),) * 3]
MIXED = [*(("su1", "r1", None),) * 4, *(("su1", None, None),) * 2, *(("su2", None, None),) * 2]
UNITS: list[tuple[str | None, str | None, str | None]] = []


@pytest.mark.parametrize("places", [UNITS, SITES, RACKS], ids=["units", "sites", "racks"])
def test_tree(tmp_path: Path, places: list[tuple[str | None, str | None, str | None]]) -> None:
    document = planned(places)
    rows, log = trial(tmp_path, "tree", slurm_files.topology(document), names(document))
    found = {row["SwitchName"]: expanded(row["Nodes"]) for row in rows}
    everything = {document["fabric"]["name"]: set(names(document))}
    assert found == {**members(document, "unit"), **members(document, "site"), **everything}
    assert not re.search(r"warning: switches|error: .*topo", log), log


@pytest.mark.parametrize(
    ("places", "key"),
    [(UNITS, "unit"), (SITES, "unit"), (RACKS, "nvlink_domain"), ([(None, None, None)] * 8, "")],
    ids=["units", "sites", "racks", "neither"],
)
def test_blocks(tmp_path: Path, places: list[tuple[str | None, str | None, str | None]], key: str) -> None:
    document = planned(places)
    rows, log = trial(tmp_path, "block", slurm_files.blocks(document), names(document))
    wanted = members(document, key) if key else {"ai-slurm": set(names(document))}
    found = {row["BlockName"]: expanded(row["Nodes"]) for row in rows if "BlockName" in row}
    assert found == wanted
    assert {row["BlockSize"] for row in rows if "BlockName" in row} == {str(min(map(len, wanted.values())))}
    assert len(rows) - len(found) == len(wanted).bit_length() - 1
    assert "warning: blocks" not in log, log


def test_units_with_nodes_outside_of_nvlink_domains_are_blocks(tmp_path: Path) -> None:
    document = planned(MIXED)
    rows, log = trial(tmp_path, "block", slurm_files.blocks(document), names(document))
    found = {row["BlockName"]: len(expanded(row["Nodes"])) for row in rows if "BlockName" in row}
    assert found == {"r1": 4, "su1": 2, "su2": 2}
    assert "warning: blocks" not in log, log


def test_a_file_that_slurm_refuses_fails_this_test(tmp_path: Path) -> None:
    document = planned(RACKS)
    text = re.sub("BlockSizes=.*", "BlockSizes=3", slurm_files.blocks(document))
    with pytest.raises(AssertionError, match="children count lower than bblock_node_cnt"):
        trial(tmp_path, "block", text, names(document))
