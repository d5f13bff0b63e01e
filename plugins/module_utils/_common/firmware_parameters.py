# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""Firmware parameters of NVIDIA NICs: aliases, and the forms of names.

Shared by lint and by the module that sets the parameters.
"""

from __future__ import annotations

import re
import typing as t

# NAME, NAME[3], NAME[0..7], or NAME_P* for each port of the card.
NAME = re.compile(r"^([A-Z][A-Z0-9_]*)(?:\[(\d+)(?:\.\.(\d+))?\]|(?<=_P)(\*))?$")
FORMS = "NAME, NAME[3], NAME[0..7], or NAME_P* for every port"
# While this parameter is off, the firmware hides and refuses the parameters in GUARDED.
ADVANCED = "ADVANCED_PCI_SETTINGS"
GUARDED = ("MAX_ACC_OUT_READ",)
PRIORITIES = range(8)


class Alias(t.NamedTuple):
    """An alias of ``parameter``. ``values``: the firmware's values of true and false. ``mask``: a list of priorities is
    converted to a bit mask. ``limit``: the greatest number.
    """

    parameter: str
    values: t.Mapping[bool, str] | None = None
    mask: bool = False
    limit: int | None = None


_SWITCH = {True: "1", False: "0"}
ALIASES: dict[str, Alias] = {
    "advanced_pci_settings": Alias(ADVANCED, _SWITCH),
    "ats": Alias("ATS_ENABLED", _SWITCH),
    "cnp_dscp": Alias("CNP_DSCP_P*", limit=63),
    "cnp_priority": Alias("CNP_802P_PRIO_P*", limit=7),
    "max_acc_out_read": Alias("MAX_ACC_OUT_READ", limit=65535),
    "relaxed_ordering": Alias("PCI_WR_ORDERING", {True: "force_relax", False: "per_mkey"}),
    "roce_cc_priorities": Alias("ROCE_CC_PRIO_MASK_P*", mask=True),
}
# Parameters that have an option of the module.
OPTIONS = {"SRIOV_EN": "sriov_en", "NUM_OF_VFS": "num_of_vfs"}


def parameter(name: str) -> str:
    """Return the firmware's name for a name or an alias, in capitals. It is not checked."""
    alias = ALIASES.get(name.lower())
    return alias.parameter if alias else name.upper()


def value(name: str, given: t.Any) -> t.Any:
    """Return a value of the parameter ``name`` in the firmware's spelling.

    :raises ValueError: for a wrong value. Its text is the expected form.
    """
    alias = ALIASES.get(name.lower())
    if alias is None:
        if isinstance(given, (list, tuple, dict)) or given is None or str(given).strip() == "":
            raise ValueError("a single value")
        return given
    if alias.mask:
        return _mask(given)
    if alias.values is not None:
        flag = _flag(given)
        if flag is None:
            raise ValueError("true or false")
        return alias.values[flag]
    number = _number(given)
    if number is None or number > (alias.limit or 0):
        raise ValueError("a number from 0 to %d" % (alias.limit or 0))
    return number


def _mask(given: t.Any) -> int:
    items = given if isinstance(given, (list, tuple)) else [given]
    numbers = [_number(item) for item in items]
    if any(number not in PRIORITIES for number in numbers):
        raise ValueError("a list of priorities from 0 to 7")
    return sum(1 << number for number in {number for number in numbers if number is not None})


def _flag(given: t.Any) -> bool | None:
    if isinstance(given, bool):
        return given
    text = str(given).strip().lower()
    return True if text in ("true", "yes", "on", "1") else False if text in ("false", "no", "off", "0") else None


def _number(given: t.Any) -> int | None:
    if isinstance(given, bool):
        return None
    text = str(given).strip()
    return int(text) if re.match(r"\d{1,9}\Z", text) else None
