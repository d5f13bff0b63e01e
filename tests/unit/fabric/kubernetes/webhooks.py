# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rules that upstream's webhooks hold objects against, beyond their schemas, as one check of all objects
together.
"""

from __future__ import annotations

import ipaddress
import json
import re
import typing as t

from tests.standins import spiderpool
from tests.standins.spiderpool import KINDS, Settings
from tests.standins.spiderpool.model import DEFAULTS

Object = t.Mapping[str, t.Any]
_RESOURCE = re.compile(r"[a-zA-Z0-9_]+\Z")
_CNI_NAME = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_.-]*\Z")


def problems(things: t.Sequence[Object], settings: Settings = DEFAULTS) -> list[str]:
    """:param settings: what the plan's own values of the chart decide of Spiderpool's webhooks."""
    found = []
    for thing in things:
        check = _CHECKS.get(thing["kind"])
        if check is not None:
            found.extend("%s %s: %s" % (thing["kind"], thing["metadata"]["name"], each) for each in check(thing))
    found.extend(_of_spiderpool(things, settings))
    found.extend(_policies_together([thing for thing in things if thing["kind"] == "SriovNetworkNodePolicy"]))
    names = [(thing["kind"], thing["metadata"].get("namespace"), thing["metadata"]["name"]) for thing in things]
    found.extend("%s twice" % (name,) for name in sorted({name for name in names if names.count(name) > 1}, key=str))
    return found


Span = t.Tuple[int, int, int]


def spans(texts: t.Iterable[str]) -> list[Span]:
    """Ranges of addresses as family, first and last, in order; neighbours are joined."""
    found: list[Span] = []
    for text in texts:
        first, _dash, last = text.partition("-")
        start, end = ipaddress.ip_address(first), ipaddress.ip_address(last or first)
        found.append((start.version, int(start), int(end)))
    return joined(found)


def joined(found: t.Iterable[Span]) -> list[Span]:
    whole: list[Span] = []
    for family, first, last in sorted(found):
        if whole and whole[-1][0] == family and first <= whole[-1][2] + 1:
            whole[-1] = (family, whole[-1][1], max(last, whole[-1][2]))
        else:
            whole.append((family, first, last))
    return whole


def without(left: t.Sequence[Span], taken: t.Iterable[Span]) -> list[Span]:
    """What is left of ranges when others are taken out."""
    rest = list(left)
    for family, first, last in taken:
        cut: list[Span] = []
        for own, start, end in rest:
            if own != family or last < start or first > end:
                cut.append((own, start, end))
                continue
            if start < first:
                cut.append((own, start, first - 1))
            if last < end:
                cut.append((own, last + 1, end))
        rest = cut
    return rest


def _of_spiderpool(things: t.Sequence[Object], settings: Settings) -> t.Iterator[str]:
    """What Spiderpool's webhooks and the API server refuse of these objects, or change in what we say."""
    there: list[t.Any] = []
    for thing in things:
        if thing["kind"] not in KINDS:
            continue
        named = "%s %s" % (thing["kind"], thing["metadata"]["name"])
        try:
            made = spiderpool.mutate(dict(thing))
            refused = spiderpool.labels_refused(made)
            if refused:
                yield "%s: %s" % (named, refused)
            spiderpool.create(made, spiderpool.Known(pools=there), settings)
        except (spiderpool.Denied, spiderpool.Exhausted) as error:
            yield str(error)
            continue
        if not _kept(thing, made):
            yield "%s: reads back as %s" % (named, made)
        if thing["kind"] == "SpiderIPPool":
            there.append(made)


def _kept(wanted: t.Any, found: t.Any) -> bool:
    """Whether all that we say is still there as we say it."""
    if isinstance(wanted, dict):
        return isinstance(found, dict) and all(_kept(each, found.get(key)) for key, each in wanted.items())
    return bool(wanted == found)


def _policy(thing: Object) -> t.Iterator[str]:
    spec = thing["spec"]
    selector = spec["nicSelector"]
    if not any(selector.get(key) for key in ("vendor", "deviceID", "pfNames", "rootDevices", "netFilter")):
        yield "nicSelector: empty"
    if not 1 <= spec["numVfs"] <= 128:
        yield "numVfs: %d" % spec["numVfs"]
    if spec.get("deviceType") == "vfio-pci" and spec.get("isRdma"):
        yield "isRdma with vfio-pci"
    if not _RESOURCE.match(spec["resourceName"]):
        yield "resourceName: %s" % spec["resourceName"]
    for name in selector.get("pfNames", []):
        found = re.match(r"(.+)#(\d+)-(\d+)\Z", name)
        if "#" in name and (not found or not int(found.group(2)) <= int(found.group(3)) < spec["numVfs"]):
            yield "pfNames: %s" % name
    if len(set(selector.get("rootDevices", []))) != len(selector.get("rootDevices", [])):
        yield "rootDevices: twice the same"


def _policies_together(policies: t.Sequence[Object]) -> t.Iterator[str]:
    taken: dict[tuple[str, str], list[tuple[int, int, str]]] = {}
    for policy in policies:
        spec = policy["spec"]
        for name in spec["nicSelector"].get("pfNames", []):
            port, _hash, vfs = name.partition("#")
            first, last = map(int, vfs.split("-")) if vfs else (0, spec["numVfs"] - 1)
            mine = taken.setdefault((json.dumps(spec["nodeSelector"], sort_keys=True), port), [])
            for other_first, other_last, other in mine:
                if first <= other_last and other_first <= last:
                    yield "policies %s and %s overlap on %s" % (other, policy["metadata"]["name"], port)
            mine.append((first, last, policy["metadata"]["name"]))


def _ip_pool(thing: Object) -> t.Iterator[str]:
    spec = thing["spec"]
    subnet = ipaddress.ip_network(spec["subnet"])
    if not _CNI_NAME.match(thing["metadata"]["name"]):
        yield "metadata.name: no name of a CNI network"
    if spec["perNodeBlockSize"] < 2 or spec["perNodeBlockSize"] > subnet.num_addresses - 2:
        yield "perNodeBlockSize: %d" % spec["perNodeBlockSize"]
    if "gateway" in spec and ipaddress.ip_address(spec["gateway"]) not in subnet:
        yield "gateway: is not in the subnet"
    yield from _exclusions(spec, subnet)
    yield from _nv_routes(spec, subnet)


def _cidr_pool(thing: Object) -> t.Iterator[str]:
    spec = thing["spec"]
    cidr = ipaddress.ip_network(spec["cidr"])
    length = spec["perNodeNetworkPrefix"]
    if not cidr.prefixlen <= length <= cidr.max_prefixlen:
        yield "perNodeNetworkPrefix: %d" % length
    if spec.get("gatewayIndex") is None and (spec.get("defaultGateway") or spec.get("routes")):
        yield "gatewayIndex: needed"
    if not 0 <= spec.get("gatewayIndex", 0) < 2 ** (cidr.max_prefixlen - length):
        yield "gatewayIndex: outside of the node's prefix"
    nodes, prefixes = set(), set()
    for allocation in spec.get("staticAllocations", []):
        prefix = ipaddress.ip_network(allocation["prefix"])
        if prefix.prefixlen != length or not prefix.subnet_of(cidr) or prefix in prefixes:  # type: ignore[arg-type]
            yield "staticAllocations: %s" % prefix
        if allocation["nodeName"] in nodes:
            yield "staticAllocations: twice %s" % allocation["nodeName"]
        if "gateway" in allocation and ipaddress.ip_address(allocation["gateway"]) not in prefix:
            yield "staticAllocations: gateway %s" % allocation["gateway"]
        nodes.add(allocation["nodeName"])
        prefixes.add(prefix)
    yield from _exclusions(spec, cidr)
    yield from _nv_routes(spec, cidr)


def _exclusions(spec: Object, subnet: t.Any) -> t.Iterator[str]:
    for each in spec.get("exclusions", []):
        first, last = ipaddress.ip_address(each["startIP"]), ipaddress.ip_address(each["endIP"])
        if first > last or first not in subnet or last not in subnet:  # type: ignore[operator]
            yield "exclusions: %s-%s" % (first, last)
    for each in spec.get("perNodeExclusions", []):
        if each["startIndex"] > each["endIndex"]:
            yield "perNodeExclusions: %s" % (each,)


def _nv_routes(spec: Object, subnet: t.Any) -> t.Iterator[str]:
    for route in spec.get("routes", []):
        to = ipaddress.ip_network(route["dst"])
        if to.version != subnet.version or (spec.get("defaultGateway") and to.prefixlen == 0):
            yield "routes: %s" % to


def _texts(thing: Object) -> t.Iterator[str]:
    """Fields of JSON text: upstream's templates put them into other JSON, within single quotes."""
    spec = thing["spec"]
    for key, form in (("ipam", "%s"), ("metaPlugins", "[%s]")):
        text = spec.get(key)
        if text:
            if "'" in text or "\n" in text:
                yield "%s: breaks upstream's template" % key
            json.loads(form % text)


_CHECKS: dict[str, t.Callable[[Object], t.Iterator[str]]] = {
    "SriovNetworkNodePolicy": _policy,
    "IPPool": _ip_pool,
    "CIDRPool": _cidr_pool,
    "MacvlanNetwork": _texts,
    "HostDeviceNetwork": _texts,
    "IPoIBNetwork": _texts,
    "SriovNetwork": _texts,
    "SriovIBNetwork": _texts,
}
