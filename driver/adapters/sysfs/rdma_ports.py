"""Reads the ports of an RDMA device, InfiniBand or RoCE, from sysfs.

Source: Documentation/ABI/stable/sysfs-class-infiniband of Linux.
"""

from __future__ import annotations

import re
from typing import Final

from driver.adapters.sysfs.reader import SysfsReader
from driver.model.devices import LinkLayer, RdmaPort

__all__ = ["rdma_ports"]

_PORT: Final = re.compile(r"[1-9][0-9]{0,2}", re.ASCII)
_STATE: Final = re.compile(r"[0-9]: ([A-Z_]+)", re.ASCII)
_RATE: Final = re.compile(r"([0-9]{1,6})(?:\.[0-9]+)? Gb/sec.*", re.ASCII)
_GUID: Final = re.compile(r"(?:[0-9a-f]{4}:){3}[0-9a-f]{4}", re.ASCII)
# A GID's lower half is the port's GUID (InfiniBand Architecture Specification 1.4, 4.1.1).
_GID: Final = re.compile(r"(?:[0-9a-f]{4}:){4}((?:[0-9a-f]{4}:){3}[0-9a-f]{4})", re.ASCII)
_NO_GUID: Final = "0000:0000:0000:0000"


def rdma_ports(reader: SysfsReader, rdma_device: str) -> tuple[RdmaPort, ...]:
    """Return the ports of an RDMA device by number.

    Args:
        reader: Reads sysfs, and collects the notes.
        rdma_device: The device's folder, links resolved.
    """
    numbers = sorted(int(name) for name in reader.names(f"{rdma_device}/ports") if _PORT.fullmatch(name))
    return tuple(_port(reader, rdma_device, number) for number in numbers)


def _port(reader: SysfsReader, rdma_device: str, number: int) -> RdmaPort:
    folder = f"{rdma_device}/ports/{number}"
    layer = (reader.text(f"{folder}/link_layer") or "").lower()
    state = _STATE.fullmatch(reader.text(f"{folder}/state") or "")
    rate = _RATE.fullmatch(reader.text(f"{folder}/rate") or "")
    if layer == LinkLayer.INFINIBAND:
        gid = _GID.fullmatch(reader.text(f"{folder}/gids/0") or "")
        guid = gid[1] if gid else None
    else:
        # A RoCE port's GIDs are made from its IP addresses; the device's own GUID is what identifies it.
        node_guid = _GUID.fullmatch(reader.text(f"{rdma_device}/node_guid") or "")
        guid = node_guid[0] if node_guid else None
    return RdmaPort(
        number=number,
        link_layer=LinkLayer(layer) if layer in set(LinkLayer) else None,
        state=state[1].lower() if state else None,
        # 2.5 Gb/s and the like are rounded down.
        speed_gbps=int(rate[1]) if rate else None,
        guid=None if guid == _NO_GUID else guid,
    )
