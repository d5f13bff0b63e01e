# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from ansible_collections.railyard.fabric.plugins.module_utils._common.bad_rails_label import BAD, has_bad, value_of


def test_a_value_that_is_too_long_ends_with_more() -> None:
    value = value_of(["gpu%02dp%d" % (number, plane) for number in range(1, 9) for plane in (1, 2)])
    assert value and len(value) <= 63 and value.endswith(".more") and value.startswith("gpu01p1.gpu01p2")
    # a rail that did not fit may be among them
    assert has_bad({BAD: value}, "gpu08p2")


def test_the_value_names_the_failed_rails() -> None:
    assert value_of([]) is None
    assert value_of(["gpu01", "gpu03"]) == "gpu01.gpu03"
    labels = {BAD: "gpu01.gpu03"}
    assert [has_bad(labels, rail) for rail in ("gpu01", "gpu02", None)] == [True, False, True]
    assert not has_bad({}, None) and not has_bad({}, "gpu01")
