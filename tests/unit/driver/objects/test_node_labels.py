"""Labels of a Node, by the names and values of Koordinator and of GPU Feature Discovery."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from driver.model.devices import Gpu, MigSupport
from driver.objects.node_labels import NODE_LABELS, node_labels
from tests.support.machines import gpu, nic, node


def h100(bus: str = "10", **fields: Any) -> Gpu:
    known: dict[str, Any] = {
        "model": "NVIDIA H100 80GB HBM3",
        "memory_bytes": 81559 << 20,
        "architecture": "Hopper",
        "cuda_compute_capability": "9.0",
        "driver_version": "580.159.03",
        "cuda_driver_version": "13.0",
        "mig": MigSupport(enabled=False),
    }
    return gpu(bus, **(known | fields))


def test_a_node_has_the_labels_that_both_systems_write() -> None:
    assert node_labels(node(h100("10"), h100("11"), nic("20"))) == {
        "node.koordinator.sh/gpu-vendor": "nvidia",
        "node.koordinator.sh/gpu-model": "H100-80GB-HBM3",
        "node.koordinator.sh/gpu-driver-version": "580.159.03",
        "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3",
        "nvidia.com/gpu.count": "2",
        "nvidia.com/gpu.memory": "81559",
        "nvidia.com/gpu.family": "hopper",
        "nvidia.com/gpu.compute.major": "9",
        "nvidia.com/gpu.compute.minor": "0",
        "nvidia.com/mig.capable": "true",
        "nvidia.com/cuda.driver.major": "580",
        "nvidia.com/cuda.driver.minor": "159",
        "nvidia.com/cuda.driver.rev": "03",
        "nvidia.com/cuda.driver-version.major": "580",
        "nvidia.com/cuda.driver-version.minor": "159",
        "nvidia.com/cuda.driver-version.revision": "03",
        "nvidia.com/cuda.driver-version.full": "580.159.03",
        "nvidia.com/cuda.runtime.major": "13",
        "nvidia.com/cuda.runtime.minor": "0",
        "nvidia.com/cuda.runtime-version.major": "13",
        "nvidia.com/cuda.runtime-version.minor": "0",
        "nvidia.com/cuda.runtime-version.full": "13.0",
    }


def test_all_that_a_node_may_have_is_in_the_list() -> None:
    assert set(node_labels(node(h100()))) == set(NODE_LABELS)


@pytest.mark.parametrize(
    ("model", "product", "koordinators"),
    [
        ("Tesla V100-SXM2-16GB", "Tesla-V100-SXM2-16GB", "Tesla-V100-SXM2-16GB"),
        ("NVIDIA A100-SXM4-40GB", "NVIDIA-A100-SXM4-40GB", "A100-SXM4-40GB"),
        # internal/lm/resource.go, sanitise: what a label cannot have goes, and spaces are one dash.
        ("Quadro RTX 6000/8000", "Quadro-RTX-60008000", "Quadro-RTX-60008000"),
        ("NVIDIA GH200 480GB  (x)", "NVIDIA-GH200-480GB-x", "GH200-480GB-x"),
    ],
)
def test_a_model_is_written_as_each_of_them_writes_it(model: str, product: str, koordinators: str) -> None:
    found = node_labels(node(h100(model=model)))
    assert found["nvidia.com/gpu.product"] == product
    assert found["node.koordinator.sh/gpu-model"] == koordinators


@pytest.mark.parametrize(
    ("architecture", "family"), [("Ada Lovelace", "ada-lovelace"), ("Blackwell", "blackwell"), ("Volta", "volta")]
)
def test_a_family_is_written_as_gpu_feature_discovery_writes_it(architecture: str, family: str) -> None:
    assert node_labels(node(h100(architecture=architecture)))["nvidia.com/gpu.family"] == family


def test_what_differs_between_gpus_has_no_label() -> None:
    other = h100("11", model="NVIDIA A100-SXM4-40GB", memory_bytes=40960 << 20, driver_version="580.159.03", mig=None)
    found = node_labels(node(h100(), other))
    assert {"nvidia.com/gpu.product", "nvidia.com/gpu.memory", "node.koordinator.sh/gpu-model"}.isdisjoint(found)
    assert (found["nvidia.com/gpu.count"], found["nvidia.com/mig.capable"]) == ("2", "true")
    assert found["node.koordinator.sh/gpu-driver-version"] == "580.159.03"


def test_gpus_of_another_vendor_have_none_of_nvidias_labels() -> None:
    amd = h100(vendor="amd", model="AMD Instinct MI300X", driver_version="6.10.5", mig=None)
    assert node_labels(node(amd)) == {
        "node.koordinator.sh/gpu-vendor": "amd",
        "node.koordinator.sh/gpu-model": "AMD-Instinct-MI300X",
        "node.koordinator.sh/gpu-driver-version": "6.10.5",
    }


def test_a_node_without_gpus_and_gpus_of_which_nothing_is_known_have_next_to_nothing() -> None:
    assert node_labels(node(nic("20"))) == {}
    assert node_labels(node(gpu("10"))) == {
        "node.koordinator.sh/gpu-vendor": "nvidia",
        "nvidia.com/gpu.count": "1",
        "nvidia.com/mig.capable": "false",
    }


def test_a_driver_version_of_two_parts_has_an_empty_revision() -> None:
    found = node_labels(node(h100(driver_version="590.44")))
    assert (found["nvidia.com/cuda.driver.rev"], found["nvidia.com/cuda.driver-version.full"]) == ("", "590.44")


# k8s.io/apimachinery v0.37.2, pkg/util/validation, IsValidLabelValue.
_VALID = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")


@pytest.mark.parametrize("text", ["x" * 128, "-", "…", "a\nb", "   ", "{}", "../..", "é" * 9, "_x_"])
@pytest.mark.parametrize(
    "field", ["model", "vendor", "architecture", "driver_version", "cuda_driver_version", "cuda_compute_capability"]
)
def test_whatever_a_node_says_is_a_valid_value_or_nothing(field: str, text: str) -> None:
    found = node_labels(node(replace(h100(), **{field: text})))
    assert set(found) <= set(NODE_LABELS)
    assert all(_VALID.fullmatch(value) and len(value) <= 63 for value in found.values())
