"""A claim as far as preparing it on its node needs it: the fields of ``resource.k8s.io/v1`` of the same names.

The kubelet plugin reads claims so, without the models of :mod:`driver.api.resource_v1`; what plans them takes both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias

from driver.api.claim_reference import ClaimReference
from driver.api.quantity import Quantity
from driver.api.strict import rule

if TYPE_CHECKING:
    from driver.api import resource_v1

__all__ = [
    "AllocatedClaim",
    "Alternative",
    "AnyAlternative",
    "AnyClaim",
    "AnyConfiguration",
    "AnyDeviceClaim",
    "AnyDeviceRequest",
    "AnyMetadata",
    "AnyRequest",
    "AnyResult",
    "Capacity",
    "ClaimConfiguration",
    "Configuration",
    "DeviceClaim",
    "DeviceRequest",
    "ExactRequest",
    "Metadata",
    "Opaque",
    "Result",
]

AnyClaim: TypeAlias = "AllocatedClaim | resource_v1.ResourceClaim"
AnyConfiguration: TypeAlias = "Configuration | resource_v1.DeviceAllocationConfiguration"
AnyMetadata: TypeAlias = "Metadata | resource_v1.ObjectMeta"
AnyDeviceClaim: TypeAlias = "DeviceClaim | resource_v1.DeviceClaim"
AnyDeviceRequest: TypeAlias = "DeviceRequest | resource_v1.DeviceRequest"
AnyAlternative: TypeAlias = "Alternative | resource_v1.DeviceSubRequest"
AnyRequest: TypeAlias = "ExactRequest | resource_v1.ExactDeviceRequest | AnyAlternative"
AnyResult: TypeAlias = "Result | resource_v1.DeviceRequestAllocationResult"


@dataclass(frozen=True, slots=True, kw_only=True)
class Metadata:
    """The claim's metadata."""

    WIRE: ClassVar[bool] = True

    name: str = ""
    namespace: str = ""
    uid: str = ""
    annotations: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Opaque:
    """Parameters that only the named driver understands."""

    WIRE: ClassVar[bool] = True

    driver: str
    parameters: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """How much of a device's capacities a request consumes."""

    WIRE: ClassVar[bool] = True

    requests: Mapping[str, Quantity] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExactRequest:
    """A request for devices of one class."""

    WIRE: ClassVar[bool] = True

    capacity: Capacity | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Alternative:
    """One alternative of a prioritized list."""

    WIRE: ClassVar[bool] = True

    name: str = ""
    capacity: Capacity | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceRequest:
    """A named request: one of ``exactly`` and ``first_available``."""

    WIRE: ClassVar[bool] = True

    name: str = ""
    exactly: ExactRequest | None = None
    first_available: tuple[Alternative, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimConfiguration:
    """Configuration in the claim, for some (none named: all) requests."""

    WIRE: ClassVar[bool] = True

    requests: tuple[str, ...] = ()
    opaque: Opaque | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceClaim:
    """What the claim asks for."""

    WIRE: ClassVar[bool] = True

    requests: tuple[DeviceRequest, ...] = ()
    config: tuple[ClaimConfiguration, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Spec:
    WIRE: ClassVar[bool] = True

    devices: DeviceClaim = DeviceClaim()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Toleration:
    WIRE: ClassVar[bool] = True

    key: str = ""
    effect: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One device, given to one request."""

    WIRE: ClassVar[bool] = True

    request: str
    driver: str
    pool: str
    device: str
    admin_access: bool | None = None
    tolerations: tuple[_Toleration, ...] = ()
    share_id: str | None = rule(default=None, name="shareID")
    consumed_capacity: Mapping[str, Quantity] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """Configuration that goes with an allocation; ``source`` is FromClass or FromClaim."""

    WIRE: ClassVar[bool] = True

    source: str
    requests: tuple[str, ...] = ()
    opaque: Opaque | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Devices:
    WIRE: ClassVar[bool] = True

    results: tuple[Result, ...] = ()
    config: tuple[Configuration, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Allocation:
    WIRE: ClassVar[bool] = True

    devices: _Devices = _Devices()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Consumer:
    WIRE: ClassVar[bool] = True

    api_group: str = ""
    resource: str = ""
    name: str = ""
    uid: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Status:
    WIRE: ClassVar[bool] = True

    allocation: _Allocation | None = None
    reserved_for: tuple[_Consumer, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocatedClaim:
    """A claim that is to be prepared."""

    WIRE: ClassVar[bool] = True

    api_version: Literal["", "resource.k8s.io/v1"] = ""
    kind: Literal["", "ResourceClaim"] = ""
    metadata: Metadata = field(default_factory=Metadata)
    spec: _Spec = _Spec()
    status: _Status = _Status()

    @property
    def reference(self) -> ClaimReference:
        """The claim's namespace, name and UID."""
        return ClaimReference(namespace=self.metadata.namespace, name=self.metadata.name, uid=self.metadata.uid)
