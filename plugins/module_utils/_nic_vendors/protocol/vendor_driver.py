# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The NIC driver that a vendor publishes as packages, beside the one of the kernel (inbox). Pure data.

The reader of the fabric file, lint and the module nic_driver read it.
"""

from __future__ import annotations

import re
import typing as t

# Kinds without packages of a vendor: the driver of the kernel, and that of a driver container.
INBOX, CONTAINER = "inbox", "container"
Releases = t.Mapping[str, t.FrozenSet[str]]


class DriverKind(t.NamedTuple):
    """One product with the driver.

    ``packages``: what is installed by default. ``meta``: names of metapackages of the whole driver.
    ``endings``: of file names with the packages; a source with another ending is a repository or directory.
    ``file``: names of such files, with the groups ``release``, ``distribution`` and ``architecture``.
    ``trains``: release of the product -> release of the driver; None: they are the same.
    """

    name: str
    packages: tuple[str, ...]
    meta: re.Pattern[str]
    endings: tuple[str, ...]
    file: re.Pattern[str]
    trains: t.Mapping[str, str] | None = None


class VendorDriver:
    """The driver of one vendor. A vendor overrides all values."""

    #: the running driver in results of modules, and its name in messages
    stack = ""
    title = ""
    #: PCI vendor ID of its NICs
    pci_vendor = ""
    kinds: tuple[DriverKind, ...] = ()
    #: the vendor's packages: by name, or by a mark in the version of packages with other names
    names: re.Pattern[str]
    marks: re.Pattern[str]
    #: the package with the kernel modules, and the kind to which it belongs without a package in ``meta``
    kernel_part: re.Pattern[str]
    kernel_part_kind = ""
    #: the kernel module whose presence shows the driver, and the one that only the vendor's driver has
    module = ""
    marker = ""
    #: drivers of PCI functions; loaded modules that are compared with those on disk; all modules that a restart of the
    #: driver unloads and loads: another module that uses one of them blocks it
    drivers: tuple[str, ...] = ()
    compared: tuple[str, ...] = ()
    modules: frozenset[str] = frozenset()
    #: the service that loads the modules
    service = ""
    #: environment of the package manager
    environment: tuple[str, ...] = ()
    #: when the lists below were checked; driver release -> distributions that it is published for, or listed for by the
    #: vendor without a package that was found (accepted with a warning). Debian and RHEL by major version
    checked = ""
    published: Releases = {}
    unconfirmed: Releases = {}
    #: from this release on the modules are built on the node (DKMS), and there is one package per major version
    built_on_node: tuple[int, ...] = ()

    def kind(self, name: str) -> DriverKind | None:
        return next((kind for kind in self.kinds if kind.name == name), None)

    def is_package(self, name: str, version: str) -> bool:
        """Return whether an installed package is the vendor's."""
        return self.names.match(name) is not None or self.marks.search(version) is not None

    def is_meta(self, name: str, but: str = "") -> bool:
        """Return whether a package is a metapackage of the whole driver, of another kind than ``but``."""
        return any(kind.meta.match(name) for kind in self.kinds if kind.name != but)

    def installed(self, packages: t.Mapping[str, str]) -> tuple[str, str | None]:
        """Return kind and version of the installed driver, by its packages (name -> version)."""
        for kind in self.kinds:
            for name in sorted(packages):
                if kind.meta.match(name):
                    return kind.name, packages[name]
        for name in sorted(packages):
            if self.kernel_part.match(name):
                return self.kernel_part_kind, packages[name]
        return INBOX, None

    def listed(self) -> dict[str, frozenset[str]]:
        """Return driver release -> the distributions in both lists."""
        return {train: known | self.unconfirmed.get(train, frozenset()) for train, known in self.published.items()}

    def train(self, kind: str, version: str) -> str | None:
        """Return the driver's release (``24.10``) for a version of a kind; None if it is unknown."""
        match = re.match(r"(\d+\.\d+)", version)
        product = self.kind(kind)
        if not match or product is None:
            return None
        return match.group(1) if product.trains is None else product.trains.get(match.group(1))

    def is_built_on_node(self, train: str | None) -> bool:
        return train is not None and tuple(int(part) for part in train.split(".")) >= self.built_on_node
