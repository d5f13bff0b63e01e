# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A host prepared, taken back and booted is what it was before: its files, links, addresses, rules, VFs and registers.

One guest with four rails, SR-IOV, soft RDMA and the layers of hosts that a guest can have.
"""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest
import yaml

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan.layer_table import LAYERS
from lab import cli
from tests import playbook
from tests.integration.conftest import LAB, LAB_DIR, ROOT, Node

pytestmark = pytest.mark.lab

TAG = "before-take-back"
NODE = "node-1"
RAILS = (1, 2, 3, 4)
FABRIC = """
plugin: railyard.fabric.rails
fabric:
  name: back
  attachment: sriov
  provider: spiderpool
  mtu: 4200
  vfs: {count: 2, trust: true, spoofchk: false}
  limits:
    memlock: unlimited
    hugepages: {2M: 6}
    neighbours: {gc_thresh1: 1024, gc_thresh2: 2048, gc_thresh3: 4096}
  nccl: {file: true, ucx: true}
rails:
  {count: 4, name: "gpu{n:02}", subnet: "172.16.{n+10}.0/24", pods: .1-.200, hosts: .201-.253}
profiles:
  guest:
    soft_rdma: rxe
    pci: {acs: disabled}
    gpus: {0: "0000:08:00.0"} # what a GPU would be: behind a root port that has ACS
    ports:
      gpu01: {netdev: enp1s0, pci: "0000:01:00.0", gpu: 0}
      gpu02: {netdev: enp2s0, pci: "0000:02:00.0"}
      gpu03: {netdev: enp3s0, pci: "0000:03:00.0"}
      gpu04: {netdev: enp4s0, pci: "0000:04:00.0"}
nodes:
  node-1: {profile: guest}
"""
# Our own, from whatever test was here before.
PRISTINE = (
    "find /etc /usr/local /var/lib /var/cache -xdev -name '*railyard*' -prune -exec rm -rf {} +;"
    " rm -f /etc/nccl.conf /etc/ucx/ucx.conf; sync"
)
# What packages and boots keep for themselves.
THEIRS = "! -path '/etc/adjtime' ! -path '/etc/ld.so.cache' ! -name '*.pyc'"
FILES = (
    "for each in /etc /usr/local /var/lib/railyard /var/cache/railyard; do [ -e $each ] || continue;"
    " find $each -xdev %s -type l -printf '%%p -> %%l\\n';"
    " find $each -xdev %s -type f -printf '%%m %%U %%p\\n' -exec sha256sum {} +; done" % (THEIRS, THEIRS)
)
SETTINGS = ("arp_announce", "arp_ignore", "rp_filter")
CONF = "/proc/sys/net/ipv4/conf"
ROOT_PORTS = ("0000:00:01.0", "0000:00:08.0")
LIVE = {
    "rules": "ip rule; ip -6 rule",
    "routes": "ip route show table all | sort; ip -6 route show table all | sort",
    # without the numbers of interfaces, which depend on the order in which their drivers bind at boot
    "addresses": "ip -o address | sed 's/^[0-9]*: //; s/valid_lft.*//' | sort",
    "links": "; ".join("ip -o link show enp%ds0 | sed 's/^[0-9]*: //; s/ state .*mode/ mode/'" % n for n in RAILS),
    "MTU": "cat %s" % " ".join("/sys/class/net/enp%ds0/mtu" % n for n in RAILS),
    "VFs": "cat %s" % " ".join("/sys/bus/pci/devices/0000:%02x:00.0/sriov_numvfs" % n for n in RAILS),
    "autoprobe": "cat %s" % " ".join("/sys/bus/pci/devices/0000:%02x:00.0/sriov_drivers_autoprobe" % n for n in RAILS),
    "RDMA links": "rdma link",
    "rdma mode": "rdma system",
    "sysctls": "cd %s && cat %s" % (CONF, " ".join("enp%ds0/%s" % (n, key) for n in RAILS for key in SETTINGS)),
    "neighbours": "sysctl net.ipv4.neigh.default net.ipv6.neigh.default | grep gc_thresh",
    "hugepages": "cat /sys/kernel/mm/hugepages/*/nr_hugepages",
    "units": "systemctl list-unit-files --no-legend 'railyard*'",
    "ACS": "; ".join("lspci -vvv -s %s | grep ACSCtl" % each for each in ROOT_PORTS),
    "kernel arguments": "cat /proc/cmdline",
}


def look(node: Node) -> dict[str, list[str]]:
    """The node's files with what they hold, and its live state, read with other tools than the collection's."""
    found = {"files": sorted(node.run(FILES, timeout=300).splitlines())}
    for name, command in LIVE.items():
        found[name] = node.run(command, check=False).splitlines()
    return found


def differences(before: t.Mapping[str, list[str]], after: t.Mapping[str, list[str]]) -> dict[str, t.Any]:
    return {
        name: {"gone": sorted(set(lines) - set(after[name])), "come": sorted(set(after[name]) - set(lines))}
        for name, lines in before.items()
        if lines != after[name]
    }


class Host(t.NamedTuple):
    """The guest, a way to run playbooks on it, and what it was after a boot, before it was prepared."""

    node: Node
    inventory: Path
    before: dict[str, list[str]]

    def play(self, name: str, *words: str) -> str:
        """Run a playbook as a user does; its output. It must succeed."""
        return self._played(Path("playbooks", name), *words)

    def roles(self, *names: str, **given: str) -> str:
        """Run roles in a play of a user."""
        roles = [{"role": "railyard.fabric." + name, "vars": given} for name in names]
        file = self.inventory.parent / "roles.yml"
        file.write_text(yaml.safe_dump([{"hosts": NODE, "gather_facts": False, "become": True, "roles": roles}]))
        return self._played(file)

    def _played(self, file: Path, *words: str) -> str:
        env = {"RAILYARD_LAB": LAB, "RAILYARD_LAB_DIR": str(LAB_DIR.parent)}
        done = playbook.play(file, *words, inventory=self.inventory, env=env, timeout=1500)
        assert done.returncode == 0, done.stdout[-6000:] + done.stderr
        return done.one_line

    def take_back(self, *words: str) -> str:
        given = ("-e", "kubernetes_enabled=false", "-e", "teardown_hosts=true")
        return self.play("teardown.yml", *given, *words)


CONSENT = ("-e", "teardown_consent=back")


@pytest.fixture(scope="module")
def host(node: t.Callable[[str], Node], tmp_path_factory: pytest.TempPathFactory) -> t.Iterator[Host]:
    place = tmp_path_factory.mktemp("back") / "inventory"
    place.mkdir()
    (place / "fabric.yml").write_text(FABRIC)
    (place / "group_vars").symlink_to(ROOT / "inventories" / "lab" / "group_vars")
    guest = node(NODE)
    assert cli.main(["snapshot", "save", TAG, "--name", LAB]) == 0
    try:
        guest.run(PRISTINE)
        guest.reboot()
        host = Host(guest, place, look(guest))
        host.play("hosts.yml")
        yield host
    finally:
        guest.modules.close()
        assert cli.main(["snapshot", "restore", TAG, "--name", LAB]) == 0
        assert cli.main(["snapshot", "delete", TAG, "--name", LAB]) == 0


def test_a_prepared_host_is_another(host: Host) -> None:
    """So that the rest has something to take back."""
    changed = set(differences(host.before, look(host.node)))
    assert changed >= set(LIVE) - {"autoprobe", "ACS", "kernel arguments"} | {"files"}, sorted(changed)


def test_check_mode_shows_it_and_changes_nothing(host: Host) -> None:
    prepared = look(host.node)
    output = host.take_back("--check", "--diff")
    assert "changed=0" not in output.partition("PLAY RECAP")[2].partition(NODE)[2]
    assert "node-1: stays until the next boot: " in output and "name, MTU and sysctls of gpu01, gpu02" in output
    assert differences(prepared, look(host.node)) == {}


def test_one_layer_alone(host: Host) -> None:
    prepared = look(host.node)
    host.take_back("--tags", "limits", *CONSENT)
    gone = differences(prepared, look(host.node))
    # hugepages and tables stay live
    assert set(gone) == {"files"} and not gone["files"]["come"], gone
    assert {line.split()[-1] for line in gone["files"]["gone"]} == {
        "/etc/tmpfiles.d/railyard-hugepages.conf",
        "/etc/sysctl.d/91-railyard-neighbours.conf",
    }
    host.play("hosts.yml", "--tags", "limits")
    assert differences(prepared, look(host.node)) == {}


def test_roles_do_what_the_playbooks_do(host: Host) -> None:
    prepared = look(host.node)
    output = host.roles(*(layer for layer in LAYERS if layer not in ("cni", "agent")))
    assert "changed=0" in output.partition("PLAY RECAP")[2], output
    reverted = ("nccl", "limits", "rdma_links", "rail_ports", "pci", "sriov")
    host.roles(*reverted, **{layer + "_state": "absent" for layer in reverted})
    assert set(differences(prepared, look(host.node))) >= {"files", "rules", "routes", "addresses", "VFs", "RDMA links"}
    host.roles(*reverted[::-1])
    assert differences(prepared, look(host.node)) == {}


def test_everything_is_removed_and_a_second_run_changes_nothing(host: Host) -> None:
    host.take_back(*CONSENT)
    taken = differences(host.before, look(host.node))
    # only what cannot be undone live is left
    assert set(taken) <= {"links", "MTU", "sysctls", "neighbours", "hugepages", "ACS", "routes", "addresses"}, taken
    assert host.node.run("ls /var/lib/railyard /etc/railyard /usr/local/lib/railyard 2>/dev/null || true") == ""
    output = host.take_back(*CONSENT)
    assert "changed=0" in output.partition("PLAY RECAP")[2].partition(NODE)[2], output
    assert "stays until the next boot: " in output and "hugepages of 2048 kB stay until the next boot" in output


def test_after_its_reboot_it_is_what_it_was(host: Host) -> None:
    boot = host.node.boot_id()
    host.take_back("-e", "reboot_allowed=true", *CONSENT)
    host.node.forget()
    assert host.node.boot_id() != boot
    assert differences(host.before, look(host.node)) == {}
    output = host.take_back(*CONSENT)
    assert (
        "changed=0" in output.partition("PLAY RECAP")[2].partition(NODE)[2]
        and "stays until the next boot:" not in output
    )
    assert host.node.run("ls -A /run/railyard 2>/dev/null || true") == ""


def test_and_it_can_be_prepared_again(host: Host) -> None:
    host.play("hosts.yml")
    assert "changed=0" in host.play("hosts.yml").partition("PLAY RECAP")[2].partition(NODE)[2]
