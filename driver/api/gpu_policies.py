"""``GpuPolicies``: what an administrator lets be given of GPUs, per model and per node.

The object is a file, not an object of the API server: the controller reads it from a mounted ConfigMap
(``--gpu-policies``), the CLI from wherever it is told. A mistake in it never comes from a claim, so it is refused as a
whole, with all mistakes at once and the path of each field.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Annotated, Final, Literal, TypeAlias

from pydantic import ConfigDict, Field, StrictInt, StrictStr, field_validator, model_validator
from pydantic_core import PydanticCustomError

from driver.api.quantity import Quantity
from driver.api.resource_v1 import Wire

__all__ = [
    "API_VERSION",
    "DEFAULT_POLICIES",
    "KIND",
    "GpuMode",
    "GpuPolicies",
    "GpuPolicy",
    "MemorySteps",
    "PercentSteps",
]

API_VERSION: Final = "rootport.dev/v1alpha1"
KIND: Final = "GpuPolicies"

_HUNDRED: Final = 100
_MOST_BYTES: Final = 2**63 - 1
_WRONG: Final = "gpu_policies"

_Percent: TypeAlias = Annotated[StrictInt, Field(ge=1, le=_HUNDRED)]
_Pattern: TypeAlias = Annotated[StrictStr, Field(min_length=1, max_length=253)]

GpuMode: TypeAlias = Literal["gpu", "gpu-ratio", "mig"]
"""A way in which a GPU is given: the type of the device that is published for it."""

_ALL_MODES: Final[tuple[GpuMode, ...]] = ("gpu", "gpu-ratio", "mig")


class _Object(Wire):
    """Fields by their names on the wire alone."""

    model_config = ConfigDict(populate_by_name=False)


class PercentSteps(_Object):
    """Which percentages a share may have: ``minimum``, and any number of steps above it.

    Attributes:
        minimum: The least, in percent. A claim that asks for less is given this much.
        step: In percent; ``100 - minimum`` is a multiple of it, because the whole GPU must be one of the values. A
            claim that asks for something in between is given the next value above.
    """

    minimum: _Percent = 1
    step: _Percent = 1

    @model_validator(mode="after")
    def _reaches_all(self) -> PercentSteps:
        if (_HUNDRED - self.minimum) % self.step:
            raise PydanticCustomError(
                _WRONG,
                "100 - minimum, {rest}, must be a multiple of step, {step}: the whole GPU is one of the values",
                {"rest": _HUNDRED - self.minimum, "step": self.step},
            )
        return self


class MemorySteps(_Object):
    """Which amounts of memory a share may have: ``minimum``, and any number of steps above it, up to the card's.

    Attributes:
        minimum: The least. A claim that asks for less is given this much.
        step: Claims that ask for something in between are given the next amount above.
    """

    minimum: Quantity = Quantity("1Mi")
    step: Quantity = Quantity("1Mi")

    @field_validator("minimum", "step")
    @classmethod
    def _is_bytes(cls, value: Quantity) -> Quantity:
        if not value.is_whole() or not 1 <= value.ceil() <= _MOST_BYTES:
            raise PydanticCustomError(
                _WRONG, "expected whole bytes, at least 1, such as 1Gi, not {value}", {"value": str(value)}
            )
        return value


class GpuPolicy(_Object):
    """The rules of some GPUs.

    Attributes:
        models: Glob patterns (``*``, ``?``, ``[...]``) on the GPU's model, case-sensitive, such as ``*H100*``.
        nodes: Likewise on the node's name.
        modes: In which ways the GPUs are on offer. A GPU that an administrator has partitioned is on offer by those
            partitions, where ``mig`` is among them, and not at all otherwise.
        core: The percentages of a GPU's compute that a share may have.
        memory: The amounts of memory that a share may have.
        memory_ratio: The percentages of a GPU's memory that a share of type gpu-ratio may have.
        max_shares: How many shares a GPU has at most; None for as many as the minimums allow.
    """

    models: Annotated[tuple[_Pattern, ...], Field(min_length=1)] = ("*",)
    nodes: Annotated[tuple[_Pattern, ...], Field(min_length=1)] = ("*",)
    modes: Annotated[tuple[GpuMode, ...], Field(min_length=1)] = _ALL_MODES
    core: PercentSteps = PercentSteps()
    memory: MemorySteps = MemorySteps()
    memory_ratio: PercentSteps = PercentSteps()
    max_shares: _Percent | None = None

    @field_validator("modes")
    @classmethod
    def _no_mode_twice(cls, value: tuple[GpuMode, ...]) -> tuple[GpuMode, ...]:
        if len(set(value)) < len(value):
            raise PydanticCustomError(_WRONG, "a mode is there twice")
        return value

    def is_for(self, *, model: str | None, node: str) -> bool:
        """Whether the rules are for a GPU of that model on that node; an unknown model matches ``*`` alone."""
        return any(fnmatchcase(model or "", pattern) for pattern in self.models) and any(
            fnmatchcase(node, pattern) for pattern in self.nodes
        )


_DEFAULT: Final = GpuPolicy()


class GpuPolicies(_Object):
    """All rules; for a GPU the first that is for it holds, and the defaults where none is.

    Attributes:
        policies: The first match wins.
    """

    api_version: Literal["rootport.dev/v1alpha1"]
    kind: Literal["GpuPolicies"]
    policies: Annotated[tuple[GpuPolicy, ...], Field(max_length=1000)] = ()

    def of(self, *, model: str | None, node: str) -> GpuPolicy:
        """The rules for a GPU of that model on that node."""
        return next((policy for policy in self.policies if policy.is_for(model=model, node=node)), _DEFAULT)


DEFAULT_POLICIES: Final = GpuPolicies.model_validate({"apiVersion": API_VERSION, "kind": KIND})
"""Every GPU in every mode, by any percentage and any mebibyte."""
