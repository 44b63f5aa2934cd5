"""Which rail each RDMA NIC of a node belongs to."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import replace

from driver.model.devices import RdmaNic
from driver.model.pci import PciAddress, pci_order

__all__ = ["with_rails"]


def with_rails(nics: Iterable[RdmaNic]) -> tuple[RdmaNic, ...]:
    """Number the rails: alike NICs of one node take rails 0, 1, … in PCI order; their VFs take the PF's rail.

    In a rail-optimised network the i-th compute NIC of every node is cabled to the i-th leaf switch, and rail i reaches
    only rail i. No source records the cabling, so this is the convention that such networks are built by. NICs are
    alike when vendor, model and link layer are the same: a storage NIC of another model does not shift the compute
    rails. Speed tells NICs of an unknown model apart; where the model is known it does not count, because a port
    without a cable shows another speed, and the rails of its neighbours must not move with it.

    Returns:
        The NICs in their given order.
    """
    given = tuple(nics)
    rails: dict[PciAddress, int] = {}
    taken: dict[Hashable, int] = {}
    for nic in sorted(given, key=lambda nic: pci_order(nic.address)):
        port = nic.ports[0] if nic.ports else None
        kind = (nic.vendor, nic.model, port and port.link_layer, None if nic.model else port and port.speed_gbps)
        rails[nic.address] = taken.get(kind, 0)
        taken[kind] = rails[nic.address] + 1
    return tuple(
        replace(nic, rail=rails[nic.address], vfs=tuple(replace(vf, rail=rails[nic.address]) for vf in nic.vfs))
        for nic in given
    )
