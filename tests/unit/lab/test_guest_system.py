# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The guests' system: the options of ``lab up``, what they exclude, and the recipe and package sources that follow."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lab import cli, guest_system, image, lifecycle, state
from lab.errors import LabError
from lab.host import Host

DEBIAN_12 = Host("debian", "bookworm", "12")
DEBIAN_13 = Host("debian", "trixie", "13")
UBUNTU = Host("ubuntu", "noble", "24.04")


@pytest.mark.parametrize(
    ("host", "system", "cluster", "name", "codename"),
    [
        (DEBIAN_12, None, False, "debian-12", "bookworm"),
        (DEBIAN_12, "debian-13", False, "debian-13", "trixie"),
        (DEBIAN_12, None, True, "debian-13", "trixie"),
        (DEBIAN_12, "debian-13", True, "debian-13", "trixie"),
        (DEBIAN_13, None, False, "debian-13", "trixie"),
        (DEBIAN_13, "debian-12", False, "debian-12", "bookworm"),
        (UBUNTU, None, False, "ubuntu-24.04", "noble"),
        (UBUNTU, "ubuntu-24.04", False, "ubuntu-24.04", "noble"),
    ],
)
def test_system_is_the_hosts_own_unless_another_is_named(
    host: Host, system: str | None, cluster: bool, name: str, codename: str
) -> None:
    chosen = guest_system.choose(host, system, None, cluster)
    assert (chosen.name, chosen.codename, chosen.network) == (name, codename, "networkd")


@pytest.mark.parametrize(("system", "cluster"), [("debian-12", False), ("debian-13", False), (None, True)])
def test_host_without_debians_packages_is_refused(system: str | None, cluster: bool) -> None:
    with pytest.raises(LabError, match="this machine is ubuntu-24.04. Remedy: run the command on Debian 12 or 13"):
        guest_system.choose(UBUNTU, system, None, cluster)


def test_unknown_system_is_refused_with_the_known_ones() -> None:
    with pytest.raises(LabError, match="no system fedora-42. Remedy: use one of debian-12, debian-13, ubuntu-24.04"):
        guest_system.choose(UBUNTU, "fedora-42", None, False)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--system", "debian-12"], "guests of --cluster run debian-13, not debian-12"),
        (["--network", "netplan"], "guests of --cluster is managed by networkd, not netplan"),
        (["--network", "networkmanager"], "guests of --cluster is managed by networkd, not networkmanager"),
    ],
)
def test_cluster_with_another_system_is_refused_before_anything_ends(
    options: list[str], message: str, labs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lab = running_lab()
    assert cli.main(["up", "--name", "one", "--cluster", "--fresh", *options]) == 1
    error = capsys.readouterr().err
    assert message in error and "Remedy: leave out %s, or leave out --cluster" % options[0] in error
    assert state.load("one") == lab


def running_lab() -> state.Lab:
    ports = state.free_ports(2, set())
    lab = state.Lab("one", 2, 8, 1024, "tcg", 1, "/nowhere", "1", ports, system="debian-13", network="netplan")
    lab.save()
    return lab


@pytest.mark.parametrize(("option", "value"), [("--system", "debian-12"), ("--network", "networkd")])
def test_lab_with_another_system_is_refused_and_unchanged(
    option: str, value: str, labs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lab = running_lab()
    assert cli.main(["up", "--name", "one", option, value]) == 1
    error = capsys.readouterr().err
    assert "exists with %s" % option in error and "not %s. Remedy: add --fresh" % value in error
    assert state.load("one") == lab


def test_the_same_system_and_no_system_agree_with_a_lab(labs: Path) -> None:
    lab = running_lab()
    lifecycle._check_options(lifecycle.Spec("one"), lab)
    lifecycle._check_options(lifecycle.Spec("one", system="debian-13", network="netplan"), lab)


def test_status_and_inventory_show_system_and_network(labs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    running_lab()
    cli.main(["status", "--name", "one"])
    assert "system debian-13, network managed by netplan\n" in capsys.readouterr().out
    for command in (["status", "--json"], ["inventory"]):
        cli.main([*command, "--name", "one"])
        shown = json.loads(capsys.readouterr().out)
        assert (shown["system"], shown["network"]) == ("debian-13", "netplan")


def test_lab_of_an_older_checkout_is_read(labs: Path) -> None:
    lab = running_lab()
    place = lab.directory / "lab.json"
    values = json.loads(place.read_text())
    del values["system"], values["network"]
    place.write_text(json.dumps(values))
    old = state.load("one")
    assert old is not None and (old.system, old.network) == ("unknown", "networkd")
    lifecycle._check_options(lifecycle.Spec("one"), old)


def test_each_release_and_network_has_its_own_image() -> None:
    hashes = {
        image.recipe_hash(image.recipe(guest_system.choose(DEBIAN_12, system, network, False)))
        for system in guest_system.DEBIAN_RELEASES
        for network in guest_system.NETWORK_PACKAGES
    }
    assert len(hashes) == 6


def test_image_does_not_depend_on_the_release_of_the_host() -> None:
    chosen = [guest_system.choose(host, "debian-13", "netplan", False) for host in (DEBIAN_12, DEBIAN_13)]
    assert image.recipe(chosen[0]) == image.recipe(chosen[1])


def test_guest_setup_configures_every_network() -> None:
    setup = image.SETUP.read_text()
    for network in guest_system.NETWORK_PACKAGES:
        assert "\nnetwork_%s() {\n" % network in setup
