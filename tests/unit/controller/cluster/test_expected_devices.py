"""A Device object's own writes are recognized when the watch shows them, and nobody else's are taken for them."""

from __future__ import annotations

from typing import Any

import pytest

from controller.cluster.expected_devices import ExpectedDevices
from controller.cluster.stored_devices import DIGEST_ANNOTATION, transform_device
from driver.adapters.kubernetes.resources import JsonObject

NAME = "node-a.gpu-1"
HEALTHY, UNHEALTHY = {"state": "Healthy"}, {"state": "Unhealthy"}


def seen(spec: str, status: JsonObject | None = None, *, uid: str = "u") -> JsonObject:
    """What the informer keeps of the object."""
    wire: dict[str, Any] = {
        "metadata": {
            "name": NAME,
            "uid": uid,
            "labels": {"rootport.dev/node": "node-a"},
            "annotations": {DIGEST_ANNOTATION: spec},
        }
    }
    return transform_device(wire | ({} if status is None else {"status": status}))


def test_a_new_object_is_own_without_and_with_its_status_and_another_change_is_not() -> None:
    expected = ExpectedDevices()
    expected.expect(NAME, applied="one")
    expected.expect(NAME, status=HEALTHY)
    assert expected.is_own(NAME, None, seen("one"))
    assert expected.is_own(NAME, seen("one"), seen("one", HEALTHY))
    assert not expected.is_own(NAME, seen("one", HEALTHY), seen("one", HEALTHY))


def test_the_status_may_be_seen_first_by_a_list() -> None:
    expected = ExpectedDevices()
    expected.expect(NAME, applied="one")
    expected.expect(NAME, status=HEALTHY)
    assert expected.is_own(NAME, None, seen("one", HEALTHY))
    assert not expected.is_own(NAME, seen("one", HEALTHY), seen("one", UNHEALTHY))


def test_a_changed_specification_is_own_while_the_status_is_as_before() -> None:
    expected = ExpectedDevices()
    expected.expect(NAME, applied="two")
    assert expected.is_own(NAME, seen("one", HEALTHY), seen("two", HEALTHY))
    assert not expected.is_own(NAME, seen("two", HEALTHY), seen("two", HEALTHY))


@pytest.mark.parametrize(
    ("known", "now"),
    [
        (None, seen("other")),
        (None, seen("one", UNHEALTHY)),
        (seen("old"), seen("other")),
        (seen("old", HEALTHY), seen("one", UNHEALTHY)),
        (seen("old"), None),
    ],
    ids=["another spec", "another status", "changed to another spec", "own spec, another's status", "deleted"],
)
def test_what_others_write_meanwhile_is_not_own(known: JsonObject | None, now: JsonObject | None) -> None:
    expected = ExpectedDevices()
    expected.expect(NAME, applied="one", status=HEALTHY)
    assert not expected.is_own(NAME, known, now)
    assert not expected.is_own(NAME, now, seen("one", HEALTHY)), "what was expected is forgotten with that"


def test_an_object_that_was_made_anew_by_another_is_not_own() -> None:
    expected = ExpectedDevices()
    expected.expect(NAME, status=HEALTHY)
    assert not expected.is_own(NAME, seen("one", uid="u"), seen("one", HEALTHY, uid="v"))


def test_nothing_is_own_that_was_not_expected() -> None:
    assert not ExpectedDevices().is_own(NAME, None, seen("one"))
