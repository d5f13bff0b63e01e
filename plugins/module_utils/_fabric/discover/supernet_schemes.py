# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Networks of a given supernet for rails whose ports have no addresses."""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.allocate.address_schemes import SUBNET, Scheme
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.discover.inferred_schemes import stated
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.discover.server_models import Model
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.ip_integers import (
    SUFFIX,
    Network,
    Range,
    network,
    show,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.ip_ranges import (
    Ranges,
    longest,
    single,
    without,
)

# Pod addresses of each node on each rail.
PODS_PER_NODE = 8
# Family -> the longest prefix of a rail's network. Shorter ones are used for more nodes.
_LONGEST = {32: 24, 128: 64}
# A division of a whole /64 is too large to be useful. Addresses that pods and nodes divide; those of pods, unless the
# nodes need more; those of nodes on a rail without pods.
_MOST_ADDRESSES, _MOST_PODS, _MOST_HOSTS = 65536, 4096, 254
PLACE = "discover_supernet"


def supernet_schemes(
    supernet: Network,
    rails: t.Sequence[str],
    for_pods: t.Container[str],
    nodes: int,
    given: t.Mapping[str, str],
    taken: t.Sequence[Network],
) -> dict[str, Scheme]:
    """Return a scheme of mode subnet for each rail. Nodes get the last addresses, pods the others.

    :param nodes: the highest index of a node.
    :param given: ``pods`` and ``gateway`` as short forms.
    :param taken: networks that must not be used.
    :raises RailyardError: if the supernet is too small, or an option is invalid.
    """
    bits, suffix = supernet.bits, SUFFIX[supernet.bits]
    # gateway, network and broadcast address
    wanted = nodes * (1 + PODS_PER_NODE) + 3
    prefix = max(min(_LONGEST[bits], bits - (wanted - 1).bit_length()), supernet.prefix)
    nets: list[Network] = []
    while prefix <= bits - 2 and len(nets) < len(rails):
        nets = _networks(supernet, prefix, len(rails), taken)
        prefix += 1
    schemes: dict[str, Scheme] = {}
    for rail, net in zip(rails, nets):
        scheme = _divided(net, nodes, *stated(given, net), rail in for_pods)
        if scheme:
            schemes[rail] = scheme
    if len(schemes) < len(rails):
        needed = bits - (len(rails) - 1).bit_length() - (wanted - 1).bit_length()
        message = "%s is too small for %d rails with node indexes up to %d" % (supernet, len(rails), nodes)
        if taken:
            message += " beside the networks that ports have"
        remedy = "set a network of at least /%d, such as %s" % (needed, "fd00::/48" if suffix else "172.16.0.0/12")
        raise RailyardError(message, PLACE, remedy)
    return schemes


def _networks(supernet: Network, prefix: int, count: int, taken: t.Sequence[Network]) -> list[Network]:
    """Return the first networks of this length that overlap no taken one; fewer if there are not enough."""
    size = 1 << supernet.bits - prefix
    nets: list[Network] = []
    for free in without([supernet.addresses], [net.addresses for net in taken]):
        first = -(-free.first // size) * size
        starts = range(first, min(free.last + 2 - size, first + size * (count - len(nets))), size)
        nets.extend(network(start, prefix, supernet.bits) for start in starts)
    return nets


def _divided(net: Network, nodes: int, gateway: int | None, pods: Range | None, for_pods: bool) -> Scheme | None:
    """Return the division of a network between pods and nodes, with room for more nodes; None if it is too small.

    :param pods: the addresses of pods, if an option sets them.
    """
    used = [] if gateway is None or not net.holds(gateway) else [single(gateway, net.bits)]
    free = longest(without([net.usable], [*used, *([pods] if pods else [])]))
    if free is None or free.size < nodes + (for_pods and not pods):
        return None
    room = min(free.size, _MOST_ADDRESSES) // (1 + PODS_PER_NODE) if for_pods else min(free.size, _MOST_HOSTS)
    hosts = Range(free.last - max(nodes, room) + 1, free.last, net.bits)
    if for_pods and not pods:
        most = max(_MOST_PODS, nodes * PODS_PER_NODE)
        pods = Range(free.first, min(hosts.first, free.first + most) - 1, net.bits)
    return Scheme(
        SUBNET, net, gateway=gateway, pods=Ranges.of(pods) if for_pods and pods else None, hosts=Ranges.of(hosts)
    )


def check_free(supernet: Network, models: t.Iterable[Model]) -> None:
    """Raise RailyardError if a port other than those of rails has an address of the supernet."""
    for model in models:
        own = set(model.rails.values())
        for node in model.nodes:
            for key, nic in node.nics.items():
                held = nic.addresses.get(supernet.bits) if key not in own else None
                if held and supernet.holds(held.address):
                    address = show(held.address, supernet.bits)
                    message = "%s contains %s, which %s has on %s" % (supernet, address, node.name, nic.netdev or key)
                    raise RailyardError(message, PLACE, "set a network that nothing else uses")
