"""Decides which network interfaces and RDMA devices are lent to a claim's pod, and their names there.

A network interface is in one network namespace at a time, so it goes to exactly one pod. Moving it is the CNI plugin's
when the pod's sandbox is made: CDI edits are a container's, and a container that restarts would not find it any more.

In exclusive mode an RDMA device is of no use where it is not moved. Rootport moves it if the node has its CNI plugin.
If it has not, Multus may do so with rdma-cni, which Rootport cannot know.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from driver.api.allocated_claim import AnyClaim
from driver.api.validation import names
from driver.api.validation.errors import joined_errors, shown
from driver.config import RdmaConfig, interface_name_error
from driver.errors import InputError, NodeError, UnsupportedError
from driver.model.devices import DeviceName, RdmaFunction, RdmaVf
from driver.plan.allocated import AllocatedDevice
from driver.plan.effects import LendInterface
from driver.plan.host import NicHost
from driver.plan.nic_amounts import NicAmount

__all__ = ["UsedFunction", "interfaces", "left_to_others", "lent"]

_INSTALL: Final = (
    "give Rootport's plugin the options --cni-conf-dir and --cni-bin-dir on this node: it then installs the CNI plugin"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class UsedFunction:
    """A function of a NIC that the claim uses.

    Attributes:
        item: The device that was allocated.
        function: The function.
        config: The parameters that apply to it, of class and claim.
        amount: Of its NIC's bandwidth, in a share or reserved for a VF.
    """

    item: AllocatedDevice
    function: RdmaFunction
    config: RdmaConfig
    amount: NicAmount

    @property
    def is_share(self) -> bool:
        """Whether other claims can have a share of the same function."""
        return bool(self.amount) and not isinstance(self.function, RdmaVf)


def lent(
    uses: Sequence[UsedFunction], claim: AnyClaim, nics: NicHost, *, exclusive: bool
) -> dict[DeviceName, LendInterface]:
    """Return what is lent of each function, by its name in the pool; nothing of the others.

    Args:
        uses: The functions that the claim uses, in the allocation's order.
        claim: The claim.
        nics: What the node has.
        exclusive: Whether an RDMA device is seen in one network namespace alone.

    Raises:
        InputError: Not exactly one pod holds the claim, or an interface's name or share cannot be.
        UnsupportedError: A function has several interfaces.
        NodeError: There is no interface, no RDMA device, or no CNI plugin for an interface; or an RDMA device that is
            in one network namespace was given in shares.
    """
    for use in uses:
        if exclusive and use.is_share:
            raise _no_share(use)
    can_move = _can_move(nics)
    lending = [use for use in uses if use.config.interface is not None or (exclusive and can_move)]
    if not lending:
        return {}
    names_in_pod = _names_in_pod([use for use in uses if use.config.interface is not None])
    pod_uid = _pod_uid(claim, lending[0], nics)
    if not can_move:
        raise _no_plugin(lending[0])
    effects: dict[DeviceName, LendInterface] = {}
    for use in lending:
        interface, function = use.config.interface, use.function
        # Each function once: one that is shared by bandwidth cannot be lent.
        effects[function.name] = LendInterface(
            function=function.name,
            address=function.address,
            interface="" if interface is None else _on_the_host(use),
            pod_uid=pod_uid,
            claim_uid=claim.metadata.uid,
            name_in_pod=names_in_pod.get(function.name, ""),
            mtu=interface.mtu if interface else None,
            rdma_device=_rdma_device(use) if exclusive else None,
        )
    return effects


def left_to_others(uses: Sequence[UsedFunction], nics: NicHost, *, exclusive: bool) -> tuple[RdmaFunction, ...]:
    """Return the functions whose RDMA device Rootport cannot move into the pod."""
    return tuple(use.function for use in uses) if exclusive and not _can_move(nics) else ()


def interfaces(effects: Iterable[LendInterface]) -> str:
    """Return the names of what is lent, for a sentence."""
    return ", ".join(effect.interface or effect.rdma_device or effect.function for effect in effects)


def _can_move(nics: NicHost) -> bool:
    return nics.has_cni_plugin or nics.simulated


def _names_in_pod(uses: Sequence[UsedFunction]) -> dict[DeviceName, str]:
    """Return the interfaces' names in the pod by function; those of one request are numbered."""
    times = Counter(use.item.base_request for use in uses)
    places: Counter[str] = Counter()
    holders: dict[str, UsedFunction] = {}
    found: dict[DeviceName, str] = {}
    for use in uses:
        request = use.item.base_request
        name = _name_in_pod(use, places[request] if times[request] > 1 else None)
        places[request] += 1
        holder = holders.setdefault(name, use)
        if holder is not use:
            raise InputError(
                f"{use.item.subject}: its network interface would be {name} in the pod, as that of {holder.item.at}",
                hint="give the interfaces of each request a name of their own (RdmaConfig, interface.name)",
            )
        found[use.function.name] = name
    return found


def _name_in_pod(use: UsedFunction, place: int | None) -> str:
    name = use.config.interface.name if use.config.interface else None
    if name is None:
        name = _on_the_host(use)
    elif place is not None:
        name = f"{name}{place}"
    problem = interface_name_error(name)
    if problem is not None:
        what = f"the name of interface {place} of the request" if place is not None else "the interface's name"
        raise InputError(
            f"{use.item.subject}: {what} in the pod, {problem}",
            hint="set interface.name in its RdmaConfig, short enough for the numbers of a request's devices",
        )
    return name


def _on_the_host(use: UsedFunction) -> str:
    """Return the name of the function's interface on the host, once it is sure that it can be moved."""
    if use.is_share:
        raise InputError(
            f"{use.item.subject} is a share of a NIC: its network interface cannot be moved into one pod",
            hint="leave bandwidth and bandwidthRatio out of the request to be given the whole NIC, allocate a virtual "
            "function, or leave interface out of the RdmaConfig",
        )
    found = use.function.if_names
    if not found:
        raise NodeError(
            f"{use.item.subject}: {use.function.name} has no network interface to move into the pod",
            hint="check on the node that the device's network driver is bound (InfiniBand: ib_ipoib), or leave "
            "interface out of the RdmaConfig",
        )
    if len(found) > 1:
        raise UnsupportedError(
            f"{use.item.subject}: {use.function.name} has the network interfaces {', '.join(found)}; this version "
            "moves the interface of a device that has one",
            hint="allocate another device, or leave interface out of the RdmaConfig",
        )
    return found[0]


def _no_share(use: UsedFunction) -> NodeError:
    return NodeError(
        f"{use.item.subject} is a share of a NIC, but the node's RDMA devices are each in one network namespace",
        hint="let the node share them (rdma system set netns shared), or delete the pod so that its claim is "
        "allocated anew",
    )


def _rdma_device(use: UsedFunction) -> str:
    if use.function.rdma_device is None:
        raise NodeError(
            f"{use.item.subject}: the node's inventory names no RDMA device of {use.function.name}",
            hint="check on the node that the device's RDMA driver is bound",
        )
    return use.function.rdma_device


def _pod_uid(claim: AnyClaim, first: UsedFunction, nics: NicHost) -> str:
    holders = claim.status.reserved_for
    if nics.simulated and not holders:
        return ""
    if len(holders) != 1 or (holders[0].api_group, holders[0].resource) != ("", "pods"):
        others = [f"{holder.resource} {shown(holder.name)}" for holder in holders[:3]]
        found = f"{len(holders)} hold the claim ({', '.join(others)})" if holders else "nobody holds the claim"
        raise InputError(
            f"{first.item.subject}: its network interface goes to exactly one pod, but {found}",
            hint="give each pod a claim of its own, by a ResourceClaimTemplate",
        )
    # It becomes the name of a folder.
    errors = list(names.label("status.reservedFor[0].uid", holders[0].uid))
    if errors:
        raise InputError(f"claim {claim.reference} cannot come from Kubernetes: {joined_errors(errors)}")
    return holders[0].uid


def _no_plugin(use: UsedFunction) -> NodeError:
    return NodeError(
        f"{use.item.subject}: Rootport's CNI plugin, which moves network interfaces into pods, is not part of the "
        "node's network",
        hint=f"{_INSTALL}; or leave interface out of the RdmaConfig and let Multus move it",
    )
