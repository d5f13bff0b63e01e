# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Changes to one PF and its VFs.

Sources: the kernel's ``Documentation/PCI/pci-iov-howto.rst``, and ``drivers/pci/iov.c`` for what its errors mean.
"""

from __future__ import annotations

import contextlib
import errno
import os
import time
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common import vf_attributes
from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import (
    RailyardError,
    Refused,
    Unsupported,
    raise_all,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.codec import NetlinkError
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.link_messages import Row
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.rtnetlink import Rtnetlink
from ansible_collections.railyard.fabric.plugins.module_utils._node.readers import pci_functions
from ansible_collections.railyard.fabric.plugins.module_utils._node.safety import vf_holders
from ansible_collections.railyard.fabric.plugins.module_utils._node.sriov.pf_state import MARK, PfState, is_passed_on

DRIVERS_PROBE = "/sys/bus/pci/drivers_probe"
# No NIC has a VF with this number: the error of setting an attribute on it shows whether the driver supports the
# attribute. Its low byte is also high, for a driver that uses only the low byte.
NO_VF = 0x70F0
PAUSE = 0.05
LINK_LAYERS = {vf_attributes.ETHERNET: "Ethernet", vf_attributes.INFINIBAND: "InfiniBand"}
RELEASE = "stop the holder, or drain the node, and run again"
WRITE_REMEDIES = {
    errno.ENOENT: "load the PF's driver, and check that it supports SR-IOV",
    errno.EBUSY: "stop the other program that changes the VFs on this node",
    errno.ENOMEM: "the firmware leaves no room for VFs: enable SR-IOV in the BIOS, or boot the kernel with pci=realloc",
    errno.ENOSPC: "the firmware leaves no room for VFs: enable SR-IOV in the BIOS, or boot the kernel with pci=realloc",
    errno.EACCES: "run the task with become",
    errno.EPERM: "run the task with become; check for kernel lockdown and for a container that hides the device",
    errno.EROFS: "run on the node itself: sysfs is mounted read-only here",
}


class Pf(PfState):
    """A PF whose VFs can be created, removed, configured and bound. Failures raise :class:`RailyardError`.

    :param holders_of: a function that returns the holders of VFs, for tests.
    :param ours: the numbers of the VFs that may be configured; None: all.
    """

    def __init__(
        self,
        system: System,
        table: Rtnetlink,
        address: str,
        holders_of: vf_holders.Holders = vf_holders.of,
        ours: range | None = None,
    ) -> None:
        super().__init__(system, table, address)
        self._holders_of = holders_of
        self.ours = ours

    def cannot(self, name: str, value: t.Any) -> str:
        """Return why an attribute cannot be set to the value on this PF's VFs; empty if no reason is known."""
        attribute = vf_attributes.BY_NAME[name]
        if not attribute.is_neutral(value):
            if not attribute.fits(self.link_layer):
                of_attribute, of_port = LINK_LAYERS[attribute.link_layer or ""], LINK_LAYERS[self.link_layer]
                return "%s is for VFs of %s NICs, and this is an %s one" % (name, of_attribute, of_port)
            if self.index is None and not (self.infiniband and self.vendor.vf_files.exist(self.system, self.directory)):
                return "%s is set through the PF's netdev, which is missing in this network namespace" % name
            if not self.infiniband and not self._driver_knows(name, value):
                return "the driver %s cannot set %s" % (self.driver, name)
        return ""

    def _driver_knows(self, name: str, value: t.Any) -> bool:
        if self.attributes and vf_attributes.BY_NAME[name].kind == vf_attributes.FLAG:
            # the kernel reports which flags the driver has
            return self.attributes[0][name] is not None
        try:
            self.table.set_vf(self.index or 0, NO_VF, **{name: value})
        except NetlinkError as error:
            return error.errno != errno.EOPNOTSUPP
        return True

    def set_attribute(self, index: int, values: Row, deadline: float) -> None:
        """Set one attribute of a VF, or two that the kernel sets together."""
        setting = self.vendor.vf_files.setting(self.system, self.directory, index, self.link_layer, values)
        if setting:
            name, path, text = setting
            self._write(path, text, "%s %s" % (self.vf_name(index), name))
            return
        if self.index is None:
            raise Unsupported(
                "%s cannot be set: the PF has no netdev in this network namespace" % " and ".join(values),
                self.vf_name(index),
                "load the PF's network driver (ib_ipoib on InfiniBand), or bring its netdev back to this namespace",
            )
        while True:
            try:
                self.table.set_vf(self.index, index, **values)
                return
            except NetlinkError as error:
                # some drivers refuse until the reset of the VF is done
                if error.errno not in (errno.EAGAIN, errno.EBUSY) or time.monotonic() >= deadline:
                    raise self._refused(index, values, error) from None
            time.sleep(PAUSE)

    def _refused(self, index: int, values: Row, error: NetlinkError) -> RailyardError:
        setting = ", ".join("%s=%s" % (name, value) for name, value in values.items())
        if error.errno == errno.EOPNOTSUPP:
            return Unsupported(
                "the driver %s of %s cannot set %s" % (self.driver, self.name, " and ".join(values)),
                self.vf_name(index),
                "leave it out for this PF%s" % (", or leave switchdev mode" if self.representors else ""),
            )
        remedy = "see the kernel's messages (dmesg) for the driver's reason"
        if any(vf_attributes.BY_NAME[name].rate for name in values):
            remedy = (
                "drivers take rates only while the PF has a link, up to its speed, and some no min_tx_rate; "
                "see the kernel's messages (dmesg)"
            )
        reason = "%s%s" % (os.strerror(error.errno), ": " + error.reason if error.reason else "")
        return RailyardError(
            "the driver %s of %s refuses %s: %s" % (self.driver, self.name, setting, reason),
            self.vf_name(index),
            remedy,
        )

    # -- VFs -------------------------------------------------------------------------------------------------------

    def resize(self, count: int, deadline: float) -> None:
        """Change the number of VFs; existing ones are removed first, unless one is held."""
        path = self.path("sriov_numvfs")
        now = self.system.read_int(path) or 0
        if now == count:
            return
        if now:
            self._refuse_held(self.vfs)
            self._write(path, "0", self.pci)
        if count:
            self._write(path, str(count), self.pci)
        self.wait(
            lambda: all(self.system.exists(self.path("virtfn%d" % number)) for number in range(count)),
            deadline,
            "not all of its %d VFs appeared" % count,
        )
        self.count = count
        self.vfs = [self._vf(number) for number in range(count)]
        self.attributes = self._attributes()

    def _refuse_held(self, vfs: t.Sequence[Row]) -> None:
        raise_all(self.held_errors(self._holders_of(self.system, [vf["pci"] for vf in vfs if vf["pci"]], self.table)))

    def held_errors(self, held: t.Mapping[str, t.Sequence[str]]) -> list[RailyardError]:
        """Return a refusal for each holder of a VF of this PF."""
        return [
            Refused("VF %s is held: %s" % (vf["pci"], who), self.vf_name(vf["index"]), RELEASE)
            for vf in self.vfs
            for who in held.get(vf["pci"], [])
        ]

    def unbind_all(self, deadline: float) -> None:
        """Unbind all VFs, one at a time, because programs that take no lock may use a VF at any moment.

        If one is held now, or the kernel refuses it, those that were unbound are bound again.
        """
        unbound: list[int] = []
        try:
            for vf in self.vfs:
                if self.unbind(vf["index"]):
                    unbound.append(vf["index"])
            self._refuse_held(self.vfs)
        except RailyardError:
            for index in unbound:
                with contextlib.suppress(RailyardError):
                    self.rebind(index, deadline, self.autoprobe)
            raise

    def set_autoprobe(self, value: bool) -> None:
        self._write(self.path("sriov_drivers_autoprobe"), str(int(value)), self.pci)

    def suspend_autoprobe(self, restore: bool) -> None:
        """Keep drivers from binding new VFs. A later run restores ``restore`` if this one is interrupted."""
        self.system.write_file(MARK % self.pci, "%d\n" % restore)
        self.set_autoprobe(False)

    def restore_autoprobe(self, value: bool) -> None:
        self.set_autoprobe(value)
        self.system.remove_file(MARK % self.pci)

    def unbind(self, index: int) -> bool:
        """Unbind the driver of a VF, and return whether it had one. Refuse a VF that is held now."""
        vf = self.vfs[index]
        if not vf["pci"] or not self.system.exists(pci_functions.attribute(vf["pci"], "driver")):
            return False
        self._refuse_held([vf])
        self._write(pci_functions.attribute(vf["pci"], "driver/unbind"), vf["pci"], self.vf_name(index))
        return True

    def bind(self, index: int, deadline: float) -> None:
        """Bind a driver to a VF, and wait for it."""
        address = self.vfs[index]["pci"]
        driver = pci_functions.attribute(address, "driver")
        reason = ""
        while not self.system.exists(driver):
            try:
                self.system.write_attribute(DRIVERS_PROBE, address)
            except OSError as error:
                reason = ": %s" % error.strerror
            if self.system.exists(driver):
                break
            if time.monotonic() >= deadline:
                raise RailyardError(
                    "no driver bound VF %s%s" % (address, reason),
                    self.vf_name(index),
                    "load the VFs' driver (check the modprobe blacklist), set autoprobe to false for VFs without a "
                    "driver, or see the kernel's messages (dmesg)",
                )
            # udev may still be loading the driver
            time.sleep(PAUSE)

    def rebind(self, index: int, deadline: float, autoprobe: bool | None) -> None:
        """Rebind a VF to its driver, also if ``autoprobe`` is false."""
        if autoprobe is not False:
            self.bind(index, deadline)
            return
        self.system.write_file(MARK % self.pci, "0\n")
        self.set_autoprobe(True)
        try:
            self.bind(index, deadline)
        finally:
            self.restore_autoprobe(False)

    def wait_ready(self, index: int, deadline: float) -> None:
        """Wait until a VF with a network driver has a netdev and an RDMA device, as its PF has."""
        address = self.vfs[index]["pci"]
        driver = self.system.link_name(pci_functions.attribute(address, "driver")) or ""
        if not driver or is_passed_on(driver):
            return
        for setting, thing, wanted in (("net", "netdev", self.netdev), ("infiniband", "RDMA device", self.rdma_device)):
            if wanted:
                problem = "VF %s has the driver %s, but no %s appeared" % (address, driver, thing)
                self.wait_path(pci_functions.attribute(address, setting), deadline, problem, self.vf_name(index))

    def wait_path(self, path: str, deadline: float, problem: str, place: str) -> None:
        self.wait(lambda: self.system.exists(path), deadline, problem, place)

    def wait_carrier(self, deadline: float) -> None:
        """Wait for the PF's link, which some drivers take down when the number of VFs changes."""
        if self.netdev:
            path = "/sys/class/net/%s/carrier" % self.netdev
            self.wait(
                lambda: self.system.read_int(path) == 1,
                deadline,
                "%s lost its link and did not get it back" % self.netdev,
            )

    def wait(self, ready: t.Callable[[], bool], deadline: float, problem: str, place: str = "") -> None:
        while not ready():
            if time.monotonic() >= deadline:
                raise RailyardError(
                    "%s in time" % problem, place or self.pci, "see the kernel's messages (dmesg), or increase timeout"
                )
            time.sleep(PAUSE)

    def set_up(self) -> None:
        self.table.set_link(t.cast(int, self.index), up=True)

    def _write(self, path: str, text: str, place: str) -> None:
        try:
            self.system.write_attribute(path, text)
        except OSError as error:
            number = error.errno or 0
            remedy = WRITE_REMEDIES.get(number, "see the kernel's messages (dmesg) for the driver's reason")
            if number == errno.ERANGE:
                remedy = "request at most sriov_totalvfs VFs, or %s" % self.vendor.raise_vf_limit
            raise RailyardError(
                "the kernel refuses %s in %s: %s (%s)"
                % (text, path.rpartition("/")[2], os.strerror(number), errno.errorcode.get(number, number)),
                place,
                remedy
                + ("; the NIC is in switchdev mode, which some drivers must leave first" if self.representors else ""),
            ) from None
