# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""Firmware parameters of NVIDIA NICs: link type, SR-IOV, VF count and any other by name.

A card keeps three values of each: the factory's default, the current one (in force) and the next boot's. Setting is
staging: what differs from the next boot's value is set, what differs from the current one needs a reboot or a reset.
"""

from __future__ import annotations

import json
import re
import threading
import time
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common import firmware_parameters
from ansible_collections.railyard.fabric.plugins.module_utils._common.changes import Change
from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import (
    Errors,
    RailyardError,
    Refused,
    Unsupported,
    raise_all,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.subsystem import State, Subsystem
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.nic import firmware_tool
from ansible_collections.railyard.fabric.plugins.module_utils._node.nic.firmware_card import (
    ARPHRD_INFINIBAND,
    BLUEFIELD,
    MODES,
    OFFLOAD_ENGINE,
    TWO_PORTS_A_FUNCTION,
    Card,
    firmware_of_netdevs,
    functions_elsewhere,
    is_staged,
    link_type_of,
    version_errors,
    vf_holders_of,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.nic.firmware_spec import (
    LINK_TYPE,
    LINK_TYPES,
    Wish,
    is_value,
    parameter_specs,
    port_elements,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.nic.firmware_tool import Parameter, Tool
from ansible_collections.railyard.fabric.plugins.module_utils._node.readers import pci_functions
from ansible_collections.railyard.fabric.plugins.module_utils._node.safety.management_path import Branch

# Lost at boot, as the need for the reset is.
RESET_DIR = "/run/railyard/firmware"


# VFs that a refusal names one by one.
TOLD = 8


class Firmware(Subsystem):
    """What is wanted of the NICs' firmware.

    :param ports: each with ``pci`` and wishes: ``link_type``, ``link_types``, ``sriov_en``, ``num_of_vfs``,
        ``parameters``, ``version``. None: all cards that there are; one that does not answer is left out, and told of.
    :param tool: see :class:`.firmware_tool.Tool`.
    :param reset: ``never`` or ``allowed``.
    :param timeout: seconds that a card may take to come back after a reset.
    :param never_reset: PCI addresses whose cards are not reset, whatever ``reset`` says.
    :param branch: what must not be touched; observed when it is needed. For tests, as are ``holders``: who holds VFs;
        and ``drivers``: the firmware that drivers tell by netdev.
    """

    def __init__(
        self,
        system: System,
        ports: t.Sequence[t.Mapping[str, t.Any]] | None,
        tool: str = "auto",
        reset: str = "never",
        timeout: float = 120.0,
        branch: Branch | None = None,
        holders: t.Callable[[System, t.Sequence[str]], dict[str, list[str]]] | None = None,
        never_reset: t.Sequence[str] = (),
        drivers: t.Callable[[t.Iterable[str]], dict[str, str]] | None = None,
    ) -> None:
        super().__init__()
        self._system = system
        self._reset = reset == "allowed"
        self._never_reset = frozenset(each.lower() for each in never_reset)
        self._timeout = timeout
        self._branch = branch
        self._holders = holders or vf_holders_of
        self._drivers = drivers or firmware_of_netdevs
        self._every = ports is None
        self._staged: set[tuple[str, str]] = set()
        self._restarted: set[str] = set()
        # what the card did not show at first: a reset may show it, and the next run sets it
        self._unseen: set[tuple[str, str]] = set()
        self._by_port: list[tuple[str, Card]] = []
        self._cards: dict[str, Card] = {}
        if ports is None:
            ports = [{"pci": each} for each in pci_functions.network_functions(system, pci_functions.NVIDIA_NETWORKING)]
        self._gather(ports)
        self._tool = Tool(system, tool)

    @classmethod
    def from_options(cls, options: t.Mapping[str, t.Any], system: System) -> Firmware:
        return cls(
            system,
            options["ports"],
            options["tool"],
            options["reset"],
            options["timeout"],
            never_reset=options["never_reset"],
        )

    # -- what is wanted -----------------------------------------------------------------------------------------------

    def _gather(self, ports: t.Sequence[t.Mapping[str, t.Any]]) -> None:
        errors: list[RailyardError] = []
        for number, port in enumerate(ports):
            place = "ports[%d]" % number
            function = str(port["pci"]).lower()
            if not self._system.exists("%s/%s" % (pci_functions.DEVICES, function)):
                errors.append(
                    RailyardError("there is no PCI function %s" % function, place + ".pci", "see 'lspci -D -d 15b3:'")
                )
                continue
            physical = pci_functions.physical_function(self._system, function)
            if physical:
                errors.append(
                    RailyardError(
                        "%s is a VF, whose firmware is its PF's" % function,
                        place + ".pci",
                        "name the PF, %s" % physical,
                    )
                )
                continue
            card = self._card(function)
            self._by_port.append((function, card))
            try:
                wishes = list(parameter_specs(port, place, card.ports))
            except RailyardError as error:
                errors += error.errors if isinstance(error, Errors) else [error]
                continue
            errors += version_errors(card, port.get("version"), place + ".version")
            for name, wish in wishes:
                held = card.wishes.setdefault(name, wish)
                if held is not wish and not firmware_tool.same(firmware_tool.plain(held.shown), wish.shown):
                    errors.append(
                        RailyardError(
                            "%s shall be %s, but %s says %s, and both are on the card %s"
                            % (name, wish.shown, held.place, held.shown, card.device),
                            wish.place,
                            "say it once a card, and link types of single ports by 'link_types'",
                        )
                    )
        raise_all(errors)

    def _card(self, function: str) -> Card:
        functions = pci_functions.slot_functions(self._system, function) or [function]
        device = functions[0]
        if device not in self._cards:
            model = pci_functions.hexadecimal(self._system, device, "device")
            ports = 2 if model in TWO_PORTS_A_FUNCTION else len(functions)
            self._cards[device] = Card(device, functions, ports, model in BLUEFIELD)
        return self._cards[device]

    # -- what is ------------------------------------------------------------------------------------------------------

    def observe(self) -> State:
        results: dict[str, firmware_tool.QueryResult] = {}
        errors: dict[str, RailyardError] = {}

        def ask(card: Card) -> None:
            try:
                results[card.device] = self._tool.query(card.device, card.names())
            except RailyardError as error:
                errors[card.device] = error

        cards = list(self._cards.values())
        if cards:
            # the first tells which options the tool knows; the others are asked side by side, a card takes seconds
            ask(cards[0])
            threads = [threading.Thread(target=ask, args=(card,)) for card in cards[1:]]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        failed = [errors[card.device] for card in cards if card.device in errors]
        if not self._every or not results:
            raise_all(failed)
        self.warnings += ["left out: %s" % error for error in failed]
        cards = [card for card in cards if card.device in results]
        for card in cards:
            parameters = results[card.device].parameters
            for name in list(parameters):
                if name not in card.names():
                    del parameters[name]
                elif parameters[name]["current"] is None:
                    parameters[name]["current"] = self._in_force(card, name)
        rows = [
            self._row(function, card, results[card.device].parameters)
            for function, card in self._by_port
            if card.device in results
        ]
        return {"ports": rows, "cards": {card.device: self._about(card, results[card.device]) for card in cards}}

    def _about(self, card: Card, result: firmware_tool.QueryResult) -> State:
        about: State = {key: result.about.get(key) for key in ("device_type", "name", "description")}
        engine = result.parameters.get(OFFLOAD_ENGINE)
        number = firmware_tool.number(engine["current"]) if engine and engine["current"] is not None else None
        about.update(self._loaded(card), functions=card.functions)
        about.update(mode=MODES.get(-1 if number is None else number), parameters=result.parameters)
        return about

    def _loaded(self, card: Card) -> State:
        """The firmware that runs, ``version`` and ``psid``, as the driver tells; null where no driver has the card."""
        for function in card.functions:
            for name in pci_functions.rdma_devices(self._system, function):
                place = "/sys/class/infiniband/" + name
                version = self._system.read(place + "/fw_ver")
                if version:
                    return {"version": version, "psid": self._system.read(place + "/board_id") or None}
        netdevs = {
            name: each for each in card.functions for name in self._system.listdir(pci_functions.attribute(each, "net"))
        }
        for told in self._drivers(netdevs).values():
            # what ethtool shows: 22.31.1014 (MT_0000000359)
            match = re.match(r"(\S+)(?: \((\S+)\))?", told)
            if match:
                return {"version": match.group(1), "psid": match.group(2)}
        return {"version": None, "psid": None}

    def _row(self, function: str, card: Card, parameters: t.Mapping[str, Parameter]) -> State:
        """A port in the shape of the option: the values of the next boot."""
        types: dict[str, t.Any] = {}
        others: dict[str, t.Any] = {}
        row: State = {"pci": function, "link_type": None, "link_types": types, "sriov_en": None, "num_of_vfs": None}
        for name, held in parameters.items():
            port = LINK_TYPE.match(name)
            if port:
                types[port.group(1)] = link_type_of(held["next"])
            elif name in ("SRIOV_EN", "NUM_OF_VFS"):
                row[name.lower()] = held["next"]
            elif name in card.wishes:
                others[name] = held["next"]
        if len(set(types.values())) == 1:
            row["link_type"] = next(iter(types.values()))
        row["parameters"] = others
        return row

    def _in_force(self, card: Card, name: str) -> firmware_tool.Plain:
        """A current value that the tool does not tell, by what the kernel has of the card; None if it is silent."""
        port = LINK_TYPE.match(name)
        if port:
            at = int(port.group(1)) - 1
            if card.ports != len(card.functions):
                return self._sensed(card.functions[0], at + 1)
            layer = self._link_layer(card.functions[at]) if at < card.ports else None
            return LINK_TYPES[layer] if layer else None
        total = pci_functions.number(self._system, card.functions[0], "sriov_totalvfs")
        if name == "SRIOV_EN" and self._system.exists(pci_functions.attribute(card.functions[0], "driver")):
            return total is not None
        return total if name == "NUM_OF_VFS" else None

    def _sensed(self, function: str, port: int) -> firmware_tool.Plain:
        """The type of a port of a ConnectX-3: what its driver has it as, unless the driver was told so itself."""
        if re.search("[12]", self._system.read("/sys/module/mlx4_core/parameters/port_type_array") or ""):
            return None
        said = self._system.read(pci_functions.attribute(function, "mlx4_port%d" % port)) or ""
        # "ib", "eth", or "auto (ib)" of a port that takes the type of what it is connected to
        return "VPI(3)" if said.startswith("auto") else LINK_TYPES.get(said)

    def _link_layer(self, function: str) -> str | None:
        for name in pci_functions.rdma_devices(self._system, function):
            layer = self._system.read("/sys/class/infiniband/%s/ports/1/link_layer" % name)
            if layer:
                return "ib" if layer == "InfiniBand" else "eth"
        for netdev in self._system.listdir(pci_functions.attribute(function, "net")):
            kind = self._system.read_int("/sys/class/net/%s/type" % netdev)
            if kind is not None:
                return "ib" if kind == ARPHRD_INFINIBAND else "eth"
        return None

    # -- what must be done --------------------------------------------------------------------------------------------

    def changes(self, state: State) -> list[Change]:
        errors: list[RailyardError] = []
        changes: list[Change] = []
        for card, parameters in self._with_parameters(state):
            batch: dict[str, Wish] = {}
            for name, wish in card.wishes.items():
                if name not in parameters:
                    error = self._absent(card, name, wish, parameters)
                    errors += [error] if error else []
                elif str(parameters[name]["next"]).startswith("Array["):
                    errors.append(
                        RailyardError(
                            "%s is an array on %s" % (name, card.device),
                            wish.place,
                            "name its elements, as in %s[0] or %s"
                            % (name, str(parameters[name]["next"]).replace("Array", name)),
                        )
                    )
                elif not is_value(parameters[name]["next"], wish) and (card.device, name) not in self._unseen:
                    if parameters[name]["read_only"]:
                        errors.append(
                            Unsupported(
                                "%s is read-only on %s, and is %s" % (name, card.device, parameters[name]["next"]),
                                wish.place,
                                "leave it out, or ask the card's vendor for firmware that allows it",
                            )
                        )
                    batch[name] = wish
            resets = self._must_reset(card, parameters, batch)
            if batch or resets:
                errors += self._refusals(card, resets)
            changes += self._staging(card, parameters, batch)
            if resets:
                changes.append(
                    Change(
                        card.device,
                        "reset",
                        None,
                        "level %s" % firmware_tool.RESET_LEVEL,
                        lambda card=card: self._do_reset(card),  # type: ignore[misc]
                    )
                )
        raise_all(errors)
        return changes

    def _with_parameters(self, state: State) -> list[tuple[Card, dict[str, Parameter]]]:
        """Each card once, with its parameters as they were observed."""
        seen = state["cards"]
        return [(card, seen[device]["parameters"]) for device, card in self._cards.items() if device in seen]

    def _absent(self, card: Card, name: str, wish: Wish, parameters: t.Mapping[str, Parameter]) -> RailyardError | None:
        port = LINK_TYPE.match(name)
        if not port:
            others = port_elements(name, card.ports)
            if wish.every_port and (name != others[0] or any(other in parameters for other in others)):
                return None  # means the ports that there are; the first one's error is enough
            if self._hidden(card, name, parameters):
                self._unseen.add((card.device, name))
                return None
            guard = parameters.get(firmware_parameters.ADVANCED)
            remedy = "see what '%s -d %s -e q' lists" % (self._tool.path, card.device)
            if name in firmware_parameters.GUARDED and guard and not firmware_tool.same(guard["current"], 1):
                remedy = "ask for %s: true too, without which the card does not show it" % firmware_parameters.ADVANCED
            return Unsupported("%s has no parameter %s" % (card.device, name), wish.place, remedy)
        if wish.every_port and any(LINK_TYPE.match(other) for other in parameters):
            return None  # 'link_type' means the ports that there are
        at = int(port.group(1)) - 1
        layer = self._link_layer(card.functions[at]) if at < len(card.functions) else None
        if wish.every_port and at > 0:
            return None  # the first port's error is enough
        if layer and LINK_TYPES[layer] == wish.shown:
            return None  # fixed, and as wanted
        what = "its link type is fixed%s (it is no VPI card)" % (" to %s" % layer if layer else "")
        if any(LINK_TYPE.match(other) for other in parameters):
            what = "the card has no port %s" % port.group(1)
        return Unsupported(
            "%s has no parameter %s: %s" % (card.device, name, what),
            wish.place,
            "leave the link type out, or use a card that has both",
        )

    @staticmethod
    def _hidden(card: Card, name: str, parameters: t.Mapping[str, Parameter]) -> bool:
        """Whether the card may have a parameter that it does not show before what guards it is in force."""
        wish, guard = card.wishes.get(firmware_parameters.ADVANCED), parameters.get(firmware_parameters.ADVANCED)
        if name in parameters or wish is None or guard is None or wish.argument() != "1":
            return False
        return LINK_TYPE.match(name) is None and not firmware_tool.same(guard["current"], 1)

    def _must_reset(self, card: Card, parameters: t.Mapping[str, Parameter], batch: t.Mapping[str, Wish]) -> bool:
        if not self._reset or card.device in self._restarted:
            return False
        if not self._never_reset.isdisjoint(pci_functions.card_functions(self._system, card.device)):
            return False
        waiting = self._waiting(card, parameters, batch)
        if waiting and card.bluefield:
            told = (
                "%s is a BlueField, which is not reset from the host: that restarts its Arm cores, and may change its"
                " mode. Its values wait for a reboot." % card.device
            )
            self.warnings += [] if told in self.warnings else [told]
            return False
        return bool(waiting) and waiting != self._tried(card)

    def _waiting(self, card: Card, parameters: t.Mapping[str, Parameter], batch: t.Iterable[str]) -> dict[str, str]:
        """The wishes that are not in force, though they are staged or about to be: name -> value."""
        found = {}
        for name, wish in card.wishes.items():
            if name not in parameters or (card.device, name) in self._unseen:
                continue
            current = parameters[name]["current"]
            unknown = current is None and (name in batch or (card.device, name) in self._staged)
            if unknown or (current is not None and not is_value(current, wish)):
                found[name] = wish.argument()
        return found

    def _tried(self, card: Card) -> dict[str, str] | None:
        """What was waiting still when the card had been reset since boot: another reset would not help."""
        try:
            return t.cast("dict[str, str]", json.loads(self._system.read(self._record(card)) or "null"))
        except ValueError:
            return None

    def _record(self, card: Card) -> str:
        return "%s/%s.json" % (RESET_DIR, card.device)

    def _refusals(self, card: Card, resets: bool) -> list[RailyardError]:
        branch = self._branch = self._branch or Branch.observe(self._system)
        functions = pci_functions.card_functions(self._system, card.device)
        place = self._place(card)
        for function in functions:
            why = branch.why_card(function)
            if why:
                return [
                    Refused(
                        "the card %s is left alone: %s" % (card.device, why),
                        place,
                        "set this card by hand, or connect and route over another card",
                    )
                ]
        if not resets:
            return []
        errors: list[RailyardError] = []
        if self._tool.reset_program() is None:
            errors.append(self._tool.no_reset_program())
        for function in functions:
            vfs = pci_functions.virtual_functions(self._system, function)
            if vfs:
                held = self._holders(self._system, vfs)
                told = ["%s%s" % (vf, " (%s)" % "; ".join(held[vf]) if held[vf] else "") for vf in vfs[:TOLD]]
                told += ["%d more" % (len(vfs) - TOLD)] if len(vfs) > TOLD else []
                errors.append(
                    Refused(
                        "%s cannot be reset: %s has VFs: %s" % (card.device, function, ", ".join(told)),
                        place,
                        "take the VFs away first (sriov_vfs with count: 0), or use reset: never and reboot",
                    )
                )
        for function, why in functions_elsewhere(self._system, functions).items():
            message = "%s cannot be reset: of %s, %s" % (card.device, function, why)
            errors.append(Refused(message, place, "end who has it, or use reset: never and reboot"))
        return errors

    def _place(self, card: Card) -> str:
        at = next(number for number, (_function, each) in enumerate(self._by_port) if each is card)
        return "ports[%d].pci" % at

    def _staging(self, card: Card, parameters: t.Mapping[str, Parameter], batch: t.Mapping[str, Wish]) -> list[Change]:
        """One change a parameter. The first one's act sets the whole batch: the tool's rules need it together."""

        def act() -> None:
            self._tool.set(card.device, {name: wish.argument() for name, wish in batch.items()})
            self._staged.update((card.device, name) for name in batch)

        acts: list[t.Callable[[], None]] = [act] + [lambda: None] * len(batch)
        return [
            Change(card.device, name, parameters[name]["next"] if name in parameters else None, wish.shown, do)
            for (name, wish), do in zip(batch.items(), acts)
        ]

    def _do_reset(self, card: Card) -> None:
        functions = pci_functions.card_functions(self._system, card.device)
        drivers = {each: self._system.link_name(pci_functions.attribute(each, "driver")) for each in functions}
        self._tool.reset(card.device)
        self._restarted.add(card.device)
        deadline = time.monotonic() + self._timeout
        while any(
            self._system.link_name(pci_functions.attribute(each, "driver")) != drivers[each] for each in functions
        ):
            if time.monotonic() > deadline:
                raise RailyardError(
                    "did not come back with its driver within %g s after the reset" % self._timeout,
                    card.device,
                    "see the kernel's messages (dmesg), and reboot the node",
                )
            time.sleep(0.2)
        after = self._tool.query(card.device, card.names()).parameters
        left = self._waiting(card, after, ())
        if left:
            text = json.dumps(left, sort_keys=True) + "\n"
            self._system.write_file(self._record(card), text)
        elif self._system.exists(self._record(card)):
            self._system.remove_file(self._record(card))

    # -- what is left to the reboot -----------------------------------------------------------------------------------

    def outcome(self, state: State, pending: t.Sequence[Change]) -> dict[str, t.Any]:
        """``reboot_required`` and ``reboot_reasons``: each parameter whose wish is not in force."""
        expected = {(change.subject, change.attribute) for change in pending}
        reasons: list[str] = []
        for card, parameters in self._with_parameters(state):
            if (card.device, "reset") in expected:
                continue
            batch = [name for subject, name in expected if subject == card.device]
            wanted = dict.fromkeys(self._waiting(card, parameters, batch))
            if not card.wishes:
                wanted = {name: None for name, held in parameters.items() if is_staged(held)}
            for name in wanted:
                held = parameters[name]
                later = card.wishes[name].shown if name in card.wishes else held["next"]
                now = "unknown" if held["current"] is None else held["current"]
                tried = (
                    ", also after a reset of the card" if card.device in self._restarted or self._tried(card) else ""
                )
                reasons.append("%s: %s is %s now, %s at the next boot%s" % (card.device, name, now, later, tried))
            reasons += [
                "%s: %s does not show before %s is in force; the run after the reboot sets it"
                % (card.device, name, firmware_parameters.ADVANCED)
                for name in card.wishes
                if self._hidden(card, name, parameters)
            ]
            reasons += [
                "%s: %s shows now that %s is in force; the next run sets it"
                % (device, name, firmware_parameters.ADVANCED)
                for device, name in sorted(self._unseen)
                if device == card.device and name in parameters
            ]
            if wanted and state["cards"][card.device]["mode"] == MODES[0]:
                self.warnings.append(
                    "%s is a BlueField in DPU mode, whose firmware a reboot of the host does not restart. Remedy:"
                    " power-cycle the server." % card.device
                )
            self._check_total(card, parameters)
        return {
            "reboot_required": bool(reasons),
            "reboot_reasons": reasons,
            "firmware_differs": self._other_versions(state),
        }

    def _other_versions(self, state: State) -> list[dict[str, t.Any]]:
        """The cards whose firmware is not the wanted one. No card's firmware is burnt here."""
        found = []
        for card in self._cards.values():
            version = state["cards"][card.device]["version"] if card.version else None
            if card.version and version != card.version[0]:
                found.append({"card": card.device, "wanted": card.version[0], "version": version})
                self.warnings.append(
                    "%s: the firmware is %s, and %s is wanted (%s). Remedy: burn it with the vendor's tool (mstflint or"
                    " mlxfwmanager), or plan the other version."
                    % (card.device, version or "not told by any driver", *card.version)
                )
        return found

    def _check_total(self, card: Card, parameters: t.Mapping[str, Parameter]) -> None:
        """NUM_OF_VFS has no say while PF_NUM_OF_VF_VALID is set: then the kernel's count differs from it."""
        count, enabled = (parameters.get(name, {}).get("current") for name in ("NUM_OF_VFS", "SRIOV_EN"))
        total = pci_functions.number(self._system, card.functions[0], "sriov_totalvfs")
        if enabled and isinstance(count, int) and total not in (None, count):
            self.warnings.append(
                "%s: NUM_OF_VFS is %d, but the kernel may make %s VFs; see the parameters PF_NUM_OF_VF_VALID and "
                "PF_NUM_OF_VF" % (card.device, count, total)
            )
