"""NVIDIA's Xid errors: what each means for the GPU.

Names, and what has to be done at once, are those of NVIDIA's Xid catalogue (release 610, for Ampere and newer:
https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html), whose mnemonics stand in the open kernel
module's nverror.h. What an error does to the device follows from them:

- An application's error is not the GPU's, and anybody who runs an application could make it: no fault. These are
  the ones that NVIDIA's DRA driver and device plugin skip (13, 31, 43, 45, 68, 109) and those whose catalogue entry
  sends one to the application. 109 asks for a reset as well: the driver then reports so itself (RecoveryNeeded).
- RESET_GPU, and the workflows of 48 and 74 that end there: NoSchedule. 94 as well, for the driver retires the memory
  by a reset.
- RESTART_BM (79), and memory errors that were not contained (95): NoExecute, since nothing that runs can go on.
- IGNORE, an engine's error that ends with the application's restart, and what needs figures that an NVML event does
  not have (the NVLink 5 workflow of 144 to 150): None. Where the driver wants a reset, RecoveryNeeded keeps work away.
- 154 only reports that the driver's recovery action changed, which every reading shows: no fault.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from driver.model.health import Effect

__all__ = ["Remedy", "Xid", "xid"]


class Remedy(StrEnum):
    """What ends an error: the catalogue's immediate action."""

    NOTHING = "nothing"
    """No action is needed at once, or there is nothing that the GPU's use would show."""

    RESTART_APPLICATION = "restart-application"
    RESET = "reset"
    """A reset of the GPU, or a restart of the node, which is one as well."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Xid:
    """One error.

    Attributes:
        number: Its number.
        name: What it is, such as ``GPU has fallen off the bus``.
        effect: What it does to the device; None where it is no fault of the device.
        remedy: What ends it.
        action: What a person has to do, as the second half of a sentence.
    """

    number: int
    name: str
    effect: Effect | None
    remedy: Remedy
    action: str


def xid(number: int) -> Xid:
    """Return what is known of an error, also of one that is not in the table."""
    known = _XIDS.get(number)
    return known or Xid(
        number=number,
        name="an error that is not in Rootport's table",
        effect=Effect.NONE,
        remedy=Remedy.NOTHING,
        action="look it up in NVIDIA's Xid catalogue, and in dmesg on the node",
    )


_RESET: Final = "end what uses the GPU, then reset it with `nvidia-smi --gpu-reset`"
_RESET_OR_REPLACE: Final = f"{_RESET}; have it replaced when the error comes back"
_REBOOT: Final = "drain and reboot the node; have the GPU and its slot looked at when the error comes back"
_RESTART: Final = "restart what used the GPU; ask NVIDIA's support when the error comes back"
_WATCH: Final = "nothing has to be done at once; ask NVIDIA's support when the error comes often"
_LINK: Final = "where the driver asks for a reset the GPU needs it; look at the links with `nvidia-smi nvlink --status`"
_NO_ACTION: Final = "NVIDIA's catalogue names no action; see dmesg on the node"


def _application(numbers: Iterable[int], name: str) -> list[Xid]:
    action = "look at the application: it used the GPU wrongly, or was ended"
    return [
        Xid(number=number, name=name, effect=None, remedy=Remedy.RESTART_APPLICATION, action=action)
        for number in numbers
    ]


def _fault(
    numbers: Iterable[int],
    name: str,
    action: str,
    *,
    effect: Effect = Effect.NO_SCHEDULE,
    remedy: Remedy = Remedy.RESET,
) -> list[Xid]:
    return [Xid(number=number, name=name, effect=effect, remedy=remedy, action=action) for number in numbers]


def _engine(numbers: Iterable[int], name: str) -> list[Xid]:
    return _fault(numbers, name, _RESTART, effect=Effect.NONE, remedy=Remedy.RESTART_APPLICATION)


def _event(numbers: Iterable[int], name: str, action: str) -> list[Xid]:
    return _fault(numbers, name, action, effect=Effect.NONE, remedy=Remedy.NOTHING)


_XIDS: Final = {
    entry.number: entry
    for entries in (
        _application((11, 13, 25, 69), "an error of the graphics or compute engine that an application caused"),
        _application((31,), "GPU memory page fault"),
        _application((32, 80), "invalid or corrupted push buffer"),
        _application((37,), "a method that the firmware does not know"),
        _application((43,), "reset of an application's channel"),
        _application((45,), "an application's channels were removed"),
        _application((68,), "video decoder exception"),
        _application((109,), "context switch timeout"),
        _application((154,), "the recovery action changed"),
        _engine((8,), "GPU stopped processing"),
        _engine((39, 40, 41, 70, 71, 72, 75, 76, 77, 85, *range(126, 136)), "copy engine exception"),
        _engine((60, 169), "security engine exception"),
        _engine((82, *range(99, 106)), "JPEG decoder exception"),
        _engine((83, 84, 88, 89, 96, 97, 98), "video decoder exception"),
        _engine((86, 139), "optical flow accelerator exception"),
        _engine((142,), "video encoder exception"),
        _fault((46,), "GPU stopped processing and did not answer", _RESET),
        _fault((48,), "double-bit ECC error", _RESET_OR_REPLACE),
        _fault((62,), "the power management unit halted", _RESET_OR_REPLACE),
        _fault((64,), "a memory page or row could not be retired", _RESET_OR_REPLACE),
        _fault((74,), "NVLink error", f"{_RESET}; look at the links with `nvidia-smi nvlink --errorcounters`"),
        _fault((79,), "GPU has fallen off the bus", _REBOOT, effect=Effect.NO_EXECUTE),
        _fault(
            (94,),
            "contained ECC error",
            "restart what used the GPU; reset it with `nvidia-smi --gpu-reset` when nothing uses it",
            remedy=Remedy.RESTART_APPLICATION,
        ),
        _fault((95,), "uncontained ECC error", _RESET_OR_REPLACE, effect=Effect.NO_EXECUTE),
        _fault((110,), "security fault", _RESET),
        _fault((119,), "the GPU's system processor (GSP) did not answer in time", _RESET),
        _fault((120,), "error of the GPU's system processor (GSP)", _RESET),
        _fault((136,), "the training of an NVLink failed", _RESET),
        _fault((140,), "unrecovered ECC error", _RESET_OR_REPLACE),
        _fault((143,), "the GPU could not be initialised", _RESET_OR_REPLACE),
        _fault((151,), "key rotation error", "drain and restart the node or the virtual machine"),
        _fault((155,), "NVLink error that software defines", _RESET),
        _fault((156,), "a resource of the GPU was retired", _RESET),
        _fault((158,), "fatal timeout of the GPU", _RESET),
        _event((38, 44, 66, 67), "error of the context switching firmware", _WATCH),
        _event(
            (54,),
            "auxiliary power is not connected, clocks are held down",
            "see to the power cables of the GPU's board",
        ),
        _event((63,), "a memory page or row is to be retired", "reset the GPU when nothing uses it"),
        _event((78,), "a vGPU could not be started", "update the driver of the host or of the guest"),
        _event((92,), "high rate of single-bit ECC errors", _WATCH),
        _event((93,), "the InfoROM was erased too often", _WATCH),
        _event((106, 107), "test message of the management bus", "nothing has to be done"),
        _event((108, 137), "NVLink error that comes from another GPU", "look for the errors of the other GPUs"),
        _event((121,), "C2C link error that was corrected", _WATCH),
        _event((141,), "fast path error", _WATCH),
        _event(range(144, 151), "NVLink error", _LINK),
        _event((157,), "a resource of the GPU could not be retired", _WATCH),
        _event((159,), "error on the link to the processor (CHI)", _WATCH),
        _event((160, 161), "memory channel retirement", _WATCH),
        _event(range(162, 166), "power smoothing", _NO_ACTION),
        _event((166, 170), "secure NVLink error", _NO_ACTION),
        _event((167,), "fatal PCIe timeout", _NO_ACTION),
        _event((168,), "reduced memory capacity", _NO_ACTION),
        _event((171, 172), "uncorrectable memory error", _NO_ACTION),
    )
    for entry in entries
}
