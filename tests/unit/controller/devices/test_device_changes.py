"""Device objects are applied where they differ and deleted where the device is gone."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from controller.cluster.stored_devices import containers_of, is_same_but_status, stored_conditions, transform_device
from controller.devices.changes import device_changes, status_changes, timed
from driver.api.rootport_v1alpha1 import DeviceStatus
from driver.objects.devices import device_objects
from tests.support.machines import gpu, nic, node


def there(body: dict[str, Any], **status: Any) -> dict[str, Any]:
    """The object as the API server has it."""
    made = {"metadata": body["metadata"] | {"uid": f"uid of {body['metadata']['name']}"}}
    return made | ({"status": status} if status else {})


def stored(body: dict[str, Any]) -> dict[str, Any]:
    """What the watch keeps of it."""
    return transform_device(there(body))


def test_what_is_applied_already_is_left_alone() -> None:
    desired = device_objects(node(gpu("10"), nic("20")))
    first = device_changes(desired, [], node_uid="u")
    assert len(first.apply) == 2
    assert all("status" not in body for body in first.apply)
    assert all(body["metadata"]["ownerReferences"][0]["uid"] == "u" for body in first.apply)
    assert not device_changes(desired, [stored(body) for body in first.apply], node_uid="u")


def test_a_changed_device_is_applied_alone() -> None:
    known = [
        stored(body) for body in device_changes(device_objects(node(gpu("10"), gpu("11"))), [], node_uid="u").apply
    ]
    changes = device_changes(device_objects(node(gpu("10"), gpu("11", model="H100"))), known, node_uid="u")
    assert ([body["spec"]["model"] for body in changes.apply], changes.delete) == (["H100"], ())


def test_a_vanished_device_is_deleted_by_uid() -> None:
    known = [
        stored(body) for body in device_changes(device_objects(node(gpu("10"), gpu("11"))), [], node_uid="u").apply
    ]
    changes = device_changes(device_objects(node(gpu("10"))), known, node_uid="u")
    name = "node-a.gpu-0000-11-00-0"
    assert (changes.apply, changes.delete) == ((), ((name, f"uid of {name}"),))


def test_a_new_node_of_the_same_name_owns_its_devices() -> None:
    desired = device_objects(node(gpu("10")))
    known = [stored(body) for body in device_changes(desired, [], node_uid="u").apply]
    assert len(device_changes(desired, known, node_uid="v").apply) == 1


NAME = "node-a.gpu-0000-10-00-0"
SHARES = [
    {"namespace": "n", "claim": "c", "uid": uid, "request": "r", "device": "d", "shareID": "s", "core": 10}
    for uid in ("u1", "u2")
]


def wanted(**status: Any) -> dict[str, DeviceStatus]:
    return {NAME: DeviceStatus.model_validate({"state": "Unknown"} | status)}


def kept(**status: Any) -> dict[str, Any]:
    """What the watch keeps of the object with this status."""
    (body,) = device_changes(device_objects(node(gpu("10"))), [], node_uid="u").apply
    return transform_device(there(body, **status))


def condition(status: str, since: str = "", *, type_: str = "Healthy", reason: str = "Because") -> dict[str, str]:
    return {"type": type_, "status": status, "reason": reason, "message": "m", "lastTransitionTime": since}


def test_a_status_is_applied_where_it_differs() -> None:
    (body,) = status_changes(wanted(mode="shared", allocations=SHARES), [kept(state="Unknown")])
    assert body["metadata"] == {"name": NAME, "uid": f"uid of {NAME}"}
    assert body["status"] == {"state": "Unknown", "mode": "shared", "allocations": SHARES}


def test_a_status_that_is_stored_is_left_alone_whatever_else_stands_there() -> None:
    found = kept(state="Unknown", mode="shared", allocations=SHARES[::-1], conditions=[{"type": "Other"}])
    assert not status_changes(wanted(mode="shared", allocations=SHARES), [found])


def test_times_and_the_order_of_maps_make_no_difference() -> None:
    pods = [{"name": "p", "uid": "1"}, {"name": "p", "uid": "2"}]
    one, other = (
        {"conditions": [condition("True", time)], "allocations": [SHARES[0] | {"pods": order}]}
        for time, order in (("2026-01-01T00:00:00Z", pods), ("2026-02-02T00:00:00Z", pods[::-1]))
    )
    assert not status_changes(wanted(**one), [kept(state="Unknown", **other)])


@pytest.mark.parametrize(
    "other",
    [
        {"capacity": {"core": 100}},
        {"allocatable": {"core": 100}},
        {"largestFree": {"core": 100}},
        {"partitions": [{"device": "d", "profile": "p", "start": 0, "size": 1}]},
        {"conditions": [condition("True")]},
        {"allocations": [SHARES[0] | {"pods": [{"name": "p", "uid": "1", "containers": ["c"]}]}]},
    ],
    ids=lambda other: next(iter(other)),
)
def test_every_field_of_a_status_counts(other: dict[str, Any]) -> None:
    assert len(status_changes(wanted(**other), [kept(state="Unknown")])) == 1
    assert len(status_changes(wanted(), [kept(state="Unknown", **other)])) == 1


def test_a_status_of_defaults_needs_no_write() -> None:
    assert not status_changes(wanted(), [kept()])


def test_the_status_of_a_device_that_is_free_again_is_written() -> None:
    (body,) = status_changes(wanted(), [kept(state="Unknown", mode="mig")])
    assert body["status"] == {"state": "Unknown"}


def test_an_object_that_is_not_there_yet_gets_its_status_later() -> None:
    assert not status_changes(wanted(mode="whole"), [])


def test_of_a_stored_object_little_is_kept() -> None:
    (body,) = device_changes(device_objects(node(gpu("10"))), [], node_uid="u").apply
    wire = there(body, state="Healthy", mode="mig", conditions=[condition("True", "2026-01-01T00:00:00Z")])
    wire["metadata"] |= {"managedFields": [{}] * 9, "resourceVersion": "7"}
    of_it = transform_device(wire | {"spec": {"near": [1] * 64}})
    assert set(of_it) == {"metadata", "specDigest", "statusDigest", "conditions"}
    assert set(of_it["metadata"]) == {"name", "uid", "resourceVersion", "labels"}
    again = transform_device(wire)
    assert of_it["conditions"] is again["conditions"]
    assert of_it["metadata"]["labels"] is again["metadata"]["labels"]


def test_a_change_of_the_status_alone_is_known_as_such() -> None:
    one, other = kept(), kept(state="Unknown", mode="mig")
    other["metadata"]["resourceVersion"] = "8"
    assert is_same_but_status(one, other)
    (body,) = device_changes(device_objects(node(gpu("10", model="H100"))), [], node_uid="u").apply
    assert not is_same_but_status(one, stored(body))
    assert not is_same_but_status(None, one)
    assert not is_same_but_status(one, None)


NOW = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)
THEN = "2026-01-01T00:00:00Z"


@pytest.mark.parametrize(
    ("former", "since", "expected"),
    [
        pytest.param([], "", "2026-03-04T05:06:07Z", id="new, and nobody knows since when"),
        pytest.param([], THEN, THEN, id="new, since the fault"),
        pytest.param([condition("True", "2025-01-01T00:00:00Z")], THEN, THEN, id="changed, since the fault"),
        pytest.param([condition("True", "2025-01-01T00:00:00Z")], "", "2026-03-04T05:06:07Z", id="changed now"),
        pytest.param([condition("False", "2025-01-01T00:00:00Z")], THEN, "2025-01-01T00:00:00Z", id="as it was"),
    ],
)
def test_a_condition_has_the_time_at_which_its_status_changed(
    former: list[dict[str, str]], since: str, expected: str
) -> None:
    status = DeviceStatus.model_validate({"state": "Unhealthy", "conditions": [condition("False", since)]})
    (found,) = timed(status, stored_conditions(kept(state="Unknown", conditions=former)), NOW).conditions
    assert found.last_transition_time == expected


def test_containers_are_read_from_what_is_stored() -> None:
    pods = [{"name": "p", "uid": "1", "containers": ["a", "b"]}, {"name": "q", "uid": "2"}]
    assert containers_of([kept(allocations=[SHARES[0] | {"pods": pods}]), kept()]) == {("1", "u1", "r"): ("a", "b")}
