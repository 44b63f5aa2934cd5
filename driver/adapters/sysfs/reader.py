"""Reads attributes of sysfs as values, and notes those that are not what the kernel writes."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

from driver.adapters.host import HostRoot
from driver.errors import InputError, NodeError

__all__ = ["SysfsReader"]

_HEX: Final = re.compile(r"(?:0x)?([0-9a-f]{1,16})", re.ASCII | re.IGNORECASE)
_DECIMAL: Final = re.compile(r"-?[0-9]{1,18}", re.ASCII)
# A string attribute of a device has 64 characters at most (resource.k8s.io/v1, DeviceAttributeMaxValueLength), and so
# has an RDMA device's name (IB_DEVICE_NAME_MAX).
_MAX_VALUE: Final = 64


@dataclass(frozen=True, slots=True)
class SysfsReader:
    """Reads a host's sysfs and procfs for one scan, and collects notes about what is wrong.

    Attributes:
        host: The root.
        sysfs: The path of sysfs below the root, with a final slash; empty if the root is the sys folder itself.
        notes: One sentence for each thing left out or not understood; grows during the scan.
    """

    host: HostRoot
    sysfs: str
    notes: list[str] = field(default_factory=list)

    @classmethod
    def open(cls, host: HostRoot) -> SysfsReader:
        """Find sysfs below a root.

        Raises:
            InputError: There is no sysfs.
        """
        if any(host.is_folder(f"sys/{name}") for name in ("devices", "bus", "class")):
            return cls(host, "sys/")
        if host.is_folder("devices") and any(host.is_folder(name) for name in ("bus", "class")):
            return cls(host, "")
        raise InputError(
            f"{str(host.path)!r} holds no sysfs",
            hint="give the folder that has sys below it, as on a running host or in an unpacked archive, or sys itself",
        )

    def note(self, sentence: str) -> None:
        """Add a sentence to the inventory's notes."""
        self.notes.append(sentence)

    def names(self, folder: str) -> tuple[str, ...]:
        """Return the names in a folder; a folder that cannot be listed is noted, and taken for empty."""
        try:
            return self.host.names(folder)
        except NodeError as error:
            self.note(f"{error.message}; what it holds was left out")
            return ()

    def text(self, path: str) -> str | None:
        """Return a one-line value; None if it is absent, empty, too long or unprintable."""
        return self.printable(self.host.read(path, 2 * _MAX_VALUE))

    @staticmethod
    def printable(value: str | None) -> str | None:
        """Return the value if it can be an attribute of a device: one line of 1 to 64 characters."""
        return value if value and len(value) <= _MAX_VALUE and value.isprintable() else None

    def hexadecimal(self, path: str) -> int | None:
        """Return a value such as ``0x10de``; None if there is no such value."""
        match = _HEX.fullmatch(self.text(path) or "")
        return int(match[1], 16) if match else None

    def decimal(self, path: str) -> int | None:
        """Return a value such as ``-1``; None if there is none. A value that is no number is noted."""
        value = self.host.read(path, _MAX_VALUE)
        if not value:
            return None
        if _DECIMAL.fullmatch(value) is None:
            self.note(f"{path!r} is not a number and was ignored")
            return None
        return int(value)
