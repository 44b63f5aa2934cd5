"""What the administrator's policies of every kind of device have in common.

Policies are a file, not an object of the API server: the controller reads it from a mounted ConfigMap, the CLI from
wherever it is told. A mistake in it never comes from a claim, so it is refused as a whole, with all mistakes at once
and the path of each field.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Annotated, ClassVar, Final, Literal, TypeAlias

from pydantic import ConfigDict, Field, StrictStr, field_validator
from pydantic_core import PydanticCustomError

from driver.api.quantity import Quantity
from driver.api.resource_v1 import Wire

__all__ = ["API_VERSION", "WRONG", "AmountSteps", "PoliciesDocument", "PolicyForModels", "PolicyObject"]

API_VERSION: Final = "rootport.dev/v1alpha1"
WRONG: Final = "policies"
"""The type of those validation errors whose messages say all that there is to say."""

_MOST: Final = 2**63 - 1

_Pattern: TypeAlias = Annotated[StrictStr, Field(min_length=1, max_length=253)]


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
                WRONG,
                "expected whole {unit}, at least 1, such as {example}, not {value}",
                {"unit": cls.unit, "example": cls.example, "value": str(value)},
            )
        return value


class PolicyForModels(PolicyObject):
    """Rules for some devices, by model and node.

    Attributes:
        models: Glob patterns (``*``, ``?``, ``[...]``) on the device's model, case-sensitive, such as ``*H100*``.
        nodes: Likewise on the node's name.
    """

    models: Annotated[tuple[_Pattern, ...], Field(min_length=1)] = ("*",)
    nodes: Annotated[tuple[_Pattern, ...], Field(min_length=1)] = ("*",)

    def is_for(self, *, model: str | None, node: str) -> bool:
        """Whether the rules are for a device of that model on that node; an unknown model matches ``*`` alone."""
        return any(fnmatchcase(model or "", pattern) for pattern in self.models) and any(
            fnmatchcase(node, pattern) for pattern in self.nodes
        )


class PoliciesDocument(PolicyObject):
    """A file of policies of one kind.

    Attributes:
        KIND: The kind, as it stands in the file.
        policies: The first that matches a device holds for it, as a whole.
    """

    KIND: ClassVar[str]

    api_version: Literal["rootport.dev/v1alpha1"]
    policies: tuple[PolicyForModels, ...] = ()
