# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The model of Spiderpool's webhooks gives the answers that Spiderpool 1.2.2 gave to the same objects."""

from __future__ import annotations

import copy
import typing as t

import pytest

from tests.standins import spiderpool
from tests.standins.spiderpool import Known, Object, Settings

API = "spiderpool.spidernet.io/v2beta1"
GROUP = "cni.spidernet.io/rdma-resource-inject"


def made(kind: str, name: str, spec: Object, **annotations: str) -> Object:
    metadata: Object = {"name": name}
    if kind == "SpiderMultusConfig":
        metadata["namespace"] = "kube-system"
    if annotations:
        metadata["annotations"] = {GROUP: annotations["group"]}
    return {"apiVersion": API, "kind": kind, "metadata": metadata, "spec": copy.deepcopy(spec)}


def pool(name: str = "ai-gpu01", **more: t.Any) -> Object:
    spec = {"ipVersion": 4, "subnet": "172.16.11.0/24", "ips": ["172.16.11.1-172.16.11.200"]}
    return made("SpiderIPPool", name, {**spec, **more})


def network(name: str = "gpu01-macvlan", group: str = "ai", **more: t.Any) -> Object:
    section = {"master": ["enp11s0f0np0"], "rdmaResourceName": "spidernet.io/gpu01", "ippools": {"ipv4": ["ai-gpu01"]}}
    spec = {"cniType": "macvlan", "macvlan": {**section, **more}}
    return made("SpiderMultusConfig", name, spec, **({"group": group} if group else {}))


def reserved(*ips: str, version: int = 4) -> Object:
    return made("SpiderReservedIP", "ai-gpu01-taken", {"ipVersion": version, "ips": list(ips)})


def denied(wanted: Object, *others: Object, settings: Settings = Settings()) -> str:  # noqa: B008
    """What a creation is refused with; empty where it is taken."""
    there = [spiderpool.mutate(each) for each in others]
    try:
        spiderpool.create(spiderpool.mutate(wanted), Known(pools=there), settings)
    except spiderpool.Denied as error:
        return str(error)
    return ""


def refused_update(old: Object, new: Object, *others: Object) -> str:
    there = [spiderpool.mutate(each) for each in others]
    try:
        spiderpool.update(spiderpool.mutate(old), spiderpool.mutate(new), Known(pools=there))
    except spiderpool.Denied as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    ("ips", "left"),
    [
        (("172.16.11.5-172.16.11.9", "172.16.11.1-172.16.11.4"), ["172.16.11.1-172.16.11.9"]),
        (("172.16.11.9", "172.16.11.1-172.16.11.4"), ["172.16.11.1-172.16.11.4", "172.16.11.9"]),
        (("172.16.11.9-172.16.11.9", "172.16.11.1"), ["172.16.11.1", "172.16.11.9"]),
        (("172.16.11.1-172.16.11.8", "172.16.11.2"), ["172.16.11.1-172.16.11.8"]),
        (("172.16.11.9-172.16.11.9",), ["172.16.11.9-172.16.11.9"]),
        (("fd00::00:9", "fd00::1-fd00::3"), ["fd00::1-fd00::3", "fd00::9"]),
        (("fd00::9", "172.16.11.1"), ["fd00::9", "172.16.11.1"]),
    ],
    ids=["unsorted", "single", "single range", "within", "one is left alone", "six", "of two families"],
)
def test_two_ranges_or_more_are_sorted_and_merged(ips: tuple[str, ...], left: list[str]) -> None:
    version = 6 if ":" in ips[0] else 4
    assert spiderpool.mutate(reserved(*ips, version=version))["spec"]["ips"] == left
    for key in ("ips", "excludeIPs"):
        wanted = pool(ipVersion=version, subnet="fd00::/64" if version == 6 else "172.16.11.0/24", **{key: list(ips)})
        assert spiderpool.mutate(wanted)["spec"][key] == left


def test_a_pool_gets_a_finalizer_its_family_and_its_subnet_as_a_label() -> None:
    wanted = pool(subnet="fd00:1::/64", ips=["fd00:1::1"])
    del wanted["spec"]["ipVersion"]
    changed = spiderpool.mutate(wanted)
    assert changed["metadata"]["finalizers"] == ["spiderpool.spidernet.io"]
    assert changed["metadata"]["labels"] == {"ipam.spidernet.io/ippool-cidr": "fd00-1---64"}
    assert changed["spec"]["ipVersion"] == 6
    assert spiderpool.mutate(changed) == changed


def test_a_pool_that_is_being_deleted_is_left_alone() -> None:
    wanted = pool()
    wanted["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert spiderpool.mutate(wanted) == wanted


def test_a_network_gets_defaults_and_its_group_as_a_label() -> None:
    changed = spiderpool.mutate(network())
    assert changed["metadata"]["labels"] == {GROUP: "ai"}
    assert changed["spec"]["macvlan"]["vlanID"] == 0
    assert changed["spec"]["macvlan"]["rdmaResourceName"] == "spidernet.io/gpu01"
    assert changed["spec"]["coordinator"]["mode"] == "auto"


def test_a_group_longer_than_a_label_is_refused() -> None:
    assert spiderpool.labels_refused(spiderpool.mutate(network(group="g" * 63))) is None
    answer = spiderpool.labels_refused(spiderpool.mutate(network(group="g" * 64)))
    assert answer and "metadata.labels" in answer and "63" in answer


@pytest.mark.parametrize(
    ("wanted", "others", "words"),
    [
        (pool(), [], ""),
        (pool(), [pool("other", ips=["172.16.11.201-172.16.11.210"])], ""),
        (
            pool(),
            [pool("other", ips=["172.16.11.200-172.16.11.210"])],
            "spec.ips: Forbidden: overlap with IPPool other",
        ),
        (pool(), [pool("other", subnet="172.16.0.0/16", ips=[])], "spec.subnet: Invalid value"),
        (pool(), [pool()], "already exists"),
        (pool(subnet="172.16.11.7/24"), [], "please change it to 172.16.11.0/24"),
        (pool(subnet="172.16.12.0/24"), [], "not match base subnet: 172.16.11.1"),
        (pool(ips=["172.16.11.1-172.16.11.9", "172.16.11.20"], excludeIPs=["172.16.11.3"]), [], ""),
        (pool(excludeIPs=["172.16.12.3"]), [], "not match base subnet"),
        (pool(gateway="172.16.11.254"), [], ""),
        (pool(gateway="172.16.12.254"), [], "spec.gateway: Invalid value"),
        (pool(gateway="172.16.11.7"), [], "conflicts with 'spec.gateway'"),
        (pool(gateway="172.16.11.7", excludeIPs=["172.16.11.7"]), [], ""),
        (pool(routes=[{"dst": "172.16.0.0/12", "gw": "172.16.11.254"}]), [], ""),
        (pool(routes=[{"dst": "0.0.0.0/0", "gw": "172.16.11.254"}]), [], "please specify 'spec.gateway'"),
        (pool(routes=[{"dst": "172.16.0.0/12", "gw": "172.17.1.1"}]), [], "spec.routes[0].gw"),
        (pool(routes=[{"dst": "10.0.0.0/8", "gw": "172.16.11.9"}] * 2), [], "duplicate route"),
        (pool(podAffinity={}), [], "empty podAffinity"),
        (pool(ipVersion=6), [], "invalid CIDR format in IPv6"),
        (pool(ipVersion=6, subnet="::ffff:10.1.0.0/112"), [], "invalid CIDR format in IPv6"),
        (pool(ipVersion=5), [], "Unsupported value: 5"),
        (reserved("172.16.11.9-172.16.11.1"), [], "invalid IP range format"),
        (reserved("172.16.11.1", "fd00::1"), [], "spec.ips[1]: Invalid value"),
        (network(), [], ""),
        (network(master=[]), [], "master can't be empty"),
        (network(master=["eth1", "eth2"]), [], "the bond property is nil"),
        (network(vlanID=4095), [], "invalid vlanId 4095"),
        (network(mtu=-1), [], "MTU must be"),
        (network(ippools={}), [], "no any ippools configured"),
        (network(rdmaResourceName=""), [], "rdmaResourceName can not empty"),
        (network(ippools={}, group=""), [], ""),
        (network(ippools={"ipv4": ["a"], "matchMasterSubnet": True}), [], "MatchMasterSubnet"),
    ],
)
def test_created_objects_are_checked_by_the_rules(wanted: Object, others: list[Object], words: str) -> None:
    answer = denied(wanted, *others)
    assert words in answer and bool(words) == bool(answer)


def test_a_family_that_is_disabled_is_refused() -> None:
    six = Settings.of({"ipam": {"enableIPv4": True, "enableIPv6": False}})
    assert "spec.ipVersion: Forbidden: IPv6 is disabled" in denied(reserved("fd00::1", version=6), settings=six)
    assert denied(reserved("172.16.11.1"), settings=six) == ""
    four = Settings.of({"ipam": {"enableIPv4": False, "enableIPv6": True}})
    assert "IPv4 is disabled" in denied(pool(), settings=four)


@pytest.mark.parametrize(
    ("new", "words"),
    [
        (pool(ips=["172.16.11.1-172.16.11.100"]), ""),
        (pool(subnet="172.16.21.0/24", ips=["172.16.21.1"]), "spec.subnet: Forbidden: is not changeable"),
        (pool(ipVersion=6), "spec.ipVersion: Forbidden: is not changeable"),
        (pool(ips=["172.16.11.1-172.16.11.250"]), "overlap with IPPool other in IP ranges [172.16.11.240]"),
    ],
)
def test_changed_objects_are_checked_against_the_previous_state(new: Object, words: str) -> None:
    answer = refused_update(pool(), new, pool("other", ips=["172.16.11.240"]))
    assert words in answer and bool(words) == bool(answer)


def test_an_address_of_a_pod_stays_in_its_pool() -> None:
    old = pool()
    old["status"] = {"allocatedIPs": '{"172.16.11.150": {"pod": "jobs/one", "podUid": "1"}}', "allocatedIPCount": 1}
    new = dict(pool(ips=["172.16.11.1-172.16.11.100"]), status=old["status"])
    assert "172.16.11.150 that is being used by Pod jobs/one" in refused_update(old, new)
    spiderpool.delete(old)
    with pytest.raises(spiderpool.Denied, match=r"cannot delete an IPPool with allocated IPs\(1\)"):
        spiderpool.delete(old, Settings(on_delete=True))
    old["metadata"].update(deletionTimestamp="2026-01-01T00:00:00Z", finalizers=["spiderpool.spidernet.io"])
    assert not spiderpool.ends(old)
    assert "cannot update a terminating IPPool" in refused_update(old, old)
    del old["status"]["allocatedIPs"]
    assert spiderpool.ends(old)
    free = copy.deepcopy(old)
    free["metadata"]["finalizers"] = []
    assert refused_update(old, free) == ""


def test_long_lists_end_the_controller() -> None:
    large = ("fd00:2::-fd00:2::ffff:ffff", "fd00:3::-fd00:3::ffff:ffff")
    spiderpool.mutate(reserved(large[0], version=6))
    with pytest.raises(spiderpool.Exhausted):
        spiderpool.mutate(reserved(*large, version=6))
    wide = pool(ipVersion=6, subnet="fd00::/64", ips=["fd00::1-fd00::ffff:ffff:ffff:fffe"])
    assert denied(wide) == ""
    with pytest.raises(spiderpool.Exhausted):
        refused_update(wide, wide)


def test_an_attachment_that_another_network_owns_is_refused() -> None:
    owned = {
        "metadata": {
            "name": "gpu01-macvlan",
            "namespace": "kube-system",
            "ownerReferences": [{"kind": "SpiderMultusConfig", "name": "another"}],
        }
    }
    with pytest.raises(spiderpool.Denied, match="managed by SpiderMultusConfig another"):
        spiderpool.create(spiderpool.mutate(network()), Known(attachments=[owned]))
    owned["metadata"]["ownerReferences"] = []
    spiderpool.create(spiderpool.mutate(network()), Known(attachments=[owned]))
