"""What ``rootport slices`` says of an instance type is what Rootport's controller publishes of such a node."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.cluster.control_plane import ControlPlane

pytestmark = [pytest.mark.needs_go, pytest.mark.since_kubernetes(36, "before, there are no shares by default")]


def test_the_controller_publishes_the_same_devices_and_counters(
    plane: ControlPlane, node_of_type: tuple[str, str], rootport: Callable[..., Any]
) -> None:
    node, instance_type = node_of_type
    printed = json.loads(rootport("slices", "--instance-type", instance_type, "--node", node, "-o", "json").out)[
        "items"
    ]
    there = json.loads(plane.kubectl("get", "resourceslices", "--output=json"))["items"]

    assert {part["spec"]["nodeName"] for part in (*printed, *there)} == {node}
    assert {part["spec"]["pool"]["name"] for part in (*printed, *there)} == {node}
    assert parts(printed, "sharedCounters") == parts(there, "sharedCounters")
    ours, theirs = parts(printed, "devices"), parts(there, "devices")
    assert list(ours) == list(theirs)
    assert ours == theirs


def parts(slices: list[dict[str, Any]], field: str) -> dict[str, Any]:
    """By name, in the order of the slices' names, which is the scheduler's."""
    ordered = sorted(slices, key=lambda part: part["metadata"]["name"])
    return {each["name"]: each for part in ordered for each in part["spec"].get(field, ())}
