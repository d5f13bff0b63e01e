# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A DRA driver's messages, ResourceSlices and devices.

The bytes were written down by hand from the field numbers of ``api.proto`` in
``kubernetes/staging/src/k8s.io/kubelet/pkg/apis/dra/v1`` and ``.../pluginregistration/v1``.
"""

from __future__ import annotations

import contextlib
import copy
import socket
import ssl
import threading
import time
import typing as t
from pathlib import Path

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent.agent_spec import parse_spec
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent.dra_front import slice_devices, status_report
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent.slot_state import ATTACHED, Holder
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.dra import (
    node_api,
    prepared_claims,
    slice_publisher,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.dra.node_api import ApiError, ApiServer
from ansible_collections.railyard.fabric.plugins.module_utils._node.dra.prepared_claims import (
    Claim,
    ClaimState,
    Offer,
    PreparedClaims,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.dra.resource_slices import (
    DOWN,
    Row,
    SliceDevice,
    specs,
    writes,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.dra.slice_publisher import PublishThread
from ansible_collections.railyard.fabric.plugins.module_utils._node.kubelet import dra_messages as messages
from ansible_collections.railyard.fabric.plugins.module_utils._node.kubelet.kubelet_messages import (
    DeviceState,
    WrongMessage,
)
from lab.cluster import pki
from tests.standins.dra_api import _wrong
from tests.unit.node.agent_files import document, rail, slot
from tests.waiting import wait_for

# -- messages


def test_plugin_info_is_encoded() -> None:
    info = messages.plugin_info("a.b", "/s")
    assert info == (
        b"\x0a\x09DRAPlugin"  # type = 1
        b"\x12\x03a.b"  # name = 2
        b"\x1a\x02/s"  # endpoint = 3
        b"\x22\x0cv1.DRAPlugin\x22\x11v1beta1.DRAPlugin"  # supported_versions = 4
        b"\x22\x14v1.DRAResourceHealth\x22\x1av1alpha1.DRAResourceHealth"
    )


def test_registration_status_is_decoded() -> None:
    assert messages.registration_status(b"\x08\x01") == (True, "")  # plugin_registered = 1
    assert messages.registration_status(b"\x12\x02no") == (False, "no")  # error = 2


def test_claims_are_decoded_and_wrong_messages_refused() -> None:
    # claims = 1: namespace = 1, uid = 2, name = 3
    assert messages.claims(b"\x0a\x0a\x0a\x02ns\x12\x01u\x1a\x01c") == [messages.ClaimReference("ns", "u", "c")]
    for wrong in (b"\x0a\x7f", b"\x0a\x04\x0a\x02ns", b"\x0a\x03\x0a\x01\xff"):
        with pytest.raises(WrongMessage):
            messages.claims(wrong)


def test_responses_are_encoded() -> None:
    device = messages.PreparedDevice(("r",), "n", "d", ("a/b=c",))
    assert messages.prepare_response({"u": [device], "v": "no"}) == (
        b"\x0a\x17\x0a\x01u\x12\x12"  # a map of claims = 1: key = 1, value = 2
        b"\x0a\x10\x0a\x01r\x12\x01n\x1a\x01d\x22\x05a/b=c"  # devices = 1: names, pool, device, cdi_device_ids = 1 to 4
        b"\x0a\x09\x0a\x01v\x12\x04\x12\x02no"  # error = 2
    )
    assert messages.unprepare_response({"u": "", "v": "no"}) == (
        b"\x0a\x05\x0a\x01u\x12\x00"  # an entry for each claim, also without an error
        b"\x0a\x09\x0a\x01v\x12\x04\x0a\x02no"  # error = 1
    )


# -- slices


def devices(count: int, resource: str = "gpu01", taint: str = "") -> list[SliceDevice]:
    return [SliceDevice("%s-%d" % (resource, number), resource, {"slot": number}, taint) for number in range(count)]


def stored(*made: Row) -> list[Row]:
    """As the API server keeps them."""
    return [dict(copy.deepcopy(each), metadata=dict(each["metadata"], resourceVersion="7")) for each in made]


def published(own: t.Sequence[SliceDevice], tainted: bool = True) -> list[Row]:
    return stored(*writes(specs("d.e", "n", own, tainted), [], None).created)


def test_a_resource_with_many_devices_has_several_slices() -> None:
    found = specs("d.e", "n", [*devices(130, taint=DOWN), *devices(1, "gpu02")])
    assert {name: len(spec["devices"]) for name, spec in found.items()} == {
        "n-d.e-gpu01": 64,
        "n-d.e-gpu01-1": 64,
        "n-d.e-gpu01-2": 2,
        "n-d.e-gpu02": 1,
    }
    assert {spec["pool"]["resourceSliceCount"] for spec in found.values()} == {4}


def test_no_slice_is_written_without_a_change() -> None:
    own = [*devices(3), *devices(2, "gpu02", taint=DOWN)]
    have = published(own)
    for device in have[1]["spec"]["devices"]:
        device["taints"][0]["timeAdded"] = "2026-11-23T00:00:00Z"
    assert writes(specs("d.e", "n", own), have, None) == ([], [], [])


@pytest.mark.parametrize(
    "changed",
    [
        [*devices(3), *devices(2, "gpu02", taint=DOWN)],
        [*devices(4), *devices(2, "gpu02")],
        devices(3),
        [*devices(3), *devices(2, "gpu02"), *devices(1, "gpu03")],
    ],
)
def test_a_change_gives_all_slices_a_new_generation(changed: list[SliceDevice]) -> None:
    have = published([*devices(3), *devices(2, "gpu02")])
    desired = specs("d.e", "n", changed)
    found = writes(desired, have, {"kind": "Node"})
    assert {each["spec"]["pool"]["generation"] for each in found.created + found.updated} == {2}
    assert {each["metadata"]["name"] for each in found.created + found.updated} == set(desired)
    assert all(each["metadata"]["resourceVersion"] == "7" for each in found.updated)
    assert found.deleted == sorted({each["metadata"]["name"] for each in have} - set(desired))
    for each in found.created:
        assert not list(_wrong(dict(each, spec=dict(each["spec"], nodeName="node-1")), None))


def test_an_interrupted_write_is_completed() -> None:
    have = published([*devices(3), *devices(2, "gpu02")])
    have[0]["spec"]["pool"]["generation"] = 2
    found = writes(specs("d.e", "n", [*devices(3), *devices(2, "gpu02")]), have, None)
    assert [each["spec"]["pool"]["generation"] for each in found.updated] == [3, 3]


def test_without_taints_unhealthy_devices_are_omitted() -> None:
    found = specs("d.e", "n", [*devices(1), *devices(1, "gpu02", taint=DOWN)], tainted=False)
    assert {name: len(spec["devices"]) for name, spec in found.items()} == {"n-d.e-gpu01": 1, "n-d.e-gpu02": 0}


# -- attributes


def test_attributes_of_a_device(tmp_path: Path) -> None:
    bus = tmp_path / "sys/bus/pci/devices"
    bus.mkdir(parents=True)
    for pci, below in (("0000:1a:00.0", ""), ("0000:1a:00.3", "")):
        real = tmp_path / "sys/devices/pci0000:15/0000:15:01.0" / below / pci
        real.mkdir(parents=True)
        (real / "numa_node").write_text("1\n")
        (bus / pci).symlink_to(real)
    (bus / "0000:1a:00.0" / "virtfn1").symlink_to("../0000:1a:00.3")
    row = rail(1, pci="0000:1a:00.0", rdma="mlx5_0", plane=2, leaf="leaf-a1", speed=400)
    row["slots"] = [slot(1, 0, "rails", vf=0), slot(1, 1, "gpu01", vf=1)]

    def attributes(**values: t.Any) -> dict[str, t.Any]:
        spec = parse_spec(document(row, **values))
        states = {name: DeviceState(name, True, ()) for name in ("rails-0", "gpu01-1")}
        return {each.name: each.attributes for each in slice_devices(System(str(tmp_path)), spec, states)}

    shared = {
        "resource": "gpu01",
        "rails": 1,
        "rail": "gpu01",
        "plane": 2,
        "leaf": "leaf-a1",
        "speed": 400,
        "slot": 1,
        "interface": "net1",
        "mac": "02:00:00:00:01:01",
        "address": "172.16.11.2/24",
        "address6": "fd00:11::2/64",
        "numaNode": 1,
        "resource.kubernetes.io/pcieRoot": "pci0000:15",
    }
    port = {"rdmaDevice": "mlx5_0", "resource.kubernetes.io/pciBusID": "0000:1a:00.0"}
    assert attributes()["gpu01-1"] == {**shared, **port}
    assert attributes(attachment="sriov")["gpu01-1"] == {**shared, "resource.kubernetes.io/pciBusID": "0000:1a:00.3"}


@pytest.mark.parametrize(("attachment", "known"), [("macvlan", True), ("host-device", False)])
def test_a_port_that_is_known_by_its_netdev(tmp_path: Path, attachment: str, known: bool) -> None:
    """One that moves to a pod is not looked up by its netdev: its device would change with each pod."""
    place = tmp_path / "sys/class/net/rail1"
    place.mkdir(parents=True)
    (place / "device").symlink_to("../../../devices/pci0000:15/0000:1a:00.0")
    row = rail(1, slots=[slot(1, 0, "gpu01", mac=None)])
    spec = parse_spec(document(row, attachment=attachment))
    (device,) = slice_devices(System(str(tmp_path)), spec, {"gpu01-0": DeviceState("gpu01-0", True, ())})
    assert ("resource.kubernetes.io/pciBusID" in device.attributes) == known


def test_an_attribute_that_is_too_long_is_omitted() -> None:
    device = SliceDevice("a-0", "a", {"leaf": "x" * 65, "rail": "x" * 64, "speed": 400, "up": True})
    ((_name, spec),) = specs("d.e", "n", [device]).items()
    assert spec["devices"][0]["attributes"] == {
        "rail": {"string": "x" * 64},
        "speed": {"int": 400},
        "up": {"bool": True},
    }


def test_the_status_of_a_claim_with_several_interfaces() -> None:
    rows = tuple(
        {"rail": name, "interface": net, "address": "10.0.0.1/24", "address6": None, "mac": "02:00:00:00:00:01"}
        for name, net in (("gpu01", "net1"), ("gpu02", "net2"))
    )
    holder = Holder("rails-0", "uid", "p", "ns", "main", "sandbox", 2, 1, ATTACHED, 0.0, rows)
    claim = Claim("u", "ns", "c", "uid", "p", ({"device": "rails-0", "request": "r"},))
    report = status_report(claim, [holder], "d.e", "n")
    assert report["metadata"] == {"name": "c", "namespace": "ns", "uid": "u"}
    (device,) = report["status"]["devices"]
    assert (device["driver"], device["pool"], device["device"]) == ("d.e", "n", "rails-0")
    assert [each["rail"] for each in device["data"]["interfaces"]] == ["gpu01", "gpu02"]
    assert "conditions" not in device


def test_the_status_of_a_claim_has_the_conflicts_of_its_addresses() -> None:
    row = {"rail": "gpu01", "interface": "net1", "address": "10.0.0.1/24", "address6": None, "mac": "02:00:00:00:00:01"}
    holder = Holder("gpu01-0", "uid", "p", "ns", "main", "sandbox", 2, 1, ATTACHED, 0.0, (row,))
    claim = Claim("u", "ns", "c", "uid", "p", ({"device": "gpu01-0", "request": "r"},))
    conflicts = [
        {"device": "gpu01-0", "since": 86400.5, "error": "in use"},
        {"device": "gpu01-0", "since": 90000.0, "error": "in use too"},
        {"device": "gpu01-1", "since": 1.0, "error": "of another"},
    ]
    (device,) = status_report(claim, [holder], "d.e", "n", conflicts)["status"]["devices"]
    assert device["conditions"] == [
        {
            "type": "AddressConflict",
            "status": "True",
            "reason": "AddressInUse",
            "message": "in use\nin use too",
            "lastTransitionTime": "1970-01-02T00:00:00Z",
        }
    ]


# -- claims


class DeadApi(ApiServer):
    """An API server that does not answer."""

    requests = 0

    def __init__(self) -> None:
        super().__init__(System())

    def request(self, *_arguments: t.Any, **_options: t.Any) -> t.NoReturn:
        self.requests += 1
        raise ApiError("the API server does not answer", "https://api", "start it")


OFFER = Offer("d.e", "n", {"a-0": ("d.e/a=a-0", ("a",))})


def prepared(
    root: Path,
    api: ApiServer,
    offer: Offer = OFFER,
    release: t.Callable[[Claim], None] = lambda _claim: None,
    log: t.Callable[[str], None] = lambda _text: None,
    **options: t.Any,
) -> PreparedClaims:
    """The claims of a node without holders."""
    state = ClaimState(System(str(root)))
    return PreparedClaims(state, lambda: api, lambda: offer, lambda *_: None, release, log, **options)


def test_a_claim_is_refused_when_the_budget_is_used_up(tmp_path: Path) -> None:
    api = DeadApi()
    logged: list[str] = []
    found = prepared(tmp_path, api, log=logged.append, budget=1.5).prepare([messages.ClaimReference("ns", "u", "c")])
    assert "does not answer. Remedy: start it" in str(found["u"])
    assert api.requests == 2 and len(logged) == 1


def test_a_device_that_was_removed_from_the_node_file_is_refused(tmp_path: Path) -> None:
    system = System(str(tmp_path))
    ClaimState(system).put(Claim("u", "ns", "c", "uid", "p", ({"device": "a-0", "request": ""},)))
    claims = prepared(tmp_path, DeadApi(), OFFER._replace(devices={}))
    reference = messages.ClaimReference("ns", "u", "c")
    assert "this node does not have device a-0 any more" in str(claims.prepare([reference])["u"])
    # what the next agent reads
    assert list(ClaimState(system).claims()) == ["u"]
    assert claims.unprepare([reference]) == {"u": ""}
    assert ClaimState(system).claims() == {}


def test_a_release_that_fails_keeps_the_record(tmp_path: Path) -> None:
    state = ClaimState(System(str(tmp_path)))
    state.put(Claim("u", "ns", "c", "uid", "p", ({"device": "a-0", "request": ""},)))

    def fail(_claim: Claim) -> None:
        raise RailyardError("the kernel refuses it", "device a-0", "see dmesg")

    claims = prepared(tmp_path, DeadApi(), release=fail)
    assert "the kernel refuses it" in claims.unprepare([messages.ClaimReference("ns", "u", "c")])["u"]
    assert list(state.claims()) == ["u"]


class Answers(ApiServer):
    """An API server with these answers: an error, or a document; by the end of a request's path."""

    def __init__(self, **answers: t.Any) -> None:
        super().__init__(System())
        self.answers = answers

    def request(self, _method: str, path: str, *_arguments: t.Any, **_options: t.Any) -> t.Any:
        answer = self.answers["pods" if "/pods?" in path else path.rpartition("/")[2]]
        if isinstance(answer, Exception):
            raise answer
        return answer


def allocated(uid: str, pod: str) -> Row:
    return {
        "metadata": {"uid": uid},
        "status": {
            "reservedFor": [{"resource": "pods", "name": pod, "uid": "uid-of-" + pod}],
            "allocation": {"devices": {"results": [{"driver": "d.e", "pool": "n", "device": "a-0", "request": "r"}]}},
        },
    }


FORBIDDEN = ApiError("no relationship found", "GET", "", 403)


@pytest.mark.parametrize(
    ("old", "pods", "ended"),
    [
        (ApiError("not found", "GET", "", 404), None, True),
        (ApiError("the server could not find the requested resource", "GET", "", 404, absent=False), None, False),
        (ApiError("busy", "GET", "", 503), None, False),
        (ApiError("does not answer", "https://api", ""), None, False),
        (FORBIDDEN, {"kind": "PodList", "items": []}, True),
        (FORBIDDEN, {"kind": "PodList", "items": [{"metadata": {"uid": "another"}}]}, True),
        (FORBIDDEN, {"kind": "PodList", "items": [{"metadata": {"uid": "uid-of-a"}}]}, False),
        (FORBIDDEN, {"kind": "Status"}, False),
        (FORBIDDEN, FORBIDDEN, False),
        (allocated("u1", "a"), None, False),
        (allocated("another", "a"), None, True),
        (allocated("u1", "b"), None, True),
        ({"metadata": {"uid": "u1"}, "status": {}}, None, True),
        ({"message": "a page of a proxy"}, None, False),
    ],
)
@pytest.mark.parametrize("attached", [False, True])
def test_a_claim_ends_only_if_the_api_server_reports_it(
    tmp_path: Path, old: t.Any, pods: t.Any, ended: bool, attached: bool
) -> None:
    state = ClaimState(System(str(tmp_path)))
    rows = ({"device": "a-0", "request": ""},)
    state.put(Claim("u1", "ns", "old", "uid-of-a", "a", rows, "d.e", "n"))
    api = Answers(old=old, pods=pods, new=allocated("u2", "b"))
    claims = prepared(tmp_path, api, attached=lambda _claim: attached, budget=0.5)
    found = claims.prepare([messages.ClaimReference("ns", "u2", "new")])["u2"]
    if ended and not attached:
        assert not isinstance(found, str) and list(ClaimState(System(str(tmp_path))).claims()) == ["u2"]
    else:
        assert "it is prepared for claim ns/old of pod ns/a" in str(found)
        assert list(ClaimState(System(str(tmp_path))).claims()) == ["u1"] and claims.errors == {"u2": found}


def test_an_error_is_shown_only_while_kubelet_repeats_the_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    claims = prepared(tmp_path, Answers(new=ApiError("not found", "GET", "", 404)))
    claims.prepare([messages.ClaimReference("ns", "u2", "new")])
    assert list(claims.errors) == ["u2"]
    later = prepared_claims.time.monotonic() + prepared_claims.ERROR_SECONDS + 1
    monkeypatch.setattr(prepared_claims.time, "monotonic", lambda: later)
    assert claims.errors == {}


@pytest.mark.parametrize(
    "answer",
    [
        {"metadata": [], "status": {}},
        {"metadata": {"uid": "u2"}, "status": {"allocation": [1], "reservedFor": "x"}},
        {"metadata": {"uid": "u2"}, "status": {"allocation": {"devices": {"results": [7, {"driver": "d.e"}]}}}},
        dict(allocated("u2", "b"), status=dict(allocated("u2", "b")["status"], reservedFor=[[1], {"resource": {}}])),
    ],
)
def test_a_wrong_document_is_a_refusal(tmp_path: Path, answer: t.Any) -> None:
    claims = prepared(tmp_path, Answers(new=answer))
    assert "Remedy: " in str(claims.prepare([messages.ClaimReference("ns", "u2", "new")])["u2"])


def test_the_number_of_claims_in_a_call_and_their_names_are_limited() -> None:
    claim = b"\x0a\x0a\x0a\x02ns\x12\x01u\x1a\x01c"
    assert len(messages.claims(claim * messages.CLAIMS_MAX)) == messages.CLAIMS_MAX
    with pytest.raises(WrongMessage, match="257 claims, and the limit is 256"):
        messages.claims(claim * (messages.CLAIMS_MAX + 1))
    long = b"\x12\x01u\x1a\x01c\x0a\xfe\x01" + b"n" * 254
    with pytest.raises(WrongMessage, match="more than 253 characters"):
        messages.claims(b"\x0a" + bytes([len(long) & 127 | 128, len(long) >> 7]) + long)


# -- requests


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of an API server's certificates."""
    directory = tmp_path_factory.mktemp("authority")
    pki.ensure(directory / "pki", directory / "log", ["node-1"])
    return directory


@pytest.fixture
def serve(authority: Path) -> t.Iterator[t.Callable[[t.Iterable[bytes]], ApiServer]]:
    """An API server that sends these bytes to each client."""
    stack = contextlib.ExitStack()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority / "pki/server.crt", authority / "pki/server.key")

    def tls(plain: socket.socket) -> ssl.SSLSocket:
        return context.wrap_socket(plain, server_side=True)

    def start(parts: t.Iterable[bytes]) -> ApiServer:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))

        def answer() -> None:
            with contextlib.suppress(OSError), listener.accept()[0] as plain, tls(plain) as client:
                client.recv(65536)
                for part in parts:
                    client.sendall(part)

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        text = "server: https://127.0.0.1:%d\ncertificate-authority: pki/ca.crt" % listener.getsockname()[1]
        (authority / "kubeconfig").write_text(text)
        return ApiServer(System(str(authority)), "/kubeconfig")

    yield start
    stack.close()


HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n"


def drops(*first: bytes) -> t.Iterator[bytes]:
    """A server that sends byte by byte without an end, so that no single read is late."""
    yield from first
    while True:
        time.sleep(0.05)
        yield b"x"


@pytest.mark.parametrize("parts", [(), (b"HTTP/1.1 200 OK\r\nA: ",), (HEAD,)], ids=["status", "header", "body"])
def test_a_request_ends_although_the_server_sends_byte_by_byte(
    serve: t.Callable[[t.Iterable[bytes]], ApiServer], parts: tuple[bytes, ...]
) -> None:
    with pytest.raises(ApiError, match="does not answer within 1 seconds"):
        serve(drops(*parts)).request("GET", "/a", seconds=0.5)


def test_a_long_answer_is_not_read_to_its_end(
    serve: t.Callable[[t.Iterable[bytes]], ApiServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_api, "ANSWER_MAX", 1000)
    with pytest.raises(ApiError, match="more than 1000 bytes"):
        serve([HEAD, b" " * 2000]).request("GET", "/a")


@pytest.mark.parametrize(
    ("details", "absent"), [('{"name": "c", "kind": "resourceclaims"}', True), ("{}", False), ("null", False)]
)
def test_an_object_is_absent_only_if_the_server_knows_its_kind(
    serve: t.Callable[[t.Iterable[bytes]], ApiServer], details: str, absent: bool
) -> None:
    body = b'{"kind": "Status", "code": 404, "details": %s}' % details.encode()
    with pytest.raises(ApiError) as caught:
        serve([b"HTTP/1.1 404 Not Found\r\nContent-Length: %d\r\n\r\n" % len(body), body]).request("GET", "/a")
    assert (caught.value.status, caught.value.absent) == (404, absent)


@pytest.mark.parametrize(
    "text",
    [
        "server: http://api",
        "server: https://[::1",
        "server: https://api:port",
        "server: https://api\ncertificate-authority-data: '?=?'",
        "server: https://api\ncertificate-authority-data: AAAA",
        "server: https://api\ntokenFile: token",
        "server: https://api\nclient-certificate: none\nclient-key: none",
        "",
    ],
)
def test_a_kubeconfig_that_cannot_be_used_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "kubeconfig").write_text(text)
    (tmp_path / "token").write_bytes(b"secret\xff\nX-Header: a")
    api = ApiServer(System(str(tmp_path)), "/kubeconfig")
    for act in (api.check, lambda: api.request("GET", "/a", seconds=0.1)):
        with pytest.raises(RailyardError, match="Remedy: ") as caught:
            act()
        assert "secret" not in str(caught.value)


class Publisher:
    """A publisher that fails as often as it is asked to, and counts its calls."""

    def __init__(self, failures: int) -> None:
        self.failures = failures
        self.calls = 0

    def publish(self, _devices: t.Sequence[SliceDevice]) -> int:
        self.calls += 1
        if self.calls <= self.failures:
            raise RailyardError("does not answer", "https://api", "start it")
        return 0


@pytest.mark.parametrize("failures", [0, 1])
def test_slices_are_compared_often_while_kubelet_may_delete_them(
    monkeypatch: pytest.MonkeyPatch, failures: int
) -> None:
    """After a registration, and again after the API server did not answer, as kubelet then deletes them late."""
    monkeypatch.setattr(slice_publisher, "SOON", 0.01)
    monkeypatch.setattr(slice_publisher, "RETRY", 0.01)
    monkeypatch.setattr(slice_publisher, "UNSTABLE_SECONDS", 0 if failures else 1e6)
    publisher = Publisher(failures)
    thread = PublishThread(publisher, lambda _text: None)  # type: ignore[arg-type]
    try:
        thread.registered()
        # for the failure: the time after the registration is over
        monkeypatch.setattr(slice_publisher, "UNSTABLE_SECONDS", 1e6)
        thread.update(devices(1))
        wait_for(lambda: publisher.calls >= failures + 3)
        assert thread.error is None
    finally:
        thread.close()
