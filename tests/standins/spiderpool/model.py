# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the parts of the model share: constants, settings, the webhook's answers, and addresses.

Addresses are read as Go's net package and upstream's pkg/ip read them.
"""

from __future__ import annotations

import ipaddress
import typing as t

Object = t.Dict[str, t.Any]
# Kind -> (plural, whether it is in a namespace)
KINDS = {
    "SpiderIPPool": ("spiderippools", False),
    "SpiderReservedIP": ("spiderreservedips", False),
    "SpiderMultusConfig": ("spidermultusconfigs", True),
}
# The sections of a SpiderMultusConfig that name pools and a resource, as far as a plan has them.
POOLED = ("macvlan", "ipvlan", "sriov", "ibsriov", "ipoib")
GROUP, VERSION = "spiderpool.spidernet.io", "v2beta1"
CIDR_LABEL = "ipam.spidernet.io/ippool-cidr"
INJECTIONS = ("cni.spidernet.io/rdma-resource-inject", "cni.spidernet.io/network-resource-inject")
ATTACHMENT_NAME = "multus.spidernet.io/cr-name"
ATTACHMENT_VERSION = "multus.spidernet.io/cni-version"
CNI_VERSIONS = ("0.3.0", "0.3.1", "0.4.0", "1.0.0")
# How many addresses the controller can list before the memory of its container, 1 GiB by the chart, is gone:
# each takes some 40 bytes as an address and 100 as a key.
LISTED = 6_000_000


class Settings(t.NamedTuple):
    """What the chart's values decide."""

    ipv4: bool = True
    ipv6: bool = True
    on_delete: bool = False

    @classmethod
    def of(cls, values: t.Mapping[str, t.Any]) -> Settings:
        """The settings that values of the chart ``spiderpool`` make."""
        controller = values.get("spiderpoolController", {})
        return cls(
            values["ipam"]["enableIPv4"],
            values["ipam"]["enableIPv6"],
            controller.get("enableValidatingResourcesDeletedWebhook", False),
        )


class Known(t.NamedTuple):
    """What the webhook finds in the cluster."""

    pools: t.Sequence[Object] = ()
    attachments: t.Sequence[Object] = ()


NOTHING = Known()
DEFAULTS = Settings()


class Denied(Exception):
    """The webhook refuses. ``code`` and ``reason`` are those of its status."""

    def __init__(self, message: str, code: int = 422, reason: str = "Invalid") -> None:
        super().__init__(message)
        self.code, self.reason = code, reason


class Exhausted(Exception):
    """The controller lists so many addresses that it runs out of memory: the process ends and does not answer."""


def webhook(kind: str) -> str:
    """The name under which the chart registers the webhooks of a kind."""
    return "%s.%s" % (kind.lower(), GROUP)


def cidr_label(subnet: str) -> str:
    """A subnet as the value of the label by which the webhook finds the other pools of it."""
    return subnet.replace(".", "-", 3).replace(":", "-", 7).replace("/", "-", 1)


def section_of(kind: str) -> str:
    """The key of a CNI's section in the spec."""
    return {"ib-sriov": "ibsriov"}.get(kind, kind)


def network_of(subnet: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
    return ipaddress.ip_network(subnet, strict=False)


def is_cidr(version: int, subnet: str) -> bool:
    """Go takes an IPv4 address that is written as an IPv6 one for IPv4."""
    try:
        network = network_of(subnet)
    except ValueError:
        return False
    address = network.network_address
    mapped = isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None
    return bool((4 if mapped else network.version) == version and "/" in subnet)


def span(version: int, text: str) -> tuple[int, int]:
    """A range's first and last address as numbers. :raises ValueError: for other families."""
    parts = [ipaddress.ip_address(each) for each in text.split("-")]
    if len(parts) > 2 or any(each.version != version for each in parts) or int(parts[0]) > int(parts[-1]):
        raise ValueError(text)
    return int(parts[0]), int(parts[-1])


def shown(version: int, first: int, last: int) -> str:
    kind = ipaddress.IPv4Address if version == 4 else ipaddress.IPv6Address
    return str(kind(first)) if first == last else "%s-%s" % (kind(first), kind(last))


def listed(spans: t.Iterable[tuple[int, int]]) -> None:
    count = sum(last - first + 1 for first, last in spans)
    if count > LISTED:
        raise Exhausted("%d addresses to be listed" % count)
