# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The layer of NCCL: compare its file on a node, and the file and environment of a pod, with the plan."""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common import nccl_hca
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.objects import nccl_objects as planned
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan import nccl_settings
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan.module_options import bare
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan.port_view import (
    compute_ports,
    plane_index,
    rail_index,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.text_table import first_of
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.base.live_node import ROCE, gids_of
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.base.verify_run import (
    NOT_THOROUGH,
    NodeReport,
    Row,
    Run,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.layers.pod_spec import (
    pod_name,
    rail_specs,
    view_of,
)

LAYER = "nccl"
INDEXES = ("NCCL_IB_GID_INDEX", "UCX_IB_GID_INDEX")
_SHOWN = 3
_POD_INDEX = "use NCCL 2.21 or later in the pod, or set NCCL_IB_GID_INDEX to the index of its addresses"
_OLD_INDEX = "set it to the index of all addresses, or use NCCL 2.21 or later"
# (name of an RDMA device, number of its port) -> the ports of the plan that use it
Devices = t.Dict[t.Tuple[str, int], t.List[t.Mapping[str, t.Any]]]
# (rail, address, index, device) of each GID of RoCE v2 that a rail's address has
Gid = t.Tuple[str, str, int, str]


def nccl(run: Run, seen: t.Mapping[str, t.Any] | None) -> None:
    """Check that NCCL and UCX are configured as planned, on nodes and in pods.

    :param seen: the observed cluster, as in :func:`.pods.pods`.
    """
    workload = (seen or {}).get("pods") or {}
    for report in run.nodes():
        files = report.plan.get("nccl")
        if files and report.inside is not None and run.look(LAYER, report.name):
            _node(run, report, files, report.inside)
        elif files and report.inside_why and not run.blocked(LAYER, report.name, None):
            remedy = "correct the error, and run again"
            run.unknown(LAYER, report.name, None, "files of NCCL", report.inside_why, remedy)
    if not workload.get("error"):
        _pods(run, workload)
    if not run.checked[LAYER] and not run.skipped[LAYER]:
        files = any(report.plan.get("nccl") for report in run.reports.values())
        none = "the plan writes no file on nodes, and no test pod was read"
        run.why_not[LAYER] = NOT_THOROUGH if files and not run.thorough else none


def _node(run: Run, report: NodeReport, files: Row, inside: Row) -> None:
    """Check the files of a node, without settings that the inventory overrides."""
    own = inside.get("own_settings") or ()
    wanted = {
        files["file"]: planned.host_settings(run.fabric, report.plan),
        files["ucx_file"]: planned.host_ucx(run.fabric, report.plan),
    }
    settings_of_files: dict[str, str] = {}
    for path, settings in wanted.items():
        if not path:
            continue
        observed = (inside.get("files") or {}).get(path)
        settings_of_files.update(observed or {})
        settings = {key: value for key, value in settings.items() if key not in own}
        _differs(run, report, "RV950", path, settings, observed)
    if files["file"]:
        _index_set(run, report, files["file"], settings_of_files)
        # without a setting of the inventory, the planned setting applies, and the layer driver compares its devices
        if report.live.part("rdma") and nccl_hca.VARIABLE in own:
            _devices(run, report, "on the node", settings_of_files, _devices_of_node(report))
    _index(run, report, "on the node", settings_of_files, lambda: _gids_of_node(report))


def _pods(run: Run, workload: Row) -> None:
    for kind in workload.get("settings") or ():
        nodes = set(kind["nodes"])
        for row in workload["pods"]:
            report = run.reports.get(row["node"] or "")
            if not row["running"] or row["leaving"] or report is None or report.name not in nodes:
                continue
            inside = report.pod(row["uid"])
            if inside is None or inside["why"] or not run.look(LAYER, report.name):
                continue
            _pod(run, report, pod_name(row), kind, inside)


def _pod(run: Run, report: NodeReport, name: str, kind: Row, inside: Row) -> None:
    environment, file = inside["settings"]["environment"], inside["settings"]["file"]
    # the environment overrides the file
    settings = dict(file or {}, **environment)
    over = any(environment.get(key, value) != value for key, value in kind["nccl"].items())
    cause = "the environment of the pod overrides its file" if over else None
    observed = None if file is None and not environment else settings
    _differs(run, report, "RV951", name, kind["nccl"], observed, cause)
    if not run.has("RV951", report.name, None):
        _differs(run, report, "RV951", "%s: environment" % name, kind["ucx"], environment)
    _index_set(run, report, name, settings, playbook=None, cause=None, remedy=_POD_INDEX)
    _devices(run, report, "in %s" % name, settings, _devices_of_pod(run, report, inside))
    _index(run, report, "in %s" % name, settings, lambda: _gids_of_pod(run, report, inside))


def _differs(
    run: Run,
    report: NodeReport,
    code: str,
    what: str,
    wanted: t.Mapping[str, str],
    observed: t.Mapping[str, str] | None,
    cause: str | None = None,
) -> None:
    """Report settings that differ from the plan, as one failure with the first of them."""
    differing = [key for key in sorted(wanted) if (observed or {}).get(key) != wanted[key]]
    if not differing:
        return
    expected = first_of(["%s=%s" % (key, wanted[key]) for key in differing], _SHOWN)
    found = "no such file"
    if observed is not None:
        texts = ["%s=%s" % (key, observed[key]) if key in observed else "no %s" % key for key in differing]
        found = first_of(texts, _SHOWN)
    run.fail(code, report.name, None, what, expected=expected, found=found, cause=cause)


def _index_set(run: Run, report: NodeReport, where: str, settings: t.Mapping[str, str], **about: t.Any) -> None:
    """Check that a version of NCCL that does not select the GID has its index. ``about``: as of :meth:`Run.fail`."""
    key = nccl_settings.GID_INDEX
    if settings.get(key, "").isdigit() or not nccl_settings.gid_addresses(run.fabric, report.plan):
        return
    if not _differ(run, report):
        found = "no %s" % key if key not in settings else "%s=%s" % (key, settings[key])
        run.fail("RV862", report.name, None, where, expected="%s of RoCE v2" % key, found=found, **about)


def _differ(run: Run, report: NodeReport) -> bool:
    """Return whether a difference of the settings from the plan is already reported."""
    return run.has("RV950", report.name, None) or run.has("RV951", report.name, None)


def _devices(run: Run, report: NodeReport, where: str, settings: t.Mapping[str, str], seen: Devices) -> None:
    """Check that the entries of NCCL_IB_HCA name devices that exist, with rail and plane as planned.

    :param seen: the ports of RDMA devices; if empty, they are unknown.
    """
    entries = nccl_hca.read(settings.get(nccl_hca.VARIABLE, ""))
    if not seen or not entries or _differ(run, report):
        return
    what = "%s %s" % (nccl_hca.VARIABLE, where)
    for entry in entries:
        same = [key for key in seen if key[0] == entry.device and entry.port in (None, key[1])]
        if not same:
            found = "devices %s" % first_of(["%s:%d" % key for key in sorted(seen)], _SHOWN)
            run.fail("RV863", report.name, None, what, expected=entry.entry, found=found)
            return
        for port in [port for key in same for port in seen[key] if len(seen[key]) == 1]:
            rail, plane = rail_index(port), plane_index(port)
            if entry.rail is None or rail is None or (entry.rail, entry.plane) == (rail, plane):
                continue
            right = nccl_hca.HcaPort(entry.device, entry.port, rail, plane).entry
            run.fail("RV864", report.name, port["rail"], what, expected=right, found=entry.entry)
            return


def _devices_of_node(report: NodeReport) -> Devices:
    """Return the ports of a node's RDMA devices, with the rail ports that use them."""
    live = report.live
    seen: Devices = {(row["device"], row.get("port", 1)): [] for row in live.rdma}
    for port in compute_ports(report.plan["ports"]):
        device = live.device(port)
        if device:
            seen[device["device"], device.get("port", 1)].append(port)
    return seen


def _devices_of_pod(run: Run, report: NodeReport, inside: Row) -> Devices:
    """Return the ports of a pod's RDMA devices, with the rail ports that use them: by the interface in the pod, or by
    the slot that the agent recorded."""
    rails = {spec.interface: spec.rail for spec in rail_specs(view_of(run.fabric, [report.plan]), report.plan)}
    seen: Devices = {}
    for row in inside["rdma"]:
        key = (row["device"], row.get("port", 1))
        slots = [slot["rail"] for slot in inside.get("slots") or () if slot["rdma"] == row["device"]]
        names = [rails[row["netdev"]]] if row["netdev"] in rails else slots
        ports = [run.port(report.name, name) for name in names]
        # several rails can have slots on one device, on ports of their own
        seen[key] = [port for port in ports if len(ports) == 1 or port["rdma"].get("port") in (None, key[1])]
    return seen


def _index(
    run: Run, report: NodeReport, where: str, settings: t.Mapping[str, str], gids_of: t.Callable[[], t.Sequence[Gid]]
) -> None:
    """Check a fixed GID index, which applies to all rails: it must be the index of each rail's GID."""
    for key in INDEXES:
        value = settings.get(key, "")
        if not value.isdigit():
            continue
        gids = gids_of()
        wrong = [each for each in gids if each[2] != int(value)]
        if not wrong:
            continue
        right = sorted({"%d" % index for _rail, _address, index, _device in gids})
        rail, address, index, device = wrong[0]
        expected = "none, or %s" % right[0] if len(right) == 1 else "none: rails have %s" % ", ".join(right)
        found = "%s; %s of %s (%s) is at %d" % (value, address, rail, device, index)
        others = [each[0] for each in wrong[1:]]
        # older versions cannot do without the setting
        remedy = _OLD_INDEX if key == nccl_settings.GID_INDEX and nccl_settings.needs_gid_index(report.plan) else None
        what = "%s %s" % (key, where)
        run.fail("RV952", report.name, rail, what, expected=expected, found=found, others=others, remedy=remedy)
        return


def _gids_of_node(report: NodeReport) -> list[Gid]:
    """Return the GIDs of the IPv4 addresses of a node's ports."""
    live = report.live
    of_rails: list[Gid] = []
    for port in compute_ports(report.plan["ports"]):
        device = live.device(port)
        if device is None or not port["address"]:
            continue
        of_rails += _of(port["rail"], bare(port["address"]), gids_of(live, device))
    return of_rails


def _gids_of_pod(run: Run, report: NodeReport, inside: Row) -> list[Gid]:
    """Return the GIDs of the addresses of a pod on its rails."""
    of_rails: list[Gid] = []
    for spec in rail_specs(view_of(run.fabric, [report.plan]), report.plan):
        if spec.storage:
            continue
        for row in inside["addresses"]:
            # with two families NCCL is configured to use IPv4
            if row["netdev"] == spec.interface and (":" not in row["address"] or len(spec.shares) == 1):
                of_rails += _of(spec.rail, bare(row["address"]), inside["gids"])
    return of_rails


def _of(rail: str, address: str, gids: t.Iterable[Row]) -> list[Gid]:
    """Return the GIDs of RoCE v2 of an address."""
    return [
        (rail, address, row["index"], row["device"]) for row in gids if (row["address"], row["type"]) == (address, ROCE)
    ]
