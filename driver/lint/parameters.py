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
from driver.config import (
    ConfigEntry,
    DeviceConfig,
    GpuConfig,
    GpuSharing,
    config_kind,
    read_entries,
    share_errors,
)
from driver.config.gpu_classes import SHARED_GPU_CLASSES, class_of_strategy
from driver.errors import InputError
from driver.explain.known.state import ClusterState
from driver.layout.attributes import CORE, MEMORY, MEMORY_RATIO, TYPE
from driver.lint.findings import LintCode, LintFinding, Severity
from driver.lint.kinds import GPU_KINDS
from driver.lint.parts import Part
from driver.lint.published import published_devices
from driver.lint.together import unfit_together
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
    configs: dict[str, DeviceConfig | None] = {}
    for part in parts:
        check()
        # As the allocator writes a class's entries: for the request that names the class.
        of_class = (
            replace(entry, requests=frozenset({part.name})) for entry in of_classes[part.spec.device_class_name]
        )
        entries = (*of_class, *own)
        configs[part.name] = _config(entries, part)
        found[part.name] = list(_misfits(entries, part)) or list(_contradictions(entries, part, claim, classes, state))
    yield from unfit_together(
        [
            (part, config if isinstance(config, GpuConfig) else None, not _share(_asked(part), part.kinds).whole)
            for part, config in ((part, configs[part.name]) for part in parts if part.name == part.request)
            if part.kinds <= _SHARED_KINDS and not _is_watched(part) and not share_errors(_asked(part), "")
        ]
    )
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
    applied, config, asked = _applied(entries, part), _config(entries, part), _asked(part)
    if not isinstance(config, GpuConfig) or _is_watched(part) or share_errors(asked, ""):
        return
    path = _place(applied[-1], part, "sharing")
    share = _share(asked, part.kinds)
    if not share.whole and (misfit := _other_strategy(config.sharing, part)) is not None:
        yield _error(path, *misfit)
        return
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


def _applied(entries: Sequence[ConfigEntry], part: Part) -> list[ConfigEntry]:
    return [entry for entry in entries if part.kinds and all(entry.applies(part.name, kind) for kind in part.kinds)]


def _config(entries: Sequence[ConfigEntry], part: Part) -> DeviceConfig | None:
    config: DeviceConfig | None = None
    for entry in _applied(entries, part):
        config = entry.config if config is None else entry.over(config)
    return config


def _asked(part: Part) -> Mapping[str, Quantity]:
    return part.spec.capacity.requests if part.spec.capacity is not None else {}


def _is_watched(part: Part) -> bool:
    return isinstance(part.spec, ExactDeviceRequest) and bool(part.spec.admin_access)


def _other_strategy(sharing: GpuSharing, part: Part) -> tuple[str, str] | None:
    """Return that a share asks for another strategy than its class's GPUs offer, and what to do; None where not."""
    name = part.spec.device_class_name
    wanted = sharing.meant
    if wanted in {None, "exclusive"} or name not in SHARED_GPU_CLASSES:
        return None
    kind, offered = SHARED_GPU_CLASSES[name]
    if wanted == offered:
        return None
    return (
        f"sharing.strategy {wanted} does not fit class {name}, whose GPUs are shared by {offered}",
        f"set deviceClassName to {class_of_strategy(kind, str(wanted))}, or leave out sharing.strategy",
    )


def _share(
    amounts: Mapping[str, Quantity], kinds: frozenset[DeviceType], defaults: Mapping[str, Quantity] | None = None
) -> GpuShare:
    """Return a share of these amounts. One that names no memory has all of it, and so the whole GPU.

    Args:
        amounts: By the capacities' names.
        kinds: The types of the devices.
        defaults: What a share has of what it does not name, of memory all; None where it is not known.
    """
    memory = amounts[MEMORY].ceil() if MEMORY in amounts and kinds == {DeviceType.GPU} else None
    if defaults is not None and MEMORY in amounts and MEMORY in defaults:
        whole = amounts[MEMORY] >= defaults[MEMORY]
    else:
        whole = not amounts.keys() & {MEMORY, MEMORY_RATIO} or amounts.get(MEMORY_RATIO) == Quantity.of(_ALL)
    core = _ALL if whole else amounts[CORE].ceil() if CORE in amounts else 0
    return GpuShare(gpu=_ANY_GPU, core=core, memory_bytes=memory, whole=whole, ordinal=0)


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
                        policies = {name: item.request_policy for name, item in device.capacity.items()}
                        defaults = {name: each.default for name, each in policies.items() if each and each.default}
                        yield _share(consumed, part.kinds, defaults)


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
