"""``RdmaConfig``: how a claim uses its RDMA NICs and virtual functions (VFs)."""

from __future__ import annotations

import re
from typing import Annotated, Final, Literal

from pydantic import Field, ValidationInfo, field_validator
from pydantic_core import PydanticCustomError

from driver.api import API_VERSION
from driver.api.resource_v1 import StrictWire
from driver.api.validation.errors import shown
from driver.api.validation.wording import PLAIN_ERROR

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

_Rate = Annotated[int, Field(ge=0, le=10_000_000)]


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


class RdmaInterface(StrictWire):
    """The network interface of a NIC or VF, moved into the pod.

    Attributes:
        name: Its name in the pod; of a request that was given several devices, what stands before 0, 1, … in the order
            of the allocation. None is its name on the host.
        mtu: Its MTU in the pod, in bytes; None leaves it.
    """

    name: str | None = None
    mtu: Annotated[int, Field(ge=68, le=65535)] | None = None

    @field_validator("name")
    @classmethod
    def _is_a_name(cls, value: str | None) -> str | None:
        problem = None if value is None else interface_name_error(value)
        if problem is not None:
            raise PydanticCustomError(PLAIN_ERROR, "{problem}", {"problem": problem})
        return value


class RdmaVfParameters(StrictWire):
    """How the NIC treats a VF while the claim has it. None leaves a setting as it is.

    Attributes:
        vlan: The VLAN that the NIC puts all of the VF's packets into; 0 is none.
        vlan_qos: The priority in the VLAN tag; only beside a VLAN.
        trust: Whether the VF may do what touches others, such as promiscuous mode.
        spoof_check: Whether packets with another source MAC than the VF's are dropped.
        min_tx_rate: Guaranteed transmit bandwidth in Mb/s; 0 is none.
        max_tx_rate: The most transmit bandwidth in Mb/s; 0 is no limit.
        guid: The VF's InfiniBand GUID, such as ``00:11:22:33:44:55:66:77``.
    """

    vlan: Annotated[int, Field(ge=0, le=4094)] | None = None
    vlan_qos: Annotated[int, Field(ge=0, le=7)] | None = Field(default=None, alias="vlanQoS")
    trust: bool | None = None
    spoof_check: bool | None = None
    min_tx_rate: _Rate | None = None
    max_tx_rate: _Rate | None = None
    guid: str | None = None

    @field_validator("vlan_qos")
    @classmethod
    def _beside_a_vlan(cls, value: int | None, info: ValidationInfo) -> int | None:
        # A VLAN that is wrong itself is not among the data; that error is enough.
        if value is not None and not info.data.get("vlan", True):
            raise PydanticCustomError(PLAIN_ERROR, "is only for a vlan: expected vlan from 1 to 4094 beside it")
        return value

    @field_validator("max_tx_rate")
    @classmethod
    def _above_the_guarantee(cls, value: int | None, info: ValidationInfo) -> int | None:
        least = info.data.get("min_tx_rate")
        if value and least is not None and value < least:
            raise PydanticCustomError(
                PLAIN_ERROR, "{found} is less than minTxRate, {least}", {"found": value, "least": least}
            )
        return value

    @field_validator("guid")
    @classmethod
    def _is_a_guid(cls, value: str | None) -> str | None:
        if value is None:
            return None
        lower = value.lower()
        if _GUID.fullmatch(value) is None or lower in _NO_GUID:
            raise PydanticCustomError(
                PLAIN_ERROR,
                "{found} is not a GUID: expected 8 bytes such as 00:11:22:33:44:55:66:77, neither all 00 nor all ff",
                {"found": shown(value)},
            )
        return lower


class RdmaConfig(StrictWire):
    """Parameters for RDMA NICs and VFs.

    Attributes:
        rdma_cm: Whether the container is given ``/dev/infiniband/rdma_cm``, the RDMA connection manager. Off is for
            nodes that do not load ``rdma_ucm``: there the device node is missing, and a container that names it
            does not start.
        environment: Whether the variables that NCCL, UCX and NVSHMEM read name the container's NICs.
        interface: Move the network interface into the pod; None leaves it on the host, and the pod has the device nodes
            alone.
        vf: Settings of a VF; a physical function has none. Only a DeviceClass may have them.
    """

    api_version: Literal["rootport.dev/v1alpha1"] = API_VERSION
    kind: Literal["RdmaConfig"] = "RdmaConfig"
    rdma_cm: bool = Field(default=True, alias="rdmaCM")
    environment: bool = True
    interface: RdmaInterface | None = None
    vf: RdmaVfParameters | None = None
