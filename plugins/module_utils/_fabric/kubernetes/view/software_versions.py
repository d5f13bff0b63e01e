# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Versions, files and checksums of the software that a fabric's objects need.

Checksums are listed if upstream publishes the file or its digest in its repository. Otherwise the user sets the
checksum: nothing is installed without one.
"""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.view.plan_view import (
    LABEL,
    MANAGED_BY,
    MANAGER,
)

CHART = "chart"
MANIFEST = "manifest"
# Label of objects from a manifest or chart. Upgrades find removed objects by it, and removals all objects.
SOFTWARE = LABEL + "software"


class File(t.NamedTuple):
    """``name`` is upstream's; ``sha256`` is empty if upstream publishes none that could be read."""

    name: str
    sha256: str


class Pin(t.NamedTuple):
    """A version of one piece of software. ``chart``: the chart's name, which its values have too."""

    kind: str
    version: str
    files: t.Mapping[str, t.Sequence[File]]
    chart: str = ""
    #: the namespace if options do not set one
    namespace: str = ""

    def file(self, version: str) -> str:
        """Return the name of the chart's archive in another version."""
        return self.files[""][0].name.replace(self.version, version)


# Name -> pin. Files are listed by the way of installation; "" if there is only one.
PINS: dict[str, Pin] = {
    "calico": Pin(
        MANIFEST,
        "v3.32.1",
        {
            "manifests": (File("calico.yaml", "a1df919d9721cf667accdc3e72848911b0cb25cfab7d2478ad0c996302c95744"),),
            "operator": (
                File("operator-crds.yaml", "192f8b2d934ef24b62e86b7e1a6e1762d1c8af26a916f78057bc13fa5ed60f71"),
                File("tigera-operator.yaml", "f18e073794207d372606bc3ea6f8fd73972f86d6828f4ba666dfe0d4aa8ab07f"),
            ),
        },
    ),
    "flannel": Pin(
        MANIFEST,
        "v0.28.9",
        {"": (File("kube-flannel.yml", "e875824be2f552b45711dbda91af81b17eb961d00025d914d9fef18fad8f09c0"),)},
    ),
    "multus": Pin(
        MANIFEST,
        "v4.3.0",
        {"": (File("multus-daemonset-thick.yml", "2d622f697809644a12704497bbf5c3256adc1e7f5b5504655e4993743651b585"),)},
    ),
    "sriov-operator": Pin(
        CHART,
        "1.6.0",
        {"": (File("sriov-network-operator-chart-1.6.0.tgz", ""),)},
        "sriov-network-operator",
        "sriov-network-operator",
    ),
    "spiderpool": Pin(
        CHART,
        "1.2.2",
        {"": (File("spiderpool-1.2.2.tgz", "55d25e6ea19f30bcc8c7e45093522b4ada77e8959baef1a127525916c4b69dd1"),)},
        "spiderpool",
        "spiderpool",
    ),
    "network-operator": Pin(
        CHART, "26.4.1", {"": (File("network-operator-26.4.1.tgz", ""),)}, "network-operator", "nvidia-network-operator"
    ),
    "gpu-operator": Pin(
        CHART,
        "v26.7.0",
        {"": (File("gpu-operator-v26.7.0.tgz", "bf6b04c16ff7cbc05720ea4b94187217316f9d869d445cfbde4fe0dffabe2557"),)},
        "gpu-operator",
        "gpu-operator",
    ),
}


def files(name: str, way: str, version: str, checksums: t.Mapping[str, str]) -> tuple[File, ...]:
    """Return the files of a version, each with its required checksum (empty without one).

    :param checksums: the user's, by file name; they override the listed ones.
    :raises RailyardError: for a checksum that is invalid, or of another file.
    """
    pin = PINS[name]
    if way not in pin.files:
        raise RailyardError(
            "%r is not a way to install it" % way, "%s: method" % name, "use one of %s" % ", ".join(sorted(pin.files))
        )
    found = pin.files[way]
    if version and version != pin.version:
        found = (File(pin.file(version), ""),) if pin.kind == CHART else [File(each.name, "") for each in found]
    names = [each.name for each in found]
    for key, value in checksums.items():
        if key not in names:
            raise RailyardError(
                "%s is not one of its files" % key, "%s: checksums" % name, "name one of %s" % ", ".join(names)
            )
        if len(value) != 64 or set(value) - set("0123456789abcdef"):
            raise RailyardError(
                "%r is not a SHA-256" % value,
                "%s: checksums.%s" % (name, key),
                "write 64 hexadecimal digits in lower case",
            )
    return tuple(File(each.name, checksums.get(each.name, each.sha256)) for each in found)


def labels(name: str) -> dict[str, str]:
    return {MANAGED_BY: MANAGER, SOFTWARE: name}
