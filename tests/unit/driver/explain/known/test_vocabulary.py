"""Did you mean …? Names and values of what is published, and what a wrong one was meant to be."""

from __future__ import annotations

from typing import Any

import pytest

from driver.adapters.manifests.claims import read_manifest_text
from driver.api.resource_v1 import Device
from driver.explain.known.vocabulary import OWN_ATTRIBUTES, OWN_CAPACITIES, OWN_CLASSES, Vocabulary
from resourceclasses import device_classes_text


def device(name: str = "d", capacity: dict[str, Any] | None = None, **attributes: object) -> Device:
    kinds: dict[type, str] = {str: "string", int: "int", bool: "bool"}
    wire = {key.replace("__", "/"): {kinds[type(value)]: value} for key, value in attributes.items()}
    return Device.model_validate({"name": name, "attributes": wire, "capacity": capacity or {}})


GPU = device(
    capacity={"core": {"value": "100"}, "memory": {"value": "80Gi"}},
    type="gpu",
    model="NVIDIA H100 80GB HBM3",
    pcieSwitch="0000:3a:00.0",
    index=0,
)
OTHER = Device.model_validate(
    {
        "name": "o",
        "attributes": {"productName": {"string": "X"}, "resource.kubernetes.io/pcieRoot": {"string": "pci0000:00"}},
    }
)


@pytest.fixture(scope="module")
def vocabulary() -> Vocabulary:
    devices = [
        ("rootport.dev", GPU),
        ("rootport.dev", GPU),
        ("rootport.dev", device(type="gpu", model="NVIDIA A100-SXM4-40GB")),
    ]
    return Vocabulary.of([*devices, ("gpu.example.com", OTHER)], classes=["gpu.rootport.dev", "rdma.rootport.dev"])


def test_names_and_values_are_counted_with_the_drivers_domain(vocabulary: Vocabulary) -> None:
    assert vocabulary.devices == {"rootport.dev": 3, "gpu.example.com": 1}
    assert vocabulary.attributes["rootport.dev/model"] == 3
    assert vocabulary.attributes["rootport.dev/pcieSwitch"] == 2
    assert vocabulary.attributes["gpu.example.com/productName"] == 1
    assert vocabulary.attributes["resource.kubernetes.io/pcieRoot"] == 1
    assert vocabulary.capacities == {"rootport.dev/core": 2, "rootport.dev/memory": 2}
    assert vocabulary.values("rootport.dev/model") == (("NVIDIA H100 80GB HBM3", 2), ("NVIDIA A100-SXM4-40GB", 1))
    assert vocabulary.values("rootport.dev/index") == (("0", 2),)
    assert not vocabulary.values("rootport.dev/nothing")


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        pytest.param("rootport.dev/model", None, id="published"),
        pytest.param("rootport.dev/rail", None, id="not-published-now"),
        pytest.param("rootport.dev/Model", "rootport.dev/model", id="case"),
        pytest.param("rootport.dev/pcie-switch", "rootport.dev/pcieSwitch", id="dash"),
        pytest.param("rootport.dev/pcieSwich", "rootport.dev/pcieSwitch", id="typo"),
        pytest.param("rootport.dev/gpuModel", "rootport.dev/model", id="prefix"),
        pytest.param("model", "rootport.dev/model", id="without-domain"),
        pytest.param("gpu.rootport.dev/model", "rootport.dev/model", id="domain-of-the-class"),
        pytest.param("rootport.dev/pcieRoot", "resource.kubernetes.io/pcieRoot", id="standard-name"),
        pytest.param("resource.kubernetes.io/pcieBusID", "resource.kubernetes.io/pciBusID", id="standard-typo"),
        pytest.param("rootport.dev/productName", "gpu.example.com/productName", id="another-drivers"),
        pytest.param("rootport.dev/numa", "rootport.dev/numaNode", id="other-word"),
        pytest.param("rootport.dev/zzzzqqq", None, id="nothing-near"),
        pytest.param("", None, id="empty"),
    ],
)
def test_an_attribute_is_suggested(vocabulary: Vocabulary, name: str, meant: str | None) -> None:
    assert vocabulary.suggest_attribute(name) == meant


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        pytest.param("memory", None, id="known"),
        pytest.param("rootport.dev/memory", None, id="known-in-full"),
        pytest.param("vfs", None, id="not-published-now"),
        pytest.param("mem", "memory", id="short"),
        pytest.param("Memory", "memory", id="case"),
        pytest.param("cores", "core", id="plural"),
        pytest.param("gpuMemory", "memory", id="prefix"),
        pytest.param("rootport.dev/memroy", "rootport.dev/memory", id="typo-in-full"),
        pytest.param("bandwith", "bandwidth", id="typo-of-what-could-be"),
        pytest.param("zzzz", None, id="nothing-near"),
    ],
)
def test_a_capacity_is_suggested_in_the_form_it_was_written(
    vocabulary: Vocabulary, name: str, meant: str | None
) -> None:
    assert vocabulary.suggest_capacity(name) == meant


@pytest.mark.parametrize(
    ("attribute", "value", "meant"),
    [
        pytest.param("rootport.dev/model", "NVIDIA H100 80GB HBM3", None, id="known"),
        pytest.param("rootport.dev/model", "H100", "NVIDIA H100 80GB HBM3", id="part"),
        pytest.param("rootport.dev/model", "nvidia a100 sxm4 40gb", "NVIDIA A100-SXM4-40GB", id="case-and-dashes"),
        pytest.param("rootport.dev/model", "NVIDIA A100-SXM4-80GB", "NVIDIA A100-SXM4-40GB", id="near"),
        pytest.param("rootport.dev/type", "GPU", "gpu", id="case"),
        pytest.param("rootport.dev/model", "B300", None, id="nothing-near"),
        pytest.param("rootport.dev/none", "x", None, id="unknown-attribute"),
    ],
)
def test_a_value_is_suggested(vocabulary: Vocabulary, attribute: str, value: str, meant: str | None) -> None:
    assert vocabulary.suggest_value(attribute, value) == meant


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        pytest.param("gpu.rootport.dev", None, id="known"),
        pytest.param("gpu.rootport.com", "gpu.rootport.dev", id="typo"),
        pytest.param("gpu", "gpu.rootport.dev", id="short"),
        pytest.param("gpu.nvidia.com", None, id="another-driver"),
        pytest.param("GPU.rootport.dev", "gpu.rootport.dev", id="case"),
        pytest.param("tpu.google.com", None, id="nothing-near"),
    ],
)
def test_a_class_is_suggested(vocabulary: Vocabulary, name: str, meant: str | None) -> None:
    assert vocabulary.suggest_class(name) == meant


def test_without_devices_rootports_own_names_are_known() -> None:
    nothing = Vocabulary()
    assert nothing.suggest_attribute("rootport.dev/gpuModel") == "rootport.dev/model"
    assert nothing.suggest_capacity("memroy") == "memory"
    assert nothing.suggest_value("rootport.dev/model", "H100") is None


def test_every_name_that_rootport_publishes_is_in_its_own_vocabulary() -> None:
    assert {"rootport.dev/model", "resource.kubernetes.io/pcieRoot", "rootport.dev/rail"} <= OWN_ATTRIBUTES
    assert {"rootport.dev/core", "rootport.dev/vfs", "rootport.dev/bandwidth"} <= OWN_CAPACITIES
    assert not OWN_ATTRIBUTES & OWN_CAPACITIES


def test_a_class_of_rootports_own_is_to_be_installed_and_no_other_one_is_meant() -> None:
    there = Vocabulary(["gpu.rootport.dev"])
    assert there.suggest_class("fpga.rootport.dev") is None
    assert "kubectl apply -k" in there.class_hint("fpga.rootport.dev")
    assert there.class_hint("gpus.rootport.dev") == "did you mean gpu.rootport.dev?"
    assert there.class_hint("gpu.rootport.dev") != ""
    assert there.class_hint("something.else.example") == ""
    of_manifests = {item.device_class.metadata.name for item in read_manifest_text(device_classes_text(), "x").classes}
    assert of_manifests == OWN_CLASSES


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("gpu.nvidia.com", ""),
        ("dranet.net", ""),
        ("gpu.rootport.com", "did you mean gpu.rootport.dev?"),
        ("gpu", "did you mean gpu.rootport.dev?"),
    ],
)
def test_a_class_of_another_domain_is_not_taken_for_a_slip_of_the_pen(name: str, hint: str) -> None:
    assert Vocabulary(["gpu.rootport.dev", "rdma.rootport.dev"]).class_hint(name) == hint
