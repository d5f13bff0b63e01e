# Copyright (c) 2026, Railyard contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.discover import discover_run as discovery
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.discover.discover_build import Options
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.discover.supernet_schemes import PLACE
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import Finding
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.attachment_table import ATTACHMENTS, HOST
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.provider_facts import PROVIDERS
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.ip_integers import Network, network_of
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.name_syntax import BadTemplate, Template
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.text_table import count
from ansible_collections.railyard.fabric.plugins.plugin_utils import _fabric_files, _output
from ansible_collections.railyard.fabric.plugins.plugin_utils._controller_action import ControllerAction

_SHORT_FORMS = ("pods", "pods6", "gateway", "gateway6")


class ActionModule(ControllerAction):
    """Creates a fabric file from running nodes; documented in ``plugins/modules/fabric_discover.py``."""

    SPEC: t.Mapping[str, t.Any] = {
        "nodes": {"type": "dict", "required": True},
        "addresses": {"type": "dict", "default": {}},
        **_fabric_files.NEW_FABRIC,
        "name": {"type": "str"},
        "attachment": {"type": "str", "choices": [name for name in ATTACHMENTS if name != HOST]},
        "provider": {"type": "str", "choices": [name for name, facts in PROVIDERS.items() if facts.kubernetes]},
        "profile": {"type": "str", "default": "server"},
        "rail_name": {"type": "str"},
        "supernet": {"type": "str"},
        "mtu": {"type": "int"},
        "lldp": {"type": "dict", "default": {}},
        **{name: {"type": "str"} for name in _SHORT_FORMS},
    }

    def work(self, options: t.Mapping[str, t.Any], check: bool) -> dict[str, t.Any]:
        addresses = options["addresses"]
        infos = [
            discovery.NodeInfo(str(name), _address(addresses.get(name)), _mapping(result, "nodes.%s" % name))
            for name, result in options["nodes"].items()
        ]
        outcome = discovery.run(infos, _options(options))
        result: dict[str, t.Any] = {
            "changed": False,
            "text": outcome.text,
            "findings": [finding.as_dict() for finding in outcome.findings],
            "counts": discovery.counts(outcome.findings),
            "table": discovery.as_table(outcome.findings, _output.width()),
            "lint": _lines(outcome.lint, options["dest"] or "fabric.yml"),
            "summary": discovery.summary(outcome),
        }
        if not outcome.text:
            remedy = "see the table, and select nodes with NICs other than that of the connection"
            raise RailyardError("no node has a port that can be a rail port\n%s" % result["table"], "nodes", remedy)
        if options["dest"]:
            refused = "a different fabric file exists already, and it may contain what nodes do not show"
            consent = None if options["force"] else "-e discover_force=true"
            result.update(_fabric_files.write_fabric(options["dest"], outcome.text, check, refused, consent))
        return result


def _options(options: t.Mapping[str, t.Any]) -> Options:
    if options["rail_name"]:
        try:
            Template(options["rail_name"])
        except BadTemplate as error:
            remedy = "write a name that contains the rail's number, such as gpu{n:02}"
            raise RailyardError("%s is not a template" % error, "rail_name", remedy) from error
    lldp = {
        str(node): {str(netdev): _mapping(row, "lldp.%s" % node) for netdev, row in _mapping(own, "lldp").items()}
        for node, own in options["lldp"].items()
    }
    return Options(
        name=options["name"],
        attachment=options["attachment"],
        provider=options["provider"],
        profile=options["profile"],
        rails=options["rail_name"],
        mtu=options["mtu"],
        given={name: options[name] for name in _SHORT_FORMS if options[name]},
        lldp=lldp,
        supernet=_supernet(options["supernet"]),
    )


def _lines(findings: t.Sequence[Finding], file: str) -> list[str]:
    """Return one line for each rule and remedy, with the number of the other places where it applies."""
    grouped: dict[tuple[str, str], list[Finding]] = {}
    for finding in findings:
        grouped.setdefault((finding.code, finding.remedy), []).append(finding)
    return [
        same[0].text(file) + (" The same applies to %s." % count(len(same) - 1, "other place") if same[1:] else "")
        for same in grouped.values()
    ]


def _supernet(text: str | None) -> Network | None:
    if not text:
        return None
    net = network_of(text, exact=True)
    if net is None:
        remedy = "write a network with its prefix length, such as 172.16.0.0/16"
        raise RailyardError("%s is not a network" % text, PLACE, remedy)
    return net


def _address(value: t.Any) -> str | None:
    return str(value) if value else None


def _mapping(value: t.Any, place: str) -> t.Mapping[str, t.Any]:
    """Return the result of a node; empty for a node that could not be reached."""
    if value is None or isinstance(value, dict):
        return value or {}
    raise RailyardError("not a mapping", place, "set the result of rail_info, or {node: {netdev: {chassis: NAME}}}")
