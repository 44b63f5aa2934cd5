"""``DevicePolicies``: what an administrator knows of devices, and which are kept back (``--device-policies``)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Final, Literal, TypeAlias

from pydantic import Field, PlainValidator, StrictBool, StrictStr, field_validator, model_validator
from pydantic_core import PydanticCustomError

from driver import DRIVER_NAME
from driver.api import API_VERSION
from driver.api.policies import ExtraAttribute, Pattern, PoliciesDocument, PolicyObject, attribute_problem, matches
from driver.api.validation.names import byte_length
from driver.api.validation.wording import PLAIN_ERROR

__all__ = [
    "DEFAULT_DEVICE_POLICIES",
    "AttributeValue",
    "DeviceFacts",
    "DevicePolicies",
    "DevicePolicy",
    "DeviceVersion",
]

_MOST_ATTRIBUTES: Final = ExtraAttribute.MOST
_LONGEST: Final = 64
# https://semver.org, "Is there a suggested regular expression": what the API server takes of a version.
_NUMBER: Final = r"(?:0|[1-9][0-9]*)"
_VERSION: Final = re.compile(
    rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}"
    r"(?:-(?:0|[1-9][0-9]*|[0-9]*[A-Za-z-][0-9A-Za-z-]*)(?:\.(?:0|[1-9][0-9]*|[0-9]*[A-Za-z-][0-9A-Za-z-]*))*)?"
    r"(?:\+[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?",
    re.ASCII,
)

_Patterns: TypeAlias = Annotated[tuple[Pattern, ...], Field(min_length=1, max_length=64)]
_Type: TypeAlias = Literal["gpu", "gpu-ratio", "mig", "rdma", "rdma-vf", "fpga"]


@dataclass(frozen=True, slots=True)
class DeviceVersion:
    """A version, which selectors compare by its numbers, in place of a string.

    Attributes:
        version: A semantic version, such as ``1.2.0``.
    """

    version: str


def _value(given: Any) -> bool | int | str | DeviceVersion:
    """Read an attribute's value; one function, where pydantic would tell a mistake once for each type."""
    if isinstance(given, dict) and set(given) == {"version"} and isinstance(given["version"], str):
        if byte_length(given["version"]) <= _LONGEST and _VERSION.fullmatch(given["version"]):
            return DeviceVersion(given["version"])
        raise PydanticCustomError(PLAIN_ERROR, "version: expected a semantic version, such as 1.2.0", {})
    if isinstance(given, int) and -(2**63) <= given < 2**63:  # or a bool
        return given
    if isinstance(given, str) and given.isprintable() and 1 <= byte_length(given) <= _LONGEST:
        return given
    raise PydanticCustomError(
        PLAIN_ERROR,
        "expected 1 to {longest} bytes of printable text, a whole number, true, false, or {form}; other values "
        "in quotes",
        {"longest": _LONGEST, "form": "{version: 1.2.0}"},
    )


AttributeValue: TypeAlias = Annotated[bool | int | str | DeviceVersion, PlainValidator(_value)]
"""The value of an attribute: text, a whole number, true, false, or ``{version: 1.2.0}``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceFacts:
    """What policies are matched against: the device's own values, and those of the device that it is a part of.

    Attributes:
        type: The type with which it is published.
        node: The node's name.
        models: The models.
        pci_addresses: The PCI addresses: of a VF its own and its NIC's, of a part of a GPU the GPU's.
        if_names: The network interfaces.
        rdma_devices: The RDMA devices.
        pcie_switches: The values of the attribute ``pcieSwitch``.
    """

    type: str
    node: str
    models: tuple[str | None, ...] = (None,)
    pci_addresses: tuple[str | None, ...] = (None,)
    if_names: tuple[str | None, ...] = (None,)
    rdma_devices: tuple[str | None, ...] = (None,)
    pcie_switches: tuple[str | None, ...] = (None,)


class DevicePolicy(PolicyObject):
    """What holds for some devices. Of the fields that say for which, all that are there must match; none: for all.

    Attributes:
        types: The types that devices are published with, as the attribute ``type`` has them.
        models: Glob patterns (``*``, ``?``, ``[...]``) on the device's model, case-sensitive, such as ``*H100*``. These
            and the following match a part of a device (a VF, a pool of VFs, a MIG partition) by the whole one as well.
        nodes: Likewise on the node's name.
        pci_addresses: Likewise on its PCI address.
        if_names: Likewise on the names of its network interfaces, of which one must match.
        rdma_devices: Likewise on its RDMA device, such as ``mlx5_0``.
        pcie_switches: Likewise on the PCI address of the switch that its attribute ``pcieSwitch`` names.
        attributes: What the devices publish beyond Rootport's own attributes, by full names.
        offer: Whether the devices are published at all.
        default_route: ``allow``: a NIC that has the node's default route can be allocated as any other, and its
            interface can be moved into a pod, which cuts the node off unless it has another way. ``protect``: not so.
    """

    types: Annotated[tuple[_Type, ...], Field(min_length=1, max_length=6)] | None = None
    models: _Patterns | None = None
    nodes: _Patterns | None = None
    pci_addresses: _Patterns | None = None
    if_names: _Patterns | None = None
    rdma_devices: _Patterns | None = None
    pcie_switches: _Patterns | None = None
    attributes: Mapping[Annotated[StrictStr, Field(max_length=128)], AttributeValue] = Field(default_factory=dict)
    offer: StrictBool | None = None
    default_route: Literal["allow", "protect"] | None = None

    @field_validator("attributes")
    @classmethod
    def _are_own(cls, value: Mapping[str, AttributeValue]) -> Mapping[str, AttributeValue]:
        for name in value:
            if problem := _name_problem(name):
                raise PydanticCustomError(PLAIN_ERROR, "{problem}", {"problem": problem})
        if len(value) > _MOST_ATTRIBUTES:
            raise PydanticCustomError(
                PLAIN_ERROR,
                "{count} attributes are too many: Kubernetes allows 32 attributes and capacities a device, which "
                "leaves room for {most}",
                {"count": len(value), "most": _MOST_ATTRIBUTES},
            )
        return value

    @model_validator(mode="after")
    def _says_something(self) -> DevicePolicy:
        if not self.attributes and self.offer is None and self.default_route is None:
            raise PydanticCustomError(
                PLAIN_ERROR, "say what holds for these devices: with attributes, offer or defaultRoute", {}
            )
        return self

    def is_for(self, device: DeviceFacts) -> bool:
        """Whether the policy is for a device; an unknown value matches ``*`` alone."""
        if self.types is not None and device.type not in self.types:
            return False
        wishes = (
            (self.models, device.models),
            (self.nodes, (device.node,)),
            (self.pci_addresses, device.pci_addresses),
            (self.if_names, device.if_names or (None,)),
            (self.rdma_devices, device.rdma_devices),
            (self.pcie_switches, device.pcie_switches),
        )
        return all(matches(patterns, *values) for patterns, values in wishes if patterns is not None)


def _name_problem(name: str) -> str | None:
    if problem := attribute_problem(name):
        return problem
    if name.rpartition("/")[0] == DRIVER_NAME:
        return f"{name} is in the domain of Rootport's own attributes: use a domain of yours, such as example.com/role"
    return None


class DevicePolicies(PoliciesDocument):
    """All policies. For a device all that match it hold; the first that says something wins over those behind it.

    Attributes:
        policies: For each attribute, for ``offer`` and for ``defaultRoute`` the first match that has it wins.
    """

    KIND: ClassVar[str] = "DevicePolicies"

    kind: Literal["DevicePolicies"]
    policies: Annotated[tuple[DevicePolicy, ...], Field(max_length=1000)] = ()

    def of(self, device: DeviceFacts) -> Iterator[tuple[int, DevicePolicy]]:
        """Yield the policies that are for a device, each with its place in the file from 0."""
        return ((place, policy) for place, policy in enumerate(self.policies) if policy.is_for(device))


DEFAULT_DEVICE_POLICIES: Final = DevicePolicies.model_validate({"apiVersion": API_VERSION, "kind": DevicePolicies.KIND})
"""No attributes but Rootport's own, every device on offer, and no NIC with the default route lent."""
