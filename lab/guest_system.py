# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The guests' operating system: a release of a distribution, and the program that manages the guest's network."""

from __future__ import annotations

from dataclasses import dataclass

from lab import host as hosts
from lab.errors import LabError

# The releases that --system names, with their codenames.
DEBIAN_RELEASES = {"debian-12": "bookworm", "debian-13": "trixie"}
# Guests that are Kubernetes nodes need a containerd, runc and kernel that Debian 12 does not have.
CLUSTER_SYSTEM = "debian-13"
DEFAULT_NETWORK = "networkd"
# What --network names, with the packages that it needs beside systemd.
NETWORK_PACKAGES: dict[str, tuple[str, ...]] = {
    DEFAULT_NETWORK: (),
    "netplan": ("netplan.io",),
    "networkmanager": ("network-manager",),
}


@dataclass(frozen=True)
class GuestSystem:
    """A release and the owner of the network. ``name`` is the distribution and its version, such as ``debian-12``."""

    name: str
    distribution: str
    codename: str
    network: str = DEFAULT_NETWORK

    @property
    def kernel(self) -> str:
        return hosts.DISTRIBUTIONS[self.distribution].kernel

    @property
    def network_packages(self) -> tuple[str, ...]:
        return NETWORK_PACKAGES[self.network]


def _check_options(system: str | None, network: str | None, cluster: bool) -> None:
    if cluster and system not in (None, CLUSTER_SYSTEM):
        raise LabError(
            "guests of --cluster run %s, not %s" % (CLUSTER_SYSTEM, system),
            "leave out --system, or leave out --cluster",
        )
    if cluster and network not in (None, DEFAULT_NETWORK):
        raise LabError(
            "the network of guests of --cluster is managed by %s, not %s" % (DEFAULT_NETWORK, network),
            "leave out --network, or leave out --cluster",
        )


def choose(host: hosts.Host, system: str | None, network: str | None, cluster: bool) -> GuestSystem:
    """Return the system that the options ask for; by default the host's own release.

    Raises LabError for options that do not go together, and on a host without package sources of that release.
    """
    _check_options(system, network, cluster)
    own = "%s-%s" % (host.id, host.version or host.codename)
    name = system or (CLUSTER_SYSTEM if cluster else own)
    network = network or DEFAULT_NETWORK
    if name not in (own, *DEBIAN_RELEASES):
        raise LabError("the lab has no system %s" % name, "use one of %s" % ", ".join(sorted({own, *DEBIAN_RELEASES})))
    if name == own:
        return GuestSystem(name, host.id, host.codename, network)
    if host.id != "debian":
        raise LabError(
            "guests with %s are built from Debian's package sources, and this machine is %s" % (name, own),
            "run the command on Debian 12 or 13, or without --cluster and --system",
        )
    return GuestSystem(name, host.id, DEBIAN_RELEASES[name], network)
