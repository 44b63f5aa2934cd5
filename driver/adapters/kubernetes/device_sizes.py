"""Reads the sizes of a cluster's GPUs and NICs from its ResourceSlices, page by page."""

from __future__ import annotations

from driver import DRIVER_NAME
from driver.adapters.kubernetes.api import KubernetesApi
from driver.adapters.kubernetes.resources import RESOURCE_SLICES, JsonObject
from driver.ratios import SizeCounter, Sizes

__all__ = ["read_sizes"]


def read_sizes(api: KubernetesApi) -> Sizes:
    """Return the sizes of the devices that this driver publishes.

    Raises:
        ApiServerError: The server did not answer, or refuses.
    """
    counter = SizeCounter()

    def counted(stored: JsonObject) -> JsonObject:
        for device in stored["spec"].get("devices") or ():
            counter.add(device)
        return {}

    api.list(RESOURCE_SLICES, field_selector=f"spec.driver={DRIVER_NAME}", transform=counted)
    return counter.sizes()
