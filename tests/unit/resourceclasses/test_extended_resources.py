"""The DeviceClasses behind extended resources, evaluated on what machines publish: what a unit of each name is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import pytest
import yaml

from driver.adapters import catalogue
from driver.adapters.manifests.claims import read_manifest_text
from driver.api.resource_v1 import Device, DeviceClass
from driver.api.validation.claims import validate_device_class
from driver.cel import compile_selector
from driver.layout.slices import resource_slices
from driver.model.devices import Gpu, RdmaNic
from tests.support.installation import FOLDER
from tests.support.machines import gpu, nic, node
from tests.support.mig_machines import mig_gpu

COMPONENT = FOLDER / "components/extended-resources"
CLASSES: list[DeviceClass] = [
    manifest.device_class
    for name in yaml.safe_load((COMPONENT / "kustomization.yaml").read_text())["resources"]
    for manifest in read_manifest_text((COMPONENT / name).read_text(), name).classes
]
BY_RESOURCE = {item.spec.extended_resource_name: item for item in CLASSES}
MIG = "nvidia.com/mig-"
MEMORY = 192 * 1024**3


def devices(*of: Gpu | RdmaNic) -> list[Device]:
    return [device for part in resource_slices(node(*of)) for device in part.spec.devices]


def selected(resource: str, published: Iterable[Device], driver: str = "rootport.dev") -> list[str]:
    """The names of the devices that one unit of a resource may be."""
    expressions = [item.cel.expression for item in BY_RESOURCE[resource].spec.selectors if item.cel is not None]
    return [
        device.name
        for device in published
        if all(compile_selector(expression).matches(driver, device) for expression in expressions)
    ]


@pytest.mark.parametrize("device_class", CLASSES, ids=lambda item: item.metadata.name)
def test_the_api_server_takes_the_classes(device_class: DeviceClass) -> None:
    assert validate_device_class(device_class) == ()
    assert device_class.metadata.name.endswith(".rootport.dev")


def test_no_name_has_two_classes() -> None:
    assert max(Counter(item.spec.extended_resource_name for item in CLASSES).values()) == 1
    assert {"nvidia.com/gpu", "amd.com/gpu", "rdma/hca"} < BY_RESOURCE.keys()


def test_nvidia_com_gpu_is_each_gpu_once_and_whole() -> None:
    published = devices(mig_gpu("01"), mig_gpu("02"), gpu("03", vendor="amd", memory_bytes=MEMORY), nic("04"))
    types = Counter(device.attributes["type"].string_value for device in published)
    assert types["gpu-ratio"] == 3
    assert types["mig"] > 0
    assert selected("nvidia.com/gpu", published) == ["gpu-0000-01-00-0", "gpu-0000-02-00-0"]
    assert selected("amd.com/gpu", published) == ["gpu-0000-03-00-0"]


def test_a_request_without_amounts_takes_all_of_a_gpu() -> None:
    (whole,) = (item for item in devices(mig_gpu("01")) if item.name == "gpu-0000-01-00-0")
    policy = whole.capacity["memory"].request_policy
    assert policy is not None
    assert policy.default == policy.valid_range.max == whole.capacity["memory"].value  # type: ignore[union-attr]


def test_a_mig_name_is_of_its_profile_alone_with_a_dot_for_a_plus() -> None:
    """As NVIDIA/k8s-device-plugin names them, internal/rm/rm.go, AddDefaultResourcesToConfig."""
    published = devices(mig_gpu("01"))
    profiles = {device.attributes["profile"].string_value for device in published if "profile" in device.attributes}
    assert "1g.10gb+me" in profiles
    for profile in profiles:
        assert profile is not None
        names = selected(MIG + profile.replace("+", "."), published)
        assert names
        found = {device.attributes["profile"].string_value for device in published if device.name in names}
        assert found == {profile}


def test_each_mig_class_is_named_after_the_profile_that_it_selects() -> None:
    for resource, item in BY_RESOURCE.items():
        if resource is not None and resource.startswith(MIG):
            (selector,) = item.spec.selectors
            assert selector.cel is not None
            profile = selector.cel.expression.rpartition(' == "')[2].rstrip('"')
            assert resource == MIG + profile.replace("+", ".")
            assert item.metadata.name == f"mig-{profile.replace('+', '.')}.rootport.dev"


def test_each_profile_of_the_catalogue_has_a_name() -> None:
    profiles = {profile.name for of_card in catalogue.load().mig_profiles.values() for profile in of_card}
    assert len(profiles) > 10
    assert {MIG + name.replace("+", ".") for name in profiles} <= BY_RESOURCE.keys()


def test_rdma_names_are_whole_nics() -> None:
    published = devices(nic("01"), nic("02", vfs=2), gpu("03"))
    assert selected("rdma/hca", published) == ["rdma-0000-01-00-0"]


def test_another_drivers_devices_are_no_unit() -> None:
    assert [name for name in BY_RESOURCE if name and selected(name, [Device(name="gpu-0")], "gpu.nvidia.com")] == []
