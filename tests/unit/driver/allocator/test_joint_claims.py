"""Claims of `rootport pairs` on machines of which another claim has a device: answered in few steps, also with "no"."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from driver import DRIVER_NAME
from driver.adapters.manifests.claims import read_manifest_text
from driver.allocator import Allocator
from driver.api.resource_v1 import Node, ObjectMeta, ResourceClaim
from driver.api.validation.defaults import with_defaults
from driver.layout.slices import resource_slices
from driver.pairs import PairsRequest, Scope, claim_spec
from resourceclasses import device_classes_text
from tests.support.joint_cases import best_levels, joint_cases, levels_of
from tests.support.topologies import REAL_MACHINE_FILES

STEPS = 600
"""They take less than 200, a fraction of a second. Without bounds, one device too few takes up to 200,000 and more."""

CLASSES = [manifest.device_class for manifest in read_manifest_text(device_classes_text(), "resourceclasses").classes]
CASES = list(joint_cases())


@pytest.mark.parametrize("topology", REAL_MACHINE_FILES, ids=lambda path: path.stem)
@pytest.mark.parametrize("kind", ["gpu", "rdma"])
def test_one_device_too_few_is_found_out_soon(topology: Path, kind: str) -> None:
    for case in CASES:
        if case.topology != topology:
            continue
        inventory = case.inventory
        rest = replace(
            inventory,
            gpus=inventory.gpus[1:] if kind == "gpu" else inventory.gpus,
            nics=inventory.nics[1:] if kind == "rdma" else inventory.nics,
        )
        slices, node = resource_slices(inventory), Node(metadata=ObjectMeta(name=inventory.node))
        gone = {device.name for device in inventory.devices()} - {device.name for device in rest.devices()}
        holder = holding(slices[0].spec.pool.name, *gone)
        allocator = Allocator(slices, CLASSES, allocated=[holder], max_steps=STEPS)

        found = allocator.allocate(node, [asked(case.pairs)])

        levels = best_levels(rest, case.pairs)
        if found is None or levels is None:
            assert (found, levels) == (None, None), case.id
            continue
        results = [result.to_wire() for result in found[0].devices.results]
        assert not gone & {result["device"] for result in results}
        if case.pairs.scope is Scope.LADDER:
            assert tuple(sorted(levels_of(inventory, results))) == levels, case.id


def asked(pairs: PairsRequest) -> ResourceClaim:
    metadata = ObjectMeta(name="pairs", namespace="default")
    return with_defaults(ResourceClaim(metadata=metadata, spec=claim_spec(pairs)))


def holding(pool: str, *devices: str) -> ResourceClaim:
    """An allocated claim that has these devices, all of each."""
    results = [{"request": "r", "driver": DRIVER_NAME, "pool": pool, "device": name} for name in devices]
    return ResourceClaim.model_validate(
        {"metadata": {"name": "other"}, "status": {"allocation": {"devices": {"results": results}}}}
    )
