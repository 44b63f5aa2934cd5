"""``GpuPolicies``: an administrator's rules for allocating GPUs, per model and per node (``--gpu-policies``)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Final, Literal, TypeAlias

from pydantic import (
    BeforeValidator,
    Field,
    StrictInt,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from driver.api import API_VERSION
from driver.api.gpu_modes import ALL_MODES, MOST_CORE, GpuMode
from driver.api.policies import (
    AmountSteps,
    ExtraAttribute,
    Pattern,
    PoliciesDocument,
    PolicyForModels,
    PolicyObject,
    matches,
)
from driver.api.quantity import Quantity
from driver.api.validation.wording import PLAIN_ERROR

__all__ = [
    "DEFAULT_POLICIES",
    "CoreSteps",
    "ExtraGpuAttribute",
    "GpuPolicies",
    "GpuPolicy",
    "MemorySteps",
    "NodeAllocatable",
    "PercentSteps",
    "ShareStrategy",
    "TimeSliceLength",
]

_HUNDRED: Final = 100
_MOST_NODE_RESOURCES: Final = 8

_Percent: TypeAlias = Annotated[StrictInt, Field(ge=1, le=_HUNDRED)]

ShareStrategy: TypeAlias = Literal["timeSlicing", "mps", "hamiCore"]
"""How containers share a GPU (``GpuConfig.sharing.strategy``); ``exclusive`` is no sharing."""

TimeSliceLength: TypeAlias = Literal["Default", "Short", "Medium", "Long"]
"""``GpuConfig.sharing.timeSlicing.interval``."""

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


class CoreSteps(PercentSteps):
    """Which percentages of a GPU's core a share may have, what one has that asks for none, and how much is promised.

    Attributes:
        default: What a share has that asks for no core, in percent: one of the percentages that a share may have, or,
            where :attr:`minimum` and :attr:`step` are equal, 0. None is 0 where that is possible, else the minimum.
            Whoever allows 100 alone (``minimum: 100``) allows no shares beside each other, so there it is 100.
        total: Up to which sum the core of one GPU is promised to shares, in percent. More than 100 oversells it.
    """

    default: Annotated[StrictInt, Field(ge=0, le=_HUNDRED)] | None = None
    total: Annotated[StrictInt, Field(ge=_HUNDRED, le=MOST_CORE)] = _HUNDRED

    @model_validator(mode="after")
    def _has_an_allowed_default(self) -> CoreSteps:
        if self.default is None or (self.default == 0 and self.minimum == self.step):
            return self
        if self.default < self.minimum or (self.default - self.minimum) % self.step:
            raise PydanticCustomError(
                PLAIN_ERROR,
                "default, {default}, must be minimum, {minimum}, and a multiple of step, {step}; 0 is possible where "
                "minimum and step are equal",
                {"default": self.default, "minimum": self.minimum, "step": self.step},
            )
        return self

    @property
    def unasked(self) -> int:
        """What a share has that asks for no core, in percent; 0 for none."""
        if self.default is not None:
            return self.default
        return 0 if self.minimum == self.step < _HUNDRED else self.minimum


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
        "cudaDriverVersion", "cudaComputeCapability", "nvlinkDomain", "nvlinkOctet", "nvlinkQuad", "nvlinkPair",
        "sharingStrategy", "profile", "parent", "parentUUID", "resource.kubernetes.io/pcieRoot",
        "resource.kubernetes.io/pciBusID",
    ] = Field(alias="from")  # fmt: skip


def _node_allocatable(value: Any) -> Any:
    """Read ``{cpu: "14", hugepages-1Gi: 16Gi}``; a tuple is read already."""
    if not isinstance(value, Mapping):
        return value
    if not 1 <= len(value) <= _MOST_NODE_RESOURCES:
        raise PydanticCustomError(PLAIN_ERROR, "expected one to {most} resources", {"most": _MOST_NODE_RESOURCES})
    found = []
    for name, amount in sorted(value.items(), key=str):
        # k8s.io/kubernetes v1.37.2, pkg/apis/core/helper, IsNodeAllocatableResourceName.
        if not (name in ("cpu", "memory") or str(name).startswith("hugepages-")):
            raise PydanticCustomError(
                PLAIN_ERROR, "{name}: expected cpu, memory, or huge pages such as hugepages-1Gi", {"name": str(name)}
            )
        try:
            quantity = Quantity(str(amount))
        except ValueError as error:
            raise PydanticCustomError(PLAIN_ERROR, "{name}: {error}", {"name": name, "error": str(error)}) from error
        if quantity.nano <= 0:
            raise PydanticCustomError(PLAIN_ERROR, "{name}: expected more than 0", {"name": name})
        found.append((str(name), quantity))
    return tuple(found)


NodeAllocatable: TypeAlias = Annotated[
    tuple[tuple[str, Quantity], ...], BeforeValidator(_node_allocatable), WithJsonSchema({"type": "object"})
]
"""Amounts of a node's resources, by name and in order of the names."""


class GpuPolicy(PolicyForModels):
    """The rules of some GPUs.

    Attributes:
        modes: In which ways the GPUs are on offer. A GPU that an administrator has partitioned is on offer by those
            partitions, where ``mig`` is among them, and not at all otherwise.
        core: The percentages of a GPU's core that a share may have.
        memory: The amounts of memory that a share may have.
        memory_ratio: The percentages of a GPU's memory that a share of type gpu-ratio may have.
        max_shares: How many shares a GPU has at most; None for as many as the minimums allow.
        pci_addresses: Glob patterns on the GPU's PCI address, such as ``0000:1b:*``; letters of either case.
        strategy: How claims share the GPUs, unless there are ``strategies``.
        strategies: Deprecated: the first one is the strategy.
        extra_attributes: What the GPUs, and their partitions, publish beyond Rootport's own attributes.
        time_slicing_intervals: The intervals that claims with time slices may have, the preferred one first.
        node_allocatable: What of the node's CPU, memory and huge pages each pod has besides with a claim on the GPU,
            beyond what it requests itself (KEP-5517; alpha feature gate DRANodeAllocatableResources). Kubernetes adds
            it for each claim in full, however small its share, so ``max_shares`` must be 1. MIG partitions have none.
    """

    modes: Annotated[tuple[GpuMode, ...], Field(min_length=1)] = ALL_MODES
    core: CoreSteps = CoreSteps()
    memory: MemorySteps = MemorySteps()
    memory_ratio: PercentSteps = PercentSteps()
    max_shares: _Percent | None = None
    pci_addresses: Annotated[tuple[Pattern, ...], Field(min_length=1)] = ("*",)
    strategy: ShareStrategy = "timeSlicing"
    strategies: Annotated[tuple[ShareStrategy, ...], Field(min_length=1)] | None = None
    time_slicing_intervals: Annotated[tuple[TimeSliceLength, ...], Field(min_length=1)] = _ALL_INTERVALS
    extra_attributes: tuple[ExtraGpuAttribute, ...] = ()
    node_allocatable: NodeAllocatable | None = None

    @field_validator("modes", "strategies", "time_slicing_intervals")
    @classmethod
    def _none_twice(cls, value: tuple[str, ...] | None, info: ValidationInfo) -> tuple[str, ...] | None:
        if value is not None and len(set(value)) < len(value):
            raise PydanticCustomError(PLAIN_ERROR, "{what} is there twice", {"what": _WHAT[str(info.field_name)]})
        return value

    @model_validator(mode="after")
    def _has_one_strategy(self) -> GpuPolicy:
        if self.strategies is not None and "strategy" in self.model_fields_set:
            raise PydanticCustomError(
                PLAIN_ERROR,
                "strategy and strategies are the new and the old way to say one thing: leave out strategies",
            )
        return self

    @model_validator(mode="after")
    def _gives_the_node_once(self) -> GpuPolicy:
        if self.node_allocatable is not None and self.max_shares != 1:
            raise PydanticCustomError(
                PLAIN_ERROR,
                "nodeAllocatable needs maxShares: 1, because Kubernetes counts it in full for each share of a GPU",
            )
        return self

    @property
    def share_strategy(self) -> ShareStrategy:
        """The one strategy by which claims share these GPUs."""
        return self.strategies[0] if self.strategies else self.strategy

    def is_for_gpu(self, *, model: str | None, node: str, address: str) -> bool:
        """Whether the rules are for a GPU of that model, on that node, at that PCI address."""
        patterns = (pattern.lower() for pattern in self.pci_addresses)
        return self.is_for(model=model, node=node) and matches(patterns, address.lower())


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

    @property
    def notes(self) -> tuple[str, ...]:
        """See :attr:`PoliciesDocument.notes`."""
        return tuple(
            f"policies[{index}].strategies is deprecated: {policy.share_strategy} alone is the strategy of these GPUs, "
            "and only the DeviceClasses of that strategy select them; set strategy instead"
            for index, policy in enumerate(self.policies)
            if policy.strategies
        )

    def of(self, *, model: str | None, node: str, address: str) -> GpuPolicy:
        """Return the rules for a GPU of that model, on that node, at that PCI address."""
        return next(
            (policy for policy in self.policies if policy.is_for_gpu(model=model, node=node, address=address)), _DEFAULT
        )


DEFAULT_POLICIES: Final = GpuPolicies.model_validate({"apiVersion": API_VERSION, "kind": GpuPolicies.KIND})
"""Every GPU in every mode, by any percentage and any mebibyte."""
