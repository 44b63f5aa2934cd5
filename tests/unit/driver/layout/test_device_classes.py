"""The DeviceClasses that kubectl apply installs: valid, and one for each type that is published."""

from __future__ import annotations

import pytest
import yaml

from driver.api.resource_v1 import DeviceClass
from driver.api.validation.claims import validate_device_class
from resourceclasses import device_classes_text
from tests.support.machines import fpga, nic, node, published, value
from tests.support.mig_machines import mig_gpu

CLASSES = [DeviceClass.model_validate(document) for document in yaml.safe_load_all(device_classes_text())]


@pytest.mark.parametrize("device_class", CLASSES, ids=lambda device_class: device_class.metadata.name)
def test_each_class_is_valid_and_names_api_version_and_kind(device_class: DeviceClass) -> None:
    assert validate_device_class(device_class) == ()
    assert (device_class.api_version, device_class.kind) == ("resource.k8s.io/v1", "DeviceClass")


OF_OTHER_STRATEGIES = {
    f"{kind}-{suffix}.rootport.dev": (kind, strategy)
    for kind in ("gpu", "gpu-ratio")
    for suffix, strategy in (("mps", "mps"), ("hami-core", "hamiCore"))
}


def test_there_is_one_class_for_each_type_of_device_and_of_gpus_for_each_strategy() -> None:
    inventory = node(mig_gpu("01"), nic("02"), nic("03", vfs=1), fpga("04"))
    types = {value(device, "type") for device in published(inventory)}
    names = {device_class.metadata.name for device_class in CLASSES}
    assert names == {f"{kind}.rootport.dev" for kind in types} | OF_OTHER_STRATEGIES.keys()


def test_a_class_of_another_strategy_carries_it() -> None:
    for device_class in CLASSES:
        _, strategy = OF_OTHER_STRATEGIES.get(device_class.metadata.name, ("", None))
        parameters = [entry.opaque.parameters for entry in device_class.spec.config if entry.opaque is not None]
        head = {"apiVersion": "rootport.dev/v1alpha1", "kind": "GpuConfig"}
        assert parameters == ([] if strategy is None else [head | {"sharing": {"strategy": strategy}}])


@pytest.mark.parametrize("device_class", CLASSES, ids=lambda device_class: device_class.metadata.name)
def test_each_class_asks_for_the_driver_before_it_reads_an_attribute(device_class: DeviceClass) -> None:
    name = device_class.metadata.name
    kind, strategy = OF_OTHER_STRATEGIES.get(name, (name.removesuffix(".rootport.dev"), "timeSlicing"))
    of_strategy = f' && device.attributes["rootport.dev"].sharingStrategy == "{strategy}"'
    (selector,) = device_class.spec.selectors
    assert selector.cel is not None
    assert selector.cel.expression == (
        f'device.driver == "rootport.dev" && device.attributes["rootport.dev"].type == "{kind}"'
        f"{of_strategy if kind.startswith('gpu') else ''}"
    )
