#!/usr/bin/env python3
# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes docs/import.md from the import's rules; with --check only says whether it is up to date."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DOC = ROOT / "docs" / "import.md"
sys.path.insert(0, str(ROOT / "collections"))

from ansible_collections.railyard.fabric.plugins.module_utils.fabric.finding import Rule  # noqa: E402
from ansible_collections.railyard.fabric.plugins.module_utils.fabric.imports.build import Options  # noqa: E402
from ansible_collections.railyard.fabric.plugins.module_utils.fabric.imports.rules import IMPORT_RULES  # noqa: E402
from ansible_collections.railyard.fabric.plugins.module_utils.fabric.imports.run import run  # noqa: E402

FAMILIES = {
    "IM1": "Reading",
    "IM2": "Fields",
    "IM3": "Addresses",
    "IM4": "Resources and names",
    "IM5": "Rails and the fabric",
}

HEAD = """\
<!-- Written by tools/import_doc.py from the rules. Change them or the tool and run it; do not change this file. -->
# Importing what a cluster has

A cluster that already has rails has manifests of them: pools, networks, policies, device plugins. `playbooks/import.yml`
reads them and writes the [fabric file](fabric-file.md) that means them. It contacts no host and no cluster.

```console
$ ansible-playbook playbooks/import.yml -e import_from=manifests/ -e fabric_file=inventories/prod/fabric.yml \\
    -e import_name=prod -e 'import_nodes=ai-[01:16]' -e import_mtu=4200
```

| variable | meaning |
|---|---|
| `import_from` | files or directories, separated by commas. Of a directory, everything that ends as manifests, pages and scripts do |
| `fabric_file` | the file to write. Without it the file is shown. A file that is there with other content is not overwritten |
| `import_force` | `true` overwrites it |
| `import_nodes` | the nodes, which manifests seldom name: names and ranges, or (as JSON) a mapping as the file's own `nodes` |
| `import_name`, `import_profile` | the fabric's name, the profile's name (`imported`, `server`) |
| `import_mtu` | what the switches carry, in bytes, where the manifests do not say it |

`--check --diff` writes nothing and shows what would be written. The task behind it is
`railyard.fabric.fabric_import` (`ansible-doc railyard.fabric.fabric_import`).

## What is read

Files may be YAML or JSON, with many documents each, or pages and shell scripts with manifests in fenced blocks, heredocs or
indented text; variables of the shell that are set just above are filled in, and dots that stand for what was left out are
taken as such.

| from | taken |
|---|---|
| SpiderIPPool, SpiderReservedIP | subnets, gateways, pod addresses, addresses that nobody may get, nodes that pools name |
| SpiderMultusConfig | attachment, netdev, resource, MTU, VF attributes, names |
| SpiderCoordinator, Helm values of Spiderpool | networks that no rail may overlap; shared devices |
| SriovNetworkNodePolicy, SriovNetwork, SriovIBNetwork | ports, VF counts, link type, MTU, VF attributes |
| k8s-rdma-shared-dev-plugin, SR-IOV device plugin (ConfigMap, `config.json`, NicClusterPolicy, NicNodePolicy) | which port has which resource |
| NetworkAttachmentDefinition (macvlan, ipvlan, sriov, ib-sriov, ipoib, host-device) | attachment, port, resource, addresses of whereabouts and host-local |
| MacvlanNetwork, HostDeviceNetwork, IPoIBNetwork, IPPool, CIDRPool | the same for NVIDIA's Network Operator |
| annotations and limits of pods | networks and resources that are asked for |
| `INTERFACE=... IPV4_IP=... IPV4_GATEWAY=... MTU=...` | the ports' own addresses, gateways and MTU |
| route tables on pages | subnets of rails that no pool gives |

## What is written

Rails in the order of the numbers in their objects' names, else of their ports. Names are kept, as templates under `names`,
where one template gives them all; so pods that ask for them go on working.

What is broken is mended where the intent is certain: `172.16.11.0/16` with a gateway and pods in 172.16.11.x is
172.16.11.0/24. Whatever was mended, concluded or not understood is a finding, with its file, its line, a remedy for the
manifests and what was written instead. In the file `CHECK` marks what was concluded, and `DECIDE` what no manifest says.
An **error** is to be decided by a person; a **warning** was mended or concluded. Lint the file next:
`ansible-playbook playbooks/validate.yml -e fabric_file=...`.

Not written, because the fabric file has no word for it: partition keys, bonds, VLANs on top of a port, parts of a port's VFs
(`pfNames: [ens1f0#0-7]`), routes of pools. A finding names each.
"""


def page() -> str:
    """The whole page."""
    parts = [HEAD]
    for prefix, family in FAMILIES.items():
        rules = [rule for code, rule in sorted(IMPORT_RULES.items()) if code.startswith(prefix)]
        table = "## %sxx: %s\n\n| code | severity | what is wrong |\n|---|---|---|" % (prefix, family)
        rows = (
            "\n| [%s](#%s) | %s | %s |" % (rule.code, rule.code.lower(), rule.severity, rule.title) for rule in rules
        )
        parts.append(table + "".join(rows) + "\n")
        parts.extend(_entry(rule) for rule in rules)
    return "\n".join(parts)


def _entry(rule: Rule) -> str:
    outcome = run([("example", rule.bad.encode("utf-8", "surrogateescape"))], Options())
    said = next(found for found in outcome.findings if found.finding.code == rule.code)
    return "### %s\n\n%s (%s). Found in:\n\n```\n%s```\n\n    %s\n\nNot in:\n\n```\n%s```\n" % (
        rule.code,
        rule.title,
        rule.severity,
        _shown(rule.bad),
        said.text(),
        _shown(rule.good),
    )


def _shown(text: str) -> str:
    return "".join(char if char.isprintable() or char == "\n" else "\\x%02x" % (ord(char) & 255) for char in text)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail when the page is not up to date")
    wanted = page()
    if parser.parse_args().check:
        if DOC.exists() and DOC.read_text(encoding="utf-8") == wanted:
            return 0
        print("docs/import.md is not up to date. Remedy: run tools/import_doc.py.", file=sys.stderr)
        return 1
    DOC.write_text(wanted, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
