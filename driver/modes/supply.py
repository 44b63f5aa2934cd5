"""What a node's GPUs could be published as, by its inventory and the administrator's policies."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from driver.api.device_policies import DEFAULT_DEVICE_POLICIES, DevicePolicies
from driver.api.gpu_policies import GpuPolicies
from driver.api.nic_policies import NicPolicies
from driver.api.resource_v1 import DeviceTaint, ResourceSlice
from driver.layout.conflicts import GpuModes
from driver.layout.slices import resource_slices
from driver.model.devices import DeviceName
from driver.model.health import NodeHealth
from driver.model.inventory import Inventory
from driver.modes.gpu import modes_in_order

__all__ = ["InventoryGpus"]


@dataclass(slots=True, kw_only=True, eq=False)
class InventoryGpus:
    """A :class:`~driver.modes.hypothesis.NodeGpus` of a node that has reported its inventory.

    Attributes:
        inventory: The inventory.
        policies: The GPU policies.
        nic_policies: The NIC policies.
        device_policies: The device policies.
        has_shares: Whether the API server keeps the fields by which devices are shared.
        has_lists: Whether attributes may be lists.
        health: What is wrong with the devices.
        other_taints: The taints that others have put on devices, by their names.
        with_rules: Puts the taints of DeviceTaintRules on a slice's devices.
    """

    inventory: Inventory
    policies: GpuPolicies
    nic_policies: NicPolicies
    device_policies: DevicePolicies = DEFAULT_DEVICE_POLICIES
    has_shares: bool = True
    has_lists: bool = False
    health: NodeHealth = field(default_factory=NodeHealth)
    other_taints: Mapping[str, Sequence[DeviceTaint]] = field(default_factory=dict)
    with_rules: Callable[[ResourceSlice], ResourceSlice] = lambda item: item

    @property
    def gpus(self) -> Sequence[GpuModes]:
        """Its GPUs, in the order in which whole ones are allocated."""
        return modes_in_order(self.inventory, self.policies, self.device_policies)

    def slices(
        self, only: Mapping[DeviceName, frozenset[DeviceName]], closed: Collection[DeviceName]
    ) -> tuple[ResourceSlice, ...]:
        """Return its slices with these devices of each GPU, with counters where they exclude each other.

        Args:
            only: The devices of each GPU; of one that is not named, all.
            closed: Those with the taint that keeps them from being allocated.

        Raises:
            InputError: As :func:`driver.layout.resource_slices`.
        """
        slices = resource_slices(
            self.inventory,
            policies=self.policies,
            nic_policies=self.nic_policies,
            device_policies=self.device_policies,
            has_shares=self.has_shares,
            has_lists=self.has_lists,
            only=only,
            closed=closed,
            health=self.health,
            other_taints=self.other_taints,
        )
        return tuple(map(self.with_rules, slices))
