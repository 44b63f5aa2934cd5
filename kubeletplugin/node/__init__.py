"""Discovers the devices of this node, and decides which of them a container could use.

The hardware itself is read by :mod:`driver.adapters` (``nvml``, ``sysfs``): a new vendor's GPUs are added there.
"""

__all__: list[str] = []
