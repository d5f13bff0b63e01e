# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The files of the rail agent: its programs, packed from the collection's sources, and its unit."""

from __future__ import annotations

import hashlib
import json
import re
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._node.agent import (
    agent_main,
    agent_service,
    agent_spec,
    hook,
    slot_state,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.core import packed_program
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.dra import prepared_claims
from ansible_collections.railyard.fabric.plugins.module_utils._node.health import cordon_file

SPEC, SLOTS, CLAIMS = agent_spec.FILE, slot_state.FILE, prepared_claims.FILE
CORDONS, LOCK = cordon_file.CORDONS, agent_service.LOCK
PROGRAM = "/usr/local/lib/railyard/agent.pyz"
HOOK = "/usr/local/lib/railyard/agent-hook"
COMMAND = "/usr/local/bin/railyard-agent"
SERVICE = "railyard-agent.service"
UNIT = "/etc/systemd/system/railyard-agent.service"
UNIT_WANTED = "/etc/systemd/system/multi-user.target.wants/railyard-agent.service"
# Environment variable with a hash of program, spec and unit: a service with another value must be restarted.
STAMP = "RAILYARD_AGENT_STAMP"

# What ProtectHome of the unit hides.
HIDDEN = ("/home/", "/root/", "/run/user/")

COMMAND_TEXT = """\
#!/bin/sh
exec {python} -I {program} "$@"
"""
# The agent enters the network namespaces of pods and sets sysctls there, so it needs CAP_SYS_ADMIN and CAP_SYS_PTRACE.
# The unit creates the kubelet's directories of plugins, because the kubelet may start later for the first time.
UNIT_TEXT = """\
# Written by railyard.fabric. Gives pods their interfaces on the rails.
[Unit]
Description=Railyard: the rail agent of this node
After=railyard-boot.service network.target
Before=kubelet.service k3s.service k3s-agent.service rke2-server.service rke2-agent.service
ConditionPathExists={spec}

[Service]
Type=notify
Environment={stamp_name}={stamp}
ExecStart={python} -I {program} run
WatchdogSec=60
TimeoutStartSec=300
# 256 clients of the socket, each with a few files and two threads, 16 of the metrics, and the kubelet's
LimitNOFILE=16384
TasksMax=2048
Restart=always
RestartSec=2
StateDirectory=railyard/agent kubelet/device-plugins kubelet/plugins kubelet/plugins_registry
StateDirectoryMode=0750
RuntimeDirectory=railyard cdi
RuntimeDirectoryPreserve=yes
CapabilityBoundingSet=CAP_NET_ADMIN CAP_NET_RAW CAP_SYS_ADMIN CAP_SYS_PTRACE
DevicePolicy=closed
PrivateMounts=yes
ProtectSystem=strict
ProtectHome=yes
ProtectClock=yes
ProtectKernelModules=yes
ProtectKernelLogs=yes
ProtectControlGroups=yes
ProtectHostname=yes
PrivateTmp=yes
NoNewPrivileges=yes
LockPersonality=yes
MemoryDenyWriteExecute=yes
RestrictAddressFamilies=AF_UNIX AF_NETLINK AF_INET AF_INET6 AF_PACKET
RestrictNamespaces=net
RestrictRealtime=yes
RestrictSUIDSGID=yes
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallErrorNumber=EPERM
UMask=0077

[Install]
WantedBy=multi-user.target
"""


class DesiredFile(t.NamedTuple):
    """A file that must be written. ``attribute``: of its change. ``observed``: its content now; None if absent."""

    path: str
    attribute: str
    data: bytes
    mode: int
    observed: bytes | None


def python(system: System) -> str:
    """Return the Python of both programs: the interpreter that they were installed with, while it exists."""
    installed = re.search(r"^exec (/\S+) ", system.read_file(COMMAND) or "", re.MULTILINE)
    return packed_program.interpreter(system, installed.group(1) if installed else None, HIDDEN)


def changed_files(system: System, spec: t.Mapping[str, t.Any]) -> tuple[list[DesiredFile], str]:
    """Return the files that must be written, in the order of writing, and the stamp of the service."""
    interpreter = python(system)
    compiled = packed_program.is_running(system, interpreter)
    agent_entry, hook_entry = _entry(agent_main.__name__), _entry(hook.__name__)
    agent = packed_program.pack(packed_program.imported(agent_entry), agent_entry, compiled)
    hook_program = packed_program.executable(interpreter, packed_program.imported(hook_entry), hook_entry, compiled)
    text = json.dumps(spec, indent=2, sort_keys=True) + "\n"
    command = COMMAND_TEXT.format(python=interpreter, program=PROGRAM)
    installed = system.read_bytes(PROGRAM)
    agent = installed if installed is not None and packed_program.same(installed, agent) else agent
    unit = UNIT_TEXT.format(spec=SPEC, stamp_name=STAMP, stamp="{stamp}", python=interpreter, program=PROGRAM)
    stamp = hashlib.sha256(b"\0".join((agent, text.encode(), unit.encode()))).hexdigest()[:16]
    files = (
        (PROGRAM, "program", agent, 0o755),
        (HOOK, "program", hook_program, 0o755),
        (COMMAND, "command", command.encode(), 0o755),
        (SPEC, "spec", text.encode(), 0o644),
        (UNIT, "unit", unit.format(stamp=stamp).encode(), 0o644),
    )
    changed = []
    for path, attribute, data, mode in files:
        observed = system.read_bytes(path)
        same = observed == data or (observed is not None and path == HOOK and packed_program.same(observed, data))
        if not same or system.mode(path) != mode:
            changed.append(DesiredFile(path, attribute, data, mode, observed))
    return changed, stamp


def _entry(name: str) -> str:
    return name[len(packed_program.PACKAGE) + 1 :]
