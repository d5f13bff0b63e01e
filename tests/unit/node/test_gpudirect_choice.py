# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The choice between DMA-BUF and nvidia-peermem, over every combination of what it is made from."""

from __future__ import annotations

import collections
import functools
import itertools
import operator
import typing as t

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._common import gpudirect_paths as choice
from ansible_collections.railyard.fabric.plugins.module_utils._common.gpudirect_paths import Inputs

BOOLS = (True, False, None)
# Each value that makes a difference, on both sides of every boundary.
DOMAIN: dict[str, tuple[t.Any, ...]] = {
    "generation": (None, *choice.GENERATIONS),
    "architecture": ("x86_64", "aarch64", "ppc64le", "riscv64"),
    "kernel": ("5.11.22-generic", "5.12.0-generic"),
    "shared_buffer": BOOLS,
    "stack": (None, "inbox", "ofed"),
    "stack_version": (None, "24.10-1.1.4"),
    "core_dmabuf": BOOLS,
    "core_peermem": BOOLS,
    "driver": (None, "460.106.00", "470.82.01", "510.108.03", "515.43.04", "570.86.15"),
    "flavour": ("open", "proprietary", None),
    "cuda_dmabuf": BOOLS,
    "module": ("absent", "stub", "stale", "built", "loaded", "contained"),
    "enforced": (True, False),
    "signed": BOOLS,
}
# What the one way is judged by, and the other; that nothing else is looked at is a test of its own.
FOR_MESSAGES = {"stack_version", "kernel"}
OF_DMABUF = {
    "generation", "architecture", "kernel", "shared_buffer", "stack", "core_dmabuf", "driver", "flavour", "cuda_dmabuf"
}  # fmt: skip
OF_PEERMEM = {
    "generation", "architecture", "stack", "core_peermem", "driver", "flavour", "module", "enforced", "signed"
}  # fmt: skip
GOOD = Inputs(
    generation="hopper",
    architecture="x86_64",
    kernel="6.8.0-90-generic",
    shared_buffer=True,
    stack="ofed",
    stack_version="24.10-3.2.5",
    core_dmabuf=True,
    core_peermem=True,
    driver="570.86.15",
    flavour="open",
    cuda_dmabuf=None,
    module="built",
    enforced=False,
    signed=None,
)


def combinations(names: t.Container[str]) -> t.Iterator[Inputs]:
    choices = (DOMAIN[name] if name in names else (getattr(GOOD, name),) for name in Inputs._fields)
    return map(Inputs._make, itertools.product(*choices))


def before(one: str, other: str) -> bool:
    return choice.GENERATIONS.index(one) < choice.GENERATIONS.index(other)


def well_formed(obstacles: t.Sequence[choice.Obstacle]) -> bool:
    """Each has a reason and a remedy, none is reported twice, and no value of Python's shows through."""
    texts = [text for each in obstacles for text in (each.message, each.remedy)]
    return (
        all(texts)
        and len({each.message for each in obstacles}) == len(obstacles)
        and not any(wrong in text for text in texts for wrong in ("None", "%s", "()", "True", "False"))
        and not any(text.endswith(".") for text in texts)
    )


def test_the_domain_is_that_of_the_inputs() -> None:
    assert set(DOMAIN) == set(Inputs._fields)
    assert set(Inputs._fields) == OF_DMABUF | OF_PEERMEM | FOR_MESSAGES


def dmabuf_is_possible(inputs: Inputs) -> bool:
    """The table in another form: all conditions at once."""
    return (
        inputs.generation is not None
        and not before(inputs.generation, "turing")
        and inputs.architecture in ("x86_64", "aarch64")
        and inputs.driver in ("515.43.04", "570.86.15")
        and inputs.flavour == "open"
        and inputs.cuda_dmabuf is not False
        and inputs.stack is not None
        and inputs.shared_buffer is not False
        and (inputs.core_dmabuf is True or (inputs.core_dmabuf is None and inputs.kernel.startswith("5.12")))
    )


def peermem_is_possible(inputs: Inputs) -> bool:
    return (
        inputs.generation is not None
        and inputs.architecture != "riscv64"
        and inputs.driver not in (None, "460.106.00")
        and inputs.stack is not None
        and not (inputs.flavour == "proprietary" and not before(inputs.generation, "blackwell"))
        and (
            inputs.module == "loaded"
            or (
                inputs.module == "built"
                and (inputs.core_peermem is True or (inputs.core_peermem is None and inputs.stack == "ofed"))
                and not (inputs.enforced and inputs.signed is False)
            )
        )
    )


WAYS: dict[str, tuple[t.Any, set[str], t.Callable[[Inputs], bool]]] = {
    "dmabuf": (choice.dmabuf_obstacles, OF_DMABUF, dmabuf_is_possible),
    "peermem": (choice.peermem_obstacles, OF_PEERMEM, peermem_is_possible),
}
SHARED = [at for at, name in enumerate(Inputs._fields) if name in OF_DMABUF & OF_PEERMEM]


@functools.lru_cache(None)
def judged(way: str) -> list[Inputs]:
    """Hold one way's answer to every combination against the table; one combination for each different answer.

    Answers differ that do so for the same values of what both ways are judged by.
    """
    judge, names, possible = WAYS[way]
    # what is not among the names is not there to be asked for
    narrow = collections.namedtuple("narrow", sorted(names | FOR_MESSAGES))  # type: ignore[misc]
    take = operator.itemgetter(*(Inputs._fields.index(name) for name in narrow._fields))
    shared = operator.itemgetter(*SHARED)
    found: dict[t.Any, Inputs] = {}
    for inputs in combinations(names):
        obstacles = tuple(judge(t.cast(Inputs, narrow._make(take(inputs)))))
        assert (not obstacles) == possible(inputs), (inputs, obstacles)
        found.setdefault((shared(inputs), obstacles), inputs)
    assert [obstacles for obstacles in {each for _shared, each in found} if not well_formed(obstacles)] == []
    return list(found.values())


@pytest.mark.parametrize("way", ["dmabuf", "peermem"])
def test_each_way_over_every_combination(way: str) -> None:
    assert len(judged(way)) > 100


def test_the_choice_over_every_pair_of_answers() -> None:
    shared = operator.itemgetter(*SHARED)
    peermem: dict[tuple[t.Any, ...], list[Inputs]] = {}
    for inputs in judged("peermem"):
        peermem.setdefault(shared(inputs), []).append(inputs)
    seen = set()
    for one in judged("dmabuf"):
        for other in peermem[shared(one)]:
            inputs = one._replace(**{name: getattr(other, name) for name in OF_PEERMEM - OF_DMABUF})
            made = choice.choose(inputs)
            seen.add(made.path)
            dmabuf, peer = dmabuf_is_possible(inputs), peermem_is_possible(inputs)
            assert made.path == ("dmabuf" if dmabuf else "peermem" if peer else "none"), inputs
            assert (not made.obstacles["dmabuf"], not made.obstacles["peermem"]) == (dmabuf, peer)
            assert made.reason and "None" not in made.reason
            # a possible path does not need a remedy, and path none always has one
            assert bool(made.remedy) == (made.path == "none"), inputs
            if made.path == "none" and len({each.final for each in sum(map(list, made.obstacles.values()), [])}) == 2:
                finals = {way: any(each.final for each in obstacles) for way, obstacles in made.obstacles.items()}
                if not all(finals.values()):
                    # where one way is closed for good, the remedy is the other's
                    nearer = min(finals, key=lambda way: finals[way])
                    assert made.remedy == "; ".join(each.remedy for each in made.obstacles[nearer]), inputs
    assert seen == {"dmabuf", "peermem", "none"}


@pytest.mark.parametrize(
    "changes, path, reason",
    [
        ({}, "dmabuf", "the open kernel modules of the GPU driver 570.86.15 export DMA-BUF"),
        ({"stack": "inbox", "core_peermem": False, "module": "stub"}, "dmabuf", "inbox RDMA core of the kernel 6.8.0"),
        ({"flavour": "proprietary"}, "peermem", "the proprietary kernel modules of the GPU driver 570.86.15 cannot"),
        (
            {"generation": "volta", "flavour": "proprietary"},
            "peermem",
            "need Turing or later, and a GPU here is Volta",
        ),
        ({"flavour": "proprietary", "module": "stale"}, "none", "against another RDMA core than the installed one"),
        ({"generation": "blackwell", "flavour": "proprietary"}, "none", "require the open kernel modules"),
        ({"generation": None}, "none", "the node does not have an NVIDIA GPU"),
        ({"driver": None}, "none", "the NVIDIA driver is not installed"),
        # a distribution's kernel with what came later, and one without
        ({"kernel": "4.18.0-553.el8", "core_dmabuf": True}, "dmabuf", "imports it"),
        (
            {"kernel": "5.4.0-80-generic", "core_dmabuf": None, "module": "loaded"},
            "peermem",
            "the kernel 5.4.0-80-generic is older than 5.12",
        ),
        # Secure Boot keeps an unsigned nvidia-peermem out, and DMA-BUF needs none
        ({"enforced": True, "signed": False}, "dmabuf", "export DMA-BUF"),
        ({"flavour": "proprietary", "module": "contained"}, "none", "comes from a container, and its nvidia-peermem"),
        ({"enforced": True, "signed": False, "flavour": "proprietary"}, "none", "(Secure Boot), and nvidia-peermem is"),
    ],
)
def test_the_path_of_known_machines_is_chosen_with_a_reason(changes: dict[str, t.Any], path: str, reason: str) -> None:
    made = choice.choose(GOOD._replace(**changes))
    assert made.path == path
    assert reason in made.reason


@pytest.mark.parametrize(
    "device, generation",
    [
        (0x102D, "kepler"),  # K80
        (0x13F2, "maxwell"),  # M60
        (0x15F8, "pascal"),  # P100
        (0x17FD, "maxwell"),  # M40
        (0x1B38, "pascal"),  # P40
        (0x1DB6, "volta"),  # V100
        (0x1EB8, "turing"),  # T4
        (0x20B0, "ampere"),  # A100
        (0x2184, "turing"),  # GTX 1660
        (0x2236, "ampere"),  # A10
        (0x2330, "hopper"),  # H100 SXM5
        (0x2335, "hopper"),  # H200 SXM
        (0x2342, "hopper"),  # GH200
        (0x25B6, "ampere"),  # A2
        (0x26B9, "ada"),  # L40S
        (0x27B8, "ada"),  # L4
        (0x2901, "blackwell"),  # B200
        (0x2941, "blackwell"),  # GB200
        (0x2BB1, "blackwell"),  # RTX PRO 6000
        (0x3182, "blackwell"),  # B300
        (0x4000, "later"),
    ],
)
def test_a_generation_is_found_by_device_number(device: int, generation: str) -> None:
    assert choice.generation(device) == generation


def test_the_oldest_gpu_counts() -> None:
    assert choice.oldest(["hopper", "volta", "ampere"]) == "volta"
    assert choice.oldest([]) is None


@pytest.mark.parametrize(
    "text, numbers",
    [("5.15.0-84-generic", (5, 15, 0)), ("570.86.15", (570, 86, 15)), ("6.18", (6, 18)), ("", ()), ("next-1", ())],
)
def test_a_version_is_parsed_to_its_leading_numbers(text: str, numbers: tuple[int, ...]) -> None:
    assert choice.version(text) == numbers
