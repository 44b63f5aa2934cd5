"""``RdmaConfig``: how a claim uses its RDMA NICs and virtual functions (VFs)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Literal

from driver.api import API_VERSION
from driver.api.strict import rule
from driver.api.validation.errors import shown

__all__ = ["MAX_INTERFACE_NAME", "RdmaConfig", "RdmaInterface", "RdmaVfParameters", "interface_name_error"]

MAX_INTERFACE_NAME: Final = 15
"""Bytes (Linux: IFNAMSIZ less the closing zero)."""

# Linux (dev_valid_name) takes more. What is left out means something to programs that work with interfaces: '%' numbers
# them, ':' was an alias, '-' in front is an option, '.' and '..' are folders.
_INTERFACE: Final = re.compile(rf"[A-Za-z0-9][A-Za-z0-9_.-]{{0,{MAX_INTERFACE_NAME - 1}}}", re.ASCII)
# The pod's own two (containerd and CRI-O name the pod's network interface so), and those that stand for every interface
# below /proc/sys/net.
_TAKEN: Final = frozenset({"all", "default", "eth0", "lo"})
_GUID: Final = re.compile(r"[0-9A-Fa-f]{2}(?::[0-9A-Fa-f]{2}){7}", re.ASCII)
_NO_GUID: Final = frozenset({":".join(["00"] * 8), ":".join(["ff"] * 8)})

_MAX_RATE: Final = 10_000_000


def interface_name_error(name: str) -> str | None:
    """Return why a network interface of a pod cannot have the name; None where it can."""
    if _INTERFACE.fullmatch(name) is None:
        return (
            f"{shown(name)} cannot be an interface's name: expected 1 to {MAX_INTERFACE_NAME} letters, digits, '_', "
            "'-' and '.', the first a letter or digit"
        )
    if name in _TAKEN:
        return f"{shown(name)} is taken in every pod: choose another name, such as rdma0"
    return None


def _interface_name(name: str, _: object) -> str:
    problem = interface_name_error(name)
    if problem is not None:
        raise ValueError(problem)
    return name


def _beside_a_vlan(value: int, found: Mapping[str, Any]) -> int:
    # A VLAN that is wrong itself was not found; that error is enough.
    if not found.get("vlan", True):
        raise ValueError("is only for a vlan: expected vlan from 1 to 4094 beside it")
    return value


def _above_the_guarantee(value: int, found: Mapping[str, Any]) -> int:
    least = found.get("min_tx_rate")
    if value and least is not None and value < least:
        raise ValueError(f"{value} is less than minTxRate, {least}")
    return value


def _without_rates(value: bool, found: Mapping[str, Any]) -> bool:  # noqa: FBT001 - as the reader calls it
    if value and any(found.get(name) is not None for name in ("min_tx_rate", "max_tx_rate")):
        raise ValueError("is instead of minTxRate and maxTxRate: expected one way to limit a VF")
    return value


def _guid(value: str, _: object) -> str:
    lower = value.lower()
    if _GUID.fullmatch(value) is None or lower in _NO_GUID:
        raise ValueError(
            f"{shown(value)} is not a GUID: expected 8 bytes such as 00:11:22:33:44:55:66:77, neither all 00 nor all ff"
        )
    return lower


@dataclass(frozen=True, slots=True, kw_only=True)
class RdmaInterface:
    """The network interface of a NIC or VF, moved into the pod.

    Attributes:
        name: Its name in the pod; of a request that was given several devices, what stands before 0, 1, … in the order
            of the allocation. None is its name on the host.
        mtu: Its MTU in the pod, in bytes; None leaves it as it is.
    """

    WIRE: ClassVar[bool] = True

    name: str | None = rule(default=None, check=_interface_name)
    mtu: int | None = rule(default=None, least=68, most=65535)


@dataclass(frozen=True, slots=True, kw_only=True)
class RdmaVfParameters:
    """How the NIC treats a VF while the claim has it. What is not set stays as it is.

    Attributes:
        vlan: The VLAN that the NIC puts all of the VF's packets into; 0 is none.
        vlan_qos: The priority in the VLAN tag; only beside a VLAN.
        trust: Whether the VF may do what touches others, such as promiscuous mode.
        spoof_check: Whether packets with another source MAC than the VF's are dropped.
        min_tx_rate: Guaranteed transmit bandwidth in Mb/s; 0 is none.
        max_tx_rate: The most transmit bandwidth in Mb/s; 0 is no limit.
        limit_to_bandwidth: Whether a VF that has bandwidth reserved (``bandwidth``, ``bandwidthRatio``) may send no
            more than that, where the NIC's driver can see to it; instead of the two rates.
        guid: The VF's InfiniBand GUID, such as ``00:11:22:33:44:55:66:77``.
    """

    WIRE: ClassVar[bool] = True

    vlan: int | None = rule(default=None, least=0, most=4094)
    vlan_qos: int | None = rule(default=None, name="vlanQoS", least=0, most=7, check=_beside_a_vlan)
    trust: bool | None = None
    spoof_check: bool | None = None
    min_tx_rate: int | None = rule(default=None, least=0, most=_MAX_RATE)
    max_tx_rate: int | None = rule(default=None, least=0, most=_MAX_RATE, check=_above_the_guarantee)
    limit_to_bandwidth: bool = rule(default=False, check=_without_rates)
    guid: str | None = rule(default=None, check=_guid)


@dataclass(frozen=True, slots=True, kw_only=True)
class RdmaConfig:
    """Parameters for RDMA NICs and VFs.

    Attributes:
        rdma_cm: Whether the container is given ``/dev/infiniband/rdma_cm``, the RDMA connection manager. Off is for
            nodes that do not load ``rdma_ucm``: there the device node is missing, and a container that names it
            does not start.
        environment: Whether the variables that NCCL, UCX and NVSHMEM read name the container's NICs.
        interface: Says that the network interface is moved into the pod. Without it the interface stays on the host,
            and the pod has the device nodes alone.
        vf: Settings of a VF; a physical function has none. Only a DeviceClass may have them.
    """

    WIRE: ClassVar[bool] = True

    api_version: Literal["rootport.dev/v1alpha1"] = API_VERSION
    kind: Literal["RdmaConfig"] = "RdmaConfig"
    rdma_cm: bool = rule(default=True, name="rdmaCM")
    environment: bool = True
    interface: RdmaInterface | None = None
    vf: RdmaVfParameters | None = None
