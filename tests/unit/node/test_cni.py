# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node's CNI networks: files and plugins, in a tree of the test's own."""

from __future__ import annotations

import copy
import hashlib
import io
import json
import os
import tarfile
import typing as t
from pathlib import Path

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._common.changes import STEP, Change
from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._node.cni import cni_record, node_networks
from ansible_collections.railyard.fabric.plugins.module_utils._node.cni.node_networks import CniNetworks
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.subsystem import converge
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System

VERSIONS = ("0.4.0", "1.0.0")
NETS = "/etc/cni/multus/net.d"
FIRST, SECOND = (NETS + "/railyard-gpu%02d-macvlan.conflist" % number for number in (1, 2))


def network(number: int, **first: t.Any) -> dict[str, t.Any]:
    plugin = dict(
        {"type": "macvlan", "master": "rail%d" % number, "mtu": 4200, "ipam": {"type": "host-local"}}, **first
    )
    rail = {"type": "railyard-rail", "table": 100 + number, "priority": 10000 + number, "routes": []}
    return {"cniVersion": "1.0.0", "name": "gpu%02d-macvlan" % number, "plugins": [plugin, rail]}


class Tree:
    """A node with rail1 to rail8, and two real plugins: programs that answer as the CNI specification asks."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.system = System(str(root))
        for number in range(1, 9):
            self.put("/sys/class/net/rail%d/mtu" % number, "4200\n")
        for name in ("macvlan", "host-local"):
            self.plugin("/usr/lib/cni/" + name)

    def put(self, path: str, text: str, mode: int = 0o644) -> Path:
        full = Path(self.system.path(path))
        full.parent.mkdir(parents=True, exist_ok=True)
        full.write_text(text)
        full.chmod(mode)
        return full

    def plugin(self, path: str, versions: t.Sequence[str] = VERSIONS, mark: str = "") -> Path:
        message = json.dumps({"cniVersion": "1.0.0", "supportedVersions": list(versions)})
        return self.put(path, "#!/bin/sh\n# %s\n[ \"$CNI_COMMAND\" = VERSION ] && echo '%s'\n" % (mark, message), 0o755)

    def subsystem(self, *networks: dict[str, t.Any], **options: t.Any) -> CniNetworks:
        given = {"networks": list(networks), "source": ["/opt/none", "/usr/lib/cni"]}
        return CniNetworks(dict(given, **options), self.system)

    def apply(self, *networks: dict[str, t.Any], **options: t.Any) -> list[Change]:
        """What was done. What was foreseen is what is done, and a second run has nothing to do."""
        subsystem = self.subsystem(*networks, **options)
        state = subsystem.observe()
        foreseen = subsystem.changes(state)
        done: list[Change] = []
        converge(subsystem, state, foreseen, done)
        assert [each.as_dict() for each in done] == [each.as_dict() for each in foreseen]
        again = self.subsystem(*networks, **options)
        assert again.changes(again.observe()) == []
        return done

    def refused(self, *networks: dict[str, t.Any], **options: t.Any) -> list[str]:
        subsystem = self.subsystem(*networks, **options)
        before = self.files()
        with pytest.raises(RailyardError) as caught:
            subsystem.changes(subsystem.observe())
        assert self.files() == before
        return str(caught.value).splitlines()

    def files(self) -> list[str]:
        return sorted("/" + str(path.relative_to(self.root)) for path in self.root.rglob("*") if path.is_file())

    def kept(self) -> list[str]:
        return [name for name in self.files() if name.startswith(("/etc/", "/opt/", "/var/"))]


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


def test_networks_and_plugins_are_installed_once_and_removed(tree: Tree) -> None:
    tree.put("/etc/cni/multus/net.d/10-other.conf", '{"name": "storage", "type": "macvlan"}')
    done = tree.apply(network(1), network(2))
    assert [(each.subject, each.attribute) for each in done] == [
        ("/opt/cni/bin/host-local", "plugin"),
        ("/opt/cni/bin/macvlan", "plugin"),
        ("/opt/cni/bin/railyard-rail", "plugin"),
        ("/etc/cni/multus/net.d/railyard-gpu01-macvlan.conflist", "network"),
        ("/etc/cni/multus/net.d/railyard-gpu02-macvlan.conflist", "network"),
    ]
    path = tree.root / "etc/cni/multus/net.d/railyard-gpu01-macvlan.conflist"
    assert json.loads(path.read_text()) == network(1) and path.stat().st_mode & 0o777 == 0o644
    assert all(
        (tree.root / "opt/cni/bin" / name).stat().st_mode & 0o777 == 0o755
        for name in ("macvlan", "host-local", "railyard-rail")
    )
    state = tree.subsystem(network(1)).observe()
    assert (state["directory"], state["plugin_directory"]) == ("/etc/cni/multus/net.d", "/opt/cni/bin")
    assert state["networks"] == [network(1), network(2)]
    assert [(each["name"], each["ours"], each["versions"]) for each in state["plugins"][:2]] == [
        ("host-local", True, list(VERSIONS)),
        ("macvlan", True, list(VERSIONS)),
    ]
    # a rail that left the plan, and one that changed
    changed = network(1, mtu=1500)
    done = tree.apply(changed)
    assert [(each.before, each.after) for each in done] == [(network(1), changed), (network(2), None)]
    done = tree.apply(state="absent")
    assert len(done) == 5
    assert tree.kept() == ["/etc/cni/multus/net.d/10-other.conf"]


def test_an_installed_plugin_is_not_replaced(tree: Tree) -> None:
    theirs = tree.plugin("/opt/cni/bin/macvlan", mark="the runtime's package")
    text = theirs.read_text()
    tree.apply(network(1))
    assert theirs.read_text() == text
    # ours follow their source
    tree.plugin("/usr/lib/cni/host-local", mark="a later release")
    (change,) = tree.apply(network(1))
    assert change.subject == "/opt/cni/bin/host-local" and change.before != change.after
    assert "a later release" in (tree.root / "opt/cni/bin/host-local").read_text()
    # until another user has replaced it
    tree.plugin("/opt/cni/bin/host-local", mark="the runtime's package, at last")
    tree.plugin("/usr/lib/cni/host-local", mark="a release still later")
    assert tree.apply(network(1)) == []
    tree.apply(state="absent")
    assert tree.kept() == ["/opt/cni/bin/host-local", "/opt/cni/bin/macvlan"]


def test_every_obstacle_to_networks_is_reported_at_once(tree: Tree) -> None:
    tree.put("/etc/cni/multus/net.d/10-other.conf", '{"name": "gpu04-macvlan", "type": "macvlan"}')
    tree.put("/sys/class/net/rail2/mtu", "1500\n")
    tree.plugin("/opt/cni/bin/macvlan", ("0.4.0",))
    tree.put("/opt/cni/bin/tuning", "#!/bin/sh\nexit 3\n", 0o755)
    chain = network(5)
    chain["plugins"] += [{"type": "rdma"}, {"type": "sbr"}, {"type": "tuning"}]
    pci = {"type": "host-device", "pciBusID": "0000:99:00.0"}
    host_device = {"cniVersion": "1.0.0", "name": "gpu06-host-device", "plugins": [pci]}
    message = tree.refused(
        network(9), network(2), network(4), chain, host_device, network(1), network(1), {"cniVersion": "1.0.0"}
    )
    assert message == [
        "networks[0]: there is no netdev rail9. Remedy: run 'ip link', and rail_ports first.",
        "networks[1]: its MTU 4200 is larger than that of rail2, 1500. Remedy: run rail_ports first, which sets the"
        " plan's MTU on the port.",
        "networks[2]: network gpu04-macvlan is in /etc/cni/multus/net.d/10-other.conf too, and Multus uses the first"
        " that it finds. Remedy: remove that file, or rename the plan's networks.",
        "networks[4]: there is no PCI function 0000:99:00.0. Remedy: see 'lspci -D'.",
        "networks[6]: has the name of networks[5], gpu01-macvlan. Remedy: give each network another name.",
        "networks[7]: is not a CNI configuration: it requires name, and plugins with a type each. Remedy: use the"
        " networks of the plan.",
        "plugin host-device: is not in /opt/cni/bin, and not available in /opt/none, /usr/lib/cni. Remedy: install"
        " the CNI plugins, or set cni_sources (option source of the module) to a directory or archive with it.",
        "/opt/cni/bin/macvlan: supports the CNI specification 0.4.0, not 1.0.0. Remedy: install a newer plugin, or"
        " set an older `cni_version` in kubernetes_options.",
        "plugin rdma: is not in /opt/cni/bin, and not available in /opt/none, /usr/lib/cni. Remedy: install rdma-cni,"
        " which contains it, or set cni_sources (option source of the module) to a directory or archive with it.",
        "plugin sbr: is not in /opt/cni/bin, and not available in /opt/none, /usr/lib/cni. Remedy: install the CNI"
        " plugins, or set cni_sources (option source of the module) to a directory or archive with it.",
        "/opt/cni/bin/tuning: is not a working CNI plugin. Remedy: check that it is a program for this machine, %s."
        % os.uname().machine,
    ]


def test_the_port_of_the_connection_does_not_go_into_a_pod(tree: Tree) -> None:
    tree.plugin("/usr/lib/cni/host-device")
    tree.put(
        "/proc/net/route",
        "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\n"
        "rail1\t00000000\tFE0B10AC\t0003\t0\t0\t0\t00000000\n",
    )
    conf = {"cniVersion": "1.0.0", "name": "gpu01", "plugins": [{"type": "host-device", "device": "rail1"}]}
    (message,) = tree.refused(conf)
    assert "rail1 would be moved into a pod, but carries the default route" in message
    # an interface on top of it takes nothing from the node
    tree.apply(network(1))


def archive(path: Path, **programs: str) -> str:
    with tarfile.open(path, "w:gz") as stream:
        for name, text in {"README.md": "words", **programs}.items():
            member = tarfile.TarInfo("./" + name)
            member.size, member.mode = len(text), 0o644 if name.endswith(".md") else 0o755
            stream.addfile(member, io.BytesIO(text.encode()))
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_plugins_from_an_archive(tree: Tree) -> None:
    text = (tree.root / "usr/lib/cni/macvlan").read_text()
    path = tree.root / "var/cache/plugins.tgz"
    path.parent.mkdir(parents=True)
    digest = archive(path, **{"macvlan": text, "host-local": text, "bridge": text})
    options: dict[str, t.Any] = {"source": ["/var/cache/plugins.tgz"], "checksum": "sha256:" + digest}
    assert len(tree.apply(network(1), **options)) == 4
    assert sorted(os.listdir(tree.root / "opt/cni/bin")) == ["host-local", "macvlan", "railyard-rail"]
    # converged, it is not even opened
    data, stamp = path.read_bytes(), path.stat().st_mtime_ns
    path.write_bytes(bytes(len(data)))
    os.utime(path, ns=(stamp, stamp))
    assert tree.apply(network(1), **options) == []
    # a later release
    archive(path, **{"macvlan": text + "# later\n", "host-local": text})
    (message,) = tree.refused(network(1), **options)
    assert message.startswith("/var/cache/plugins.tgz: its SHA-256 is ") and digest in message
    assert len(tree.apply(network(1), source=options["source"])) == 2
    path.write_text("no archive")
    chain = network(1)
    chain["plugins"].append({"type": "sbr"})
    (message,) = tree.refused(chain, source=options["source"])
    assert message.startswith("/var/cache/plugins.tgz: is not a tar archive. ")


@pytest.mark.parametrize(
    ("files", "wanted"),
    [
        ({}, ("/etc/cni/multus/net.d", "/opt/cni/bin")),
        ({"/var/lib/rancher/k3s/data/cni/host-local": ""}, ("/etc/cni/multus/net.d", "/var/lib/rancher/k3s/data/cni")),
        (
            {"/var/lib/rancher/k3s/data/current/bin/cni": ""},
            ("/etc/cni/multus/net.d", "/var/lib/rancher/k3s/data/current/bin"),
        ),
        (
            {"/etc/cni/net.d/00-multus.conf": '{"type": "multus", "confDir": "/srv/net.d/", "binDir": "/srv/bin"}'},
            ("/srv/net.d", "/srv/bin"),
        ),
        (
            {"/etc/cni/net.d/00-multus.conflist": '{"plugins": [{"type": "multus", "binDir": "/srv/bin"}]}'},
            ("/etc/cni/multus/net.d", "/srv/bin"),
        ),
        ({"/etc/cni/net.d/00-multus.conf": "[cut"}, ("/etc/cni/multus/net.d", "/opt/cni/bin")),
    ],
)
def test_the_directories_are_those_of_the_cluster(tree: Tree, files: dict[str, str], wanted: tuple[str, str]) -> None:
    for path, text in files.items():
        tree.put(path, text)
    state = tree.subsystem().observe()
    assert (state["directory"], state["plugin_directory"]) == wanted
    given = tree.subsystem(directory="/a/b", plugin_directory="/c/d").observe()
    assert (given["directory"], given["plugin_directory"]) == ("/a/b", "/c/d")


@pytest.mark.parametrize("later", [False, True])
def test_a_plugin_of_an_interrupted_run_is_recognized(tree: Tree, monkeypatch: pytest.MonkeyPatch, later: bool) -> None:
    """It was taken for another's: never brought up to date, and left where all is taken away."""
    if later:
        tree.apply(network(1))
        tree.plugin("/usr/lib/cni/host-local", mark="a later release")
    written = Path(tree.system.path("/opt/cni/bin/host-local"))
    before = written.read_bytes() if later else b""
    write = tree.system.write_file

    def killed(path: str, data: str | bytes, mode: int = 0o644) -> None:
        if path == cni_record.RECORD and written.exists() and written.read_bytes() != before:
            raise KeyboardInterrupt
        write(path, data, mode)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(tree.system, "write_file", killed)
        tree.apply(network(1))
    assert written.exists()
    tree.apply(network(1))
    tree.plugin("/usr/lib/cni/host-local", mark="a release still later")
    assert [each.subject for each in tree.apply(network(1))] == ["/opt/cni/bin/host-local"]
    tree.apply(state="absent")
    assert tree.kept() == []


def test_plugins_in_a_former_directory_of_the_runtime_are_removed(tree: Tree) -> None:
    """K3s came after the hosts were prepared, and went before they were taken back."""
    tree.apply(network(1))
    k3s = Path(tree.system.path(node_networks.K3S_PLUGIN_DIRS[0]))
    k3s.mkdir(parents=True)
    tree.apply(network(1))
    assert len(list(k3s.iterdir())) == 3
    # plugins of the runtime itself, in the first one by now
    theirs = tree.plugin("/opt/cni/bin/macvlan", mark="the runtime's package")
    tree.apply(state="absent", plugin_directory="/opt/cni/bin")
    assert list(k3s.iterdir()) == [] and theirs.exists() and tree.kept() == ["/opt/cni/bin/macvlan"]


def test_a_truncated_archive_is_refused(tree: Tree) -> None:
    path = tree.root / "var/cache/plugins.tgz"
    path.parent.mkdir(parents=True)
    archive(path, **{name: os.urandom(99999).hex() for name in ("macvlan", "host-local")})
    path.write_bytes(path.read_bytes()[:60000])
    subsystem = tree.subsystem(network(1), source=["/var/cache/plugins.tgz"])
    with pytest.raises(RailyardError, match=r"plugins.tgz: is not a complete tar archive. Remedy: download the"):
        subsystem.changes(subsystem.observe())


def kinds(changes: t.Sequence[Change]) -> list[tuple[str, str]]:
    return [(each.subject, each.kind) for each in changes]


def recorded(tree: Tree) -> list[str]:
    return sorted(json.loads(tree.system.read(cni_record.RECORD) or "{}")["networks"])


def test_an_invalid_record_keeps_plugins_and_networks(tree: Tree) -> None:
    tree.apply(network(1))
    for text in ("", "[]", '{"plugins": 3}', '{"networks": ["%s", 3]}' % FIRST, '{"networks": "%s"}' % FIRST):
        tree.put(cni_record.RECORD, text)
        tree.plugin("/usr/lib/cni/macvlan", mark="later")
        (message,) = tree.refused(network(1, mtu=1500))
        assert message.startswith(FIRST + ": exists, and ")
        # its content is as planned: it is recorded once
        assert kinds(tree.apply(network(1))) == [(cni_record.RECORD, STEP)]
        assert recorded(tree) == [FIRST]
    tree.put(cni_record.RECORD, "[]")
    assert kinds(tree.apply(state="absent"))[-1] == (cni_record.RECORD, "file")
    assert FIRST in tree.files()


def test_a_network_file_without_json_is_written_again(tree: Tree) -> None:
    tree.apply(network(1), network(2))
    for path, text in ((FIRST, "{cut off"), (SECOND, "3")):
        tree.put(path, text)
    done = tree.apply(network(1))
    assert [(each.subject, each.before, each.after) for each in done] == [(FIRST, None, network(1)), (SECOND, {}, None)]
    assert node_networks.required_plugins([copy.deepcopy(network(1))]) == ["host-local", "macvlan", "railyard-rail"]


def test_files_of_users_are_never_touched(tree: Tree) -> None:
    """Names and content as those of own files do not matter. Only the record decides."""
    texts = {
        NETS + "/railyard-mine.conflist": json.dumps(dict(network(1), name="mine")),
        NETS + "/railyard-gpu03-macvlan.conflist": json.dumps(network(3), indent=2) + "\n",
        NETS + "/railyard-.conflist": "",
        NETS + "/railyard-list.conflist": "[]",
    }
    for path, text in texts.items():
        tree.put(path, text)
    link = Path(tree.system.path(NETS + "/railyard-link.conflist"))
    link.symlink_to("/nowhere")
    assert len(tree.apply(network(1), network(2))) == 5
    assert tree.subsystem(network(1)).observe()["networks"] == [network(1), network(2)]
    # a user's file at the path of a network that left the plan
    tree.apply(network(1))
    texts[SECOND] = tree.put(SECOND, json.dumps(network(2))).read_text()
    assert tree.apply(network(1)) == []
    tree.apply(state="absent")
    assert tree.apply(state="absent") == []
    assert {path: Path(tree.system.path(path)).read_text() for path in texts} == texts
    assert os.readlink(link) == "/nowhere" and tree.kept() == sorted(texts)


def test_a_network_of_the_same_name_in_a_file_of_a_user_is_refused(tree: Tree) -> None:
    tree.apply(network(2))
    tree.put(NETS + "/railyard-mine.conflist", json.dumps(network(1)))
    (message,) = tree.refused(network(1), network(2))
    assert message.startswith("networks[0]: network gpu01-macvlan is in %s/railyard-mine.conflist too" % NETS)


@pytest.mark.parametrize("other", ["other network", "same network", "no JSON", "link"])
def test_a_file_of_a_user_at_a_planned_path_is_refused(tree: Tree, other: str) -> None:
    path = Path(tree.system.path(FIRST))
    path.parent.mkdir(parents=True)
    if other == "link":
        # its target has the planned content, but is a file of the user
        path.symlink_to(tree.put("/root/mine", json.dumps(network(1), indent=2) + "\n"))
    else:
        text = json.dumps({"other network": {"name": "mine"}, "same network": network(1)}.get(other))
        path.write_text("{" if other == "no JSON" else text)
    assert tree.refused(network(1), network(2)) == [
        "%s: exists, and %s does not record that Railyard wrote it. Remedy: remove or rename that file, and run again."
        % (FIRST, cni_record.RECORD)
    ]
    assert [each for each in tree.kept() if each != FIRST] == []


def test_a_file_with_the_planned_content_is_adopted(tree: Tree) -> None:
    """Such as on a node whose record was removed."""
    for name in ("macvlan", "host-local"):
        tree.plugin("/opt/cni/bin/" + name)
    tree.apply(network(1), network(2))
    tree.system.remove_file(cni_record.RECORD)
    assert kinds(tree.apply(network(1), network(2))) == [(cni_record.RECORD, STEP)]
    assert kinds(tree.apply(network(1, mtu=1500))) == [(FIRST, "file"), (SECOND, "file")]
    tree.apply(state="absent")
    assert tree.kept() == ["/opt/cni/bin/host-local", "/opt/cni/bin/macvlan"]


@pytest.mark.parametrize("later", [False, True])
@pytest.mark.parametrize("then", ["again", "absent", "other plan"])
def test_a_network_of_an_interrupted_run_is_recognized(
    tree: Tree, monkeypatch: pytest.MonkeyPatch, later: bool, then: str
) -> None:
    if later:
        tree.apply(network(1))
    write = tree.system.write_file

    def killed(path: str, data: str | bytes, mode: int = 0o644) -> None:
        if path == FIRST:
            raise KeyboardInterrupt
        write(path, data, mode)

    changed = network(1, mtu=1500)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(tree.system, "write_file", killed)
        tree.apply(changed)
    assert recorded(tree) == [FIRST] and (FIRST in tree.files()) == later
    if then == "again":
        assert kinds(tree.apply(changed)) == [(FIRST, "file")]
    elif then == "other plan":
        tree.apply(network(2))
        # the row went with the network, so that a later file is a user's
        tree.put(FIRST, json.dumps(network(1)))
        assert recorded(tree) == [SECOND] and tree.apply(network(2)) == []
        tree.system.remove_file(FIRST)
    tree.apply(state="absent")
    assert tree.kept() == []


def test_an_interrupted_removal_is_completed(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    tree.apply(network(1), network(2))

    def killed(*_arguments: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(tree.system, "write_file", killed)
        tree.apply(network(1))
    assert SECOND not in tree.files() and recorded(tree) == [FIRST, SECOND]
    assert kinds(tree.apply(network(1))) == [(cni_record.RECORD, STEP)]
    assert recorded(tree) == [FIRST]


@pytest.mark.parametrize("edit", ["text", "link", "link to the same text", "dangling link"])
def test_an_edited_file_is_written_again_and_a_link_is_not_followed(tree: Tree, edit: str) -> None:
    tree.apply(network(1))
    path = Path(tree.system.path(FIRST))
    text = path.read_text()
    theirs = tree.put("/root/mine", text if "same" in edit else json.dumps(network(2)))
    before = theirs.read_text()
    path.unlink()
    if edit == "text":
        path.write_text(json.dumps(network(1, mtu=9000)))
    else:
        path.symlink_to(theirs if edit != "dangling link" else "/nowhere")
    assert kinds(tree.apply(network(1))) == [(FIRST, "file")]
    assert path.read_text() == text and not path.is_symlink() and theirs.read_text() == before


def test_networks_in_a_former_directory_of_multus_are_removed(tree: Tree) -> None:
    tree.apply(network(1))
    done = tree.apply(network(1), directory="/srv/net.d")
    assert kinds(done) == [("/srv/net.d/railyard-gpu01-macvlan.conflist", "file"), (FIRST, "file")]
    # another path of the same directory
    Path(tree.system.path("/srv/link")).symlink_to("net.d")
    assert tree.apply(network(1), directory="/srv/link/") == []
