# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""VF attributes as pyroute2 wants them, and its errors as ours."""

from __future__ import annotations

import errno
import sys
import typing as t

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.codec import NetlinkError
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.rtnetlink import Rtnetlink


class Recorder:
    """A fake of pyroute2's IPRoute."""

    def __init__(self, error: Exception | None = None) -> None:
        self.calls: list[tuple[str, str, dict[str, t.Any]]] = []
        self.error = error

    def __getattr__(self, name: str) -> t.Callable[..., None]:
        def call(command: str, **options: t.Any) -> None:
            self.calls.append((name, command, options))
            if self.error:
                raise self.error

        return call

    def close(self) -> None:
        pass


@pytest.mark.parametrize(
    ("given", "spec"),
    [
        ({"mac": "02:00:00:00:00:01"}, {"mac": "02:00:00:00:00:01"}),
        ({"trust": True, "spoofchk": False}, {"trust": 1, "spoofchk": 0}),
        ({"link_state": "disable"}, {"link_state": 2}),
        ({"vlan": 100, "qos": 3}, {"vlan": {"vlan": 100, "qos": 3}}),
        ({"max_tx_rate": 200}, {"rate": {"min_tx_rate": 0, "max_tx_rate": 200}}),
        ({"node_guid": "00:11:22:33:44:55:66:77"}, {"ib_node_guid": "00:11:22:33:44:55:66:77"}),
    ],
)
def test_vf_attributes_are_named_as_in_the_library(given: dict[str, t.Any], spec: dict[str, t.Any]) -> None:
    ip = Recorder()
    Rtnetlink(ip=ip).set_vf(6, 1, **given)
    assert ip.calls == [("link", "set", {"index": 6, "vf": dict(spec, vf=1)})]


def test_an_error_of_the_library_is_translated() -> None:
    from pyroute2.netlink.exceptions import NetlinkError as Theirs

    with pytest.raises(NetlinkError) as caught:
        Rtnetlink(ip=Recorder(Theirs(errno.EOPNOTSUPP, "Operation not supported"))).set_vf(6, 0, trust=True)
    assert caught.value.errno == errno.EOPNOTSUPP
    assert str(caught.value) == "rtnetlink link set: Operation not supported (%s)." % errno.errorcode[errno.EOPNOTSUPP]


def test_a_programming_error_is_not_an_error_of_the_kernel() -> None:
    with pytest.raises(KeyError):
        Rtnetlink(ip=Recorder(KeyError("vf"))).set_vf(6, 0, trust=True)


def test_a_missing_library_is_reported_with_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyroute2", None)
    with pytest.raises(RailyardError, match="pyroute2: .*cannot be imported") as caught:
        Rtnetlink().set_vf(1, 0, mac="02:00:00:00:00:01")
    assert "python3-pyroute2" in caught.value.remedy
