"""What a container asks for, in no system's words: dialects read their own into these, claims are written of them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

__all__ = ["DeviceRequest", "FpgaRequest", "GpuRequest", "Match", "Near", "NicRequest", "Wanted"]

_ALL: Final = (None, 100)
"""An amount that is all of a GPU's, in percent."""


class Match(StrEnum):
    """How an attribute's text is compared: with one of the values, or having one of them in it in either case."""

    EQUALS = "equals"
    CONTAINS = "contains"


class Near(StrEnum):
    """How near a container's GPUs and NICs have to be to each other.

    ANY: as they come. PREFERRED: the nearest there is, and any in the end. SWITCH, ROOT, NUMA: under one PCIe switch,
    under one PCIe root, on one NUMA node.
    """

    ANY = "any"
    PREFERRED = "preferred"
    SWITCH = "switch"
    ROOT = "root"
    NUMA = "numa"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What an attribute of a device has to be: it becomes a CEL selector, with every value as an escaped literal.

    Attributes:
        attribute: Of ``rootport.dev``, without its domain: ``model``, ``uuid``, ``index``.
        values: Any of them will do.
        match: How they are compared.
        negated: Whether none of them may be met instead.
    """

    attribute: str
    values: tuple[str | int, ...]
    match: Match = Match.EQUALS
    negated: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuRequest:
    """GPUs that are all alike: whole ones, shares of so many different GPUs, or MIG partitions.

    Attributes:
        count: How many GPUs or partitions.
        core: Percent of each GPU's compute, 1 to 100; None where nothing says how much.
        memory: Bytes of each GPU's memory; None where nothing says how much.
        memory_percent: Percent of each GPU's memory, 1 to 100; never together with ``memory``.
        profile: The MIG profile, such as ``1g.10gb``; nothing of the above then.
        core_is_limited: Whether what asked for ``core`` keeps a container within it.
        strategy: ``timeSlicing``, ``mps`` or ``hamiCore``; empty for Rootport's default.
        interval: Of ``timeSlicing``: ``Short``, ``Medium``, ``Long``; empty for the default.
        vendor: As Rootport's attribute ``vendor`` has it; empty for any.
        wanted: What else each device has to be.
        together: Attributes that must be the same for all, each with its domain.
    """

    count: int = 1
    core: int | None = None
    memory: int | None = None
    memory_percent: int | None = None
    profile: str = ""
    core_is_limited: bool = True
    strategy: str = ""
    interval: str = ""
    vendor: str = ""
    wanted: tuple[Wanted, ...] = ()
    together: tuple[str, ...] = ()

    @property
    def is_share(self) -> bool:
        """Whether it leaves some of each GPU to others."""
        return not self.profile and (
            self.memory is not None or self.core not in _ALL or self.memory_percent not in _ALL
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class NicRequest:
    """RDMA NICs, or virtual functions of them.

    Attributes:
        count: How many; 0 for all that a node has.
        is_vf: Whether virtual functions are asked for instead of NICs.
        bandwidth: Bits per second of each NIC; None for the whole NIC.
        bandwidth_percent: Percent of each NIC's bandwidth, 1 to 100; never together with ``bandwidth``.
        speed: Bits per second that the whole NIC has, where GPUs under one switch may share it; None where it is one
            GPU's.
        device_class: Another DeviceClass than Rootport's own, from the mapping file.
        wanted: What else each device has to be.
        selectors: Further CEL expressions, from the mapping file; never from an object.
        interface: The name that the interface gets in the pod; empty where it is not moved into the pod.
    """

    count: int = 1
    is_vf: bool = False
    bandwidth: int | None = None
    bandwidth_percent: int | None = None
    speed: int | None = None
    device_class: str = ""
    wanted: tuple[Wanted, ...] = ()
    selectors: tuple[str, ...] = ()
    interface: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FpgaRequest:
    """FPGAs, whole ones.

    Attributes:
        count: How many; 0 for all that a node has.
        wanted: What else each device has to be.
    """

    count: int = 1
    wanted: tuple[Wanted, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceRequest:
    """All that one container asks for.

    Attributes:
        gpus: Its GPUs.
        nics: Its NICs.
        fpgas: Its FPGAs.
        near: How near its GPUs and NICs are to be to each other.
        nic_each: Whether every GPU is to have a NIC of its own, however few are asked for.
    """

    gpus: tuple[GpuRequest, ...] = ()
    nics: tuple[NicRequest, ...] = ()
    fpgas: tuple[FpgaRequest, ...] = ()
    near: Near = Near.ANY
    nic_each: bool = False

    def __bool__(self) -> bool:
        return bool(self.gpus or self.nics or self.fpgas)
