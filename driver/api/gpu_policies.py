"""``GpuPolicies``: an administrator's rules for allocating GPUs, per model and per node (``--gpu-policies``)."""

from __future__ import annotations

from typing import Annotated, ClassVar, Final, Literal, TypeAlias

from pydantic import Field, StrictInt, ValidationInfo, field_validator, model_validator
from pydantic_core import PydanticCustomError

from driver.api import API_VERSION
from driver.api.gpu_modes import ALL_MODES, GpuMode
from driver.api.policies import (
    AmountSteps,
    ExtraAttribute,
    PoliciesDocument,
    PolicyForModels,
    PolicyObject,
)
from driver.api.quantity import Quantity
from driver.api.validation.wording import PLAIN_ERROR

__all__ = [
    "DEFAULT_POLICIES",
    "ExtraGpuAttribute",
    "GpuPolicies",
    "GpuPolicy",
    "MemorySteps",
    "PercentSteps",
    "ShareStrategy",
    "TimeSliceLength",
]

_HUNDRED: Final = 100

_Percent: TypeAlias = Annotated[StrictInt, Field(ge=1, le=_HUNDRED)]

ShareStrategy: TypeAlias = Literal["timeSlicing", "mps", "hamiCore"]
"""How containers share a GPU (``GpuConfig.sharing.strategy``); ``exclusive`` is no sharing."""

TimeSliceLength: TypeAlias = Literal["Default", "Short", "Medium", "Long"]
"""``GpuConfig.sharing.timeSlicing.interval``."""

_ALL_STRATEGIES: Final[tuple[ShareStrategy, ...]] = ("timeSlicing", "mps", "hamiCore")
_ALL_INTERVALS: Final[tuple[TimeSliceLength, ...]] = ("Default", "Short", "Medium", "Long")


class PercentSteps(PolicyObject):
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
                PLAIN_ERROR,
                "100 - minimum, {rest}, must be a multiple of step, {step}: the whole GPU is one of the values",
                {"rest": _HUNDRED - self.minimum, "step": self.step},
            )
        return self


class MemorySteps(AmountSteps):
    """Which amounts of memory a share may have."""

    unit: ClassVar[str] = "bytes"
    example: ClassVar[str] = "1Gi"

    minimum: Quantity = Quantity("1Mi")
    step: Quantity = Quantity("1Mi")


class ExtraGpuAttribute(ExtraAttribute):
    """An attribute of GPUs and MIG partitions. A partition has of its GPU what is the same for all partitions of it."""

    source: Literal[
        "type", "vendor", "model", "index", "numaNode", "pcieSwitch", "uuid", "architecture", "driverVersion",
        "cudaDriverVersion", "cudaComputeCapability", "nvlinkDomain", "profile", "parent", "parentUUID",
        "resource.kubernetes.io/pcieRoot", "resource.kubernetes.io/pciBusID",
    ] = Field(alias="from")  # fmt: skip


class GpuPolicy(PolicyForModels):
    """The rules of some GPUs.

    Attributes:
        modes: In which ways the GPUs are on offer. A GPU that an administrator has partitioned is on offer by those
            partitions, where ``mig`` is among them, and not at all otherwise.
        core: The percentages of a GPU's compute that a share may have.
        memory: The amounts of memory that a share may have.
        memory_ratio: The percentages of a GPU's memory that a share of type gpu-ratio may have.
        max_shares: How many shares a GPU has at most; None for as many as the minimums allow.
        strategies: The sharing strategies that claims may have, the preferred one first; a claim may always have a
            whole GPU to itself.
        extra_attributes: What the GPUs, and their partitions, publish beyond Rootport's own attributes.
        time_slicing_intervals: The intervals that claims with time slices may have, the preferred one first.
    """

    modes: Annotated[tuple[GpuMode, ...], Field(min_length=1)] = ALL_MODES
    core: PercentSteps = PercentSteps()
    memory: MemorySteps = MemorySteps()
    memory_ratio: PercentSteps = PercentSteps()
    max_shares: _Percent | None = None
    strategies: Annotated[tuple[ShareStrategy, ...], Field(min_length=1)] = _ALL_STRATEGIES
    time_slicing_intervals: Annotated[tuple[TimeSliceLength, ...], Field(min_length=1)] = _ALL_INTERVALS
    extra_attributes: tuple[ExtraGpuAttribute, ...] = ()

    @field_validator("modes", "strategies", "time_slicing_intervals")
    @classmethod
    def _none_twice(cls, value: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        if len(set(value)) < len(value):
            raise PydanticCustomError(PLAIN_ERROR, "{what} is there twice", {"what": _WHAT[str(info.field_name)]})
        return value


_WHAT: Final = {"modes": "a mode", "strategies": "a strategy", "time_slicing_intervals": "an interval"}
_DEFAULT: Final = GpuPolicy()


class GpuPolicies(PoliciesDocument):
    """All rules; for a GPU the first that is for it holds, and the defaults where none is.

    Attributes:
        policies: The first match wins.
    """

    KIND: ClassVar[str] = "GpuPolicies"

    kind: Literal["GpuPolicies"]
    policies: Annotated[tuple[GpuPolicy, ...], Field(max_length=1000)] = ()

    def of(self, *, model: str | None, node: str) -> GpuPolicy:
        """Return the rules for a GPU of that model on that node."""
        return next((policy for policy in self.policies if policy.is_for(model=model, node=node)), _DEFAULT)


DEFAULT_POLICIES: Final = GpuPolicies.model_validate({"apiVersion": API_VERSION, "kind": GpuPolicies.KIND})
"""Every GPU in every mode, by any percentage and any mebibyte."""
