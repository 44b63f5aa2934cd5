"""Device objects are applied where they differ and deleted where the device is gone."""

from __future__ import annotations

from typing import Any

from layout.machines import gpu, nic, node

from controller.device_changes import (
    DIGEST_ANNOTATION,
    device_changes,
    essence_of_device,
    is_same_but_status,
    status_changes,
)
from driver.api.rootport_v1alpha1 import DeviceStatus
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


NAME = "node-a.gpu-0000-10-00-0"
SHARES = [
    {"namespace": "n", "claim": "c", "uid": uid, "request": "r", "device": "d", "shareID": "s", "core": 10}
    for uid in ("u1", "u2")
]


def wanted(**status: Any) -> dict[str, DeviceStatus]:
    return {NAME: DeviceStatus.model_validate({"state": "Unknown"} | status)}


def kept(status: dict[str, Any] | None = None) -> dict[str, Any]:
    """The object as the watch keeps it."""
    (body,) = device_changes(device_objects(node(gpu("10"))), [], node_uid="u").apply
    return essence_of_device(stored(body) | ({"status": status} if status is not None else {}))


def test_a_status_is_applied_where_it_differs() -> None:
    (body,) = status_changes(wanted(mode="shared", allocations=SHARES), [kept({"state": "Unknown"})])
    assert body["metadata"] == {"name": NAME, "uid": f"uid of {NAME}"}
    assert body["status"] == {"state": "Unknown", "mode": "shared", "allocations": SHARES}


def test_a_status_that_is_stored_is_left_alone_whatever_else_stands_there() -> None:
    there = {"state": "Unknown", "mode": "shared", "allocations": SHARES[::-1], "conditions": [{"type": "Other"}]}
    assert not status_changes(wanted(mode="shared", allocations=SHARES), [kept(there)])


def test_a_free_device_that_has_no_status_yet_needs_none() -> None:
    assert not status_changes(wanted(), [kept()])


def test_a_device_that_is_free_again_says_so() -> None:
    (body,) = status_changes(wanted(), [kept({"state": "Unknown", "mode": "mig"})])
    assert body["status"] == {"state": "Unknown"}


def test_an_object_that_is_not_there_yet_gets_its_status_later() -> None:
    assert not status_changes(wanted(mode="whole"), [])


def test_of_a_stored_object_little_is_kept() -> None:
    (body,) = device_changes(device_objects(node(gpu("10"))), [], node_uid="u").apply
    wire = stored(body)
    wire["metadata"] |= {"managedFields": [{}] * 9, "resourceVersion": "7"}
    of_it = essence_of_device(wire | {"spec": {"near": [1] * 64}, "status": {"mode": "mig"}})
    assert set(of_it) == {"metadata", "statusDigest"}
    assert set(of_it["metadata"]) == {"name", "uid", "resourceVersion", "labels", "annotations"}


def test_a_change_of_the_status_alone_is_known_as_such() -> None:
    one, other = kept(), kept({"state": "Unknown", "mode": "mig"})
    other["metadata"]["resourceVersion"] = "8"
    assert is_same_but_status(one, other)
    other["metadata"]["annotations"] = {DIGEST_ANNOTATION: "other"}
    assert not is_same_but_status(one, other)
    assert not is_same_but_status(None, one)
    assert not is_same_but_status(one, None)
