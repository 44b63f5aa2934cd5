"""Which requests an annotated pod costs, and which pods are left alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from controller.cluster.inventories import InventoryCache, StoredInventory
from controller.cluster.pod_index import PodDevices
from controller.cluster.transforms import transform_inventory
from controller.compatibility.pod_annotations import PodAnnotations
from driver.adapters.kubernetes.api import KubernetesApi
from driver.adapters.kubernetes.errors import UnavailableError
from driver.objects.claims import ClaimAllocation
from driver.objects.consumers import Consumer
from driver.objects.written_inventory import node_inventory
from driver.status.device_allocated import DEVICE_ALLOCATED, device_allocated
from tests.support.machines import gpu, node
from tests.support.scripted_api import Answer, ScriptedServer

INVENTORY = node(gpu("10", minor=0, uuid="GPU-1", memory_bytes=80 << 30))


def given(**fields: Any) -> ClaimAllocation:
    known: dict[str, Any] = {"core": None, "memory_bytes": None, "memory_ratio": None, "isolation": None}
    of = {"namespace": "team", "claim": "c", "uid": "u", "request": "r", "pool": "node-a", "share_id": ""}
    return ClaimAllocation(**(known | of | {"device": "gpu-0000-10-00-0"} | fields))


class World:
    """One pod with one claim, and what the API server was asked."""

    def __init__(self, server: ScriptedServer) -> None:
        self.server = server
        self.allocations: tuple[ClaimAllocation, ...] = (given(),)
        self.has_inventory = True
        stored = node_inventory(INVENTORY)
        stored["metadata"] |= {"uid": "i", "resourceVersion": "1"}
        self._inventory = StoredInventory(transform_inventory(stored), InventoryCache())
        self.annotations = PodAnnotations(
            KubernetesApi.connect(kubeconfig=server.kubeconfig, timeout_s=5),
            pod=self._pod,
            inventory=lambda _: self._inventory if self.has_inventory else None,
            domain="koordinator.sh",
            pause=lambda: False,
        )

    def _pod(self, _uid: str) -> PodDevices | None:
        consumer = Consumer(name="p", uid="pod-uid")
        return PodDevices(pod=consumer, allocations=self.allocations) if self.allocations else None

    def reconcile(self, *answers: Answer) -> tuple[float | None, list[str]]:
        """What it returns, and the verbs of the requests that it made."""
        self.server.answers = list(answers)
        self.server.requests.clear()
        again_s = self.annotations.reconcile("pod-uid")
        assert not self.server.answers
        return again_s, [request.partition(" ")[0] for request in self.server.requests]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    server = ScriptedServer(tmp_path)
    try:
        yield World(server)
    finally:
        server.stop()


def stored(
    *, annotation: str = "", node: str = "node-a", phase: str = "Running", uid: str = "pod-uid", **fields: Any
) -> Answer:
    annotations = {DEVICE_ALLOCATED: annotation} if annotation else {}
    metadata = {"name": "p", "namespace": "team", "uid": uid, "annotations": annotations}
    spec = {"nodeName": node} if node else {}
    made = {"metadata": metadata, "spec": spec, "status": {"phase": phase}}
    for key, value in fields.items():
        made[key] = made[key] | value
    return Answer(made)


def refused(status: int, reason: str) -> Answer:
    return Answer({"kind": "Status", "status": "Failure", "reason": reason, "message": "no"}, status)


def wanted() -> str:
    return device_allocated(INVENTORY, [given()])


def test_a_pod_is_read_and_written_once(world: World) -> None:
    assert world.reconcile(stored(), stored()) == (None, ["GET", "PATCH"])
    assert world.reconcile() == (None, [])
    # What the plugin reports of the claim changes nothing; another share does.
    world.allocations = (given(mig_uuid="MIG-1"),)
    assert world.reconcile() == (None, [])
    world.allocations = (given(core=10, memory_bytes=1 << 30),)
    assert world.reconcile(stored(annotation=wanted()), stored()) == (None, ["GET", "PATCH"])


def test_a_pod_that_has_it_is_read_once_by_a_controller_that_starts(world: World) -> None:
    assert world.reconcile(stored(annotation=wanted())) == (None, ["GET"])
    assert world.reconcile() == (None, [])


KOORDINATORS = {
    "managedFields": [
        {"manager": "kubectl", "fieldsV1": {"f:metadata": {"f:labels": {}}}},
        {
            "manager": "koord-scheduler",
            "fieldsV1": {"f:metadata": {"f:annotations": {f"f:{DEVICE_ALLOCATED}": {}}}},
        },
    ]
}


@pytest.mark.parametrize(
    "pod",
    [
        {"spec": {"schedulerName": "koord-scheduler"}},
        {"metadata": KOORDINATORS},
        {"phase": "Succeeded"},
        {"phase": "Failed"},
        {"uid": "another"},
    ],
    ids=["placed by koordinator", "written by koordinator", "succeeded", "failed", "another pod"],
)
def test_a_pod_that_is_left_alone_is_read_once(world: World, pod: dict[str, Any]) -> None:
    assert world.reconcile(stored(annotation="{}", **pod)) == (None, ["GET"])
    assert world.reconcile() == (None, [])


def test_what_somebody_else_manages_does_not_matter(world: World) -> None:
    lie = {
        "managedFields": [
            {"manager": "koordlet", "fieldsV1": {"f:metadata": {"f:annotations": {"f:other": {}}}}},
            {"manager": "kubectl", "fieldsV1": {"f:metadata": {"f:annotations": {f"f:{DEVICE_ALLOCATED}": {}}}}},
            {"manager": "odd"},
            {"manager": "odder", "fieldsV1": None},
        ]
    }
    assert world.reconcile(stored(annotation="{}", metadata=lie), stored())[1] == ["GET", "PATCH"]


def test_a_pod_that_is_not_bound_is_read_less_and_less_often(world: World) -> None:
    waits = [world.reconcile(stored(node=""))[0] for _ in range(40)]
    assert waits[:3] == [2.0, 4.0, 6.0]
    assert waits[-1] == 60.0
    assert world.reconcile(stored(), stored()) == (None, ["GET", "PATCH"])


def test_a_pod_that_is_gone_is_nothing_to_do(world: World) -> None:
    assert world.reconcile(refused(404, "NotFound")) == (None, ["GET"])
    world.allocations = (given(core=10),)
    assert world.reconcile(stored(), refused(409, "Conflict")) == (None, ["GET", "PATCH"])
    world.allocations = ()
    assert world.reconcile() == (None, [])


@pytest.mark.parametrize("answer", [refused(403, "Forbidden"), refused(422, "Invalid")], ids=["forbidden", "invalid"])
def test_a_refusal_is_told_once_and_tried_again_later(
    world: World, answer: Answer, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(3):
        assert world.reconcile(stored(), answer) == (300.0, ["GET", "PATCH"])
    assert [record.levelname for record in caplog.records if record.message == "pods are not annotated"] == ["WARNING"]
    assert world.reconcile(stored(), stored()) == (None, ["GET", "PATCH"])


def test_an_api_server_that_is_away_is_the_queues_matter(world: World) -> None:
    with pytest.raises(UnavailableError):
        world.reconcile(refused(503, "ServiceUnavailable"))
    assert world.reconcile(stored(), stored()) == (None, ["GET", "PATCH"])


def test_what_is_not_known_now_is_looked_at_again(world: World) -> None:
    world.has_inventory = False
    assert world.reconcile() == (300.0, [])
    world.has_inventory = True
    world.allocations = (given(), given(pool="node-b"))
    assert world.reconcile() == (300.0, [])
    world.allocations = (given(device="gpu-0000-99-00-0"),)
    assert world.reconcile() == (300.0, [])
    world.allocations = (given(),)
    assert world.reconcile(stored(), stored()) == (None, ["GET", "PATCH"])
