"""Decides how each GPU of a claim is isolated, and refuses devices of one claim whose isolation contradicts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from driver.api.claim_reference import ClaimReference
from driver.api.quantity import Quantity
from driver.config import GpuConfig
from driver.errors import InputError
from driver.model.devices import DeviceName, Gpu
from driver.model.parts import GpuRatio, MigPartition
from driver.model.pci import PciAddress, pci_order
from driver.plan.allocated import AllocatedDevice
from driver.plan.cdi import CdiMount
from driver.plan.decided import DecidedDevice
from driver.plan.effects import CreateMigDevice, LeaveMigMode
from driver.plan.isolation import allowed_sharing, plan_isolation
from driver.plan.isolation.provider import GpuShare, Isolation, IsolationHost, IsolationPlan
from driver.plan.sharing import GpuConflict, gpu_conflict
from driver.plan.uses import GpuUse

__all__ = ["refuse_conflicts", "with_isolation"]

_ONE_ENVIRONMENT: Final = (
    "a container has one of each: put these shares into claims of their own, for containers of their own, or use MIG "
    "partitions"
)


def with_isolation(
    devices: Sequence[DecidedDevice], host: IsolationHost, claim: ClaimReference, node: str
) -> tuple[DecidedDevice, ...]:
    """Return the devices, those that use a GPU with their isolation.

    Raises:
        InputError: The settings contradict the share, or the GPU offers another strategy.
        NodeError: The node lacks what the strategy takes.
    """
    ordinals = _ordinals(devices)
    decided = []
    for device in devices:
        isolation = _isolation(device, ordinals, host, claim, node)
        decided.append(replace(device, isolation=isolation))
        use = decided[-1].gpu_use
        if use is not None and not use.whole and use.sharing:  # another share of the GPU in this claim follows it
            host = replace(host, in_use={use.gpu: use.sharing} | dict(host.in_use))
    return tuple(decided)


def _isolation(
    device: DecidedDevice,
    ordinals: Mapping[tuple[str, PciAddress], int],
    host: IsolationHost,
    claim: ClaimReference,
    node: str,
) -> IsolationPlan | None:
    item, amount, config = device.allocated, device.amount, device.config
    if item.admin_access:
        return None
    if isinstance(item.device, MigPartition):
        return _mig(item.device, host)
    if item.gpu is None or amount is None or not isinstance(config, GpuConfig):
        return None
    share = GpuShare(
        gpu=item.gpu,
        core=amount.core,
        memory_bytes=amount.memory_bytes,
        whole=amount.whole,
        ordinal=ordinals[item.base_request, item.gpu.address],
    )
    sharing, note = allowed_sharing(
        config.sharing,
        item.gpu,
        host.policy_of(item.gpu, node),
        kind=item.device.type,
        whole=amount.whole,
        subject=item.subject,
    )
    plan = plan_isolation(share, sharing, host, claim, item.base_request, item.subject)
    if note:
        plan = replace(plan, isolation=replace(plan.isolation, message=f"{plan.isolation.message}; {note}"))
    if item.gpu.mig is not None and item.gpu.mig.enabled:
        effect = LeaveMigMode(gpu=item.gpu.name, uuid=item.gpu.uuid or item.gpu.address)
        plan = replace(plan, effects=(effect, *plan.effects))
    return plan


def refuse_conflicts(devices: Sequence[DecidedDevice], host: IsolationHost, claim: ClaimReference) -> None:
    """Refuse a claim whose shares cannot be used side by side.

    Args:
        devices: From :func:`with_isolation`; nothing is given twice.
        host: Mounts below its ``files_root`` are files of the claim.
        claim: Named in the errors.

    Raises:
        InputError: Two shares of one GPU differ in strategy; or two of any GPUs give a variable, a path in the
            container or a file two contents.
    """
    users: dict[DeviceName, tuple[str, GpuUse]] = {}
    values: dict[tuple[str, str], tuple[AllocatedDevice, object]] = {}
    for device in devices:
        item, use = device.allocated, device.gpu_use
        if device.isolation is None or use is None:
            continue
        request, earlier = users.setdefault(use.gpu, (item.base_request, use))
        if gpu_conflict(use, earlier) is GpuConflict.SHARING:
            raise InputError(
                f"claim {claim}: request {request} shares GPU {use.gpu} by {earlier.sharing}, request "
                f"{item.base_request} by {use.sharing}",
                hint="all shares of a GPU have one strategy: give both requests the same GpuConfig",
            )
        for what, name, value in _contents(device.isolation, host):
            first, other = values.setdefault((what, name), (item, value))
            if value != other:
                raise InputError(
                    f"claim {claim}: request {first.base_request} (device {first.device.name}) and request "
                    f"{item.base_request} (device {item.device.name}) need different contents of {what} {name}",
                    hint=_ONE_ENVIRONMENT,
                )


def _contents(plan: IsolationPlan, host: IsolationHost) -> Iterator[tuple[str, str, object]]:
    """Yield what a plan gives the container: the kind of thing, its name, and what is in it."""
    for variable in plan.env:
        name, _, value = variable.partition("=")
        yield "the environment variable", name, value
    files = {f"{host.files_root}/{file.relative_path}": file.content for file in plan.files}
    for mount in plan.mounts:
        yield "the path", mount.container_path, _source(mount, files)
    for file in plan.files:
        yield "the file", file.relative_path, file.content


def _source(mount: CdiMount, files: dict[str, bytes]) -> object:
    # Each request may have a file of its own with the same content: which one is mounted makes no difference.
    return files.get(mount.host_path, mount.host_path), mount.options


def _ordinals(devices: Sequence[DecidedDevice]) -> dict[tuple[str, PciAddress], int]:
    """Return the place of each GPU among those of its request and vendor, in the order of PCI addresses."""
    gpus: dict[tuple[str, str], set[PciAddress]] = {}
    for item in (device.allocated for device in devices):
        if isinstance(item.device, Gpu | GpuRatio) and item.gpu is not None:
            gpus.setdefault((item.base_request, item.gpu.vendor), set()).add(item.gpu.address)
    return {
        (request, address): place
        for (request, _), addresses in gpus.items()
        for place, address in enumerate(sorted(addresses, key=pci_order))
    }


def _mig(partition: MigPartition, host: IsolationHost) -> IsolationPlan:
    gpu, profile, placement = partition.gpu, partition.profile, partition.placement
    memory = Quantity.of(profile.memory_bytes, binary=True)
    slices = f"{profile.compute_slices} compute slice{'s' if profile.compute_slices != 1 else ''}"
    effect = CreateMigDevice(
        gpu=gpu.name,
        # Topology files name no UUID; nvidia-smi takes the PCI address as well.
        uuid=gpu.uuid or gpu.address,
        profile_id=profile.profile_id,
        profile=profile.name,
        start=placement.start,
        size=placement.size,
    )
    return IsolationPlan(
        isolation=Isolation(
            enforced=True,
            by="MIG",
            version=host.driver_version or gpu.driver_version,
            message=f"the GPU itself keeps MIG partition {profile.name} within {slices} and {memory} of memory",
        ),
        sharing="",
        effects=() if partition.instance else (effect,),
    )
