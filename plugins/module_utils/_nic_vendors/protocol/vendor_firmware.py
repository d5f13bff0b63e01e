# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The firmware of a vendor's NICs: its parameters, the program that reads and sets them, and facts about cards.

The reader of the fabric file, lint and the modules that set parameters share the facts.
"""

from __future__ import annotations

import re
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._nic_vendors.protocol.nic_vendor import Node

# A plain value: bool for True(1) and False(0), int, "ETH(2)" for other names, None for N/A.
Plain = t.Union[bool, int, str, None]
Parameter = t.Dict[str, t.Any]

# Fields that describe a card; "N/A" if the tool does not know the card's board.
ABOUT = ("device_type", "name", "description")
PRIORITIES = range(8)
_NAMED = re.compile(r"^(.*)\((\d+)\)$")


class QueryResult(t.NamedTuple):
    """The reply of a device: ``device_type``, ``name``, ``description`` in ``about``, and its parameters by name."""

    about: dict[str, str]
    parameters: dict[str, Parameter]


def plain(text: t.Any) -> Plain:
    """Return the plain value for a value that the tool printed; ``ETH(2)`` stays a string."""
    if text is None or isinstance(text, (bool, int)):
        return text
    text = str(text).strip()
    if text.upper() in ("N/A", ""):
        return None
    if re.match(r"^\d+$", text):
        return int(text)
    named = _NAMED.match(text)
    if named and named.group(1).lower() in ("true", "false"):
        return named.group(2) != "0"
    return text


def number(value: t.Any) -> int | None:
    """Return the number of a plain value or a user's value: ``ETH(2)``, ``2``, ``0x2``, ``true``; None for a name."""
    if isinstance(value, (bool, int)):
        return int(value)
    text = str(value).strip()
    named = _NAMED.match(text)
    if named:
        return int(named.group(2))
    if text.lower() in ("true", "false"):
        return int(text.lower() == "true")
    try:
        return int(text, 0) if re.match(r"^(0x[0-9a-f]+|\d+)$", text, re.I) else None
    except ValueError:
        return int(text)  # a leading zero, 016, which Python does not accept


def same(observed: Plain, desired: t.Any) -> bool:
    """Return whether two values are equal: by number if possible, else by name, case-insensitive."""
    if observed is None:
        return False
    value = number(desired)
    if value is not None:
        return number(observed) == value
    return str(observed).partition("(")[0].lower() == str(desired).strip().lower()


class Alias(t.NamedTuple):
    """An alias of ``parameter``. ``values``: the firmware's values of true and false. ``mask``: a list of priorities is
    converted to a bit mask. ``limit``: the greatest number.
    """

    parameter: str
    values: t.Mapping[bool, str] | None = None
    mask: bool = False
    limit: int | None = None


class FirmwareParameters:
    """The parameters of a vendor's firmware. A vendor overrides all values."""

    #: the program that lists the parameters
    program = ""
    #: names of parameters, with the groups name, first and last element, and ``*`` for all ports; the forms of names
    pattern: re.Pattern[str]
    forms = ""
    aliases: t.Mapping[str, Alias] = {}
    #: parameters that have an option of the module
    options: t.Mapping[str, str] = {}
    #: the start of the parameter of each port's link type, its values by option, and the options by its numbers
    link_type = ""
    link_types: t.Mapping[str, str] = {}
    link_numbers: t.Mapping[int, str] = {}
    #: parameters that replace the number of VFs
    vf_override = ""
    #: while ``guard`` is off, the firmware hides and refuses the parameters in ``guarded``
    guard = ""
    guarded: tuple[str, ...] = ()

    def parameter(self, name: str) -> str:
        """Return the firmware's name for a name or an alias, in capitals. It is not checked."""
        alias = self.aliases.get(name.lower())
        return alias.parameter if alias else name.upper()

    def option(self, parameter: str) -> str | None:
        """Return the option of the module that sets a parameter."""
        is_link_type = bool(self.link_type) and parameter.startswith(self.link_type)
        return "link_type" if is_link_type else self.options.get(parameter)

    def port_of(self, parameter: str) -> int | None:
        """Return the port, from 1, whose link type a parameter is; None for other parameters."""
        number = parameter[len(self.link_type) :] if self.option(parameter) == "link_type" else ""
        return int(number) if number.isdigit() else None

    def knows(self, name: str) -> bool:
        """Return whether a name or an alias has the form of a parameter."""
        return self.pattern.match(self.parameter(name)) is not None

    def elements(self, parameter: str, ports: int) -> list[str] | None:
        """Return ``NAME``, the elements of ``NAME[3]`` or ``NAME[3..5]``, or one parameter per port for ``NAME_P*``.
        None: it is not the name of a parameter.
        """
        match = self.pattern.match(parameter)
        if not match:
            return None
        base, first, last, every = match.groups()
        if every:
            return ["%s%d" % (base, number + 1) for number in range(ports)]
        if first is None:
            return [base]
        return ["%s[%d]" % (base, at) for at in range(int(first), int(last or first) + 1)]

    def value(self, name: str, given: t.Any) -> t.Any:
        """Return a value of the parameter ``name`` in the firmware's spelling.

        :raises ValueError: for a wrong value. Its text is the expected form.
        """
        alias = self.aliases.get(name.lower())
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


class FirmwareTool:
    """The program of a vendor that reads and sets parameters of a card. Failures raise :class:`RailyardError`."""

    #: path of the program, and what a reset restarts
    path = ""
    reset_level = ""

    def query(self, device: str, names: t.Sequence[str]) -> QueryResult:
        """Return the named parameters, without those that the card or the program does not support."""
        raise NotImplementedError

    def set(self, device: str, values: t.Mapping[str, str]) -> None:
        """Stage the values for the next boot, in one call."""
        raise NotImplementedError

    def check_reset(self) -> None:
        """Raise the reason why the program cannot reset cards."""

    def reset(self, device: str) -> None:
        """Restart the card's firmware, which activates staged values. All of its ports go down meanwhile."""
        raise NotImplementedError


class VendorFirmware:
    """The firmware of the NICs of one vendor."""

    #: PCI vendor ID of its NICs
    pci_vendor = ""
    parameters = FirmwareParameters()
    #: PCI devices whose one function has two ports
    two_ports: tuple[str, ...] = ()
    #: PCI devices with processors that a reset from the host restarts too, the parameter with their mode, and the modes
    with_processors: tuple[str, ...] = ()
    mode_parameter = ""
    modes: t.Mapping[int, str] = {}
    #: the mode in which a reboot of the host does not restart the firmware
    independent_mode = ""
    #: what such a card is called, and the programs that burn firmware
    processor_name = ""
    burner = ""

    def tool(self, node: Node, choice: str) -> FirmwareTool:
        """Return the program that the option ``tool`` names."""
        raise NotImplementedError

    def sensed_type(self, node: Node, pci: str, port: int) -> Plain:
        """Return the link type of a port of a card whose one function has two; None if it is unknown."""
        return None


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
