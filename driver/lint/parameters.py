"""Finds parameters for Rootport that can be read and that no node would prepare: they contradict the claim.

The rules are those by which the kubelet plugin prepares (:mod:`driver.config.entries`, :mod:`driver.plan.isolation`),
asked with the amounts of the request.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final, NamedTuple

from driver import DRIVER_NAME
from driver.allocator.capacity import consumption
from driver.allocator.demands import read_claim
from driver.allocator.errors import AllocationError, CapacityError
from driver.api.quantity import Quantity
from driver.api.resource_v1 import (
    DeviceAllocationConfiguration,
    DeviceClass,
    ExactDeviceRequest,
    ResourceClaim,
)
from driver.api.validation.errors import FieldError
from driver.budget import check
from driver.config import ConfigEntry, GpuConfig, GpuSharing, config_kind, read_entries, share_errors
from driver.errors import InputError
from driver.explain.known.state import ClusterState
from driver.layout.attributes import CORE, MEMORY, TYPE
from driver.lint.findings import LintCode, LintFinding, Severity
from driver.lint.kinds import GPU_KINDS
from driver.lint.parts import Part
from driver.lint.published import published_devices
from driver.model.devices import DeviceType, Gpu
from driver.model.pci import PciAddress, PciePath
from driver.plan import IsolationHost
from driver.plan.isolation.provider import GpuShare
from driver.plan.isolation.providers import plan_isolation

__all__ = ["Parameters", "claim_parameters", "class_parameters", "unfit_class_parameters", "unfit_parameters"]

_ALL: Final = 100
_ANY_HOST: Final = IsolationHost(simulated=True)
_ANY_GPU: Final = Gpu(address=PciAddress("0000:00:00.0"), pcie=PciePath(), index=0)
_SHARED_KINDS: Final = GPU_KINDS - {DeviceType.MIG}


class Parameters(NamedTuple):
    """Rootport's parameters in the ``config`` of a claim or class.

    Attributes:
        entries: The entries that can be read.
        errors: Every mistake in the others.
    """

    entries: tuple[ConfigEntry, ...]
    errors: tuple[FieldError, ...]


def claim_parameters(claim: ResourceClaim) -> Parameters:
    """Read the parameters of a claim."""
    config = [
        DeviceAllocationConfiguration(source="FromClaim", requests=item.requests, opaque=item.opaque)
        for item in claim.spec.devices.config
    ]
    return Parameters(*read_entries(config, "spec.devices.config"))


def class_parameters(device_class: DeviceClass) -> Parameters:
    """Read the parameters of a class."""
    config = [
        DeviceAllocationConfiguration(source="FromClass", requests=(), opaque=item.opaque)
        for item in device_class.spec.config
    ]
    return Parameters(*read_entries(config, "spec.config"))


def unfit_class_parameters(entries: Sequence[ConfigEntry], kinds: frozenset[DeviceType]) -> Iterator[LintFinding]:
    """Find parameters of a class that none of its devices takes: each claim of the class would be refused.

    Args:
        entries: The class's parameters.
        kinds: Which of Rootport's devices it selects.
    """
    for entry in entries:
        if kinds and not any(map(entry.fits, kinds)):
            yield _error(
                f"{entry.where}.opaque.parameters.kind",
                f"{entry.config.kind} does not fit the devices of this class, which take {_taken(kinds)}",
            )


def unfit_parameters(
    claim: ResourceClaim,
    own: Sequence[ConfigEntry],
    parts: Sequence[Part],
    classes: Mapping[str, DeviceClass] | None,
    state: ClusterState | None,
) -> Iterator[LintFinding]:
    """Find parameters of another kind than a request's devices take, or with settings that its share does not allow.

    Args:
        claim: The claim, with the API's defaults.
        own: Its parameters.
        parts: Its requests and alternatives.
        classes: DeviceClasses by name, as far as they are known: they have parameters as well.
        state: What is published, if that is known: there, a share may be rounded up to what the parameters need.

    Raises:
        SpentError: The budget in force is spent.
    """
    of_classes = {name: _of_class(name, classes) for name in {part.spec.device_class_name for part in parts}}
    found: dict[str, list[LintFinding]] = {}
    for part in parts:
        check()
        # As the allocator writes a class's entries: for the request that names the class.
        of_class = (
            replace(entry, requests=frozenset({part.name})) for entry in of_classes[part.spec.device_class_name]
        )
        entries = (*of_class, *own)
        found[part.name] = list(_misfits(entries, part)) or list(_contradictions(entries, part, claim, classes, state))
    sound = {part.request for part in parts if all(item.severity is not Severity.ERROR for item in found[part.name])}
    for part in parts:
        for finding in found[part.name]:
            if finding.severity is Severity.ERROR and part.request in sound:
                # Another alternative may be taken.
                message = f"where alternative {part.name} is taken, no node prepares the claim: {finding.message}"
                yield replace(finding, severity=Severity.WARNING, message=message)
            else:
                yield finding
    for entry in own:
        if not entry.requests and parts and not any(not part.kinds or _fits(entry, part) for part in parts):
            taken = _taken(frozenset().union(*(part.kinds for part in parts)))
            yield LintFinding(
                code=LintCode.PARAMETERS_INVALID,
                severity=Severity.WARNING,
                path=f"{entry.where}.opaque.parameters.kind",
                message=f"{entry.config.kind} has no effect: the devices that the claim asks for take {taken}",
            )


def _of_class(name: str, classes: Mapping[str, DeviceClass] | None) -> Sequence[ConfigEntry]:
    check()
    device_class = (classes or {}).get(name)
    return () if device_class is None else class_parameters(device_class).entries


def _misfits(entries: Sequence[ConfigEntry], part: Part) -> Iterator[LintFinding]:
    for entry in entries:
        if part.kinds and all(entry.misfits(part.name, kind) for kind in part.kinds):
            name = part.spec.device_class_name
            yield _error(
                _place(entry, part, "kind"),
                f"{entry.config.kind}{'' if entry.from_claim else ' of the class'} does not fit request {part.name}:"
                f" devices of class {name} take {_taken(part.kinds)}",
            )


def _contradictions(
    entries: Sequence[ConfigEntry],
    part: Part,
    claim: ResourceClaim,
    classes: Mapping[str, DeviceClass] | None,
    state: ClusterState | None,
) -> Iterator[LintFinding]:
    """Find what isolation refuses, on any node, of how a GPU is to be shared."""
    applied = [entry for entry in entries if part.kinds and all(entry.applies(part.name, kind) for kind in part.kinds)]
    config = applied[-1].config if applied else None  # the last one replaces those before it
    asked = part.spec.capacity.requests if part.spec.capacity is not None else {}
    is_watched = isinstance(part.spec, ExactDeviceRequest) and part.spec.admin_access
    if not isinstance(config, GpuConfig) or is_watched or share_errors(asked, ""):
        return
    path = _place(applied[-1], part, "sharing")
    share = _share(asked, part.kinds)
    refused = _refusal(share, config.sharing, part, claim)
    if refused is not None:
        if not any(
            _refusal(rounded, config.sharing, part, claim) is None for rounded in _rounded(part, claim, classes, state)
        ):
            yield _error(path, refused.message, refused.hint or "")
        return
    refused = _refusal(replace(share, ordinal=1), config.sharing, part, claim) if part.count != 1 else None
    if refused is not None and part.count is not None:
        # The shares of one request are of different devices: kube-scheduler's search goes on behind the last one.
        yield _error(path, refused.message, refused.hint or "")
    elif refused is not None:
        yield LintFinding(
            code=LintCode.PARAMETERS_INVALID,
            severity=Severity.WARNING,
            path=path,
            message=f"on nodes with more than one GPU, this is refused: {refused.message}",
            hint=refused.hint or "",
        )


def _share(amounts: Mapping[str, Quantity], kinds: frozenset[DeviceType]) -> GpuShare:
    """Return a share of these amounts; what is not named is all of it."""
    core = amounts[CORE].ceil() if CORE in amounts else _ALL
    memory = amounts[MEMORY].ceil() if MEMORY in amounts and kinds == {DeviceType.GPU} else None
    return GpuShare(gpu=_ANY_GPU, core=core, memory_bytes=memory, whole=core == _ALL, ordinal=0)


def _rounded(
    part: Part, claim: ResourceClaim, classes: Mapping[str, DeviceClass] | None, state: ClusterState | None
) -> Iterator[GpuShare]:
    """Return the shares that the published devices give for the request: their policies round up."""
    if state is None or classes is None:
        return
    with suppress(AllocationError):
        demands = [
            each for request in read_claim(claim, classes, state.features).requests for each in request.alternatives
        ]
        demand = next(each for each in demands if each.name == part.name)
        for driver, device in published_devices(state):
            check()
            kind = device.attributes.get(TYPE)
            if driver == DRIVER_NAME and kind is not None and kind.string_value in part.kinds:
                with suppress(CapacityError):
                    if consumed := consumption(demand, device):
                        yield _share(consumed, part.kinds)


def _refusal(share: GpuShare, sharing: GpuSharing, part: Part, claim: ResourceClaim) -> InputError | None:
    try:
        plan_isolation(share, sharing, _ANY_HOST, claim.reference, part.request, f"request {part.name}")
    except InputError as error:
        return error
    return None


def _fits(entry: ConfigEntry, part: Part) -> bool:
    return any(map(entry.fits, part.kinds))


def _taken(kinds: frozenset[DeviceType]) -> str:
    return " or ".join(sorted({config_kind(kind)().kind for kind in kinds}))


def _place(entry: ConfigEntry, part: Part, field: str) -> str:
    """Return the field of the parameters; for those of a class the field that names the class."""
    return f"{entry.where}.opaque.parameters.{field}" if entry.from_claim else f"{part.path}.deviceClassName"


def _error(path: str, message: str, hint: str = "") -> LintFinding:
    return LintFinding(code=LintCode.PARAMETERS_INVALID, severity=Severity.ERROR, path=path, message=message, hint=hint)
