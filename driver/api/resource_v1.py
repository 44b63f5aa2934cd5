"""The objects of ``resource.k8s.io/v1`` (Kubernetes 1.37) that Rootport reads and writes, as frozen pydantic models.

Source of every field, limit and default: k8s.io/api v0.37.2, resource/v1/types.go, without the fields of gates that are
new in 1.37. The models only have the types; :mod:`driver.api.validation` has the values that the API server would
refuse, and ``with_defaults`` there sets what it would default. Unknown fields are refused (a typo in a claim must not
pass silently); to read an object that a newer API server wrote, validate with ``extra="ignore"``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, Self, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictInt, model_validator
from pydantic.alias_generators import to_camel

from driver.api.claim_reference import ClaimReference
from driver.api.quantity import Quantity

__all__ = [
    "API_VERSION",
    "MAX_CONSTRAINTS",
    "MAX_REQUESTS",
    "MAX_RESULTS",
    "AllocatedDeviceStatus",
    "AllocationResult",
    "CapacityRequestPolicy",
    "CapacityRequestPolicyRange",
    "CapacityRequirements",
    "CelSelector",
    "ClaimReference",
    "Counter",
    "CounterSet",
    "Device",
    "DeviceAllocationConfiguration",
    "DeviceAllocationResult",
    "DeviceAttribute",
    "DeviceCapacity",
    "DeviceClaim",
    "DeviceClaimConfiguration",
    "DeviceClass",
    "DeviceClassConfiguration",
    "DeviceClassSpec",
    "DeviceConstraint",
    "DeviceCounterConsumption",
    "DeviceRequest",
    "DeviceRequestAllocationResult",
    "DeviceSelector",
    "DeviceSubRequest",
    "DeviceTaint",
    "DeviceToleration",
    "ExactDeviceRequest",
    "Node",
    "NodeAllocatableMapping",
    "NodeAllocatableOverhead",
    "NodeAllocatableResource",
    "NodeSelector",
    "NodeSelectorRequirement",
    "NodeSelectorTerm",
    "ObjectMeta",
    "OpaqueDeviceConfiguration",
    "ResourceClaim",
    "ResourceClaimConsumerReference",
    "ResourceClaimSpec",
    "ResourceClaimStatus",
    "ResourceClaimTemplate",
    "ResourceClaimTemplateSpec",
    "ResourcePool",
    "ResourceSlice",
    "ResourceSliceSpec",
    "Wire",
]

API_VERSION: Final = "resource.k8s.io/v1"

MAX_REQUESTS: Final = 32
"""How many requests a claim may have, and how many a list may refer to (DeviceRequestsMaxSize)."""

MAX_CONSTRAINTS: Final = 32
"""How many constraints a claim may have (DeviceConstraintsMaxSize)."""

MAX_RESULTS: Final = 32
"""How many devices a claim may get (AllocationResultsMaxSize)."""

Int64: TypeAlias = Annotated[StrictInt, Field(ge=-(2**63), le=2**63 - 1)]
"""What Go decodes into an int64: the API server refuses a larger number when it reads the object."""


_set: Final = object.__setattr__
"""Sets an attribute of an object that is immutable otherwise."""


class Wire(BaseModel):
    """A JSON object of the Kubernetes API: camelCase names, immutable, null means absent."""

    model_config = ConfigDict(frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True)

    @model_validator(mode="before")
    @classmethod
    def _drop_null(cls, value: Any) -> Any:
        if isinstance(
            value, (dict, Mapping)
        ):  # a dict first: the check of an abstract class takes longer than the rest
            return {key: item for key, item in value.items() if item is not None}
        return value

    @classmethod
    def of_valid(cls, fields: dict[str, Any]) -> Self:
        """Return an object of values that are known to be valid: ``model_construct`` in a quarter of its time.

        Args:
            fields: Every field, by its name here; nothing is checked, converted or filled in. It becomes the object's.
        """
        made = cls.__new__(cls)
        _set(made, "__dict__", fields)
        _set(made, "__pydantic_fields_set__", set(fields))
        _set(made, "__pydantic_extra__", None)
        _set(made, "__pydantic_private__", None)
        return made

    def to_wire(self) -> dict[str, Any]:
        """Return the object as JSON types, without the fields that are absent or empty (Go's ``omitempty``)."""
        return self.model_dump(mode="json", by_alias=True, exclude_defaults=True)


class ObjectMeta(Wire):
    """The part of an object's metadata that Rootport uses; the rest is accepted and left out."""

    model_config = ConfigDict(extra="ignore")

    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    labels: dict[str, str] = Field(default_factory=dict)
    annotations: dict[str, str] = Field(default_factory=dict)
    resource_version: str = ""
    creation_timestamp: str = ""
    """As the API server writes it: in UTC with whole seconds, so that texts compare as times do."""


class NodeSelectorRequirement(Wire):
    """One requirement on a node's label or field (core/v1)."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


class NodeSelectorTerm(Wire):
    """Requirements that must all hold; a term without any matches no node (core/v1)."""

    match_expressions: tuple[NodeSelectorRequirement, ...] = ()
    match_fields: tuple[NodeSelectorRequirement, ...] = ()


class NodeSelector(Wire):
    """Terms of which one must hold (core/v1)."""

    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()


class Node(Wire):
    """What the allocator needs to know of a node: its name and labels."""

    model_config = ConfigDict(extra="ignore")

    metadata: ObjectMeta = ObjectMeta()


class DeviceAttribute(Wire):
    """An attribute's value: exactly one of the fields is set (lists: alpha gate DRAListTypeAttributes)."""

    int_value: Int64 | None = Field(default=None, alias="int")
    bool_value: StrictBool | None = Field(default=None, alias="bool")
    string_value: str | None = Field(default=None, alias="string")
    version_value: str | None = Field(default=None, alias="version")
    int_values: tuple[Int64, ...] | None = Field(default=None, alias="ints")
    bool_values: tuple[StrictBool, ...] | None = Field(default=None, alias="bools")
    string_values: tuple[str, ...] | None = Field(default=None, alias="strings")
    version_values: tuple[str, ...] | None = Field(default=None, alias="versions")


class CapacityRequestPolicyRange(Wire):
    """Which amounts of a capacity may be consumed: from min to max in steps."""

    min: Quantity | None = None
    max: Quantity | None = None
    step: Quantity | None = None


class CapacityRequestPolicy(Wire):
    """How a request for a capacity is defaulted, rounded up and bounded."""

    default: Quantity | None = None
    valid_values: tuple[Quantity, ...] = ()
    valid_range: CapacityRequestPolicyRange | None = None


class DeviceCapacity(Wire):
    """An amount of something that a device has."""

    value: Quantity
    request_policy: CapacityRequestPolicy | None = None


class Counter(Wire):
    """An amount in a counter set."""

    value: Quantity


class CounterSet(Wire):
    """Counters that several devices of a pool consume."""

    name: str
    counters: dict[str, Counter] = Field(default_factory=dict)


class DeviceCounterConsumption(Wire):
    """What a device consumes of one counter set."""

    counter_set: str
    counters: dict[str, Counter] = Field(default_factory=dict)


class DeviceTaint(Wire):
    """A taint on a device."""

    key: str
    value: str = ""
    effect: str = ""
    time_added: str | None = None


class NodeAllocatableMapping(Wire):
    """How much of a node's resource a device *is*: for each device, or for each unit of a capacity consumed."""

    capacity_key: str | None = None
    capacity_multiplier: Quantity | None = None
    device_multiplier: Quantity | None = None


class NodeAllocatableOverhead(Wire):
    """How much of a node's resource is taken besides, for each pod with the claim and each of its containers."""

    per_pod: Quantity | None = None
    per_container: Quantity | None = None


class NodeAllocatableResource(Wire):
    """What a device takes of one resource of its node (alpha gate DRANodeAllocatableResources, Kubernetes 1.37)."""

    mapping: NodeAllocatableMapping | None = None
    overhead: NodeAllocatableOverhead | None = None


class Device(Wire):
    """One device of a slice. Attribute and capacity names without a domain belong to the driver's domain."""

    name: str
    attributes: dict[str, DeviceAttribute] = Field(default_factory=dict)
    capacity: dict[str, DeviceCapacity] = Field(default_factory=dict)
    consumes_counters: tuple[DeviceCounterConsumption, ...] = ()
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: StrictBool | None = None
    taints: tuple[DeviceTaint, ...] = ()
    binds_to_node: StrictBool | None = None
    binding_conditions: tuple[str, ...] = ()
    binding_failure_conditions: tuple[str, ...] = ()
    allow_multiple_allocations: StrictBool | None = None
    node_allocatable_resource_mappings: dict[str, Any] = Field(default_factory=dict)
    """Of Kubernetes 1.36 alone."""
    node_allocatable_resources: dict[str, NodeAllocatableResource] = Field(default_factory=dict)


class ResourcePool(Wire):
    """Which pool a slice belongs to. Consumers use the highest generation only, and only when all slices are there."""

    name: str
    generation: Int64 = 0
    resource_slice_count: Int64 = 0


class ResourceSliceSpec(Wire):
    """A slice of a pool: devices or counter sets, and for which nodes."""

    driver: str
    pool: ResourcePool
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: StrictBool | None = None
    devices: tuple[Device, ...] = ()
    per_device_node_selection: StrictBool | None = None
    shared_counters: tuple[CounterSet, ...] = ()


class ResourceSlice(Wire):
    """What a driver publishes."""

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()
    spec: ResourceSliceSpec


class CelSelector(Wire):
    """A CEL expression that must be true of a device."""

    expression: str = ""


class DeviceSelector(Wire):
    """A selector; ``cel`` is the only kind there is."""

    cel: CelSelector | None = None


class DeviceToleration(Wire):
    """Which taints a request puts up with."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: Int64 | None = None


class CapacityRequirements(Wire):
    """How much of a device's capacities a request consumes."""

    requests: dict[str, Quantity] = Field(default_factory=dict)


class DeviceSubRequest(Wire):
    """One alternative of a prioritized list."""

    name: str = ""
    device_class_name: str = ""
    selectors: tuple[DeviceSelector, ...] = ()
    allocation_mode: str = ""
    count: Int64 = 0
    tolerations: tuple[DeviceToleration, ...] = ()
    capacity: CapacityRequirements | None = None


class ExactDeviceRequest(Wire):
    """A request for devices of one class."""

    device_class_name: str = ""
    selectors: tuple[DeviceSelector, ...] = ()
    allocation_mode: str = ""
    count: Int64 = 0
    admin_access: StrictBool | None = None
    tolerations: tuple[DeviceToleration, ...] = ()
    capacity: CapacityRequirements | None = None


class DeviceRequest(Wire):
    """A named request: exactly one of ``exactly`` and ``first_available``."""

    name: str = ""
    exactly: ExactDeviceRequest | None = None
    first_available: tuple[DeviceSubRequest, ...] = ()


class DeviceConstraint(Wire):
    """What the devices of some (none named: all) requests must have in common, or apart."""

    requests: tuple[str, ...] = ()
    match_attribute: str | None = None
    distinct_attribute: str | None = None


class OpaqueDeviceConfiguration(Wire):
    """Parameters that only the named driver understands."""

    driver: str
    parameters: Any = None


class DeviceClassConfiguration(Wire):
    """Configuration in a class."""

    opaque: OpaqueDeviceConfiguration | None = None


class DeviceClaimConfiguration(Wire):
    """Configuration in a claim, for some (none named: all) requests."""

    requests: tuple[str, ...] = ()
    opaque: OpaqueDeviceConfiguration | None = None


class DeviceClaim(Wire):
    """What a claim asks for."""

    requests: tuple[DeviceRequest, ...] = ()
    constraints: tuple[DeviceConstraint, ...] = ()
    config: tuple[DeviceClaimConfiguration, ...] = ()


class ResourceClaimSpec(Wire):
    """A claim's specification."""

    devices: DeviceClaim = DeviceClaim()


class DeviceRequestAllocationResult(Wire):
    """One device, given to one request."""

    request: str
    driver: str
    pool: str
    device: str
    admin_access: StrictBool | None = None
    tolerations: tuple[DeviceToleration, ...] = ()
    binding_conditions: tuple[str, ...] = ()
    binding_failure_conditions: tuple[str, ...] = ()
    share_id: str | None = Field(default=None, alias="shareID")
    consumed_capacity: dict[str, Quantity] = Field(default_factory=dict)


class DeviceAllocationConfiguration(Wire):
    """Configuration that goes with an allocation; ``source`` is FromClass or FromClaim."""

    source: str
    requests: tuple[str, ...] = ()
    opaque: OpaqueDeviceConfiguration | None = None


class DeviceAllocationResult(Wire):
    """All devices of an allocation, and their configuration."""

    results: tuple[DeviceRequestAllocationResult, ...] = ()
    config: tuple[DeviceAllocationConfiguration, ...] = ()


class AllocationResult(Wire):
    """A claim's allocation and the nodes from which it can be used."""

    devices: DeviceAllocationResult = DeviceAllocationResult()
    node_selector: NodeSelector | None = None
    allocation_timestamp: str | None = None


class ResourceClaimConsumerReference(Wire):
    """Who holds a claim: never assume a pod (FACTS: PodGroups)."""

    api_group: str = ""
    resource: str = ""
    name: str = ""
    uid: str = ""


class AllocatedDeviceStatus(Wire):
    """The driver's status of one allocated device."""

    driver: str
    pool: str
    device: str
    share_id: str | None = Field(default=None, alias="shareID")
    conditions: tuple[dict[str, Any], ...] = ()
    data: Any = None
    network_data: dict[str, Any] | None = None


class ResourceClaimStatus(Wire):
    """What has become of a claim."""

    allocation: AllocationResult | None = None
    reserved_for: tuple[ResourceClaimConsumerReference, ...] = ()
    devices: tuple[AllocatedDeviceStatus, ...] = ()


class ResourceClaim(Wire):
    """A claim for devices."""

    api_version: Literal["", "resource.k8s.io/v1"] = ""
    kind: Literal["", "ResourceClaim"] = ""
    metadata: ObjectMeta = ObjectMeta()
    spec: ResourceClaimSpec = ResourceClaimSpec()
    status: ResourceClaimStatus = ResourceClaimStatus()

    @property
    def reference(self) -> ClaimReference:
        """The claim's namespace, name and UID."""
        return ClaimReference(namespace=self.metadata.namespace, name=self.metadata.name, uid=self.metadata.uid)


class ResourceClaimTemplateSpec(Wire):
    """The metadata and specification of the claims made from a template."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ResourceClaimSpec = ResourceClaimSpec()


class ResourceClaimTemplate(Wire):
    """A template from which Kubernetes makes one claim per pod."""

    api_version: Literal["", "resource.k8s.io/v1"] = ""
    kind: Literal["", "ResourceClaimTemplate"] = ""
    metadata: ObjectMeta = ObjectMeta()
    spec: ResourceClaimTemplateSpec = ResourceClaimTemplateSpec()


class DeviceClassSpec(Wire):
    """What devices of a class have in common."""

    selectors: tuple[DeviceSelector, ...] = ()
    config: tuple[DeviceClassConfiguration, ...] = ()
    extended_resource_name: str | None = None


class DeviceClass(Wire):
    """A kind of device that claims ask for by name."""

    api_version: Literal["", "resource.k8s.io/v1"] = ""
    kind: Literal["", "DeviceClass"] = ""
    metadata: ObjectMeta = ObjectMeta()
    spec: DeviceClassSpec = DeviceClassSpec()
