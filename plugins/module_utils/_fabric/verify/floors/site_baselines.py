# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The baselines of a site: what each rail of each node reached when it was first proven, as ``baselines.json``.

Its rows are sorted by node and rail, one on each line. There is at most one for each planned port.
"""

from __future__ import annotations

import json
import math
import typing as t

FILE, FORMAT = "baselines.json", 1
# What verify_baselines can be.
USE, RENEW, OFF = "use", "renew", "off"
MODES = (USE, RENEW, OFF)
# The most bytes of the file: 65,536 ports, such as 4,096 nodes with 16 rails, need 15 MB.
MOST_BYTES = 64 * 1024 * 1024
# Medians of a healthy port differ by a few per cent between runs. Railyard chose this part, which is between that and
# the outlier among pairs (0.8).
SLOWER = 0.85

Place = t.Tuple[str, str]


class Kind(t.NamedTuple):
    """What must be the same for two measurements to be compared, from the plan.

    :param speed: Gb/s of all planes; None if the plan has none.
    :param rdma: ``ethernet`` (RoCE) or ``infiniband``.
    :param size: bytes of a message.
    :param gpu: whether the data was in GPU memory.
    """

    speed: float | None
    family: str
    mtu: int
    rdma: str
    size: int
    gpu: bool


class Baseline(t.NamedTuple):
    """Medians over the pairs of a port.

    :param gbits: Gb/s. :param latency_us: microseconds.
    :param pairs: their number.
    :param since: when the run began, in UTC (ISO 8601).
    """

    kind: Kind
    gbits: float
    latency_us: float
    pairs: int
    since: str


_NUMBER = (int, float)
_TYPES: t.Mapping[str, tuple[type, ...]] = {
    "node": (str,),
    "rail": (str,),
    "speed": (*_NUMBER, type(None)),
    "family": (str,),
    "mtu": (int,),
    "rdma": (str,),
    "size": (int,),
    "gpu": (bool,),
    "gbits": _NUMBER,
    "latency_us": _NUMBER,
    "pairs": (int,),
    "since": (str,),
}


def parse(content: bytes, fabric: str) -> dict[Place, Baseline]:
    """Return the baselines of a file.

    :param fabric: the name of the fabric.
    :raises ValueError: with the reason, if verify cannot have written it.
    """
    if len(content) > MOST_BYTES:
        raise ValueError("it has more than %d bytes" % MOST_BYTES)
    try:
        read = json.loads(content.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError("it is not valid JSON: %s" % error) from error
    if not isinstance(read, dict) or read.get("format") != FORMAT or not isinstance(read.get("rows"), list):
        raise ValueError("it has no rows of format %d" % FORMAT)
    if read.get("fabric") != fabric:
        raise ValueError("its fabric is %s" % str(read.get("fabric"))[:80])
    return dict(_row(number, row) for number, row in enumerate(read["rows"], 1))


def _row(number: int, row: t.Any) -> tuple[Place, Baseline]:
    wrong = "row %d" % number
    if not isinstance(row, dict):
        raise ValueError("%s is not a mapping" % wrong)
    for key, types in _TYPES.items():
        value = row.get(key)
        if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
            raise ValueError("%s has no valid %s" % (wrong, key))
    if not all(0 < row[key] < math.inf for key in ("gbits", "latency_us")):
        raise ValueError("%s has a measurement that is not above 0" % wrong)
    own = {key: row[key] for key in Baseline._fields if key != "kind"}
    return (row["node"], row["rail"]), Baseline(Kind(*(row[key] for key in Kind._fields)), **own)


def text(baselines: t.Mapping[Place, Baseline], fabric: str) -> bytes:
    """Return the contents of the file."""
    rows = []
    for (node, rail), each in sorted(baselines.items()):
        own = {key: value for key, value in each._asdict().items() if key != "kind"}
        rows.append(json.dumps({"node": node, "rail": rail, **each.kind._asdict(), **own}, ensure_ascii=False))
    head = json.dumps({"format": FORMAT, "fabric": fabric}, ensure_ascii=False)[:-1]
    return ('%s, "rows": [\n%s\n]}\n' % (head, ",\n".join(rows))).encode("utf-8")


def is_slower(gbits: float, baseline: Baseline) -> bool:
    """Return whether a bandwidth in Gb/s is far below the baseline."""
    return gbits < SLOWER * baseline.gbits


def merged(
    stored: t.Mapping[Place, Baseline],
    measured: t.Mapping[Place, Baseline],
    planned: t.Callable[[Place], bool],
    renew: bool,
) -> dict[Place, Baseline]:
    """Return the baselines after a run. A port keeps its baseline unless its kind changed.

    :param measured: those of the ports that are proven and not slow.
    :param planned: whether the plan has a port; others are removed.
    :param renew: whether each measurement replaces the stored baseline.
    """
    new = {
        place: each
        for place, each in measured.items()
        if renew or place not in stored or stored[place].kind != each.kind
    }
    return {place: each for place, each in {**stored, **new}.items() if planned(place)}
