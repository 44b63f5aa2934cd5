"""How each device of a claim is isolated, and whether the plans of one claim can stand beside each other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from driver.api.quantity import Quantity
from driver.api.resource_v1 import ClaimReference
from driver.config import DeviceConfig, GpuConfig
from driver.errors import InputError
from driver.model.devices import DeviceName, Gpu
from driver.model.parts import GpuRatio, MigPartition
from driver.model.pci import PciAddress, pci_order
from driver.plan.amounts import Amount
from driver.plan.cdi import CdiMount
from driver.plan.effects import CreateMigDevice, LeaveMigMode
from driver.plan.given import Given
from driver.plan.isolation import allowed_sharing, plan_isolation
from driver.plan.isolation.interface import GpuShare, Isolation, IsolationHost, IsolationPlan

__all__ = ["isolation_plans", "refuse_conflicts"]

_ONE_ENVIRONMENT: Final = (
    "a container has one of each: put these shares into claims of their own, for containers of their own, or use MIG "
    "partitions"
)


def isolation_plans(
    given: Sequence[Given],
    amounts: Sequence[Amount | None],
    configs: Sequence[DeviceConfig],
    host: IsolationHost,
    claim: ClaimReference,
    node: str,
) -> tuple[IsolationPlan | None, ...]:
    """The plan of each device: None for what is no GPU, and for what is only watched over.

    Raises:
        InputError: The settings contradict the share, or the administrator does not allow them.
        NodeError: The node lacks what the strategy takes.
    """
    ordinals = _ordinals(given)
    plans: list[IsolationPlan | None] = []
    for item, amount, config in zip(given, amounts, configs, strict=True):
        plan = None
        if isinstance(item.device, MigPartition):
            plan = None if item.admin_access else _mig(item.device, host)
        elif item.gpu is not None and amount is not None and isinstance(config, GpuConfig) and not item.admin_access:
            share = GpuShare(
                gpu=item.gpu,
                core=amount.core,
                memory_bytes=amount.memory_bytes,
                whole=amount.whole,
                ordinal=ordinals[item.base_request, item.gpu.address],
            )
            sharing = config.sharing
            if host.policies is not None:
                policy = host.policies.of(model=item.gpu.model, node=node)
                sharing = allowed_sharing(sharing, policy, whole=amount.whole, subject=item.subject)
            plan = plan_isolation(share, sharing, host, claim, item.base_request, item.subject)
            if item.gpu.mig is not None and item.gpu.mig.enabled:
                effect = LeaveMigMode(gpu=item.gpu.name, uuid=item.gpu.uuid or item.gpu.address)
                plan = replace(plan, effects=(effect, *plan.effects))
        plans.append(plan)
    return tuple(plans)


def refuse_conflicts(
    given: Sequence[Given], plans: Sequence[IsolationPlan | None], host: IsolationHost, claim: ClaimReference
) -> None:
    """Refuse a claim whose shares cannot be used side by side.

    Args:
        given: What the claim was given.
        plans: From :func:`isolation_plans`.
        host: Its ``files_root`` tells which mounts are files of the claim.
        claim: Named in the errors.

    Raises:
        InputError: Two shares of one GPU differ in strategy; or two of any GPUs give a variable, a path in the
            container or a file two contents.
    """
    sharing: dict[DeviceName, tuple[Given, str]] = {}
    values: dict[tuple[str, str], tuple[Given, object]] = {}
    for item, plan in zip(given, plans, strict=True):
        if plan is None or item.gpu is None:
            continue
        first, strategy = sharing.setdefault(item.gpu.name, (item, plan.sharing))
        if strategy != plan.sharing:
            raise InputError(
                f"claim {claim}: request {first.base_request} shares GPU {item.gpu.name} by {strategy}, request "
                f"{item.base_request} by {plan.sharing}",
                hint="all shares of a GPU have one strategy: give both requests the same GpuConfig",
            )
        for what, name, value in _contents(plan, host):
            first, other = values.setdefault((what, name), (item, value))
            if value != other:
                raise InputError(
                    f"claim {claim}: request {first.base_request} (device {first.device.name}) and request "
                    f"{item.base_request} (device {item.device.name}) need different contents of {what} {name}",
                    hint=_ONE_ENVIRONMENT,
                )


def _contents(plan: IsolationPlan, host: IsolationHost) -> Iterator[tuple[str, str, object]]:
    """What a plan gives the container: the kind of thing, its name, and what is in it."""
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


def _ordinals(given: Sequence[Given]) -> dict[tuple[str, PciAddress], int]:
    """The place of each GPU among those of its request and vendor, in the order of PCI addresses."""
    gpus: dict[tuple[str, str], set[PciAddress]] = {}
    for item in given:
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
