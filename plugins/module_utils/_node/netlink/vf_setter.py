# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Set VF attributes with pyroute2. Its import takes longer than a converged run, so only a change imports it.

Works with pyroute2 0.7.2 (Debian 12) to 0.9.
"""

from __future__ import annotations

import os
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.codec import NetlinkError
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.link_messages import encode_vf


class VfSetter:
    """Sets VF attributes. ``ip``: an ``IPRoute`` of tests; by default one is created when it is first needed."""

    def __init__(self, ip: t.Any = None) -> None:
        self._ip = ip

    def close(self) -> None:
        if self._ip is not None:
            self._ip.close()
            self._ip = None

    def set(self, index: int, vf: int, attributes: t.Mapping[str, t.Any]) -> None:
        """See :meth:`.rtnetlink.Rtnetlink.set_vf`."""
        if self._ip is None:
            self._ip = _iproute()
        try:
            self._ip.link("set", index=index, vf=encode_vf(vf, attributes))
        except Exception as error:
            # the NetlinkError of pyroute2, whose module differs between releases
            code = getattr(error, "code", None)
            if not isinstance(code, int):
                raise
            raise NetlinkError(code, _kernel_text(error), "rtnetlink link set") from None


def _iproute() -> t.Any:
    try:
        from pyroute2 import IPRoute
    except ImportError as error:
        raise RailyardError(
            "the Python library pyroute2 cannot be imported: %s" % error,
            "pyroute2",
            "install the package python3-pyroute2 on the node (or 'pip install pyroute2' for the interpreter "
            "that Ansible uses there)",
        ) from None
    return IPRoute()


def _kernel_text(error: Exception) -> str:
    """Return the kernel's text, if pyroute2 passes it on; else empty."""
    text = error.args[1] if len(error.args) > 1 and isinstance(error.args[1], str) else ""
    # usually it is only the text of the error number
    return "" if text == os.strerror(getattr(error, "code", 0) or 0) else text
