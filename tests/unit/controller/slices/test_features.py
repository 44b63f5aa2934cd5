"""What the answers to a dry run say about the API server, and which of its refusals say nothing."""

from __future__ import annotations

from typing import cast

import pytest

from controller.slices.features import SliceFeatures
from driver.adapters.kubernetes.api import KubernetesApi
from driver.adapters.kubernetes.errors import InvalidError
from driver.adapters.kubernetes.pages import Listing
from driver.adapters.kubernetes.resources import DEVICE_CLASSES, JsonObject, Resource

# Kubernetes 1.34, pkg/apis/resource/validation
IN_ANOTHER_SLICE = (
    'spec.devices[0].consumesCounters[0].counterSet: Invalid value: "g0": must reference a counterSet defined in the '
    "ResourceSlice sharedCounters"
)


class Server:
    """Keeps the fields of a device, drops them, or refuses the slice with these causes."""

    def __init__(self, **answers: bool | tuple[str, ...]) -> None:
        self.answers = answers
        self.classes: list[JsonObject] = []
        self.asked = 0
        self.time = 1000.0

    def create(self, _resource: Resource, body: JsonObject, *, dry_run: bool) -> JsonObject:
        assert dry_run
        self.asked += 1
        (device,) = body["spec"]["devices"]
        (name,) = device.keys() - {"name", "bindingFailureConditions"}
        answer = self.answers.get(name, True)
        if isinstance(answer, tuple):
            raise InvalidError("refused", status=422, reason="Invalid", causes=answer)
        return body if answer else body | {"spec": body["spec"] | {"devices": [{"name": device["name"]}]}}

    def list(self, resource: Resource) -> Listing:
        assert resource is DEVICE_CLASSES
        return Listing(items=self.classes, resource_version="1")


def device_class(name: str, **spec: str) -> JsonObject:
    annotations = {"rootport.dev/extended-resource": name}
    return {"metadata": {"name": f"{name}-class", "annotations": annotations}, "spec": spec}


def test_names_of_extended_resources_that_classes_were_given_and_have_not_are_told() -> None:
    server = Server()
    server.classes = [
        device_class("nvidia.com/gpu"),
        device_class("rdma/hca", extendedResourceName="rdma/hca"),
        {"metadata": {"name": "gpu.rootport.dev"}, "spec": {}},
    ]
    found = features(server)
    (note,) = found.notes
    assert "pods that ask for nvidia.com/gpu are not served" in note
    assert "DRAExtendedResource is off" in note
    server.classes = []
    assert found.notes == (note,), "it is asked once"
    found.forget()
    assert found.notes == ()


def features(server: Server) -> SliceFeatures:
    return SliceFeatures(cast("KubernetesApi", server), clock=lambda: server.time)


@pytest.mark.parametrize(
    ("server", "expected"),
    [
        (Server(), (True, True, True)),
        (Server(consumesCounters=False), (False, True, True)),
        (Server(consumesCounters=(IN_ANOTHER_SLICE,)), (False, True, True)),
        (Server(taints=False), (True, True, False)),
        (Server(allowMultipleAllocations=False), (True, False, True)),
    ],
)
def test_what_is_dropped(server: Server, expected: tuple[bool, bool, bool]) -> None:
    found = features(server)
    assert (found.has_counters, found.has_shares, found.has_taints) == expected


@pytest.mark.parametrize("kept", [True, False])
def test_binding_conditions_are_asked_for_only_where_they_are_needed(kept: bool) -> None:
    server = Server(bindingConditions=kept)
    found = features(server)
    assert found.notes == ()
    asked = server.asked
    assert found.has_binding_conditions is kept
    assert found.has_binding_conditions is kept
    assert server.asked == asked + 1
    assert found.notes == (), "no node needs them that does not say so"


@pytest.mark.parametrize("name", ["consumesCounters", "allowMultipleAllocations", "taints"])
@pytest.mark.parametrize(
    "causes",
    [
        (),
        ("failed expression: object.spec.nodeName != 'dry-run'",),
        ("spec.nodeName: Invalid value: is not a node of ours",),
        (IN_ANOTHER_SLICE, "failed expression: object.spec.nodeName != 'dry-run'"),
    ],
)
def test_another_refusal_says_nothing(name: str, causes: tuple[str, ...]) -> None:
    server = Server(**{name: causes})
    found = features(server)
    for _ in range(2):
        with pytest.raises(InvalidError):
            _ = found.has_counters
        asked = server.asked
        with pytest.raises(InvalidError):  # remembered for a while
            _ = found.has_counters
        assert server.asked == asked
        server.time += 10.0
    server.answers.clear()
    assert found.has_counters
    assert found.has_taints


@pytest.mark.parametrize("name", ["allowMultipleAllocations", "taints"])
def test_causes_about_counters_say_nothing_about_other_fields(name: str) -> None:
    with pytest.raises(InvalidError):
        _ = features(Server(**{name: (IN_ANOTHER_SLICE,)})).has_taints
