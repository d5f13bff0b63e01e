# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""ResourceSlices of a node, as pure functions: what they must be, and which writes make them so.

The node is one pool. A resource (a rail, or all rails) has slices of its own, so that their devices stay together.
Source: ``types.go`` of ``k8s.io/api/resource/v1``.
"""

from __future__ import annotations

import typing as t

API = "resource.k8s.io/v1"
# A slice has at most 128 devices, and 64 if one of them has a taint.
DEVICES_MAX = 64
STRING_MAX = 64
# The taint of a device whose rail cannot serve pods, after the driver's name.
TAINT = "/rail-down"
Row = t.Dict[str, t.Any]
Attribute = t.Union[bool, int, str]


class SliceDevice(t.NamedTuple):
    """A device as the scheduler is to know it. ``healthy``: whether its rails can serve pods."""

    name: str
    resource: str
    attributes: dict[str, Attribute]
    healthy: bool


class Writes(t.NamedTuple):
    """In this order. ``created`` and ``updated``: whole objects; ``deleted``: names."""

    created: list[Row]
    updated: list[Row]
    deleted: list[str]

    @property
    def total(self) -> int:
        return len(self.created) + len(self.updated) + len(self.deleted)


def specs(driver: str, node: str, devices: t.Sequence[SliceDevice], tainted: bool = True) -> dict[str, Row]:
    """Name of a slice -> its spec, without the pool's generation.

    :param tainted: whether the API server keeps taints; without them, devices that are not healthy are left out.
    """
    by_resource: dict[str, list[SliceDevice]] = {}
    for device in devices:
        by_resource.setdefault(device.resource, [])
        if tainted or device.healthy:
            by_resource[device.resource].append(device)
    found: dict[str, Row] = {}
    for resource, own in by_resource.items():
        for start in range(0, max(len(own), 1), DEVICES_MAX):
            name = "%s-%s-%s" % (node, driver, resource) + ("-%d" % (start // DEVICES_MAX) if start else "")
            found[name] = {
                "driver": driver,
                "nodeName": node,
                "pool": {"name": node},
                "devices": [_device(driver, each) for each in own[start : start + DEVICES_MAX]],
            }
    for spec in found.values():
        spec["pool"]["resourceSliceCount"] = len(found)
    return found


def _device(driver: str, device: SliceDevice) -> Row:
    found: Row = {
        "name": device.name,
        "attributes": {key: _typed(value) for key, value in sorted(device.attributes.items()) if _fits(value)},
    }
    if not device.healthy:
        found["taints"] = [{"key": driver + TAINT, "effect": "NoSchedule"}]
    return found


def _fits(value: Attribute) -> bool:
    return not isinstance(value, str) or 0 < len(value) <= STRING_MAX


def _typed(value: Attribute) -> Row:
    for kind, key in ((bool, "bool"), (int, "int")):
        if isinstance(value, kind):
            return {key: value}
    return {"string": value}


def writes(desired: t.Mapping[str, Row], observed: t.Iterable[Row], owner: Row | None) -> Writes:
    """What makes the observed slices of a driver on a node the desired ones; nothing if they are.

    Each change gives all slices of the pool a new generation: the scheduler uses those of the highest one, once it has
    as many as they say.
    """
    have = {each["metadata"]["name"]: each for each in observed}
    generations = [int(each["spec"]["pool"].get("generation") or 0) for each in have.values()]
    same = set(have) == set(desired) and len(set(generations)) <= 1
    if same and all(plain(have[name]["spec"]) == plain(spec) for name, spec in desired.items()):
        return Writes([], [], [])
    generation = max(generations, default=0) + 1
    created: list[Row] = []
    updated: list[Row] = []
    for name, spec in desired.items():
        metadata: Row = {"name": name}
        if owner:
            metadata["ownerReferences"] = [owner]
        if name in have:
            metadata["resourceVersion"] = have[name]["metadata"].get("resourceVersion")
        whole = {
            "apiVersion": API,
            "kind": "ResourceSlice",
            "metadata": metadata,
            "spec": dict(spec, pool=dict(spec["pool"], generation=generation)),
        }
        (updated if name in have else created).append(whole)
    return Writes(created, updated, sorted(set(have) - set(desired)))


def plain(spec: Row) -> Row:
    """A spec without the generation, and without what the API server adds."""
    pool = {key: value for key, value in spec["pool"].items() if key != "generation"}
    devices = []
    for device in spec.get("devices") or []:
        taints = [{key: taint.get(key) for key in ("key", "value", "effect")} for taint in device.get("taints") or []]
        devices.append([device["name"], device.get("attributes") or {}, taints])
    return {"driver": spec["driver"], "nodeName": spec.get("nodeName"), "pool": pool, "devices": devices}


def lost_taints(written: Row, answer: Row) -> bool:
    """Whether the API server dropped taints that were written: Kubernetes does so while DRADeviceTaints is off."""
    return plain(written["spec"])["devices"] != plain(answer["spec"])["devices"] and not any(
        device.get("taints") for device in answer["spec"].get("devices") or []
    )
