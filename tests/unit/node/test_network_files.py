# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What each back-end's files say, who is chosen to keep them, and how they are loaded."""

from __future__ import annotations

import configparser
import os
import shutil
import subprocess
import time
import typing as t
from pathlib import Path

import pytest
import yaml

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError, Unsupported
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import CommandResult, System
from ansible_collections.railyard.fabric.plugins.module_utils._node.ports import netplan_output, networkd_reload
from ansible_collections.railyard.fabric.plugins.module_utils._node.ports import network_files as files
from ansible_collections.railyard.fabric.plugins.module_utils._node.ports.port_spec import read_ports

FOUR: dict[str, t.Any] = {
    "rail": "gpu01",
    "pci": "0000:0b:00.0",
    "netdev": "enp11s0",
    "mtu": 4200,
    "address": "172.16.11.201/24",
    "gateway": "172.16.11.254",
    "table": 101,
    "rule_priority": 10001,
    "sysctl": {"arp_ignore": 1, "rp_filter": 2},
}
SIX = dict(FOUR, rail="gpu02", pci=None, netdev="eth2.7", address="fd00:12::c9/64", gateway="fd00:12::1", table=102)
SIX["rule_priority"] = 10002
NONE = {"rail": "gpu03", "pci": "0000:0d:00.0", "netdev": "ib3"}
BOTH = dict(FOUR, address6="fd00:11::c9/64", gateway6="fe80::1")
LINK = {
    "rail": "gpu04",
    "netdev": "enp14s0",
    "address": "10.0.14.0/31",
    "address6": "fd00:14::/127",
    "routes": [
        {"to": "10.0.0.0/16", "via": "10.0.14.1", "table": None},
        {"to": "fd00::/32", "via": "fe80::1", "table": None},
    ],
}


def kept(*options: dict[str, t.Any], infiniband: bool = False) -> list[files.Kept]:
    ports = read_ports(options or (FOUR, SIX, NONE))
    return [files.Kept(port, str(port.netdev), index + 2, infiniband) for index, port in enumerate(ports)]


class Commands:
    """Answers with ``answers`` by the first words; what was run is in ``ran``."""

    def __init__(self, **answers: CommandResult) -> None:
        self.ran: list[str] = []
        self.answers = answers

    def __call__(self, argv: t.Sequence[str], timeout: float) -> CommandResult:
        self.ran.append(" ".join(argv))
        return self.answers.get(argv[0], CommandResult(0, "", ""))


def node(
    tmp_path: Path, *units: str, plans: t.Mapping[str, str] | None = None, commands: Commands | None = None
) -> System:
    system = System(str(tmp_path), commands or Commands())
    for unit in units:
        system.write_file("/run/systemd/units/invocation:%s.service" % unit, "")
    for name, text in (plans or {}).items():
        system.write_file("/etc/netplan/" + name, text)
    return system


def sections(text: str) -> list[tuple[str, dict[str, str]]]:
    """The sections of a systemd file in order; a section may come more than once."""
    found: list[tuple[str, dict[str, str]]] = []
    for line in text.splitlines():
        if line.startswith("["):
            found.append((line.strip("[]"), {}))
        elif line and not line.startswith("#"):
            key, _equals, value = line.partition("=")
            assert key not in found[-1][1]
            found[-1][1][key] = value
    return found


def test_networkd_file_of_a_rail() -> None:
    (path, file), *_rest = sorted(files.Networkd(System()).files(kept()).items())
    assert (path, file.mode) == ("/etc/systemd/network/05-railyard-gpu01.network", 0o644)
    reported = sections(file.text)
    assert [name for name, _values in reported] == [
        *("Match", "Link", "Network", "Route", "Route", "RoutingPolicyRule", "RoutingPolicyRule")
    ]
    values = [each for _name, each in reported]
    assert values[0] == {"Name": "enp11s0"}
    assert values[1] == {"MTUBytes": "4200", "RequiredForOnline": "no"}
    assert values[2]["Address"] == "172.16.11.201/24"
    assert values[2]["KeepConfiguration"] == "static"
    assert values[3:5] == [
        {"Destination": "172.16.11.0/24", "Scope": "link", "PreferredSource": "172.16.11.201", "Table": "101"},
        {"Destination": "0.0.0.0/0", "Gateway": "172.16.11.254", "Table": "101"},
    ]
    assert values[5:] == [
        {"From": "172.16.11.201", "Table": "101", "Priority": "10001", "Family": "ipv4"},
        {"OutgoingInterface": "enp11s0", "Table": "101", "Priority": "10001", "Family": "ipv4"},
    ]


def test_every_route_of_every_back_end_has_a_table() -> None:
    for _path, file in files.Networkd(System()).files(kept()).items():
        assert all(values["Table"] in ("101", "102") for name, values in sections(file.text) if name == "Route")
        assert all("Gateway" not in values for name, values in sections(file.text) if name == "Network")
    for route in netplan()["eth2.7"]["routes"] + netplan()["enp11s0"]["routes"]:
        assert route["table"] in (101, 102)
    assert "gateway4" not in str(netplan())
    for _path, file in files.NetworkManager(System()).files(kept()).items():
        for family in ("ipv4", "ipv6"):
            values = keyfile(file.text)[family]
            assert "gateway" not in values
            routes = [key for key in values if key.startswith("route") and key[-1].isdigit()]
            assert all("table=10" in values[key + "_options"] for key in routes)


def test_link_files_name_a_pci_address_and_nothing_else() -> None:
    common = files.common_files(kept())
    links = {path: dict(sections(file.text)) for path, file in common.items() if path.endswith(".link")}
    assert sorted(links) == ["/etc/systemd/network/05-railyard-gpu0%d.link" % number for number in (1, 3)]
    first = links["/etc/systemd/network/05-railyard-gpu01.link"]
    assert first["Match"] == {"Path": "pci-0000:0b:00.0 *-pci-0000:0b:00.0"}
    assert first["Link"]["Name"] == "enp11s0"
    assert first["Link"]["MTUBytes"] == "4200"


def test_sysctls_of_all_rails_are_one_file() -> None:
    lines = files.common_files(kept())[files.SYSCTL_FILE].text.splitlines()[1:]
    assert lines == [
        "net.ipv4.conf.enp11s0.arp_ignore = 1",
        "net.ipv4.conf.enp11s0.rp_filter = 2",
        "net.ipv6.conf.enp11s0.accept_ra = 0",
        "net.ipv6.conf.enp11s0.autoconf = 0",
        "net/ipv4/conf/eth2.7/arp_ignore = 1",
        "net/ipv4/conf/eth2.7/rp_filter = 2",
        "net/ipv6/conf/eth2.7/accept_ra = 0",
        "net/ipv6/conf/eth2.7/autoconf = 0",
        "net.ipv6.conf.ib3.accept_ra = 0",
        "net.ipv6.conf.ib3.autoconf = 0",
    ]


def netplan() -> dict[str, t.Any]:
    file = files.Netplan(System()).files(kept())[files.NETPLAN_FILE]
    assert file.mode == 0o600
    ethernets: dict[str, t.Any] = yaml.safe_load(file.text)["network"]["ethernets"]
    return ethernets


def test_netplan_file_and_settings_outside_its_schema() -> None:
    first = netplan()["enp11s0"]
    assert first["addresses"] == ["172.16.11.201/24"]
    assert first["mtu"] == 4200
    assert first["optional"] is True
    assert first["routes"] == [
        {"to": "172.16.11.0/24", "scope": "link", "from": "172.16.11.201", "table": 101},
        {"to": "0.0.0.0/0", "via": "172.16.11.254", "table": 101},
    ]
    assert first["routing-policy"] == [{"from": "172.16.11.201/32", "table": 101, "priority": 10001}]
    assert "addresses" not in netplan()["ib3"]
    drop_in = files.Netplan(System()).files(kept())["/etc/systemd/network/10-netplan-enp11s0.network.d/railyard.conf"]
    assert (
        "RoutingPolicyRule",
        {"OutgoingInterface": "enp11s0", "Table": "101", "Priority": "10001", "Family": "ipv4"},
    ) in (sections(drop_in.text))


def test_both_address_families_are_written_in_every_back_end() -> None:
    (file,) = files.Networkd(System()).files(kept(BOTH)).values()
    reported = sections(file.text.replace("Address=fd00", "Address6=fd00"))
    network = dict(reported)["Network"]
    assert (network["Address"], network["Address6"]) == ("172.16.11.201/24", "fd00:11::c9/64")
    assert [values for name, values in reported if name == "Route"][2:] == [
        {"Destination": "fd00:11::/64", "Table": "101"},
        {"Destination": "fe80::/64", "Table": "101"},
        {"Destination": "::/0", "Gateway": "fe80::1", "Table": "101"},
    ]
    assert [values for name, values in reported if name == "RoutingPolicyRule"][2:] == [
        {"From": "fd00:11::c9", "Table": "101", "Priority": "10001", "Family": "ipv6"},
        {"OutgoingInterface": "enp11s0", "Table": "101", "Priority": "10001", "Family": "ipv6"},
    ]
    plan, drop_in = (file.text for _path, file in sorted(files.Netplan(System()).files(kept(BOTH)).items()))
    mine = yaml.safe_load(plan)["network"]["ethernets"]["enp11s0"]
    assert mine["addresses"] == ["172.16.11.201/24", "fd00:11::c9/64"]
    assert mine["routes"][2:] == [
        {"to": "fd00:11::/64", "scope": "link", "table": 101},
        {"to": "fe80::/64", "scope": "link", "table": 101},
        {"to": "::/0", "via": "fe80::1", "table": 101},
    ]
    assert mine["routing-policy"][1] == {"from": "fd00:11::c9/128", "table": 101, "priority": 10001}
    families = [values["Family"] for name, values in sections(drop_in) if name == "RoutingPolicyRule"]
    assert families == ["ipv4", "ipv6"]
    (file,) = files.NetworkManager(System()).files(kept(BOTH)).values()
    assert keyfile(file.text)["ipv4"]["address1"] == "172.16.11.201/24"
    assert dict(keyfile(file.text)["ipv6"]) == {
        "method": "manual",
        "never-default": "true",
        "address1": "fd00:11::c9/64",
        "route1": "fd00:11::/64",
        "route1_options": "table=101",
        "route2": "fe80::/64",
        "route2_options": "table=101",
        "route3": "::/0,fe80::1",
        "route3_options": "table=101",
        "routing-rule1": "priority 10001 from fd00:11::c9 table 101",
        "routing-rule2": "priority 10001 from ::/0 oif enp11s0 table 101",
        "addr-gen-mode": "eui64",
    }


def test_routes_of_the_main_table_need_no_rule() -> None:
    (file,) = files.Networkd(System()).files(kept(LINK)).values()
    reported = sections(file.text.replace("Address=fd00", "Address6=fd00"))
    assert "RoutingPolicyRule" not in dict(reported)
    assert [values for name, values in reported if name == "Route"] == [
        {"Destination": "10.0.0.0/16", "Gateway": "10.0.14.1", "Table": "254"},
        {"Destination": "fd00::/32", "Gateway": "fe80::1", "Table": "254"},
    ]
    mine = yaml.safe_load(files.Netplan(System()).files(kept(LINK))[files.NETPLAN_FILE].text)
    assert mine["network"]["ethernets"]["enp14s0"]["routes"][0] == {
        "to": "10.0.0.0/16",
        "via": "10.0.14.1",
        "table": 254,
    }
    assert "routing-policy" not in mine["network"]["ethernets"]["enp14s0"]
    (file,) = files.NetworkManager(System()).files(kept(LINK)).values()
    assert keyfile(file.text)["ipv4"]["route1"] == "10.0.0.0/16,10.0.14.1"
    assert keyfile(file.text)["ipv4"]["route1_options"] == "table=254"
    assert "routing-rule1" not in keyfile(file.text)["ipv4"]


def keyfile(text: str) -> configparser.ConfigParser:
    parser = configparser.ConfigParser(interpolation=None, delimiters=("=",))
    parser.read_string(text)
    return parser


def test_keyfile_of_a_rail() -> None:
    paths = files.NetworkManager(System()).files(kept())
    assert {file.mode for file in paths.values()} == {0o600}
    first = keyfile(paths["/etc/NetworkManager/system-connections/railyard-gpu01.nmconnection"].text)
    assert first["connection"]["interface-name"] == "enp11s0"
    assert first["ethernet"]["mtu"] == "4200"
    assert dict(first["ipv4"]) == {
        "method": "manual",
        "never-default": "true",
        "address1": "172.16.11.201/24",
        "route1": "172.16.11.0/24",
        "route1_options": "table=101,src=172.16.11.201",
        "route2": "0.0.0.0/0,172.16.11.254",
        "route2_options": "table=101",
        "routing-rule1": "priority 10001 from 172.16.11.201 table 101",
        "routing-rule2": "priority 10001 from 0.0.0.0/0 oif enp11s0 table 101",
    }
    assert first["ipv6"]["method"] == "link-local"
    identities = {keyfile(file.text)["connection"]["uuid"] for file in paths.values()}
    assert len(identities) == 3
    infiniband = files.NetworkManager(System()).files(kept(NONE, infiniband=True))
    (only,) = infiniband.values()
    assert keyfile(only.text)["connection"]["type"] == "infiniband"


# -- compared with the real readers, where they are installed ---------------------------------------------------------


@pytest.mark.skipif(not shutil.which("netplan"), reason="netplan is not installed")
def test_netplan_itself_reads_the_file(tmp_path: Path) -> None:
    system = System(str(tmp_path))
    system.write_file("/etc/netplan/01-base.yaml", "network: {version: 2, ethernets: {eth0: {dhcp4: true}}}\n", 0o600)
    backend = files.Netplan(system)
    for path, file in backend.files(kept(FOUR, SIX, NONE, LINK)).items():
        backend.check(path, file.text)
        system.write_file(path, file.text, file.mode)
    subprocess.run(["netplan", "generate", "--root-dir", str(tmp_path)], check=True)
    ours = sections((tmp_path / "run/systemd/network/10-netplan-enp11s0.network").read_text())
    assert ("RoutingPolicyRule", {"From": "172.16.11.201/32", "Table": "101", "Priority": "10001"}) in ours
    assert ("Route", {"Destination": "0.0.0.0/0", "Gateway": "172.16.11.254", "Table": "101"}) in ours
    theirs = sections(
        (tmp_path / "run/systemd/network/10-netplan-enp14s0.network").read_text().replace("Address=fd", "6=fd")
    )
    assert ("Route", {"Destination": "fd00::/32", "Gateway": "fe80::1", "Table": "254"}) in theirs
    with pytest.raises(RailyardError, match="Invalid YAML"):
        backend.check(files.NETPLAN_FILE, "network: [")


@pytest.mark.skipif(not shutil.which("nmcli"), reason="nmcli is not installed")
def test_networkmanagers_own_library_reads_the_keyfiles() -> None:
    for file in files.NetworkManager(System()).files(kept(BOTH, SIX, NONE, LINK)).values():
        done = subprocess.run(
            ["nmcli", "--offline", "connection", "modify", "connection.autoconnect", "yes"],
            input=file.text,
            capture_output=True,
            text=True,
        )
        assert (done.returncode, done.stderr) == (0, "")
        reported, ours = keyfile(done.stdout), keyfile(file.text)
        for section in ("ipv4", "ipv6"):
            assert sorted(reported[section]) == sorted(ours[section])


# -- who keeps them ---------------------------------------------------------------------------------------------------


def test_the_back_end_is_the_manager_of_the_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(System, "which", lambda _self, program: "/usr/sbin/" + program)
    base = {"50-cloud-init.yaml": "network: {version: 2}\n"}
    desktop = {"01-network-manager-all.yaml": "network: {version: 2, renderer: NetworkManager}\n"}
    cases: list[tuple[str, tuple[str, ...], dict[str, str]]] = [
        ("networkd", ("systemd-networkd",), {}),
        ("networkmanager", ("NetworkManager",), {}),
        ("networkmanager", ("NetworkManager", "systemd-networkd"), {}),
        ("netplan", ("systemd-networkd",), base),
        ("networkmanager", ("NetworkManager",), desktop),
    ]
    for number, (name, units, plans) in enumerate(cases):
        system = node(tmp_path / str(number), *units, plans=plans)
        assert files.choose(system, "auto").name == name
    with pytest.raises(Unsupported, match="neither netplan nor NetworkManager"):
        files.choose(node(tmp_path / "none"), "auto")
    assert files.choose(node(tmp_path / "none"), "none").name == "none"


def test_netplan_without_its_program_is_not_chosen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(System, "which", lambda _self, _program: None)
    system = node(tmp_path, "systemd-networkd", plans={"a.yaml": "network: {}\n"})
    assert files.choose(system, "auto").name == "networkd"
    with pytest.raises(Unsupported, match="netplan is not installed"):
        files.choose(system, "netplan")


def test_our_files_of_every_back_end_are_recognized(tmp_path: Path) -> None:
    system = System(str(tmp_path))
    for backend in (files.Networkd(system), files.Netplan(system), files.NetworkManager(system)):
        assert backend.ours() == []
        written = backend.files(kept())
        for path, file in written.items():
            system.write_file(path, file.text, file.mode)
        assert sorted(backend.ours()) == sorted(written)
    system.write_file("/etc/systemd/network/10-netplan-eth9.network.d/other.conf", "")
    system.write_file("/etc/NetworkManager/system-connections/office.nmconnection", "")
    assert len(files.Netplan(system).ours()) == 4
    assert len(files.NetworkManager(system).ours()) == 3


# -- loading ----------------------------------------------------------------------------------------------------------


def reported(system: System, ifindex: int, path: str, phase: str = "configured") -> None:
    text = "# This is private data. Do not parse.\nADMIN_STATE=%s\nNETWORK_FILE=%s\n" % (phase, path)
    system.write_file("/run/systemd/netif/links/%d" % ifindex, text)


def test_networkd_reloads_and_is_waited_for(tmp_path: Path) -> None:
    commands = Commands()
    system = node(tmp_path, commands=commands)
    reported(system, 2, "/etc/systemd/network/05-railyard-gpu01.network")
    files.Networkd(system).load(kept(FOUR), [], (), 1)
    assert commands.ran == ["networkctl reload"]


def test_networkd_never_completes_ipv6_without_a_carrier(tmp_path: Path) -> None:
    system = node(tmp_path)
    reported(system, 2, "/etc/systemd/network/05-railyard-gpu01.network", "configuring")
    system.write_file("/sys/class/net/enp11s0/carrier", "0\n")
    files.Networkd(system).load(kept(BOTH), [], (), 0.1)
    for option, carrier in ((BOTH, "1"), (FOUR, "0")):
        system.write_file("/sys/class/net/enp11s0/carrier", carrier)
        with pytest.raises(RailyardError, match="reports enp11s0 as 'configuring'"):
            files.Networkd(system).load(kept(option), [], (), 0.1)


@pytest.mark.parametrize(
    ("path", "phase", "message"),
    [
        ("/etc/systemd/network/01-all.network", "configured", "uses /etc/systemd/network/01-all.network for enp11s0"),
        ("", "unmanaged", "uses no file for enp11s0"),
        ("/etc/systemd/network/05-railyard-gpu01.network", "configuring", "reports enp11s0 as 'configuring'"),
    ],
)
def test_networkd_that_applies_other_values_is_an_error(tmp_path: Path, path: str, phase: str, message: str) -> None:
    system = node(tmp_path)
    reported(system, 2, path, phase)
    with pytest.raises(RailyardError) as error:
        files.Networkd(system).load(kept(FOUR), [], (), 0.1)
    assert message in error.value.message
    assert error.value.place == "/etc/systemd/network/05-railyard-gpu01.network"


def test_a_state_from_before_the_reload_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = "/etc/systemd/network/05-railyard-gpu01.network"
    system = node(tmp_path)
    monkeypatch.setattr(networkd_reload.time, "sleep", lambda _seconds: reported(system, 2, path, "failed"))
    monkeypatch.setattr(networkd_reload, "RETRY", 0.1)
    for changed in ([], [path]):
        reported(system, 2, path)
        # newer than the file, as if the kernel reported an address to systemd-networkd in between
        os.utime(system.path("/run/systemd/netif/links/2"), ns=(0, time.time_ns() - 10**9))
        if not changed:
            files.Networkd(system).load(kept(FOUR), changed, (), 0.1)
            continue
        with pytest.raises(RailyardError, match="reports enp11s0 as 'failed'"):
            files.Networkd(system).load(kept(FOUR), changed, (), 0.1)


def test_a_failed_link_of_networkd_is_reconfigured_once(tmp_path: Path) -> None:
    path = "/etc/systemd/network/05-railyard-gpu01.network"
    ran: list[str] = []

    def answer(argv: t.Sequence[str], timeout: float) -> CommandResult:
        ran.append(" ".join(argv))
        if argv[1] == "reconfigure":
            reported(system, 2, path)
        return CommandResult(0, "", "")

    system = System(str(tmp_path), answer)
    reported(system, 2, path, "failed")
    files.Networkd(system).load(kept(FOUR), [], (), 0.1)
    assert ran == ["networkctl reload", "networkctl reconfigure enp11s0"]


def test_a_link_that_failed_twice_in_networkd_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(networkd_reload, "RETRY", 0.1)
    journal = (
        "enp11s0: Could not set address: No buffer\nenp11s0: Gained carrier\nenp12s0: Could not set route: Other\n"
    )
    commands = Commands(journalctl=CommandResult(0, journal, ""))
    system = node(tmp_path, commands=commands)
    reported(system, 2, "/etc/systemd/network/05-railyard-gpu01.network", "failed")
    with pytest.raises(RailyardError) as error:
        files.Networkd(system).load(kept(FOUR), [], (), 0.1)
    assert error.value.message == "systemd-networkd reports enp11s0 as 'failed' (Could not set address: No buffer)"
    assert commands.ran[:2] == ["networkctl reload", "networkctl reconfigure enp11s0"]


def test_a_link_that_gets_its_name_later_is_not_waited_for(tmp_path: Path) -> None:
    files.Networkd(node(tmp_path)).load([each._replace(ifindex=None) for each in kept(FOUR)], [], (), 0.1)


def test_netplan_is_generated_and_never_applied(tmp_path: Path) -> None:
    commands = Commands()
    system = node(tmp_path, commands=commands)
    reported(system, 2, "/run/systemd/network/10-netplan-enp11s0.network")
    files.Netplan(system).load(kept(FOUR), [], (), 1)
    assert commands.ran == ["netplan generate", "networkctl reload"]


def generating(tmp_path: Path, **texts: str) -> System:
    """Return a node whose netplan writes these files, by netdev, and replaces all of them, as the real one does."""

    def answer(argv: t.Sequence[str], timeout: float) -> CommandResult:
        if argv[:2] == ["netplan", "generate"]:
            for name in system.listdir("/run/systemd/network"):
                system.remove_file("/run/systemd/network/" + name)
            for netdev, text in texts.items():
                system.write_file("/run/systemd/network/10-netplan-%s.network" % netdev, text, 0o640)
        return CommandResult(0, "", "")

    system = System(str(tmp_path), answer)
    return system


def test_unchanged_files_of_netplan_stay_the_same_files(tmp_path: Path) -> None:
    """systemd-networkd would reconfigure the link of a replaced file, and the management path would lose its lease."""
    place = "/run/systemd/network/10-netplan-%s.network"
    system = generating(tmp_path, management="DHCP", gpu01="new", gpu02="added")
    for netdev, text in (("management", "DHCP"), ("gpu01", "old"), ("gpu03", "former")):
        system.write_file(place % netdev, text, 0o640)
    system.write_file(place % "kept", "", 0o600)
    before = os.stat(system.path(place % "management"))
    assert netplan_output.generate(system) == [place % name for name in ("gpu01", "gpu02", "gpu03", "kept")]
    after = os.stat(system.path(place % "management"))
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)
    assert system.read_file(place % "gpu01") == "new"
    assert system.listdir("/run/systemd/network") == [
        "10-netplan-%s.network" % name for name in ("gpu01", "gpu02", "management")
    ]
    assert system.listdir("/run") == ["systemd"]
    assert netplan_output.generate(system) == []


def test_netplan_waits_for_the_links_whose_files_or_drop_ins_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = netplan_output.generated_path("enp11s0")
    system = generating(tmp_path, enp11s0="[Network]")
    waited: list[list[str]] = []
    monkeypatch.setattr(networkd_reload, "reload", lambda _system, _wanted, changed, _timeout: waited.append(changed))
    for changed in ([], [files.NETPLAN_FILE], [netplan_output.drop_in_path("enp11s0")]):
        files.Netplan(system).load(kept(FOUR), changed, (), 1)
    # the first run adds the file; the second has another rail's in the file of all rails
    assert waited == [[path], [], [path]]


def test_only_the_drop_ins_of_netplan_have_their_own_directory(tmp_path: Path) -> None:
    system = node(tmp_path)
    paths = files.Netplan(system).files(kept(FOUR))
    assert [path for path in paths if netplan_output.is_drop_in(path)] == [netplan_output.drop_in_path("enp11s0")]
    assert not any(netplan_output.is_drop_in(path) for path in files.Networkd(system).files(kept(FOUR)))


@pytest.mark.parametrize(
    ("current", "command"),
    [("railyard-gpu01", "device reapply enp11s0"), ("Wired connection 1", "connection up id railyard-gpu01")],
)
def test_networkmanager_activates_or_reapplies(tmp_path: Path, current: str, command: str) -> None:
    commands = Commands(nmcli=CommandResult(0, current + "\n", ""))
    files.NetworkManager(node(tmp_path, commands=commands)).load(kept(FOUR), [], (), 30)
    assert commands.ran == [
        "nmcli connection reload",
        "nmcli -g GENERAL.CONNECTION device show enp11s0",
        "nmcli --wait 30 " + command,
    ]


def test_two_managers_at_once_are_reported(tmp_path: Path) -> None:
    assert files.Networkd(node(tmp_path / "a", "systemd-networkd")).warnings() == []
    (text,) = files.Networkd(node(tmp_path / "b", "systemd-networkd", "NetworkManager")).warnings()
    assert "unmanaged-devices" in text


def test_networkd_reads_a_bond_that_exists_before_its_file(tmp_path: Path) -> None:
    commands = Commands()
    system = node(tmp_path, commands=commands)
    path = "/etc/systemd/network/05-railyard-lower-bond0.netdev"
    for file in (path, "/sys/class/net/bond0/ifalias"):
        system.write_file(file, "storage")
    os.utime(system.path(path), (0, 0))
    networkd_reload.announce(system, [])
    assert commands.ran == []
    networkd_reload.announce(system, [("bond0", path), ("gone", path)])
    assert commands.ran == ["networkctl reload"]
    # the kernel reports a change, and the file is a new one with the same content
    assert system.read_file("/sys/class/net/bond0/ifalias") == "storage\n"
    assert (system.read_file(path), os.stat(system.path(path)).st_mtime > 0) == ("storage", True)
