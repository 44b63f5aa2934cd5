"""A claim's configuration entries: which are ours, and which one applies to a device.

An entry that names no request is for all of them; one that names ``request`` is for all alternatives of a prioritized
list as well (k8s.io/api v0.36.3, resource/v1/types.go, DeviceAllocationConfiguration). The claim's entries come after
the class's, and a later entry replaces an earlier one as a whole.

``vf`` of an ``RdmaConfig`` is the exception, since its settings (a VLAN, trust) are privileges: only an administrator
gives them, in a DeviceClass. A claim that has them is refused, and no entry of a claim takes away those of the class:
else a pod could leave the VLAN that it was put into.

So is a ``GpuConfig`` that names no strategy: the weaker entry's applies, since a class's strategy is the one by which
the scheduler chose the GPU.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from driver import DRIVER_NAME
from driver.api.allocated_claim import AnyConfiguration, AnyDeviceClaim, ClaimConfiguration, Configuration, Opaque
from driver.api.validation.errors import FieldError, shown
from driver.config.kinds import DeviceConfig, GpuConfig, config_kind
from driver.config.parse import UnsupportedFieldError, parse_config
from driver.config.rdma import RdmaConfig
from driver.model.devices import DeviceType
from driver.model.parts import AllocatableDevice

if TYPE_CHECKING:
    from driver.api import resource_v1

__all__ = ["ConfigEntry", "as_written", "config_for", "read_entries"]

_OF_CLASS: Final = "FromClass"
_OF_CLAIM: Final = "FromClaim"
_SOURCES: Final = (_OF_CLASS, _OF_CLAIM)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigEntry:
    """One configuration entry for this driver.

    Attributes:
        where: Its field path.
        requests: The requests it names, as ``request`` or ``request/subrequest``; empty for all.
        config: Its parameters.
        from_claim: Whether the claim's author wrote it, and not an administrator in the DeviceClass.
    """

    where: str
    requests: frozenset[str]
    config: DeviceConfig
    from_claim: bool

    def names(self, request: str) -> bool:
        """Whether the entry names the request (of an allocation result) by name."""
        return request in self.requests or request.partition("/")[0] in self.requests

    def applies(self, request: str, type_: DeviceType) -> bool:
        """Whether the entry is for a device of this type that the request is given.

        One for all requests is for those that it fits, since a claim may ask for GPUs and NICs at once.
        """
        return self.fits(type_) and (not self.requests or self.names(request))

    def misfits(self, request: str, type_: DeviceType) -> bool:
        """Whether the entry names the request, and devices of this type do not take parameters of its kind."""
        return self.names(request) and not self.fits(type_)

    def fits(self, type_: DeviceType) -> bool:
        """Whether devices of this type take parameters of its kind."""
        return isinstance(self.config, config_kind(type_))

    def over(self, weaker: DeviceConfig) -> DeviceConfig:
        """Return what applies where this entry follows a weaker one of its kind."""
        if self.from_claim and isinstance(self.config, RdmaConfig) and isinstance(weaker, RdmaConfig):
            return replace(self.config, vf=weaker.vf)
        if isinstance(self.config, GpuConfig) and self.config.sharing.meant is None and isinstance(weaker, GpuConfig):
            return weaker
        return self.config


def as_written(configuration: Iterable[AnyConfiguration], claim: AnyDeviceClaim) -> tuple[Configuration, ...]:
    """Give an allocation's entries the requests that they were written for.

    Since Kubernetes 1.37 the allocator leaves the requests out of an entry that turned out to be for all of the claim's
    (k8s.io/dynamic-resource-allocation v0.37.2, structured/internal/stable/allocator_stable.go). But an entry that
    names requests has to fit them, where one for all is for those that it fits.

    Args:
        configuration: ``status.allocation.devices.config``.
        claim: The claim's ``spec.devices``.
    """
    names = tuple(request.name for request in claim.requests)
    written: Iterator[ClaimConfiguration | resource_v1.DeviceClaimConfiguration] = iter(claim.config)
    restored = []
    for entry in configuration:
        requests = entry.requests
        if not requests and entry.source == _OF_CLASS:
            requests = names  # an entry of a class is for the requests of that class
        elif entry.source == _OF_CLAIM:
            # The claim's entries stand in their order; those for alternatives that were not chosen are left out.
            origin = next((item for item in written if item.opaque == entry.opaque), None)
            requests = requests or (origin.requests if origin else ())
        opaque = None
        if entry.opaque is not None:
            opaque = Opaque(driver=entry.opaque.driver, parameters=entry.opaque.parameters)
        restored.append(Configuration(source=entry.source, requests=requests, opaque=opaque))
    return tuple(restored)


def read_entries(
    configuration: Iterable[AnyConfiguration], where: str
) -> tuple[tuple[ConfigEntry, ...], tuple[FieldError, ...]]:
    """Read an allocation's configuration, leaving other drivers' entries alone.

    Args:
        configuration: ``status.allocation.devices.config``.
        where: Its field path, for the errors.

    Returns:
        Our entries, the weakest first, and all errors.
    """
    entries: list[ConfigEntry] = []
    errors: list[FieldError] = []
    for index, item in enumerate(configuration):
        path = f"{where}[{index}]"
        if item.opaque is None:
            errors.append(UnsupportedFieldError(path, "only opaque configuration is known"))
            continue
        if item.opaque.driver != DRIVER_NAME:
            continue
        if item.source not in _SOURCES:
            errors.append(FieldError(f"{path}.source", f"{shown(item.source)}: expected {' or '.join(_SOURCES)}"))
            continue
        from_claim = item.source == _OF_CLAIM
        parsed = parse_config(item.opaque.parameters, f"{path}.opaque.parameters")
        if isinstance(parsed, tuple):
            errors.extend(parsed)
        if from_claim and _has_vf(item.opaque.parameters):
            errors.append(
                FieldError(f"{path}.opaque.parameters.vf", "is for administrators: expected in a DeviceClass alone")
            )
        elif not isinstance(parsed, tuple):
            requests = frozenset(item.requests)
            entries.append(ConfigEntry(where=path, requests=requests, config=parsed, from_claim=from_claim))
    # A stable sort: within a source the claim's order stays.
    return tuple(sorted(entries, key=lambda entry: entry.from_claim)), tuple(errors)


def _has_vf(parameters: object) -> bool:
    # Looked for in what was written, so that it is reported together with the other mistakes there.
    return isinstance(parameters, dict) and parameters.get("kind") == "RdmaConfig" and parameters.get("vf") is not None


def config_for(entries: Iterable[ConfigEntry], request: str, device: AllocatableDevice) -> DeviceConfig | FieldError:
    """Return the config that applies to a device which was allocated to a request.

    An entry that names the request must fit.

    Args:
        entries: From :func:`read_entries`.
        request: The result's ``request``: ``request`` or ``request/subrequest``.
        device: The device that was given to it.
    """
    config: DeviceConfig = config_kind(device.type)()
    for entry in entries:
        if entry.misfits(request, device.type):
            return FieldError(
                entry.where,
                f"{entry.config.kind} does not fit request {request}, which was given {device.name}, a device of type "
                f"{device.type}: expected {config.kind}",
            )
        if entry.applies(request, device.type):
            config = entry.over(config)
    return config
