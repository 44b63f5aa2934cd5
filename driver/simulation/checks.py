"""What is wrong with a claim or class beyond its fields: its CEL, its parameters, the classes it names."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterator, Mapping, Sequence

from driver import DRIVER_NAME
from driver.api.resource_v1 import (
    DeviceClass,
    DeviceRequest,
    DeviceSelector,
    DeviceSubRequest,
    ExactDeviceRequest,
    OpaqueDeviceConfiguration,
    ResourceClaim,
)
from driver.api.validation import FieldError
from driver.cel import CelCompileError, compile_selector
from driver.config import parse_config
from driver.config.shares import share_errors

__all__ = ["check_claim", "check_class"]


def check_class(device_class: DeviceClass) -> Iterator[FieldError]:
    """Every selector that does not compile, and every parameter of ours that is wrong."""
    yield from _check_selectors("spec.selectors", device_class.spec.selectors)
    for index, config in enumerate(device_class.spec.config):
        yield from _check_parameters(f"spec.config[{index}].opaque", config.opaque)


def check_claim(claim: ResourceClaim, classes: Mapping[str, DeviceClass]) -> Iterator[FieldError]:
    """As :func:`check_class`, every class that is not among ``classes``, and every share that no GPU can give."""
    for index, request in enumerate(claim.spec.devices.requests):
        for path, part in _parts(f"spec.devices.requests[{index}]", request):
            device_class = classes.get(part.device_class_name)
            if device_class is None:
                yield FieldError(f"{path}.deviceClassName", _unknown_class(part.device_class_name, classes))
            yield from _check_selectors(f"{path}.selectors", part.selectors)
            # Of another driver's devices, core and memory may be anything.
            if part.capacity is not None and device_class is not None and _is_ours(device_class):
                yield from share_errors(part.capacity.requests, f"{path}.capacity.requests")
    for index, config in enumerate(claim.spec.devices.config):
        yield from _check_parameters(f"spec.devices.config[{index}].opaque", config.opaque)


def _parts(path: str, request: DeviceRequest) -> Iterator[tuple[str, ExactDeviceRequest | DeviceSubRequest]]:
    if request.exactly is not None:
        yield f"{path}.exactly", request.exactly
    for index, part in enumerate(request.first_available):
        yield f"{path}.firstAvailable[{index}]", part


def _is_ours(device_class: DeviceClass) -> bool:
    return any(selector.cel and DRIVER_NAME in selector.cel.expression for selector in device_class.spec.selectors)


def _unknown_class(name: str, known: Collection[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(sorted(known))}"
    return f"there is no DeviceClass {name!r}; {hint}"


def _check_selectors(path: str, selectors: Sequence[DeviceSelector]) -> Iterator[FieldError]:
    for index, selector in enumerate(selectors):
        if selector.cel is None:
            continue
        try:
            compile_selector(selector.cel.expression).check_cost()
        except CelCompileError as error:
            yield FieldError(f"{path}[{index}].cel.expression", str(error))


def _check_parameters(path: str, opaque: OpaqueDeviceConfiguration | None) -> Iterator[FieldError]:
    if opaque is None or opaque.driver != DRIVER_NAME:
        return
    parsed = parse_config(opaque.parameters, f"{path}.parameters")
    if isinstance(parsed, tuple):
        yield from parsed
