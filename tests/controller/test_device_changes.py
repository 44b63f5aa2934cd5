"""Device objects are applied where they differ and deleted where the device is gone."""

from __future__ import annotations

from typing import Any

from layout.machines import gpu, nic, node

from controller.device_changes import device_changes
from driver.objects import device_objects


def stored(body: dict[str, Any]) -> dict[str, Any]:
    return {"metadata": body["metadata"] | {"uid": f"uid of {body['metadata']['name']}"}}


def test_what_is_applied_already_is_left_alone() -> None:
    desired = device_objects(node(gpu("10"), nic("20")))
    first = device_changes(desired, [], node_uid="u")
    assert len(first.apply) == 2
    assert all("status" not in body for body in first.apply)
    assert all(body["metadata"]["ownerReferences"][0]["uid"] == "u" for body in first.apply)
    assert not device_changes(desired, [stored(body) for body in first.apply], node_uid="u")


def test_a_changed_device_is_applied_alone() -> None:
    there = [
        stored(body) for body in device_changes(device_objects(node(gpu("10"), gpu("11"))), [], node_uid="u").apply
    ]
    changes = device_changes(device_objects(node(gpu("10"), gpu("11", model="H100"))), there, node_uid="u")
    assert ([body["spec"]["model"] for body in changes.apply], changes.delete) == (["H100"], ())


def test_a_vanished_device_is_deleted_by_uid() -> None:
    there = [
        stored(body) for body in device_changes(device_objects(node(gpu("10"), gpu("11"))), [], node_uid="u").apply
    ]
    changes = device_changes(device_objects(node(gpu("10"))), there, node_uid="u")
    name = "node-a.gpu-0000-11-00-0"
    assert (changes.apply, changes.delete) == ((), ((name, f"uid of {name}"),))


def test_a_new_node_of_the_same_name_owns_its_devices() -> None:
    desired = device_objects(node(gpu("10")))
    there = [stored(body) for body in device_changes(desired, [], node_uid="u").apply]
    assert len(device_changes(desired, there, node_uid="v").apply) == 1
