"""Reads the state and the error counters of the ports of RDMA NICs from sysfs, at one moment.

Sources: Documentation/ABI/stable/sysfs-class-infiniband of Linux; for ``hw_counters``, whose names are the driver's,
drivers/infiniband/hw/mlx5/counters.c and drivers/infiniband/hw/efa/efa_verbs.c.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from driver.adapters.host import HostRoot
from driver.adapters.sysfs.reader import SysfsReader
from driver.errors import RootportError
from driver.health.readings import NicReading, PortReading
from driver.model.devices import RdmaNic

__all__ = ["COUNTERS", "HW_COUNTERS", "read_nic_health"]

COUNTERS: Final = (
    "VL15_dropped",
    "excessive_buffer_overrun_errors",
    "link_downed",
    "link_error_recovery",
    "local_link_integrity_errors",
    "port_rcv_constraint_errors",
    "port_rcv_errors",
    "port_rcv_remote_physical_errors",
    "port_rcv_switch_relay_errors",
    "port_xmit_constraint_errors",
    "port_xmit_discards",
    "symbol_error",
)
"""The error counters in ``ports/N/counters``."""

HW_COUNTERS: Final = (
    "duplicate_request",
    "implied_nak_seq_err",
    "local_ack_timeout_err",
    "out_of_buffer",
    "out_of_sequence",
    "packet_seq_err",
    "req_cqe_error",
    "req_remote_access_errors",
    "req_remote_invalid_request",
    "resp_cqe_error",
    "resp_local_length_error",
    "resp_remote_access_errors",
    "rnr_nak_retry_err",
    "rx_drops",
    "rx_icrc_encapsulated",
)
"""The error counters in ``ports/N/hw_counters``."""

_STATE: Final = re.compile(r"[0-9]: ([A-Z_]+)", re.ASCII)
_COUNT: Final = re.compile(r"[0-9]{1,20}", re.ASCII)
# A port that is a virtual function's representor has its counters on the function; more than a card has are not read.
_MAX_PORTS: Final = 8


def read_nic_health(host: HostRoot, nics: Iterable[RdmaNic]) -> tuple[NicReading, ...]:
    """Read each NIC; one that cannot be read, or whose RDMA device is in another namespace, has no ports.

    Args:
        host: The folder that contains ``sys``; a fresh one.
        nics: The NICs, of this node.

    Returns:
        The readings, in the order of ``nics``; those without an RDMA device are left out.

    Raises:
        InputError: The folder contains no sysfs.
    """
    reader = SysfsReader.open(host)
    return tuple(
        NicReading(device=nic.name, ports=tuple(_ports(reader, nic))) for nic in nics if nic.rdma_device is not None
    )


def _ports(reader: SysfsReader, nic: RdmaNic) -> Iterator[PortReading]:
    folder = f"{reader.sysfs}class/infiniband/{nic.rdma_device}"
    # A name may have gone to another NIC's device since the inventory was made.
    device = reader.host.resolve(f"{folder}/device")
    if device is None or device.rpartition("/")[2] != str(nic.address):
        return
    for port in nic.ports[:_MAX_PORTS]:
        try:
            reading = _port(reader, f"{folder}/ports/{port.number}", port.number)
        except RootportError:
            continue  # a card that is being reset: what cannot be read now means nothing
        if reading is not None:
            yield reading


def _port(reader: SysfsReader, folder: str, number: int) -> PortReading | None:
    resolved = reader.host.resolve(folder)
    if resolved is None:
        return None
    state = _STATE.fullmatch(reader.text(f"{resolved}/state") or "")
    counters = {
        name: int(value)
        for group, names in (("counters", COUNTERS), ("hw_counters", HW_COUNTERS))
        for name in names
        if _COUNT.fullmatch(value := reader.host.read(f"{resolved}/{group}/{name}", 64) or "")
    }
    return PortReading(number=number, state=state[1].lower() if state else None, counters=counters)
