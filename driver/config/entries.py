"""A claim's configuration entries: which are ours, and which one applies to a device.

An entry that names no request is for all of them; one that names ``request`` is for all alternatives of a prioritized
list as well (k8s.io/api v0.36.3, resource/v1/types.go, DeviceAllocationConfiguration). The claim's entries come after
the class's, and a later entry replaces an earlier one as a whole.
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
from driver.model.parts import AllocatableDevice

__all__ = ["ConfigEntry", "config_for", "read_entries"]

_SOURCES: Final = ("FromClass", "FromClaim")


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigEntry:
    """One configuration entry for this driver.

    Attributes:
        where: Its field path.
        requests: The requests it names, as ``request`` or ``request/subrequest``; empty for all.
        config: What it says.
    """

    where: str
    requests: frozenset[str]
    config: DeviceConfig

    def names(self, request: str) -> bool:
        """Whether the entry names the request (of an allocation result) by name."""
        return request in self.requests or request.partition("/")[0] in self.requests


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
    entries: list[tuple[int, ConfigEntry]] = []
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
        parsed = parse_config(item.opaque.parameters, f"{path}.opaque.parameters")
        if isinstance(parsed, tuple):
            errors.extend(parsed)
        else:
            entry = ConfigEntry(where=path, requests=frozenset(item.requests), config=parsed)
            entries.append((_SOURCES.index(item.source), entry))
    # A stable sort: within a source the claim's order stays.
    return tuple(entry for _, entry in sorted(entries, key=lambda ranked: ranked[0])), tuple(errors)


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
            config = entry.config
    return config
