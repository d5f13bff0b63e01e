# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""ResourceSlices of a node, as pure functions: the desired slices, and the writes that remove differences.

The node is one pool. Each resource (a rail, or all rails) has its own slices, so that its devices stay together.
Source: ``types.go`` of ``k8s.io/api/resource/v1``.
"""

from __future__ import annotations

import typing as t

API = "resource.k8s.io/v1"
# A slice has at most 128 devices, and 64 if one of them has a taint.
DEVICES_MAX = 64
STRING_MAX = 64
# The keys of taints, after the driver's name: of a device with a rail that is down, with a cordoned rail, and of a
# device that a pod holds without a claim.
DOWN, CORDONED, HELD = "/rail-down", "/rail-cordoned", "/slot-held"
# Of the health service: of a device with a rail that fails, and with a rail that has lost planes.
RAIL_FAULT, PLANE_FAULT = "/rail-fault", "/plane-fault"
Row = t.Dict[str, t.Any]
Attribute = t.Union[bool, int, str]


class SliceDevice(t.NamedTuple):
    """A device as the scheduler sees it. ``taint``: ``DOWN``, ``CORDONED`` or ``HELD``; empty if it can serve a pod.

    ``faults``: further taints, of the health service: the key after the driver's name, and the value.
    """

    name: str
    resource: str
    attributes: dict[str, Attribute]
    taint: str = ""
    faults: tuple[tuple[str, str], ...] = ()


class Writes(t.NamedTuple):
    """Writes to the API server, in this order. ``created`` and ``updated``: whole objects; ``deleted``: names."""

    created: list[Row]
    updated: list[Row]
    deleted: list[str]

    @property
    def total(self) -> int:
        return len(self.created) + len(self.updated) + len(self.deleted)


def specs(driver: str, node: str, devices: t.Sequence[SliceDevice], tainted: bool = True) -> dict[str, Row]:
    """Return the desired slices: name -> spec, without the pool's generation.

    :param tainted: whether the API server keeps taints. If not, devices with a taint are omitted, except those that
        have only lost planes.
    """
    by_resource: dict[str, list[SliceDevice]] = {}
    for device in devices:
        by_resource.setdefault(device.resource, [])
        if tainted:
            by_resource[device.resource].append(device)
        elif not device.taint and RAIL_FAULT not in dict(device.faults):
            by_resource[device.resource].append(device._replace(faults=()))
    slices: dict[str, Row] = {}
    for resource, members in by_resource.items():
        for start in range(0, max(len(members), 1), DEVICES_MAX):
            name = "%s-%s-%s" % (node, driver, resource) + ("-%d" % (start // DEVICES_MAX) if start else "")
            slices[name] = {
                "driver": driver,
                "nodeName": node,
                "pool": {"name": node},
                "devices": [_device(driver, device) for device in members[start : start + DEVICES_MAX]],
            }
    for spec in slices.values():
        spec["pool"]["resourceSliceCount"] = len(slices)
    return slices


def _device(driver: str, device: SliceDevice) -> Row:
    row: Row = {
        "name": device.name,
        "attributes": {key: _typed(value) for key, value in sorted(device.attributes.items()) if _fits(value)},
    }
    taints: list[Row] = [{"key": driver + device.taint, "effect": "NoSchedule"}] if device.taint else []
    taints += [{"key": driver + key, "value": value, "effect": "NoSchedule"} for key, value in device.faults]
    if taints:
        row["taints"] = taints
    return row


def _fits(value: Attribute) -> bool:
    return not isinstance(value, str) or 0 < len(value) <= STRING_MAX


def _typed(value: Attribute) -> Row:
    for kind, key in ((bool, "bool"), (int, "int")):
        if isinstance(value, kind):
            return {key: value}
    return {"string": value}


def writes(desired: t.Mapping[str, Row], observed: t.Iterable[Row], owner: Row | None) -> Writes:
    """Return the writes that turn the observed slices of a driver on a node into the desired ones.

    Each change gives all slices of the pool a new generation. The scheduler uses the slices of the highest generation
    when it has received as many of them as ``resourceSliceCount``.

    :param desired: name -> spec, from :func:`specs`.
    :param observed: the slices on the API server.
    :param owner: owner reference of created and updated slices.
    """
    by_name = {each["metadata"]["name"]: each for each in observed}
    generations = [int(each["spec"]["pool"].get("generation") or 0) for each in by_name.values()]
    same = set(by_name) == set(desired) and len(set(generations)) <= 1
    if same and all(comparable(by_name[name]["spec"]) == comparable(spec) for name, spec in desired.items()):
        return Writes([], [], [])
    generation = max(generations, default=0) + 1
    created: list[Row] = []
    updated: list[Row] = []
    for name, spec in desired.items():
        metadata: Row = {"name": name}
        if owner:
            metadata["ownerReferences"] = [owner]
        if name in by_name:
            metadata["resourceVersion"] = by_name[name]["metadata"].get("resourceVersion")
        document = {
            "apiVersion": API,
            "kind": "ResourceSlice",
            "metadata": metadata,
            "spec": dict(spec, pool=dict(spec["pool"], generation=generation)),
        }
        (updated if name in by_name else created).append(document)
    return Writes(created, updated, sorted(set(by_name) - set(desired)))


def comparable(spec: Row) -> Row:
    """Return a spec without the generation, and without values that the API server adds."""
    pool = {key: value for key, value in spec["pool"].items() if key != "generation"}
    devices = []
    for device in spec.get("devices") or []:
        taints = [{key: taint.get(key) for key in ("key", "value", "effect")} for taint in device.get("taints") or []]
        devices.append([device["name"], device.get("attributes") or {}, taints])
    return {"driver": spec["driver"], "nodeName": spec.get("nodeName"), "pool": pool, "devices": devices}


def lost_taints(written: Row, answer: Row) -> bool:
    """Return whether the API server dropped written taints, as it does while DRADeviceTaints is off."""
    return comparable(written["spec"])["devices"] != comparable(answer["spec"])["devices"] and not any(
        device.get("taints") for device in answer["spec"].get("devices") or []
    )
