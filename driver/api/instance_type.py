"""A cloud's instance type in a page of YAML: its names, where its facts come from, and what its nodes say of PCIe.

The file has a :class:`~driver.api.machine.Machine` as its second document, which says what devices there are.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import Field, StrictStr

from driver.api.policies import PolicyObject

__all__ = ["InstanceType", "NamedType"]

_Text: TypeAlias = Annotated[StrictStr, Field(min_length=1, max_length=1000)]


class NamedType(PolicyObject):
    """One of the instance types that have these devices.

    Attributes:
        name: What the cloud calls it, and what the Node's label ``node.kubernetes.io/instance-type`` says.
        gpu_model: The GPUs' model, by which :mod:`driver.adapters.catalogue` knows them.
    """

    name: Annotated[StrictStr, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$")]
    gpu_model: _Text


class InstanceType(PolicyObject):
    """What is known of nodes of an instance type.

    Attributes:
        cloud: Whose it is.
        instance_types: Those that differ in nothing but the GPUs' model.
        pcie_roots: The PCIe roots that a node reports, as the standard attribute pcieRoot names them. A device is below
            the one with the highest bus that is not higher than its own. Empty where nodes report none.
        sources: Where the facts come from, one fact or kind of facts each.
        checked: What they have been compared with, and what has not been.
        not_known: What a node publishes that the description leaves out because no source has it; sentences for users.
    """

    api_version: Literal["rootport.dev/v1alpha1"]
    kind: Literal["InstanceType"]
    cloud: _Text
    instance_types: Annotated[tuple[NamedType, ...], Field(min_length=1)]
    pcie_roots: tuple[Annotated[StrictStr, Field(pattern=r"^pci[0-9a-f]{4}:[0-9a-f]{2}$")], ...] = ()
    sources: Annotated[tuple[_Text, ...], Field(min_length=1)]
    checked: _Text
    not_known: tuple[_Text, ...] = ()
