"""Finds the NUMA nodes that are as good as a device's own: those of its socket that are nearest and equally near.

The rule is that of k8s.io/dynamic-resource-allocation v0.37.2, deviceattribute/numa_linux.go, which other drivers use
for the same attribute (KEP-6072): of the ACPI SLIT, as Linux writes it in ``node<N>/distance``, the least distance to
another node; a node of another socket is left out, and one whose socket is not known stays.
"""

from __future__ import annotations

import re
from typing import Final

from driver.adapters.sysfs.reader import SysfsReader

__all__ = ["NearNumaNodes"]

# A distance has three digits at most, and Linux has 1,024 nodes at most.
_LINE: Final = 8192
_DISTANCES: Final = re.compile(r"[0-9]{1,9}(?: [0-9]{1,9})*", re.ASCII)
_FIRST_CPU: Final = re.compile(r"([0-9]{1,7})(?:[-,].*)?", re.ASCII)
_MOST: Final = 15  # as a NodeInventory holds


class NearNumaNodes:
    """Reads the table of distances once for each node.

    Args:
        reader: Reads sysfs.
    """

    def __init__(self, reader: SysfsReader) -> None:
        self._reader = reader
        self._nodes = f"{reader.sysfs}devices/system/node"
        self._known: dict[int, tuple[int, ...]] = {}

    def of(self, node: int) -> tuple[int, ...]:
        """Return the other nodes that are as good as this one, in order; none where the platform does not say."""
        if node not in self._known:
            self._known[node] = self._read(node)
        return self._known[node]

    def _read(self, node: int) -> tuple[int, ...]:
        line = self._reader.host.read(f"{self._nodes}/node{node}/distance", _LINE) or ""
        distances = [int(text) for text in line.split()] if _DISTANCES.fullmatch(line) else []
        others = {at: distance for at, distance in enumerate(distances) if at != node}
        if node >= len(distances) or not others:
            return ()
        least = min(others.values())
        socket = self._socket(node)
        nearest = (at for at, distance in others.items() if distance == least)
        found = [at for at in nearest if socket is None or self._socket(at) in (None, socket)]
        return tuple(found) if len(found) <= _MOST else ()

    def _socket(self, node: int) -> int | None:
        cpus = _FIRST_CPU.fullmatch(self._reader.host.read(f"{self._nodes}/node{node}/cpulist", _LINE) or "")
        if cpus is None:
            return None
        package = f"{self._reader.sysfs}devices/system/cpu/cpu{cpus[1]}/topology/physical_package_id"
        return self._reader.decimal(package)
