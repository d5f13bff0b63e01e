# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""SSH into the guests: its configuration, and knowing when a guest answers."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Iterable

from lab import guest, host, process
from lab.errors import LabError
from lab.image import Image
from lab.progress import say
from lab.state import USER, Lab, node_name, write_file

BOOT_SECONDS = {"kvm": 120.0, "tcg": 1200.0}
# Seconds in which a running node's SSH server sends its banner. A busy emulated node needs several.
BANNER_SECONDS = {"kvm": 2.0, "tcg": 20.0}


def write_config(lab: Lab, image: Image) -> None:
    """Write the lab's key, known hosts and ssh_config."""
    key = lab.directory / "id_ed25519"
    shutil.copyfile(image.key, key)
    key.chmod(0o600)
    known = lab.directory / "known_hosts"
    host_key = " ".join(image.host_key.split()[:2])
    write_file(known, "\n".join("[127.0.0.1]:%d %s" % (port, host_key) for port in lab.ports))
    text = []
    for number, port in enumerate(lab.ports, 1):
        text += [
            "Host %s" % node_name(number),
            "    HostName 127.0.0.1",
            "    Port %d" % port,
            "    User %s" % USER,
            '    IdentityFile "%s"' % key,
            "    IdentitiesOnly yes",
            '    UserKnownHostsFile "%s"' % known,
            "    GlobalKnownHostsFile none",
            "    StrictHostKeyChecking yes",
            # Fast on an emulated processor. The connection does not leave this machine.
            "    KexAlgorithms curve25519-sha256",
            # A guest that reboots does not close the connection to the host.
            "    ServerAliveInterval 10",
            "    ServerAliveCountMax 6",
            "    LogLevel ERROR",
            "",
        ]
    write_file(lab.ssh_config, "\n".join(text))


def argv(lab: Lab, node: int, arguments: list[str], *options: str) -> list[str]:
    """Return the ssh command line for a node."""
    return [host.tool("ssh"), "-F", str(lab.ssh_config), *options, node_name(node), *arguments]


def run(
    lab: Lab, node: int, line: str, seconds: float = 60.0, user: str = USER, data: bytes | None = None
) -> str | None:
    """Run a command on a node, and return its output; None if the node does not answer or the command fails.

    :param data: the command's standard input.
    """
    options = ("-o", "BatchMode=yes", "-o", "ConnectTimeout=%d" % max(1, int(seconds)), "-o", "User=%s" % user)
    try:
        command = argv(lab, node, [line], *options)
        done = subprocess.run(command, input=data or b"", capture_output=True, timeout=seconds)
    except subprocess.TimeoutExpired:
        return None
    return done.stdout.decode("utf-8", "replace") if done.returncode == 0 else None


def answers(port: int, seconds: float = 5.0) -> bool:
    """Return whether a node's SSH server sends its banner. User networking accepts connections without a server too."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=seconds) as sock:
            return sock.recv(4) == b"SSH-"
    except OSError:
        return False


def boot_id(lab: Lab, node: int, seconds: float = 30.0) -> str | None:
    """Return the ID of the node's current boot; None if the node does not answer."""
    text = run(lab, node, "cat /proc/sys/kernel/random/boot_id", seconds)
    return text.strip() if text else None


def set_clocks(lab: Lab, nodes: Iterable[int]) -> None:
    """Set the clocks of nodes whose memory was restored. Raises LabError for a node that does not answer."""

    def set_clock(node: int) -> None:
        if run(lab, node, "date -u -s @%.1f" % time.time(), user="root") is None:
            raise LabError(
                "%s does not answer after it was restored" % node_name(node),
                "see %s; 'lab reboot --hard %s' resets it" % (lab.console(node), node_name(node)),
            )

    with ThreadPoolExecutor() as pool:
        list(pool.map(set_clock, nodes))


def wait(lab: Lab, nodes: list[int], not_boot: dict[int, str] | None = None) -> None:
    """Wait in parallel until these nodes accept logins.

    :param not_boot: node -> boot ID before a reboot; the node must have another one.
    :raises LabError: for the first node that does not answer in time, with the path of its console log.
    """
    begin = time.monotonic()
    end = begin + BOOT_SECONDS[lab.accel]
    with ThreadPoolExecutor(max_workers=max(1, len(nodes))) as pool:
        tasks = [pool.submit(_wait, lab, node, end, (not_boot or {}).get(node)) for node in nodes]
        last_report = begin
        while not all(task.done() for task in tasks):
            time.sleep(0.1)
            if time.monotonic() - last_report > 10:
                last_report = time.monotonic()
                waiting = [node_name(node) for node, task in zip(nodes, tasks) if not task.done()]
                say("  waiting for %s to boot" % ", ".join(waiting))
    for task in tasks:
        task.result()


def _wait(lab: Lab, node: int, end: float, not_boot: str | None) -> None:
    name, port = node_name(node), lab.ports[node - 1]
    while time.monotonic() < end:
        if name not in process.members(lab.directory):
            raise LabError(
                "%s's machine ended: %s" % (name, _tail(lab.log(name)) or "it printed nothing"),
                "see %s and %s; 'lab up' starts it again, 'lab up --fresh' on a new disk"
                % (lab.log(name), lab.console(node)),
            )
        if answers(port, min(5.0, max(0.5, end - time.monotonic()))):
            boot = boot_id(lab, node)
            if boot and boot != not_boot:
                return
        time.sleep(0.3)
    raise LabError(
        "%s does not answer on SSH after %d s; its console ends: %s"
        % (name, BOOT_SECONDS[lab.accel], _tail(lab.console(node)) or "(empty)"),
        "see %s; 'lab reboot --hard %s' resets it, 'lab up --fresh' starts over" % (lab.console(node), name),
    )


def _tail(file: Path, lines: int = 2) -> str:
    try:
        text = file.read_bytes()[-4000:].decode("utf-8", "replace")
    except OSError:
        return ""
    return " | ".join([line.strip() for line in text.splitlines() if line.strip()][-lines:])


def inventory(lab: Lab) -> dict[str, Any]:
    """Return how to reach the nodes, and their rails, for other programs."""
    return {
        "lab": lab.name,
        "accelerator": lab.accel,
        "system": lab.system,
        "network": lab.network,
        "layout": lab.layout,
        "ssh_config": str(lab.ssh_config),
        "nodes": {
            node_name(node): {
                "host": "127.0.0.1",
                "port": lab.ports[node - 1],
                "user": USER,
                "identity_file": str(lab.directory / "id_ed25519"),
                "known_hosts": str(lab.directory / "known_hosts"),
                "management": {"netdev": "enp0s30", "address": guest.management_address(node)},
                "rails": [
                    {
                        "number": rail,
                        "pci": guest.rail_pci(rail),
                        "netdev": guest.rail_netdev(rail),
                        "mac": guest.mac(node, rail),
                    }
                    for rail in range(1, lab.rails + 1)
                ],
            }
            for node in range(1, lab.nodes + 1)
        },
    }
