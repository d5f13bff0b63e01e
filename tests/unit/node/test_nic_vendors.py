# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The protocol of NIC vendors: a second vendor beside NVIDIA, a NIC of an unknown one, and what imports a vendor."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import typing as t
from pathlib import Path

import pytest
import yaml

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import Errors, RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._nic_vendors.protocol.nic_vendor import (
    CongestionControl,
    NicVendor,
    Node,
    Row,
    Setting,
    VfFiles,
)
from ansible_collections.railyard.fabric.plugins.module_utils._nic_vendors.protocol.vendor_driver import (
    DriverKind,
    VendorDriver,
)
from ansible_collections.railyard.fabric.plugins.module_utils._nic_vendors.registry import nic_vendors, vendor_drivers
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.subsystem import converge
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import CommandResult
from ansible_collections.railyard.fabric.plugins.module_utils._node.metrics import device_counters
from ansible_collections.railyard.fabric.plugins.module_utils._node.metrics.device_counters import Statistic
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink import ethtool
from ansible_collections.railyard.fabric.plugins.module_utils._node.nic import driver_spec
from ansible_collections.railyard.fabric.plugins.module_utils._node.nic.nic_driver import NicDriver
from ansible_collections.railyard.fabric.plugins.module_utils._node.qos.roce_qos import RoceQos
from ansible_collections.railyard.fabric.plugins.module_utils._node.safety.management_path import ManagementPath
from ansible_collections.railyard.fabric.plugins.module_utils._node.sriov.virtual_functions import SriovVfs
from ansible_collections.railyard.fabric.plugins.modules import nic_driver
from tests.unit.node.nic_kernel import NicKernel, NicTable
from tests.unit.node.qos_kernel import QosKernel
from tests.unit.node.trees import Tree

ROOT = Path(__file__).resolve().parents[3]
ACME = "f00d"
ECN = {"enable": True, "np": [3], "rp": [3], "cnp_dscp": 48, "cnp_priority": 6}


class AcmeCongestion(CongestionControl):
    """One file per setting, and one that applies them, as some drivers have in configfs."""

    def __init__(self, node: Node, place: str) -> None:
        self._node = node
        self._place = place

    def observe(self) -> Row:
        row: Row = {"interface": "acme", "np": None, "rp": None}
        for key in ("cnp_dscp", "cnp_priority"):
            row[key] = self._node.read_int("%s/%s" % (self._place, key))
        return row

    def settings(self, ecn: t.Mapping[str, t.Any]) -> list[Setting]:
        wanted = {"cnp_dscp": ecn["cnp_dscp"], "cnp_priority": ecn["cnp_priority"], "enable": int(ecn["enable"])}
        return [Setting("cc/" + key, "%s/%s" % (self._place, key), value) for key, value in wanted.items()]


class AcmeVfFiles(VfFiles):
    """A file ``vf/N`` in the PF with the trust of a VF."""

    def attributes(self, node: Node, pf: str, index: int, link_layer: str, known: bool) -> Row:
        text = node.read("%s/vf/%d" % (pf, index))
        return {} if known or text is None else {"trust": text == "trusted", "mac": "02:00:00:00:00:01"}


class Acme(NicVendor):
    rdma_module = "acme_re"
    raise_vf_limit = "raise the limit with acmectl"
    no_congestion_control = "ECN (the driver acme is too old)", "install acme 2.0"
    vf_files = AcmeVfFiles()

    def congestion_control(self, node: Node, netdev: str, pci: str) -> CongestionControl | None:
        place = "/sys/bus/pci/devices/%s/cc" % pci
        return AcmeCongestion(node, place) if node.exists(place) else None

    def traffic_class(self, node: Node, device: str, port: int) -> Setting | None:
        path = "/sys/class/infiniband/%s/acme_class" % device
        value = node.read_int(path)
        return None if value is None else Setting("acme_class", path, value)

    def statistic(self, name: str) -> tuple[str, str | None] | None:
        match = re.fullmatch(r"([rt]x)_pfc_frames_pri([0-7])", name)
        return ("%s_pause" % match[1], match[2]) if match else None


class AcmeDriver(VendorDriver):
    stack = "acme"
    title = "Acme"
    pci_vendor = ACME
    kinds = (
        DriverKind(
            "acme",
            ("acme-driver",),
            re.compile("acme-driver$"),
            (".zip",),
            re.compile(r"acme-(?P<release>[0-9.]+)-(?P<distribution>[a-z0-9.]+)-(?P<architecture>\w+)\.zip$"),
        ),
    )
    names = re.compile("acme-")
    marks = re.compile("acme")
    kernel_part = re.compile("acme-dkms")
    kernel_part_kind = "acme"
    module = "acme_en"
    marker = "acme_en"
    drivers = ("acme_en",)
    compared = ("acme_en",)
    modules = frozenset(("acme_en", "acme_re"))
    service = "acme-net"
    published = {"2.0": frozenset(("rhel9",))}
    checked = "today"
    built_on_node = (1, 0)


@pytest.fixture(autouse=True)
def no_session(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SSH_CONNECTION", raising=False)


@pytest.fixture
def acme(monkeypatch: pytest.MonkeyPatch) -> Acme:
    """A second vendor, registered as a vendor's folder is."""
    found = Acme()
    monkeypatch.setitem(nic_vendors.VENDORS, ACME, lambda: found)
    monkeypatch.setattr(vendor_drivers, "DRIVERS", (*vendor_drivers.DRIVERS, AcmeDriver()))
    return found


def of_vendor(tree: Tree, vendor: str, *functions: str) -> None:
    for function in functions:
        tree.write("/sys/bus/pci/devices/%s/vendor" % function, "0x" + vendor)


def test_the_vendor_is_that_of_the_pci_function(acme: Acme, tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    for number, vendor in enumerate(("15b3", ACME, "8086")):
        tree.function("pci0000:00/0000:00:01.0/0000:01:00.%d" % number, vendor=vendor)
        tree.rdma("0000:01:00.%d" % number, "mlx5_%d" % number)
    nodes = [nic_vendors.of_function(tree.system(), "0000:01:00.%d" % number) for number in range(4)]
    assert [each.rdma_module for each in nodes] == ["mlx5_ib", "acme_re", "", ""]
    assert nodes[1] is acme and type(nic_vendors.of_function(tree.system(), None)) is NicVendor


# -- VFs ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("vendor", "trust"), [(ACME, [True, False]), ("8086", [])])
def test_vf_attributes_come_from_files_of_the_vendor(
    acme: Acme, tmp_path: Path, vendor: str, trust: list[bool]
) -> None:
    kernel = NicKernel(tmp_path)
    pf = kernel.nic(5, "enp5s0")
    of_vendor(kernel.tree, vendor, pf)
    table: t.Any = NicTable(kernel)
    ports = [{"pci": pf, "count": 2}]
    vfs = SriovVfs({"ports": ports, "timeout": 0}, kernel, table, lambda _system, vfs, _table: {vf: [] for vf in vfs})
    converge(vfs, vfs.observe(), vfs.changes(vfs.observe()), [])
    for number, text in enumerate(("trusted", "untrusted")):
        kernel.tree.write("%s/vf/%d" % (kernel.tree.real(pf), number), text)
    kernel.too_long = True
    rows = SriovVfs({"ports": ports, "state": "gathered"}, kernel, table).observe()["ports"][0]["attributes"]
    assert [row["trust"] for row in rows] == trust


@pytest.mark.parametrize(
    ("vendor", "remedy"),
    [
        (ACME, "raise the limit with acmectl and reboot"),
        ("8086", "raise the firmware's limit with the vendor's tool and reboot"),
        ("15b3", "raise the firmware's limit (mlx_linktype, num_of_vfs) and reboot"),
    ],
)
def test_remedies_name_the_tool_of_the_vendor(acme: Acme, tmp_path: Path, vendor: str, remedy: str) -> None:
    kernel = NicKernel(tmp_path)
    pf = kernel.nic(5, "enp5s0")
    of_vendor(kernel.tree, vendor, pf)
    table: t.Any = NicTable(kernel)
    vfs = SriovVfs({"ports": [{"pci": pf, "count": 9}], "timeout": 0}, kernel, table)
    with pytest.raises(RailyardError) as caught:
        vfs.changes(vfs.observe())
    assert caught.value.remedy == "request fewer, or " + remedy


# -- QoS ---------------------------------------------------------------------------------------------------------------


def acme_qos(tmp_path: Path, vendor: str = ACME) -> QosKernel:
    kernel = QosKernel(tmp_path)
    of_vendor(kernel.tree, vendor, "0000:01:00.0", "0000:02:00.0")
    return kernel


def qos(kernel: QosKernel, **wanted: t.Any) -> RoceQos:
    ports = [{"netdev": "rail1", "pci": None}, {"netdev": None, "pci": "0000:02:00.0"}]
    return RoceQos({"ports": ports, "qos": wanted}, kernel, kernel.tools())


def test_congestion_control_and_traffic_class_of_a_second_vendor(acme: Acme, tmp_path: Path) -> None:
    kernel = acme_qos(tmp_path)
    for number in (1, 2):
        place = kernel.tree.real("0000:%02x:00.0" % number)
        for key in ("cnp_dscp", "cnp_priority", "enable"):
            kernel.tree.write("%s/cc/%s" % (place, key), "0")
        kernel.tree.write("/sys/class/infiniband/mlx5_gpu%02d/acme_class" % number, "0")
    one = qos(kernel, ecn=ECN, tclass=106)
    state = one.observe()
    changes = one.changes(state)
    assert [(each.subject, each.attribute, each.before, each.after) for each in changes if each.port != "rail2"][
        :3
    ] == [
        ("rail1", "cc/cnp_dscp", 0, 48),
        ("rail1", "cc/cnp_priority", 0, 6),
        ("rail1", "cc/enable", 0, 1),
    ]
    after = converge(one, state, changes, [])
    assert kernel.read("/sys/bus/pci/devices/0000:02:00.0/cc/cnp_dscp") == "48"
    assert {row["qos"]["ecn"]["interface"] for row in after["ports"]} == {"acme"}
    assert [each["tclass"] for row in after["ports"] for each in row["rdma"]] == [106, 106]
    # NVIDIA's files are beside them in this tree, and are not touched
    assert kernel.read("/sys/class/net/rail1/ecn/roce_np/cnp_dscp") == "46"


@pytest.mark.parametrize(
    ("vendor", "reason", "remedy"),
    [(ACME, *Acme.no_congestion_control), ("1dd8", *NicVendor.no_congestion_control)],
)
def test_congestion_control_is_refused_where_the_vendor_has_no_interface(
    acme: Acme, tmp_path: Path, vendor: str, reason: str, remedy: str
) -> None:
    kernel = acme_qos(tmp_path, vendor)
    one = qos(kernel, ecn=ECN)
    with pytest.raises(Errors) as caught:
        one.changes(one.observe())
    assert [(each.message, each.remedy) for each in caught.value.errors] == [
        ("%s (driver mlx5_core) does not support %s" % (netdev, reason), remedy) for netdev in ("rail1", "rail2")
    ]
    assert not kernel.writes


def test_statistics_of_all_vendors_are_read(acme: Acme, monkeypatch: pytest.MonkeyPatch) -> None:
    names = {"rx_prio3_pause": 4, "tx_pfc_frames_pri5": 7, "rx_packets": 1}

    def statistics(netdevs: t.Iterable[str], wanted: t.Callable[[str], bool]) -> dict[str, dict[str, int]]:
        return {netdev: {name: value for name, value in names.items() if wanted(name)} for netdev in netdevs}

    monkeypatch.setattr(ethtool, "statistics", statistics)
    rows = device_counters.netdev_statistics(["rail1"])
    assert rows == {"rail1": [Statistic("rx_pause", "3", 4), Statistic("tx_pause", "5", 7)]}


# -- vendors beside NVIDIA ---------------------------------------------------------------------------------------------


def bnxt(tmp_path: Path, **values: str) -> QosKernel:
    """Two ports of bnxt_en whose bnxt_re has the files that the kernel's driver has in debugfs."""
    kernel = acme_qos(tmp_path, "14e4")
    for number in (1, 2):
        kernel.tree.driver("0000:%02x:00.0" % number, "bnxt_en")
        for name, value in dict(CC_CONFIG, **values).items():
            kernel.tree.write("/sys/kernel/debug/bnxt_re/0000:%02x:00.0/cc_config/%s" % (number, name), value)
    return kernel


CC_CONFIG = {"enable_cc": "0", "alt_vlan_dscp": "0", "alt_vlan_pcp": "0", "tos_dscp": "26"}
CNP = {"enable": True, "np": [3], "rp": [3], "cnp_dscp": 48, "cnp_priority": 7}


@pytest.mark.parametrize(
    ("vendor", "driver", "module"),
    [
        ("15b3", "mlx5_core", "mlx5_ib"),
        ("14e4", "bnxt_en", "bnxt_re"),
        ("1dd8", "ionic", "ionic_rdma"),
        ("8086", "ice", "irdma"),
        ("1da3", "habanalabs", "habanalabs_ib"),
        # other drivers of these vendors have other interfaces
        ("8086", "igb", ""),
        ("14e4", "tg3", ""),
        ("1dd8", "vfio-pci", ""),
    ],
)
def test_the_driver_selects_the_vendor(tmp_path: Path, vendor: str, driver: str, module: str) -> None:
    tree = Tree(tmp_path)
    pci = tree.function("pci0000:00/0000:00:01.0/0000:01:00.0", vendor=vendor)
    tree.driver(pci, driver)
    assert nic_vendors.of_function(tree.system(), pci).rdma_module == module


def test_congestion_control_of_bnxt_re(tmp_path: Path) -> None:
    kernel = bnxt(tmp_path)
    one = qos(kernel, ecn=CNP)
    state = one.observe()
    changes = [(each.subject, each.attribute, each.before, each.after) for each in one.changes(state)]
    assert [each for each in changes if each[0] == "rail1" and each[1].startswith("cc_config")] == [
        ("rail1", "cc_config/alt_vlan_dscp", 0, 48),
        ("rail1", "cc_config/alt_vlan_pcp", 0, 7),
        ("rail1", "cc_config/enable_cc", 0, 1),
    ]
    after = converge(one, state, one.changes(state), [])
    ecn = after["ports"][0]["qos"]["ecn"]
    assert ecn == {"interface": "debugfs", "np": None, "rp": None, "cnp_dscp": 48, "cnp_priority": 7}
    # the DSCP of RoCE packets is not a setting of ECN
    assert kernel.read("/sys/kernel/debug/bnxt_re/0000:02:00.0/cc_config/tos_dscp") == "26"
    assert one.changes(one.observe()) == []


def test_bnxt_re_without_debugfs_refuses_ecn(tmp_path: Path) -> None:
    kernel = acme_qos(tmp_path, "14e4")
    for number in (1, 2):
        kernel.tree.driver("0000:%02x:00.0" % number, "bnxt_en")
    with pytest.raises(Errors) as caught:
        one = qos(kernel, ecn=CNP)
        one.changes(one.observe())
    assert "rail1 (driver bnxt_en) does not support ECN (no directory cc_config" in str(caught.value.errors[0])


@pytest.mark.parametrize(
    ("vendor", "driver", "remedy"),
    [
        ("1dd8", "ionic", "nicctl update qos"),
        ("1da3", "habanalabs", "use a NIC and a driver that support it"),
        ("f00d", "other", "use a NIC and a driver that support it"),
    ],
)
def test_a_driver_without_dcb_gets_only_the_marks_of_connections(
    tmp_path: Path, vendor: str, driver: str, remedy: str
) -> None:
    """PFC of ionic is set with nicctl, and the kernel's marks of RDMA connections do not need DCB."""
    kernel = acme_qos(tmp_path, vendor)
    for number in (1, 2):
        kernel.tree.driver("0000:%02x:00.0" % number, driver)
        kernel.dcb.netdevs["rail%d" % number] = None
    one = qos(kernel, pfc=[0, 0, 0, 1, 0, 0, 0, 0], rdma_cm_tos=98)
    with pytest.raises(Errors) as caught:
        one.changes(one.observe())
    assert {each.message for each in caught.value.errors} == {
        "rail%d (driver %s) does not support DCB" % (number, driver) for number in (1, 2)
    }
    assert remedy in caught.value.errors[0].remedy
    one = qos(kernel, rdma_cm_tos=98)
    after = converge(one, one.observe(), one.changes(one.observe()), [])
    assert {each["rdma_cm_tos"] for row in after["ports"] for each in row["rdma"]} == {98}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("rx_pfc_ena_frames_pri3", ("rx_pause", "3")),
        ("tx_pfc_ena_frames_pri7", ("tx_pause", "7")),
        ("frames_rx_pripause", ("rx_pause", None)),
        ("frames_tx_pripause", ("tx_pause", None)),
        ("rx_priority_3_xoff.nic", ("rx_pause", "3")),
        # all frames of a priority, and the end of a pause
        ("frames_rx_pri_3", None),
        ("rx_priority_3_xon.nic", None),
        ("rx_pfc_ena_frames_pri8", None),
    ],
)
def test_pause_frames_of_all_vendors(name: str, expected: tuple[str, str | None] | None) -> None:
    found = [each.statistic(name) for each in nic_vendors.every()]
    assert [each for each in found if each] == ([expected] if expected else [])


# -- the driver --------------------------------------------------------------------------------------------------------


class AcmeNode:
    """A node with dnf, a NIC of Acme and, if given, its driver."""

    def __init__(self, root: Path, installed: str = "") -> None:
        self.tree = Tree(root)
        self.installed = installed
        self.tree.function("pci0000:00/0000:00:01.0/0000:01:00.0", vendor=ACME)
        self.tree.write("/etc/os-release", 'ID="rocky"\nVERSION_ID="9.4"')
        self.tree.write("/proc/sys/kernel/osrelease", "5.14.0")
        self.tree.write("/proc/mounts", "")
        directory = "extra" if installed else "kernel/drivers/net"
        self.tree.write("/lib/modules/5.14.0/modules.dep", "%s/acme_en.ko:" % directory)
        self.tree.write("/boot/vmlinuz-5.14.0", "")

    def _answer(self, argv: t.Sequence[str], timeout: float) -> CommandResult:
        rows = "acme-driver\t%s\nmlnx-tools\t24.10\n" % self.installed if self.installed else ""
        return CommandResult(0, rows if argv[0].endswith("rpm") else "", "")

    def driver(self, monkeypatch: pytest.MonkeyPatch, **options: t.Any) -> NicDriver:
        system = self.tree.system(self._answer)
        monkeypatch.setattr(system, "which", lambda name: name if name in ("dnf", "rpm") else None)
        return NicDriver(options, system, architecture="x86_64", management=ManagementPath({}, {}))


@pytest.mark.parametrize("kind", ["acme", "inbox"])
def test_the_driver_of_a_second_vendor_is_observed(
    acme: Acme, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """By its kind or, for the kernel's driver, by the NICs of the node."""
    driver = AcmeNode(tmp_path, "2.0.1").driver(monkeypatch, kind=kind, version="2.0.1", state="gathered")
    state = driver.observe()
    assert (state["kind"], state["version"], state["installed"]) == ("acme", "2.0.1", {"acme-driver": "2.0.1"})
    assert state["kernels"] == {"5.14.0": "acme"}


def test_the_driver_of_a_second_vendor_is_installed_only_where_its_vendor_lists_it(
    acme: Acme, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = AcmeNode(tmp_path)
    options = {"kind": "acme", "version": "1.9", "source": "https://m.example.com/rhel9.4/x86_64", "unsigned": True}
    driver = node.driver(monkeypatch, **options)
    state = driver.observe()
    with pytest.raises(RailyardError) as caught:
        driver.changes(state)
    assert "acme 1.9 is not a known release (as of today)" in str(caught.value)
    node.tree.write("/lib/modules/5.14.0/build/Makefile", "")
    driver = node.driver(monkeypatch, **dict(options, version="2.0.1"))
    changes = [(each.subject, each.attribute, each.after) for each in driver.changes(driver.observe())]
    assert ("acme-driver", "version", "2.0.1") in changes and ("5.14.0", "acme_en", "acme 2.0.1") in changes


def test_kinds_of_drivers_are_the_same_everywhere() -> None:
    options = yaml.safe_load(nic_driver.DOCUMENTATION)["options"]
    assert options["kind"]["choices"] == driver_spec.SPEC["kind"]["choices"] == list(vendor_drivers.KINDS)


# -- imports -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("vendor", "imported"), [("8086", False), ("15b3", True)])
def test_a_vendor_is_imported_only_for_its_nics(tmp_path: Path, vendor: str, imported: bool) -> None:
    Tree(tmp_path).function("pci0000:00/0000:00:01.0/0000:01:00.0", vendor=vendor)
    prefix = "ansible_collections.railyard.fabric.plugins.module_utils."
    program = (
        "import sys\nfrom {0}_nic_vendors.registry import nic_vendors\nfrom {0}_node.core.system import System\n"
        "from {0}_node.sriov import virtual_functions\nfrom {0}_node.qos import roce_qos\n"
        "nic_vendors.of_function(System(sys.argv[1]), '0000:01:00.0')\n"
        "print(any('_nic_vendors.nvidia.' in name for name in sys.modules))\n"
    ).format(prefix)
    environment = dict(os.environ, PYTHONPATH=str(ROOT / "collections"))
    argv = [sys.executable, "-c", program, str(tmp_path)]
    done = subprocess.run(argv, capture_output=True, text=True, check=True, env=environment)
    assert done.stdout == "%s\n" % imported
