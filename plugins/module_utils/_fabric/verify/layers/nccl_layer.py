# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""The layer of NCCL: what its file on a node says, and what a pod's file and environment do, against the plan."""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.objects import nccl_objects as planned
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan.module_options import bare
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.base.live_node import Live
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.base.verify_run import Row, Run, Told
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.layers.pod_layer import ROCE
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.layers.pod_spec import view_of, wishes

LAYER = "nccl"
INDEXES = ("NCCL_IB_GID_INDEX", "UCX_IB_GID_INDEX")
_SHOWN = 3
# (rail, address, index, device) of each GID of RoCE v2 that a rail's address has
Gid = t.Tuple[str, str, int, str]


def nccl(run: Run, seen: t.Mapping[str, t.Any] | None) -> None:
    """Do NCCL and UCX find the rails' devices, and GIDs by what they are, on nodes and in pods?

    :param seen: what was seen of the cluster, as in :func:`.pods.pods`.
    """
    workload = (seen or {}).get("pods") or {}
    for told in run.nodes():
        files = told.plan.get("nccl")
        if files and told.inside is not None and run.look(LAYER, told.name):
            _node(run, told, files)
    if not workload.get("error"):
        _pods(run, workload)
    if not run.checked[LAYER] and not run.skipped[LAYER]:
        run.why_not[LAYER] = "the plan writes no file on nodes, and no test pod was read"


def _node(run: Run, told: Told, files: Row) -> None:
    wanted = {
        files["file"]: planned.host_settings(run.fabric, told.plan),
        files["ucx_file"]: planned.host_ucx(run.fabric, told.plan),
    }
    held: dict[str, str] = {}
    for path, settings in wanted.items():
        if not path:
            continue
        have = ((told.inside or {}).get("files") or {}).get(path)
        held.update(have or {})
        # what the inventory sets over the plan is nobody's mistake
        own = (told.inside or {}).get("own_settings") or ()
        settings = {key: value for key, value in settings.items() if key not in own}
        _differs(run, told, "RV950", path, settings, have)
    _index(run, told, "on the node", held, lambda: _gids_of_node(told))


def _pods(run: Run, workload: Row) -> None:
    for kind in workload.get("settings") or ():
        nodes = set(kind["nodes"])
        for row in workload["pods"]:
            told = run.told.get(row["node"] or "")
            if not row["running"] or row["leaving"] or told is None or told.name not in nodes:
                continue
            inside = next((each for each in (told.inside or {}).get("pods") or () if each["uid"] == row["uid"]), None)
            if inside is None or inside["why"] or not run.look(LAYER, told.name):
                continue
            _pod(run, told, "pod %s/%s" % (row["namespace"], row["name"]), kind, inside)


def _pod(run: Run, told: Told, name: str, kind: Row, inside: Row) -> None:
    environment, file = inside["settings"]["environment"], inside["settings"]["file"]
    # what is in the environment stands over the file
    have = dict(file or {}, **environment)
    over = [key for key, value in kind["nccl"].items() if environment.get(key, value) != value]
    if over:
        _differs(run, told, "RV951", name, kind["nccl"], have, cause="the pod's environment stands over its file")
    else:
        _differs(run, told, "RV951", name, kind["nccl"], None if file is None and not environment else have)
    if not run.has("RV951", told.name, None):
        _differs(run, told, "RV951", "%s: environment" % name, kind["ucx"], environment)
    _index(run, told, "in %s" % name, have, lambda: _gids_of_pod(run, told, inside))


def _differs(
    run: Run,
    told: Told,
    code: str,
    what: str,
    wanted: t.Mapping[str, str],
    have: t.Mapping[str, str] | None,
    cause: str | None = None,
) -> None:
    """A place with other settings than the plan's, told once with the first of them."""
    other = [key for key in sorted(wanted) if (have or {}).get(key) != wanted[key]]
    if not other:
        return
    more = " and %d more" % (len(other) - _SHOWN) if len(other) > _SHOWN else ""
    expected = ", ".join("%s=%s" % (key, wanted[key]) for key in other[:_SHOWN]) + more
    found = "no such file"
    if have is not None:
        found = ", ".join("%s=%s" % (key, have[key]) if key in have else "no %s" % key for key in other[:_SHOWN]) + more
    run.fail(code, told.name, None, what, expected=expected, found=found, cause=cause)


def _index(run: Run, told: Told, where: str, have: t.Mapping[str, str], look: t.Callable[[], t.Sequence[Gid]]) -> None:
    """A fixed index is one for all rails: of each rail it must be that of the rail's own GID."""
    for key in INDEXES:
        said = have.get(key, "")
        if not said.isdigit():
            continue
        gids = look()
        wrong = [each for each in gids if each[2] != int(said)]
        if not wrong:
            continue
        right = sorted({"%d" % index for _rail, _address, index, _device in gids})
        rail, address, index, device = wrong[0]
        expected = "none, or %s" % right[0] if len(right) == 1 else "none: rails have %s" % ", ".join(right)
        found = "%s; %s of %s (%s) is at %d" % (said, address, rail, device, index)
        others = [each[0] for each in wrong[1:]]
        run.fail("RV952", told.name, rail, "%s %s" % (key, where), expected=expected, found=found, others=others)
        return


def _gids_of_node(told: Told) -> list[Gid]:
    live = Live(told.info or {})
    found: list[Gid] = []
    for port in told.plan["ports"]:
        device = live.device(port)
        if device is None or not port["address"]:
            continue
        held = [row for row in live.info.get("gids") or () if row["device"] == device["device"]]
        found += _of(port["rail"], bare(port["address"]), held)
    return found


def _gids_of_pod(run: Run, told: Told, inside: Row) -> list[Gid]:
    found: list[Gid] = []
    for wish in wishes(view_of(run.fabric, [told.plan]), told.plan):
        for row in inside["addresses"]:
            # of two families it is IPv4's that NCCL is told to take
            if row["netdev"] == wish.interface and (":" not in row["address"] or len(wish.shares) == 1):
                found += _of(wish.rail, bare(row["address"]), inside["gids"])
    return found


def _of(rail: str, address: str, gids: t.Iterable[Row]) -> list[Gid]:
    return [
        (rail, address, row["index"], row["device"]) for row in gids if (row["address"], row["type"]) == (address, ROCE)
    ]
