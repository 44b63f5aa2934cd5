"""Why pods of a simulation have no node: within bounds of time."""

from __future__ import annotations

from driver.adapters.machines.topology import read_topology
from driver.adapters.manifests.claims import read_manifest_text
from driver.api.resource_v1 import ResourceClaim
from driver.budget import Budget
from driver.model.inventory import Inventory, InventorySource
from driver.simulation import InputClaim, Simulation, answers, simulate, simulation_input
from resourceclasses import device_classes_text
from tests.support.topologies import nccl_file


def claims(number_of: int, **exactly: object) -> list[InputClaim]:
    request = {
        "name": "gpu",
        "exactly": {"deviceClassName": "gpu.rootport.dev", "allocationMode": "ExactCount"} | exactly,
    }
    spec = {"devices": {"requests": [request]}}
    wires = [{"metadata": {"namespace": "ml", "name": f"c{number}"}, "spec": spec} for number in range(number_of)]
    return [InputClaim(claim=ResourceClaim.model_validate(wire)) for wire in wires]


def simulated(given: list[InputClaim], nodes: int = 1) -> Simulation:
    inventory = read_topology(nccl_file("azure-nd-h100-v5"))
    classes = [item.device_class for item in read_manifest_text(device_classes_text(), "ours").classes]
    return simulate([inventory.renamed(f"n{number}") for number in range(nodes)], classes, simulation_input(given, []))


def test_where_there_is_no_time_the_answer_says_so() -> None:
    found = answers(simulated(claims(2, count=9)), budget=Budget(0))
    assert found["ml/c0"].reason == ""
    assert found["ml/c0"].message == "no node fits; there was no time to find out why"
    assert found["ml/c0"] == found["ml/c1"]


def test_a_thousand_claims_that_ask_for_the_same_are_explained_once() -> None:
    """Each alone would take the whole budget of some others: all of them have an answer all the same."""
    found = answers(simulated(claims(1000, count=9), nodes=10), budget=Budget(5))
    assert len(found) == 1000
    assert {answer.reason for answer in found.values()} == {"ClassSelectsTooFew"}
    assert {answer.same_as for answer in found.values()} == {"", "ml/c0"}


def test_a_claim_that_fits_has_no_answer() -> None:
    assert list(answers(simulated(claims(9, count=1)))) == ["ml/c8"]


def test_of_a_machine_without_devices_no_plugin_is_looked_for() -> None:
    inventory = Inventory(node="bare", source=InventorySource.LIVE)
    classes = [item.device_class for item in read_manifest_text(device_classes_text(), "ours").classes]
    found = answers(simulate([inventory], classes, simulation_input(claims(1, count=1), [])))
    assert found["ml/c0"].reason == "NoDevicesPublished"
    assert found["ml/c0"].nearest_miss == ""
