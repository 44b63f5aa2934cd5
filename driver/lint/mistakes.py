"""Finds what is wrong with a claim or class on any cluster: its CEL, its parameters, its classes."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from driver import DRIVER_NAME
from driver.api.resource_v1 import DeviceClass, DeviceSelector, OpaqueDeviceConfiguration, ResourceClaim
from driver.api.validation.errors import FieldError, shown
from driver.budget import check
from driver.cel import CelCompileError, compile_selector
from driver.config import UnsupportedFieldError, share_errors
from driver.convert.other_drivers.requests import CLASSES
from driver.explain.known.vocabulary import OWN_CLASSES, Vocabulary, misspelled_class
from driver.lint.findings import LintCode, LintFinding, Severity
from driver.lint.kinds import kinds_of
from driver.lint.parameters import Parameters, claim_parameters, class_parameters
from driver.lint.parts import Part, parts_of

__all__ = ["check_claim", "check_class", "claim_mistakes", "class_mistakes", "unknown_class"]


def check_class(device_class: DeviceClass) -> Iterator[FieldError]:
    """Find every selector that does not compile, and every parameter for Rootport that is wrong."""
    found = class_mistakes(device_class, class_parameters(device_class))
    return (_field_error(finding) for finding in found if finding.severity is Severity.ERROR)


def check_claim(claim: ResourceClaim, classes: Mapping[str, DeviceClass]) -> Iterator[FieldError]:
    """Find the same of a claim, every share that no GPU can give, and every misspelled name of one of ``classes``.

    A class of another name may be there on a cluster.
    """
    found = claim_mistakes(claim, claim_parameters(claim), tuple(parts_of(claim, classes)), classes, are_all=False)
    return (_field_error(finding) for finding in found if finding.severity is Severity.ERROR)


def class_mistakes(device_class: DeviceClass, parameters: Parameters) -> Iterator[LintFinding]:
    """Find the mistakes of a class, and parameters in it that no driver reads.

    Raises:
        SpentError: The budget in force is spent.
    """
    yield from _selectors("spec.selectors", device_class.spec.selectors)
    yield from _parameters(parameters.errors)
    is_ours = bool(kinds_of(device_class))
    for index, config in enumerate(device_class.spec.config):
        if is_ours:
            yield from _foreign(f"spec.config[{index}].opaque", config.opaque, "the devices of this class")


def claim_mistakes(
    claim: ResourceClaim,
    parameters: Parameters,
    parts: Sequence[Part],
    classes: Mapping[str, DeviceClass] | None,
    *,
    are_all: bool = True,
) -> Iterator[LintFinding]:
    """Find the mistakes of a claim, parameters in it that no driver reads, and classes of which nothing is known.

    Args:
        claim: The claim, with the API's defaults.
        parameters: Its parameters.
        parts: Its requests and alternatives.
        classes: DeviceClasses by name; None where they are not known: then none is missing.
        are_all: Whether there are no others on the cluster.

    Raises:
        SpentError: The budget in force is spent.
    """
    for part in parts:
        check()
        if classes is not None and part.spec.device_class_name not in classes:
            yield unknown_class(f"{part.path}.deviceClassName", part.spec.device_class_name, classes, are_all=are_all)
        yield from _selectors(f"{part.path}.selectors", part.spec.selectors)
        # Of another driver's devices, core and memory may be anything.
        if part.spec.capacity is not None and part.kinds:
            for error in share_errors(
                part.spec.capacity.requests, f"{part.path}.capacity.requests", part.spec.device_class_name
            ):
                yield _error(LintCode.CAPACITY_INVALID, error.path, error.message)
    yield from _parameters(parameters.errors)
    for index, config in enumerate(claim.spec.devices.config):
        path = f"spec.devices.config[{index}].opaque"
        named = [part for part in parts if not config.requests or {part.request, part.name} & set(config.requests)]
        # It is not known whose devices an unknown class selects.
        if named and all(part.kinds for part in named):
            whose = ", ".join(dict.fromkeys(part.request for part in named))
            yield from _foreign(path, config.opaque, f"the devices of request {whose}")


def unknown_class(path: str, name: str, known: Collection[str], *, are_all: bool) -> LintFinding:
    """Return the finding for a DeviceClass that is not among the ``known`` ones.

    Args:
        path: The field that names it.
        name: The class.
        known: Names of DeviceClasses.
        are_all: Whether there are no others on the cluster.
    """
    meant = misspelled_class(name, known)
    if meant is not None:
        return _error(LintCode.UNKNOWN_CLASS, path, f"there is no DeviceClass {name!r}; did you mean {meant}?")
    if are_all:
        # No class of another domain is a misspelling of this one.
        own = Vocabulary(known).class_hint(name) if name in OWN_CLASSES or "." not in name else ""
        hint = own or f"known: {', '.join(sorted(known))}"
        return _error(LintCode.UNKNOWN_CLASS, path, f"there is no DeviceClass {name!r}; {hint}")
    hint = "lint with the file that defines it, with --from or with --kubeconfig"
    return LintFinding(
        code=LintCode.UNKNOWN_CLASS,
        severity=Severity.NOTE,
        path=path,
        message=(
            f"DeviceClass {shown(name)} is neither one of Rootport's nor in the given files: it is taken to be on the"
            " cluster, and nothing is checked of what it selects"
        ),
        hint=f"`rootport convert` writes the claim for Rootport; or {hint}" if name in CLASSES else hint,
    )


def _selectors(path: str, selectors: Sequence[DeviceSelector]) -> Iterator[LintFinding]:
    for index, selector in enumerate(selectors):
        if selector.cel is None:
            continue
        check()
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


def _parameters(errors: Sequence[FieldError]) -> Iterator[LintFinding]:
    for error in errors:
        # What validates the object reports an entry of a kind that is not known yet.
        if not isinstance(error, UnsupportedFieldError):
            yield _error(LintCode.PARAMETERS_INVALID, error.path, error.message)


def _foreign(path: str, opaque: OpaqueDeviceConfiguration | None, devices: str) -> Iterator[LintFinding]:
    if opaque is not None and opaque.driver != DRIVER_NAME:
        yield LintFinding(
            code=LintCode.FOREIGN_PARAMETERS,
            severity=Severity.WARNING,
            path=f"{path}.driver",
            message=(
                f"these parameters are for driver {shown(opaque.driver)}, but {devices} are of driver {DRIVER_NAME}:"
                " nobody reads them, and what they limit or set is not limited or set"
            ),
            hint=f"write driver: {DRIVER_NAME} and its own kind, such as GpuConfig (docs/user/gpu-sharing.md)",
        )


def _error(code: LintCode, path: str, message: str) -> LintFinding:
    return LintFinding(code=code, severity=Severity.ERROR, path=path, message=message)


def _field_error(finding: LintFinding) -> FieldError:
    return FieldError(finding.path, finding.message)
