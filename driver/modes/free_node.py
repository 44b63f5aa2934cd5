"""What a node publishes of its GPUs before any claim has one: what can be shown without a cluster."""

from __future__ import annotations

from driver.api.device_policies import DEFAULT_DEVICE_POLICIES, DevicePolicies
from driver.api.gpu_policies import GpuPolicies
from driver.model.inventory import Inventory
from driver.modes.gpu import GpuState, modes_in_order
from driver.modes.rule import Layout
from driver.modes.wanted import Wanted, wanted

__all__ = ["free_node"]


def free_node(
    layout: Layout,
    inventory: Inventory,
    policies: GpuPolicies,
    device_policies: DevicePolicies = DEFAULT_DEVICE_POLICIES,
) -> Wanted:
    """Return what is published of each GPU of a node that no claim uses.

    Args:
        layout: The cluster's layout.
        inventory: The node.
        policies: What the administrator lets be given of GPUs.
        device_policies: What the administrator keeps off the offer.

    Returns:
        As ``only`` of :func:`driver.layout.resource_slices`.
    """
    return wanted(layout, [GpuState(modes=modes) for modes in modes_in_order(inventory, policies, device_policies)])
