"""A simulation's result as a cluster's objects."""

from __future__ import annotations

import json

from driver.adapters.machines.topology import read_topology
from driver.layout.slices import resource_slices
from driver.simulation import slice_json, with_assumed_vfs
from tests.support.topologies import nccl_file


def test_a_slice_is_written_as_it_is_also_where_nodes_share_its_devices() -> None:
    inventory = with_assumed_vfs(read_topology(nccl_file("azure-nd-h100-v5")), 2)
    known: dict[tuple[int, int], str] = {}
    slices = [item for name in ("a", "b") for item in resource_slices(inventory.renamed(name))]
    assert [json.loads(slice_json(item, known)) for item in slices] == [item.to_wire() for item in slices]
    assert len(known) == len(slices) // 2
