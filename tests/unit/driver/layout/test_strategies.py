"""GPUs whose strategy the node cannot serve: published, and kept from new claims."""

from __future__ import annotations

import pytest

from driver.api.gpu_policies import GpuPolicies
from driver.layout.slices import resource_slices
from driver.model.health import NodeHealth
from driver.objects.health import node_health
from tests.support.machines import gpu, node
from tests.support.slice_validation import validate_slices

MPS = GpuPolicies.model_validate(
    {
        "apiVersion": "rootport.dev/v1alpha1",
        "kind": "GpuPolicies",
        "policies": [{"pciAddresses": ["0000:0a:*"], "strategy": "mps"}],
    }
)


def condition(type_: str, status: str) -> dict[str, str]:
    return {
        "type": type_,
        "status": status,
        "reason": "Because",
        "message": "it is so",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }


def tainted(health: NodeHealth) -> dict[str, str]:
    inventory = node(
        gpu("0a", vendor="nvidia", memory_bytes=80 * 2**30), gpu("0b", vendor="nvidia", memory_bytes=80 * 2**30)
    )
    slices = resource_slices(inventory, policies=MPS, health=health)
    assert validate_slices(slices) == ()
    return {
        device.name: f"{taint.key}={taint.value}:{taint.effect}"
        for part in slices
        for device in part.spec.devices
        for taint in device.taints
    }


@pytest.mark.parametrize("status", [None, "False", "Unknown"])
def test_gpus_of_a_strategy_that_the_node_is_not_known_to_serve_are_tainted(status: str | None) -> None:
    conditions = [] if status is None else [condition("MpsAvailable", status)]
    health = node_health({"status": {"conditions": conditions}})
    taint = "rootport.dev/strategy-unavailable=mps:NoSchedule"
    assert tainted(health) == {"gpu-0000-0a-00-0": taint, "gpu-ratio-0000-0a-00-0": taint}


def test_gpus_of_a_strategy_that_the_node_serves_are_not_tainted() -> None:
    assert tainted(node_health({"status": {"conditions": [condition("MpsAvailable", "True")]}})) == {}


def test_where_nobody_looked_nothing_is_tainted() -> None:
    assert tainted(NodeHealth()) == {}
