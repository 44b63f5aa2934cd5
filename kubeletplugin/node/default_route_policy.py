"""Asks the administrator's DevicePolicies whether an interface with the node's default route may be lent."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Final

from driver.adapters.files.input_file import path_name
from driver.errors import InputError
from driver.model.inventory import Inventory

__all__ = ["DefaultRoutePolicy"]

_LOG: Final = logging.getLogger(__name__)


class DefaultRoutePolicy:
    """What the controller's taint ``rootport.dev/default-route`` goes by, for the node. Safe for several threads.

    The file is read each time: a claim for such an interface is rare, and the models of policies take 10 MiB.

    Args:
        file: The file of the DevicePolicies, which need not be there; None: no interface is lent.
        latest: Returns what the node has; None before that is known.
    """

    def __init__(self, file: Path | None, latest: Callable[[], Inventory | None]) -> None:
        self._file = file
        self._latest = latest

    def lends(self, function: str) -> bool:
        """Return whether the policies say so of a NIC or VF; not where they cannot be read.

        Args:
            function: Its name in the pool.
        """
        inventory = self._latest()
        if self._file is None or inventory is None or not self._file.exists():
            return False
        from driver.adapters.files.no_policies import NoPolicies  # noqa: PLC0415 - only now, because of the memory

        if NoPolicies(self._file, "DevicePolicies").holds():
            return False
        from driver.adapters.files.policies_file import read_policies  # noqa: PLC0415 - as said above
        from driver.api.device_policies import DevicePolicies  # noqa: PLC0415
        from driver.layout.device_rules import device_rule  # noqa: PLC0415

        try:
            policies = read_policies(self._file, DevicePolicies)
        except InputError as error:
            _LOG.error(
                "the file is wrong: no default route is lent", extra={"file": path_name(self._file), "error": error}
            )
            return False
        found = next((device for device in inventory.devices() if device.name == function), None)
        return found is not None and device_rule(found, inventory, policies).lends_default_route
