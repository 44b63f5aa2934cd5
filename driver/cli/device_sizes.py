"""The sizes of devices, for commands that write percentages as lists of amounts: of machines, or of a cluster."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from driver.api.device_policies import DevicePolicies
from driver.api.gpu_policies import GpuPolicies
from driver.api.nic_policies import NicPolicies
from driver.layout.slices import resource_slices
from driver.model.inventory import Inventory
from driver.ratios import SizeCounter, Sizes

__all__ = ["sizes_of_cluster", "sizes_of_machines"]


def sizes_of_machines(
    machines: Iterable[Inventory], policies: GpuPolicies, nic_policies: NicPolicies, device_policies: DevicePolicies
) -> Sizes:
    """Return the sizes of what such machines publish."""
    counter = SizeCounter()
    for inventory in machines:
        for part in resource_slices(
            inventory, policies=policies, nic_policies=nic_policies, device_policies=device_policies
        ):
            for device in part.to_wire()["spec"].get("devices", ()):
                counter.add(device)
    return counter.sizes()


def sizes_of_cluster(kubeconfig: Path | None, context: str | None) -> Sizes:
    """Return the sizes of what a cluster's nodes publish.

    Raises:
        ApiServerError: The server did not answer, or refuses.
        InputError: There is no such kubeconfig or context.
    """
    from driver.adapters.kubernetes.device_sizes import read_sizes  # noqa: PLC0415 - the client takes half a second
    from driver.adapters.kubernetes.kubeconfig import cluster_context  # noqa: PLC0415 - as said above

    instead = "describe its machines with --topology"
    with cluster_context(kubeconfig=kubeconfig, context=context, instead=instead).api as api:
        return read_sizes(api)
