#!/usr/bin/env python3
# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""tools/sbom.py ARCHIVE OUT: write the SBOM of a collection's archive as CycloneDX 1.6 JSON, and validate it.

It has the files of the archive by name and SHA-256, from FILES.json, and the requirements with their version ranges.
The archive does not contain software of others.
"""

from __future__ import annotations

import json
import re
import sys
import tarfile
import typing as t
import uuid
from pathlib import Path

import yaml
from cyclonedx.model import HashAlgorithm, HashType, Property
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentScope, ComponentType
from cyclonedx.model.contact import OrganizationalContact
from cyclonedx.model.license import DisjunctiveLicense
from cyclonedx.output.json import JsonV1Dot6
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packageurl import PackageURL

# The requirements of nodes, from their distribution. Those of the control node are in meta/.
_ON_NODES = ("pyroute2",)


def _text(tar: tarfile.TarFile, name: str) -> str:
    file = tar.extractfile(name)
    assert file is not None, name
    return file.read().decode()


def _package(requirement: str, scope: ComponentScope, where: str) -> Component:
    match = re.match(r"\s*([A-Za-z0-9._-]+)\s*(.*)", requirement)
    assert match, requirement
    return Component(
        name=match[1],
        type=ComponentType.LIBRARY,
        scope=scope,
        bom_ref="pypi:%s" % match[1],
        purl=PackageURL("pypi", None, match[1].lower()),
        properties=[
            Property(name="railyard:version-range", value=match[2].strip() or "any"),
            Property(name="railyard:where", value=where),
        ],
    )


def bom(archive: Path) -> Bom:
    with tarfile.open(archive) as tar:
        about = json.loads(_text(tar, "MANIFEST.json"))["collection_info"]
        files = json.loads(_text(tar, "FILES.json"))["files"]
        runtime = yaml.safe_load(_text(tar, "meta/runtime.yml"))
        packages = _text(tar, "meta/ee-requirements.txt").splitlines()
    name = "%s.%s" % (about["namespace"], about["name"])
    made = Bom(serial_number=uuid.uuid5(uuid.NAMESPACE_URL, "%s/%s" % (name, about["version"])))
    made.metadata.component = Component(
        name=name,
        version=about["version"],
        type=ComponentType.APPLICATION,
        bom_ref=name,
        description=about["description"],
        licenses=[DisjunctiveLicense(id=each) for each in about["license"]],
        authors=[OrganizationalContact(name=each) for each in about["authors"]],
        purl=PackageURL("generic", None, name, about["version"]),
    )
    needed = [_package("ansible-core %s" % runtime["requires_ansible"], ComponentScope.REQUIRED, "control node")]
    needed += [
        _package(line, ComponentScope.OPTIONAL, "control node")
        for line in packages
        if line.strip() and not line.startswith("#")
    ]
    needed += [_package(each, ComponentScope.OPTIONAL, "nodes") for each in _ON_NODES]
    for each in needed:
        made.components.add(each)
    for entry in files:
        if entry["ftype"] == "file":
            made.components.add(
                Component(
                    name=entry["name"],
                    type=ComponentType.FILE,
                    bom_ref="file:%s" % entry["name"],
                    hashes=[HashType(alg=HashAlgorithm.SHA_256, content=entry["chksum_sha256"])],
                )
            )
    made.register_dependency(made.metadata.component, needed)
    return made


def main(arguments: t.Sequence[str]) -> int:
    archive, out = map(Path, arguments)
    made = bom(archive)
    text = JsonV1Dot6(made).output_as_string(indent=1)
    wrong = JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
    if wrong:
        print("sbom: %s" % wrong, file=sys.stderr)
        return 1
    out.write_text(text + "\n")
    print("%d components, valid CycloneDX 1.6" % len(made.components))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
