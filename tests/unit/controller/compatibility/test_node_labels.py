"""What a Node's labels cost where another manager owns some of them as well."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any

import pytest

from controller.cluster.inventories import InventoryCache, StoredInventory
from controller.cluster.transforms import transform_inventory
from controller.compatibility.node_labels import FIELD_MANAGER, NodeLabels
from driver.adapters.kubernetes.api import KubernetesApi
from driver.adapters.kubernetes.connection import Connection
from driver.adapters.kubernetes.request import Request
from driver.objects.node_labels import node_labels
from driver.objects.written_inventory import node_inventory
from tests.support.machines import gpu, node
from tests.unit.controller.conversion.stored_api import StoredAnswer

COUNT = "nvidia.com/gpu.count"
ONE, TWO = (
    node(*(gpu(f"{at}0", minor=at, memory_bytes=80 << 30, model="NVIDIA H100") for at in range(1, 1 + gpus)))
    for gpus in (1, 2)
)


def managed(manager: str, names: Iterable[str]) -> dict[str, Any]:
    return {"manager": manager, "fieldsV1": {"f:metadata": {"f:labels": {f"f:{name}": {} for name in names}}}}


class World:
    """A Node whose inventory has two GPUs, and the requests that its labels cost."""

    def __init__(self, labels: dict[str, str], *managers: dict[str, Any]) -> None:
        self.node = {
            "metadata": {
                "name": "node-a",
                "uid": "n",
                "resourceVersion": "7",
                "labels": labels,
                "managedFields": managers,
            }
        }
        self.applied: list[Any] = []
        stored = node_inventory(TWO)
        stored["metadata"] |= {"uid": "i", "resourceVersion": "1"}
        inventory = StoredInventory(transform_inventory(stored), InventoryCache())
        stop = threading.Event()
        self.labels = NodeLabels(
            KubernetesApi(Connection(self, 5.0)),
            inventory=lambda _: inventory,
            remove=False,
            enqueue=lambda _: stop.set(),
            pause=lambda: False,
        )
        self.labels.watch(stop)  # until it has read the Node

    def send(self, request: Request, timeout_s: float) -> StoredAnswer:
        if request.verb == "list":
            return StoredAnswer(200, {"metadata": {"resourceVersion": "8"}, "items": [self.node]})
        if request.verb == "patch":
            assert request.body is not None
            self.applied.append(request.body["metadata"].get("labels", {}))
        return StoredAnswer(200, {})

    def close(self) -> None:
        pass


def test_a_label_that_another_applies_as_well_is_left_to_it(caplog: pytest.LogCaptureFixture) -> None:
    had = node_labels(ONE)
    assert had[COUNT] != node_labels(TWO)[COUNT]
    world = World(had, managed(FIELD_MANAGER, had), managed("argocd", [COUNT]))
    # Not with the new value, which the API server would refuse each time.
    assert world.labels.reconcile("node-a") is None
    assert [COUNT in labels for labels in world.applied] == [False]
    assert "labels of others are left as they are: something else labels this node" in caplog.text


def test_one_that_another_alone_has_costs_nothing() -> None:
    has = node_labels(TWO) | {COUNT: "1"}
    world = World(has, managed(FIELD_MANAGER, has.keys() - {COUNT}), managed("argocd", [COUNT]))
    assert world.labels.reconcile("node-a") is None
    assert not world.applied
