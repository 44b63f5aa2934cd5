"""Puts each RDMA NIC of a node on a rail, by convention."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import replace
from typing import Final

from driver.model.devices import LinkLayer, RdmaNic
from driver.model.pci import pci_order

__all__ = ["RAILS_NOTE", "on_rail", "with_rails"]

RAILS_NOTE: Final = (
    "Rails are a convention, not the cabling: the largest group of alike NICs, numbered in PCI order. NicPolicies can "
    "set them."
)
"""For a person who is shown rails that :func:`with_rails` made."""


def with_rails(nics: Iterable[RdmaNic]) -> tuple[RdmaNic, ...]:
    """Number the NICs of the node's compute fabric 0, 1, … in PCI order. Other NICs have no rail.

    In a rail-optimised network the i-th compute NIC of every node is cabled to the i-th leaf switch, and rail i reaches
    only rail i. No source records the cabling, so this is the convention that such networks are built by. One fabric
    alone is numbered: were the storage NIC rail 0 as well, rails 0 and 1 could be NICs that never reach each other.

    Returns:
        The NICs in the order in which they came.
    """
    in_order = tuple(nics)
    fabric = sorted((nic.address for nic in _compute_fabric(in_order)), key=pci_order)
    rails = {address: rail for rail, address in enumerate(fabric)}
    return tuple(on_rail(nic, rails.get(nic.address)) for nic in in_order)


def on_rail(nic: RdmaNic, rail: int | None) -> RdmaNic:
    """Return the NIC on that rail; its VFs are on their PF's."""
    return replace(nic, rail=rail, vfs=tuple(replace(vf, rail=rail) for vf in nic.vfs))


def _compute_fabric(nics: Sequence[RdmaNic]) -> Sequence[RdmaNic]:
    """Return the largest group of alike NICs; of equal ones that of InfiniBand; none where that is not one group.

    NICs are alike when vendor, model and link layer are the same. Speed distinguishes NICs of an unknown model; where
    the model is known it does not count, because a port without a cable shows another speed, and the rails of its
    neighbours must not move with it. The subnet prefix of InfiniBand does not count for the same reason: a port has the
    default prefix until a subnet manager has set it up.
    """
    groups = defaultdict[Hashable, list[RdmaNic]](list)
    for nic in nics:
        groups[nic.vendor, nic.model, _link_layer(nic), None if nic.model else _speed(nic)].append(nic)
    most = max(map(len, groups.values()), default=0)
    largest = [group for group in groups.values() if len(group) == most]
    if len(largest) > 1:
        largest = [group for group in largest if _link_layer(group[0]) is LinkLayer.INFINIBAND]
    return largest[0] if len(largest) == 1 else ()


def _link_layer(nic: RdmaNic) -> LinkLayer | None:
    return nic.ports[0].link_layer if nic.ports else None


def _speed(nic: RdmaNic) -> int | None:
    return nic.ports[0].speed_gbps if nic.ports else None
