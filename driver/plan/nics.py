"""Decides which function of an RDMA NIC each device of a claim gets, and what is done to it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Final

from driver.api.allocated_claim import AnyClaim
from driver.config import RdmaConfig, RdmaVfParameters
from driver.errors import InputError
from driver.model.devices import DeviceName, LinkLayer, RdmaFunction, RdmaNetnsMode, RdmaNic, RdmaVf
from driver.model.inventory import Inventory
from driver.plan.decided import DecidedDevice, NicPlan
from driver.plan.effects import ConfigureVf, LendInterface, VfSettings
from driver.plan.host import NicHost
from driver.plan.interfaces import UsedFunction, interfaces, left_to_others, lent
from driver.plan.isolation.provider import Isolation
from driver.plan.vf_choice import with_functions

__all__ = ["vf_isolation", "with_nics"]

_AMAZON: Final = "amazon"
_LIMITER: Final = "SR-IOV"
_MEGA: Final = 10**6
_ETHERNET_ONLY: Final[Mapping[str, str]] = {"vlan": "vlan", "vlan_qos": "vlanQoS", "spoof_check": "spoofCheck"}


def with_nics(
    devices: Sequence[DecidedDevice], claim: AnyClaim, inventory: Inventory, nics: NicHost
) -> tuple[tuple[DecidedDevice, ...], tuple[str, ...]]:
    """Decide which function of its NIC each device gets, and what is done to it.

    Args:
        devices: The claim's devices.
        claim: The claim.
        inventory: What the node has.
        nics: What the node has for NICs, and which virtual functions are taken.

    Returns:
        The devices with their NIC plans, and notes for a person.

    Raises:
        InputError: The settings contradict what was given, or not exactly one pod holds what goes to one.
        NodeError: A link is down, no virtual function is free, or the node lacks what the settings take.
    """
    devices = with_functions(devices, nics)
    uses = [use for device in devices if (use := _use(device)) is not None]
    settings = _vf_settings(uses)
    exclusive = inventory.rdma_netns_mode is RdmaNetnsMode.EXCLUSIVE
    lending = lent(uses, claim, nics, exclusive=exclusive)
    left = left_to_others(uses, nics, exclusive=exclusive)
    return tuple(_planned(device, settings, lending) for device in devices), _notes(lending.values(), left, nics)


def _use(device: DecidedDevice) -> UsedFunction | None:
    """Return the function that the claim uses; None where it uses none, though it may watch over one."""
    if device.nic is None or device.allocated.admin_access or not isinstance(device.config, RdmaConfig):
        return None
    return UsedFunction(
        item=device.allocated, function=device.nic.function, config=device.config, amount=device.nic_amount
    )


def _planned(
    device: DecidedDevice,
    settings: Mapping[DeviceName, ConfigureVf],
    lending: Mapping[DeviceName, LendInterface],
) -> DecidedDevice:
    use = _use(device)
    if use is None:
        return device
    function, nic = use.function, use.item.nic
    effects = (settings.get(function.name), lending.get(function.name))
    # Amazon's EFA is no InfiniBand: its users take libfabric.
    is_amazons = nic is not None and nic.vendor == _AMAZON
    plan = NicPlan(
        function=function,
        effects=tuple(effect for effect in effects if effect is not None),
        in_environment=use.config.environment and bool(function.rdma_device) and not is_amazons,
    )
    return replace(device, nic=plan)


def _notes(moved: Collection[LendInterface], left: Sequence[RdmaFunction], nics: NicHost) -> tuple[str, ...]:
    if moved and not nics.has_cni_plugin:
        return (f"Rootport's CNI plugin is assumed on the node: it moves {interfaces(moved)} into the pod",)
    if left:
        devices = ", ".join(function.rdma_device or function.name for function in left)
        note = (
            "the node's RDMA devices are each in one network namespace, and Rootport's CNI plugin is not part of the "
            f"node's network: the pod can use {devices} only if Multus with rdma-cni moves that into it"
        )
        return (note,)
    return ()


def _vf_settings(uses: Sequence[UsedFunction]) -> dict[DeviceName, ConfigureVf]:
    """Return how virtual functions are to be configured, by their names in the pool."""
    guids: dict[str, UsedFunction] = {}
    found: dict[DeviceName, ConfigureVf] = {}
    for use in uses:
        parameters, function = use.config.vf, use.function
        settings = VfSettings() if parameters is None else _settings(parameters)
        rate_limit = _rate_limit(use)
        if settings == VfSettings() and rate_limit is None:
            continue
        if not isinstance(function, RdmaVf):
            raise InputError(
                f"{use.item.subject} is a physical function: the settings vf of its DeviceClass's RdmaConfig are for "
                "virtual functions",
                hint="ask for a DeviceClass of physical functions, or let an administrator have this one select "
                "virtual functions alone",
            )
        _refuse_settings(use, function, settings)
        if settings.guid is not None and guids.setdefault(settings.guid, use) is not use:
            raise InputError(
                f"{use.item.subject} would have the GUID {settings.guid}, as {guids[settings.guid].item.at}",
                hint="a GUID is one virtual function's: of a DeviceClass that has one, ask for one device",
            )
        found[function.name] = ConfigureVf(
            function=function.name,
            address=function.address,
            pf_address=function.parent,
            index=function.index,
            settings=settings,
            rate_limit=rate_limit,
        )
    return found


def _rate_limit(use: UsedFunction) -> int | None:
    """Return the Mb/s that a VF is limited to, if its NIC's driver can do that; None for no limit.

    They are rounded down, so that VFs' limits are never more than their NIC's speed together. 0 would be no limit.
    """
    parameters, function = use.config.vf, use.function
    if parameters is None or not parameters.limit_to_bandwidth or not isinstance(function, RdmaVf) or not use.amount:
        return None
    reserved = use.amount.bits_per_second(use.item.nic.bandwidth if use.item.nic else None)
    return None if reserved is None else max(reserved // _MEGA, 1)


def vf_isolation(device: DecidedDevice, not_limited: str | None) -> Isolation | None:
    """Return whether a VF is kept to the bandwidth that it has reserved; None where nobody asked for that.

    Args:
        device: The device, planned.
        not_limited: Why the NIC could not be told to limit the VF; None where it was.
    """
    config = device.config
    if (
        device.nic is None
        or not isinstance(config, RdmaConfig)
        or config.vf is None
        or not config.vf.limit_to_bandwidth
    ):
        return None
    if not device.nic_amount or not isinstance(device.nic.function, RdmaVf):
        return None
    limit = next((effect.rate_limit for effect in device.nic.effects if isinstance(effect, ConfigureVf)), None)
    if limit is None:
        not_limited = "how many bits per second its percentage is, is not known, since the NIC's speed is not"
    if not_limited is not None:
        message = f"Its bandwidth is reserved, but nothing limits the virtual function to it: {not_limited}"
        return Isolation(enforced=False, by=_LIMITER, version=None, message=message)
    message = f"The NIC limits what the virtual function sends to the reserved {limit} Mb/s, not what it receives"
    return Isolation(enforced=True, by=_LIMITER, version=None, message=message)


def _settings(parameters: RdmaVfParameters) -> VfSettings:
    return VfSettings(
        vlan=parameters.vlan,
        vlan_qos=parameters.vlan_qos,
        trust=parameters.trust,
        spoof_check=parameters.spoof_check,
        min_tx_rate=parameters.min_tx_rate,
        max_tx_rate=parameters.max_tx_rate,
        guid=parameters.guid,
    )


def _refuse_settings(use: UsedFunction, function: RdmaVf, settings: VfSettings) -> None:
    layers = {port.link_layer for port in (function.ports or (use.item.nic.ports if use.item.nic else ()))}
    wrong = [field for name, field in _ETHERNET_ONLY.items() if getattr(settings, name) is not None]
    if layers == {LinkLayer.ETHERNET}:
        wrong = ["guid"] if settings.guid is not None else []
    elif layers != {LinkLayer.INFINIBAND}:
        wrong = []
    if wrong:
        (layer,) = layers
        raise InputError(
            f"{use.item.subject}: its link is {layer}, which has no {', '.join(wrong)} (vf of its DeviceClass's "
            "RdmaConfig)",
            hint="vlan, vlanQoS and spoofCheck are for Ethernet, guid is for InfiniBand: an administrator corrects the "
            "DeviceClass, or has it select devices by linkType",
        )
    speed = use.item.nic.speed_gbps if isinstance(use.item.nic, RdmaNic) else None
    if speed is not None and settings.min_tx_rate is not None and settings.min_tx_rate > speed * 1000:
        raise InputError(
            f"{use.item.subject}: minTxRate {settings.min_tx_rate} Mb/s is more than the NIC has ({speed} Gb/s)",
            hint="an administrator lowers vf.minTxRate in the DeviceClass, or has it select devices by linkSpeed",
        )
