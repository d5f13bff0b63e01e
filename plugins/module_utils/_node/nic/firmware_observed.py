# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The observed state of cards: their firmware parameters, and the kernel's state of them."""

from __future__ import annotations

import re
import threading
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._nic_vendors.protocol import vendor_firmware
from ansible_collections.railyard.fabric.plugins.module_utils._nic_vendors.protocol.vendor_firmware import (
    FirmwareTool,
    Parameter,
    QueryResult,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.subsystem import State
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.nic.firmware_card import Card
from ansible_collections.railyard.fabric.plugins.module_utils._node.readers import pci_functions

ARPHRD_INFINIBAND = 32

#: a function of netdevs that returns netdev -> firmware as ethtool shows it: 22.31.1014 (MT_0000000359)
Drivers = t.Callable[[t.Iterable[str]], t.Dict[str, str]]


def firmware_of_netdevs(netdevs: t.Iterable[str]) -> dict[str, str]:
    # imported only for a card without an RDMA device
    from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink import ethtool

    return {name: info.firmware for name, info in ethtool.driver_infos(netdevs).items() if info.firmware}


class CardReader:
    """Reads cards. ``drivers`` is replaced in tests."""

    def __init__(self, system: System, tool: FirmwareTool, drivers: Drivers) -> None:
        self._system = system
        self._tool = tool
        self._drivers = drivers

    def query(self, cards: t.Sequence[Card]) -> tuple[dict[str, QueryResult], list[RailyardError]]:
        """Return the parameters of each card by device, and the errors of cards that do not answer."""
        results: dict[str, QueryResult] = {}
        errors: dict[str, RailyardError] = {}

        def query_card(card: Card) -> None:
            try:
                results[card.device] = self._tool.query(card.device, card.names())
            except RailyardError as error:
                errors[card.device] = error

        # the first query finds the tool's supported options; the others run in parallel, because each takes seconds
        threads = [threading.Thread(target=query_card, args=(card,)) for card in cards[1:]]
        for card in cards[:1]:
            query_card(card)
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for card in cards:
            if card.device in results:
                self._complete(card, results[card.device].parameters)
        order = [card.device for card in cards]
        return (
            {device: results[device] for device in order if device in results},
            [errors[device] for device in order if device in errors],
        )

    def _complete(self, card: Card, parameters: dict[str, Parameter]) -> None:
        for name in list(parameters):
            if name not in card.names():
                del parameters[name]
            elif parameters[name]["current"] is None:
                parameters[name]["current"] = self._in_force(card, name)

    def card(self, card: Card, result: QueryResult) -> State:
        state: State = {key: result.about.get(key) for key in vendor_firmware.ABOUT}
        engine = result.parameters.get(card.vendor.mode_parameter)
        number = vendor_firmware.number(engine["current"]) if engine and engine["current"] is not None else None
        state.update(self._running(card), functions=card.functions)
        state.update(mode=card.vendor.modes.get(-1 if number is None else number), parameters=result.parameters)
        return state

    def _running(self, card: Card) -> State:
        """Return ``version`` and ``psid`` of the running firmware as the driver reports them; None without a driver."""
        for function in card.functions:
            for name in pci_functions.rdma_devices(self._system, function):
                place = "/sys/class/infiniband/" + name
                version = self._system.read(place + "/fw_ver")
                if version:
                    return {"version": version, "psid": self._system.read(place + "/board_id") or None}
        netdevs = [
            name for each in card.functions for name in self._system.listdir(pci_functions.attribute(each, "net"))
        ]
        for firmware in self._drivers(netdevs).values():
            match = re.match(r"(\S+)(?: \((\S+)\))?", firmware)
            if match:
                return {"version": match.group(1), "psid": match.group(2)}
        return {"version": None, "psid": None}

    def port(self, function: str, card: Card, parameters: t.Mapping[str, Parameter]) -> State:
        """Return a port in the shape of the option, with the values of the next boot."""
        types: dict[str, t.Any] = {}
        others: dict[str, t.Any] = {}
        row: State = {"pci": function, "link_type": None, "link_types": types, "sriov_en": None, "num_of_vfs": None}
        known = card.vendor.parameters
        for name, observed in parameters.items():
            port = known.port_of(name)
            if port:
                number = None if observed["next"] is None else vendor_firmware.number(observed["next"])
                types[str(port)] = known.link_numbers.get(number or 0)
            elif name in known.options:
                row[known.options[name]] = observed["next"]
            elif name in card.specs:
                others[name] = observed["next"]
        if len(set(types.values())) == 1:
            row["link_type"] = next(iter(types.values()))
        row["parameters"] = others
        return row

    # -- the kernel's state of a card ---------------------------------------------------------------------------------

    def _in_force(self, card: Card, name: str) -> vendor_firmware.Plain:
        """Return a current value that the tool does not report, from the kernel's state; None if it is unknown."""
        known = card.vendor.parameters
        port = known.port_of(name)
        if port:
            port_index = port - 1
            if card.ports != len(card.functions):
                return card.vendor.sensed_type(self._system, card.functions[0], port_index + 1)
            layer = self.link_layer(card.functions[port_index]) if port_index < card.ports else None
            return known.link_types[layer] if layer else None
        total = pci_functions.number(self._system, card.functions[0], "sriov_totalvfs")
        option = known.option(name)
        if option == "sriov_en" and self._system.exists(pci_functions.attribute(card.functions[0], "driver")):
            return total is not None
        return total if option == "num_of_vfs" else None

    def link_layer(self, function: str) -> str | None:
        """Return ``ib`` or ``eth``; None without a driver."""
        for name in pci_functions.rdma_devices(self._system, function):
            layer = self._system.read("/sys/class/infiniband/%s/ports/1/link_layer" % name)
            if layer:
                return "ib" if layer == "InfiniBand" else "eth"
        for netdev in self._system.listdir(pci_functions.attribute(function, "net")):
            kind = self._system.read_int("/sys/class/net/%s/type" % netdev)
            if kind is not None:
                return "ib" if kind == ARPHRD_INFINIBAND else "eth"
        return None
