"""Claims, templates and DeviceClasses of NVIDIA's DRA driver and of dranet."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from driver.api.resource_v1 import ResourceClaim
from driver.api.validation.claims import validate_claim
from driver.api.validation.defaults import with_defaults
from driver.convert import Conversion, Outcome, convert
from driver.lint import lint_claim
from driver.lint.findings import LintCode
from tests.unit.driver.convert.conversions import CLASSES

VERSION = "resource.nvidia.com/v1beta1"
OWN = "rootport.dev/v1alpha1"
OF_THE_AUTHOR = {LintCode.CONSTRAINT_WITHOUT_EFFECT, LintCode.UNKNOWN_CLASS, LintCode.UNPAIRED_DEVICES}
NVIDIA_GPU = 'device.attributes["rootport.dev"].vendor == "nvidia"'


def claim(requests: Sequence[Mapping[str, Any]], **devices: Any) -> dict[str, Any]:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "claim", "namespace": "default"},
        "spec": {"devices": {"requests": list(requests), **devices}},
    }


def request(name: str, class_: str, *expressions: str, **fields: Any) -> dict[str, Any]:
    exactly: dict[str, Any] = {"deviceClassName": class_, **fields}
    if expressions:
        exactly["selectors"] = [{"cel": {"expression": expression}} for expression in expressions]
    return {"name": name, "exactly": exactly}


def config(driver: str, parameters: Mapping[str, Any], *requests: str) -> dict[str, Any]:
    entry: dict[str, Any] = {"opaque": {"driver": driver, "parameters": dict(parameters)}}
    return {"requests": list(requests), **entry} if requests else entry


def sharing(kind: str, **fields: Any) -> dict[str, Any]:
    return {"apiVersion": VERSION, "kind": kind, "sharing": fields}


def devices(conversion: Conversion) -> dict[str, Any]:
    """Return ``devices`` of what was converted, which the API server takes."""
    written = {key: conversion.object[key] for key in ("metadata", "spec")}
    made = with_defaults(ResourceClaim.model_validate(written))
    assert validate_claim(made) == ()
    assert [finding for finding in lint_claim(made, classes=CLASSES) if finding.code not in OF_THE_AUTHOR] == []
    found: dict[str, Any] = conversion.object["spec"]["devices"]
    return found


def refused(conversion: Conversion) -> dict[str, str]:
    return {
        finding.field.removeprefix("spec.devices."): finding.text
        for finding in conversion.findings
        if finding.outcome is Outcome.REFUSED
    }


@pytest.mark.parametrize(
    ("written", "wanted"),
    [
        pytest.param(request("gpu", "gpu.nvidia.com"), request("gpu", "gpu.rootport.dev", NVIDIA_GPU), id="a GPU"),
        pytest.param(
            request("gpu", "gpu.nvidia.com", 'device.attributes["gpu.nvidia.com"].uuid == "GPU-1"', count=1),
            request(
                "gpu",
                "gpu.rootport.dev",
                NVIDIA_GPU,
                '"uuid" in device.attributes["rootport.dev"] && device.attributes["rootport.dev"].uuid == "GPU-1"',
                count=1,
            ),
            id="with a selector",
        ),
        pytest.param(
            request("mig", "mig.nvidia.com", "device.attributes['gpu.nvidia.com'].profile == '1g.5gb'"),
            request("mig", "mig.rootport.dev", "device.attributes[\"rootport.dev\"].profile == '1g.5gb'"),
            id="a MIG partition",
        ),
        pytest.param(
            request("gpu", "gpu.nvidia.com", capacity={"requests": {"memory": "10Gi"}}),
            request("gpu", "gpu.rootport.dev", NVIDIA_GPU, capacity={"requests": {"memory": "10Gi"}}),
            id="a share by memory",
        ),
        pytest.param(
            request("all", "gpu.nvidia.com", allocationMode="All"),
            request("all", "gpu.rootport.dev", NVIDIA_GPU, allocationMode="All"),
            id="all GPUs of a node",
        ),
    ],
)
def test_a_request_gets_rootports_class_and_attributes(written: dict[str, Any], wanted: dict[str, Any]) -> None:
    before = copy.deepcopy(written)
    conversion = convert(claim([written]))
    assert devices(conversion)["requests"] == [wanted]
    assert written == before
    assert convert(conversion.object).outcome is Outcome.UNCHANGED


@pytest.mark.parametrize(
    ("expression", "class_"),
    [
        pytest.param('device.attributes["dra.net"].rdma == true', "rdma.rootport.dev", id="a NIC"),
        pytest.param(
            'device.attributes["dra.net"].rdma && device.attributes["dra.net"].isSriovVf',
            "rdma-vf.rootport.dev",
            id="a VF",
        ),
    ],
)
def test_a_request_of_dranet_moves_the_interface_as_dranet_does(expression: str, class_: str) -> None:
    conversion = convert(claim([request("nic", "dranet", expression)]))
    written = devices(conversion)
    assert written["requests"] == [request("nic", class_)]
    assert written["config"] == [
        config("rootport.dev", {"apiVersion": OWN, "kind": "RdmaConfig", "interface": {}}, "nic")
    ]
    assert conversion.outcome is Outcome.NOTED


@pytest.mark.parametrize(
    ("parameters", "wanted"),
    [
        pytest.param({"apiVersion": VERSION, "kind": "GpuConfig"}, None, id="no sharing"),
        pytest.param(sharing("GpuConfig", strategy="TimeSlicing"), {"strategy": "timeSlicing"}, id="time-slicing"),
        pytest.param(
            sharing("GpuConfig", strategy="TimeSlicing", timeSlicingConfig={"interval": "Long"}),
            {"strategy": "timeSlicing", "timeSlicing": {"interval": "Long"}},
            id="its interval",
        ),
        pytest.param(sharing("GpuConfig", strategy="MPS"), {"strategy": "mps"}, id="MPS"),
        pytest.param(
            sharing(
                "GpuConfig",
                strategy="MPS",
                mpsConfig={"defaultActiveThreadPercentage": 50, "defaultPinnedDeviceMemoryLimit": "10Gi"},
            ),
            {"strategy": "mps", "mps": {"activeThreadPercentage": 50, "pinnedDeviceMemoryLimit": "10Gi"}},
            id="its limits",
        ),
        pytest.param(
            sharing("GpuConfig", strategy="MPS", mpsConfig={"defaultPerDevicePinnedMemoryLimit": {"0": "5Gi"}}),
            {"strategy": "mps", "mps": {"pinnedDeviceMemoryLimit": "5Gi"}},
            id="the limit of the one device",
        ),
    ],
)
def test_a_gpu_config_becomes_rootports(parameters: dict[str, Any], wanted: dict[str, Any] | None) -> None:
    conversion = convert(claim([request("gpu", "gpu.nvidia.com")], config=[config("gpu.nvidia.com", parameters)]))
    made = {"apiVersion": OWN, "kind": "GpuConfig", "sharing": wanted}
    assert devices(conversion).get("config", []) == ([] if wanted is None else [config("rootport.dev", made, "gpu")])


def test_a_config_is_for_the_requests_of_its_kind_alone() -> None:
    both = [request("gpu", "gpu.nvidia.com"), request("mig", "mig.nvidia.com")]
    conversion = convert(claim(both, config=[config("gpu.nvidia.com", sharing("GpuConfig", strategy="TimeSlicing"))]))
    assert [entry["requests"] for entry in devices(conversion)["config"]] == [["gpu"]]


def test_a_partitions_time_slicing_is_left_out_with_a_note() -> None:
    conversion = convert(
        claim(
            [request("mig", "mig.nvidia.com")],
            config=[config("gpu.nvidia.com", sharing("MigDeviceConfig", strategy="TimeSlicing"))],
        )
    )
    assert "config" not in devices(conversion)
    assert conversion.outcome is Outcome.NOTED


@pytest.mark.parametrize(
    ("written", "at_fault"),
    [
        pytest.param(
            claim([request("gpu", "vfio.gpu.nvidia.com")]), "requests[0].exactly.deviceClassName", id="a class"
        ),
        pytest.param(
            claim([request("gpu", "gpu.nvidia.com", 'device.attributes["gpu.nvidia.com"].brand == "Tesla"')]),
            "requests[0].exactly.selectors[0].cel.expression",
            id="a selector",
        ),
        pytest.param(
            claim([request("nic", "dranet", 'device.attributes["dra.net"].rdma == false')]),
            "requests[0].exactly.selectors[0].cel.expression",
            id="NICs without RDMA",
        ),
        pytest.param(
            claim([request("gpu", "gpu.nvidia.com", capacity={"requests": {"shares": "1"}})]),
            "requests[0].exactly.capacity.requests.shares",
            id="an amount",
        ),
        pytest.param(
            claim(
                [request("gpu", "gpu.nvidia.com"), request("other", "tpu.google.com")],
                constraints=[{"matchAttribute": "gpu.nvidia.com/productName"}],
            ),
            "constraints[0].matchAttribute",
            id="a constraint with another driver",
        ),
        pytest.param(
            claim(
                [request("mig", "mig.nvidia.com")], constraints=[{"matchAttribute": "resource.kubernetes.io/pciBusID"}]
            ),
            "constraints[0].matchAttribute",
            id="a standard name that partitions lack",
        ),
        pytest.param(
            claim([request("gpu", "gpu.nvidia.com")], constraints=[{"distinctAttribute": "gpu.nvidia.com/minor"}]),
            "constraints[0].distinctAttribute",
            id="a constraint on what nothing stands for",
        ),
        pytest.param(
            claim(
                [request("gpus", "gpu.nvidia.com", count=2, allocationMode="ExactCount")],
                config=[config("gpu.nvidia.com", sharing("GpuConfig", strategy="MPS"))],
            ),
            "config[0].opaque.parameters.sharing.strategy",
            id="MPS of several GPUs",
        ),
        pytest.param(
            claim(
                [request("mig", "mig.nvidia.com")],
                config=[config("gpu.nvidia.com", sharing("MigDeviceConfig", strategy="MPS"))],
            ),
            "config[0].opaque.parameters.sharing.strategy",
            id="MPS of a partition",
        ),
        pytest.param(
            claim(
                [request("gpu", "gpu.nvidia.com")],
                config=[config("gpu.nvidia.com", {"apiVersion": VERSION, "kind": "VfioDeviceConfig"})],
            ),
            "config[0].opaque.parameters.kind",
            id="a kind",
        ),
        pytest.param(
            claim(
                [request("nic", "dranet")], config=[config("dra.net", {"interface": {"addresses": ["10.0.0.2/24"]}})]
            ),
            "config[0].opaque.parameters.interface.addresses",
            id="addresses",
        ),
        pytest.param(
            claim([request("nic", "dranet")], config=[config("dra.net", {"routes": []})]),
            "config[0].opaque.parameters.routes",
            id="routes",
        ),
        pytest.param(
            claim([request("nic", "dranet")], config=[config("dra.net", {"interface": {"name": "eth0"}})]),
            "config[0].opaque.parameters.interface.name",
            id="a name that the pod has",
        ),
    ],
)
def test_what_has_no_equal_is_refused_with_its_field(written: dict[str, Any], at_fault: str) -> None:
    conversion = convert(written)
    assert list(refused(conversion)) == [at_fault]
    assert conversion.object is written


@pytest.mark.parametrize(
    ("constraint", "wanted"),
    [
        pytest.param({"matchAttribute": "resource.kubernetes.io/pcieRoot"}, None, id="a standard name stays"),
        pytest.param(
            {"matchAttribute": "dra.net/numaNode", "requests": ["nic"]}, "resource.kubernetes.io/numaNode", id="dranet"
        ),
        pytest.param(
            {"distinctAttribute": "gpu.nvidia.com/uuid", "requests": ["gpu"]}, "rootport.dev/uuid", id="NVIDIA"
        ),
        pytest.param({"matchAttribute": "dra.net/rdma", "requests": ["nic"]}, "", id="what is always the same goes"),
    ],
)
def test_a_constraint_compares_rootports_attributes(constraint: dict[str, Any], wanted: str | None) -> None:
    pair = [request("gpu", "gpu.nvidia.com"), request("nic", "mrdma.google.com")]
    conversion = convert(claim(pair, constraints=[constraint]))
    [kind] = [name for name in constraint if name.endswith("Attribute")]
    expected = [] if wanted == "" else [constraint | ({} if wanted is None else {kind: wanted})]
    assert devices(conversion).get("constraints", []) == expected


def test_a_prioritized_list_and_requests_of_others() -> None:
    listed = {
        "name": "gpu",
        "firstAvailable": [
            {"name": "big", "deviceClassName": "gpu.nvidia.com"},
            {"name": "small", "deviceClassName": "mig.nvidia.com"},
        ],
    }
    other = request("cpu", "cpu.example.com")
    channel = config("compute-domain.nvidia.com", {"kind": "ComputeDomainChannelConfig"}, "cpu")
    conversion = convert(
        claim(
            [listed, other],
            config=[config("gpu.nvidia.com", sharing("GpuConfig", strategy="MPS"), "gpu"), channel],
        )
    )
    written = devices(conversion)
    assert [each["deviceClassName"] for each in written["requests"][0]["firstAvailable"]] == [
        "gpu.rootport.dev",
        "mig.rootport.dev",
    ]
    assert written["requests"][1] == other
    assert [entry["requests"] for entry in written["config"]] == [["cpu"], ["gpu/big"]] or [
        entry["requests"] for entry in written["config"]
    ] == [["gpu/big"], ["cpu"]]


def test_a_template_of_the_first_beta_becomes_one_of_v1() -> None:
    old = {
        "apiVersion": "resource.k8s.io/v1beta1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": "gpu"},
        "spec": {"spec": {"devices": {"requests": [{"name": "gpu", "deviceClassName": "gpu.nvidia.com", "count": 2}]}}},
    }
    conversion = convert(old)
    assert conversion.object["apiVersion"] == "resource.k8s.io/v1"
    assert conversion.object["spec"]["spec"]["devices"]["requests"] == [
        request("gpu", "gpu.rootport.dev", NVIDIA_GPU, count=2)
    ]


def test_a_device_class_selects_rootports_devices() -> None:
    expression = 'device.driver == "gpu.nvidia.com" && device.attributes["gpu.nvidia.com"].productName == "NVIDIA L4"'
    written = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": "l4"},
        "spec": {
            "selectors": [{"cel": {"expression": expression}}],
            "config": [config("gpu.nvidia.com", sharing("GpuConfig", strategy="MPS"))],
        },
    }
    conversion = convert(written)
    [selector] = conversion.object["spec"]["selectors"]
    assert selector["cel"]["expression"] == (
        '"model" in device.attributes["rootport.dev"] && device.driver == "rootport.dev"'
        ' && device.attributes["rootport.dev"].model == "NVIDIA L4"'
    )
    [entry] = conversion.object["spec"]["config"]
    assert entry["opaque"]["driver"] == "rootport.dev"


def test_a_claim_of_a_class_of_the_users_own_keeps_the_class() -> None:
    conversion = convert(claim([request("gpu", "l4", 'device.attributes["gpu.nvidia.com"].index == 0')]))
    assert devices(conversion)["requests"] == [request("gpu", "l4", 'device.attributes["rootport.dev"].index == 0')]
    assert conversion.outcome is Outcome.NOTED


@pytest.mark.parametrize(
    "written",
    [
        pytest.param(claim([request("cpu", "cpu.example.com")]), id="another driver's"),
        pytest.param(claim([request("gpu", "gpu.rootport.dev")]), id="Rootport's own"),
        pytest.param({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim"}, id="no spec"),
        pytest.param(
            {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "spec": None}, id="a class without one"
        ),
        pytest.param(
            claim([request("gpu", "gpu.nvidia.com")])
            | {"metadata": {"name": "x", "ownerReferences": [{"kind": "Pod", "name": "p"}]}},
            id="one that a template made",
        ),
    ],
)
def test_what_is_of_no_driver_that_is_known_stays(written: dict[str, Any]) -> None:
    conversion = convert(written)
    assert conversion == Conversion(object=written)
    assert conversion.object is written


def test_a_claim_that_has_devices_is_to_be_made_again() -> None:
    written = claim([request("gpu", "gpu.nvidia.com")]) | {"status": {"allocation": {"devices": {}}}}
    conversion = convert(written)
    assert "status" not in conversion.object
    assert conversion.outcome is Outcome.NOTED


@pytest.mark.parametrize("value", [None, 1, "x", [], {}, [1], {"a": 1}], ids=repr)
@pytest.mark.parametrize(
    "path",
    [
        "requests",
        "requests.0",
        "requests.0.exactly",
        "requests.0.exactly.selectors",
        "constraints",
        "constraints.0",
        "config",
        "config.0",
        "config.0.opaque",
        "config.0.opaque.parameters",
        "config.0.opaque.parameters.sharing",
    ],
)
def test_data_of_any_form_is_no_error(path: str, value: object) -> None:
    written = claim(
        [request("gpu", "gpu.nvidia.com", "true")],
        constraints=[{"matchAttribute": "gpu.nvidia.com/uuid"}],
        config=[config("gpu.nvidia.com", sharing("GpuConfig", strategy="MPS"))],
    )
    place: Any = written["spec"]["devices"]
    *steps, last = [int(step) if step.isdecimal() else step for step in path.split(".")]
    for step in steps:
        place = place[step]
    place[last] = value
    assert convert(written).outcome in Outcome


def test_what_is_shown_of_a_claim_is_short_and_harmless_to_a_terminal() -> None:
    hostile = f'device.attributes["\x1b[2J{"x" * 5000}"].a == "gpu.nvidia.com"'
    conversion = convert(claim([request("gpu", "gpu.nvidia.com", hostile)]))
    [finding] = conversion.findings
    assert finding.outcome is Outcome.REFUSED
    assert (finding.text + finding.value + finding.field).isprintable()
    assert len(finding.text) <= 500
