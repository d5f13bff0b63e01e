#!/usr/bin/env python3
# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write README.md, defaults and meta/main.yml of each role, and docs/variables.md, from the files argument_specs.yml.

With ``--check``, only report whether they are up to date.
"""

from __future__ import annotations

import sys
import typing as t
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tools import generated  # noqa: E402

ROLES = ROOT / "roles"
PLAYBOOKS = ROOT / "playbooks" / "meta" / "argument_specs.yml"
INDEX = ROOT / "docs" / "variables.md"
INDEX_HEAD = """\
# Variables

<!-- Written by tools/role_docs.py from playbooks/meta and roles/*/meta/argument_specs.yml. Change these and run it. -->

The variables of playbooks and roles, for `-e`, `group_vars` and `host_vars`. Most of what a role does follows from the
[fabric file](fabric-file.md), in the playbooks and in plays of your own.

Each run of a playbook checks the names and values of `-e`. A name that does not exist is an error if it begins like
one of these or is similar to one. If it is a variable of your own, add `-e railyard_unchecked_variables=NAME`, with
several names separated by commas. Names that your own playbook contains, `group_vars` and `host_vars` are not checked.
"""
# A row is shown once for at least so many roles.
SHARED = 4
SHARED_HEAD = """\
## Several roles

Each of these roles has the variable, with its own name in place of `ROLE`, such as `calico_kubeconfig`.

| variable | type | default | meaning | roles |
|---|---|---|---|---|"""
META = """\
---
galaxy_info:
  author: Railyard contributors
  description: %s
  license: GPL-3.0-or-later
  min_ansible_version: "2.17"
  platforms:
    - name: Debian
      versions: [all]
    - name: Ubuntu
      versions: [all]
    - name: EL
      versions: [all]
  galaxy_tags: [networking, rdma, kubernetes]
dependencies: []
"""


class Indented(yaml.SafeDumper):
    """Lists are indented below their key, as ansible-lint expects them."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)


def plain(text: str) -> str:
    """Return text with Ansible's markup as Markdown."""
    for mark in ("C(", "O(", "V(", "M("):
        parts = text.split(mark)
        text = parts[0] + "".join("`" + part.replace(")", "`", 1) for part in parts[1:])
    return text


def lines(value: str | list[str]) -> list[str]:
    return [value] if isinstance(value, str) else value


def row(option: str, about: dict[str, t.Any], *more: str) -> str:
    default = (
        "required" if about.get("required") else "`%s`" % yaml_value(about["default"]) if "default" in about else ""
    )
    meaning = plain(" ".join(lines(about["description"])))
    if about.get("choices"):
        meaning += " One of %s." % ", ".join("`%s`" % choice for choice in about["choices"])
    return "| %s |" % " | ".join(["`%s`" % option, *more, about["type"], default, meaning])


def rows(spec: dict[str, t.Any]) -> list[str]:
    """Return the table of a role's variables; empty without variables."""
    if not spec.get("options"):
        return []
    text = ["", "| variable | type | default | meaning |", "|---|---|---|---|"]
    return text + [row(option, about) for option, about in spec["options"].items()]


def rows_of_playbooks(specs: dict[str, dict[str, t.Any]]) -> list[str]:
    """Return the table of the variables of all playbooks."""
    playbooks: dict[str, list[str]] = {}
    options: dict[str, dict[str, t.Any]] = {}
    for name, spec in specs.items():
        for option, about in spec["options"].items():
            playbooks.setdefault(option, []).append(name)
            options[option] = about
    text = ["## Playbooks", "", "| variable | playbooks | type | default | meaning |", "|---|---|---|---|---|"]
    return [*text, *(row(name, options[name], ", ".join(playbooks[name])) for name in sorted(options)), ""]


def shared_rows(specs: dict[str, dict[str, t.Any]]) -> dict[str, list[str]]:
    """Return the rows of variables that several roles have with the same meaning: row with ROLE -> the roles."""
    found: dict[str, list[str]] = {}
    for name, spec in specs.items():
        for option, about in (spec.get("options") or {}).items():
            generic = row(option, about).replace("`%s_" % name, "`ROLE_")
            found.setdefault(generic, []).append(name)
    return {generic: roles for generic, roles in found.items() if len(roles) >= SHARED}


def readme(name: str, spec: dict[str, t.Any]) -> str:
    text = ["# railyard.fabric.%s" % name, "", spec["short_description"] + ".", ""]
    text += [plain(line) for line in lines(spec["description"])]
    return "\n".join([*text, *rows(spec), "", "License: GPL-3.0-or-later", ""])


def index(playbooks: dict[str, dict[str, t.Any]], specs: dict[str, dict[str, t.Any]]) -> str:
    shared = shared_rows(specs)
    text = [INDEX_HEAD, *rows_of_playbooks(playbooks), SHARED_HEAD]
    text += ["%s %s |" % (generic, ", ".join(roles)) for generic, roles in shared.items()] + [""]
    for name, spec in specs.items():
        own = [line for line in rows(spec) if line.replace("`%s_" % name, "`ROLE_") not in shared]
        text += ["## [%s](../roles/%s/README.md)" % (name, name), "", spec["short_description"] + ".", *own, ""]
    return "\n".join(text)


def yaml_value(value: t.Any) -> str:
    dumped = yaml.safe_dump(value, default_flow_style=True, width=1000).strip()
    return dumped[: -len("...")].strip() if dumped.endswith("...") else dumped


def defaults(spec: dict[str, t.Any]) -> str:
    text = ["---"]
    for option, about in (spec.get("options") or {}).items():
        if "default" in about:
            text += ["# " + line for line in lines(about["description"])]
            value = yaml.dump({option: about["default"]}, Dumper=Indented, width=1000, sort_keys=False)
            text.append(value.rstrip("\n"))
    return "\n".join(text) + "\n"


def texts() -> dict[Path, str]:
    specs = {}
    found: dict[Path, str] = {}
    for path in sorted(ROLES.glob("*/meta/argument_specs.yml")):
        role = path.parent.parent
        spec = specs[role.name] = yaml.safe_load(path.read_text())["argument_specs"]["main"]
        found[role / "README.md"] = readme(role.name, spec)
        found[role / "defaults/main.yml"] = defaults(spec)
        found[role / "meta/main.yml"] = META % spec["short_description"]
    playbooks = yaml.safe_load(PLAYBOOKS.read_text())["argument_specs"]
    return {**found, INDEX: index(playbooks, specs)}


if __name__ == "__main__":
    sys.exit(generated.main("tools/role_docs.py", __doc__, texts))
