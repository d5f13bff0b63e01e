# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""The distributions and kernels that a NIC driver supports according to its vendor, and the parts of a source's name.

A combination that is missing here may work. Sources:

- ``PUBLISHED`` was checked on 2026-11-21 and 2026-11-22: by the name of a published package or repository of that
  release, as public build scripts and instructions use them; Debian of 5.8 and 23.10 by the vendor's pages (General
  Support of MLNX_OFED 5.8-1.0.1.1, Changes and New Features of 23.10-3.2.1.1); Ubuntu 18.04 and RHEL 9 of 5.8, and
  RHEL 10 of 26.04, by its release notes of GPUDirect Storage (MLNX_OFED/DOCA and File System Requirements); RHEL 8 of
  25.01 to 25.10, Ubuntu 22.04, RHEL 8 and 9 of 26.04 by its list of driver images for each release
  (https://github.com/Mellanox/network-operator-docs, docs/advanced/images-sha256.rst).
- ``UNCONFIRMED`` is from the vendor's lists (MLNX_OFED 24.04 and 24.07, DOCA 2.9 to 3.4), and no package was found on
  these days. Such a combination is accepted with a warning. The vendor's Changes and New Features of DOCA 2.9.4 limit
  Debian 10 with 24.10 to arm64 with a kernel 5.15.
- ``BUILT_ON_NODE``: the vendor's General Support page of DOCA 3.2.1.
"""

from __future__ import annotations

import re
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError, Refused
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System

DOCA = "doca"
MLNX = "mlnx"
# DOCA's release -> the OFED that it holds.
TRAINS = {
    "2.5": "23.10",
    "2.6": "24.01",
    "2.7": "24.04",
    "2.8": "24.07",
    "2.9": "24.10",
    "2.10": "25.01",
    "3.0": "25.04",
    "3.1": "25.07",
    "3.2": "25.10",
    "3.3": "26.01",
    "3.4": "26.04",
}
SEEN = "2026-11-22"
# OFED release -> distributions that it is published for. Debian and RHEL by major version: the name of the source has
# the minor version.
PUBLISHED: dict[str, frozenset[str]] = {
    "5.8": frozenset(
        ("ubuntu18.04", "ubuntu20.04", "ubuntu22.04", "debian9", "debian10", "debian11", "rhel7", "rhel8", "rhel9")
    ),
    "23.10": frozenset(("ubuntu20.04", "ubuntu22.04", "debian12", "rhel8", "rhel9")),
    "24.01": frozenset(("ubuntu20.04", "ubuntu22.04", "rhel8", "rhel9")),
    "24.04": frozenset(("ubuntu22.04", "ubuntu24.04", "rhel9")),
    "24.07": frozenset(("ubuntu22.04", "ubuntu24.04", "rhel9")),
    "24.10": frozenset(("ubuntu20.04", "ubuntu22.04", "ubuntu24.04", "debian12", "rhel8", "rhel9")),
    "25.01": frozenset(("ubuntu22.04", "ubuntu24.04", "rhel8", "rhel9")),
    "25.04": frozenset(("ubuntu22.04", "ubuntu24.04", "rhel8", "rhel9")),
    "25.07": frozenset(("ubuntu20.04", "ubuntu22.04", "ubuntu24.04", "debian12", "rhel8", "rhel9", "rhel10")),
    "25.10": frozenset(("ubuntu22.04", "ubuntu24.04", "debian13", "rhel8", "rhel9", "rhel10")),
    "26.01": frozenset(("ubuntu22.04", "ubuntu24.04", "debian13", "rhel8", "rhel9", "rhel10")),
    "26.04": frozenset(("ubuntu22.04", "ubuntu24.04", "ubuntu26.04", "rhel8", "rhel9", "rhel10")),
}
UNCONFIRMED: dict[str, frozenset[str]] = {
    "24.04": frozenset(("rhel8",)),
    "24.07": frozenset(("rhel8",)),
    "24.10": frozenset(("debian10",)),
    "25.01": frozenset(("debian12",)),
    "25.04": frozenset(("debian12",)),
    "25.10": frozenset(("debian12",)),
    "26.01": frozenset(("debian12",)),
    "26.04": frozenset(("debian12",)),
}
LISTED: dict[str, frozenset[str]] = {
    ofed: known | UNCONFIRMED.get(ofed, frozenset()) for ofed, known in PUBLISHED.items()
}
# From this release on the modules are built on the node (DKMS), and there is one package per major version.
BUILT_ON_NODE = (25, 10)
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

_MLNX_FILE = re.compile(
    r"MLNX_OFED(?:_LINUX)?-(\d+\.\d+-[0-9.]+)-([a-z]+[0-9.]+)[-.]?([a-z0-9_]+)?(?:-ext)?\.(?:iso|tgz|tar\.gz)$"
)
_DOCA_FILE = re.compile(
    r"doca-host[_-](\d+\.\d+\.\d+)[-_][0-9]+[-_](\d+\.\d+)[-_]([a-z]+[0-9]+)[._](\w+)\.(?:deb|rpm)$"
)
_PLACE = re.compile(r"^(ubuntu|debian|rhel)([0-9.]+)$")


class Node(t.NamedTuple):
    """``distribution`` with its version (``ubuntu22.04``, ``rhel9.4``), kernel release, architecture."""

    distribution: str
    kernel: str
    architecture: str

    @property
    def family(self) -> str:
        """The key of the tables above."""
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
    match = _MLNX_FILE.match(name)
    if match:
        return SourceName(match.group(1), match.group(2), ARCHITECTURES.get(match.group(3) or ""))
    match = _DOCA_FILE.match(name)
    if match:
        return SourceName(match.group(1), match.group(3), ARCHITECTURES.get(match.group(4)))
    found = SourceName()
    for part in source.split("/"):
        if _PLACE.match(part):
            found = found._replace(distribution=part)
        elif part in ARCHITECTURES:
            found = found._replace(architecture=ARCHITECTURES[part])
    return found


def train(kind: str, version: str) -> str | None:
    """Return the OFED release: ``24.10`` for ``2.9.3`` of DOCA and ``24.10-1.1.4.0`` of MLNX_OFED; None if unknown."""
    match = re.match(r"(\d+\.\d+)", version)
    if not match:
        return None
    return TRAINS.get(match.group(1)) if kind == DOCA else match.group(1)


def problems(kind: str, version: str, source: str, on: Node) -> list[RailyardError]:
    """Return a refusal for each mismatch of source and node, and for a combination that is not in ``LISTED``."""
    found: list[RailyardError] = []
    named = parse_source(source)
    ofed = train(kind, version)
    if named.architecture and named.architecture != on.architecture:
        message = "it is for %s, but the node is %s" % (named.architecture, on.architecture)
        found.append(Refused(message, "source", "use the source for this architecture"))
    if named.distribution and not _fits(named.distribution, on, ofed):
        message = "it is for %s, but the node runs %s" % (named.distribution, on.distribution or _UNKNOWN)
        found.append(Refused(message, "source", "use the source for this distribution, or " + _OVERRIDE))
    if ofed not in LISTED:
        message = "%s %s is not a known release (%s)" % (kind, version, _AS_OF)
        found.append(Refused(message, "version", _COMPARE))
    elif on.family not in LISTED[ofed]:
        fitting = [release for release, families in LISTED.items() if on.family in families]
        message = "%s %s is not known (%s) to be listed by its vendor for %s%s" % (
            kind,
            version,
            _AS_OF,
            on.distribution or _UNKNOWN,
            "; OFED %s is" % ", ".join(fitting) if fitting else "",
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


_AS_OF = "as of " + SEEN
_UNKNOWN = "an unknown distribution"
_OVERRIDE = "set driver.allow_unlisted: true if you know that it works"
_COMPARE = (
    "see the vendor's page of supported operating systems for the release; if it lists the node, or you know that it "
    "works, set driver.allow_unlisted: true"
)


def unconfirmed(kind: str, version: str, on: Node) -> list[str]:
    """Return the warning about a combination of ``UNCONFIRMED``; empty for others."""
    if on.family not in UNCONFIRMED.get(train(kind, version) or "", ()):
        return []
    text = "%s %s for %s: listed by the vendor earlier, but no published package was found (%s). "
    text += "Remedy: compare the vendor's page of supported operating systems"
    return [text % (kind, version, on.distribution, _AS_OF)]


def _fits(distribution: str, on: Node, ofed: str | None) -> bool:
    """Return whether a source's distribution (``ubuntu2204``, ``rhel9.4``, ``rhel9``) is the node's."""
    source_name, node_name = distribution.replace(".", ""), on.distribution.replace(".", "")
    if source_name == node_name:
        return True
    built_on_node = ofed is not None and tuple(int(part) for part in ofed.split(".")) >= BUILT_ON_NODE
    debian = on.family.startswith("debian") and source_name.startswith(on.family)
    return debian or (built_on_node and source_name == on.family.replace(".", ""))


def matches(installed: str, wanted: str) -> bool:
    """Return whether a package's version is of a release: ``2.9.3-0.2.2`` and ``2.9.3022-1`` are of ``2.9.3``."""
    return re.match(r"(?:\d+:)?%s(?:\d{3})?(?:[-.+~]|$)" % re.escape(wanted), installed) is not None
