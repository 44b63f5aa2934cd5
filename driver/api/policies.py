"""What the administrator's policies of every kind of device have in common.

Policies are a file, not an object of the API server: the controller reads it from a mounted ConfigMap, the CLI from
wherever it is told. A mistake in it never comes from a claim, so it is refused as a whole, with all mistakes at once
and the path of each field.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Annotated, ClassVar, Final, Literal, TypeAlias

from pydantic import ConfigDict, Field, StrictStr, field_validator, model_validator
from pydantic_core import PydanticCustomError

from driver import DRIVER_NAME
from driver.api.quantity import Quantity
from driver.api.resource_v1 import Wire
from driver.api.validation.names import full_attribute_name
from driver.api.validation.wording import PLAIN_ERROR

__all__ = [
    "AmountSteps",
    "ExtraAttribute",
    "Pattern",
    "PoliciesDocument",
    "PolicyForModels",
    "PolicyObject",
    "attribute_problem",
    "matches",
    "may_be_extra",
]

_MOST: Final = 2**63 - 1

Pattern: TypeAlias = Annotated[StrictStr, Field(min_length=1, max_length=253)]
"""A glob pattern (``*``, ``?``, ``[...]``), case-sensitive."""


def matches(patterns: Iterable[str], *values: str | None) -> bool:
    """Whether any of the patterns matches any of the values; an unknown value matches ``*`` alone."""
    return any(fnmatchcase(value or "", pattern) for pattern in patterns for value in values)


def may_be_extra(attribute: str) -> bool:
    """Whether policies may have devices publish an attribute of this full name that is none of Rootport's own."""
    domain = attribute.rpartition("/")[0]
    return bool(domain) and domain != DRIVER_NAME and not _is_standard(domain)


def _is_standard(domain: str) -> bool:
    return f".{domain}".endswith((".kubernetes.io", ".k8s.io", ".cncf.io"))


def attribute_problem(name: str) -> str | None:
    """Return why policies may have no attribute of this name, for a person; None where they may."""
    domain = name.rpartition("/")[0]
    for error in full_attribute_name("", name):
        return f"name: {error.message}"
    if "/" in domain:
        return f"name: {name} has more than one '/'"
    if _is_standard(domain):
        return f"{name} is a standard name: what it says is not ours to decide"
    return None


class PolicyObject(Wire):
    """Fields by their names on the wire alone."""

    model_config = ConfigDict(populate_by_name=False)


class AmountSteps(PolicyObject):
    """Which amounts a share may have: ``minimum``, and any number of steps above it, up to what the device has.

    Attributes:
        minimum: The least. A claim that asks for less is given this much.
        step: Claims that ask for something in between are given the next amount above.
    """

    unit: ClassVar[str]
    example: ClassVar[str]

    minimum: Quantity
    step: Quantity

    @field_validator("minimum", "step")
    @classmethod
    def _is_whole(cls, value: Quantity) -> Quantity:
        if not value.is_whole() or not 1 <= value.ceil() <= _MOST:
            raise PydanticCustomError(
                PLAIN_ERROR,
                "expected whole {unit}, at least 1, such as {example}, not {value}",
                {"unit": cls.unit, "example": cls.example, "value": str(value)},
            )
        return value


class ExtraAttribute(PolicyObject):
    """An attribute that devices publish beyond Rootport's own.

    Attributes:
        MOST: How many there can be. The API server takes 32 attributes and capacities a device (KEP-4381), and a device
            has 22 of Rootport's own at most.
        name: Its name with its domain, such as ``gpu.nvidia.com/productName``.
        source: Rootport's attribute that it has the value of, as docs/user/attributes.md names it.
    """

    MOST: ClassVar[int] = 10

    name: Annotated[StrictStr, Field(max_length=128)]
    source: str = Field(alias="from")

    @model_validator(mode="after")
    def _is_no_other_attribute(self) -> ExtraAttribute:
        domain, _, name = self.name.rpartition("/")
        if problem := attribute_problem(self.name):
            raise PydanticCustomError(PLAIN_ERROR, "{problem}", {"problem": problem})
        if domain == DRIVER_NAME and name != self.source:
            raise PydanticCustomError(
                PLAIN_ERROR,
                "{name} would not be what it says: in {domain} an attribute has the name of its value, {source}",
                {"name": self.name, "domain": DRIVER_NAME, "source": self.source},
            )
        return self


class PolicyForModels(PolicyObject):
    """Rules for some devices, by model and node.

    Attributes:
        models: Glob patterns (``*``, ``?``, ``[...]``) on the device's model, case-sensitive, such as ``*H100*``.
        nodes: Likewise on the node's name.
        extra_attributes: What the devices publish beyond Rootport's own attributes.
    """

    models: Annotated[tuple[Pattern, ...], Field(min_length=1)] = ("*",)
    nodes: Annotated[tuple[Pattern, ...], Field(min_length=1)] = ("*",)
    extra_attributes: tuple[ExtraAttribute, ...] = ()

    @field_validator("extra_attributes")
    @classmethod
    def _are_few_and_different(cls, value: tuple[ExtraAttribute, ...]) -> tuple[ExtraAttribute, ...]:
        if len(value) > ExtraAttribute.MOST:
            raise PydanticCustomError(
                PLAIN_ERROR,
                "{count} extra attributes are too many: Kubernetes allows 32 attributes and capacities a device, which "
                "leaves room for {most}",
                {"count": len(value), "most": ExtraAttribute.MOST},
            )
        twice = [name for name, times in Counter(entry.name for entry in value).items() if times > 1]
        if twice:
            raise PydanticCustomError(PLAIN_ERROR, "{name} is there twice", {"name": twice[0]})
        return value

    def is_for(self, *, model: str | None, node: str) -> bool:
        """Whether the rules are for a device of that model on that node; an unknown model matches ``*`` alone."""
        return matches(self.models, model) and matches(self.nodes, node)


class PoliciesDocument(PolicyObject):
    """A file of policies of one kind.

    Attributes:
        KIND: The kind, as it stands in the file.
        policies: The first that matches a device comes before those behind it.
    """

    KIND: ClassVar[str]

    api_version: Literal["rootport.dev/v1alpha1"]
    policies: tuple[PolicyObject, ...] = ()

    @property
    def notes(self) -> tuple[str, ...]:
        """What administrators should know of fields that are deprecated, one sentence each."""
        return ()
