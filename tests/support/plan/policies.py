"""GpuPolicies under which a claim has come to its GPUs: they offer what it asks for."""

from __future__ import annotations

from driver.api.gpu_policies import GpuPolicies
from driver.api.resource_v1 import ResourceClaim

__all__ = ["offering", "policies_of"]


def offering(strategy: str, **policy: object) -> GpuPolicies:
    """Return policies by which every GPU offers one strategy."""
    document = {"apiVersion": "rootport.dev/v1alpha1", "kind": "GpuPolicies"}
    return GpuPolicies.model_validate(document | {"policies": [{"strategy": strategy, **policy}]})


def policies_of(claim: ResourceClaim) -> GpuPolicies | None:
    """Return policies that offer the strategy of the claim's last GpuConfig; None, the defaults, where it has none."""
    allocation = claim.status.allocation
    parameters = [entry.opaque.parameters for entry in allocation.devices.config if entry.opaque] if allocation else []
    wanted = [
        item["sharing"].get("strategy")
        for item in parameters
        if isinstance(item, dict) and isinstance(item.get("sharing"), dict)
    ]
    return offering(wanted[-1]) if wanted and wanted[-1] in ("mps", "hamiCore") else None
