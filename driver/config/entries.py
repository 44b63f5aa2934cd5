"""A claim's configuration entries: which are ours, and which one applies to a device.

An entry that names no request is for all of them; one that names ``request`` is for all alternatives of a prioritized
list as well (k8s.io/api v0.36.3, resource/v1/types.go, DeviceAllocationConfiguration). The claim's entries come after
the class's, and a later entry replaces an earlier one as a whole.

``vf`` of an ``RdmaConfig`` is the exception, since its settings (a VLAN, trust) are privileges: only an administrator
gives them, in a DeviceClass. A claim that has them is refused, and no entry of a claim takes away those of the class:
else a pod could leave the VLAN that it was put into.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from driver import DRIVER_NAME
from driver.api.resource_v1 import DeviceAllocationConfiguration
from driver.api.validation.errors import FieldError, shown
from driver.config.kinds import DeviceConfig, default_config
from driver.config.parse import UnsupportedFieldError, parse_config
from driver.config.rdma import RdmaConfig
from driver.model.parts import AllocatableDevice

__all__ = ["ConfigEntry", "config_for", "read_entries"]

_OF_CLASS: Final = "FromClass"
_OF_CLAIM: Final = "FromClaim"
_SOURCES: Final = (_OF_CLASS, _OF_CLAIM)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigEntry:
    """One configuration entry for this driver.

    Attributes:
        where: Its field path.
        requests: The requests it names, as ``request`` or ``request/subrequest``; empty for all.
        config: What it says.
        from_claim: Whether the claim's author wrote it, and not an administrator in the DeviceClass.
    """

    where: str
    requests: frozenset[str]
    config: DeviceConfig
    from_claim: bool

    def names(self, request: str) -> bool:
        """Whether the entry names the request (of an allocation result) by name."""
        return request in self.requests or request.partition("/")[0] in self.requests

    def over(self, weaker: DeviceConfig) -> DeviceConfig:
        """What applies where this entry follows a weaker one of its kind."""
        if self.from_claim and isinstance(self.config, RdmaConfig) and isinstance(weaker, RdmaConfig):
            return self.config.model_copy(update={"vf": weaker.vf})
        return self.config


def read_entries(
    configuration: Iterable[DeviceAllocationConfiguration], where: str
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
    # Looked for in what was written, so that it is told together with the other mistakes there.
    return isinstance(parameters, dict) and parameters.get("kind") == "RdmaConfig" and parameters.get("vf") is not None


def config_for(entries: Iterable[ConfigEntry], request: str, device: AllocatableDevice) -> DeviceConfig | FieldError:
    """The config that applies to a device which an allocation gave to a request.

    An entry for all requests applies where its kind fits, because a claim may ask for GPUs and NICs at once. An entry
    that names the request must fit.

    Args:
        entries: From :func:`read_entries`.
        request: The result's ``request``: ``request`` or ``request/subrequest``.
        device: The device that was given to it.
    """
    config = default_config(device)
    for entry in entries:
        fits = type(entry.config) is type(config)
        if entry.names(request) and not fits:
            return FieldError(
                entry.where,
                f"{entry.config.kind} does not fit request {request}, which was given {device.name}, a device of type "
                f"{device.type}: expected {config.kind}",
            )
        if fits and (not entry.requests or entry.names(request)):
            config = entry.over(config)
    return config
