"""Knows what Rootport publishes of each kind of device, for claims that are checked without a cluster.

docs/user/attributes.md has the same; a test holds it against what the layout makes of real machines.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Final, Literal, TypeAlias

from driver import DRIVER_NAME
from driver.api.quantity import Quantity
from driver.api.resource_v1 import Device, DeviceAttribute, DeviceCapacity, DeviceClass
from driver.cel import CelEvaluationError
from driver.config.gpu_classes import SHARED_GPU_CLASSES
from driver.explain.known.vocabulary import CAPACITIES
from driver.layout import attributes as a
from driver.lint.questions import ask
from driver.model.devices import DeviceType

__all__ = [
    "ATTRIBUTES",
    "GPU_KINDS",
    "NIC_KINDS",
    "OFTEN_ABSENT",
    "AttributeType",
    "attribute_type",
    "attributes_of",
    "kinds_by_name",
    "kinds_of",
    "samples",
]

AttributeType: TypeAlias = Literal["string", "int", "version"]

GPU_KINDS: Final = frozenset({DeviceType.GPU, DeviceType.GPU_RATIO, DeviceType.MIG})
NIC_KINDS: Final = frozenset({DeviceType.RDMA, DeviceType.RDMA_VF})

_EVERY: Final = frozenset({a.STANDARD_PCIE_ROOT, a.STANDARD_NUMA_NODE, a.TYPE, a.PCIE_SWITCH})
_COMMON: Final = _EVERY | {a.STANDARD_PCI_BUS_ID, a.VENDOR, a.MODEL, a.INDEX, a.NUMA_NODE}
_GPU: Final = _COMMON | {
    a.UUID, a.ARCHITECTURE, a.DRIVER_VERSION, a.CUDA_DRIVER_VERSION, a.CUDA_COMPUTE_CAPABILITY, a.NVLINK_DOMAIN,
    a.NVLINK_OCTET, a.NVLINK_QUAD, a.NVLINK_PAIR,
}  # fmt: skip
_SHARED_GPU: Final = _GPU | {a.SHARING_STRATEGY}
_NIC: Final = _COMMON | {
    a.MULTUS_DEVICE_ID, a.MULTUS_RESOURCE_NAME, a.RDMA_DEVICE, a.IF_NAME, a.LINK_TYPE, a.LINK_SPEED, a.LINK_STATE,
    a.RDMA_NETNS, a.RAIL,
}  # fmt: skip

_OF_KIND: Final[Mapping[DeviceType, frozenset[str]]] = {
    DeviceType.GPU: _SHARED_GPU,
    DeviceType.GPU_RATIO: _SHARED_GPU,
    DeviceType.MIG: _EVERY | {a.PROFILE, a.PARENT, a.PARENT_UUID},
    DeviceType.RDMA: _NIC | {a.GUID},
    DeviceType.RDMA_VF: _NIC | {a.PARENT},
    DeviceType.FPGA: _COMMON,
}


def _full(names: frozenset[str]) -> frozenset[str]:
    return frozenset(name if "/" in name else f"{DRIVER_NAME}/{name}" for name in names)


ATTRIBUTES: Final[Mapping[DeviceType, frozenset[str]]] = {kind: _full(names) for kind, names in _OF_KIND.items()}
"""Full names of the attributes that a device of a kind may have."""

OFTEN_ABSENT: Final = _full(
    frozenset({
        a.PCIE_SWITCH, a.NVLINK_DOMAIN, a.NVLINK_OCTET, a.NVLINK_QUAD, a.NVLINK_PAIR, a.RAIL, a.IF_NAME, a.GUID,
        a.PARENT_UUID,
    })
)  # fmt: skip
"""Attributes that healthy devices of many machines lack; a selector has to ask first whether they are there."""


_INTS: Final = _full(frozenset({a.STANDARD_NUMA_NODE, a.INDEX, a.NUMA_NODE, a.LINK_SPEED, a.RAIL}))
_VERSIONS: Final = _full(frozenset({a.DRIVER_VERSION, a.CUDA_DRIVER_VERSION, a.CUDA_COMPUTE_CAPABILITY}))


def attribute_type(name: str) -> AttributeType:
    """Return the type of an attribute that Rootport publishes, by its full name."""
    return "int" if name in _INTS else "version" if name in _VERSIONS else "string"


@cache
def samples(kind: DeviceType) -> tuple[Device, ...]:
    """Return devices that have all that a device of this kind may have, with unlike values.

    What ends with an error for each of them is wrong in its types or its constants, and not for one value.
    """
    return tuple(
        Device(
            name="any",
            attributes={name: _sample(name, number, text) for name in ATTRIBUTES[kind]}
            | {a.TYPE: DeviceAttribute(string_value=kind.value)},
            capacity={name: DeviceCapacity(value=Quantity.of(number)) for name in CAPACITIES[kind]},
        )
        for number, text in ((1, "1"), (3, "0000:c1:00.0"), (80 * 2**30, "NVIDIA H100 80GB HBM3"))
    )


def _sample(name: str, number: int, text: str) -> DeviceAttribute:
    match attribute_type(name):
        case "int":
            return DeviceAttribute(int_value=number)
        case "version":
            return DeviceAttribute(version_value=f"{number}.0.0")
        case "string":
            return DeviceAttribute(string_value=text)


def attributes_of(kinds: frozenset[DeviceType]) -> frozenset[str]:
    """Return the attributes that some device of these kinds may have."""
    return frozenset().union(*(ATTRIBUTES[kind] for kind in kinds))


def kinds_of(device_class: DeviceClass) -> frozenset[DeviceType]:
    """Return which kinds of Rootport's devices a class may select; none if it selects devices of another driver.

    Asked of its selectors with a device that has nothing but its type. What a class asks beyond the type it may ask of
    every kind, so a selector that cannot be answered leaves the kind in.

    Raises:
        SpentError: The budget in force is spent.
    """
    own = [
        part.cel.expression for part in device_class.spec.selectors if part.cel and DRIVER_NAME in part.cel.expression
    ]
    if not own:
        return frozenset()
    return frozenset(kind for kind in ATTRIBUTES if all(_may_select(expression, kind) for expression in own))


def kinds_by_name(device_class: str) -> frozenset[DeviceType]:
    """Return the same for a class of which only the name is known: ``gpu.rootport.dev`` is one of Rootport's."""
    if device_class in SHARED_GPU_CLASSES:
        return frozenset({SHARED_GPU_CLASSES[device_class][0]})
    return frozenset(kind for kind in ATTRIBUTES if device_class == f"{kind.value}.{DRIVER_NAME}")


def _may_select(expression: str, kind: DeviceType) -> bool:
    device = Device(name="any", attributes={a.TYPE: DeviceAttribute(string_value=kind.value)})
    try:
        return ask(expression, DRIVER_NAME, device) is not False
    except CelEvaluationError:
        return True
