"""What is wrong with a claim or class beyond its fields, on any cluster: its CEL, its parameters, its classes."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from driver import DRIVER_NAME
from driver.api.resource_v1 import DeviceClass, DeviceSelector, OpaqueDeviceConfiguration, ResourceClaim
from driver.api.validation import FieldError
from driver.cel import CelCompileError, compile_selector
from driver.config import parse_config, share_errors
from driver.explain.vocabulary import Vocabulary
from driver.lint.findings import LintCode, LintFinding, Severity
from driver.lint.parts import parts_of

__all__ = ["check_claim", "check_class", "claim_mistakes", "class_mistakes"]


def check_class(device_class: DeviceClass) -> Iterator[FieldError]:
    """Every selector that does not compile, and every parameter of ours that is wrong."""
    return map(_field_error, class_mistakes(device_class))


def check_claim(claim: ResourceClaim, classes: Mapping[str, DeviceClass]) -> Iterator[FieldError]:
    """As :func:`check_class`, every class that is not among ``classes``, and every share that no GPU can give."""
    return map(_field_error, claim_mistakes(claim, classes))


def class_mistakes(device_class: DeviceClass) -> Iterator[LintFinding]:
    """The same as findings, all of them errors."""
    yield from _selectors("spec.selectors", device_class.spec.selectors)
    for index, config in enumerate(device_class.spec.config):
        yield from _parameters(f"spec.config[{index}].opaque", config.opaque)


def claim_mistakes(claim: ResourceClaim, classes: Mapping[str, DeviceClass] | None) -> Iterator[LintFinding]:
    """The same as findings, all of them errors.

    Args:
        claim: The claim, with the API's defaults.
        classes: All DeviceClasses by name; None where they are not known: then none is missing.
    """
    for part in parts_of(claim, classes):
        if classes is not None and part.spec.device_class_name not in classes:
            message = _unknown_class(part.spec.device_class_name, classes)
            yield _error(LintCode.UNKNOWN_CLASS, f"{part.path}.deviceClassName", message)
        yield from _selectors(f"{part.path}.selectors", part.spec.selectors)
        # Of another driver's devices, core and memory may be anything.
        if part.spec.capacity is not None and part.kinds:
            for error in share_errors(part.spec.capacity.requests, f"{part.path}.capacity.requests"):
                yield _error(LintCode.CAPACITY_INVALID, error.path, error.message)
    for index, config in enumerate(claim.spec.devices.config):
        yield from _parameters(f"spec.devices.config[{index}].opaque", config.opaque)


def _unknown_class(name: str, known: Collection[str]) -> str:
    hint = Vocabulary(known).class_hint(name) or f"known: {', '.join(sorted(known))}"
    return f"there is no DeviceClass {name!r}; {hint}"


def _selectors(path: str, selectors: Sequence[DeviceSelector]) -> Iterator[LintFinding]:
    for index, selector in enumerate(selectors):
        if selector.cel is None:
            continue
        where = f"{path}[{index}].cel.expression"
        try:
            compiled = compile_selector(selector.cel.expression)
        except CelCompileError as error:
            yield _error(LintCode.SELECTOR_INVALID, where, str(error))
            continue
        try:
            compiled.check_cost()
        except CelCompileError as error:
            yield _error(LintCode.SELECTOR_TOO_COSTLY, where, str(error))


def _parameters(path: str, opaque: OpaqueDeviceConfiguration | None) -> Iterator[LintFinding]:
    if opaque is None or opaque.driver != DRIVER_NAME:
        return
    parsed = parse_config(opaque.parameters, f"{path}.parameters")
    if isinstance(parsed, tuple):
        for error in parsed:
            yield _error(LintCode.PARAMETERS_INVALID, error.path, error.message)


def _error(code: LintCode, path: str, message: str) -> LintFinding:
    return LintFinding(code=code, severity=Severity.ERROR, path=path, message=message)


def _field_error(finding: LintFinding) -> FieldError:
    return FieldError(finding.path, finding.message)
