from __future__ import annotations

import pytest

from driver.explain.explainer import Explainer
from driver.explain.explanation import ObjectRef
from driver.explain.known.cluster import Kind
from driver.explain.reasons import Reason
from tests.support.demand_world import Json, World, gpu_request, mig_request

WHY = "layout one: the cluster has more than 16 Nodes"


def world(*, status: str = "False") -> World:
    made = World(gpus=2)
    condition = {"type": "AllModesPublished", "status": status, "reason": "LargeCluster", "message": WHY}
    made.state.put(
        Kind.INVENTORY, {"kind": "NodeInventory", "metadata": {"name": "n1"}, "status": {"conditions": [condition]}}
    )
    return made


def message(made: World, request: Json) -> tuple[Reason, str]:
    made.wait("p", request)
    found = Explainer(made.state).explain(ObjectRef(kind="Pod", namespace="ml", name="p"))
    return found.reason, found.findings[0].message


def test_a_claim_for_a_mode_that_is_not_published_is_told_that_gpus_change():
    reason, text = message(world(), mig_request("1g.10gb"))
    assert reason is Reason.CLASS_SELECTS_TOO_FEW
    assert (
        f"not every mode of its GPUs is published at a time ({WHY}): the controller changes a GPU that is free" in text
    )
    assert "under way" not in text


def test_the_changes_under_way_are_named():
    made = world()
    made.publish("n1", 1, "gpu", closed=["gpu"])
    _, text = message(made, mig_request("1g.10gb"))
    assert text.endswith(f"under way there: {made.gpu('n1', 1).name}")


def test_a_claim_for_the_devices_that_are_closed_is_told_so_too():
    made = world()
    made.publish("n1", 0, "gpu", closed=["gpu"])
    made.publish("n1", 1, "gpu", closed=["gpu"])
    reason, text = message(made, gpu_request())
    assert reason is Reason.DEVICE_TAINTED
    assert "rootport.dev/mode-change" in text
    assert "under way there: " in text


@pytest.mark.parametrize("request_", [mig_request("1g.10gb"), gpu_request()])
def test_where_every_mode_is_published_nothing_is_added(request_: Json):
    made = world(status="True")
    for index in (0, 1):
        made.hold(f"held-{index}", "n1", index, "gpu")
    assert "mode" not in message(made, request_)[1]


def test_a_claim_for_other_devices_is_told_nothing_of_gpus():
    request = gpu_request("nic")
    request["exactly"]["deviceClassName"] = "rdma.rootport.dev"
    assert "mode" not in message(world(), request)[1]


# Only the first one cannot be a GPU.
@pytest.mark.parametrize(
    ("expression", "told"),
    [
        ('device.driver == "rootport.dev" && device.attributes["rootport.dev"].type == "fpga" && true', False),
        ('device.attributes["rootport.dev"].type == "fpga" || device.driver == "x"', True),
        ('!(device.attributes["rootport.dev"].type == "rdma") && device.driver == "x"', True),
        ('device.attributes["rootport.dev"].type != "rdma" && device.driver == "x"', True),
        ("device.attributes['rootport.dev'].model == 'A30'", True),
    ],
)
def test_a_claim_that_may_be_for_gpus_is_told_and_followed(expression: str, told: bool):
    made = world()
    selectors = [{"cel": {"expression": expression}}]
    made.state.put(Kind.CLASS, {"kind": "DeviceClass", "metadata": {"name": "own"}, "spec": {"selectors": selectors}})
    request = gpu_request()
    request["exactly"]["deviceClassName"] = "own"
    assert ("not every mode" in message(made, request)[1]) is told
    assert made.waiting("p").may_need_gpus is told
