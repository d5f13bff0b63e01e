# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What Spiderpool's validating webhooks deny."""

from __future__ import annotations

import ipaddress
import json
import re
import typing as t

from tests.standins.spiderpool.model import (
    ATTACHMENT_NAME,
    ATTACHMENT_VERSION,
    CIDR_LABEL,
    CNI_VERSIONS,
    DEFAULTS,
    GROUP,
    INJECTIONS,
    NOTHING,
    POOLED,
    Denied,
    Known,
    Object,
    Settings,
    cidr_label,
    is_cidr,
    listed,
    network_of,
    section_of,
    shown,
    span,
)


def create(made: Object, known: Known = NOTHING, settings: Settings = DEFAULTS) -> None:
    """:raises Denied: where the validating webhook does not let this object be made; :raises Exhausted:"""
    with _Refusal(made):
        if made["kind"] == "SpiderIPPool":
            _version(made["spec"], settings)
            _subnet(made, known.pools)
            _of_pool(made, known.pools)
        elif made["kind"] == "SpiderReservedIP":
            _version(made["spec"], settings)
            _ranges(made["spec"])
        elif made["kind"] == "SpiderMultusConfig":
            _attachment(made, known.attachments)
            _config(made)


def update(old: Object, made: Object, known: Known = NOTHING, settings: Settings = DEFAULTS) -> None:
    """:raises Denied: where the validating webhook does not let this change be made; :raises Exhausted:"""
    kind, metadata = made["kind"], made["metadata"]
    if kind != "SpiderMultusConfig" and metadata.get("deletionTimestamp"):
        ends = GROUP not in (metadata.get("finalizers") or [])
        if kind == "SpiderReservedIP":
            ends = not old["metadata"].get("deletionTimestamp")
        if not ends:
            short = kind.replace("Spider", "")
            raise Denied("forbidden: cannot update a terminating %s" % short, 403, "Forbidden")
        return
    with _Refusal(made):
        if kind == "SpiderMultusConfig":
            _same_attachment(old, made)
            _attachment(made, known.attachments)
            _config(made)
            return
        _unchanged(old, made)
        _version(made["spec"], settings)
        if kind == "SpiderReservedIP":
            _ranges(made["spec"])
        else:
            _of_pool(made, known.pools)
            _in_use(made)


def delete(old: Object, settings: Settings = DEFAULTS) -> None:
    """:raises Denied: where the validating webhook does not let this object go."""
    count = (old.get("status") or {}).get("allocatedIPCount") or 0
    if settings.on_delete and old["kind"] == "SpiderIPPool" and count > 0:
        message = 'spiderippools.%s "%s" is forbidden: cannot delete an IPPool with allocated IPs(%d)' % (
            GROUP,
            old["metadata"]["name"],
            count,
        )
        raise Denied(message, 403, "Forbidden")


def labels_refused(made: Object) -> str | None:
    """The API server's error about labels after the mutating webhooks; None if it accepts them."""
    for key, value in (made["metadata"].get("labels") or {}).items():
        if len(value) > 63:
            return "metadata.labels: Invalid value: %s: must be no more than 63 characters" % json.dumps(value)
        if value and not re.match(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?\Z", value):
            return (
                "metadata.labels: Invalid value: %s: a valid label must start and end with a letter or digit (%s)"
                % (
                    json.dumps(value),
                    key,
                )
            )
    return None


def ends(made: Object) -> bool:
    """Whether the controller takes the finalizer off: no pod has an address of a pool that is being deleted."""
    metadata = made["metadata"]
    held = (made.get("status") or {}).get("allocatedIPs")
    return bool(metadata.get("deletionTimestamp")) and GROUP in (metadata.get("finalizers") or []) and held is None


class _Wrong(Exception):
    """A field that the webhook refuses; the text is as Kubernetes writes field errors."""


class _Refusal:
    """What is wrong with a field, as the webhook's answer about its object."""

    def __init__(self, made: Object) -> None:
        self._made = made

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: t.Any) -> None:
        if not isinstance(error, _Wrong):
            return
        name = self._made["metadata"]["name"]
        if str(error).endswith("AlreadyExists"):
            message = 'spiderippools.%s "%s" already exists' % (GROUP, name)
            raise Denied(message, 409, "AlreadyExists") from None
        raise Denied('%s.%s "%s" is invalid: %s' % (self._made["kind"], GROUP, name, error)) from None


def _invalid(path: str, value: t.Any, detail: str) -> _Wrong:
    return _Wrong("%s: Invalid value: %s: %s" % (path, json.dumps(value), detail))


def _forbidden(path: str, detail: str) -> _Wrong:
    return _Wrong("%s: Forbidden: %s" % (path, detail))


def _version(spec: Object, settings: Settings) -> None:
    version = spec.get("ipVersion")
    if version is None:
        raise _invalid("spec.ipVersion", None, "is not generated correctly")
    if version not in (4, 6):
        raise _Wrong('spec.ipVersion: Unsupported value: %s: supported values: "4", "6"' % version)
    if not (settings.ipv4 if version == 4 else settings.ipv6):
        raise _forbidden("spec.ipVersion", "IPv%d is disabled" % version)


def _unchanged(old: Object, made: Object) -> None:
    was, now = old["spec"], made["spec"]
    versions = was.get("ipVersion"), now.get("ipVersion")
    if None not in versions and versions[0] != versions[1]:
        raise _forbidden("spec.ipVersion", "is not changeable")
    if made["kind"] == "SpiderIPPool" and was.get("subnet") != now.get("subnet"):
        raise _forbidden("spec.subnet", "is not changeable")


def _subnet(made: Object, pools: t.Sequence[Object]) -> None:
    spec, version = made["spec"], made["spec"]["ipVersion"]
    subnet = spec["subnet"]
    if not is_cidr(version, subnet):
        raise _invalid("spec.subnet", subnet, "invalid CIDR format in IPv%d '%s'" % (version, subnet))
    network = network_of(subnet)
    if str(network) != subnet:
        raise _invalid("spec.subnet", subnet, "unformatted subnet %s, please change it to %s" % (subnet, network))
    for other in pools:
        if other["spec"]["ipVersion"] != version:
            continue
        name = other["metadata"]["name"]
        if name == made["metadata"]["name"]:
            raise _Wrong("spec.subnet: Internal error: IPPool %s AlreadyExists" % name)
        if other["spec"]["subnet"] != subnet and network_of(other["spec"]["subnet"]).overlaps(network):
            detail = "overlap with IPPool %s which 'spec.subnet' is %s" % (name, other["spec"]["subnet"])
            raise _invalid("spec.subnet", subnet, detail)


def _of_pool(made: Object, pools: t.Sequence[Object]) -> None:
    _addresses(made, pools)
    _gateway(made["spec"])
    _routes(made["spec"])
    _pod_affinity(made["spec"])


def _spans(spec: Object) -> list[tuple[int, int]]:
    """The addresses of a pool: ``ips`` without ``excludeIPs``. :raises _Wrong:"""
    network, version, subnet = network_of(spec["subnet"]), spec["ipVersion"], spec["subnet"]
    found: list[tuple[int, int]] = []
    for key in ("ips", "excludeIPs"):
        for text in spec.get(key) or []:
            for address in text.split("-"):
                try:
                    inside = ipaddress.ip_address(address) in network
                except ValueError:
                    raise _invalid("spec.subnet", subnet, "invalid IP address: %s" % address) from None
                if not inside:
                    raise _invalid("spec.subnet", subnet, "not match base subnet: %s" % address)
            first, last = sorted(int(ipaddress.ip_address(each)) for each in (text.split("-") * 2)[:2])
            if key == "excludeIPs":
                found = [part for span in found for part in _without(span, (first, last))]
                continue
            other = next((each for each in found if first <= each[1] and each[0] <= last), None)
            if other:
                detail = "range %s overlaps with %s" % (text, shown(version, *other))
                raise _invalid("spec.subnet", subnet, detail)
            found.append((first, last))
    return found


def _without(span: tuple[int, int], gone: tuple[int, int]) -> t.Iterator[tuple[int, int]]:
    if span[1] < gone[0] or gone[1] < span[0]:
        yield span
        return
    if span[0] < gone[0]:
        yield span[0], gone[0] - 1
    if gone[1] < span[1]:
        yield gone[1] + 1, span[1]


def _addresses(made: Object, pools: t.Sequence[Object]) -> None:
    spec, version = made["spec"], made["spec"]["ipVersion"]
    own, label = _spans(spec), cidr_label(spec["subnet"])
    for other in pools:
        same = (other["metadata"].get("labels") or {}).get(CIDR_LABEL) == label
        if not same or other["metadata"]["name"] == made["metadata"]["name"]:
            continue
        spans = _spans(other["spec"])
        hit = [shown(version, *two) for one in own for two in spans if one[0] <= two[1] and two[0] <= one[1]]
        if hit:
            detail = "overlap with IPPool %s in IP ranges [%s], total IP addresses of an IPPool are jointly determined"
            detail = (detail + " by 'spec.ips' and 'spec.excludeIPs'") % (other["metadata"]["name"], " ".join(hit))
            raise _forbidden("spec.ips", detail)


def _inside(path: str, version: int, subnet: str, address: str) -> None:
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        raise _invalid(path, address, "invalid IPv%d" % version) from None
    if found.version != version or found not in network_of(subnet):
        raise _invalid(path, address, "not pertains to the 'spec.subnet' %s of IPPool" % subnet)


def _holds(version: int, text: str, address: str) -> bool:
    """Whether a range has the address. A range of one address is compared as text, as upstream does."""
    if "-" not in text:
        return text == address
    first, last = span(version, text)
    return first <= int(ipaddress.ip_address(address)) <= last


def _gateway(spec: Object) -> None:
    version, gateway = spec["ipVersion"], spec.get("gateway")
    if gateway is None:
        return
    _inside("spec.gateway", version, spec["subnet"], gateway)
    if any(_holds(version, each, gateway) for each in spec.get("excludeIPs") or []):
        return
    for at, each in enumerate(spec.get("ips") or []):
        if _holds(version, each, gateway):
            detail = "conflicts with 'spec.gateway' %s, add the gateway IP address to 'spec.excludeIPs' or remove it"
            raise _invalid("spec.ips[%d]" % at, each, (detail + " from 'spec.ips'") % gateway)


def _routes(spec: Object) -> None:
    version, seen = spec["ipVersion"], set()
    for at, route in enumerate(spec.get("routes") or []):
        path = "spec.routes[%d]" % at
        if route["dst"] == ("0.0.0.0/0" if version == 4 else "::/0"):
            detail = "please specify 'spec.gateway' to configure the default route"
            raise _invalid(path + ".dst", route["dst"], detail)
        if route["dst"] in seen:
            raise _invalid(path + ".dst", route["dst"], "duplicate route with the same dst")
        seen.add(route["dst"])
        if not is_cidr(version, route["dst"]):
            detail = "invalid CIDR format in IPv%d '%s'" % (version, route["dst"])
            raise _invalid(path + ".dst", route["dst"], detail)
        _inside(path + ".gw", version, spec["subnet"], route["gw"])


def _pod_affinity(spec: Object) -> None:
    affinity = spec.get("podAffinity")
    if affinity is not None and not affinity.get("matchLabels") and not affinity.get("matchExpressions"):
        raise _invalid("spec.podAffinity", affinity, "empty podAffinity is invalid for SpiderIPPool")


def _in_use(made: Object) -> None:
    spec = made["spec"]
    for key in ("ips", "excludeIPs"):
        listed([span(spec["ipVersion"], each) for each in spec.get(key) or []])
    spans = _spans(spec)
    for address, holder in json.loads((made.get("status") or {}).get("allocatedIPs") or "{}").items():
        number = int(ipaddress.ip_address(address))
        if not any(first <= number <= last for first, last in spans):
            detail = "remove an IP address %s that is being used by Pod %s, total IP addresses of an IPPool are jointly"
            detail += " determined by 'spec.ips' and 'spec.excludeIPs'"
            raise _forbidden("spec.ips", detail % (address, holder["pod"]))


def _ranges(spec: Object) -> None:
    for at, each in enumerate(spec.get("ips") or []):
        try:
            span(spec["ipVersion"], each)
        except ValueError:
            detail = "invalid IP range format in IPv%d '%s'" % (spec["ipVersion"], each)
            raise _invalid("spec.ips[%d]" % at, each, detail) from None


def _same_attachment(old: Object, made: Object) -> None:
    was, now = ((each["metadata"].get("annotations") or {}).get(ATTACHMENT_NAME) for each in (old, made))
    if now is not None and was != now:
        detail = "it's unsupported to change customized Multus net-attach-def resource name from '%s' to '%s'"
        raise _invalid("metadata.annotations", now, detail % (was or old["metadata"]["name"], now))


def _attachment(made: Object, attachments: t.Sequence[Object]) -> None:
    metadata = made["metadata"]
    annotations = metadata.get("annotations") or {}
    name = annotations.get(ATTACHMENT_NAME, metadata["name"])
    label = r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?"
    if ATTACHMENT_NAME in annotations and not re.match(r"(?=.{1,253}\Z)%s(?:\.%s)*\Z" % (label, label), name):
        raise _invalid("metadata.annotations", annotations, "invalid custom net-attach-def resource name")
    for each in attachments:
        if (each["metadata"].get("namespace"), each["metadata"]["name"]) != (metadata.get("namespace"), name):
            continue
        for owner in each["metadata"].get("ownerReferences") or []:
            if owner["kind"] == "SpiderMultusConfig" and owner["name"] != metadata["name"]:
                detail = "the net-attach-def %s/%s already exists and is managed by SpiderMultusConfig %s"
                raise _invalid(
                    "metadata.annotations", annotations, detail % (metadata["namespace"], name, owner["name"])
                )
    version = annotations.get(ATTACHMENT_VERSION)
    if version is not None and version not in CNI_VERSIONS:
        raise _invalid("metadata.annotations", annotations, "unsupported CNI version %s" % version)


def _config(made: Object) -> None:
    spec, annotations = made["spec"], made["metadata"].get("annotations") or {}
    kind = spec["cniType"]
    path, key = "spec.%sConfig" % section_of(kind), section_of(kind)
    injected = [name for name in INJECTIONS if name in annotations]
    if kind in ("ovs", "custom") and injected:
        detail = "the cniType %s does not support RDMA resource or network resource injected"
        raise _forbidden("spec.cniType", detail % kind)
    if key in POOLED:
        if spec.get(key) is None:
            raise _Wrong("%s: Required value: no %s specified" % (path, path))
        _section_of(key, path, spec[key])
        for name in injected:
            _injected(made, name, path, spec[key], "master" if key == "ipoib" else _RESOURCE[key])
    others = [each for each in (*POOLED, "vlan", "ovs", "customCNI") if each != key and spec.get(each) is not None]
    if [each for each in others if not (kind == "custom" and each == "customCNI")]:
        detail = "the cniType %s only supports %s, please remove other CNI configs"
        raise _forbidden("spec.cniType", detail % (kind, path))
    if spec.get("customCNI") and not _is_json(spec["customCNI"]):
        raise _forbidden("spec.customCniTypeConfig", "customCniConfig isn't a valid JSON encoding")
    if spec.get("coordinator") is not None:
        _coordinator(spec["coordinator"])
    for text in spec.get("chainCNIJsonData") or []:
        if not _is_json(text) or not json.loads(text).get("type"):
            raise _forbidden("spec.chainCNIJsonData", "invalid %s" % text)


_RESOURCE = {
    "macvlan": "rdmaResourceName",
    "ipvlan": "rdmaResourceName",
    "sriov": "resourceName",
    "ibsriov": "resourceName",
}


def _section_of(key: str, path: str, section: Object) -> None:
    vlan = section.get("vlanID")
    if vlan is not None and not 0 <= vlan <= 4094:
        detail = "invalid vlanId %d, please make sure vlanId in range [0,4094]" % vlan
        raise _invalid(path, vlan, detail)
    if (section.get("mtu") or 0) < 0:
        raise _invalid(path, section["mtu"], "MTU must be greater than or equal to 0")
    if key in ("macvlan", "ipvlan"):
        if (section.get("ippools") or {}).get("matchMasterSubnet"):
            raise _invalid(path, section, "MatchMasterSubnet feature is not supported for %s" % key)
        masters = section.get("master") or []
        if not masters:
            raise _invalid(path, section, "master can't be empty")
        if len(masters) > 1 and not (section.get("bond") or {}).get("name"):
            raise _invalid(path, section, "the bond property is nil with multiple Interfaces")
    elif key == "ipoib":
        if not section.get("master"):
            raise _Wrong("%s: Required value: no %s[master] specified" % (path, path))
    elif not section.get("resourceName"):
        raise _Wrong("%s: Required value: no %s[resourceName] specified" % (path, path))
    if (section.get("minTxRateMbps") or 0) > (section.get("maxTxRateMbps") or 0):
        raise _invalid(path, section["minTxRateMbps"], "minTxRateMbps must be less than maxTxRateMbps")


def _injected(made: Object, annotation: str, path: str, section: Object, resource: str) -> None:
    named, pools = section.get(resource) or "", section.get("ippools") or {}
    where = "%s/%s" % (made["metadata"].get("namespace"), made["metadata"]["name"])
    if not named:
        if annotation == INJECTIONS[0]:
            raise _invalid(path, section, "rdmaResourceName can not empty for spidermultusconfig %s" % where)
        return
    if not pools.get("ipv4") and not pools.get("ipv6"):
        raise _invalid(path, section, "no any ippools configured for spidermultusconfig %s" % where)


def _coordinator(spec: Object) -> None:
    types = ("auto", "cluster", "calico", "cilium", "none")
    if spec.get("podCIDRType") is not None and spec["podCIDRType"] not in types:
        raise _Wrong("spec.podCIDRType: Unsupported value: %s" % json.dumps(spec["podCIDRType"]))
    for at, cidr in enumerate(spec.get("hijackCIDR") or []):
        try:
            ipaddress.ip_interface(cidr)
        except ValueError as error:
            raise _invalid("spec.extraCIDR[%d]" % at, cidr, str(error)) from None
    prefix = spec.get("podMACPrefix")
    if prefix and (not re.match(r"[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\Z", prefix) or int(prefix[:2], 16) & 1):
        raise _invalid("spec.podMACPrefix", prefix, "not a valid MAC prefix")
    if (spec.get("txQueueLen") or 0) < 0:
        raise _invalid("spec.txQueueLen", spec["txQueueLen"], "txQueueLen can't be less than 0")
    if (spec.get("podRPFilter") or 0) > 2:
        raise _Wrong('spec.podRPFilter: Unsupported value: %d: supported values: "0", "1", "2"' % spec["podRPFilter"])
    mtu = spec.get("vethMTU")
    if mtu is not None and mtu <= 0:
        raise _invalid("spec.vethMTU", mtu, "vethMTU must be greater than 0")


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True
