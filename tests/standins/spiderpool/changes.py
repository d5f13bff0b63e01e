# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What Spiderpool's mutating webhooks change in an object."""

from __future__ import annotations

import contextlib
import copy
import typing as t

from tests.standins.spiderpool.model import (
    CIDR_LABEL,
    GROUP,
    INJECTIONS,
    Object,
    cidr_label,
    is_cidr,
    listed,
    network_of,
    section_of,
    shown,
    span,
)


def mutate(wanted: Object) -> Object:
    """The object as the mutating webhook leaves it. Whatever it cannot read it leaves as it is from there on."""
    made = copy.deepcopy(wanted)
    if made["metadata"].get("deletionTimestamp"):
        return made
    change = {"SpiderIPPool": _pool, "SpiderReservedIP": _reserved, "SpiderMultusConfig": _network}[made["kind"]]
    with contextlib.suppress(ValueError):
        change(made)
    return made


def _pool(made: Object) -> None:
    spec, metadata = made["spec"], made["metadata"]
    finalizers = metadata.setdefault("finalizers", [])
    if GROUP not in finalizers:
        finalizers.append(GROUP)
    if spec.get("ipVersion") is None:
        spec["ipVersion"] = network_of(spec["subnet"]).version
    if not is_cidr(spec["ipVersion"], spec["subnet"]):
        raise ValueError(spec["subnet"])
    metadata.setdefault("labels", {})[CIDR_LABEL] = cidr_label(spec["subnet"])
    for key in ("ips", "excludeIPs"):
        if len(spec.get(key) or []) > 1:
            spec[key] = merged(spec["ipVersion"], spec[key])


def _reserved(made: Object) -> None:
    spec = made["spec"]
    if not spec.get("ips"):
        return
    if spec.get("ipVersion") is None:
        spec["ipVersion"] = 6 if ":" in spec["ips"][0] else 4
    if len(spec["ips"]) > 1:
        spec["ips"] = merged(spec["ipVersion"], spec["ips"])


def merged(version: int, ranges: t.Sequence[str]) -> list[str]:
    """Ranges sorted and joined where they touch or overlap.

    :raises ValueError: for anything but a range of this family.
    :raises Exhausted: for more addresses than the controller can list.
    """
    spans = sorted(span(version, each) for each in ranges)
    listed(spans)
    joined: list[tuple[int, int]] = []
    for first, last in spans:
        if joined and first <= joined[-1][1] + 1:
            joined[-1] = joined[-1][0], max(joined[-1][1], last)
        else:
            joined.append((first, last))
    return [shown(version, *each) for each in joined]


_DEFAULTS: dict[str, Object] = {
    "macvlan": {"vlanID": 0, "mtu": 0, "rdmaResourceName": ""},
    "ipvlan": {"vlanID": 0, "mtu": 0, "rdmaResourceName": ""},
    "sriov": {
        "vlanID": 0,
        "mtu": 0,
        "minTxRateMbps": 0,
        "maxTxRateMbps": 0,
        "rdmaIsolation": False,
        "resourceName": "",
    },
    "ibsriov": {
        "pkey": "",
        "enableIbKubernetes": False,
        "rdmaIsolation": True,
        "resourceName": "",
        "linkState": "enable",
    },
    "ipoib": {},
}
_COORDINATOR = {"mode": "auto", "podMACPrefix": "", "podDefaultRouteNIC": "", "podRPFilter": 0}


def _network(made: Object) -> None:
    spec = made["spec"]
    kind = spec.setdefault("cniType", "custom")
    key = section_of(kind)
    if spec.get(key) is not None and key in _DEFAULTS:
        section = spec[key]
        for name, value in _DEFAULTS[key].items():
            section.setdefault(name, value)
        section.setdefault("ippools", {})
        if key == "sriov":
            section["ippools"].setdefault("matchMasterSubnet", False)
    if kind == "custom":
        spec.setdefault("customCNI", "")
        spec.pop("coordinator", None)
        spec["enableCoordinator"] = False
    elif spec.get("coordinator") is None:
        spec["coordinator"] = {**_COORDINATOR, "tunePodRoutes": True, "vethLinkAddress": ""}
    else:
        for name, value in {**_COORDINATOR, "tunePodRoutes": False, "txQueueLen": 0}.items():
            spec["coordinator"].setdefault(name, value)
    spec.setdefault("chainCNIJsonData", [])
    annotations = made["metadata"].get("annotations") or {}
    for name in INJECTIONS:
        if name in annotations:
            made["metadata"].setdefault("labels", {})[name] = annotations[name]
