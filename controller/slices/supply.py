"""What the nodes' GPUs could be published as, for the thread that looks for what pending claims need."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from controller.cluster.informers import ClusterInformers
from controller.cluster.inventories import Unreadable
from controller.modes.layout_in_force import LayoutInForce
from controller.slices.features import SliceFeatures
from controller.slices.taints import foreign_taints
from driver.adapters.kubernetes.errors import ApiServerError
from driver.api.device_policies import DevicePolicies
from driver.api.gpu_policies import GpuPolicies
from driver.api.nic_policies import NicPolicies
from driver.modes.rule import Layout
from driver.modes.supply import InventoryGpus

__all__ = ["PublishableGpus"]


class PublishableGpus:
    """The GPUs of nodes as the slices' reconciler would lay them out. Safe for several threads.

    Args:
        informers: The stored objects.
        layout: The cluster's layout.
        features: Knows which fields of slices the API server keeps.
        policies: Returns the GPU policies in force.
        nic_policies: Returns the NIC policies in force.
        device_policies: Returns the device policies in force.
    """

    def __init__(
        self,
        *,
        informers: ClusterInformers,
        layout: LayoutInForce,
        features: SliceFeatures,
        policies: Callable[[], GpuPolicies],
        nic_policies: Callable[[], NicPolicies],
        device_policies: Callable[[], DevicePolicies],
    ) -> None:
        self._informers = informers
        self._layout = layout
        self._features = features
        self._policies = policies
        self._nic_policies = nic_policies
        self._device_policies = device_policies

    @property
    def layout(self) -> Layout:
        """The cluster's layout; ``full`` where modes cannot change, because the API server drops taints."""
        layout = self._layout.last
        if layout is not Layout.FULL:
            try:
                return layout if self._features.has_taints else Layout.FULL
            except ApiServerError:
                return Layout.FULL
        return layout

    @property
    def rules(self) -> Sequence[object]:
        """The policies: other objects whenever they have changed."""
        return self._policies(), self._nic_policies(), self._device_policies()

    def gpus_of(self, node: str) -> InventoryGpus | None:
        """Return a node's GPUs; None where nothing can be published for it."""
        reported = self._informers.inventory(node)
        inventory = None if reported is None else reported.inventory()
        if reported is None or inventory is None or isinstance(inventory, Unreadable):
            return None
        try:
            has_shares, has_lists = self._features.has_shares, self._features.has_lists
        except ApiServerError:
            return None
        return InventoryGpus(
            inventory=inventory,
            policies=self._policies(),
            nic_policies=self._nic_policies(),
            device_policies=self._device_policies(),
            has_shares=has_shares,
            has_lists=has_lists,
            health=reported.health,
            other_taints=foreign_taints(self._informers.slices.pool(node)),
        )
