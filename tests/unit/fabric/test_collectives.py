# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Collective tests: outputs of real programs, floors from the plan, verdicts, commands."""

from __future__ import annotations

import string
import typing as t

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.base.collective_codes import (
    COLLECTIVE_CODES,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.base.verify_codes import CODES
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.collectives import (
    collective_command,
    collective_verdict,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.collectives.collective_output import parse
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.collectives.collective_verdict import (
    FAIL,
    PASS,
    UNKNOWN,
    Done,
    Judged,
    Planned,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.floors import collective_floors
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.floors.collective_floors import (
    ALL_REDUCE,
    ALLTOALL,
    Shape,
)
from tests.upstream import ROOT

CHARACTERS = string.printable + "\x00\u00e9"
RECORDED = ROOT / "tests/recordings/collectives"
TWO = Planned(["ai-1", "ai-2"], 8, 400.0, [None, None], False, {}, None)


def recorded(name: str) -> str:
    return (RECORDED / ("%s.txt" % name)).read_text()


H100 = recorded("all-reduce-h100-2-nodes")


def faster(times: float, text: str = H100) -> str:
    """Return an output with other bus bandwidths in the row of 8 GiB."""
    old = (
        "  8589934592    2147483648     float     sum      -1    81958  104.81  196.52      0    81960  104.81  196.51"
    )
    assert old in text
    return text.replace(
        old, old.replace("196.52", "%.2f" % (196.52 * times)).replace("196.51", "%.2f" % (196.51 * times))
    )


def judged(text: str, planned: Planned = TWO, operation: str = ALL_REDUCE, status: int | None = 0) -> Judged:
    found = collective_verdict.judge(Done(operation, status, text, 900), planned)
    assert (found.code is None) == (found.state == PASS)
    if found.code:
        assert found.cause and found.remedy and found.code in COLLECTIVE_CODES
        assert not any(line.endswith(".") for line in found.lines())
    return found


@pytest.mark.parametrize(
    ("name", "hosts", "rows", "busbw"),
    [
        ("all-reduce-h100-2-nodes", {"nccl-tests-h100-worker-0": 8, "nccl-tests-h100-worker-1": 8}, 5, 196.52),
        ("alltoall-rtx6000d-2-nodes", {"R6KD-CX8aaS-GPU-11": 8, "R6KD-CX8aaS-GPU-12": 8}, 6, 34.62),
        ("all-reduce-mi355x-1-node", {"GPU-6403": 8}, 2, 406.76),
        ("all-reduce-tagged", {}, 4, 3.12),
        ("all-reduce-several-writers", {}, 3, 5.33),
        ("all-reduce-internal-error", {"fengyun416": 2, "fengyun": 2}, 0, None),
        ("all-gather-wrong", {}, 1, 129.05),
    ],
)
def test_recorded_outputs_are_read(name: str, hosts: dict[str, int], rows: int, busbw: float | None) -> None:
    found = parse(recorded(name))
    assert found.hosts == hosts and len(found.rows) == rows and not found.damaged
    assert (found.rows[-1].busbw if found.rows else None) == busbw
    assert "NCCL failure" in found.error if "error" in name else not found.error


def test_wrong_values_fail_in_both_formats() -> None:
    old = judged(recorded("all-gather-wrong"), status=None)
    assert (old.state, old.code) == (FAIL, "RV872")
    text = faster(3.0).replace("196.51      0", "196.51     12").replace("589.53      0", "589.53     12")
    new = judged(text, status=1)
    assert (new.state, new.code, new.found) == (FAIL, "RV872", "12 wrong values with 8 GiB"), new


def test_the_same_bandwidth_is_good_or_bad_by_the_number_of_nodes() -> None:
    bad = judged(faster(385 / 196.52))
    assert (bad.state, bad.code, bad.expected, bad.found) == (FAIL, "RV873", "at least 439 GB/s", "385 GB/s")
    assert bad.share == pytest.approx(0.513, abs=0.001)
    eight = Shape(ALL_REDUCE, 8, 8, 400)
    assert collective_floors.floor(eight) < 385 < collective_floors.floor(eight._replace(nodes=2))
    good = judged(faster(487.87 / 196.52))
    assert (good.state, good.code) == (PASS, None) and good.lines() == [
        "all_reduce: pass, 488 GB/s with 8 GiB, 439 required"
    ]


def test_published_results_have_the_shares_of_the_documentation() -> None:
    shares = [round(100 * each.share) for each in collective_floors.PUBLISHED]
    assert shares == [65, 74, 86, 82, 84, 86]
    for each in collective_floors.PUBLISHED:
        shape = Shape(each.operation, each.nodes, each.gpus, each.nic, each.ring)
        assert each.busbw > collective_floors.floor(shape), each


def test_the_documentation_has_the_published_results_and_their_floors() -> None:
    rows = [line for line in (ROOT / "docs/collectives.md").read_text().splitlines() if line.startswith("| all")]
    for each in collective_floors.PUBLISHED:
        head = "| %s%s | %d |" % (each.operation, ", ring" * each.ring, each.nodes)
        (row,) = (line for line in rows if line.startswith(head))
        floor = collective_floors.floor(Shape(each.operation, each.nodes, 8, 400, each.ring))
        assert "%.0f" % each.busbw in row and "%.0f %%" % (100 * each.share) in row and "| %.0f |" % floor in row, row


@given(st.sampled_from(collective_floors.OPERATIONS), st.integers(2, 4096), st.integers(1, 16), st.booleans())
def test_no_floor_is_above_what_the_nics_carry(operation: str, nodes: int, gpus: int, ring: bool) -> None:
    shape = Shape(operation, nodes, gpus, 400.0, ring)
    floor = collective_floors.floor(shape)
    assert 0 < collective_floors.share(shape, floor) <= collective_floors.MARGIN
    assert collective_floors.floor(shape._replace(nic=800.0)) == pytest.approx(2 * floor)


def test_alltoall_is_judged_by_the_nic_of_one_gpu() -> None:
    text = recorded("alltoall-rtx6000d-2-nodes").replace("NVIDIA RTX 6000D", "NVIDIA H100 80GB HBM3")
    bad = judged(text, operation=ALLTOALL)
    assert (bad.code, bad.expected, bad.found) == ("RV873", "at least 71.2 GB/s", "34.6 GB/s"), bad
    half = judged(text, TWO._replace(nic=200.0), ALLTOALL)
    assert half.floor == pytest.approx(bad.floor / 2 if bad.floor else 0) and half.code == "RV873"


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"nic": None}, "the plan has no speed"),
        ({"domains": ["nvl1", "nvl1"]}, "NVLink connects several of the nodes"),
        ({"host_memory": True}, "processors limit"),
        ({"environment": {"NCCL_ALGO": "CollnetDirect"}}, "NCCL_ALGO=CollnetDirect"),
        ({"nic": 100.0}, "the plan does not contain it"),
    ],
)
def test_without_a_valid_floor_the_result_is_unknown(change: dict[str, t.Any], what: str) -> None:
    planned = TWO._replace(**change)
    found = judged(faster(487.87 / 196.52), planned)
    assert (found.state, found.code) == (UNKNOWN, "RV876") and what in found.cause
    # the user names what is expected
    assert judged(faster(487.87 / 196.52), planned._replace(floor=480.0)).state == PASS
    assert judged(faster(487.87 / 196.52), planned._replace(floor=490.0)).code == "RV873"


def test_other_gpus_and_algorithms_have_other_floors() -> None:
    text = faster(330 / 196.52)
    assert judged(text).code == "RV873"
    assert judged(text, TWO._replace(environment={"NCCL_ALGO": "Ring"})).state == PASS
    assert judged(text.replace("NVIDIA H100 80GB HBM3", "AMD Instinct MI300X")).state == PASS
    without = judged(text.replace("NVIDIA H100 80GB HBM3", "NVIDIA A100-PCIE-40GB"))
    assert without.code == "RV876" and "NVIDIA A100-PCIE-40GB" in without.cause
    domains = TWO._replace(domains=["nvl1", "nvl1"], environment={"NCCL_MNNVL_ENABLE": "0"})
    assert judged(text, domains).code == "RV873"
    assert judged(text, TWO._replace(domains=["nvl1", "nvl2"])).code == "RV873"


def test_the_algorithm_of_all_reduce_does_not_change_alltoall() -> None:
    text = recorded("alltoall-rtx6000d-2-nodes").replace("NVIDIA RTX 6000D", "NVIDIA H100 80GB HBM3")
    for algorithm in ("Ring", "CollnetDirect"):
        found = judged(text, TWO._replace(environment={"NCCL_ALGO": algorithm}), ALLTOALL)
        assert (found.code, found.expected) == ("RV873", "at least 71.2 GB/s")


def test_small_messages_and_unchecked_results_are_unknown() -> None:
    small = "\n".join(
        line for line in H100.splitlines() if not line.lstrip().startswith(("1073", "2147", "4294", "8589"))
    )
    found = judged(small)
    assert found.code == "RV876" and found.what == "the largest message has 512 MiB"
    unchecked = judged(faster(2.5).replace("validation: 1", "validation: 0"))
    assert unchecked.code == "RV876" and unchecked.remedy == "run it with -c 1"


def test_ranks_on_other_nodes_fail() -> None:
    one = judged(faster(2.5).replace("worker-1 device", "worker-0 device"))
    assert (one.code, one.expected) == ("RV875", "8 ranks on each of 2 nodes")
    assert one.found == "16 on nccl-tests-h100-worker-0"
    less = judged(faster(2.5), TWO._replace(gpus=4))
    assert less.code == "RV875" and less.found == "8 on nccl-tests-h100-worker-0, 8 on nccl-tests-h100-worker-1"
    assert judged(recorded("all-reduce-tagged"), TWO._replace(gpus=1)).what == "the output does not list the ranks"


@pytest.mark.parametrize(
    ("text", "status", "cause"),
    [
        ("env: 'mpirun': No such file or directory", 127, "the launcher or the program is missing"),
        (
            "srun: error: Unable to allocate resources: Requested node configuration is not available",
            1,
            "Slurm did not",
        ),
        ("srun: job 7 queued and waiting for resources", 124, "Slurm did not allocate the nodes"),
        ("root@ai-2: Permission denied (publickey).", 255, "a node is not reached"),
        ("ssh: connect to host ai-2 port 22: No route to host", 1, "a node is not reached"),
        ("all_reduce_perf: error while loading shared libraries: libnccl.so.2", 127, "a library of the program"),
        ("ModuleNotFoundError: No module named 'mpi4py'", 1, "mpi4py is missing"),
        ("There are not enough slots available in the system", 1, "the launcher counts fewer slots"),
        ("", 124, "nothing was printed within 900 s"),
        ("", 0, "the launcher or the program is missing"),
        ("the moon is full", 3, "the moon is full"),
    ],
)
def test_what_did_not_start_is_unknown(text: str, status: int, cause: str) -> None:
    found = judged(text, status=status)
    assert (found.state, found.code) == (UNKNOWN, "RV871") and found.cause.startswith(cause), found


def test_what_began_and_did_not_end_fails() -> None:
    begun = H100[: H100.index("  4294967296")]
    late = judged(begun, status=124)
    assert (late.state, late.code, late.what) == (FAIL, "RV874", "the collective test did not end within 900 s")
    broken = judged(recorded("all-reduce-internal-error"), TWO._replace(gpus=2), status=3)
    assert (broken.state, broken.code) == (FAIL, "RV874") and "internal error" in broken.cause
    assert judged(recorded("all-reduce-internal-error"), TWO._replace(gpus=2), status=None).code == "RV874"
    cut = judged(begun, status=None)
    assert (cut.state, cut.code, cut.what) == (UNKNOWN, "RV876", "the output is not complete")
    assert judged(faster(2.5), status=1).code == "RV874"


LINES = faster(2.5).splitlines()


@settings(max_examples=max(150, settings.default.max_examples))
@given(st.data())
def test_only_a_complete_output_passes(data: st.DataObject) -> None:
    """Without one of the lines that matter, or with a damaged one, the result is never a pass."""
    assert judged("\n".join(LINES)).state == PASS
    matter = [
        number
        for number, line in enumerate(LINES)
        if " Rank " in line or line.lstrip().startswith("8589934592") or "Avg" in line
    ]
    number = data.draw(st.sampled_from(matter))
    change = data.draw(st.sampled_from(["gone", "half", "noise"]))
    line = LINES[number]
    if change == "half":
        new = line[: data.draw(st.integers(1, 15))]
    else:
        new = (
            data.draw(st.text(CHARACTERS, max_size=60).filter(lambda text: "\n" not in text))
            if change == "noise"
            else ""
        )
    text = "\n".join([*LINES[:number], new, *LINES[number + 1 :]])
    if text != "\n".join(LINES):
        assert judged(text, status=data.draw(st.sampled_from([0, None]))).state != PASS, new


@given(st.text(CHARACTERS, max_size=400), st.sampled_from([0, 1, 124, 127, None]))
def test_any_text_gives_a_verdict(text: str, status: int | None) -> None:
    assert judged(text, status=status).state != PASS
    assert judged(H100 + text, status=status).state != PASS


def test_states_of_several_tests() -> None:
    good, bad, unknown = judged(faster(2.5)), judged(H100), judged("")
    state_of = collective_verdict.state_of
    assert [state_of(each) for each in ([good], [good, unknown], [good, unknown, bad], [])] == [
        PASS,
        UNKNOWN,
        FAIL,
        UNKNOWN,
    ]


def test_codes_are_unique() -> None:
    assert not set(COLLECTIVE_CODES) & set(CODES)
    names = [code.name for code in (*COLLECTIVE_CODES.values(), *CODES.values())]
    assert len(names) == len(set(names))


TEST = collective_command.Test(
    *(ALL_REDUCE, "mpirun", ["ai-1", "ai-2"], 8, "gpu", "/opt/all_reduce_perf", (1 << 30, 8 << 30), 20),
    *({"NCCL_ALGO": "Ring"}, ["--mca", "btl_tcp_if_include", "eth0"], 900),
)


def test_commands() -> None:
    words = " ".join(collective_command.argv(TEST))
    assert words == (
        "env OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 NCCL_ALGO=Ring timeout --kill-after=20 900 "
        "mpirun --host ai-1:8,ai-2:8 -np 16 --map-by ppr:8:node --bind-to none -x NCCL_ALGO "
        "--mca btl_tcp_if_include eth0 /opt/all_reduce_perf -b 1073741824 -e 8589934592 -f 2 -g 1 -n 20 -c 1"
    )
    words = " ".join(collective_command.argv(TEST._replace(launcher="srun", arguments=["--partition=gpu"])))
    assert words == (
        "env NCCL_ALGO=Ring timeout --kill-after=20 900 srun --job-name=railyard-collectives --nodes=2 "
        "--nodelist=ai-1,ai-2 "
        "--ntasks=16 --ntasks-per-node=8 --gpus-per-node=8 --exclusive --partition=gpu "
        "/opt/all_reduce_perf -b 1073741824 -e 8589934592 -f 2 -g 1 -n 20 -c 1"
    )
    host = collective_command.argv(TEST._replace(launcher="srun", memory="host", gpus=1, program="SOURCE"))
    assert host[-6:] == ["-c", "SOURCE", "all_reduce", "1073741824", "8589934592", "20"]
    assert not any("gpus" in word for word in host)
