"""What preparing a claim takes for its RDMA NICs: which function, who may use it beside, what is done to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from driver.api.resource_v1 import ResourceClaim
from driver.config import DeviceConfig, RdmaConfig, RdmaVfParameters
from driver.errors import InputError
from driver.model.devices import LinkLayer, RdmaFunction, RdmaNetnsMode, RdmaNic, RdmaVf
from driver.model.inventory import Inventory
from driver.plan.effects import ConfigureVf, LendInterface, VfSettings
from driver.plan.given import Given
from driver.plan.interfaces import NicGiven, interfaces, left_to_others, lent
from driver.plan.nic_host import NicHost
from driver.plan.nic_use import NicUse
from driver.plan.vf_choice import chosen_functions

__all__ = ["NicPlan", "nic_plans"]

_AMAZON: Final = "amazon"
_ETHERNET_ONLY: Final[Mapping[str, str]] = {"vlan": "vlan", "vlan_qos": "vlanQoS", "spoof_check": "spoofCheck"}


@dataclass(frozen=True, slots=True, kw_only=True)
class NicPlan:
    """What was decided for one NIC or virtual function.

    Attributes:
        function: What the container gets.
        use: How the claim uses the NIC; None where it only watches over it.
        effects: What has to be done on the node, in this order.
        in_environment: Whether NCCL, UCX and NVSHMEM are told of it.
    """

    function: RdmaFunction
    use: NicUse | None = None
    effects: tuple[ConfigureVf | LendInterface, ...] = ()
    in_environment: bool = False

    @property
    def name_in_pod(self) -> str | None:
        """Its network interface's name in the pod; None where it stays on the host."""
        return next((effect.name_in_pod or None for effect in self.effects if isinstance(effect, LendInterface)), None)


def nic_plans(
    given: Sequence[Given],
    bandwidths: Sequence[int | None],
    configs: Sequence[DeviceConfig],
    claim: ResourceClaim,
    inventory: Inventory,
    nics: NicHost,
) -> tuple[tuple[NicPlan | None, ...], tuple[str, ...]]:
    """The plan of each device, None for what is no NIC and for a pool that is only watched over; and notes.

    Raises:
        InputError: The settings contradict what was given, or not exactly one pod holds what goes to one.
        NodeError: A link is down, no virtual function is free, or the node lacks what the settings take.
    """
    functions = chosen_functions(given, nics)
    uses: list[NicGiven] = []
    for item, function, config, bandwidth in zip(given, functions, configs, bandwidths, strict=True):
        if function is not None and isinstance(config, RdmaConfig) and not item.admin_access:
            uses.append(NicGiven(item=item, function=function, config=config, bandwidth=bandwidth))
    if not uses:
        # Nothing is used, though something may be watched over.
        return tuple(None if function is None else NicPlan(function=function) for function in functions), ()
    configured = _configured(uses)
    exclusive = inventory.rdma_netns_mode is RdmaNetnsMode.EXCLUSIVE
    lending = lent(uses, claim, nics, exclusive=exclusive)
    planned = iter(zip(uses, configured, lending, strict=True))
    plans: list[NicPlan | None] = []
    for item, function in zip(given, functions, strict=True):
        if function is None or item.admin_access:
            plans.append(None if function is None else NicPlan(function=function))
        else:
            use, settings, interface = next(planned)
            effects = tuple(effect for effect in (settings, interface) if effect is not None)
            plans.append(_plan(use, effects))
    left = left_to_others(uses, nics, exclusive=exclusive)
    return tuple(plans), _notes([effect for effect in lending if effect is not None], left, nics)


def _notes(moved: Sequence[LendInterface], left: Sequence[RdmaFunction], nics: NicHost) -> tuple[str, ...]:
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


def _plan(use: NicGiven, effects: tuple[ConfigureVf | LendInterface, ...]) -> NicPlan:
    item, function = use.item, use.function
    nic = item.nic
    return NicPlan(
        function=function,
        use=NicUse(
            nic=nic.name if nic is not None else function.name,
            vf=function.name if isinstance(function, RdmaVf) else None,
            bandwidth=use.bandwidth,
            nic_bandwidth=nic.bandwidth if nic is not None else None,
        ),
        effects=effects,
        # Amazon's EFA is no InfiniBand: its users take libfabric.
        in_environment=use.config.environment
        and bool(function.rdma_device)
        and not (nic is not None and nic.vendor == _AMAZON),
    )


def _configured(uses: Sequence[NicGiven]) -> tuple[ConfigureVf | None, ...]:
    guids: dict[str, NicGiven] = {}
    found: list[ConfigureVf | None] = []
    for use in uses:
        parameters, function = use.config.vf, use.function
        settings = VfSettings() if parameters is None else _settings(parameters)
        if parameters is None or settings == VfSettings():
            found.append(None)
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
        found.append(
            ConfigureVf(
                function=function.name,
                address=function.address,
                pf_address=function.parent,
                index=function.index,
                settings=settings,
            )
        )
    return tuple(found)


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


def _refuse_settings(use: NicGiven, function: RdmaVf, settings: VfSettings) -> None:
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
