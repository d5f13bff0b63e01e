# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether a NIC driver, its source and the node go together, according to the lists of the vendor."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError, Refused
from ansible_collections.railyard.fabric.plugins.module_utils._nic_vendors.protocol.vendor_driver import VendorDriver
from ansible_collections.railyard.fabric.plugins.module_utils._nic_vendors.registry import vendor_drivers
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System

# The initial kernel of each distribution, which is the vendor's default kernel for it.
KERNELS = {
    "ubuntu18.04": "4.15",
    "ubuntu20.04": "5.4",
    "ubuntu22.04": "5.15",
    "ubuntu24.04": "6.8",
    "ubuntu26.04": "7.0",
    "debian9": "4.9",
    "debian10": "4.19",
    "debian11": "5.10",
    "debian12": "6.1",
    "debian13": "6.12",
    "rhel7": "3.10",
    "rhel8": "4.18",
    "rhel9": "5.14",
    "rhel10": "6.12",
}
# RHEL and its rebuilds, for which the vendor's packages for RHEL are used.
REBUILDS = ("almalinux", "centos", "ol", "rhel", "rocky")
ARCHITECTURES = {"amd64": "x86_64", "x86_64": "x86_64", "arm64": "aarch64", "aarch64": "aarch64"}

_PLACE = re.compile(r"^(ubuntu|debian|rhel)([0-9.]+)$")


class Node(t.NamedTuple):
    """``distribution`` with its version (``ubuntu22.04``, ``rhel9.4``), kernel release, architecture."""

    distribution: str
    kernel: str
    architecture: str

    @property
    def family(self) -> str:
        """The key of the vendors' lists and of :data:`KERNELS`."""
        return self.distribution if self.distribution.startswith("ubuntu") else self.distribution.partition(".")[0]


class SourceName(t.NamedTuple):
    """The parts of a source's name; None for missing ones."""

    release: str | None = None
    distribution: str | None = None
    architecture: str | None = None


def node(system: System, kernel: str, architecture: str) -> Node:
    """Return the node's distribution, kernel and architecture in the vendor's terms."""
    values = {}
    for line in (system.read_file("/etc/os-release") or system.read_file("/usr/lib/os-release") or "").splitlines():
        key, _equals, value = line.partition("=")
        values[key] = value.strip().strip("\"'")
    name, version = values.get("ID", ""), values.get("VERSION_ID", "")
    if name == "debian":
        version = system.read("/etc/debian_version") or version
    return Node(("rhel" if name in REBUILDS else name) + version, kernel, architecture)


def parse_source(source: str) -> SourceName:
    """Parse the name of a file, or the path of a repository."""
    name = source.rstrip("/").rpartition("/")[2]
    for match in (kind.file.match(name) for driver in vendor_drivers.DRIVERS for kind in driver.kinds):
        if match:
            architecture = ARCHITECTURES.get(match.group("architecture") or "")
            return SourceName(match.group("release"), match.group("distribution"), architecture)
    found = SourceName()
    for part in source.split("/"):
        if _PLACE.match(part):
            found = found._replace(distribution=part)
        elif part in ARCHITECTURES:
            found = found._replace(architecture=ARCHITECTURES[part])
    return found


def problems(driver: VendorDriver, kind: str, version: str, source: str, on: Node) -> list[RailyardError]:
    """Return a refusal for each mismatch of source and node, and for a combination that the vendor does not list."""
    found: list[RailyardError] = []
    named = parse_source(source)
    train = driver.train(kind, version)
    lists = driver.listed()
    as_of = "as of " + driver.checked
    if named.architecture and named.architecture != on.architecture:
        message = "it is for %s, but the node is %s" % (named.architecture, on.architecture)
        found.append(Refused(message, "source", "use the source for this architecture"))
    if named.distribution and not _fits(named.distribution, on, driver.is_built_on_node(train)):
        message = "it is for %s, but the node runs %s" % (named.distribution, on.distribution or _UNKNOWN)
        found.append(Refused(message, "source", "use the source for this distribution, or " + _OVERRIDE))
    if train not in lists:
        message = "%s %s is not a known release (%s)" % (kind, version, as_of)
        found.append(Refused(message, "version", _COMPARE))
    elif on.family not in lists[train]:
        fitting = [release for release, families in lists.items() if on.family in families]
        message = "%s %s is not known (%s) to be listed by its vendor for %s%s" % (
            kind,
            version,
            as_of,
            on.distribution or _UNKNOWN,
            "; %s %s is" % (driver.title, ", ".join(fitting)) if fitting else "",
        )
        found.append(Refused(message, "version", _COMPARE))
    else:
        listed = KERNELS[on.family]
        if not re.match(re.escape(listed) + r"(?!\d)", on.kernel):
            message = "drivers for %s are listed for its kernel %s, but %s runs" % (
                on.distribution,
                listed,
                on.kernel,
            )
            found.append(Refused(message, "version", "boot the distribution's own kernel, or " + _OVERRIDE))
    return found


_UNKNOWN = "an unknown distribution"
_OVERRIDE = "set driver.allow_unlisted: true if you know that it works"
_COMPARE = (
    "see the vendor's page of supported operating systems for the release; if it lists the node, or you know that it "
    "works, set driver.allow_unlisted: true"
)


def unconfirmed(driver: VendorDriver, kind: str, version: str, on: Node) -> list[str]:
    """Return the warning about a combination of ``unconfirmed``; empty for others."""
    if on.family not in driver.unconfirmed.get(driver.train(kind, version) or "", ()):
        return []
    text = "%s %s for %s: listed by the vendor earlier, but no published package was found (as of %s). "
    text += "Remedy: compare the vendor's page of supported operating systems"
    return [text % (kind, version, on.distribution, driver.checked)]


def _fits(distribution: str, on: Node, built_on_node: bool) -> bool:
    """Return whether a source's distribution (``ubuntu2204``, ``rhel9.4``, ``rhel9``) is the node's."""
    source_name, node_name = distribution.replace(".", ""), on.distribution.replace(".", "")
    if source_name == node_name:
        return True
    debian = on.family.startswith("debian") and source_name.startswith(on.family)
    return debian or (built_on_node and source_name == on.family.replace(".", ""))


def matches(installed: str, wanted: str) -> bool:
    """Return whether a package's version is of a release: ``2.9.3-0.2.2`` and ``2.9.3022-1`` are of ``2.9.3``."""
    return re.match(r"(?:\d+:)?%s(?:\d{3})?(?:[-.+~]|$)" % re.escape(wanted), installed) is not None
