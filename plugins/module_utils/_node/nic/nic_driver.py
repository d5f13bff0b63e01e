# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The NIC driver of a node: the kernel's (inbox), DOCA-OFED, MLNX_OFED, or the modules of a driver container.

An installation does not load or unload modules. The running driver is a separate state: it changes at a reboot, or by a
restart of the driver stack that the user allows.
"""

from __future__ import annotations

import hashlib
import os
import typing as t
from functools import partial

from ansible_collections.railyard.fabric.plugins.module_utils._common.changes import Change, batch
from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import (
    RailyardError,
    Refused,
    Unsupported,
    raise_all,
)
from ansible_collections.railyard.fabric.plugins.module_utils._common.urls import HIDDEN, masked
from ansible_collections.railyard.fabric.plugins.module_utils._nic_vendors.protocol.vendor_driver import (
    CONTAINER,
    INBOX,
    VendorDriver,
)
from ansible_collections.railyard.fabric.plugins.module_utils._nic_vendors.registry import vendor_drivers
from ansible_collections.railyard.fabric.plugins.module_utils._node.core import boot_lock
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.subsystem import Layer, State, Subsystem
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.nic import driver_compatibility, driver_spec
from ansible_collections.railyard.fabric.plugins.module_utils._node.nic import driver_packages as packages
from ansible_collections.railyard.fabric.plugins.module_utils._node.nic import driver_sources as sources
from ansible_collections.railyard.fabric.plugins.module_utils._node.nic.firmware_card import functions_elsewhere
from ansible_collections.railyard.fabric.plugins.module_utils._node.readers import kernel_modules, pci_functions
from ansible_collections.railyard.fabric.plugins.module_utils._node.readers.initramfs import Initramfs
from ansible_collections.railyard.fabric.plugins.module_utils._node.readers.kernel_modules import KernelModules
from ansible_collections.railyard.fabric.plugins.module_utils._node.safety import management_path
from ansible_collections.railyard.fabric.plugins.module_utils._node.safety.management_path import ManagementPath

# Exists from a change of the packages until the initramfs images with the driver are rebuilt.
UNFINISHED = "/var/lib/railyard/nic_driver.unfinished"
MOK = ("/var/lib/shim-signed/mok/MOK.priv", "/var/lib/dkms/mok.key")
RESTART_SECONDS = 600.0


class _Images(Initramfs):
    """Images that contain the driver's module. Records about other modules do not apply to it."""

    def _known(self) -> dict[str, t.Any]:
        return {}


class NicDriver(Subsystem):
    """See the module's documentation for the options.

    :param architecture, management: the architecture and the management path, for tests; by default observed.
    """

    # a separate lock, because packages take longer to install than other modules wait
    lock = "/run/railyard/nic_driver.lock"

    def __init__(
        self,
        options: t.Mapping[str, t.Any],
        system: System,
        architecture: str | None = None,
        management: ManagementPath | None = None,
    ) -> None:
        super().__init__()
        self._system = system
        self._architecture = architecture or os.uname().machine
        self._management = management
        self._kind: str = options.get("kind") or INBOX
        self._driver = _driver(self._kind, system)
        self._unit = self._driver.service + ".service"
        #: None for the kinds without packages
        self._product = self._driver.kind(self._kind)
        self._version: str = options.get("version") or ""
        self._source_text: str = options.get("source") or ""
        self._key_option: str | None = options.get("key")
        self._unsigned = bool(options.get("unsigned"))
        self._metas: list[str] = list(options.get("packages") or (self._product.packages if self._product else ()))
        self._allow_unlisted = bool(options.get("allow_unlisted"))
        self._restart = options.get("restart") == "allowed"
        self._restarted = False
        self._gather = options.get("state") == "gathered"
        self._manager: packages.Packages | None = None

    # -- observed state -----------------------------------------------------------------------------------------------

    def observe(self) -> State:
        try:
            self._manager = packages.find(self._system, self._driver)
        except Unsupported:
            if self._product and not self._gather:
                raise
        installed = self._manager.installed() if self._manager else {}
        modules = KernelModules(self._system, self._architecture)
        kind, version = self._driver.installed(installed)
        on = driver_compatibility.node(self._system, modules.release, self._architecture)
        running = {name: self._differs(modules, name) for name in self._driver.compared if modules.loaded(name)}
        return {
            "kind": kind,
            "version": version,
            "source": self._repository(),
            "packages": sorted(name for name in installed if self._driver.is_meta(name)),
            "installed": installed,
            "kernels": {release: self._stack_of(release) for release in self._releases(modules.release)},
            "running": {
                "kernel": modules.release,
                "stack": (self._driver.stack if modules.loaded(self._driver.marker) else INBOX) if running else None,
                "version": modules.attribute(self._driver.module, "version"),
                "differing": sorted(name for name, differs in running.items() if differs),
            },
            "blocking": self._blocking(),
            "node": {"distribution": on.distribution, "kernel": on.kernel, "architecture": on.architecture},
        }

    def _repository(self) -> str | None:
        text = (self._system.read_file(self._manager.repository) or "") if self._manager else ""
        for line in text.splitlines():
            fields = line.split()
            if fields[:1] == ["deb"]:
                return masked(fields[-2].rstrip("/"))
            if line.startswith("baseurl="):
                return masked(line.partition("=")[2].rstrip("/"))
        return None

    def _releases(self, running: str) -> list[str]:
        found = kernel_modules.releases(self._system)
        return found if running in found or not self._system.exists("/lib/modules/" + running) else [*found, running]

    def _modules(self, release: str) -> KernelModules:
        return KernelModules(self._system, self._architecture, release)

    def _stack_of(self, release: str) -> str | None:
        """Return the driver that a kernel would load, ``inbox`` or the vendor's; None without one."""
        modules = self._modules(release)
        path = modules.path(self._driver.module) or modules.path("ib_core")
        if path is None:
            return None
        return INBOX if "/kernel/drivers/" in path else self._driver.stack

    def _blocking(self) -> dict[str, list[str]]:
        """Return other modules that use the RDMA core or the driver: name -> the modules that they use."""
        found: dict[str, list[str]] = {}
        for name in sorted(self._driver.modules):
            for holder in self._system.listdir("/sys/module/%s/holders" % name):
                if holder not in self._driver.modules:
                    found.setdefault(holder, []).append(name)
        return found

    @staticmethod
    def _differs(modules: KernelModules, name: str) -> bool:
        """Return whether a loaded module differs from the one on disk, which is loaded next time."""
        live, info = modules.attribute(name, "srcversion"), modules.info(name)
        disk = info.get("srcversion")
        if live and disk:
            return live != disk
        # modules of some kernels, such as Debian's, have no srcversion: compare whether both are in-tree modules
        taint = modules.attribute(name, "taint") or ""
        return bool(info) and ("O" in taint) != (info.get("intree") != "Y")

    # -- changes ------------------------------------------------------------------------------------------------------

    def changes(self, state: State) -> list[Change]:
        self.warnings = []
        leftovers = sources.leftovers(self._system, self._manager, self._unit)
        if self._product:
            changes = self._installing(state)
        else:
            changes = self._to_inbox(state)
            self._warn_of_container(state)
        # leftovers that other changes replace or remove are not removed first
        files = [change.subject for change in changes if change.attribute == "content"]
        changes = [change for change in leftovers if change.subject not in files] + changes
        return changes + self._restarting(state, changes)

    def _installing(self, state: State) -> list[Change]:
        manager = self._manager
        if manager is None:
            raise Unsupported("no package manager was found", "kind", "install apt or dnf")
        installed = state["installed"]
        installed_right = all(
            driver_compatibility.matches(installed.get(name, ""), self._version) for name in self._metas
        )
        key = self._key() if self._key_option else None
        source = sources.Source(self._system, self._source_text, key)
        if not installed_right:
            raise_all(self._refusals(state, source))
        elif source.form == sources.REPOSITORY:
            # the repository's file depends on the source and on signature checks also if all packages are installed
            raise_all(source.problems(self._unsigned))
        files = manager.files(source.source, key, self._metas[0], self._version, source.login)
        if source.form == sources.REPOSITORY:
            changes = self._files(files)
            if not source.login:
                changes += self._removals([manager.login])
        else:
            # packages that are installed from media stay pinned too
            changes = self._files([file for file in files if file.path == manager.pin])
            if source.form != sources.PACKAGE and not installed_right:
                # the file of an earlier repository is removed too
                changes += self._removals([manager.login])
        if not installed_right:
            changes += self._packages(state, source, manager)
        wanted = "%s %s" % (self._kind, self._version)
        changes += self._missing_builds(state, wanted)
        return changes + self._images(changed=not installed_right)

    def _refusals(self, state: State, source: sources.Source) -> list[RailyardError]:
        missing = [key for key, value in (("version", self._version), ("source", self._source_text)) if not value]
        if missing:
            return [RailyardError("is required with kind: %s" % self._kind, key, "set it") for key in missing]
        errors = source.problems(self._unsigned)
        if not self._allow_unlisted:
            on = driver_compatibility.Node(**state["node"])
            errors += driver_compatibility.problems(self._driver, self._kind, self._version, source.source, on)
            self.warnings += driver_compatibility.unconfirmed(self._driver, self._kind, self._version, on)
        release = state["running"]["kernel"]
        if self._builds():
            if not self._system.exists("/lib/modules/%s/build" % release):
                message = "the headers of the kernel %s, which the driver is built with, are not installed" % release
                package = "linux-headers-%s" if self._manager and self._manager.name == "apt" else "kernel-devel-%s"
                errors.append(RailyardError(message, "kind", "install %s" % package % release))
            modules = self._modules(release)
            if modules.signatures_enforced() and not any(self._system.exists(path) for path in MOK):
                message = "Secure Boot requires signed modules, and DKMS does not have a signing key on this node"
                remedy = "create and enroll a key (mokutil --import, update-secureboot-policy), or use kind: inbox"
                errors.append(Refused(message, "kind", remedy))
        return errors

    def _builds(self) -> bool:
        """Return whether the modules are built on the node."""
        if self._manager is not None and self._manager.name == "apt":
            return True
        return self._driver.is_built_on_node(self._driver.train(self._kind, self._version))

    def _key(self) -> str:
        option = self._key_option or ""
        text: str | None = option
        if not option.lstrip().startswith("-----BEGIN"):
            text = self._system.read_file(option)
        if not text or "-----BEGIN PGP PUBLIC KEY BLOCK-----" not in text:
            message = "%s is not an armored public key" % (option if option.startswith("/") else "the text")
            remedy = "give the path of a file on the node, or the output of 'gpg --export --armor'"
            raise RailyardError(message, "key", remedy)
        return text.strip() + "\n"

    def _files(self, wanted: t.Sequence[packages.File]) -> list[Change]:
        changes = []
        for file in wanted:
            present = self._system.read_file(file.path)
            mode = self._system.mode(file.path)

            act = partial(self._system.write_file, file.path, file.text, file.mode)
            if present != file.text:
                before, after = _shown(present), _shown(file.text)
                if before == after:
                    after = str(after).replace(HIDDEN, "%s (another)" % HIDDEN)
                changes.append(Change(file.path, "content", before, after, act))
            elif file.mode == packages.SECRET and mode is not None and mode != file.mode:
                changes.append(Change(file.path, "mode", "%04o" % mode, "%04o" % file.mode, act))
        return changes

    def _removals(self, paths: t.Sequence[str]) -> list[Change]:
        changes = []
        for path in paths:
            present = self._system.read_file(path) if path else None
            if present is not None:
                changes.append(Change(path, "content", _shown(present), None, partial(self._system.remove_file, path)))
        return changes

    def _packages(self, state: State, source: sources.Source, manager: packages.Packages) -> list[Change]:
        """Return one change per package; they are done in one transaction."""
        installed = state["installed"]
        others = [name for name in state["packages"] if self._driver.is_meta(name, but=self._kind)]

        def act() -> None:
            with source.open(manager, self._metas[0], self._version):
                wanted = {name: self._candidate(manager, name) for name in self._metas}
                self._system.write_file(UNFINISHED, "images\n")
                with sources.quiet(self._system, self._unit):
                    manager.install(wanted, others)

        rows = [(name, "version", installed.get(name), self._version) for name in self._metas]
        return batch([*rows, *((name, "version", installed[name], None) for name in others)], act)

    def _candidate(self, manager: packages.Packages, name: str) -> str:
        versions = manager.versions(name)
        found = next((each for each in versions if driver_compatibility.matches(each, self._version)), None)
        if found is None:
            available = ", ".join(versions[:5]) or "no version"
            message = "the source has %s of %s, not %s" % (available, name, self._version)
            raise RailyardError(message, "version", "use a version of the source, or another source")
        return found

    def _missing_builds(self, state: State, wanted: str) -> list[Change]:
        """Return the changes that build the driver for kernels without its modules."""
        changes = []
        for release, stack in state["kernels"].items():
            running = release == state["running"]["kernel"]
            if stack == self._driver.stack or (not running and not self._builds()):
                continue
            if not running and not self._system.exists("/lib/modules/%s/build" % release):
                self.warnings.append(
                    "The kernel %s has the inbox driver, and its headers to build the other one are missing. Remedy:"
                    " install them before this kernel is booted." % release
                )
                continue
            changes.append(Change(release, self._driver.module, stack, wanted, partial(self._build, release)))
        return changes

    def _build(self, release: str) -> None:
        if self._stack_of(release) == self._driver.stack:
            return  # built by the scripts of the packages
        dkms = self._system.which("dkms")
        if dkms:
            remedy = "see 'dkms status' and its log"
            self._system.check([dkms, "autoinstall", "-k", release], remedy, packages.SECONDS)
        if self._stack_of(release) != self._driver.stack:
            raise RailyardError(
                "the packages are installed, but their modules for this kernel are missing",
                release,
                "boot the kernel of the packages, or build the modules for this one with dkms",
            )

    def _images(self, changed: bool) -> list[Change]:
        """Return the rebuilds of initramfs images, if packages change or were changed by an interrupted run."""
        if not changed and not self._system.exists(UNFINISHED):
            return []
        images = _Images(self._system, self._driver.module)
        rebuilds = [images.rebuild(*each) for each in images.images() if images.holds_module(each[1])]
        changes = [Change(each.subject, self._driver.module, "older", "rebuilt", each.act) for each in rebuilds]
        done = partial(self._system.remove_file, UNFINISHED)
        return [*changes, Change("initramfs", self._driver.module, "not checked", "as on disk", done)]

    # -- the inbox driver ---------------------------------------------------------------------------------------------

    def _to_inbox(self, state: State) -> list[Change]:
        manager = self._manager
        if manager is None:
            return []
        installed = state["installed"]
        changes: list[Change] = []
        if installed:
            inbox_versions = {name: manager.inbox_version(name) for name in installed}
            restored = {name: version for name, version in inbox_versions.items() if version}
            removed = [name for name in installed if not inbox_versions[name]]

            def act() -> None:
                self._system.write_file(UNFINISHED, "images\n")
                with sources.quiet(self._system, self._unit):
                    manager.remove(removed, restored)

            changes = batch(
                ((name, "version", version, inbox_versions[name]) for name, version in installed.items()), act
            )
        changes += self._removals([manager.pin, manager.repository, manager.login, manager.key])
        for release, stack in state["kernels"].items():
            if stack == self._driver.stack:
                changes.append(Change(release, self._driver.module, stack, INBOX, partial(self._unbuild, release)))
        return changes + self._images(changed=bool(installed))

    def _unbuild(self, release: str) -> None:
        if self._stack_of(release) == self._driver.stack:
            # the packages are removed; only the index of modules is outdated
            program = self._system.which("depmod") or "depmod"
            self._system.check([program, release], "run it by hand")

    def _warn_of_container(self, state: State) -> None:
        if self._kind != CONTAINER:
            return
        if state["blocking"]:
            self.warnings.append(
                "These modules use the RDMA core, so the container cannot replace it: %s. Remedy: unload them, or let"
                " the container unload them (UNLOAD_STORAGE_MODULES, UNLOAD_THIRD_PARTY_RDMA_MODULES)."
                % _listed(state["blocking"])
            )
        if self._modules(state["running"]["kernel"]).signatures_enforced():
            self.warnings.append(
                "This node requires signed modules, and those of a container are not signed with an enrolled key."
                " Remedy: use kind: inbox, or disable Secure Boot."
            )

    # -- the running driver -------------------------------------------------------------------------------------------

    def _restarting(self, state: State, changes: t.Sequence[Change]) -> list[Change]:
        if not self._restart or self._restarted or not self._runs_other_driver(state, changes):
            return []
        why = self._restart_blocker(state["blocking"])
        if why:
            self.warnings.append("The driver stack is not restarted: %s. The driver takes effect after a reboot." % why)
            return []
        return [Change(self._driver.service, "restart", None, "restarted", self._do_restart)]

    def _runs_other_driver(self, state: State, changes: t.Sequence[Change]) -> bool:
        running = state["running"]
        if running["stack"] is None:
            return False
        builds = (self._driver.module, running["kernel"])
        if any(change.attribute == "version" or (change.attribute, change.subject) == builds for change in changes):
            # predicted: modules of other kernels and initramfs images do not change the running driver
            target = self._driver.stack if self._product else INBOX
            return target == self._driver.stack or running["stack"] != INBOX
        if running["differing"]:
            return True
        on_disk = state["kernels"].get(running["kernel"])
        return on_disk not in (None, running["stack"])

    def _restart_blocker(self, users: t.Mapping[str, t.Sequence[str]]) -> str | None:
        """Return why the driver stack must not be restarted; None if it may be."""
        service = self._driver.service
        if self._product is None and not self._system.exists("/etc/init.d/" + service):
            return "%s is removed with the driver, and it is the only safe way to restart the stack" % service
        management = self._management = self._management or ManagementPath.observe(self._system)
        if not management.known:
            return management_path.UNKNOWN
        for function, why in management.functions.items():
            if self._system.link_name(pci_functions.attribute(function, "driver")) in self._driver.drivers:
                return "%s uses this driver, and %s" % (function, why)
        if users:
            return "other modules use it: %s" % _listed(users)
        functions = pci_functions.network_functions(self._system, self._driver.pci_vendor)
        reasons = ["of %s, %s" % row for row in functions_elsewhere(self._system, functions).items()]
        with_vfs = [function for function in functions if pci_functions.virtual_functions(self._system, function)]
        return next(iter(["%s has VFs, which would be lost" % function for function in with_vfs] + reasons), None)

    def _do_restart(self) -> None:
        systemctl = self._system.which("systemctl")
        argv = [systemctl, "restart", self._unit] if systemctl else ["/etc/init.d/" + self._driver.service, "restart"]
        with boot_lock.turn(self._system, "the restart of the driver stack", boot_lock.SECONDS, boot_lock.DEVICES):
            # checked again, because the packages took long
            why = self._restart_blocker(self._blocking())
            if why:
                message = "the driver stack is not restarted: %s" % why
                raise Refused(message, self._unit, "run again without it, or reboot the node")
            remedy = "see 'journalctl -u %s', and reboot the node" % self._driver.service
            self._system.check(argv, remedy, RESTART_SECONDS)
        self._restarted = True

    def outcome(self, state: State, pending: t.Sequence[Change]) -> dict[str, t.Any]:
        """Return ``reboot_required`` and ``reboot_reasons``, if the next boot loads another driver."""
        restarts = any(change.subject == self._driver.service for change in pending)
        if self._gather or restarts or not self._runs_other_driver(state, pending):
            return {"reboot_required": False, "reboot_reasons": []}
        wanted = "%s %s" % (self._kind, self._version) if self._product else INBOX
        running = state["running"]
        now = "%s %s" % (running["stack"], running["version"]) if running["version"] else running["stack"]
        reason = "the running NIC driver is %s, and the next boot loads %s" % (now, wanted)
        return {"reboot_required": True, "reboot_reasons": [reason]}


def _driver(kind: str, system: System) -> VendorDriver:
    """Return the driver of the vendor of a kind; for the kernel's and a container's, that of the node's NICs."""
    found = vendor_drivers.of_kind(kind)
    if found:
        return found
    drivers = [each for each in vendor_drivers.DRIVERS if pci_functions.network_functions(system, each.pci_vendor)]
    return next(iter(drivers), vendor_drivers.DRIVERS[0])


def _shown(text: str | None) -> str | None:
    """Return a file's text for the list of changes: a key as its hash, other files with passwords masked."""
    if text is None:
        return None
    if "BEGIN PGP" not in text:
        return packages.shown(text)
    return "key, SHA-256 %s" % hashlib.sha256(text.encode("utf-8")).hexdigest()[:16]


def _listed(found: t.Mapping[str, t.Sequence[str]]) -> str:
    return ", ".join("%s (uses %s)" % (name, ", ".join(users)) for name, users in found.items())


LAYER = Layer(driver_spec.SPEC, NicDriver, driver_spec.REQUIRED_IF)
