"""The wire models read and write what the API server reads and writes."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from driver.api.resource_v1 import (
    Device,
    DeviceAttribute,
    DeviceClass,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourceSlice,
)

CLAIM: dict[str, Any] = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceClaim",
    "metadata": {"name": "a", "namespace": "b", "uid": "c"},
    "spec": {
        "devices": {
            "requests": [
                {
                    "name": "gpu",
                    "exactly": {
                        "deviceClassName": "gpu.rootport.dev",
                        "selectors": [{"cel": {"expression": "true"}}],
                        "allocationMode": "ExactCount",
                        "count": 2,
                        "adminAccess": False,
                        "tolerations": [{"key": "a", "operator": "Exists", "tolerationSeconds": 0}],
                        "capacity": {"requests": {"memory": "10Gi"}},
                    },
                },
                {"name": "either", "firstAvailable": [{"name": "x", "deviceClassName": "y"}]},
            ],
            "constraints": [{"requests": ["gpu"], "matchAttribute": "a.b/c"}, {"distinctAttribute": "a.b/c"}],
            "config": [{"opaque": {"driver": "rootport.dev", "parameters": {"a": [1, None, {"b": False}]}}}],
        }
    },
    "status": {
        "allocation": {
            "devices": {
                "results": [
                    {
                        "request": "gpu",
                        "driver": "rootport.dev",
                        "pool": "n",
                        "device": "d",
                        "shareID": "e",
                        "consumedCapacity": {"memory": "10Gi"},
                    }
                ],
                "config": [{"source": "FromClaim", "opaque": {"driver": "d.e", "parameters": {}}}],
            },
            "nodeSelector": {
                "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}]
            },
            "allocationTimestamp": "2026-01-01T00:00:00Z",
        },
        "reservedFor": [{"resource": "pods", "name": "p", "uid": "u"}],
    },
}
SLICE: dict[str, Any] = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceSlice",
    "metadata": {"name": "a"},
    "spec": {
        "driver": "rootport.dev",
        "pool": {"name": "n", "generation": 1, "resourceSliceCount": 1},
        "nodeName": "n",
        "devices": [
            {
                "name": "d",
                "attributes": {
                    "zero": {"int": 0},
                    "no": {"bool": False},
                    "empty": {"string": ""},
                    "version": {"version": "1.2.3"},
                    "several": {"strings": ["a", "b"]},
                },
                "capacity": {
                    "memory": {"value": "80Gi", "requestPolicy": {"default": "1Gi", "validRange": {"min": "1Gi"}}}
                },
                "consumesCounters": [{"counterSet": "s", "counters": {"mode": {"value": "0"}}}],
                "allowMultipleAllocations": True,
                "taints": [{"key": "k", "effect": "NoSchedule"}],
            }
        ],
    },
}


@pytest.mark.parametrize(("model", "wire"), [(ResourceClaim, CLAIM), (ResourceSlice, SLICE)], ids=["claim", "slice"])
def test_an_object_comes_back_as_it_was_read(model: type[ResourceClaim | ResourceSlice], wire: dict[str, Any]) -> None:
    assert model.model_validate(wire).to_wire() == wire


def test_null_means_absent() -> None:
    claim = ResourceClaim.model_validate({"metadata": None, "spec": {"devices": None}, "status": None})
    assert claim == ResourceClaim()


@pytest.mark.parametrize("model", [ResourceClaim, ResourceClaimTemplate, DeviceClass])
def test_a_misspelt_field_is_refused(model: type[ResourceClaim | ResourceClaimTemplate | DeviceClass]) -> None:
    with pytest.raises(ValidationError, match="Extra inputs"):
        model.model_validate({"metadata": {"name": "a"}, "sepc": {}})


def test_fields_of_a_newer_api_server_can_be_ignored() -> None:
    assert Device.model_validate({"name": "d", "colour": "red"}, extra="ignore") == Device(name="d")


def test_metadata_keeps_what_is_used_and_drops_the_rest() -> None:
    claim = ResourceClaim.model_validate({"metadata": {"name": "a", "managedFields": [], "generation": 3}})
    assert claim.to_wire() == {"metadata": {"name": "a"}}


@pytest.mark.parametrize(
    "wire", [{"int": 1.0}, {"int": True}, {"int": "1"}, {"int": 2**63}, {"int": -(2**63) - 1}, {"bool": "true"}]
)
def test_an_attributes_value_has_exactly_its_type(wire: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        DeviceAttribute.model_validate(wire)


def test_numbers_reach_to_the_ends_of_int64() -> None:
    attributes = DeviceAttribute.model_validate({"ints": [2**63 - 1, -(2**63)]})
    assert attributes.int_values == (2**63 - 1, -(2**63))


def test_another_kind_or_version_is_refused() -> None:
    with pytest.raises(ValidationError):
        ResourceClaim.model_validate({"apiVersion": "resource.k8s.io/v1beta1", "kind": "ResourceClaim"})
    with pytest.raises(ValidationError):
        DeviceClass.model_validate({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim"})


def test_objects_are_immutable() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        ResourceClaim().kind = "ResourceClaim"


def test_a_claims_reference_reads_as_namespace_name_and_uid() -> None:
    assert str(ResourceClaim.model_validate(CLAIM).reference) == "b/a (uid c)"
