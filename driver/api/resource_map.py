"""The resource map: which extended resources of device plugins stand for which RDMA NICs.

An administrator writes it, because a device plugin's configuration is on the nodes: a pod says
``openshift.io/mlnxnics: 1`` and nothing of what that is.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Annotated, ClassVar, Final, Literal, TypeAlias

from pydantic import AfterValidator, Field, StrictInt, StrictStr, field_validator, model_validator
from pydantic_core import PydanticCustomError

from driver import DRIVER_NAME
from driver.api.policies import PolicyObject
from driver.api.quantity import Quantity
from driver.api.resource_v1 import MAX_RESULTS
from driver.api.validation.errors import shown
from driver.api.validation.wording import PLAIN_ERROR

__all__ = ["MappedResource", "ResourceMap"]

_MOST_RESOURCES: Final = 256
_MOST_OF_ONE: Final = 16
_LONGEST: Final = 253 + 1 + 63
_LABEL: Final = r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?"
_DOMAIN: Final = rf"{_LABEL}(?:\.{_LABEL})*"
_PART: Final = r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_BEGINNING: Final = r"(?:[A-Za-z0-9][-A-Za-z0-9_.]{0,61})?\*"


def _like(pattern: str, expected: str) -> AfterValidator:
    """Return the check that a text has a form, with a message for people."""
    form = re.compile(pattern, re.ASCII)

    def check(value: str) -> str:
        if len(value) > _LONGEST or form.fullmatch(value) is None:
            raise PydanticCustomError(
                PLAIN_ERROR, "expected {expected}, not {value}", {"expected": expected, "value": shown(value)}
            )
        return value

    return AfterValidator(check)


_Pattern: TypeAlias = Annotated[
    StrictStr,
    _like(f"{_DOMAIN}/(?:{_PART}|{_BEGINNING})", "a resource, such as openshift.io/mlnxnics, or with * at its end"),
]
_Resource: TypeAlias = Annotated[StrictStr, _like(f"{_DOMAIN}/{_PART}", "a resource, such as openshift.io/mlnxnics")]
_Class: TypeAlias = Annotated[StrictStr, _like(_DOMAIN, "a DeviceClass, such as rdma-vf.rootport.dev")]
_Network: TypeAlias = Annotated[
    StrictStr, _like(f"(?:{_LABEL}/)?{_DOMAIN}", "a NetworkAttachmentDefinition, by name or namespace/name")
]
_Expression: TypeAlias = Annotated[StrictStr, Field(min_length=1, max_length=10 * 1024)]


class MappedResource(PolicyObject):
    """What one unit of a resource stands for.

    Attributes:
        name: The resource's name; with ``*`` at the end all names that begin so.
        device_class_name: The DeviceClass of the request.
        count: How many NICs or VFs one unit is.
        bandwidth: Bits per second of each NIC; without it the claim has the NIC to itself.
        selectors: CEL expressions that each device has to meet.
        networks: The NetworkAttachmentDefinitions, by name or namespace/name, that attach a device of the resource to a
            pod: the claim's RdmaConfig takes their place, and moves the interface into the pod.
    """

    name: _Pattern
    device_class_name: _Class = f"rdma.{DRIVER_NAME}"
    count: Annotated[StrictInt, Field(ge=1, le=MAX_RESULTS)] = 1
    bandwidth: Quantity | None = None
    selectors: Annotated[tuple[_Expression, ...], Field(max_length=_MOST_OF_ONE)] = ()
    networks: Annotated[tuple[_Network, ...], Field(max_length=_MOST_OF_ONE)] = ()

    @field_validator("bandwidth")
    @classmethod
    def _is_whole(cls, value: Quantity | None) -> Quantity | None:
        if value is not None and not (value.is_whole() and 1 <= value.ceil() < 2**63):
            raise PydanticCustomError(
                PLAIN_ERROR, "expected bits per second, such as 10G, not {value}", {"value": str(value)}
            )
        return value

    @model_validator(mode="after")
    def _shares_only_nics(self) -> MappedResource:
        if self.bandwidth is not None and self.device_class_name == f"rdma-vf.{DRIVER_NAME}":
            raise PydanticCustomError(PLAIN_ERROR, "bandwidth: is of whole NICs, a VF has none: leave it out")
        return self


class ResourceMap(PolicyObject):
    """Which extended resources of device plugins stand for which RDMA NICs.

    Attributes:
        resources: The resources; a whole name counts before one that ends in ``*``.
        share_strategy: The strategy of shares of HAMi, Volcano, TKE qGPU and Alibaba Cloud, which limited them:
            ``hamiCore`` where nodes have the library; None is Rootport's default, which limits nothing.
        left_alone: Names of resources that stay in the pods: their device plugin, or a DeviceClass that serves them as
            an extended resource, gives them out.
    """

    KIND: ClassVar[str] = "ResourceMap"

    api_version: Literal["rootport.dev/v1alpha1"]
    kind: Literal["ResourceMap"]
    resources: Annotated[tuple[MappedResource, ...], Field(max_length=_MOST_RESOURCES)] = ()
    share_strategy: Literal["hamiCore"] | None = None
    left_alone: Annotated[tuple[_Resource, ...], Field(max_length=_MOST_RESOURCES)] = ()

    @field_validator("resources")
    @classmethod
    def _are_different(cls, value: tuple[MappedResource, ...]) -> tuple[MappedResource, ...]:
        networks = [network for resource in value for network in resource.networks]
        for kind, names in (("resource", [item.name for item in value]), ("network", networks)):
            twice = [name for name, times in Counter(names).items() if times > 1]
            if twice:
                raise PydanticCustomError(
                    PLAIN_ERROR, "the {kind} {name} is there twice", {"kind": kind, "name": twice[0]}
                )
        return value
