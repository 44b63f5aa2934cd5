"""What a node publishes of its GPUs before any claim has one: what can be shown without a cluster."""

from __future__ import annotations

from driver.api.gpu_policies import GpuPolicies
from driver.layout.neighbours import link_domains
from driver.layout.order import gpus_in_order
from driver.model.inventory import Inventory
from driver.modes.gpu import GpuState, known_modes
from driver.modes.rule import Layout
from driver.modes.wanted import Wanted, wanted

__all__ = ["free_node"]


def free_node(layout: Layout, inventory: Inventory, policies: GpuPolicies) -> Wanted:
    """Return what is published of each GPU of a node that no claim uses.

    Args:
        layout: The cluster's layout.
        inventory: The node.
        policies: What the administrator lets be given of GPUs.

    Returns:
        As ``only`` of :func:`driver.layout.resource_slices`.
    """
    order = gpus_in_order(inventory.gpus, inventory.nics, link_domains(inventory.gpus))
    states = [GpuState(modes=known_modes(gpu, policies.of(model=gpu.model, node=inventory.node))) for gpu in order]
    return wanted(layout, states)
